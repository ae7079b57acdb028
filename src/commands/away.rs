//! What an agent reports where the repository of the run cannot be written, in a sandbox or behind a
//! worker: files in the folder of the task, which the run reads.

use std::{
    env,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    inside::refuse_beside,
    success,
    talk::{self, ANSWER},
};
use crate::{
    cli::{Cli, Command, NoteArgs},
    core::{
        environment::AWAY,
        exit::{Exit, Failure},
        loop_paths::{self, DONE, WAIT},
        notes::{self, Note},
        redact::Redactor,
    },
    regular_file,
};

/// The attempt around this process.
struct AwayAttempt {
    id: String,
    number: String,
    folder: PathBuf,
}

/// Handles a command of an agent that is away from the repository of the run, if the command needs it.
///
/// # Errors
/// A command that only works in that repository; errors of the disk.
pub(super) fn forward(cli: Cli) -> Result<ControlFlow<Exit, Cli>> {
    if env::var_os(AWAY).is_none() {
        return Ok(ControlFlow::Continue(cli));
    }
    let exit = match cli.command {
        Command::TaskComplete(options) => AwayAttempt::around()?.complete(&options.0.id),
        Command::Ask(options) => AwayAttempt::around()?.ask(&options.0.text),
        Command::Note(options) => AwayAttempt::around()?.note(&options.0),
        command if needs_repository(&command) => Err(Failure::new(
            Exit::Error,
            "the records of this run are outside of the sandbox or on another machine: here, an \
             attempt can use `ralph task-complete`, `ralph ask`, `ralph note` and `ralph verify`",
        )
        .into()),
        command => return Ok(ControlFlow::Continue(Cli { command, ..cli })),
    };
    exit.map(ControlFlow::Break)
}

/// Whether a command is about the run around this process.
fn needs_repository(command: &Command) -> bool {
    matches!(
        command,
        Command::TaskBlock(_)
            | Command::TaskReset(_)
            | Command::Answer(_)
            | Command::Status(_)
            | Command::DagStatus(_)
            | Command::Plan(_)
            | Command::Show(_)
            | Command::Attempts(_)
            | Command::Logs(_)
            | Command::Costs(_)
            | Command::Report(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Stop(_)
    )
}

impl AwayAttempt {
    fn around() -> Result<AwayAttempt> {
        let variable = |name: &str| env::var(name).with_context(|| format!("`{name}` is not set"));
        Ok(AwayAttempt {
            id: variable("RALPH_TASK_ID")?,
            number: variable("RALPH_ATTEMPT")?,
            folder: variable("RALPH_TASK_DIR")?.into(),
        })
    }

    fn complete(&self, id: &str) -> Result<Exit> {
        refuse_beside("task-complete")?;
        if id != self.id {
            let message = format!(
                "`{}` is not the task of this attempt, which is `{}`: do your own task, and leave \
                 the others to the run",
                id.escape_debug(),
                self.id
            );
            return Err(Failure::new(Exit::Usage, message).into());
        }
        write(&self.folder.join(DONE), "")?;
        let number = &self.number;
        success(&format!("{id} is reported as done; it is verified when attempt {number} ends\n"))
    }

    fn ask(&self, text: &str) -> Result<Exit> {
        refuse_beside("ask")?;
        let question = talk::given(text, ANSWER, "a question")?;
        let path = self.folder.join(WAIT);
        let asked = regular_file::read_to_string(&path).unwrap_or_default();
        write(&path, format!("{asked}\n{question}\n").trim_start())?;
        success(&format!(
            "asked; commit finished work and exit: `{}` needs input, and its next attempt gets the \
             answer\n",
            self.id
        ))
    }

    fn note(&self, options: &NoteArgs) -> Result<Exit> {
        if options.task().is_some() {
            let message = "here, notes are for dependent tasks, or with `--for-all` for every agent: \
                           leave `--task` out";
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let text = talk::given(options.text(), notes::LONGEST, "a note")?;
        // The note may be committed.
        let text = Redactor::of_variables(env::vars_os()).text(&text);
        let (path, heading) = if options.for_all {
            let tag = options.tag.as_deref().unwrap_or(talk::UNTAGGED);
            let slot = env::var_os("RALPH_SLOT").map(PathBuf::from).unwrap_or_default();
            (slot.join(loop_paths::LEARNINGS), Some(tag))
        } else {
            (self.folder.join(loop_paths::NOTES), None)
        };
        let old = regular_file::read_to_string(&path).unwrap_or_default();
        let author = format!("{}.{}", self.id, self.number);
        let note = Note { text: &text, heading, attempt: &author, at: Utc::now() };
        let Some(new) = notes::add(&old, &note, notes::ROOM) else {
            return success("the file already has this note\n");
        };
        write(&path, &new)?;
        let hint = if options.for_all { "; commit the file with your work" } else { "" };
        success(&format!("noted in `{}`{hint}\n", path.display()))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let write = || {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        regular_file::write(path, text.as_bytes())
    };
    write().with_context(|| format!("write `{}`", path.display()))
}
