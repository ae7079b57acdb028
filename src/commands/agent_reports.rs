//! `ralph task-complete`, `ask` and `note` of an agent: it speaks to its run by files in the folder of
//! its attempt, here, in a sandbox and elsewhere.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use chrono::Utc;

use super::{
    inside::{AttemptContext, refuse_beside},
    success,
    talk::{ANSWER, given},
    task_editor::live_attempt,
};
use crate::{
    adapters::state,
    cli::{Command, Flags, NoteArgs},
    core::{
        environment::AWAY,
        exit::{Exit, Failure, fail},
        graph::task::TaskId,
        loop_paths::{DONE, LEARNINGS, NOTES, WAIT},
        notes::{self, Note},
        redact::Redactor,
    },
    project::{
        attempt::{AttemptRecord, QUESTION},
        workspace::Workspace,
    },
    regular_file,
};

/// The heading for notes without a tag.
const UNTAGGED: &str = "General";

/// The attempt for which a command speaks.
pub(super) struct ReportingAttempt {
    id: String,
    number: u32,
    /// Its folder, for the run's input.
    folder: PathBuf,
    /// The working folder of its agent.
    tree: PathBuf,
    /// Secrets to hide in notes.
    secrets: Redactor,
}

/// Whether the repository of the run cannot be reached: in a sandbox or behind a worker.
pub(super) fn is_away() -> bool {
    env::var_os(AWAY).is_some()
}

/// Refuses a command about the run around this process where its repository cannot be reached.
///
/// # Errors
/// A usage error.
pub(super) fn refuse_away(command: &Command) -> Result<()> {
    let needs_repository = matches!(
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
    );
    let why = "the records of this run are outside of the sandbox or on another machine: here, an \
               attempt can use `ralph task-complete`, `ralph ask`, `ralph note` and `ralph verify`";
    ensure!(!needs_repository || !is_away(), Failure::new(Exit::Error, why));
    let to_task = matches!(command, Command::Note(Flags(options)) if options.task().is_some());
    let why = "here, notes are for dependent tasks, or with `--for-all` for every agent: leave \
               `--task` out";
    ensure!(!to_task || !is_away(), Failure::new(Exit::Usage, why));
    Ok(())
}

impl ReportingAttempt {
    /// The attempt around this process.
    ///
    /// # Errors
    /// Outside an attempt; in an ended one; in a reviewer.
    pub(super) fn around(command: &str) -> Result<ReportingAttempt> {
        refuse_beside(command)?;
        if is_away() {
            let variable =
                |name: &str| env::var(name).with_context(|| format!("`{name}` is not set"));
            return Ok(ReportingAttempt {
                id: variable("RALPH_TASK_ID")?,
                number: variable("RALPH_ATTEMPT")?.parse().context("read `RALPH_ATTEMPT`")?,
                folder: variable("RALPH_TASK_DIR")?.into(),
                tree: env::var_os("RALPH_SLOT").map(PathBuf::from).unwrap_or_default(),
                secrets: Redactor::of_variables(env::vars_os()),
            });
        }
        let inside = AttemptContext::of_environment(command)?;
        let workspace = inside.workspace()?;
        let AttemptContext { task_id, attempt, .. } = &inside;
        let store = workspace.event_store()?;
        let is_live = live_attempt(&workspace, &store, task_id)? == Some(*attempt);
        let own = is_live.then(|| ReportingAttempt::of(&workspace, task_id, *attempt)).flatten();
        own.map_or_else(
            || fail(Exit::Error, format!("attempt {attempt} at `{task_id}` has ended")),
            |own| Ok(ReportingAttempt { tree: inside.tree.clone().unwrap_or(own.tree), ..own }),
        )
    }

    /// An attempt whose record is open.
    pub(super) fn of(workspace: &Workspace, id: &TaskId, number: u32) -> Option<ReportingAttempt> {
        let records = workspace.state.peek::<AttemptRecord>();
        let record = records.iter().find(|it| it.task_id == *id && it.attempt == number)?;
        Some(ReportingAttempt {
            id: id.to_string(),
            number,
            folder: workspace.root().join(record.folder(workspace)),
            tree: workspace.root().to_owned(),
            secrets: workspace.secrets(),
        })
    }

    /// Reports this task, which is its own, as done.
    ///
    /// # Errors
    /// Another task; errors of the disk.
    pub(super) fn complete(&self, id: &str) -> Result<Exit> {
        let own = &self.id;
        if id != own {
            let why = format!(
                "`{}` is not the task of this attempt, which is `{own}`: do your own task, and leave \
                 the others to the run",
                id.escape_debug()
            );
            return fail(Exit::Usage, why);
        }
        self.change(&self.folder.join(DONE), |_| Ok(Some(String::new())))?;
        let number = self.number;
        success(&format!("{id} is reported as done; it is verified when attempt {number} ends\n"))
    }

    /// Asks a person. The task needs input when the attempt ends.
    ///
    /// # Errors
    /// The questions are too long; errors of the disk.
    pub(super) fn ask(&self, text: &str) -> Result<Exit> {
        let question = given(text, ANSWER, "a question")?;
        self.change(&self.folder.join(WAIT), |asked| {
            let whole = format!("{}\n\n{question}", asked.trim());
            let whole = whole.trim_start();
            let length = whole.chars().count();
            ensure!(
                length <= QUESTION,
                "the questions of an attempt may have {QUESTION} characters in total, not {length}; \
                 put the details in a file and name the file"
            );
            Ok(Some(format!("{whole}\n")))
        })?;
        success(&format!(
            "asked; commit finished work and exit: `{}` needs input, and its next attempt gets the \
             answer\n",
            self.id
        ))
    }

    /// Leaves a note for dependent tasks, or for every agent.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn note(&self, options: &NoteArgs) -> Result<Exit> {
        let text = given(options.text(), notes::LONGEST, "a note")?;
        // The note may be committed.
        let text = self.secrets.clone().text(&text);
        let (path, heading) = if options.for_all {
            (self.tree.join(LEARNINGS), Some(options.tag.as_deref().unwrap_or(UNTAGGED)))
        } else {
            (self.folder.join(NOTES), None)
        };
        let author = format!("{}.{}", self.id, self.number);
        let note = Note { text: &text, heading, attempt: &author, at: Utc::now() };
        if !self.change(&path, |old| Ok(notes::add(old, &note, notes::ROOM)))? {
            return success(&format!("`{}` already has this note\n", path.display()));
        }
        let hint = if options.for_all { "; commit this file with your work" } else { "" };
        success(&format!("noted in `{}`{hint}\n", path.display()))
    }

    /// Changes a file, one command after the other. Returns whether it changed.
    fn change(
        &self,
        path: &Path,
        change: impl FnOnce(&str) -> Result<Option<String>>,
    ) -> Result<bool> {
        let failed = || format!("write `{}`", path.display());
        fs::create_dir_all(&self.folder).with_context(failed)?;
        let turn = File::open(&self.folder).with_context(failed)?;
        regular_file::lock(&turn, &self.folder).with_context(failed)?;
        let old = match regular_file::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("read `{}`", path.display()))?,
        };
        let Some(new) = change(&old)? else { return Ok(false) };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(failed)?;
        }
        state::replace(path, new.as_bytes()).with_context(failed)?;
        Ok(true)
    }
}
