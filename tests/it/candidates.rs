//! Several agents at one attempt: the best work lands, and nothing else of them counts.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{SETTINGS, TestProject, wait_for};

/// An agent that does what `work` has for `$n`, the number of the candidate.
fn agent(work: &str) -> String {
    format!(
        "cat > \"$TRIAL_DIR/prompt-$RALPH_ATTEMPT-${{RALPH_CANDIDATE:-1}}\"; n=${{RALPH_CANDIDATE:-1}}
         write() {{ echo \"$1\" > work; git add -A; git commit -qm \"$n\"; \"$RALPH\" task-complete a; }}
         {work}"
    )
}

/// A task with candidates, and more settings.
fn with_settings(candidates: &str, more: &str) -> TestProject {
    TestProject::new()
        .graph(&format!("tasks: [{{id: a, max_attempts: 2, candidates: {candidates}}}]\n"))
        .file(".ralph/config.yaml", &format!("{SETTINGS}verify: test -s work\n{more}"))
}

/// A task with candidates, whose agents do what `work` has for `$n`, their number.
fn project(candidates: &str, work: &str) -> TestProject {
    with_settings(candidates, "").command(["sh", "-c", &agent(work)])
}

/// The numbers and verdicts of the candidates of the attempt that completed the task, and the chosen one.
fn choice(trial: &TestProject) -> (Vec<(u64, String)>, Value) {
    let ended = trial.lines("completed");
    let all = ended[0]["candidates"]["of"].as_array().unwrap().iter();
    let all =
        all.map(|it| (it["number"].as_u64().unwrap(), it["verdict"].as_str().unwrap().to_owned()));
    (all.collect(), ended[0]["candidates"]["chosen"].clone())
}

fn slots_are_free(trial: &TestProject) {
    let said = trial.run(["slots"]).code(0).out();
    assert!(!said.contains("kept") && !said.contains("in use"), "{said}");
}

#[test]
fn the_smallest_work_lands_and_the_others_are_kept() {
    let trial = project(
        "3",
        "case $n in 1) write \"$(seq 9)\";; 2) write 2;; 3) write \"$(seq 5)\"; echo > left;; esac",
    );
    let said = trial.run(["run"]).graph_complete().err();
    assert!(said.contains("candidate 2 of 3: the smallest change"), "{said}");
    assert_eq!(trial.read("work"), "2\n");
    let complete = |number| (number, "complete".to_owned());
    assert_eq!(choice(&trial), (vec![complete(1), complete(2), complete(3)], json!(2)));
    let kept =
        |number: u32| trial.git(&["show", &format!("refs/ralph/candidates+a/1.{number}:work")]);
    let lines = [1, 2, 3].map(|number| kept(number).lines().count());
    assert_eq!(lines, [9, 1, 5]);
    let left = trial.git(&["show", "--stat", "refs/ralph/candidates+a/1.3"]);
    assert!(left.contains("left"), "its uncommitted file is in its work: {left}");
    // The same prompt but for the place of the report, of which none is another's.
    let prompt = |number: u32| std::fs::read_to_string(trial.sign(&format!("prompt-1-{number}")));
    let folder = "logs/attempts/a/1/candidate-2";
    let (own, second) = (prompt(1).unwrap(), prompt(2).unwrap());
    assert!(second.contains(folder) && !own.contains("candidate"), "{second}");
    assert!(own.contains("3 agents try this task at the same time"), "{own}");
    assert_eq!(own.lines().count(), second.lines().count());
    trial.run(["show", "a.1"]).code(0).stdout_has("Chosen: candidate 2 of 3: the smallest change");
    let costs = trial.run(["costs", "--json"]).code(0).json();
    assert_eq!(costs["total"]["attempts"], 1, "{costs}");
    // All of them are the costs of the task.
    let sums = costs["sums"].as_array().unwrap();
    assert_eq!((sums.len(), &sums[0]["name"]), (1, &json!("a")), "{costs}");
    assert_eq!(sums[0]["duration_seconds"], costs["total"]["duration_seconds"]);
    assert_eq!(trial.git(&["status", "--short"]), "");
    slots_are_free(&trial);
    trial.no_process_is_left();
}

/// The agent of the attempt errs in every way that it can; the candidate is good.
#[test]
fn good_work_of_a_candidate_lands_whatever_became_of_the_agent() {
    for own in [
        "echo later > draft",
        "exit 3",
        "sleep 60",
        "rm -rf .git; rm -rf *",
        "echo > work; git add -A; git commit -qm 1; \"$RALPH\" task-complete a; : > work",
        "\"$RALPH\" ask 'which one?'",
        "git checkout -qb other; write 1",
    ] {
        let trial = project("2", &format!("case $n in 1) {own};; 2) write 2;; esac"));
        let settings = trial.read(".ralph/config.yaml") + "timeout: 2s\nfollow_ups: 0\n";
        let trial = trial.file(".ralph/config.yaml", &settings);
        trial.run(["run"]).graph_complete();
        assert_eq!((trial.read("work").as_str(), choice(&trial).1), ("2\n", json!(2)), "{own}");
        assert_eq!(trial.lines("failed").len(), 0, "{own}");
        assert_eq!(trial.git(&["status", "--short"]), "", "{own}");
        trial.no_process_is_left();
    }
}

/// It does what a candidate must not, and its own agent is good.
#[test]
fn what_a_candidate_does_besides_its_work_counts_for_nothing() {
    for other in [
        "for it in 'ask why' 'note evil' 'task-complete b'; do
             \"$RALPH\" $it && echo \"$it\" >> \"$TRIAL_DIR/spoke\"
         done; exit 1",
        "rm -rf .git; echo > work; \"$RALPH\" task-complete a",
        "echo 'tasks: []' > task-graph.yaml; write 2; git reset -q --hard HEAD~1",
        ": > work; git add -A; git commit -qm 2; \"$RALPH\" task-complete a
         git config core.fsmonitor 'touch \"$TRIAL_DIR/spoke\"'",
        "sleep 60",
        "(setsid sleep 60 > /dev/null 2>&1 &); exit 0",
    ] {
        let trial = project("2", &format!("case $n in 1) write \"$(seq 9)\";; 2) {other};; esac"));
        let settings = trial.read(".ralph/config.yaml") + "timeout: 3s\nfollow_ups: 0\n";
        let trial = trial.file(".ralph/config.yaml", &settings);
        trial.run(["run"]).graph_complete();
        assert_eq!(
            (trial.read("work").lines().count(), choice(&trial).1),
            (9, json!(1)),
            "{other}"
        );
        assert!(!trial.sign("spoke").exists() && trial.lines("asked").is_empty(), "{other}");
        assert_eq!(trial.lines("noted").len(), 0, "{other}");
        assert_eq!(trial.git(&["status", "--short"]), "", "{other}");
        trial.no_process_is_left();
    }
}

#[test]
fn an_attempt_without_good_work_fails_as_any_other() {
    let trial = project(
        "{count: 2, when: last}",
        "case $RALPH_ATTEMPT$n in 11) exit 3;; *) echo > draft-$n;; esac",
    );
    let settings = trial.read(".ralph/config.yaml") + "follow_ups: 0\n";
    let trial = trial.file(".ralph/config.yaml", &settings);
    trial.run(["run"]).code(3);
    let ended = trial.lines("failed");
    assert_eq!((ended.len(), &ended[0]["candidates"]), (2, &Value::Null), "only at the last");
    assert_eq!(ended[1]["candidates"]["why"], "none of 2 has work that may land");
    let kept = trial.git(&["show", "refs/ralph/candidates+a/2.2:draft-2"]);
    assert_eq!(kept.trim(), "");
    assert_eq!(trial.lines("parked").len(), 1);
    slots_are_free(&trial);
}

#[test]
fn the_first_good_work_ends_the_others() {
    for good in [1, 2] {
        let work = format!(
            "if [ $n = {good} ]; then
                 until [ -e \"$TRIAL_DIR/hangs\" ]; do sleep 0.05; done; write $n
             else touch \"$TRIAL_DIR/hangs\"; sleep 600; fi"
        );
        let trial = project("{count: 2, first: true}", &work);
        trial.run(["run"]).graph_complete();
        assert_eq!((trial.read("work"), choice(&trial).1), (format!("{good}\n"), json!(good)));
        assert_eq!(trial.lines("failed").len(), 0);
        trial.no_process_is_left();
    }
}

/// A work that no check notices is worth less than one that a test notices, however small it is.
#[test]
fn a_proof_is_worth_more_than_a_small_change() {
    const WORK: &str = "case $n in
        1) printf 'x = 1\\n' > code.py;;
        2) printf 'def f():\\n    return 1\\n' > code.py
           printf 'import code_test\\n' > /dev/null
           printf 'from code import f\\nassert f() == 1\\n' > test_code.py;;
    esac; echo 1 > work; git add -A; git commit -qm $n; \"$RALPH\" task-complete a";
    let trial = project("2", WORK);
    let verify = "verify: 'test -s work && { ! test -e test_code.py || PYTHONPATH=. python3 -S -c \"import importlib.util as u; s = u.spec_from_file_location(\\\"code\\\", \\\"code.py\\\"); m = u.module_from_spec(s); s.loader.exec_module(m); assert m.f() == 1\"; }'\n";
    let trial = trial.file(".ralph/config.yaml", &format!("{SETTINGS}{verify}proof: report\n"));
    trial.run(["run"]).graph_complete();
    let ended = trial.lines("completed");
    let why = &ended[0]["candidates"]["why"];
    assert_eq!(
        (&ended[0]["candidates"]["chosen"], why),
        (&json!(2), &json!("the only one that is proved")),
        "{ended:?}"
    );
    assert_eq!(trial.lines("proved").len(), 1, "it is not proved again");
}

#[test]
fn a_stopped_or_killed_run_leaves_no_candidate_and_the_next_one_goes_on() {
    for signal in [Signal::INT, Signal::KILL] {
        let work = "if [ -e \"$TRIAL_DIR/go\" ]; then write $n
            else touch \"$TRIAL_DIR/at-$n\"; sleep 600; fi";
        let trial = project("2", work);
        let run = trial.start_until(["run"], "at-1");
        wait_for(&trial.sign("at-2"));
        trial.run(["status"]).stdout_has("with candidate 2 beside it");
        trial.run(["slots"]).code(0).stdout_has("candidate; in use by attempt a.1");
        run.signal(signal);
        run.end(&trial).code_is_any();
        trial.no_process_is_left();
        trial.leave("go");
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.git(&["status", "--short"]), "");
        slots_are_free(&trial);
        trial.no_process_is_left();
    }
}

/// One removes its repository, one is ended since the other is good, and one is killed with `ralph`.
#[test]
fn what_a_candidate_used_counts_whatever_ended_it() {
    const PAID: &str = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"","total_cost_usd":0.25}'"#;
    let hangs = format!("{PAID}; touch \"$TRIAL_DIR/hangs\"; sleep 600");
    let first = "until [ -e \"$TRIAL_DIR/hangs\" ]; do sleep 0.05; done; write 1".to_owned();
    let killed = "[ -e \"$TRIAL_DIR/go\" ] || sleep 600; write 1".to_owned();
    for (rule, own, other, is_killed) in [
        ("2", "write 1".to_owned(), format!("{PAID}; rm -rf .git"), false),
        ("{count: 2, first: true}", first, hangs.clone(), false),
        ("2", killed, format!("[ -e \"$TRIAL_DIR/go\" ] && exit 0; {hangs}"), true),
    ] {
        let work = format!("case $n in 1) {own}; {PAID};; 2) {other};; esac");
        let agent = json!({"command": ["sh", "-c", agent(&work)], "output": "claude-json"});
        let trial = with_settings(rule, &format!("agent: {agent}\n"));
        if is_killed {
            let run = trial.start_until(["run"], "hangs");
            run.signal(Signal::KILL);
            run.end(&trial).code_is_any();
            trial.leave("go");
        }
        trial.run(["run"]).graph_complete();
        let ended = &trial.lines("candidate_ended")[0];
        assert_eq!((&ended["attempt"], &ended["cost_usd"]), (&json!(1), &json!(0.25)), "{other}");
        let costs = trial.run(["costs", "--json"]).json();
        assert_eq!(costs["total"]["cost_usd"], 0.5, "{other}: {costs}");
    }
}

#[test]
fn candidates_need_slots_on_this_machine_and_that_is_said() {
    let trial = project("2", "write 1").in_place();
    trial.run(["run"]).graph_complete().stderr_has("its attempt works in the checkout");
    assert_eq!(trial.lines("completed")[0]["candidates"], Value::Null);
}

/// It decides before the size, is asked once about each, and sends back the chosen work as it sends back other.
#[test]
fn the_review_of_work_that_is_proved_as_well_as_other_work_decides() {
    let found = |severity: &str| {
        let finding = json!({"file": "work", "severity": severity, "text": "no greeting"});
        json!({"findings": if severity.is_empty() { vec![] } else { vec![finding] }})
    };
    for (small, large, chosen, rejected) in
        [("medium", "low", 1, 0), ("", "low", 2, 0), ("high", "medium", 1, 1), ("", "", 2, 0)]
    {
        let review = format!(
            "cat > /dev/null; case $RALPH_ATTEMPT-$(wc -l < work) in
                 1-1) echo '{}';; 1-9) echo '{}';; *) echo '{}';; esac",
            found(small),
            found(large),
            found("")
        );
        let settings = "review: {by: {command: [sh, reviewer], name: strong}, rounds: 1}\n";
        let work = "case $n in 1) write \"$(seq 9)\";; 2) write 2;; esac";
        let trial = with_settings("2", settings).file("reviewer", &review).command([
            "sh",
            "-c",
            &agent(work),
        ]);
        trial.run(["run"]).graph_complete();
        let ended = trial.lines(if rejected == 1 { "failed" } else { "completed" });
        assert_eq!(ended[0]["candidates"]["chosen"], chosen, "{small} {large}: {ended:?}");
        assert_eq!(trial.lines("failed").len(), rejected, "{small} {large}");
        let reviews = trial.lines("work_reviewed");
        let of: Vec<_> = reviews.iter().map(|it| it["candidate"].clone()).collect();
        assert_eq!(of[..2], [json!(2), json!(1)].map(|it| it), "{reviews:?}");
        assert_eq!(reviews.len(), 2 + 2 * rejected, "none is made again: {reviews:?}");
        slots_are_free(&trial);
        trial.no_process_is_left();
    }
}
