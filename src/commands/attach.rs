//! `ralph attach`: shows the terminal or the output of a running agent.

use anyhow::Result;

use super::{
    Invocation,
    journal_reader::RecordFilter,
    listen::{self, ListenOptions, Voice},
    logs::without_reader,
    status::look,
};
use crate::{
    adapters::{terminal, tmux},
    cli::AttachArgs,
    core::exit::{Exit, Failure},
    project::{attempt::AttemptRecord, workspace::Workspace},
    view::run::Standing,
};

/// Shows the agent until the run ends or the user detaches. The run is not affected.
///
/// # Errors
/// No attempt is running, or none at that task; errors of the disk and of tmux.
pub fn run(invocation: &Invocation, options: &AttachArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let about = RecordFilter::new(options.id.as_deref(), None)?;
    let (store, live) = look(&workspace)?;
    let history = store.history();
    if !live {
        let how = match Standing::of(history, live) {
            Standing::None => "`ralph run` starts a run".to_owned(),
            standing => format!(
                "the last run is {}; `ralph logs{} --output` shows its output",
                standing.word(),
                workspace.place.flag()
            ),
        };
        return Err(Failure::new(Exit::Error, format!("no run is active: {how}")).into());
    }
    let open = &history.active.attempts;
    let names: Vec<String> = open.iter().map(|open| format!("`{}`", open.task_id)).collect();
    let names = names.join(", ");
    let message = match &about.task {
        None if open.len() > 1 => {
            format!("several attempts are running: {names}; choose one with `ralph attach ID`")
        }
        Some(id) if !open.iter().any(|open| open.task_id == *id) => match open.len() {
            0 => format!("no attempt at `{id}` or any other task is running"),
            1 => format!("no attempt at `{id}` is running; `ralph attach` shows {names}"),
            _ => format!(
                "no attempt at `{id}` is running; choose one of {names} with `ralph attach ID`"
            ),
        },
        _ => String::new(),
    };
    if !message.is_empty() {
        return Err(Failure::new(Exit::Error, message).into());
    }
    if terminal::is_interactive()
        && let Some(server) = window(&workspace, &about)
    {
        if tmux::is_around() {
            let message = format!(
                "this terminal is already inside tmux; use another terminal, or nest with `TMUX= \
                 ralph attach{}` and detach with C-b C-b d",
                workspace.place.flag()
            );
            return Err(Failure::new(Exit::Error, message).into());
        }
        return Err(server.attach().into());
    }
    without_reader(listen::listen(
        &workspace,
        ListenOptions {
            about,
            voice: Voice::Readable,
            lines: Some(options.lines),
            follow: true,
            attached: true,
        },
    ))
}

/// The tmux server of a wanted attempt, if its agent runs in a window.
fn window(workspace: &Workspace, about: &RecordFilter) -> Option<tmux::Server> {
    let records: Vec<AttemptRecord> = workspace.state.peek();
    let wanted =
        |record: &&AttemptRecord| about.task.as_ref().is_none_or(|id| *id == record.task_id);
    let folders = records.iter().filter(wanted).filter_map(|record| record.pane.as_deref());
    folders.map(tmux::Server::of).find(tmux::Server::runs)
}
