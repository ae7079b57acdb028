//! What a draft is for, the check of a draft against it, and the way into the graph file.

use std::collections::BTreeSet;

use anyhow::Result;
use chrono::Utc;
use serde_json::Value;

use super::say;
use crate::{
    adapters::excerpt,
    commands::{
        Invocation, check,
        task_editor::{TaskEditor, live_attempt, unsupported, usage},
    },
    core::{
        exit::{Exit, Failure, fail},
        graph::{
            TaskGraph,
            drafted::{DraftAim, DraftRefusal, DraftedTasks, drafted},
            filter::Filter,
            lint::{LintFinding, diagnostics},
            task::TaskId,
        },
        select::Policy,
        setup,
    },
    project::{
        graph_change::{create_file, record},
        graph_file::{GraphFile, graph_of},
        workspace::{Workspace, checkout_graph, find, view},
    },
    view::{lines::counted, picture::GraphPicture},
};

/// The name of a draft in its errors.
const NAME: &str = "draft.yaml";

/// The graph that a draft is for.
pub(super) struct DraftTarget {
    /// What the draft is for.
    pub(super) aim: DraftAim,
    name: String,
    /// The text of the graph; none if the draft becomes the graph.
    base: Option<String>,
    /// The ids that the history knows.
    used: BTreeSet<TaskId>,
    /// Whether the file has only the examples of `ralph init`, which the draft replaces.
    pub(super) has_examples: bool,
}

/// A valid draft.
pub(super) struct CheckedDraft {
    /// Its text.
    pub(super) answer: String,
    /// Its tasks.
    pub(super) ids: Vec<TaskId>,
    /// The remarks about its tasks.
    pub(super) findings: Vec<LintFinding>,
    /// The graph with them.
    file: GraphFile,
}

impl DraftTarget {
    /// Finds what a draft is for.
    ///
    /// # Errors
    /// A graph with tasks, if it is neither to be extended nor a task of it to be split; an invalid
    /// graph; a task that cannot be split.
    pub(super) fn open(
        workspace: &Workspace,
        extends: bool,
        split: Option<&str>,
    ) -> Result<DraftTarget> {
        let name = workspace.graph_name();
        let store = workspace.event_store()?;
        let used = store.history().used_ids();
        let target = |aim, base, has_examples| {
            let (name, used) = (name.clone(), used.clone());
            DraftTarget { aim, name, base, used, has_examples }
        };
        if split.is_none() && workspace.graph_path().symlink_metadata().is_err() {
            return Ok(target(DraftAim::New, None, false));
        }
        let file = checkout_graph(workspace)?;
        let text = Some(file.text().to_owned());
        if let Some(typed) = split {
            let (id, number) = find(&file, typed)?;
            let status = file.graph().task(number).status;
            if status.is_over() {
                return usage(format!("`{id}` is {status}; only an open task can be split"));
            }
            if let Some(attempt) = live_attempt(workspace, &store, &id)? {
                return fail(
                    Exit::Running,
                    format!("attempt {attempt} at `{id}` is running; stop the run first"),
                );
            }
            return Ok(target(DraftAim::Split(id), text, false));
        }
        if extends || file.graph().tasks().is_empty() {
            return Ok(target(DraftAim::Extend, text, false));
        }
        if setup::is_example(file.text()) {
            return Ok(target(DraftAim::New, None, true));
        }
        let count = counted(file.graph().tasks().len(), "task");
        usage(format!(
            "`{name}` has {count}; `--extend` adds to them, and `--graph FILE` drafts another graph"
        ))
    }

    /// The text of the graph, if there is one.
    pub(super) fn base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// The tasks of the graph, one a line.
    pub(super) fn tasks(&self) -> Vec<String> {
        let graph = self.base().and_then(|text| graph_of(text.as_bytes()));
        let tasks = graph.iter().flat_map(TaskGraph::tasks);
        let tasks =
            tasks.filter(|task| !matches!(&self.aim, DraftAim::Split(id) if *id == task.id));
        tasks.map(|task| format!("{} ({}): {}", task.id, task.status, task.title)).collect()
    }

    /// Checks that the layout of the graph allows the edit, before an agent is paid for it.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn try_layout(&self) -> Result<()> {
        let graph = self.base().and_then(|text| graph_of(text.as_bytes()));
        let is_free = |id: &String| {
            let id = TaskId::new(id).ok();
            !graph.iter().any(|graph| id.as_ref().is_some_and(|id| graph.number(id).is_some()))
        };
        let mut names = (1..).map(|number| format!("draft-{number}"));
        let id = names.find(is_free).unwrap_or_default();
        self.drafted(&format!("tasks:\n- id: {id}\n"), self.base()).map(drop)
    }

    /// The draft in the graph `base`. An invalid one is returned as its errors, drawn.
    ///
    /// # Errors
    /// The layout of the graph.
    fn drafted(&self, draft: &str, base: Option<&str>) -> Result<Result<DraftedTasks, String>> {
        match drafted(draft, base, &self.aim, &self.used) {
            Ok(done) => Ok(Ok(done)),
            Err(DraftRefusal::Layout(why)) => Err(unsupported(&self.name)(why)),
            Err(DraftRefusal::Unfit { text, faults }) => {
                Ok(Err(excerpt::render(NAME, &text, &faults, false)))
            }
        }
    }

    /// Returns the text of the graph with the draft, given its current text.
    ///
    /// # Errors
    /// The errors of the draft, drawn; the layout of the graph.
    pub(super) fn put_into(&self, current: Option<&str>, draft: &str) -> Result<String> {
        let base = current.filter(|current| !(self.has_examples && setup::is_example(current)));
        let done = self.drafted(draft, base)?;
        Ok(done.map_err(|drawn| Failure::drawn(Exit::Invalid, drawn))?.text)
    }

    /// Checks a draft. An invalid one is returned as its errors, drawn.
    ///
    /// # Errors
    /// The layout of the graph.
    pub(super) fn check(
        &self,
        workspace: &Workspace,
        answer: &str,
    ) -> Result<Result<CheckedDraft, String>> {
        let done = match self.drafted(answer, self.base())? {
            Ok(done) => done,
            Err(drawn) => return Ok(Err(drawn)),
        };
        let path = workspace.graph_path();
        let file = match GraphFile::assume(path, &self.name, &done.text) {
            Ok(file) => file,
            Err(rejected) => return Ok(Err(rejected.summary())),
        };
        let mut findings = check::remarks(workspace, file.graph());
        findings.retain(|found| done.ids.contains(&file.graph().task(found.task).id));
        Ok(Ok(CheckedDraft { answer: answer.to_owned(), ids: done.ids, findings, file }))
    }
}

impl CheckedDraft {
    /// The remarks, drawn; empty if there are none.
    pub(super) fn remarks(&self, color: bool) -> String {
        let name = self.file.name();
        let found = diagnostics(self.file.document(), &self.findings);
        if found.is_empty() {
            return String::new();
        }
        // Without a graph around it, the lines are those of the draft.
        let name = if self.file.graph().tasks().len() == self.ids.len() { NAME } else { name };
        excerpt::render(name, self.file.text(), &found, color)
    }

    /// The commands that its tasks run on this machine, and the paths that their agents read first,
    /// one a line.
    pub(super) fn effects(&self) -> Vec<String> {
        let graph = self.file.graph();
        let tasks = || self.ids.iter().filter_map(|id| Some(graph.task(graph.number(id)?)));
        let runs = tasks().flat_map(|task| {
            let commands = task.verify.iter();
            let indented = |command: &String| command.trim_end().replace('\n', "\n      ");
            commands.map(move |command| format!("  {}: {}", task.id, indented(command)))
        });
        let reads = tasks().filter_map(|task| {
            let path = match task.extra.get("path")? {
                Value::String(path) => path.clone(),
                other => other.to_string(),
            };
            Some(format!("  {}: {path}", task.id))
        });
        let titled = |title: &str, lines: Vec<String>| {
            let title = (!lines.is_empty()).then(|| title.to_owned());
            title.into_iter().chain(lines)
        };
        titled("these `verify` commands run on this machine:", runs.collect())
            .chain(titled("these `path`s are given to the agents:", reads.collect()))
            .collect()
    }

    /// The picture of its tasks.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn picture(&self, workspace: &Workspace) -> Result<GraphPicture> {
        let store = workspace.event_store()?;
        let filter = Filter { tasks: self.ids.clone(), ..Filter::default() };
        let policy = Policy { filter, ..workspace.policy() };
        let view = view(&self.file, store.history(), &policy);
        Ok(GraphPicture::of(&view, self.file.name(), Utc::now()))
    }
}

/// Puts the draft into the graph.
///
/// # Errors
/// The graph has changed so that the draft does not fit; errors of the disk.
pub(super) fn keep(
    invocation: &Invocation,
    workspace: &Workspace,
    target: &DraftTarget,
    draft: &str,
) -> Result<Exit> {
    let name = workspace.graph_name();
    let ids = if target.base().is_none() && !target.has_examples {
        create(workspace, target, draft)?
    } else {
        let mut editor = TaskEditor::for_person(invocation, "draft")?;
        let found = editor.change(|file| target.put_into(Some(file.text()), draft).map(Some))?;
        found.into_iter().filter(|one| one.old.is_none()).map(|one| one.task_id).collect()
    };
    let ralph = workspace.typed_command();
    say(&format!("kept {} in {name}; `{ralph} run` works on them", counted(ids.len(), "task")));
    Ok(Exit::Success)
}

/// Writes a new graph file.
fn create(workspace: &Workspace, target: &DraftTarget, draft: &str) -> Result<Vec<TaskId>> {
    let text = target.put_into(None, draft)?;
    let found = create_file(workspace, &text)?;
    record(&mut workspace.event_store()?, &found)?;
    Ok(found.into_iter().map(|one| one.task_id).collect())
}
