//! `ralph serve`: the page of the repository, for a browser on this machine.
//!
//! It reads from disk, as every command does, so that it outlives runs and shows those that have
//! ended.

mod access;

use std::{
    collections::BTreeMap,
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use super::{
    Invocation,
    page_data::{DrawnGraph, PageData},
};
use crate::{
    adapters::{
        http_server::{EventFeed, HttpMethod, HttpReply, HttpRequest, ServerEvent, Site},
        journal::JournalPosition,
        signal, terminal,
    },
    cli::{By, DEFAULT_PORT, ServeArgs},
    core::{
        event::record::Record,
        exit::{Exit, Failure, fail},
    },
    project::workspace::Workspace,
    report::page,
    view::state::for_scripts,
};
use access::PageAccess;

/// The maximum size of the body of a request.
const BODY: usize = 64 * 1024;

/// The content security policy: its own files, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the page until a signal ends it.
///
/// # Errors
/// There is no repository; the address cannot be used.
pub fn run(invocation: &Invocation, options: &ServeArgs) -> Result<Exit> {
    // Errors of a wrong directory or of wrong settings appear now, not on the page.
    drop(invocation.workspace()?);
    let link = start(invocation, options)?;
    terminal::print(&format!("{link}\n"))?;
    terminal::say("Ctrl-C ends the page; it ends no run");
    until_signal()
}

/// Keeps the page of a run that has ended, for the person at the terminal.
///
/// # Errors
/// Errors of the system.
pub(super) fn stay() -> Result<()> {
    terminal::say("the page stays; Ctrl-C ends it");
    until_signal().map(drop)
}

/// Waits for a signal that ends the process.
fn until_signal() -> Result<Exit> {
    let signals = signal::receive().context("listen for signals")?;
    while let Ok(number) = signals.recv() {
        if number != signal::SUSPEND {
            return Ok(Exit::Signal(number));
        }
        signal::suspend();
    }
    Ok(Exit::Success)
}

/// Starts the page on threads of their own. Returns its link.
///
/// # Errors
/// The address cannot be used.
pub(super) fn start(invocation: &Invocation, options: &ServeArgs) -> Result<String> {
    let ip = options.allow_remote.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let listener = listen(ip, options.port)?;
    let address = listener.local_addr().context("find the address of the page")?;
    // A page with a name of its own is reached through a proxy.
    let is_remote = !ip.is_loopback() || !options.hosts.is_empty();
    let acts = !is_remote || options.allow_actions;
    let access =
        PageAccess::new(address, &options.hosts, acts).context("find a secret for the link")?;
    let access = Arc::new(access);
    let feed = Arc::new(PageFeed::start(invocation.clone()).context("watch the journal")?);
    let link = match options.hosts.first().map(|host| (host, host.rsplit_once(':'))) {
        Some((_, Some((name, "443")))) => format!("https://{name}/?token="),
        Some((host, Some(_))) => format!("http://{host}/?token="),
        Some((host, None)) => format!("http://{host}:{}/?token=", address.port()),
        None => format!("http://127.0.0.1:{}/?token=", address.port()),
    };
    let first = format!("{link}{}", access.token());
    if is_remote {
        terminal::say(&format!("listening on {address}"));
        terminal::say(
            "warning: other machines can reach this page; `ralph` does not encrypt what it sends",
        );
    }
    let site = site(invocation, &access, &feed, link);
    site.serve(listener).context("start the page")?;
    if options.open && !crate::adapters::process::open_in_browser(&first) {
        terminal::say("warning: no browser could be started; open the link yourself");
    }
    Ok(first)
}

/// The listener. If the usual port is taken, any free one does.
fn listen(ip: IpAddr, port: u16) -> Result<TcpListener> {
    match TcpListener::bind(SocketAddr::new(ip, port)) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && port == DEFAULT_PORT => {
            terminal::say(&format!("port {port} is in use, probably by another page of `ralph`"));
            TcpListener::bind(SocketAddr::new(ip, 0)).context("listen on a free port")
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            fail(Exit::Error, format!("port {port} is in use; choose another with `--port`"))
        }
        Err(error) => Err(error).with_context(|| format!("listen on `{ip}`, port {port}")),
    }
}

/// The routes of the page.
fn site(
    invocation: &Invocation,
    access: &Arc<PageAccess>,
    feed: &Arc<PageFeed>,
    link: String,
) -> Site {
    let guard = Arc::clone(access);
    let site = Site::new(BODY, true, move |request| guard.admit(request))
        .header("content-security-policy", POLICY)
        .header("x-content-type-options", "nosniff")
        .header("referrer-policy", "no-referrer")
        .header("cross-origin-opener-policy", "same-origin")
        .header("cross-origin-resource-policy", "same-origin")
        .header("cache-control", "no-store")
        .otherwise("there is nothing at this address", "this address does not take that method");
    let entry = Arc::clone(access);
    let site = site.route(HttpMethod::Get, "/", move |request| home(&entry, &link, request));
    let file = |media_type: &'static str, text: &'static str| {
        move |_: &HttpRequest| HttpReply::of(200, media_type, text)
    };
    let site = page::SCRIPTS.iter().fold(site, |site, (name, text)| {
        let script = file("text/javascript; charset=utf-8", text);
        site.route(HttpMethod::Get, &format!("/{name}"), script)
    });
    let site = site
        .route(HttpMethod::Get, "/page.css", file("text/css; charset=utf-8", page::STYLE))
        .route(HttpMethod::Get, "/favicon.ico", |_| HttpReply::of(204, "image/x-icon", ""));
    let site = data_routes(invocation, site);
    let (at, stream) = (invocation.clone(), Arc::clone(feed));
    let site = site.route(HttpMethod::Get, "/api/events", move |it| subscribe(&at, &stream, it));
    let at = invocation.clone();
    let may = Arc::clone(access);
    site.route(HttpMethod::Get, "/api/page", move |_| {
        let root = PageData::open(&at).map(|data| data.root()).unwrap_or_default();
        let about = json!({
            "acts": may.acts(), "root": root, "version": env!("CARGO_PKG_VERSION"),
            "table": for_scripts(),
        });
        HttpReply::of(200, "application/json", about.to_string())
    })
    .route(HttpMethod::Post, "/api/actions", {
        let at = invocation.clone();
        move |request| access::act(&at, request)
    })
}

/// The routes that only read.
fn data_routes(invocation: &Invocation, site: Site) -> Site {
    type Read = fn(&PageData, &HttpRequest) -> Result<Value>;
    let reads: [(&str, Read); 11] = [
        ("/api/now", |data, request| data.now(number(request, "run")?.unwrap_or(1))),
        ("/api/graph", |data, request| data.graph(drawn(request)?)),
        ("/api/review", |data, _| data.review()),
        ("/api/timeline", |data, request| data.timeline(number(request, "run")?.unwrap_or(1))),
        ("/api/tasks/{id}", |data, request| data.task(request.parameter("id"))),
        ("/api/attempts/{name}", |data, request| data.attempt(request.parameter("name"))),
        ("/api/attempts/{name}/transcript", |data, request| {
            data.transcript(request.parameter("name"), number(request, "from")?)
        }),
        ("/api/attempts/{name}/files/{file}", |data, request| {
            let (name, file) = (request.parameter("name"), request.parameter("file"));
            data.file(name, file, number(request, "from")?)
        }),
        ("/api/commits/{id}", |data, request| data.patch(request.parameter("id"))),
        ("/api/costs", |data, request| data.costs(grouping(request)?)),
        ("/api/journal", |data, request| {
            data.journal(number(request, "before")?, request.query("task"))
        }),
    ];
    let (at, follows) = (invocation.clone(), Mutex::new(BTreeMap::new()));
    let site = site.route(HttpMethod::Get, "/api/activity", move |_| {
        let mut follows = follows.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |data: PageData| Ok(data.text(&data.activity(&mut follows)));
        answered(PageData::open(&at).and_then(read))
    });
    reads.into_iter().fold(site, |site, (path, read)| {
        let at = invocation.clone();
        site.route(HttpMethod::Get, path, move |request| {
            let read = |data: PageData| Ok(data.text(&read(&data, request)?));
            answered(PageData::open(&at).and_then(read))
        })
    })
}

/// The answer with a value as JSON.
fn answered(value: Result<String>) -> HttpReply {
    match value {
        Ok(text) => HttpReply::of(200, "application/json", text),
        Err(error) => failed(&error),
    }
}

/// The subgraph to draw; none for a list.
fn drawn(request: &HttpRequest) -> Result<Option<DrawnGraph<'_>>> {
    if request.query("draw").is_none() {
        return Ok(None);
    }
    Ok(Some(DrawnGraph {
        hides_complete: request.query("hide") == Some("complete"),
        around: request.query("around"),
        levels: number(request, "levels")?.unwrap_or(2),
    }))
}

/// The answer for an error: the requested item does not exist, or cannot be read.
fn failed(error: &anyhow::Error) -> HttpReply {
    let status = match error.downcast_ref::<Failure>() {
        Some(failure) if failure.exit == Exit::Usage => 400,
        Some(failure) if failure.exit == Exit::Error => 404,
        _ => 500,
    };
    let text = terminal::plain(&format!("{error:#}")).into_owned();
    HttpReply::of(status, "application/json", json!({ "error": text }).to_string())
}

/// The page itself. The token of the link lets the browser in and is gone from the address.
fn home(access: &PageAccess, link: &str, request: &HttpRequest) -> HttpReply {
    let Some(token) = request.query("token").filter(|_| !request.is_head()) else {
        return HttpReply::of(200, "text/html; charset=utf-8", page::HTML);
    };
    match access.exchange(token) {
        Ok(Some(reply)) => {
            terminal::say(&format!(
                "the page was opened; for another browser: {link}{}",
                access.token()
            ));
            reply
        }
        Ok(None) => access::locked(request),
        Err(error) => failed(&anyhow!(error)),
    }
}

/// A number of the query.
fn number<T: std::str::FromStr>(request: &HttpRequest, name: &str) -> Result<Option<T>> {
    let read = |text: &str| {
        text.parse().map_err(|_| Failure::new(Exit::Usage, format!("`{name}` must be a number")))
    };
    Ok(request.query(name).map(read).transpose()?)
}

fn grouping(request: &HttpRequest) -> Result<By> {
    let Some(by) = request.query("by").map_or(Some(By::Task), By::named) else {
        let why = "`by` must be `task`, `day`, `agent`, `model`, `story` or `prompt`";
        return fail(Exit::Usage, why);
    };
    Ok(by)
}

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

/// The journal's end and the files when a page opens: later changes are sent.
type PageStart = (JournalPosition, WatchedFiles);

/// The events for open pages. Nothing is read while none is open.
struct PageFeed {
    feed: EventFeed,
    /// Where each page that opens begins, and the files as it found them.
    opened: Sender<PageStart>,
}

impl PageFeed {
    /// Starts to watch the files of `invocation` on a thread of its own, for as long as the process
    /// lives.
    ///
    /// # Errors
    /// The thread cannot be started.
    fn start(invocation: Invocation) -> io::Result<PageFeed> {
        let (opened, starts) = mpsc::channel();
        let feed = EventFeed::new();
        let to = feed.clone();
        thread::Builder::new().name("feed".to_owned()).spawn(move || {
            while let Ok(start) = starts.recv() {
                // The repository may be unreadable for a time.
                while to.subscribers() > 0 {
                    match invocation.workspace() {
                        Ok(workspace) => follow(&workspace, &to, &starts, start.clone()),
                        Err(_) => thread::sleep(UNREADABLE),
                    }
                }
            }
        })?;
        Ok(PageFeed { feed, opened })
    }
}

/// Sends events after `position` until no page is open.
fn follow(
    workspace: &Workspace,
    feed: &EventFeed,
    starts: &Receiver<PageStart>,
    (mut position, mut files): PageStart,
) {
    let journal = workspace.journal();
    while feed.subscribers() > 0 {
        // A page that opens now gets the events from here on.
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

/// The stream for a page: first the missed events, if it reports its position.
fn subscribe(invocation: &Invocation, page: &PageFeed, request: &HttpRequest) -> HttpReply {
    let last = request.header("last-event-id");
    let last: Option<JournalPosition> = last.and_then(|last| serde_json::from_str(last).ok());
    page.feed.subscribe(|| {
        let Ok(workspace) = invocation.workspace() else {
            let _ = page.opened.send(PageStart::default());
            return vec![event("snapshot", &JournalPosition::default(), &json!({}))];
        };
        let end = workspace.journal().end();
        // The thread ends with the process.
        let _ = page.opened.send((end, WatchedFiles::of(&workspace)));
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

/// The data of an event: its kind and subject. Details are fetched.
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
