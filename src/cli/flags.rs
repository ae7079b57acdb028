//! The flags of a command, built only when the command is used.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, builder::Resettable};

use super::examples;

const GLOBAL_OPTIONS: &str = "Global options: see `ralph --help`";

/// The flags of a command, with its examples below them. The description of the command comes from
/// its place in the list of commands, not from the doc comment of `A`.
#[derive(Debug)]
pub struct Flags<A>(pub A);

impl<A: Args> Args for Flags<A> {
    fn augment_args(command: Command) -> Command {
        let about = Resettable::from(command.get_about().cloned());
        let long_about = Resettable::from(command.get_long_about().cloned());
        // clap has copied the global options by now.
        let command =
            command.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
        let command = A::augment_args(command).about(about).long_about(long_about);
        let Some(examples) = examples::of(command.get_name()) else {
            return command;
        };
        let own = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
        command
            .after_help(format!("{own}{examples}\n\n{GLOBAL_OPTIONS}"))
            .mut_subcommands(|command| command.after_help(GLOBAL_OPTIONS))
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
