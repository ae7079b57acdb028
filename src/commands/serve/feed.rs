//! The event stream of the page: what is new on disk, while a page is open.

use std::{
    fs, io,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, SystemTime},
};

use serde_json::json;

use crate::{
    adapters::{
        http_server::{EventFeed, HttpReply, HttpRequest, ServerEvent},
        journal::JournalPosition,
    },
    commands::Invocation,
    core::event::record::Record,
    project::workspace::Workspace,
};

/// The interval for checking the files while a page is open.
const LOOK: Duration = Duration::from_millis(100);
/// The interval for trying to open the repository again.
const UNREADABLE: Duration = Duration::from_secs(1);
/// The number of missed events from which on a page that comes back reads everything again.
const MISSED: usize = 200;

/// The state of the files that a page shows.
#[derive(Clone, Debug, Default, PartialEq)]
struct WatchedFiles {
    graph: Option<(SystemTime, u64)>,
    is_live: bool,
}

/// The events for open pages. Nothing is read while none is open.
pub(super) struct PageFeed {
    feed: EventFeed,
    /// Where each page that opens begins.
    opened: Sender<JournalPosition>,
}

impl PageFeed {
    /// Starts to watch the files of `invocation` on a thread of its own, for as long as the process
    /// lives.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(invocation: Invocation) -> io::Result<PageFeed> {
        let (opened, starts) = mpsc::channel();
        let feed = EventFeed::new();
        let to = feed.clone();
        thread::Builder::new().name("feed".to_owned()).spawn(move || {
            while let Ok(start) = starts.recv() {
                // The repository may be unreadable for a time.
                while to.subscribers() > 0 {
                    match invocation.workspace() {
                        Ok(workspace) => follow(&workspace, &to, &starts, start),
                        Err(_) => thread::sleep(UNREADABLE),
                    }
                }
            }
        })?;
        Ok(PageFeed { feed, opened })
    }
}

/// Sends what is new after `position` until no page is open.
fn follow(
    workspace: &Workspace,
    feed: &EventFeed,
    starts: &Receiver<JournalPosition>,
    mut position: JournalPosition,
) {
    let journal = workspace.journal();
    let mut files = WatchedFiles::of(workspace);
    while feed.subscribers() > 0 {
        // A page that opens now gets what is sent from here on.
        while starts.try_recv().is_ok() {}
        if journal.has_more(&position) {
            for event in since(workspace, &mut position) {
                feed.send(event);
            }
        }
        let now = WatchedFiles::of(workspace);
        if now != files {
            feed.send(event("files", &position, &json!({ "is_live": now.is_live })));
            files = now;
        }
        thread::sleep(LOOK);
    }
}

/// The stream for a page: first what it missed, if it says up to where it has read.
pub(super) fn subscribe(
    invocation: &Invocation,
    page: &PageFeed,
    request: &HttpRequest,
) -> HttpReply {
    let last = request.header("last-event-id");
    let last: Option<JournalPosition> = last.and_then(|last| serde_json::from_str(last).ok());
    page.feed.subscribe(|| {
        let Ok(workspace) = invocation.workspace() else {
            let _ = page.opened.send(JournalPosition::default());
            return vec![event("snapshot", &JournalPosition::default(), &json!({}))];
        };
        let end = workspace.journal().end();
        // The thread ends with the process.
        let _ = page.opened.send(end);
        let missed = last.map(|mut position| since(&workspace, &mut position));
        let few = missed.filter(|missed| missed.len() <= MISSED);
        few.unwrap_or_else(|| vec![event("snapshot", &end, &json!({}))])
    })
}

/// The events after a position, which moves on. A journal that was rotated or edited is one event.
fn since(workspace: &Workspace, position: &mut JournalPosition) -> Vec<ServerEvent> {
    let (mut events, mut is_other) = (Vec::new(), false);
    let journal = workspace.journal();
    let mut mark = *position;
    let _ = journal.read(&mut mark, |record| match record {
        None => is_other = true,
        Some(record) => events.push(data(record)),
    });
    *position = mark;
    if is_other {
        return vec![event("snapshot", position, &json!({ "rotated": true }))];
    }
    // All of them name the place after the last: they are sent together.
    events.iter().map(|data| event("journal", position, data)).collect()
}

/// What an event says: the kind and what it is about. Details are fetched.
fn data(record: &Record) -> serde_json::Value {
    json!({ "kind": record.fields().get("action"), "seq": record.seq, "task_id": record.task_id })
}

fn event(name: &'static str, position: &JournalPosition, data: &serde_json::Value) -> ServerEvent {
    let id = serde_json::to_string(position).unwrap_or_default();
    ServerEvent { id, name, data: data.to_string() }
}

impl WatchedFiles {
    fn of(workspace: &Workspace) -> WatchedFiles {
        let found = fs::metadata(workspace.graph_path()).ok();
        let graph = found.and_then(|found| Some((found.modified().ok()?, found.len())));
        WatchedFiles { graph, is_live: workspace.state.is_locked().unwrap_or(false) }
    }
}
