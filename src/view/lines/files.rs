//! The lines of the files that people write: the graph, the settings and the sources of tasks.

use super::{Line, counted, first_paths, line, named};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Event, Harm, SourceFailed, SourceUpdated},
        graph::task::TaskId,
    },
};

/// Returns the lines of such an event.
pub(super) fn lines(event: &Event) -> Vec<Line> {
    let shown = if let Event::GraphLoaded { tasks, complete } = event {
        line(None, format!("{}, {complete} complete", counted(*tasks, "task")))
    } else if let Event::GraphRejected { error } = event {
        line(Style::Bad, format!("no task starts, because the graph file cannot be read: {error}"))
    } else if let Event::UncommittedFound { paths, more } = event {
        let files = first_paths(paths, *more);
        line(Style::Warn, format!("not committed before the run, and open to attempts: {files}"))
    } else if let Event::GraphGuarded { what, tasks, undone, kept } = event {
        line(Style::Bad, guarded(*what, tasks, *undone, kept.as_deref()))
    } else if let Event::SettingsLoaded { changed } = event {
        line(None, format!("settings changed: {}", changed.join(", ")))
    } else if let Event::SettingsRejected { error } = event {
        let text =
            format!("the changed settings are not used; the previous ones stay in effect: {error}");
        line(Style::Bad, text)
    } else if let Event::SourceRefreshed(source) = event {
        line(None, format!("source `{}`: {}", source.source, source.what))
    } else if let Event::SourceUpdated(source) = event {
        line(None, updated(source))
    } else if let Event::SourceFailed(source) = event {
        let SourceFailed { source, why } = source;
        let what = if source.contains("://") {
            format!("cannot close {source}")
        } else {
            format!("cannot mark tasks as done in `{source}`")
        };
        let text = format!("{what}: {why}; the next run tries again");
        line(Style::Warn, text)
    } else {
        return Vec::new();
    };
    vec![shown]
}

fn updated(source: &SourceUpdated) -> String {
    let tasks = named(&source.tasks.iter().map(TaskId::as_str).collect::<Vec<_>>());
    let name = &source.source;
    if source.is_issue() {
        return format!("closed {name}: {tasks} is complete");
    }
    let commit = match (&source.commit, &source.uncommitted) {
        (Some(commit), _) => format!(" in {}", commit.get(..7).unwrap_or(commit)),
        (None, Some(why)) => format!(", not committed: {why}"),
        (None, None) => String::new(),
    };
    format!("{tasks}: marked as done in `{name}`{commit}")
}

fn guarded(what: Harm, tasks: &[TaskId], undone: bool, kept: Option<&str>) -> String {
    let names = named(&tasks.iter().map(TaskId::as_str).collect::<Vec<_>>());
    let kept = kept.map_or(String::new(), |kept| format!("; the replaced file is kept as {kept}"));
    match (what, undone) {
        (Harm::Damaged, _) => {
            format!(
                "the attempt left the graph file unreadable; the last valid version is restored{kept}"
            )
        }
        (Harm::Deleted, _) => {
            "the attempt left no graph file; the last valid version is restored".to_owned()
        }
        (Harm::Finished, _) => {
            let first = tasks.first().map_or("ID", TaskId::as_str);
            format!(
                "set to complete or cancelled during the attempt, and restored: {names}; only its own \
                 attempt or a person completes a task (`ralph task-complete {first}`)"
            )
        }
        (Harm::Dropped, true) => format!(
            "the attempt committed a graph without {names}; the version before the attempt is restored{kept}"
        ),
        (Harm::OwnCopy, _) if tasks.is_empty() => {
            "the attempt left the graph in its slot unreadable; its changes are discarded"
                .to_owned()
        }
        (Harm::OwnCopy, _) => format!(
            "the attempt changed {names} in the graph of its slot; the changes are discarded"
        ),
        (Harm::NewElsewhere, _) => format!(
            "new tasks of the attempt are discarded, because they would run elsewhere than it: \
             {names}; give them the same `run_on`"
        ),
        (Harm::NewInvalid, _) => format!(
            "new tasks of the attempt are discarded, because the graph would be invalid with them: \
             {names}"
        ),
        (Harm::Changed, _) => format!(
            "{names} changed in the graph during the attempt; a person may have done that, so the \
             change is kept"
        ),
        (Harm::Dropped, false) => format!(
            "the attempt committed a graph without {names}; the file was also edited, and is \
             left as it is"
        ),
    }
}
