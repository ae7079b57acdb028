//! The reporter that opens a tmux window for each attempt. Nothing waits for it or depends on it.

use std::{path::PathBuf, thread};

use crate::{
    adapters::{process, tmux},
    core::{
        event::{AttemptEvent, Event, record::Record},
        select::View,
    },
    project::workspace::Workspace,
    runner::Reporter,
};

/// A reporter that opens a window with the output of each attempt that starts.
pub struct WindowReporter {
    root: PathBuf,
    /// The name of the tmux server's group of windows, if this process is in none.
    group: String,
    /// The flag that selects a loop.
    flag: Vec<String>,
}

impl WindowReporter {
    /// Returns a reporter for a run in this repository.
    pub fn new(workspace: &Workspace) -> WindowReporter {
        let root = workspace.root().to_owned();
        let folder = root.file_name().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_alphanumeric() { c } else { '-' };
        let group = "ralph-".chars().chain(folder.chars().map(plain)).collect();
        let flag = workspace.place.flag().split_whitespace().map(str::to_owned).collect();
        WindowReporter { root, group, flag }
    }
}

impl Reporter for WindowReporter {
    fn record(&mut self, record: &Record, _view: &View<'_>) {
        let (Event::Attempt(AttemptEvent::Started { attempt, .. }), Some(id)) =
            (&record.event, &record.task_id)
        else {
            return;
        };
        let title = format!("{id}.{attempt}");
        let Ok(program) = process::own_file() else { return };
        let mut command = vec![program.display().to_string(), "attach".to_owned()];
        if self.flag.is_empty() {
            command.push(id.to_string());
        }
        command.extend(self.flag.iter().cloned());
        let (group, root) = (self.group.clone(), self.root.clone());
        thread::spawn(move || tmux::open_window(&group, &title, &root, &command));
    }
}
