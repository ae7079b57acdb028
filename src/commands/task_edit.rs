//! `ralph task-edit`: changes a task, by flags or in an editor.

use std::{
    env, fs,
    io::{self, BufRead as _},
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    Invocation,
    task_add::{check_name, fields_of, line},
    task_editor::{ChangeCommand, TaskEditor, live_attempt, shown, unsupported, usage},
};
use crate::{
    adapters::{signal, state, terminal},
    cli::TaskEditArgs,
    core::{
        exit::{self, Exit, Failure},
        graph::{
            load,
            merge::{Conflict, Texts, merge},
            task::TaskId,
            task_edit::{
                Relink, TaskDifference, differences, piece, relink, replace_piece, set_fields,
            },
            yaml::Document,
        },
    },
    project::{fatal::invalid, graph_file::GraphFile, workspace::find},
    regular_file,
};

/// Changes a task.
///
/// # Errors
/// An unknown task, an invalid field, a change that makes the graph invalid; inside an attempt.
pub fn run(invocation: &Invocation, options: &TaskEditArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_person(invocation, "task-edit")?;
    let (id, _) = find(&editor.file, &options.id)?;
    let fields = fields(invocation, options)?;
    let links = links(&editor, &id, options)?;
    let found = if fields.is_empty() && links.is_empty() {
        in_editor(&mut editor, &id)?
    } else {
        let name = editor.file.name().to_owned();
        let edit = |file: &GraphFile| {
            let refuse = unsupported(&name);
            let text = set_fields(file.text(), &id, &fields).map_err(&refuse)?;
            relink(&text, &links).map(Some).map_err(&refuse)
        };
        editor.change(&ChangeCommand::of("task-edit", std::slice::from_ref(&id)), edit)?
    };
    if !found.is_empty() {
        editor.warn_if_live(&id)?;
    }
    editor.print(&id, options.json, &told(&id, &found))?;
    Ok(Exit::Success)
}

/// What changed, on one line.
fn told(id: &TaskId, found: &[TaskDifference]) -> String {
    let mut parts = Vec::new();
    for change in found {
        let mut what = change.fields.clone();
        if change.old != change.new {
            what.push("status".to_owned());
        }
        parts.push(format!("{}: {} changed", change.id, what.join(", ")));
    }
    if parts.is_empty() { format!("{id} is unchanged") } else { parts.join("; ") }
}

/// The fields to set, and those to remove.
fn fields(invocation: &Invocation, options: &TaskEditArgs) -> Result<Vec<(String, Option<Value>)>> {
    let mut fields: Vec<(String, Option<Value>)> = Vec::new();
    if let Some(title) = &options.title {
        fields.push(("title".to_owned(), Some(Value::from(line(title, "the title")?))));
    }
    let set = fields_of(invocation, &options.fields)?;
    fields.extend(set.into_iter().map(|(name, value)| (name, Some(value))));
    for name in &options.unset {
        check_name(name)?;
        fields.push((name.clone(), None));
    }
    for (at, (name, _)) in fields.iter().enumerate() {
        if fields[..at].iter().any(|(other, _)| other == name) {
            return usage(format!("`{name}` is changed twice"));
        }
    }
    Ok(fields)
}

fn links(editor: &TaskEditor, id: &TaskId, options: &TaskEditArgs) -> Result<Vec<Relink>> {
    let mut links = vec![Relink {
        id: id.clone(),
        add: editor.find_all(&options.fields.after)?,
        remove: editor.find_all(&options.not_after)?,
    }];
    let (mut add, mut remove) = (vec![id.clone()], Vec::new());
    for others in [&options.fields.before, &options.not_before] {
        for other in editor.find_all(others)? {
            links.push(Relink { id: other, add: add.clone(), remove: remove.clone() });
        }
        (add, remove) = (remove, add);
    }
    links.retain(|link| !link.add.is_empty() || !link.remove.is_empty());
    for (at, link) in links.iter().enumerate() {
        if links[..at].iter().any(|other| other.id == link.id) {
            return usage(format!("the dependencies of `{}` are changed twice", link.id));
        }
    }
    Ok(links)
}

/// Opens the task in an editor until its text is valid or the person gives up.
fn in_editor(editor: &mut TaskEditor, id: &TaskId) -> Result<Vec<TaskDifference>> {
    let program = program()?;
    let name = editor.file.name().to_owned();
    let base = editor.file.text().to_owned();
    let original = piece(&base, id).map_err(unsupported(&name))?;
    let draft = TaskDraft::new(editor, id)?;
    let is_editing = Arc::new(AtomicBool::new(true));
    let heard = Arc::clone(&is_editing);
    // Ctrl-C in the editor is for the editor.
    signal::listen(move |number| {
        if !heard.load(Ordering::Relaxed) {
            process::exit(128 + number);
        }
    })?;
    let mut typed = original.clone();
    loop {
        draft.write(&typed)?;
        is_editing.store(true, Ordering::Relaxed);
        let status = open(&program, &draft.path);
        is_editing.store(false, Ordering::Relaxed);
        let status = status.with_context(|| format!("run the editor `{program}`"))?;
        typed = match draft.read() {
            Ok(text) => text,
            // Some text that is not UTF-8 may be all that the person has.
            Err(why) => return Err(draft.refuse(Exit::Error, &format!("{why:#}"), true)),
        };
        if !status.success() {
            let why = format!("the editor `{program}` failed ({status})");
            return Err(draft.refuse(Exit::Error, &why, typed != original));
        }
        if typed.trim().is_empty() {
            let hint = format!("the text is empty; `ralph task-remove {id}` removes the task");
            terminal::say(&hint);
        }
        if typed == original || typed.trim().is_empty() {
            draft.remove();
            return Ok(Vec::new());
        }
        let live = live_attempt(&editor.workspace, &editor.store, id)?;
        let edit = |file: &GraphFile| {
            let text = file.text();
            let new = edited(text, &base, id, &typed, &name)?;
            let changes_status = || differences(text, &new, &[]).iter().any(|it| it.old != it.new);
            match live {
                Some(attempt) if changes_status() => Err(status_is_taken(id, attempt)),
                _ => Ok(Some(new)),
            }
        };
        let command = ChangeCommand::of("task-edit", std::slice::from_ref(id));
        // Alone, the text has its errors where they are, and not in the next task.
        let error = match draft.check(&typed).and_then(|()| editor.change(&command, edit)) {
            Ok(found) => {
                draft.remove();
                return Ok(found);
            }
            Err(error) => error,
        };
        terminal::say(&exit::words(&error));
        if !asks_again() {
            return Err(draft.refuse(Exit::Invalid, &format!("`{id}` is unchanged"), true));
        }
    }
}

/// The text of the graph with the typed text in place of the task. Changes of the file since it was
/// opened are kept.
fn edited(text: &str, base: &str, id: &TaskId, typed: &str, name: &str) -> Result<String> {
    let theirs = replace_piece(base, id, typed).map_err(unsupported(name))?;
    if text == base {
        return Ok(theirs);
    }
    let conflict = |what: &str| {
        let message = format!("`{name}` has changed since the editor was opened: {what}");
        anyhow::Error::from(Failure::new(Exit::Error, message))
    };
    let merged = merge(Texts { base, ours: text, theirs: &theirs })
        .map_err(|refused| conflict(&refused.reason))?;
    match merged.conflicts.as_slice() {
        [] => Ok(merged.text),
        conflicts => {
            let places: Vec<String> = conflicts.iter().map(Conflict::place).collect();
            Err(conflict(&places.join(", ")))
        }
    }
}

/// The refusal to change the status of a task that an attempt works on.
fn status_is_taken(id: &TaskId, attempt: u32) -> anyhow::Error {
    let message =
        format!("attempt {attempt} at `{id}` is running; leave its status to the run, or stop it");
    Failure::new(Exit::Running, message).into()
}

/// The editor of the person, a shell command.
fn program() -> Result<String> {
    let named = ["VISUAL", "EDITOR"].iter().filter_map(|name| env::var(name).ok());
    match named.into_iter().find(|program| !program.trim().is_empty()) {
        Some(program) => Ok(program),
        None if terminal::can_ask() => Ok("vi".to_owned()),
        None => usage("no editor: set $VISUAL or $EDITOR, or change fields by flags, as `--title`"),
    }
}

fn open(program: &str, path: &Path) -> io::Result<process::ExitStatus> {
    Command::new("sh").args(["-c", &format!("{program} \"$@\""), program]).arg(path).status()
}

/// Asks whether to open the editor again. No answer means no.
fn asks_again() -> bool {
    if !terminal::can_ask() {
        return false;
    }
    terminal::say("Edit again? [Y/n]");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok_and(|bytes| bytes > 0) && !answer.trim().to_lowercase().starts_with('n')
}

/// The file that an editor changes.
struct TaskDraft {
    path: PathBuf,
    durable: bool,
}

impl TaskDraft {
    fn new(editor: &TaskEditor, id: &TaskId) -> Result<TaskDraft> {
        let folder = editor.workspace.state.dir().join("edit");
        fs::create_dir_all(&folder).context("create the folder of the text to edit")?;
        let path = folder.join(format!("{id}-{}.yaml", process::id()));
        Ok(TaskDraft { path, durable: editor.workspace.config.fsync })
    }

    fn write(&self, text: &str) -> Result<()> {
        state::replace(&self.path, text.as_bytes(), self.durable)
            .with_context(|| format!("write `{}`", shown(&self.path)))
    }

    /// Reads what the editor left. A removed file is an empty text.
    fn read(&self) -> Result<String> {
        match regular_file::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.context("cannot read what the editor left"),
        }
    }

    /// Checks that a text is YAML.
    fn check(&self, text: &str) -> Result<()> {
        match Document::parse(text) {
            Ok(_) => Ok(()),
            Err(fault) => Err(invalid(&shown(&self.path), text, &[load::diagnostic(fault)])),
        }
    }

    fn remove(&self) {
        // A file that stays is harmless.
        let _ = fs::remove_file(&self.path);
    }

    /// The error that ends the command. A typed text stays.
    fn refuse(&self, exit: Exit, why: &str, keeps: bool) -> anyhow::Error {
        let kept = if keeps {
            format!("; what you typed is in {}", shown(&self.path))
        } else {
            self.remove();
            "; nothing is changed".to_owned()
        };
        Failure::new(exit, format!("{why}{kept}")).into()
    }
}
