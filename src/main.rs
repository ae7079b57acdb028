//! The `ralph` program: runs one command, prints its error and sets the exit code.

use std::process::ExitCode;

use ralph::{
    adapters::{git, terminal},
    cli, commands,
    core::exit,
};

fn main() -> ExitCode {
    let result = git::leave_repository()
        .map_err(anyhow::Error::from)
        .and_then(|()| cli::parse(std::env::args_os()))
        .and_then(|cli| cli.map_or(Ok(exit::Exit::Success), commands::execute));
    let exit = result.unwrap_or_else(|error| {
        let drawn = error.downcast_ref::<exit::Failure>().is_some_and(|failure| failure.is_drawn);
        terminal::say(&if drawn {
            format!("{error}")
        } else {
            format!("ralph: error: {}", exit::words(&error))
        });
        exit::of_error(&error)
    });
    ExitCode::from(exit.code())
}
