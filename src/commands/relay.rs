//! Commands inside a sandbox that must act outside of it: sent to the guardian of the attempt, which
//! runs them there.

use std::{
    env,
    ffi::OsString,
    io::{self, Read, Write},
    ops::ControlFlow,
    path::Path,
};

use anyhow::{Context, Result, bail};

use crate::{
    adapters::process::relay::{self, RelayRequest},
    cli::{self, Cli, Command},
    core::exit::{Exit, Failure},
};

/// The longest standard input of a relayed command.
const INPUT: u64 = 256 << 10;

/// Whether a command is run outside for an agent: what agents report, and what only reads the
/// records of `ralph`. Commands that run programs, such as `verify`, run inside.
fn is_relayed(command: &Command) -> bool {
    match command {
        Command::TaskComplete(_)
        | Command::TaskBlock(_)
        | Command::Ask(_)
        | Command::Status(_)
        | Command::Attempts(_)
        | Command::Show(_)
        | Command::Costs(_)
        | Command::Plan(_)
        | Command::Graph(_) => true,
        Command::Note(options) => options.0.task().is_none(),
        Command::DagStatus(options) => !options.0.watch,
        Command::Logs(options) => !options.0.follow,
        Command::Report(options) => options.0.file.is_none() && !options.0.html,
        _ => false,
    }
}

/// Whether a command reads standard input.
fn reads_input(command: &Command) -> bool {
    match command {
        Command::Ask(options) => options.0.text == "-",
        Command::Note(options) => options.0.text() == "-",
        _ => false,
    }
}

/// Has a command run outside, if this process is in a sandbox and the command belongs there.
///
/// # Errors
/// The guardian does not answer.
pub(super) fn forward(cli: Cli) -> Result<ControlFlow<Exit, Cli>> {
    let Some(socket) = env::var_os(relay::VARIABLE).filter(|_| is_relayed(&cli.command)) else {
        return Ok(ControlFlow::Continue(cli));
    };
    let mut input = String::new();
    if reads_input(&cli.command) {
        let text = io::stdin().take(INPUT + 1).read_to_string(&mut input);
        text.context("read standard input")?;
        if input.len() as u64 > INPUT {
            let why = format!("standard input is limited to {INPUT} bytes in a sandbox");
            return Err(Failure::new(Exit::Error, why).into());
        }
    }
    let words = env::args_os().skip(1).map(OsString::into_string);
    let Ok(arguments) = words.collect::<Result<Vec<_>, _>>() else {
        return Err(Failure::new(Exit::Usage, "the arguments must be UTF-8".to_owned()).into());
    };
    call(Path::new(&socket), arguments, input).map(ControlFlow::Break)
}

/// Has `ralph` run outside with these arguments, and prints what it prints.
///
/// # Errors
/// The guardian does not answer.
pub(super) fn call(socket: &Path, arguments: Vec<String>, input: String) -> Result<Exit> {
    let answer = relay::call(socket, &RelayRequest { arguments, input })
        .with_context(|| format!("reach the guardian at `{}`", socket.display()))?;
    // A reader of the pipe may stop early, as `head` does.
    let _ = io::stdout().write_all(answer.output.as_bytes());
    let _ = io::stderr().write_all(answer.errors.as_bytes());
    Ok(Exit::Child(u8::try_from(answer.code).unwrap_or(1)))
}

/// Runs a command that an agent in a sandbox sent.
///
/// # Errors
/// A command that is not relayed, or with options that lead elsewhere; errors of the command.
pub(super) fn relayed(words: &[String]) -> Result<Exit> {
    if !relay::is_relayed() || env::var_os(relay::VARIABLE).is_some() {
        bail!("this is a command of `ralph` itself");
    }
    let refuse = |why: String| Err(Failure::new(Exit::Usage, why).into());
    let words = ["ralph".to_owned()].into_iter().chain(words.iter().cloned());
    let Some(cli) = cli::parse(words.map(OsString::from))? else {
        return Ok(Exit::Success);
    };
    if !is_relayed(&cli.command) {
        return refuse("this command does not work inside a sandbox".to_owned());
    }
    let is_own = |name: &str, path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| path.as_os_str()) == env::var_os(name).as_deref()
    };
    if cli.directory.is_some()
        || !is_own("RALPH_GRAPH", &cli.graph)
        || !is_own("RALPH_CONFIG", &cli.config)
    {
        return refuse(
            "`-C`, `--graph` and `--config` do not work inside a sandbox; leave them out"
                .to_owned(),
        );
    }
    super::execute(cli)
}
