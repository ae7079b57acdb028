//! `ralph mcp`, spoken to line by line as a client does.

#![expect(clippy::needless_pass_by_value, reason = "requests read better made in place")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{RALPH, SOON, TestProject, until};

/// A client with its server; the server is killed when dropped.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
    /// The answer to `initialize`.
    about: Value,
}

impl Client {
    fn of(trial: &TestProject, flags: &[&str]) -> Client {
        let mut command = trial.process(RALPH);
        command.arg("mcp").args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let input = child.stdin.take();
        let mut client = Client { child, input, lines, next: 1, about: Value::Null };
        client.about = client.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "test", "version": "0"}}),
        );
        client.send(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
        client
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The whole response to a request.
    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string());
        loop {
            let line = self.lines.recv_timeout(SOON).expect("the server answers");
            let response: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(response["jsonrpc"], "2.0", "{response}");
            if response["id"] == id {
                return response;
            }
        }
    }

    /// The result of a request.
    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let response = self.request(method, params);
        assert!(response.get("error").is_none(), "{response}");
        response["result"].clone()
    }

    /// The texts of a tool, and whether it failed.
    #[track_caller]
    fn call(&mut self, name: &str, arguments: Value) -> (Vec<String>, bool) {
        let result = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        let texts = result["content"].as_array().unwrap().iter();
        let texts = texts.map(|part| part["text"].as_str().unwrap().to_owned()).collect();
        (texts, result["isError"].as_bool().unwrap())
    }

    /// The JSON that a tool answers with.
    #[track_caller]
    fn json(&mut self, name: &str, arguments: Value) -> Value {
        let (texts, is_error) = self.call(name, arguments);
        assert!(!is_error, "{texts:?}");
        serde_json::from_str(&texts[0]).expect(&texts[0])
    }

    /// What a failed tool says.
    #[track_caller]
    fn refusal(&mut self, name: &str, arguments: Value) -> String {
        let (texts, is_error) = self.call(name, arguments);
        assert!(is_error, "{texts:?}");
        texts.join("\n")
    }

    /// The names of the tools.
    fn tools(&mut self) -> Vec<String> {
        let tools = self.ask("tools/list", json!({}));
        let names = tools["tools"].as_array().unwrap().iter();
        names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The text of a resource, as JSON.
    #[track_caller]
    fn read(&mut self, uri: &str) -> Value {
        let found = self.ask("resources/read", json!({"uri": uri}));
        let part = &found["contents"][0];
        assert_eq!((&part["uri"], &part["mimeType"]), (&uri.into(), &"application/json".into()));
        serde_json::from_str(part["text"].as_str().unwrap()).unwrap()
    }

    /// Closes standard input, and returns the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        until("the server ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn simple() -> TestProject {
    TestProject::new().graph("tasks: [{id: a, title: First}]\n")
}

#[test]
fn a_client_adds_tasks_and_sees_what_they_wait_for() {
    let trial = simple();
    let mut client = Client::of(&trial, &[]);
    assert_eq!(client.about["serverInfo"]["name"], "ralph");
    assert!(client.about["instructions"].as_str().unwrap().contains("`check`"));
    let tools = client.ask("tools/list", json!({}));
    let tool = |name: &str| {
        let mut all = tools["tools"].as_array().unwrap().iter();
        all.find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(tool("status")["annotations"]["readOnlyHint"], true);
    assert_eq!(tool("task-reset")["annotations"]["destructiveHint"], true);
    assert_eq!(tool("task-add")["annotations"]["destructiveHint"], false);
    assert_eq!(tool("task-add")["inputSchema"]["required"], json!(["title"]));
    assert_eq!(tool("note")["inputSchema"]["properties"]["task"]["type"], "string");

    let added = client.json(
        "task-add",
        json!({"title": "--json", "id": "b", "after": ["a"], "verify": ["test -e b"],
               "description": "Two lines:\n--help"}),
    );
    assert_eq!((&added["id"], &added["title"]), (&"b".into(), &"--json".into()));
    assert!(trial.graph_text().contains("--help"), "{}", trial.graph_text());
    let board = client.json("dag-status", json!({}));
    let text = board.to_string();
    assert!(text.contains("\"waiting_on\"") && text.contains("\"b\""), "{text}");
    let shown = client.read("ralph://show/b");
    assert_eq!(shown["title"], "--json");
    let (texts, is_error) = client.call("check", json!({"strict": true}));
    assert!(!is_error && texts.last().unwrap().contains("no-check"), "{texts:?}");
    assert_eq!(client.end(), Some(0));
    // What the tools changed is a change of the person.
    assert_eq!(trial.lines("status_changed")[0]["cause"], "command");
    trial.no_process_is_left();
}

#[test]
fn the_parked_and_the_asking_are_explained_and_helped() {
    let trial = TestProject::new()
        .graph("tasks: [{id: a}, {id: b}]\n")
        .file(".ralph/config.yaml", &format!("{}max_attempts: 1\n", crate::support::SETTINGS))
        .agent("told");
    fs::write(trial.dir().join("do-a"), "exit 3").unwrap();
    fs::write(trial.dir().join("do-b"), "\"$RALPH\" ask 'Which color?'").unwrap();
    trial.run(["run"]).code(4).code_is_any();
    let mut client = Client::of(&trial, &[]);
    let status = client.json("status", json!({})).to_string();
    assert!(status.contains("parked") && status.contains("Which color?"), "{status}");
    let attempt = client.read("ralph://show/a.1").to_string();
    assert!(attempt.contains("\"exit_code\":3"), "{attempt}");
    assert_eq!(client.read("ralph://attempts").as_array().map(Vec::len), Some(2));
    let (asked, _) = client.call("answer", json!({"id": "b"}));
    assert_eq!(asked, ["Which color?"]);
    let (said, is_error) = client.call("answer", json!({"id": "b", "text": "Blue.\nNot red."}));
    assert!(!is_error && said[0].contains("its next attempt gets the answer"), "{said:?}");
    let (said, is_error) = client.call("task-reset", json!({"ids": ["a"], "note": "Exit with 0."}));
    assert!(!is_error, "{said:?}");
    client.call("note", json!({"task": "a", "text": "-"}));
    client.call("note", json!({"task": "a", "text": "Be kind."}));
    client.call("task-block", json!({"id": "b", "reason": "Not yet."}));
    for uri in ["status", "report", "dag-status", "review", "costs"] {
        client.read(&format!("ralph://{uri}"));
    }
    client.end();
    let answers: Vec<Value> =
        trial.lines("answered").iter().map(|it| it["answer"].clone()).collect();
    assert_eq!(answers, ["Blue.\nNot red.", "Exit with 0.", "Be kind."]);
    assert_eq!((trial.status("a"), trial.status("b")), ("pending".into(), "blocked".into()));
}

#[test]
fn resources_are_listed_and_unknown_ones_refused() {
    let trial = simple();
    let mut client = Client::of(&trial, &[]);
    let uris = |found: &Value, list: &str, field: &str| -> Vec<String> {
        let found = found[list].as_array().unwrap().iter();
        found.map(|it| it[field].as_str().unwrap().to_owned()).collect()
    };
    let found = client.ask("resources/list", json!({}));
    let all = uris(&found, "resources", "uri");
    assert_eq!(all.len(), 6, "{all:?}");
    for uri in all {
        client.read(&uri);
    }
    let found = client.ask("resources/templates/list", json!({}));
    let templates = uris(&found, "resourceTemplates", "uriTemplate");
    assert_eq!(templates, ["ralph://show/{id}"]);
    for (uri, part) in [
        ("ralph://run", "no resource `ralph://run`"),
        ("file:///etc/passwd", "no resource"),
        ("ralph://show/none", "no task `none`"),
        ("ralph://show/--help", "no task `--help`"),
    ] {
        let error = client.request("resources/read", json!({"uri": uri}))["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
}

#[test]
fn bad_calls_are_explained_and_the_server_goes_on() {
    let trial = simple();
    let before = trial.graph_text();
    let mut client = Client::of(&trial, &[]);
    for (name, arguments, part) in [
        ("rm", json!({}), "no tool `rm`"),
        ("run", json!({}), "`ralph mcp --allow-run` offers it"),
        ("take-back", json!({"ids": ["a"]}), "no tool `take-back`"),
        ("task-add", json!({}), "required arguments were not provided"),
        ("task-add", json!({"title": "T", "graph": "x"}), "no argument `graph`"),
        ("task-add", json!({"title": {"a": 1}}), "`title` must be a text"),
        ("task-add", json!({"title": "T\u{0}"}), "must not contain the character NUL"),
        ("task-add", json!({"title": "T", "after": ["none"]}), "no task `none`"),
        ("task-add", json!({"title": "T".repeat(3 << 20)}), "start `ralph`"),
        ("plan", json!({"jobs": 0}), "0 is not in 1.."),
    ] {
        let said = client.refusal(name, arguments);
        assert!(said.contains(part), "{name}: {said}");
    }
    for line in ["", "{", "nonsense", "[]", r#"{"jsonrpc": "2.0", "id": 7}"#, "{\"a\": \"\u{e9}\"}"]
    {
        client.send(line);
    }
    let error = client.request("tools/call", json!({"arguments": 1}));
    assert!(error.get("error").is_some(), "{error}");
    assert!(client.request("no/such/method", json!({})).get("error").is_some());
    assert_eq!(client.json("show", json!({"id": "a"}))["id"], "a");
    assert_eq!(trial.graph_text(), before);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn without_a_graph_or_a_repository_each_call_says_so() {
    let trial = TestProject::new();
    let mut client = Client::of(&trial, &[]);
    let said = client.refusal("dag-status", json!({}));
    assert!(said.contains("task-graph.yaml") && said.contains("exit code"), "{said}");
    // Later it is there.
    trial.write("task-graph.yaml", "tasks: [{id: late}]\n");
    assert!(client.json("dag-status", json!({})).to_string().contains("late"));
    let trial = TestProject::bare();
    let mut client = Client::of(&trial, &[]);
    assert!(client.refusal("status", json!({})).contains("is not in a git repository"));
}

#[test]
fn long_output_is_cut_and_says_so() {
    let tasks: String = (0..6000).map(|n| format!("- {{id: t{n}, title: Task {n}}}\n")).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{tasks}"));
    let mut client = Client::of(&trial, &[]);
    let (texts, is_error) = client.call("dag-status", json!({}));
    assert!(!is_error && texts[0].len() < 300 << 10, "{}", texts[0].len());
    assert!(texts[0].contains("… cut: these are the first 262144 of "), "{is_error}");
}

#[test]
fn a_run_is_started_only_where_it_is_allowed() {
    let trial = simple().file(
        ".ralph/config.yaml",
        &format!("{}agent: [{}]\n", crate::support::SETTINGS, crate::support::agent("gate")),
    );
    let mut client = Client::of(&trial, &[]);
    assert_eq!(client.tools().len(), 11);
    assert_eq!(client.end(), Some(0));
    let mut client = Client::of(&trial, &["--allow-run"]);
    assert_eq!(client.tools()[11..], ["run", "stop", "pause", "resume"]);
    let (said, is_error) = client.call("run", json!({"max-iterations": 5}));
    assert!(!is_error && said[0].contains("continues in the background"), "{said:?}");
    crate::support::wait_for(&trial.sign("waiting-a"));
    assert!(client.refusal("run", json!({})).contains("another ralph runs in this repository"));
    let (said, is_error) = client.call("pause", json!({}));
    assert!(!is_error && said[0].starts_with("pausing"), "{said:?}");
    let (said, is_error) = client.call("resume", json!({}));
    assert!(!is_error && said[0].starts_with("resumed"), "{said:?}");
    // The run outlives its client.
    assert_eq!(client.end(), Some(0));
    trial.leave("open");
    trial.wait_for_records(1, "finished");
    assert_eq!(trial.tasks("completed"), ["a"]);
    trial.no_process_is_left();
}

/// What an attempt may do works, what is for people does not.
#[test]
fn inside_an_attempt_the_rules_of_attempts_hold() {
    let trial =
        TestProject::new().graph("tasks: [{id: a}, {id: b, status: blocked}]\n").agent("told");
    let call = |id: u8, name: &str, arguments: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\
             \"params\":{{\"name\":\"{name}\",\"arguments\":{arguments}}}}}"
        )
    };
    let lines = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#.to_owned(),
        call(1, "task-add", r#"{"title":"More"}"#),
        call(2, "task-reset", r#"{"ids":["b"]}"#),
        call(3, "answer", r#"{"id":"b","text":"x"}"#),
        call(4, "stop", "{}"),
        call(5, "run", "{}"),
        call(6, "show", r#"{"id":"a"}"#),
        call(7, "note", r#"{"text":"Mind the gap."}"#),
    ];
    fs::write(trial.dir().join("lines"), lines.join("\n") + "\n").unwrap();
    let script = "\"$RALPH\" mcp --allow-run < \"$TRIAL_DIR/lines\" > \"$TRIAL_DIR/said\"\nwork";
    fs::write(trial.dir().join("do-a"), script).unwrap();
    trial.run(["run"]).code(3).code_is_any();
    let said = fs::read_to_string(trial.dir().join("said")).unwrap();
    let answers: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = |id: u8| {
        let found = answers.iter().find(|answer| answer["id"] == id);
        found.unwrap_or_else(|| panic!("no answer {id} in {said}"))["result"].clone()
    };
    for id in 1..=4 {
        assert_eq!(answer(id)["isError"], true, "{}", answer(id));
        let text = answer(id)["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("is for people, and this is attempt 1 at `a`"), "{text}");
    }
    assert_eq!(answer(5)["isError"], true, "{}", answer(5));
    for id in 6..=7 {
        assert_eq!(answer(id)["isError"], false, "{}", answer(id));
    }
    assert_eq!(trial.lines("noted").len(), 1);
    assert_eq!(
        (trial.tasks("completed"), trial.status("b")),
        (vec!["a".to_owned()], "blocked".into())
    );
    trial.no_process_is_left();
}

#[test]
fn the_server_ends_with_its_client() {
    let trial = simple();
    assert_eq!(Client::of(&trial, &[]).end(), Some(0));
    // Without a word.
    trial.run(["mcp"]).stdout("").stderr("");
    // By the signal that a client sends.
    let mut client = Client::of(&trial, &[]);
    let pid = Pid::from_raw(i32::try_from(client.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    until("the server ends", || client.child.try_wait().unwrap().is_some());
    // With a call that nobody waits for.
    let mut client = Client::of(&trial, &[]);
    let call = json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call",
                      "params": {"name": "task-add", "arguments": {"title": "Last"}}});
    client.send(&call.to_string());
    assert_eq!(client.end(), Some(0));
    assert!(trial.graph_text().contains("Last"));
    trial.no_process_is_left();
}
