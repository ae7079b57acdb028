//! Who may use the page, and a person's actions on it.
//!
//! A page of another site can send requests to a loopback address, and DNS can be made to name it
//! (rebinding); so every request must name one of a few exact hosts, and an action must come from a
//! page of exactly these. The link has a token that works once. It is exchanged for a cookie that
//! scripts cannot read, because event streams cannot send other headers.
//!
//! Each action is a call of the command of the same name, so that it is checked, recorded and refused
//! in the same way.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;

use crate::{
    adapters::{
        http_server::{HttpCaller, HttpReply, HttpRequest},
        machine,
        terminal::plain,
    },
    cli::CommandCall,
    commands::Invocation,
    core::exit::{self, Exit},
    core::hmac::same,
};

/// The number of browsers that may be let in at a time; a newer one replaces the oldest.
const BROWSERS: usize = 16;
/// The icon that browsers ask for by themselves, without a cookie on some.
const ICON: &str = "/favicon.ico";

/// The guard of the page.
pub(super) struct PageAccess {
    /// The exact values of `Host`, in lower case.
    hosts: Vec<String>,
    /// The name of the cookie: cookies do not tell ports apart.
    cookie: String,
    /// Whether the page may act.
    acts: bool,
    keys: Mutex<AccessKeys>,
}

/// The keys that are valid now.
struct AccessKeys {
    /// The token of the link that was not used yet.
    token: String,
    /// The cookies of the browsers that were let in, the oldest first.
    browsers: VecDeque<String>,
}

impl PageAccess {
    /// Access at `address`, also under the names of `hosts`.
    ///
    /// # Errors
    /// There are no random numbers.
    pub(super) fn new(address: SocketAddr, hosts: &[String], acts: bool) -> io::Result<PageAccess> {
        let port = address.port();
        // Browsers leave out the port that is usual.
        let forms = |host: &String| {
            let host = host.to_ascii_lowercase();
            match host.rsplit_once(':') {
                Some((name, "80" | "443")) => vec![name.to_owned(), host.clone()],
                Some((_, other)) if other.parse::<u16>().is_ok() => vec![host],
                _ => vec![format!("{host}:{port}"), host],
            }
        };
        let local = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        let given = hosts.iter().flat_map(forms);
        Ok(PageAccess {
            hosts: local.into_iter().chain(given).collect(),
            cookie: format!("ralph_{port}"),
            acts,
            keys: Mutex::new(AccessKeys { token: machine::token()?, browsers: VecDeque::new() }),
        })
    }

    /// The token of the next link.
    pub(super) fn token(&self) -> String {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).token.clone()
    }

    /// Whether the page may act.
    pub(super) fn acts(&self) -> bool {
        self.acts
    }

    /// Lets a request in or refuses it.
    pub(super) fn admit(&self, request: &HttpRequest) -> Result<HttpCaller, HttpReply> {
        let host = request.header("host").map(str::to_ascii_lowercase);
        if !host.as_ref().is_some_and(|host| self.hosts.contains(host)) {
            let text = "this address is not one of the page's; use the link that `ralph` printed";
            return Err(HttpReply::text(421, text));
        }
        // Browsers say where a request comes from; other programs need not.
        let site = request.header("sec-fetch-site");
        let is_own = matches!(site, None | Some("same-origin" | "none"));
        let is_opened = request.is_read() && request.header("sec-fetch-dest") == Some("document");
        if request.has_header("sec-fetch-site") && !is_own && !is_opened {
            return Err(HttpReply::text(403, "requests of other sites are refused"));
        }
        if !request.is_read() {
            // A proxy that adds TLS changes the scheme, and the host says that it is the page's.
            let origin = request.header("origin").and_then(|origin| {
                origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
            });
            if origin.map(str::to_ascii_lowercase) != host {
                return Err(HttpReply::text(403, "requests of other sites are refused"));
            }
        }
        if self.knows(request) {
            return self.known(request);
        }
        let is_open = match request.path() {
            ICON => true,
            // With a token, the page itself lets in.
            "/" => request.query("token").is_some(),
            _ => false,
        };
        if is_open { Ok(HttpCaller::Unknown) } else { Err(locked(request)) }
    }

    fn known(&self, request: &HttpRequest) -> Result<HttpCaller, HttpReply> {
        if request.is_read() || self.acts {
            return Ok(HttpCaller::Known);
        }
        let text = "this page only shows; start `ralph serve` with `--allow-actions` to act";
        Err(HttpReply::text(403, text))
    }

    /// Whether the request has the cookie of a browser that was let in.
    fn knows(&self, request: &HttpRequest) -> bool {
        let pairs = request.headers("cookie").flat_map(|header| header.split(';'));
        let mut values = pairs
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.cookie)
            .map(|(_, value)| value);
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        values.any(|value| keys.browsers.iter().any(|key| same(key, value)))
    }

    /// Exchanges the token of the link for a cookie. Returns none if the token is not the current
    /// one; else the answer that sets the cookie and forgets the token.
    ///
    /// # Errors
    /// There are no random numbers.
    pub(super) fn exchange(&self, token: &str) -> io::Result<Option<HttpReply>> {
        let (next, key) = (machine::token()?, machine::token()?);
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !same(&keys.token, token) {
            return Ok(None);
        }
        keys.token = next;
        if keys.browsers.len() == BROWSERS {
            keys.browsers.pop_front();
        }
        let cookie = format!("{}={key}; Path=/; HttpOnly; SameSite=Strict", self.cookie);
        keys.browsers.push_back(key);
        Ok(Some(HttpReply::text(303, "welcome").with("location", "/").with("set-cookie", cookie)))
    }
}

/// The answer to a browser that was not let in.
pub(super) fn locked(request: &HttpRequest) -> HttpReply {
    if request.header("accept").is_some_and(|accept| accept.contains("text/html")) {
        // A browser that follows a link from another site sends no strict cookie: the second try
        // comes from this page and does.
        let page = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>ralph</title>\
                    <h1>ralph</h1><p>This browser has not been let in. Open the link that \
                    <code>ralph serve</code> printed; each link works once.</p>\
                    <p><a href=\"/\">Continue</a>, if it had been.</p></html>";
        return HttpReply::of(401, "text/html; charset=utf-8", page);
    }
    HttpReply::text(401, "open the link that `ralph serve` printed; each link works once")
}

/// The time limit of an action.
const LIMIT: Duration = Duration::from_secs(25);

/// An action of a person.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum PageAction {
    /// Answers a question.
    Answer { id: String, text: String },
    /// Leaves a note for the next attempt at a task.
    Note { id: String, text: String },
    /// Sets a task to pending.
    Reset { id: String },
    /// Marks a task complete.
    Complete { id: String },
    /// Blocks a task.
    Block { id: String, reason: String },
    /// Keeps the landed work of a task, after a look at it.
    Accept {
        id: String,
        #[serde(default)]
        note: String,
    },
    /// Asks the provider of rate-limited agents again.
    RetryNow {},
    /// Lets no attempt start.
    Pause {},
    /// Lifts the pause.
    Resume {},
    /// Ends the run, after its attempts or now.
    Stop {
        #[serde(default)]
        now: bool,
    },
    /// Adds a task.
    AddTask {
        title: String,
        #[serde(default)]
        description: String,
        #[serde(default)]
        after: Vec<String>,
        priority: Option<u8>,
        #[serde(default)]
        verify: Vec<String>,
    },
}

/// Carries out a request.
pub(super) fn act(invocation: &Invocation, request: &HttpRequest) -> HttpReply {
    let action: PageAction = match serde_json::from_slice(request.body()) {
        Ok(action) => action,
        Err(error) => return said(400, false, &format!("this is not an action: {error}")),
    };
    let call = action.call();
    match invocation.call_own(&call, LIMIT) {
        Ok(called) => {
            let text = if called.code == Some(0) && !called.output.trim().is_empty() {
                called.output
            } else {
                called.errors
            };
            let status = if called.code == Some(0) { 200 } else { 409 };
            let text = plain(text.trim()).replace("ralph: error: ", "");
            said(status, status == 200, &text)
        }
        Err(error) if exit::of_error(&error) == Exit::Usage => said(400, false, &error.to_string()),
        Err(error) => said(500, false, &format!("{error:#}")),
    }
}

fn said(status: u16, done: bool, text: &str) -> HttpReply {
    let body = json!({ "done": done, "text": text }).to_string();
    HttpReply::of(status, "application/json", body)
}

impl PageAction {
    /// The command that does it. A person's input is never read as a flag.
    fn call(self) -> CommandCall {
        let (name, flags, words, input): (&str, Vec<String>, Vec<String>, String) = match self {
            PageAction::Answer { id, text } => ("answer", vec![], vec![id, "-".to_owned()], text),
            PageAction::Note { id, text } => {
                ("note", vec![format!("--task={id}")], vec!["-".to_owned()], text)
            }
            PageAction::Reset { id } => ("task-reset", vec![], vec![id], String::new()),
            PageAction::Complete { id } => ("task-complete", vec![], vec![id], String::new()),
            PageAction::Block { id, reason } => {
                ("task-block", vec![format!("--reason={reason}")], vec![id], String::new())
            }
            PageAction::Accept { id, note } => {
                let note = Some(note).filter(|it| !it.trim().is_empty());
                let note = note.map(|it| format!("--note={it}"));
                let flags = std::iter::once("--accept".to_owned()).chain(note);
                ("review", flags.collect(), vec![id], String::new())
            }
            PageAction::RetryNow {} => ("resume", vec!["--now".to_owned()], vec![], String::new()),
            PageAction::Pause {} => ("pause", vec![], vec![], String::new()),
            // Without the flag, `ralph resume` may become the run.
            PageAction::Resume {} => ("resume", vec!["--lift".to_owned()], vec![], String::new()),
            PageAction::Stop { now } => {
                let flags = now.then(|| "--now".to_owned()).into_iter().collect();
                ("stop", flags, vec![], String::new())
            }
            PageAction::AddTask { title, description, after, priority, verify } => {
                let text = !description.trim().is_empty();
                let mut flags: Vec<String> =
                    text.then(|| "--description=-".to_owned()).into_iter().collect();
                flags.extend(after.iter().map(|id| format!("--after={id}")));
                flags.extend(priority.map(|priority| format!("--priority={priority}")));
                flags.extend(verify.iter().map(|command| format!("--verify={command}")));
                ("task-add", flags, vec![title], description)
            }
        };
        let name = std::iter::once(name.to_owned()).chain(flags);
        CommandCall { arguments: name.chain(["--".to_owned()]).chain(words).collect(), input }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(json: &str) -> CommandCall {
        serde_json::from_str::<PageAction>(json).unwrap().call()
    }

    #[test]
    fn what_is_typed_is_never_a_flag() {
        let reset = call(r#"{"action": "reset", "id": "--all"}"#);
        assert_eq!(reset.arguments, ["task-reset", "--", "--all"]);
        let answer = call(r#"{"action": "answer", "id": "a", "text": "--help"}"#);
        assert_eq!(answer.arguments, ["answer", "--", "a", "-"]);
        assert_eq!(answer.input, "--help");
        let block = call(r#"{"action": "block", "id": "-x", "reason": "--now"}"#);
        assert_eq!(block.arguments, ["task-block", "--reason=--now", "--", "-x"]);
        let accept = call(r#"{"action": "accept", "id": "--all", "note": "--json"}"#);
        assert_eq!(accept.arguments, ["review", "--accept", "--note=--json", "--", "--all"]);
        let add = call(r#"{"action": "add_task", "title": "--id=x", "verify": ["--a"]}"#);
        assert_eq!(add.arguments, ["task-add", "--verify=--a", "--", "--id=x"]);
    }

    #[test]
    fn unknown_actions_are_refused() {
        for json in ["{}", r#"{"action": "run"}"#, r#"{"action": "pause", "x": 1}"#, "[]"] {
            assert!(serde_json::from_str::<PageAction>(json).is_err(), "{json}");
        }
    }
}
