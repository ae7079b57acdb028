//! `ralph replay` as the agent of a run: timed recordings, earlier attempts, plain files.

use crate::support::{RALPH, TestProject};

const ONE: &str = "tasks: [{id: a, max_attempts: 1}]\n";

/// A repository with the recording of a failure.
fn recorded() -> TestProject {
    let timed =
        "[0.01, \"out\", \"thinki\"]\n[0.02, \"err\", \"oh\"]\n[9000, \"out\", \"gave up\"]\n";
    TestProject::new()
        .graph(ONE)
        .file("rec/timed.jsonl", timed)
        .file("rec/stdout", "thinking it over\ngave up")
        .file("rec/stderr", "oh\n")
        .file("rec/meta.json", "{\"rc\": 7, \"wall_s\": 9000}\n")
}

#[test]
fn a_recording_fails_as_its_agent_did() {
    let trial = recorded().command([RALPH, "replay", "rec"]);
    trial.run(["run", "-q"]).code(3);
    assert_eq!(trial.read("logs/attempts/a/1/stdout"), "thinking it over\ngave up");
    assert_eq!(trial.read("logs/attempts/a/1/stderr"), "oh\n");
    let failed = trial.lines("failed").remove(0);
    assert_eq!((&failed["exit_code"], &failed["last_line"]), (&7.into(), &"gave up".into()));
}

#[test]
fn an_attempt_is_played_again_as_if_it_had_done_its_task() {
    let trial = recorded().command([RALPH, "replay", "rec", "--speed", "max"]);
    trial.run(["run", "-q"]).code(3);
    trial.run(["task-reset", "a"]);
    let words = [RALPH, "replay", "logs/attempts/a/1", "--commit", "--report", "--exit-code", "1"];
    let trial = trial.command(words);
    trial.run(["run"]);
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert_eq!(trial.subjects(), ["Replay a"]);
    assert_eq!(trial.read("replayed/a.txt"), "attempt 2\n");
    assert_eq!(trial.lines("completed")[0]["exit_code"], 1);
    for stream in ["stdout", "stderr"] {
        let of = |attempt: u32| trial.read(&format!("logs/attempts/a/{attempt}/{stream}"));
        assert_eq!(of(2), of(1));
    }
}

#[test]
fn a_file_is_what_was_printed() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude-success.jsonl");
    let text = std::fs::read_to_string(own).unwrap();
    let trial = TestProject::new();
    assert_eq!(trial.run(["replay", own]).out(), trial.redact(&text));
}

#[test]
fn an_unplayable_recording_is_an_error() {
    let trial = recorded().file("empty/x", "").file("bad/timed.jsonl", "[1]\n");
    trial.run(["replay", "empty"]).code(1).stderr(
        "ralph: error: `[repo]/empty` is not a recording; name a file, or a folder with `stdout` or \
         `timed.jsonl`, such as logs/attempts/ID/N\n",
    );
    trial
        .run(["replay", "bad"])
        .code(1)
        .stderr("ralph: error: timed.jsonl:1: not [seconds, \"out\", text]\n");
    trial.run(["replay", "rec", "--report"]).code(64).stderr(
        "ralph: error: `--commit` and `--report` work only inside an attempt; start one with `ralph run -- ralph replay …`\n",
    );
    trial.run(["replay", "rec", "--speed", "-1"]).code(64).stderr_has("unexpected argument");
    trial.run(["replay", "rec", "--speed", "fast"]).code(64).stderr_has("a factor such as 10");
}
