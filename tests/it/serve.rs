//! The server of the page: who is let in, what a page can do, and what hostile clients cannot.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Live, SETTINGS, TestProject, agent, until, wait_for};

/// A page that is served, and a browser that was let in.
struct Server {
    trial: TestProject,
    live: Live,
    address: SocketAddr,
    cookie: String,
}

/// An answer of the server.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn answer(mut stream: TcpStream) -> Reply {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for header in headers {
        let _ = write!(text, "{header}\r\n");
    }
    let _ = write!(text, "Content-Length: {}\r\n\r\n{body}", body.len());
    let _ = stream.write_all(text.as_bytes());
    answer(stream)
}

impl Server {
    fn of(trial: TestProject, flags: &[&str]) -> Server {
        let words = [&["serve", "--port", "0"], flags].concat();
        let live = trial.start(words);
        until("the link is printed", || live.printed().contains("token="));
        let printed = live.printed();
        let said = live.said();
        let listens = said.lines().find_map(|line| line.strip_prefix("listening on "));
        let port = listens.and_then(|address| address.rsplit(':').next());
        let port =
            port.unwrap_or_else(|| printed.split(':').nth(2).unwrap().split('/').next().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
        let mut server = Server { trial, live, address, cookie: String::new() };
        let path = printed[printed.find("/?").unwrap()..].trim().to_owned();
        let entry = send(address, "GET", &path, &[&server.host()], "");
        assert_eq!(entry.status, 303, "{entry:?}");
        let cookie = entry.header("set-cookie").unwrap();
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().clone_into(&mut server.cookie);
        server
    }

    fn host(&self) -> String {
        format!("Host: {}", self.address)
    }

    fn own(&self) -> [String; 3] {
        let origin = format!("Origin: http://{}", self.address);
        [self.host(), format!("Cookie: {}", self.cookie), origin]
    }

    fn get(&self, path: &str) -> Reply {
        let own = self.own();
        send(self.address, "GET", path, &own.each_ref().map(String::as_str), "")
    }

    fn act(&self, action: &Value) -> Reply {
        let own = self.own();
        let body = action.to_string();
        send(self.address, "POST", "/api/actions", &own.each_ref().map(String::as_str), &body)
    }

    /// An open event stream, from the event with this id on.
    fn events(&self, last: Option<&str>) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let last = last.map_or(String::new(), |last| format!("Last-Event-ID: {last}\r\n"));
        let [host, cookie, _] = self.own();
        let text = format!("GET /api/events HTTP/1.1\r\n{host}\r\n{cookie}\r\n{last}\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        BufReader::new(stream)
    }

    fn end(self) -> TestProject {
        self.live.signal(Signal::TERM);
        self.live.end(&self.trial).code(143);
        self.trial
    }
}

/// The id, the name and the data of the next event.
fn next_event(stream: &mut BufReader<TcpStream>) -> (String, String, Value) {
    let (mut id, mut name) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
        if let Some(text) = line.strip_prefix("id: ") {
            text.trim().clone_into(&mut id);
        } else if let Some(text) = line.strip_prefix("event: ") {
            text.trim().clone_into(&mut name);
        } else if let Some(text) = line.strip_prefix("data: ") {
            return (id, name, serde_json::from_str(text).unwrap());
        }
    }
}

fn simple() -> TestProject {
    TestProject::new().graph("tasks: [{id: a, title: First}, {id: b, depends_on: [a]}]\n")
}

#[test]
fn only_the_browser_that_opened_the_link_is_let_in() {
    let server = Server::of(simple(), &[]);
    let address = server.address;
    let (host, cookie) = (server.host(), format!("Cookie: {}", server.cookie));
    let port = address.port();
    let wrong = format!("Cookie: ralph_{port}={}", "0".repeat(64));
    let other_port = format!("Cookie: ralph_1={}", server.cookie.split('=').nth(1).unwrap());
    let (local, six) = (format!("Host: localhost:{port}"), format!("Host: [::1]:{port}"));
    let paths = ["/", "/page.js", "/api/now", "/api/events", "/api/nothing", "/nothing"];
    let mut tried = 0;
    let mut refuse = |method: &str, path: &str, headers: &[&str], status: u16| {
        let reply = send(address, method, path, headers, "");
        assert_eq!(reply.status, status, "{method} {path} {headers:?}: {reply:?}");
        assert!(reply.header("content-security-policy").is_some(), "{reply:?}");
        tried += 1;
    };
    for path in paths {
        refuse("GET", path, &[&host], 401);
        refuse("GET", path, &[&host, &wrong], 401);
        refuse("GET", path, &[&host, &other_port], 401);
        refuse("GET", path, &[&cookie], 421);
        for evil in ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "", "0.0.0.0:80"] {
            refuse("GET", path, &[&format!("Host: {evil}"), &cookie], 421);
        }
        refuse("GET", path, &[&format!("Host: evil.example:{port}"), &cookie], 421);
        refuse("GET", path, &[&host, "Host: evil.example", &cookie], 421);
        refuse("GET", path, &[&host, &cookie, "Sec-Fetch-Site: cross-site"], 403);
        refuse("GET", path, &[&host, &cookie, "Sec-Fetch-Site: same-site"], 403);
    }
    let own = format!("Origin: http://127.0.0.1:{port}");
    for origin in
        ["null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1:1", "http://"]
    {
        let origin = format!("Origin: {origin}");
        refuse("POST", "/api/actions", &[&host, &cookie, &origin], 403);
    }
    refuse("POST", "/api/actions", &[&host, &cookie], 403);
    refuse("POST", "/api/actions", &[&host, &own], 401);
    refuse("POST", "/api/actions", &[&local, &cookie, &own], 403);
    refuse("POST", "/api/actions", &[&host, &cookie, &own], 400);
    refuse("PUT", "/api/actions", &[&host, &cookie, &own], 405);
    refuse("DELETE", "/api/tasks/a", &[&host, &cookie, &own], 405);
    refuse("GET", "/api/nothing", &[&host, &cookie], 404);
    refuse("GET", "/?token=0", &[&host], 401);
    assert!(tried > 80, "{tried}");
    for host in [&host, &local, &six] {
        assert_eq!(send(address, "GET", "/api/now", &[host, &cookie], "").status, 200, "{host}");
    }
    // The link has worked once; the next one is on standard error.
    let used = server.live.printed();
    let used = used[used.find("/?").unwrap()..].trim().to_owned();
    assert_eq!(send(address, "GET", &used, &[&host], "").status, 401);
    let said = server.live.said();
    let next = said.lines().rev().find_map(|line| Some(&line[line.find("/?token")?..])).unwrap();
    assert_eq!(send(address, "GET", next, &[&host], "").status, 303);
    assert_eq!(server.get("/api/now").status, 200, "the first browser stays");
    let trial = server.end();
    assert!(!trial.root().join("logs/ralph.jsonl").exists(), "reading leaves no trace");
}

#[test]
fn a_page_that_others_can_reach_only_shows_unless_told_otherwise() {
    let serve = |flags: &[&str]| {
        let flags = [&["--allow-remote", "0.0.0.0", "--host", "127.0.0.1"], flags].concat();
        Server::of(simple(), &flags)
    };
    let pause = json!({"action": "pause"});
    let shows = serve(&[]);
    assert!(shows.live.said().contains("other machines can reach"));
    assert_eq!(shows.get("/api/page").json()["acts"], false);
    assert_eq!(shows.act(&pause).status, 403);
    let (address, host) = (shows.address, shows.host());
    assert_eq!(send(address, "GET", "/api/now", &[&host], "").status, 401);
    assert!(!shows.end().root().join("logs/ralph.jsonl").exists());
    let acts = serve(&["--allow-actions"]);
    assert_eq!(acts.act(&pause).status, 200);
    assert_eq!(acts.end().lines("pause_requested").len(), 1);
    let trial = simple();
    trial.run(["serve", "--allow-remote", "0.0.0.0"]).code(64);
    trial.run(["serve", "--allow-actions"]).code(64);
    // A name of its own means a proxy, which others reach.
    let named = Server::of(simple(), &["--host", "page.example:443"]);
    assert_eq!(named.get("/api/page").json()["acts"], false);
    let cookie = format!("Cookie: {}", named.cookie);
    for host in ["Host: page.example", "Host: page.example:443"] {
        assert_eq!(send(named.address, "GET", "/api/now", &[host, &cookie], "").status, 200);
    }
    named.end();
    let proxied = Server::of(simple(), &["--host", "page.example:443", "--allow-actions"]);
    let cookie = format!("Cookie: {}", proxied.cookie);
    let headers = ["Host: page.example", &cookie, "Origin: https://page.example"];
    let body = pause.to_string();
    assert_eq!(send(proxied.address, "POST", "/api/actions", &headers, &body).status, 200);
    proxied.end();
}

#[test]
fn a_person_acts_as_by_the_commands() {
    let trial = simple().agent("ask");
    let server = Server::of(trial, &[]);
    let act = |action: Value, status: u16| {
        let reply = server.act(&action);
        assert_eq!(reply.status, status, "{action}: {reply:?}");
        let reply = reply.json();
        assert_eq!(reply["done"], status == 200, "{reply}");
        reply["text"].as_str().unwrap().to_owned()
    };
    let added = act(
        json!({"action": "add_task", "title": "--json", "description": "Two\nlines",
            "after": ["a"], "priority": 1, "verify": ["true"]}),
        200,
    );
    assert!(added.contains("json"), "{added}");
    let graph = server.trial.read("task-graph.yaml");
    assert!(graph.contains("--json") && graph.contains("lines"), "{graph}");
    act(json!({"action": "block", "id": "b", "reason": "not yet"}), 200);
    act(json!({"action": "reset", "id": "b"}), 200);
    act(json!({"action": "note", "id": "a", "text": "--task is <b>not</b> a flag"}), 200);
    let unknown = act(json!({"action": "reset", "id": "nothing"}), 409);
    assert!(unknown.contains("no task `nothing`"), "{unknown}");
    act(json!({"action": "complete", "id": "--help"}), 409);
    act(json!({"action": "answer", "id": "a", "text": "there is no question"}), 409);
    act(json!({"action": "reset", "id": "a\u{0}b"}), 400);
    // A pause is lifted, and no run starts.
    act(json!({"action": "pause"}), 200);
    act(json!({"action": "resume"}), 200);
    for body in ["", "null", "{\"action\": \"run\"}", "{\"action\": \"pause\", \"x\": 1}"] {
        let own = server.own();
        let headers = own.each_ref().map(String::as_str);
        assert_eq!(send(server.address, "POST", "/api/actions", &headers, body).status, 400);
    }
    let trial = server.end();
    let told = &trial.lines("answered")[0];
    assert_eq!(told["answer"], "--task is <b>not</b> a flag");
    let blocked = trial.lines("status_changed").into_iter().find(|line| line["new"] == "blocked");
    assert_eq!(blocked.unwrap()["task_id"], "b");
    let added = trial.lines("status_changed").into_iter().find(|line| line["task_id"] == "json");
    assert!(added.unwrap()["old"].is_null());
}

#[test]
fn a_question_is_answered_in_the_page() {
    let trial = TestProject::new().graph("tasks: [{id: ask}]\n").agent("ask").env("ASK", "command");
    let server = Server::of(trial, &[]);
    let run = server.trial.start(["run", "--wait", "--max-wait", "1h"]);
    server.trial.wait_for_records(1, "needs_input");
    let answer = json!({"action": "answer", "id": "ask", "text": "the answer is blue"});
    until("it is answered", || server.act(&answer).status == 200);
    until("it is complete", || server.trial.tasks("completed").contains(&"ask".to_owned()));
    let attempts = server.get("/api/tasks/ask").json()["attempts"].as_array().unwrap().len();
    assert_eq!(attempts, 2);
    let stop = json!({"action": "stop", "now": true});
    if server.act(&stop).status == 200 {
        run.end(&server.trial);
    }
    server.end();
}

#[test]
fn events_resume_where_a_connection_was_lost() {
    let server = Server::of(simple(), &[]);
    let mut stream = server.events(None);
    let (start, name, _) = next_event(&mut stream);
    assert_eq!(name, "snapshot");
    server.trial.run(["task-block", "b", "--reason", "x"]);
    // The graph file may be seen before the line of the journal.
    let mut of_journal = (0..20).map(|_| next_event(&mut stream)).filter(|it| it.1 == "journal");
    let (id, _, data) = of_journal.next().unwrap();
    assert_eq!(data["kind"], "status_changed");
    assert_eq!(data["task_id"], "b");
    drop(stream);
    server.trial.run(["task-reset", "b"]);
    let mut stream = server.events(Some(&id));
    let (_, name, data) = next_event(&mut stream);
    assert_eq!(
        (name.as_str(), data["task_id"].as_str()),
        ("journal", Some("b")),
        "what was missed"
    );
    // A journal that was rotated is read from its beginning.
    let journal = server.trial.root().join("logs/ralph.jsonl");
    fs::rename(&journal, journal.with_extension("old")).unwrap();
    server.trial.run(["pause"]);
    let mut stream = server.events(Some(&id));
    assert_eq!(next_event(&mut stream).1, "snapshot");
    for broken in ["", "x", "{}", &start.replace('0', "9")] {
        assert_eq!(next_event(&mut server.events(Some(broken))).1, "snapshot", "{broken}");
    }
    server.end();
}

#[test]
fn hostile_clients_do_not_block_a_browser() {
    let server = Server::of(simple(), &[]);
    let mut events = server.events(None);
    assert_eq!(next_event(&mut events).1, "snapshot");
    // Connections that send nothing, half a head, and a body that never comes: several times as many as
    // the server keeps, and fewer than this process may have files.
    let mut idle: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for (number, stream) in idle.iter_mut().enumerate() {
        let part: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /api/now HTTP/1.1\r\nHost: x\r\nX-Slow: ",
            _ => b"POST /api/actions HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{",
        };
        let _ = stream.write_all(part);
    }
    for _ in 0..20 {
        assert_eq!(server.get("/api/now").status, 200);
    }
    let open = fs::read_dir(format!("/proc/{}/fd", server.live.id())).unwrap().count();
    assert!(open < 100, "{open} files are open");
    server.trial.run(["pause"]);
    assert_eq!(next_event(&mut events).1, "journal", "the stream of the browser is kept");
    drop(idle);
    // What is too large is refused before it is read.
    let own = server.own();
    let headers = own.each_ref().map(String::as_str);
    let long = format!("X-Long: {}", "x".repeat(64 * 1024));
    let with_long = [&headers[..], &[&long]].concat();
    assert_eq!(send(server.address, "GET", "/api/now", &with_long, "").status, 431);
    let large = "x".repeat(64 * 1024 + 1);
    let refused = send(server.address, "POST", "/api/actions", &headers, &large);
    assert_eq!(refused.status, 413);
    let many: Vec<String> = (0..100).map(|number| format!("X-{number}: y")).collect();
    let many: Vec<&str> = headers.into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_eq!(send(server.address, "GET", "/api/now", &many, "").status, 431);
    let mut tls = TcpStream::connect(server.address).unwrap();
    tls.write_all(b"\x16\x03\x01 what TLS begins with").unwrap();
    assert_eq!(answer(tls).status, 400);
    // A limited number of tabs.
    let tabs: Vec<_> = (0..31).map(|_| server.events(None)).collect();
    until("the tabs are counted", || {
        let mut line = String::new();
        let mut one = server.events(None);
        one.read_line(&mut line).unwrap();
        line.starts_with("HTTP/1.1 503")
    });
    drop(tabs);
    server.end();
}

#[test]
fn files_and_commits_are_read_only_where_they_belong() {
    let trial = simple().agent("commit").env("TOP_SECRET_TOKEN", "swordfish-and-then-some");
    trial.write("elsewhere", "not for the page");
    trial.run(["run"]).graph_complete();
    let title = "Secret swordfish-and-then-some";
    trial.run(["task-add", title]);
    let server = Server::of(trial, &[]);
    let attempt = server.get("/api/attempts/a.1").json();
    assert_eq!(attempt["verdict"], "complete");
    let commit = attempt["commits"][0]["id"].as_str().unwrap().to_owned();
    let patch = server.get(&format!("/api/commits/{commit}")).json();
    assert!(patch["text"].as_str().unwrap().starts_with("diff --git"), "{patch}");
    let prompt = server.get("/api/attempts/a.1/files/prompt.md").json();
    assert!(prompt["text"].as_str().unwrap().contains("First"), "{prompt}");
    assert_eq!(prompt["next"], prompt["size"]);
    assert_eq!(server.get("/api/attempts/a.1/transcript").json()["from"], 0);
    for path in [
        "/api/attempts/a.1/files/..%2f..%2f..%2f..%2felsewhere",
        "/api/attempts/a.1/files/%2fetc%2fpasswd",
        "/api/attempts/a.1/files/..",
        "/api/attempts/..%2f..%2felsewhere/files/x",
        "/api/commits/HEAD",
        "/api/commits/--output=x",
        "/api/commits/0000000",
        "/api/tasks/%00",
        "/api/tasks/nothing",
    ] {
        let reply = server.get(path);
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
        assert!(!reply.body.contains("not for the page"));
    }
    assert_eq!(server.get("/api/timeline?run=x").status, 400);
    // Neither a link nor a forged journal leads out of the logs.
    let root = server.trial.root().to_owned();
    let outside = root.join("elsewhere");
    let folder = root.join("logs/attempts/a/1");
    fs::remove_file(folder.join("stdout")).unwrap();
    for name in ["stdout", "link"] {
        std::os::unix::fs::symlink(&outside, folder.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(&root, root.join("logs/attempts/out")).unwrap();
    let journal = server.trial.read("logs/ralph.jsonl");
    for log in ["../..", "/", "logs/../", "logs/attempts/out"] {
        let forged =
            journal.replace("\"log\":\"logs/attempts/b/1\"", &format!("\"log\":\"{log}\""));
        assert_ne!(forged, journal);
        fs::write(root.join("logs/ralph.jsonl"), forged).unwrap();
        for path in ["b.1/files/elsewhere", "a.1/files/link", "a.1/files/stdout", "a.1/transcript"]
        {
            let reply = server.get(&format!("/api/attempts/{path}"));
            assert!(!reply.body.contains("not for the page"), "{path} {log}: {reply:?}");
        }
        assert!(!server.get("/api/attempts/a.1").body.contains("not for the page"));
    }
    fs::write(root.join("logs/ralph.jsonl"), journal).unwrap();
    let graph = server.get("/api/graph");
    assert_eq!(graph.status, 200);
    assert!(!graph.body.contains("swordfish"), "{}", graph.body);
    let journal = server.get("/api/journal?task=a").json();
    assert!(journal["rows"].as_array().unwrap().iter().all(|row| row["task_id"] == "a"));
    let timeline = server.get("/api/timeline").json();
    assert_eq!(timeline["bars"].as_array().unwrap().len(), 2, "{timeline}");
    server.end();
}

#[test]
fn the_page_shows_a_run_that_died_and_outlives_it() {
    let settings = format!("{SETTINGS}agent: [{}]\n", agent("gate"));
    let server = Server::of(simple().file(".ralph/config.yaml", &settings), &[]);
    let run = server.trial.start(["run"]);
    wait_for(&server.trial.sign("waiting-a"));
    assert_eq!(server.get("/api/now").json()["status"], "running");
    let mut events = server.events(None);
    next_event(&mut events);
    run.kill();
    until("the page says so", || server.get("/api/now").json()["status"] == "crashed");
    let named = (0..20).map(|_| next_event(&mut events)).find(|(_, name, _)| name == "files");
    assert_eq!(named.unwrap().2["is_live"], false, "an open page is told");
    // A graph that is broken for a moment is an error of one view.
    fs::write(server.trial.root().join("task-graph.yaml"), "tasks: [{id: a, depends_on: [x]}]\n")
        .unwrap();
    let graph = server.get("/api/graph");
    assert_eq!(graph.status, 500);
    assert!(graph.json()["error"].as_str().unwrap().contains("`x`"), "{graph:?}");
    assert_eq!(server.get("/api/now").status, 200);
    server.end();
}

#[test]
fn a_run_can_serve_its_page_itself() {
    let settings = format!("{SETTINGS}agent: [{}]\n", agent("gate"));
    let trial = simple().file(".ralph/config.yaml", &settings);
    let run = trial.start(["run", "--serve=0"]);
    wait_for(&trial.sign("waiting-a"));
    let said = run.said();
    let link = &said[said.find("http://").unwrap()..];
    let (address, path) = link["http://".len()..].split_once('/').unwrap();
    let path = format!("/{}", path.split_whitespace().next().unwrap());
    let address: SocketAddr = address.parse().unwrap();
    let host = format!("Host: {address}");
    let entry = send(address, "GET", &path, &[&host], "");
    let cookie =
        format!("Cookie: {}", entry.header("set-cookie").unwrap().split(';').next().unwrap());
    let now = send(address, "GET", "/api/now", &[&host, &cookie], "").json();
    assert_eq!((&now["status"], &now["attempts"][0]["task_id"]), (&json!("running"), &json!("a")));
    trial.leave("open");
    // Without a terminal, the page ends with the run.
    run.end(&trial).code(0);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}
