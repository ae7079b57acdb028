//! The review of work by another agent, before it lands.

use serde_json::{Value, json};

use crate::support::{SETTINGS, TestProject, agent, until};

/// A task whose agent does `work`, and a reviewer that does `review`; `more` are its settings.
fn project(work: &str, review: &str, more: &str) -> TestProject {
    let agent = format!(
        "cat > \"$TRIAL_DIR/prompt-$RALPH_ATTEMPT\"; {work}; git add -A; git commit -qm work
         \"$RALPH\" task-complete $RALPH_TASK_ID"
    );
    let review = format!("cat > \"$TRIAL_DIR/asked-$RALPH_ATTEMPT\"; {review}");
    let settings = format!(
        "{SETTINGS}verify: test -s work\nreview: {{by: {{command: [sh, reviewer], name: strong}}{more}}}\n"
    );
    TestProject::new()
        .graph("tasks: [{id: a, max_attempts: 1}]\n")
        .file("reviewer", &review)
        .file(".ralph/config.yaml", &settings)
        .command(["sh", "-c", &agent])
}

/// An answer with a finding of this gravity.
fn found(severity: &str) -> String {
    let finding = json!({"file": "work", "line": 1, "severity": severity, "text": "no greeting"});
    format!("echo 'I looked. {}'", json!({ "findings": [finding] }))
}

const NOTHING: &str = "echo '{\"findings\": []}'";

/// The risks of the work of `a`.
fn risks(trial: &TestProject) -> Value {
    trial.run(["review", "--json"]).code(0).json()["to_review"][0]["risks"].clone()
}

fn read(trial: &TestProject, sign: &str) -> String {
    std::fs::read_to_string(trial.sign(sign)).unwrap()
}

#[test]
fn work_goes_back_with_the_findings_and_that_is_no_failure() {
    let review = format!("case $RALPH_ATTEMPT in 1) {};; *) {NOTHING};; esac", found("high"));
    let trial = project("echo $RALPH_ATTEMPT > work", &review, "");
    trial.run(["run"]).graph_complete();
    let ended = trial.lines("failed");
    assert_eq!((ended.len(), &ended[0]["verdict"]), (1, &json!("rejected")), "{ended:?}");
    assert!(ended[0]["why"].as_str().unwrap().contains("high: `work:1`: no greeting"));
    assert_eq!(ended[0]["verify"][0]["command"], "test -s work", "after its checks");
    assert!(read(&trial, "prompt-2").contains("high: `work:1`: no greeting"));
    let asked = read(&trial, "asked-2");
    assert!(asked.contains("+2") && asked.contains("which its author was to mend"), "{asked}");
    assert!(asked.contains("These commands passed: `test -s work`"), "{asked}");
    let reviews = trial.lines("work_reviewed");
    let back: Vec<_> = reviews.iter().map(|line| line["review"]["sent_back"].clone()).collect();
    assert_eq!(back, [json!(true), Value::Null]);
    assert_eq!(trial.read("work"), "2\n");
    assert!(!risks(&trial).to_string().contains("reviewed"));
    trial.run(["show", "a.1"]).code(0).stdout_has("no greeting");
    let costs = trial.run(["costs", "--json"]).code(0).json();
    assert_eq!(costs["total"]["attempts"], 2);
    trial.no_process_is_left();
}

/// After the last round, the work lands and is named; or it does not land.
#[test]
fn a_reviewer_that_is_never_content_holds_up_only_what_requires_it() {
    for (more, code) in [(", rounds: 1", 0), (", rounds: 1, required: true", 3)] {
        let trial = project("echo $RALPH_ATTEMPT > work", &found("medium"), more);
        trial.run(["run"]).code(code);
        let verdicts: Vec<_> =
            trial.lines("failed").iter().map(|it| it["verdict"].clone()).collect();
        if code == 0 {
            assert_eq!(verdicts, ["rejected"]);
            assert_eq!(risks(&trial)[0]["kind"], "reviewed");
            trial.run(["report"]).code(0).stdout_has("no greeting");
        } else {
            assert_eq!(verdicts, ["rejected", "unverified"]);
            assert_eq!(trial.status("a"), "in-progress", "it is parked");
        }
    }
    let trial = project("echo 1 > work", &found("low"), "");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("failed").len(), 0, "a matter of taste");
}

/// It writes, commits, reports and asks; it hangs, fails and says nothing that can be read.
#[test]
fn what_a_reviewer_does_besides_its_answer_counts_for_nothing() {
    let writes = format!(
        "echo bad > work; git add -A; git commit -qm bad; \"$RALPH\" task-block a --reason no
         for it in 'task-complete a' 'ask why' 'note evil'; do
             \"$RALPH\" $it && echo \"$it\" >> \"$TRIAL_DIR/spoke\"
         done
         rm -rf .git task-graph.yaml; {NOTHING}"
    );
    for (review, why) in [
        (writes.as_str(), Value::Null),
        ("sleep 60", json!("ended by ralph at its limit of 2.0s")),
        ("exit 3", json!("exited with code 3")),
        ("echo fine", json!("its last message has no findings as JSON (exited with code 0)")),
    ] {
        let trial = project("echo $RALPH_ATTEMPT > work", review, "");
        let settings = trial.read(".ralph/config.yaml") + "timeout: 2s\n";
        let trial = trial.file(".ralph/config.yaml", &settings);
        trial.run(["run"]).graph_complete();
        let reviews = trial.lines("work_reviewed");
        assert_eq!((reviews.len(), &reviews[0]["review"]["failed"]), (1, &why), "{review}");
        assert_eq!(trial.read("work"), "1\n", "{review}");
        assert_eq!(risks(&trial).to_string().contains("reviewed"), !why.is_null(), "{review}");
        assert_eq!(trial.git(&["status", "--short"]), "", "{review}");
        assert!(!trial.sign("spoke").exists() && trial.lines("asked").is_empty(), "{review}");
        trial.no_process_is_left();
    }
}

/// Its author has nothing to mend, and is not paid again.
#[test]
fn work_whose_required_review_cannot_be_made_waits_for_a_person() {
    let trial = project("echo $RALPH_ATTEMPT > work", "echo fine", ", required: true");
    let trial = trial.graph("tasks: [{id: a}]\n");
    trial.run(["run"]).code(3);
    assert_eq!((trial.tasks("started").len(), trial.tasks("parked")), (1, vec!["a".to_owned()]));
    assert!(trial.lines("failed")[0]["why"].as_str().unwrap().contains("did not review it"));
}

/// Its author has nothing to do meanwhile, and other tasks go on.
#[test]
fn work_whose_required_review_meets_a_limit_waits_for_it() {
    let review = format!(
        "[ $RALPH_TASK_ID = b ] && touch \"$TRIAL_DIR/b\"
         [ -e \"$TRIAL_DIR/late\" ] && {NOTHING} && exit; touch \"$TRIAL_DIR/late\"
         echo 'Error: 429 Too Many Requests; please retry in 3s' >&2; exit 1"
    );
    let work = "echo $RALPH_ATTEMPT > work; echo 1 > $RALPH_TASK_ID; touch \"$TRIAL_DIR/works-$RALPH_TASK_ID\"";
    for (more, reviews) in [(", required: true", 3), ("", 1)] {
        let trial = project(work, &review, more).graph("tasks: [{id: a}, {id: b}]\n");
        let settings = trial.read(".ralph/config.yaml") + "jobs: 1\n";
        let trial = trial.file(".ralph/config.yaml", &settings);
        let run = trial.start_until(["run"], "works-b");
        if reviews == 3 {
            assert!(!trial.sign("b").exists(), "`b` works while `a` waits");
            trial.run(["status"]).stdout_has("its review by `strong` waits until");
        }
        run.end(&trial).graph_complete();
        let all = trial.lines("work_reviewed");
        let why = all[0]["review"]["failed"].as_str().unwrap();
        assert!(why.contains("request rate") && all[0]["obstacle"]["until"].is_string(), "{why}");
        assert_eq!((trial.tasks("started").len(), all.len()), (2, reviews), "{all:?}");
        assert_eq!(trial.tasks("failed").len(), 0);
        let unseen = risks(&trial).to_string().matches("did not review").count();
        assert_eq!(unseen, usize::from(reviews == 1), "{more}");
        trial.no_process_is_left();
    }
}

#[test]
fn a_required_review_beyond_the_longest_wait_ends_the_run_and_keeps_the_work() {
    for (error, code, why) in [
        ("401 Unauthorized: invalid API key", 77, "`strong`, whose review is required: authent"),
        ("402 Payment Required: insufficient credit balance", 77, "the account has no credit"),
        (
            "429 Too Many Requests; please retry in 50m",
            2,
            "`strong`, whose review is required: the provider limits the request rate, for longer than",
        ),
    ] {
        let review = format!(
            "[ -e \"$TRIAL_DIR/mended\" ] && {NOTHING} && exit; echo 'Error: {error}' >&2; exit 1"
        );
        let trial = project("echo $RALPH_TASK_ID > work", &review, ", required: true");
        let settings = trial.read(".ralph/config.yaml") + "max_wait: 10m\n";
        let trial = trial.graph("tasks: [{id: a}, {id: b, depends_on: a}, {id: c}]\n");
        let trial = trial.file(".ralph/config.yaml", &settings);
        let said = trial.run(["run"]).code(code).stderr_has(why).err();
        assert!(!said.contains("did not review it"), "said by the line that says it waits: {said}");
        assert_eq!((trial.tasks("parked").len(), trial.tasks("failed").len()), (0, 0), "{error}");
        assert_eq!(trial.tasks("started"), ["a"], "no more is paid that could not land");
        trial.leave("mended");
        if code == 2 {
            trial.run(["resume", "--now"]).code_is_any();
        }
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.tasks("started").len(), 3, "no work is paid twice");
        trial.no_process_is_left();
    }
}

#[test]
fn a_reviewer_without_a_login_is_asked_once_where_its_review_is_not_required() {
    let review = "echo 'Error: 401 Unauthorized: invalid API key' >&2; exit 1";
    let trial = project("echo $RALPH_TASK_ID > work", review, "");
    let trial = trial.graph("tasks: [{id: a}, {id: b, depends_on: a}]\n");
    let said = trial.run(["run"]).graph_complete();
    let said = said.whole();
    assert!(said.contains("a: `strong` did not review it: authentication failed"), "{said}");
    assert!(!said.contains("b: `strong` did not"), "{said}");
    assert_eq!(trial.lines("reviewing").len(), 1);
    let review = trial.run(["review", "--json"]).code(0).json().to_string();
    assert_eq!(review.matches("authentication failed").count(), 2, "{review}");
}

/// Before anything is paid.
#[test]
fn what_is_not_reviewed_is_said_at_the_start_and_refused_where_it_is_required() {
    let trial = project("echo 1 > work", NOTHING, "");
    let said = trial.run(["run", "--in-place"]).graph_complete();
    said.stderr_has("is not reviewed: it lands as not reviewed");
    assert!(trial.lines("reviewing").is_empty());
    let unseen = "`strong` did not review it: it was done in the checkout";
    trial.run(["report"]).code(0).stdout_has(unseen);
    let trial = project("echo 1 > work", NOTHING, ", required: true");
    trial.run(["run", "--in-place"]).code(64).stderr_has("leave that out, or work in slots here");
    let settings = trial.read(".ralph/config.yaml")
        + "executors: {big: {command: {argv: [sh, -c]}}}\nrun_on: big\n";
    assert!(!trial.root().join("logs/ralph.jsonl").exists(), "nothing has begun");
    trial.write(".ralph/config.yaml", &settings);
    trial.run(["run"]).code(64).stderr_has("work on `big` is not reviewed");
    trial.run(["doctor", "--quick"]).code(64).stdout_has("work on `big` is not reviewed");
}

#[test]
fn an_author_that_reviews_its_own_work_is_named() {
    let author = "cat > /dev/null; echo 1 > work; git add -A; git commit -qm work; \"$RALPH\" task-complete a";
    let author = format!("{{command: [sh, -c, {}], name: mine}}", json!(author));
    let settings =
        format!("{SETTINGS}agents: {{mine: {author}}}\nagent: mine\nreview: {{by: mine}}\n");
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command([]);
    let trial = trial.file(".ralph/config.yaml", &settings);
    let doctor = trial.run(["doctor", "--quick"]);
    assert!(doctor.whole().contains("`mine` reviews its own work"));
    trial.run(["run"]).stderr_has("warning: `mine` reviews its own work");
}

#[test]
fn a_reviewer_that_cannot_be_started_is_an_error_before_anything_is_paid() {
    for by in ["nowhere-to-be-found", "[sh, nothing, here]"] {
        let settings = format!("{SETTINGS}review: {{by: {by}}}\n");
        let trial = TestProject::new().graph("tasks: [{id: a}]\n");
        let ran = trial.file(".ralph/config.yaml", &settings);
        let code = if by.starts_with('[') { 0 } else { 69 };
        let ran = ran.agent("commit").run(["run"]).code(code);
        if code == 69 {
            ran.stderr_has("change `by` of `review` in `.ralph/config.yaml`");
        }
    }
}

#[test]
fn a_run_that_is_killed_during_a_review_has_it_made_again() {
    let review =
        format!("touch \"$TRIAL_DIR/looks\"; [ -e \"$TRIAL_DIR/again\" ] || sleep 60; {NOTHING}");
    let trial = project("echo $RALPH_ATTEMPT > work", &review, "");
    let run = trial.start_until(["run"], "looks");
    trial.wait_for_records(1, "reviewing");
    run.kill();
    trial.leave("again");
    trial.run(["run"]).graph_complete();
    assert_eq!((trial.lines("reviewing").len(), trial.lines("work_reviewed").len()), (2, 1));
    assert_eq!((trial.tasks("started").len(), trial.read("work")), (1, "1\n".to_owned()));
    trial.no_process_is_left();
}

#[test]
fn a_run_that_is_stopped_during_a_review_ends_at_once() {
    let trial = project("echo $RALPH_ATTEMPT > work", "touch \"$TRIAL_DIR/looks\"; sleep 60", "");
    let run = trial.start_until(["run"], "looks");
    trial.run(["stop", "--now"]).code(0);
    until("the run has ended", || !trial.lines("finished").is_empty());
    run.end(&trial).code_is_any();
    assert!(trial.lines("completed").is_empty());
    trial.no_process_is_left();
}

/// Work without a reason for a look lands without one.
#[test]
fn only_work_at_risk_is_reviewed_if_the_settings_say_so() {
    let work = "echo 1 > $RALPH_TASK_ID; [ $RALPH_TASK_ID = a ] || echo '{}' > package.json; echo 1 > work";
    let trial = project(work, NOTHING, ", when: risky");
    let trial = trial.graph("tasks: [{id: a}, {id: b, depends_on: a}]\n");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("reviewing"), ["b"]);
}

/// The author that can resume its conversation mends its work in the same attempt, as often as the rounds
/// say.
#[test]
fn findings_go_to_the_author_in_its_conversation() {
    for (turns, good) in [("bad+report good+report", true), ("bad+report bad+report", false)] {
        let review = format!(
            "cat > \"$TRIAL_DIR/asked\"; grep -q good value && {NOTHING} || {}",
            found("high").replace("work", "value")
        );
        let settings = format!(
            "{SETTINGS}agent: {{preset: claude, command: [{}]}}\nverify: test -s value\n\
             review: {{by: {{command: [sh, reviewer], name: strong}}, rounds: 1}}\n",
            agent("follow-up")
        );
        let trial = TestProject::new()
            .graph("tasks: [{id: a}]\n")
            .file("reviewer", &review)
            .file("value", "none\n")
            .file(".ralph/config.yaml", &settings)
            .env("TURNS", turns);
        trial.run(["run"]).graph_complete();
        assert_eq!((trial.tasks("started").len(), trial.tasks("failed").len()), (1, 0));
        let continued = json!({"attempt": 1, "lack": "findings of a reviewer"});
        trial.assert_record("agent_continued", &continued);
        assert!(read(&trial, "prompt-2").contains("high: `value:1`: no greeting"));
        assert!(read(&trial, "asked").contains("which its author was to mend"));
        assert_eq!(trial.lines("work_reviewed").len(), 2);
        assert_eq!(risks(&trial).to_string().contains("reviewed"), !good, "{turns}");
        trial.no_process_is_left();
    }
}

#[test]
fn work_that_conflicts_by_now_is_not_reviewed() {
    let work = "if [ $RALPH_TASK_ID$RALPH_ATTEMPT = b1 ]; then
             until grep -q a \"$TRIAL_DIR/repo/work\"; do sleep 0.05; done; fi
         if [ $RALPH_TASK_ID = b ] && grep -q a work; then echo both > work; else echo $RALPH_TASK_ID > work; fi";
    let review = format!("echo 1 >> \"$TRIAL_DIR/reviews\"; {NOTHING}");
    let trial = project(work, &review, "").graph("tasks: [{id: a}, {id: b}]\n");
    let settings = trial.read(".ralph/config.yaml") + "jobs: 2\n";
    let trial = trial.file(".ralph/config.yaml", &settings).file("work", "none\n");
    trial.run(["run"]).graph_complete();
    let failed = trial.lines("failed");
    assert_eq!((failed.len(), &failed[0]["verdict"]), (1, &json!("conflict")), "{failed:?}");
    assert_eq!(failed[0]["merge"]["paths"], json!(["work"]), "{failed:?}");
    assert_eq!(read(&trial, "reviews").lines().count(), 2, "of `a`, and of what was merged");
    assert_eq!(trial.read("work"), "both\n");
}

#[test]
fn a_review_is_called_so_while_it_is_made() {
    let review = format!(
        "touch \"$TRIAL_DIR/looks\"; until [ -e \"$TRIAL_DIR/go\" ]; do sleep 0.05; done; {NOTHING}"
    );
    let trial = project("echo 1 > work", &review, "");
    let run = trial.start_until(["run"], "looks");
    trial.run(["status"]).stdout_has("reviewing");
    trial.run(["slots"]).code(0).stdout_has("reviewer; in use by attempt a.1, reviewing");
    trial.leave("go");
    run.end(&trial).graph_complete();
    trial.run(["slots"]).code(0).stdout_has("reviewer; free");
}
