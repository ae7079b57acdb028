//! Requests that start a run: valid, invalid, replayed, stale, oversized, slow and very many.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    time::Duration,
};

use chrono::Utc;
use ralph::core::hmac::sign;
use rustix::process::Signal;

use crate::support::{Live, SETTINGS, TestProject, agent, until, wait_for};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A schedule that waits for requests, and its address.
struct Trial {
    stage: TestProject,
    schedule: Live,
    address: SocketAddr,
}

impl Trial {
    fn begin(agent_name: &str) -> Trial {
        let agent = agent(agent_name);
        let settings = format!(
            "{SETTINGS}agent: [{agent}]\nschedule:\n  run: [--once]\n  trigger: {{listen: \
             '127.0.0.1:0', secret_env: HOOK_SECRET}}\n"
        );
        let trial = TestProject::new()
            .graph("tasks: [{id: a}, {id: b}, {id: c}]\n")
            .file(".ralph/config.yaml", &settings)
            .env("HOOK_SECRET", SECRET);
        let schedule = trial.start(["schedule"]);
        until("it listens", || schedule.said().contains("/wake\n"));
        let said = schedule.said();
        let at = said.find("http://").unwrap() + "http://".len();
        let address = said[at..].split('/').next().unwrap().parse().unwrap();
        Trial { stage: trial, schedule, address }
    }

    /// Sends a request, and returns the first line and the body of the response.
    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = stream.write_all(bytes);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.lines().next().unwrap_or_default().trim_start_matches("HTTP/1.1 ");
        format!("{status}: {}", text.trim_end())
    }

    fn end(self) -> TestProject {
        self.schedule.signal(Signal::TERM);
        self.schedule.end(&self.stage).code(143);
        self.stage
    }
}

fn request(at: i64, signature: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /wake HTTP/1.1\r\nHost: here\r\nX-Ralph-Timestamp: {at}\r\nX-Ralph-Signature: \
         {signature}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn signed(at: i64, body: &str) -> Vec<u8> {
    let signature = sign(SECRET.as_bytes(), &at.to_string(), body.as_bytes());
    request(at, &signature, body)
}

fn now() -> i64 {
    Utc::now().timestamp()
}

const ACCEPTED: &str = "202 Accepted: a run will start";

#[test]
fn a_signed_request_starts_a_run_once() {
    let trial = Trial::begin("commit");
    let request = signed(now(), "{\"ref\": \"$(touch /tmp/x)\"}");
    assert_eq!(trial.send(&request), ACCEPTED);
    trial.stage.wait_for_records(2, "slept");
    assert_eq!(trial.send(&request), "401 Unauthorized: this request was already accepted");
    let trial = trial.end();
    let woken = trial.lines("woken");
    assert!(woken.len() == 1 && woken[0]["trigger"] == "webhook", "{woken:?}");
    assert!(woken[0].get("scheduled_for").is_none());
    assert_eq!(trial.tasks("completed"), ["a"]);
    let slept = &trial.lines("slept")[0];
    assert!(slept.get("until").is_none() && slept.get("cron").is_none(), "{slept}");
    assert!(!trial.read("logs/attempts/a/1/prompt.md").contains("touch"), "the body goes nowhere");
    assert!(!trial.read("logs/ralph.jsonl").contains("touch"));
}

#[test]
fn an_invalid_request_starts_nothing() {
    let trial = Trial::begin("commit");
    let wrong = format!("sha256={}", "0".repeat(64));
    for (bytes, want) in [
        (request(now(), &wrong, "x"), "401 Unauthorized: the signature is wrong"),
        (
            b"POST /wake HTTP/1.1\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "401 Unauthorized: X-Ralph-Timestamp and X-Ralph-Signature are required exactly once",
        ),
        (
            signed(now() - 301, "x"),
            "401 Unauthorized: the timestamp is too old, in the future, or from before the server \
             started",
        ),
        (b"GET /wake HTTP/1.1\r\n\r\n".to_vec(), "405 Method Not Allowed: the only method is POST"),
        (b"POST / HTTP/1.1\r\n\r\n".to_vec(), "404 Not Found: the only path is /wake"),
        (b"\x16\x03\x01 what TLS begins with".to_vec(), "400 Bad Request: "),
        (
            signed(now(), &"x".repeat(64 * 1024 + 1)),
            "413 Payload Too Large: the body has more than 64 KiB",
        ),
    ] {
        assert_eq!(trial.send(&bytes), want);
    }
    let largest = signed(now(), &"x".repeat(64 * 1024));
    assert_eq!(trial.send(&largest), ACCEPTED, "the largest that is taken");
    trial.stage.wait_for_records(2, "slept");
    assert_eq!(trial.end().lines("woken").len(), 1);
}

#[test]
fn one_more_run_can_be_asked_for_while_one_goes_on() {
    let trial = Trial::begin("gate");
    assert_eq!(trial.send(&signed(now(), "1")), ACCEPTED);
    wait_for(&trial.stage.sign("waiting-a"));
    assert_eq!(trial.send(&signed(now(), "2")), ACCEPTED);
    let full = "409 Conflict: a run is already requested and has not started";
    assert_eq!(trial.send(&signed(now(), "3")), full);
    assert_eq!(trial.send(&signed(now(), "3")), full, "it may be sent again");
    trial.stage.leave("open");
    trial.stage.wait_for_records(2, "finished");
    let trial = trial.end();
    assert_eq!(trial.lines("woken").len(), 2);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn a_flood_of_requests_is_bounded() {
    let trial = Trial::begin("gate");
    let tasks = format!("/proc/{}/task", trial.schedule.id());
    let threads = || fs::read_dir(&tasks).unwrap().count();
    let before = threads();
    // These connect and send nothing.
    let idle: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(trial.address).unwrap()).collect();
    let wrong = format!("sha256={}", "0".repeat(64));
    for _ in 0..200 {
        let answer = trial.send(&request(now(), &wrong, "x"));
        assert!(answer.starts_with("401 "), "{answer}");
    }
    let mut answers: Vec<String> =
        (0..12).map(|number| trial.send(&signed(now(), &number.to_string()))).collect();
    assert_eq!(answers[0], ACCEPTED, "idle connections do not block others");
    let last = answers.split_off(10);
    assert_eq!(last, ["429 Too Many Requests: more than ten requests in a minute"; 2]);
    let open = fs::read_dir(format!("/proc/{}/fd", trial.schedule.id())).unwrap().count();
    assert!(open < 100, "{open} files are open");
    // Four that answer, and one for the run.
    assert!(threads() <= before + 5, "{} threads", threads());
    drop(idle);
    trial.stage.leave("open");
    trial.end();
}

#[test]
fn neither_run_nor_agent_knows_the_secret() {
    let trial = Trial::begin("commit");
    let root = trial.stage.root().to_owned();
    let settings = format!(
        "{SETTINGS}agent: [sh, -c, 'env > \"$TRIAL_DIR/variables\"']\nschedule:\n  run: [--once]\n  \
         trigger: {{listen: '127.0.0.1:0', secret_env: HOOK_SECRET}}\n"
    );
    fs::write(root.join(".ralph/config.yaml"), settings).unwrap();
    assert_eq!(trial.send(&signed(now(), "")), ACCEPTED);
    trial.stage.wait_for_records(2, "slept");
    let trial = trial.end();
    assert_eq!(trial.lines("slept")[1]["exit_code"], 1);
    let variables = fs::read_to_string(trial.sign("variables")).unwrap();
    assert!(variables.contains("RALPH_TASK_ID=a") && !variables.contains("HOOK_SECRET"));
}

#[test]
fn a_secret_has_to_be_one() {
    let stage = |kept: &str| {
        let settings = format!("schedule: {{trigger: {{listen: '127.0.0.1:0', {kept}}}}}\n");
        TestProject::new().file(".ralph/config.yaml", &settings)
    };
    let trial = stage("secret_env: HOOK_SECRET");
    trial
        .run(["schedule"])
        .code(65)
        .stderr("ralph: error: `HOOK_SECRET` is not set (`secret_env` of `trigger`)\n");
    trial.env("HOOK_SECRET", "short").run(["schedule"]).code(65).stderr(
        "ralph: error: the secret in `HOOK_SECRET` is too short; use at least 16 characters, for example from `openssl rand -hex 32`\n",
    );
    let trial = stage("secret_file: ../secret");
    trial.run(["schedule"]).code(1).stderr_has("(`secret_file` of `trigger`): No such file");
    trial.write("../secret", &format!("{SECRET}\n"));
    fs::set_permissions(trial.sign("secret"), PermissionsExt::from_mode(0o644)).unwrap();
    let open = "ralph: error: other users can read `[repo]/../secret`; run `chmod 600` on it\n";
    trial.run(["schedule"]).code(65).stderr(open);
    fs::set_permissions(trial.sign("secret"), PermissionsExt::from_mode(0o600)).unwrap();
    let schedule = trial.start(["schedule"]);
    until("it listens", || schedule.said().contains("waiting for requests"));
    schedule.signal(Signal::TERM);
    schedule.end(&trial).code(143);
    let outside = stage("secret_file: ../secret").file(
        ".ralph/config.yaml",
        "schedule: {trigger: {listen: '0.0.0.0:0', secret_file: ../secret}}\n",
    );
    outside.write("../secret", SECRET);
    fs::set_permissions(outside.sign("secret"), PermissionsExt::from_mode(0o600)).unwrap();
    let schedule = outside.start(["schedule"]);
    until("it is told", || schedule.said().contains("warning: other machines can reach"));
    schedule.kill();
}
