//! What is said of the files that people write: the graph and the settings.

use super::{Line, counted, line, named};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Event, Harm},
        graph::task::TaskId,
    },
};

/// What is said of such an event.
pub(super) fn lines(event: &Event) -> Vec<Line> {
    let said = if let Event::GraphLoaded { tasks, complete } = event {
        line(None, format!("{}, {complete} complete", counted(*tasks, "task")))
    } else if let Event::GraphRejected { error } = event {
        line(Style::Bad, format!("the graph file cannot be read: {error}"))
    } else if let Event::GraphGuarded { what, tasks, undone, kept } = event {
        line(Style::Bad, guarded(*what, tasks, *undone, kept.as_deref()))
    } else if let Event::SettingsLoaded { changed } = event {
        line(None, format!("settings changed: {}", changed.join(", ")))
    } else if let Event::SettingsRejected { error } = event {
        let text = format!("the settings cannot be read, and stay as they were: {error}");
        line(Style::Bad, text)
    } else {
        return Vec::new();
    };
    vec![said]
}

fn guarded(what: Harm, tasks: &[TaskId], undone: bool, kept: Option<&str>) -> String {
    let names = named(&tasks.iter().map(TaskId::as_str).collect::<Vec<_>>());
    let kept = kept.map_or(String::new(), |kept| format!("; what it left is kept in {kept}"));
    match (what, undone) {
        (Harm::Damaged, _) => {
            format!("the attempt left the graph file unreadable; the last good one is back{kept}")
        }
        (Harm::Deleted, _) => {
            "the attempt left no graph file; the last good one is back".to_owned()
        }
        (Harm::Finished, _) => format!(
            "the attempt committed a graph in which {names} is complete or cancelled, which is not \
             its task; put back"
        ),
        (Harm::Dropped, true) => format!(
            "the attempt committed a graph without {names}; the one from before it is back{kept}"
        ),
        (Harm::OwnCopy, _) if tasks.is_empty() => {
            "the attempt left the graph in its worktree unreadable; nothing of it is taken over"
                .to_owned()
        }
        (Harm::OwnCopy, _) => format!(
            "the attempt changed what the graph in its worktree says of {names}; that is not taken over"
        ),
        (Harm::Changed, _) => format!(
            "while the attempt ran, what the graph says of {names} was changed; a person may have \
             done that, so it stays"
        ),
        (Harm::Dropped, false) => format!(
            "the attempt committed a graph without {names}; the file was also edited, and is \
             left as it is"
        ),
    }
}
