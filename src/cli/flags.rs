//! The flags of a command, made when it is asked for: those of all the others would be made and
//! thrown away at every start.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, builder::Resettable};

use super::examples;

/// The flags of a command, below which its examples stand. What the command is for is said where it
/// is listed, and not by the doc comment of `A`.
#[derive(Debug)]
pub struct Flags<A>(pub A);

impl<A: Args> Args for Flags<A> {
    fn augment_args(command: Command) -> Command {
        let about = Resettable::from(command.get_about().cloned());
        let long_about = Resettable::from(command.get_long_about().cloned());
        let command = A::augment_args(command).about(about).long_about(long_about);
        let Some(examples) = examples::of(command.get_name()) else {
            return command;
        };
        let own = command.get_after_help().map(|text| format!("{text}\n\n"));
        command.after_help(own.unwrap_or_default() + &examples)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<A: Args> FromArgMatches for Flags<A> {
    fn from_arg_matches(found: &ArgMatches) -> Result<Flags<A>, Error> {
        A::from_arg_matches(found).map(Flags)
    }

    fn from_arg_matches_mut(found: &mut ArgMatches) -> Result<Flags<A>, Error> {
        A::from_arg_matches_mut(found).map(Flags)
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(found)
    }
}
