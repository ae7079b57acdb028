//! `ralph attach`: the terminal of the agent that runs, or what it says.

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

/// Shows it until the run is over or the person leaves. The run is not affected.
///
/// # Errors
/// Nothing runs, or not that task; as the disk and tmux give them.
pub fn run(here: &Invocation, options: &AttachArgs) -> Result<Exit> {
    let workspace = here.workspace()?;
    let about = RecordFilter::new(options.id.as_deref(), None)?;
    let (chronicle, live) = look(&workspace)?;
    let history = chronicle.history();
    if !live {
        let how = match Standing::of(history, live) {
            Standing::None => "`ralph run` starts something".to_owned(),
            standing => format!(
                "the newest run is {}; `ralph logs{} --output` shows what its agent said",
                standing.word(),
                workspace.place.flag()
            ),
        };
        return Err(Failure::new(Exit::Error, format!("nothing runs here: {how}")).into());
    }
    let open = &history.active.attempts;
    let names: Vec<String> = open.iter().map(|open| format!("`{}`", open.task_id)).collect();
    let names = names.join(", ");
    let message = match &about.task {
        None if open.len() > 1 => {
            format!("several attempts go on: at {names}; `ralph attach ID` shows one of them")
        }
        Some(id) if !open.iter().any(|open| open.task_id == *id) => match open.len() {
            0 => format!("`{id}` is not worked on: no attempt runs just now"),
            1 => format!("`{id}` is not worked on: {names} does; `ralph attach` shows it"),
            _ => format!("`{id}` is not worked on: {names} do; `ralph attach ID` shows one"),
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
            let message = "this terminal is a window of tmux already; use another one, or go there \
                           all the same with `TMUX= ralph attach`, where your own tmux gets the keys \
                           first: leave with C-b C-b d";
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

/// The window in which the agent of such an attempt runs, if it does in one.
fn window(workspace: &Workspace, about: &RecordFilter) -> Option<tmux::Server> {
    let records: Vec<AttemptRecord> = workspace.state.peek();
    let wanted =
        |record: &&AttemptRecord| about.task.as_ref().is_none_or(|id| *id == record.task_id);
    let folders = records.iter().filter(wanted).filter_map(|record| record.pane.as_deref());
    folders.map(tmux::Server::of).find(tmux::Server::runs)
}
