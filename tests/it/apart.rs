//! Isolated attempts and the merge queue, on real repositories. The agents run the script that a
//! test has written for them. [`sound`] checks the repository after each scene.

use std::{env, fs, os::unix::fs::PermissionsExt, path::Path};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    oracle,
    support::{SETTINGS, TestProject, agent, each, unavailable, until, wait_for},
};

/// The verify command of these scenes: runs every test that exists.
const CHECK: &str = "\
set -- tests/*.sh; [ -e \"$1\" ] || exit 0
echo 1..$#; for test; do sh \"$test\" || { echo not ok 1 - $test; exit 1; }; echo ok 1 - $test; done
";
/// Makes the first verification of `a` wait for the file `on`, once `count.txt` exists.
pub const HOLD: &str = "\
if [ -e count.txt ] && [ -e work/a.txt ] && mkdir \"$TRIAL_DIR/held\"; then
    until [ -e \"$TRIAL_DIR/on\" ]; do sleep 0.02; done
fi 2> /dev/null
";
const PAIR: &str = "tasks: [{id: a}, {id: b}]\n";

/// A repository for two verified attempts at a time.
pub fn stage(graph: &str, more: &str) -> TestProject {
    let jobs = if more.contains("jobs:") { "" } else { "jobs: 2\n" };
    let verify = if more.contains("verify:") { "" } else { "verify: [sh check.sh]\n" };
    let settings = format!("{SETTINGS}{jobs}{verify}{more}");
    let trial = TestProject::new();
    trial.write("check.sh", CHECK);
    trial.write("line", "one\ntwo\nthree\n");
    trial.write("task-graph.yaml", graph);
    trial.git(&["add", "."]);
    let trial = trial.file(".ralph/config.yaml", &settings).agent("told");
    trial.hook("post-commit", "git rev-parse HEAD >> \"$TRIAL_DIR/made\"");
    trial
}

/// Sets the script of the agent: `a` for every attempt at `a`, `a-2` for the second.
pub fn tell(trial: &TestProject, name: &str, script: &str) {
    let name = if name.is_empty() { "do".to_owned() } else { format!("do-{name}") };
    fs::write(trial.sign(&name), script).unwrap();
}

#[track_caller]
fn sound_but(trial: &TestProject, dirt: &[&str]) {
    trial.no_process_is_left();
    let faults = oracle::merged(trial, "[ ! -e check.sh ] || sh check.sh", dirt);
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), trial.read("logs/ralph.jsonl"));
}

#[track_caller]
pub fn sound(trial: &TestProject) {
    sound_but(trial, &[]);
}

/// The same when a task is parked, which the committed graph shows.
#[track_caller]
pub fn sound_but_parked(trial: &TestProject) {
    sound(trial);
    assert!(trial.graph_text().contains("in-progress"));
}

/// The number of commits of agents in the branch.
fn works(trial: &TestProject) -> usize {
    trial.subjects().iter().filter(|subject| subject.starts_with("Work on ")).count()
}

/// The command of a person who commits in a slot, or of an agent whose commit is lost with it.
const COMMIT_UNNOTED: &str = "git -c core.hooksPath=/dev/null commit --quiet -m Mine";

/// Runs until the graph is complete.
#[track_caller]
fn completes(trial: &TestProject) {
    trial.run(["run"]).graph_complete();
    sound(trial);
}

/// The slots of the pool, and `merge`.
pub fn slots(trial: &TestProject) -> Vec<String> {
    let folder = trial.dir().join("repo.slots");
    let mut all: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    all.sort();
    all
}

/// The lines of a file in `main`.
pub fn landed(trial: &TestProject, path: &str) -> String {
    trial.git(&["show", &format!("main:{path}")])
}

/// The prompt of an attempt.
fn prompt(trial: &TestProject, attempt: &str) -> String {
    fs::read_to_string(trial.sign(&format!("prompt-{attempt}"))).unwrap()
}

fn verdicts(trial: &TestProject) -> Vec<String> {
    let ended = ["completed", "failed", "interrupted"];
    let lines = trial.journal().into_iter();
    lines
        .filter(|line| ended.contains(&line["action"].as_str().unwrap()))
        .map(|line| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {}", text(&line["task_id"]), text(&line["verdict"]))
        })
        .collect()
}

#[test]
fn independent_tasks_work_at_the_same_time_and_all_land() {
    let trial = stage("tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n", "");
    tell(&trial, "a", "together 2; work");
    tell(&trial, "b", "together 2; work");
    completes(&trial);
    let places = fs::read_to_string(trial.sign("places")).unwrap();
    assert!(places.lines().all(|place| place.contains("/repo.slots/")), "{places}");
    assert_eq!(works(&trial), 4);
    assert_eq!(trial.read("work/d.txt"), "attempt 1\n", "the checkout has followed");
}

#[test]
fn a_task_begins_with_the_work_of_all_that_it_waits_for() {
    let graph = "tasks: [{id: start}, {id: left, depends_on: [start]}, \
                 {id: right, depends_on: [start]}, {id: end, depends_on: [left, right]}]\n";
    let trial = stage(graph, "");
    let both = "[ -e work/start.txt ] && together 2 && work";
    tell(&trial, "left", both);
    tell(&trial, "right", both);
    tell(&trial, "end", "[ -e work/left.txt ] && [ -e work/right.txt ] && work");
    completes(&trial);
}

#[test]
fn the_second_of_two_conflicting_attempts_is_retried_with_the_conflict() {
    let trial = stage(PAIR, "");
    for id in ["a", "b"] {
        tell(&trial, &format!("{id}-1"), "together 2; put line \"by $id\"; work");
        let again = "grep -q '>>>>>>> .*(work of an earlier attempt)$' line && put line both; work";
        tell(&trial, &format!("{id}-2"), again);
    }
    completes(&trial);
    let second = trial.tasks("completed")[1].clone();
    let failed = trial.lines("failed").remove(0);
    assert_eq!(
        (&failed["task_id"], &failed["verdict"]),
        (&second.clone().into(), &"conflict".into())
    );
    assert_eq!(failed["merge"]["paths"], serde_json::json!(["line"]));
    let told = prompt(&trial, &format!("{second}-2"));
    for part in ["<<<<<<<", &format!("by {second}"), "it conflicts with `main`"] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    let pin = trial.git(&["show", &format!("refs/ralph/{second}/1:line")]);
    assert_eq!(pin, format!("by {second}\n"), "what did not fit is kept");
}

/// Those that conflicted in a file go on one after the other.
#[test]
fn tasks_that_all_change_one_file_land_one_after_the_other() {
    let agent = "cat > /dev/null; sed -i '/^[<|=>]/d' list
        grep -qx $RALPH_TASK_ID list || echo $RALPH_TASK_ID >> list
        until [ $(ls \"$TRIAL_DIR\" | grep -c ^at-) -ge 4 ]; do
            touch \"$TRIAL_DIR/at-$RALPH_TASK_ID\"; sleep 0.02; done
        git add list; git commit -qm \"Register $RALPH_TASK_ID\"; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = TestProject::new()
        .graph("tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n")
        .command(["sh", "-c", agent])
        .env("RALPH_JOBS", "4");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.read("list").lines().count(), 4);
    assert_eq!(trial.lines("started").len(), 7, "each conflicts once at most");
}

/// With verify commands, which decide. Lock files are never put together.
#[test]
fn lines_that_two_attempts_add_at_one_place_are_both_kept() {
    for (file, verify, started) in
        [("list", "[ -e list ]", 2), ("list", "", 3), ("Gemfile.lock", "true", 3)]
    {
        let verify_line = format!("verify: '{verify}'\n");
        let settings =
            format!("{SETTINGS}{}", if verify.is_empty() { "jobs: 2\n" } else { &verify_line });
        let agent = format!(
            "cat > /dev/null; sed -i '/^[<|=>]/d' {file}
            grep -qx $RALPH_TASK_ID {file} || echo $RALPH_TASK_ID >> {file}
            until [ $(ls \"$TRIAL_DIR\" | grep -c ^at-) -ge 2 ]; do
                touch \"$TRIAL_DIR/at-$RALPH_TASK_ID\"; sleep 0.02; done
            git add {file}; git commit -qm Add; \"$RALPH\" task-complete $RALPH_TASK_ID"
        );
        let trial = TestProject::new()
            .graph("tasks: [{id: a, max_attempts: 1}, {id: b, max_attempts: 1}]\n")
            .file(".ralph/config.yaml", &settings)
            .file(file, "first\n")
            .command(["sh", "-c", &agent])
            .env("RALPH_JOBS", "2");
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.read(file).lines().count(), 3);
        assert_eq!(trial.lines("started").len(), started, "{file} {verify}");
        let conflicts = trial.lines("failed");
        assert!(conflicts.iter().all(|line| line["verdict"] == "conflict"), "it does not count");
    }
}

/// A scene of two tasks that each add a line to `parts`, and make `poetry.lock` of it; `tool` is what
/// `poetry` does.
fn makes_a_lock_file(more: &str, tool: &str) -> TestProject {
    let lock = "cat -n \"$(git rev-parse --show-toplevel)/parts\" > \
                \"$(git rev-parse --show-toplevel)/sub/poetry.lock\"\n";
    let graph = "tasks: [{id: a, max_attempts: 1}, {id: b, max_attempts: 1}]\n";
    let verify = "verify: ['sh lock.sh && git diff --exit-code', 'test ! -e stray']\n";
    let trial = stage(graph, &format!("{verify}{more}")).file("lock.sh", lock);
    let trial = trial.file("parts", "first\n").file("sub/poetry.lock", "1 first\n");
    for id in ["a", "b"] {
        let work = format!("echo {id} >> parts; (cd sub && sh ../lock.sh); work");
        tell(&trial, &format!("{id}-1"), &format!("together 2; {work}"));
        tell(
            &trial,
            &format!("{id}-2"),
            &format!("grep -q {id} parts || echo {id} >> parts; {work}"),
        );
    }
    let folder = trial.dir().join("bin");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("poetry"), format!("#!/bin/sh\n{tool}\n")).unwrap();
    fs::set_permissions(folder.join("poetry"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    trial.env("PATH", &path)
}

#[test]
fn a_lock_file_that_a_tool_makes_again_is_no_conflict() {
    let command = "poetry lock --no-interaction";
    for form in ["rebase", "merge"] {
        let more = format!("merge: {form}\n");
        let trial = makes_a_lock_file(&more, "sh ../lock.sh && touch ../stray");
        completes(&trial);
        assert_eq!(trial.lines("started").len(), 2, "{form}");
        let made = trial.git(&["show", "main:sub/poetry.lock"]);
        assert_eq!(made.lines().count(), 3, "{made}");
        let last = trial.lines("completed").remove(1);
        let resolved = json!([{"path": "parts"}, {"path": "sub/poetry.lock", "command": command}]);
        assert_eq!(last["merge"]["resolved"], resolved, "{form}");
        assert!(
            last["why"].as_str().unwrap().contains("`sub/poetry.lock` made again by"),
            "{last}"
        );
    }
}

/// Nor one that hangs.
#[test]
fn a_command_that_does_not_make_a_file_again_leaves_the_conflict() {
    let hangs = "exec sleep 600";
    for (tool, said) in [
        ("echo no network; exit 7", "exited with code 7: no network"),
        (hangs, "at its limit of 10s"),
    ] {
        let trial = makes_a_lock_file("verify_timeout: 10s\n", tool);
        completes(&trial);
        let failed = trial.lines("failed");
        let [failed] = &failed[..] else { panic!("{failed:?}") };
        assert_eq!(
            (&failed["verdict"], &failed["merge"]["paths"]),
            (&json!("conflict"), &json!(["parts", "sub/poetry.lock"]))
        );
        let told = prompt(&trial, &format!("{}-2", failed["task_id"].as_str().unwrap()));
        assert!(told.contains(said) && told.contains("<<<<<<<"), "{told}");
    }
}

/// With the real tool: two crates get a dependency each.
#[test]
fn a_conflict_in_the_lock_file_of_cargo_costs_no_attempt() {
    let manifest = |name: &str| {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n"
        )
    };
    let graph = "tasks: [{id: a, max_attempts: 1}, {id: b, max_attempts: 1}]\n";
    let mut trial =
        stage(graph, "verify: ['cargo metadata --offline --locked --format-version 1']\n");
    let members = "[workspace]\nmembers = [\"main\", \"a\", \"b\"]\nresolver = \"2\"\n";
    trial = trial.file("Cargo.toml", members);
    for name in ["main", "a", "b"] {
        trial = trial.file(&format!("{name}/Cargo.toml"), &manifest(name));
        trial = trial.file(&format!("{name}/src/lib.rs"), "");
    }
    // The cargo that runs the tests, since that of rustup needs the home of a person.
    let folder = Path::new(env!("CARGO")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap());
    let trial = trial.env("PATH", &path);
    let locked = "cargo generate-lockfile --offline";
    assert!(trial.process("sh").args(["-c", locked]).status().unwrap().success());
    trial.git(&["add", "."]);
    trial.git(&["commit", "-qm", "Lock"]);
    for id in ["a", "b"] {
        let add = format!(
            "together 2; echo '{id} = {{ path = \"../{id}\" }}' >> main/Cargo.toml; {locked} && work"
        );
        tell(&trial, &format!("{id}-1"), &add);
    }
    completes(&trial);
    assert_eq!(trial.lines("started").len(), 2);
    let last = trial.lines("completed").remove(1);
    assert_eq!(
        last["merge"]["resolved"][0]["command"], "cargo update --workspace --offline",
        "{last}"
    );
    let lock = landed(&trial, "Cargo.lock");
    assert!(lock.contains(" \"a\",\n \"b\",\n"), "{lock}");
}

/// Without the lines of both it would have been a conflict, which is nobody's failure.
#[test]
fn a_command_that_fails_on_the_lines_of_both_is_a_conflict() {
    let verify = "verify: 'test \"$(grep -c ^limit line)\" -lt 2'\n";
    let trial = stage("tasks: [{id: a, max_attempts: 1}, {id: b, max_attempts: 1}]\n", verify);
    for id in ["a", "b"] {
        let add = format!("together 2; put line \"$(cat line; echo limit {id})\"; work");
        tell(&trial, &format!("{id}-1"), &add);
        let mend =
            format!("grep -q 'limit {id}' line && put line \"$(grep -v 'limit {id}' line)\"; work");
        tell(&trial, &format!("{id}-2"), &mend);
    }
    completes(&trial);
    let failed = trial.lines("failed");
    let [failed] = &failed[..] else { panic!("{failed:?}") };
    assert_eq!(
        (&failed["verdict"], &failed["merge"]["paths"]),
        (&json!("conflict"), &json!(["line"]))
    );
    assert_eq!(failed["verify"][0]["exit_code"], 1);
    let (sent_back, first) = (failed["task_id"].as_str().unwrap(), &trial.tasks("completed")[0]);
    let told = prompt(&trial, &format!("{sent_back}-2"));
    let other = format!("Work on {first}");
    for part in ["added lines at the same places of\n`line`", &other, "grep -c ^limit line"] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
}

#[test]
fn one_of_two_tasks_that_only_fail_together_is_retried() {
    let trial = stage("tasks: [{id: a}, {id: b}, {id: c}]\n", "jobs: 3\nproof: none\n");
    tell(&trial, "", "together 3; work");
    let test = "put tests/$id.sh 'if [ -e work/a.txt ] && [ -e work/b.txt ] && [ ! -e both ]; then \
                echo a and b do not mix; exit 1; fi'";
    for id in ["a", "b"] {
        tell(&trial, &format!("{id}-1"), &format!("together 3; {test}; work"));
        tell(&trial, &format!("{id}-2"), &format!("put both yes; {test}; work"));
    }
    completes(&trial);
    let failed = trial.lines("failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["verdict"], "verify-failed");
    assert_eq!(failed[0]["merge"]["result"], "red");
    let id = failed[0]["task_id"].as_str().unwrap();
    assert!(["a", "b"].contains(&id));
    let told = prompt(&trial, &format!("{id}-2"));
    assert!(told.contains("a and b do not mix"), "{told}");
    assert!(told.contains("on top of `main`"), "{told}");
}

#[test]
fn work_is_continued_where_both_sides_add_lines_to_a_changelog() {
    let trial = stage("tasks: [{id: a, priority: high}, {id: b}]\n", "jobs: 1\nverify: []\n");
    let trial = trial.file("CHANGELOG.md", "# Changes\n");
    let add = "echo \"- $id\" >> CHANGELOG.md; git add CHANGELOG.md; commit";
    tell(&trial, "a-1", add);
    tell(&trial, "a-2", "report");
    tell(&trial, "b", &format!("{add}; report"));
    completes(&trial);
    assert_eq!(trial.lines("started").len(), 3);
    assert_eq!(landed(&trial, "CHANGELOG.md"), "# Changes\n- b\n- a\n");
}

/// A person moves the target branch while work is queued, and while it is verified.
#[test]
fn a_person_commits_to_the_target_meanwhile() {
    let trial = stage("tasks: [{id: a}]\n", "jobs: 1\n");
    tell(&trial, "a", "await open; work");
    let trial = trial.file("tests/hold.sh", HOLD);
    let run = trial.start_until(["run"], "waiting-a");
    let trial = trial.file("count.txt", "1\n");
    trial.leave("open");
    wait_for(&trial.sign("held"));
    let trial = trial.file("count.txt", "2\n");
    trial.leave("on");
    run.end(&trial);
    sound(&trial);
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert_eq!(trial.tasks("merging").len(), 2);
    assert_eq!(landed(&trial, "count.txt"), "2\n");
    assert_eq!(slots(&trial), ["1", "merge"]);
}

/// A person's file blocks a merge: changed, or untracked. Another file does not.
#[test]
fn what_a_person_has_in_the_checkout_is_never_touched() {
    for path in ["line", "new"] {
        let trial = stage("tasks: [{id: a}]\n", "");
        tell(&trial, "a", &format!("put {path} agent; work"));
        trial.write(path, "mine\n");
        trial.write("notes.txt", "mine too\n");
        trial.write("check.sh", &format!("{CHECK}# mine\n"));
        let base = trial.git(&["rev-parse", "main"]);
        let end = "; 1 landed task waits for your checkout: `ralph land` (exit code 0)";
        trial.run(["run"]).graph_complete().stderr_has(end);
        trial.run(["show"]).stdout_has("; landed, waits for your checkout");
        assert_eq!(trial.git(&["rev-parse", "main"]), base);
        assert_eq!(trial.read(path), "mine\n");
        let waits: Vec<_> =
            trial.lines("checkout_waits").iter().map(|line| line["paths"].clone()).collect();
        assert_eq!(waits, [json!([path])]);
        trial.no_process_is_left();
        trial.run(["land"]).code(4).stderr_has(&format!("{path} has uncommitted changes"));
        trial.git(&["stash", "push", "--quiet", "--include-untracked", "--", path]);
        let trial = trial.agent("fail");
        trial.run(["run"]).graph_complete();
        sound_but(&trial, &[" M check.sh", "?? notes.txt"]);
        assert_eq!(trial.tasks("started"), ["a"], "no agent is paid again");
        trial.run(["show"]).stdout_has("; landed on `main`");
        assert_eq!(trial.read(path), "agent\n");
        assert_eq!(trial.git(&["stash", "list"]).lines().count(), 1);
    }
}

#[test]
fn a_graph_that_a_person_breaks_ends_no_attempt() {
    let trial = stage("tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n", "");
    tell(&trial, "a", "await a; work");
    tell(&trial, "b", "await b; work");
    tell(&trial, "c", "case $RALPH_ATTEMPT in 1) await c; exit 1;; *) work;; esac");
    let run = trial.start_until(["run", "--jobs", "3"], "waiting-c");
    wait_for(&trial.sign("waiting-a"));
    wait_for(&trial.sign("waiting-b"));
    trial.save("task-graph.yaml", &trial.graph_text().replace(']', ""));
    for (id, action) in [("b", "completed"), ("c", "failed")] {
        trial.leave(id);
        trial.wait_for_records(1, action);
    }
    trial.wait_for_records(1, "file_rejected");
    // By the last valid graph.
    trial.wait_for_records(4, "started");
    trial.save("task-graph.yaml", &format!("{}]\n", trial.graph_text().trim_end()));
    trial.wait_for_records(2, "completed");
    trial.leave("a");
    run.end(&trial).graph_complete();
    sound(&trial);
    assert_eq!(trial.lines("interrupted").len(), 0);
    assert_eq!(trial.lines("file_rejected").len(), 1);
    assert_eq!(trial.tasks("started").len(), 5, "only the failed one is tried again");
}

#[test]
fn a_person_looks_at_another_branch_meanwhile() {
    let trial = stage(PAIR, "");
    tell(&trial, "", "await open; work");
    let run = trial.start_until(["run"], "waiting-b");
    wait_for(&trial.sign("waiting-a"));
    trial.git(&["checkout", "--quiet", "-b", "other"]);
    trial.leave("open");
    run.end(&trial);
    // The other branch has neither the work nor the statuses.
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    assert_eq!((trial.status("a"), trial.status("b")), ("pending".into(), "pending".into()));
    assert_eq!(trial.tasks("completed").len(), 2);
    assert_eq!(trial.git(&["symbolic-ref", "--short", "HEAD"]), "other\n");
    assert_eq!(trial.git(&["rev-list", "--count", "other..main"]), "4\n");
    trial.git(&["checkout", "--quiet", "main"]);
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert_eq!(trial.tasks("started").len(), 2, "nothing is done again");
}

/// Ways in which agents damage git. All work is kept, and the next attempt is not affected.
#[test]
#[ignore = "slow"]
fn no_work_is_lost_when_an_agent_damages_its_branch() {
    let scenes = [
        ("work; git reset --quiet --hard HEAD~1", "unverified"),
        (
            "git checkout --quiet -b side; put line one; commit; git checkout --quiet ralph/a; \
             put line two; commit; git merge --quiet side || true; report",
            "off-branch",
        ),
        ("put line half; exit 3", "failed"),
        ("put line one; commit; put line half; echo more > more; exit 3", "failed"),
    ];
    let work = |(script, verdict): &(&str, &str)| {
        let trial = stage("tasks: [{id: a}, {id: b, depends_on: [a]}]\n", "");
        tell(&trial, "a-1", script);
        // A retry has what the attempt left, unless that cannot land from its branch.
        let (status, first) = match *script {
            script if script.contains("more") => (" M line;?? more;", "half"),
            script if script.contains("half") => (" M line;", "half"),
            _ => ("", "one"),
        };
        let status = format!("[ \"$(git status --porcelain | tr '\\n' ';')\" = '{status}' ]");
        tell(&trial, "a-2", &format!("{status}; [ \"$(head -1 line)\" = {first} ]; work"));
        trial.run(["run"]).graph_complete();
        sound(&trial);
        assert_eq!(verdicts(&trial)[0], format!("a {verdict}"), "{script}");
        assert_eq!(trial.tasks("failed").len(), 1, "{script}");
        let pins = trial.git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
        assert_eq!(pins.lines().next(), Some("refs/ralph/a/1"), "{script}");
        if script.contains("half") {
            assert_eq!(trial.git(&["show", "refs/ralph/a/1:line"]), "half\n");
        }
    };
    each(4, &scenes, work);
}

/// On whatever branch it is; an amended base is its difference, and what is on an older commit loses none.
#[test]
fn what_is_checked_out_in_a_slot_is_the_work() {
    let scenes = [
        "git checkout --quiet -b elsewhere; work",
        "git checkout --quiet --detach; work",
        "work; git branch --quiet -m ralph/a mine",
        "git commit --quiet --amend -m Mine; work",
        "put work/a.txt a; git add -A; git commit --quiet --amend --no-edit; report",
        "git reset --quiet --hard HEAD~1; work",
        "git checkout --quiet -b feat HEAD~1; work",
        "rm -r folder; put folder a; rm own; mkdir own; put own/file a; put work/a.txt a; report",
    ];
    let work = |script: &&str| {
        let trial = stage(PAIR, "").file("folder/file", "1\n");
        trial.write("own", "mine\n");
        trial.git(&["add", "own"]);
        trial.git(&["commit", "--quiet", "--message", "Mine"]);
        tell(&trial, "a", script);
        let base = trial.git(&["rev-parse", "HEAD"]);
        trial.run(["run"]).graph_complete();
        assert!(trial.tasks("failed").is_empty(), "{script}");
        trial.git(&["merge-base", "--is-ancestor", base.trim(), "main"]);
        for path in ["work/a.txt", "own", "folder"] {
            assert!(trial.root().join(path).exists(), "{script}: {path}");
        }
    };
    each(4, &scenes, work);
}

#[test]
fn a_pulled_commit_that_is_amended_stays_that_of_others() {
    let trial = stage("tasks: [{id: a}]\n", "");
    let folder = trial.sign("origin").display().to_string();
    trial.git(&["clone", "--quiet", "--bare", ".", &folder]);
    trial.git(&["remote", "add", "origin", &folder]);
    let script = "git clone --quiet $TRIAL_DIR/origin $TRIAL_DIR/theirs
        (cd $TRIAL_DIR/theirs; echo 1 > theirs; git add -A
         git -c user.name=O -c user.email=o@example.org commit --quiet -m Theirs; git push --quiet)
        git pull --quiet origin main; put work/a.txt a; git add -A
        git commit --quiet --amend --no-edit; report";
    tell(&trial, "a", script);
    trial.run(["run"]).graph_complete();
    let theirs =
        trial.git(&["-C", &trial.sign("theirs").display().to_string(), "rev-parse", "HEAD"]);
    trial.git(&["merge-base", "--is-ancestor", theirs.trim(), "main"]);
    let completed = &trial.lines("completed")[0];
    assert!(!completed["commits"].to_string().contains("Theirs"), "{completed}");
    assert_eq!(completed["pulled"][0]["subject"], "Theirs");
    assert!(trial.root().join("work/a.txt").exists());
}

#[test]
fn pulled_commits_keep_their_ids_and_stay_when_the_task_is_taken_back() {
    let work = |pull: &&str| {
        let trial = stage("tasks: [{id: a}, {id: b, depends_on: [a]}]\n", "");
        let folder = trial.sign("origin").display().to_string();
        trial.git(&["clone", "--quiet", "--bare", ".", &folder]);
        trial.git(&["remote", "add", "origin", &folder]);
        // The second time, the branch has commits that the remote does not have.
        let script = format!(
            "git clone --quiet $TRIAL_DIR/origin $TRIAL_DIR/$RALPH_TASK_ID
             (cd $TRIAL_DIR/$RALPH_TASK_ID; echo 1 > theirs-$RALPH_TASK_ID; git add -A
              git -c user.name=O -c user.email=o@example.org commit --quiet -m \"Theirs $RALPH_TASK_ID\"
              git push --quiet)
             work; {pull}; report"
        );
        tell(&trial, "", &script);
        trial.run(["run"]).graph_complete();
        for (completed, id) in trial.lines("completed").iter().zip(["a", "b"]) {
            let theirs =
                trial.git(&["-C", &trial.sign(id).display().to_string(), "rev-parse", "HEAD"]);
            trial.git(&["merge-base", "--is-ancestor", theirs.trim(), "main"]);
            let commits = completed["commits"].to_string();
            assert!(!commits.contains("Theirs"), "{pull}: {commits}");
            assert_eq!(completed["pulled"][0]["subject"], format!("Theirs {id}"), "{pull}");
        }
        trial.run(["take-back", "b"]);
        let has = |path: &str| trial.root().join(path).exists();
        assert!(has("theirs-b") && has("work/a.txt") && !has("work/b.txt"), "{pull}");
    };
    let pulls =
        ["git pull --quiet --rebase origin main", "git pull --quiet --no-rebase origin main"];
    each(2, &pulls, work);
}

/// Ways to end a run while one attempt is queued and two are running; the next run continues.
#[test]
#[ignore = "slow"]
fn the_next_run_continues_a_stopped_run() {
    // The request, the exit code, and how many agents run again.
    let scenes = [("INT", 130), ("TERM", 143), ("stop", 4), ("stop --now", 4), ("pause", 4)];
    let work = |(how, code): &(&str, i32)| {
        let trial = stage(
            "tasks: [{id: a}, {id: b}, {id: c}, {id: d}, {id: e, depends_on: [a, b, c, d]}]\n",
            "jobs: 3\n",
        );
        let trial = trial.file("tests/hold.sh", HOLD);
        tell(&trial, "a", "await go; work");
        tell(&trial, "b-1", "put half.txt half; echo more >> line; await open; work");
        tell(&trial, "c-1", "await open; work");
        let run = trial.start_until(["run"], "waiting-b");
        wait_for(&trial.sign("waiting-a"));
        wait_for(&trial.sign("waiting-c"));
        // So that the work of `a` is verified again.
        let trial = trial.file("count.txt", "1\n");
        trial.leave("go");
        wait_for(&trial.sign("held"));
        match *how {
            "INT" => run.signal(Signal::INT),
            "TERM" => run.signal(Signal::TERM),
            words => drop(trial.run(words.split(' ').collect::<Vec<_>>())),
        }
        until("it is known", || {
            let text = trial.read("logs/ralph.jsonl");
            text.contains("stop_requested") || text.contains("pause_requested")
        });
        trial.leave("open");
        trial.leave("on");
        run.end(&trial).code(*code);
        trial.no_process_is_left();
        let again = if *how == "pause" { "resume" } else { "run" };
        trial.run([again]).graph_complete();
        sound(&trial);
        assert_eq!(trial.tasks("completed").len(), 5, "{how}");
        let of_a = trial.tasks("started").iter().filter(|id| *id == "a").count();
        assert_eq!(
            of_a,
            1,
            "{how}: what was done is not done again\n{}",
            trial.read("logs/ralph.jsonl")
        );
    };
    each(3, &scenes, work);
}

#[test]
fn a_deleted_slot_costs_only_its_attempt() {
    let trial = stage(PAIR, "idle: 1s\n");
    let script = format!("put half.txt half; {COMMIT_UNNOTED}; rm -rf \"$PWD\"; await never");
    tell(&trial, "a-1", &script);
    tell(&trial, "b", "await open; work");
    let run = trial.start_until(["run"], "waiting-a");
    wait_for(&trial.sign("waiting-b"));
    until("it is ended", || trial.read("logs/ralph.jsonl").contains("\"timed-out\""));
    trial.leave("open");
    run.end(&trial);
    sound(&trial);
    assert_eq!(trial.tasks("completed").len(), 2);

    // All of them between two runs, one of which is then a folder of a person.
    fs::remove_dir_all(trial.dir().join("repo.slots")).unwrap();
    fs::create_dir_all(trial.dir().join("repo.slots/1/repo")).unwrap();
    fs::write(trial.dir().join("repo.slots/1/repo/mine"), "mine").unwrap();
    let graph = trial.graph_text().replace(']', ", {id: c}]");
    trial.save("task-graph.yaml", &graph);
    trial.git(&["commit", "--quiet", "-m", "Set the stage", "task-graph.yaml"]);
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert_eq!(fs::read(trial.dir().join("repo.slots/1/repo/mine")).unwrap(), b"mine");
}

#[test]
fn a_slot_of_the_queue_without_git_is_made_again() {
    let trial = stage(PAIR, "jobs: 1\n");
    tell(&trial, "a", "work");
    tell(&trial, "b", "rm -rf ../../merge/repo/.git; touch ../../merge/repo/mine; work");
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert!(
        trial.dir().join("repo.slots/merge/repo.old-1/mine").exists(),
        "what was there is kept"
    );
}

/// Files that the runner opens for a task are closed again: those of packs that are gone, too.
#[test]
fn a_run_does_not_grow_with_its_tasks() {
    let tasks: String = (0..24).map(|n| format!("  - id: t{n}\n")).collect();
    let trial = stage(&format!("tasks:\n{tasks}"), "");
    tell(&trial, "", "work");
    tell(&trial, "t23", "await open; work");
    let run = trial.start(["run", "--jobs", "1"]);
    let open = || {
        let files = fs::read_dir(format!("/proc/{}/fd", run.id())).unwrap().flatten();
        let files = files.filter_map(|file| fs::read_link(file.path()).ok());
        files.filter(|file| file.starts_with(trial.dir())).count()
    };
    trial.wait_for_records(4, "completed");
    let early = open();
    trial.wait_for_records(23, "completed");
    let late = open();
    assert!(late <= early + 4, "{early} files after 4 tasks, {late} after 23");
    trial.leave("open");
    run.end(&trial).graph_complete();
    let slots = fs::read_dir(trial.dir().join("repo.slots")).unwrap().count();
    assert!(slots <= 3, "{slots} slots of one job and its queue");
    let loose = walk(&trial.root().join(".git/refs/ralph"));
    assert!(loose <= 20, "{loose} refs in files of their own");
    sound(&trial);
}

/// The number of files below a folder.
fn walk(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.map(|path| if path.is_dir() { walk(&path) } else { 1 }).sum()
}

#[test]
fn a_slot_with_a_persons_work_is_not_used() {
    let trial = stage("tasks: [{id: a}]\n", "");
    completes(&trial);
    let slot = trial.dir().join("repo.slots/1/repo");
    let git = |words: &[&str]| {
        let mut all = vec!["-C", slot.to_str().unwrap()];
        all.extend(words);
        trial.git(&all)
    };
    for (n, id) in ["b", "c", "d"].into_iter().enumerate() {
        match n {
            0 => fs::write(slot.join("mine"), "mine").unwrap(),
            1 => {
                git(&["add", "mine"]);
                git(&COMMIT_UNNOTED.split(' ').skip(1).collect::<Vec<_>>());
            }
            _ => drop(trial.git(&["fetch", "--quiet", slot.to_str().unwrap(), "HEAD:mine"])),
        }
        let graph = trial.graph_text().replace(']', &format!(", {{id: {id}}}]"));
        trial.save("task-graph.yaml", &graph);
        trial.git(&["commit", "--quiet", "-m", "Set the stage", "task-graph.yaml"]);
        trial.run(["run"]).graph_complete();
        sound(&trial);
        assert_eq!(trial.lines("slot_kept").len(), (n + 1).min(2));
        assert_eq!(slot.join("mine").exists(), n < 2, "it is used once the commit is kept");
        assert_eq!(slots(&trial), ["1", "2", "merge"]);
    }
    assert_eq!(trial.git(&["show", "mine:mine"]), "mine");
}

#[test]
fn slots_of_a_clone_that_was_replaced_are_made_again() {
    let graph = "tasks: [{id: a}, {id: b, depends_on: [a]}, {id: c, depends_on: [b]}]\n";
    let trial = stage(graph, "slot_dir: ../slots\n");
    tell(&trial, "", "put deep/er/$id.txt 1; commit; report");
    let settings = trial.read(".ralph/config.yaml");
    let origin = trial.dir().join("origin.git");
    let origin = origin.to_str().unwrap();
    trial.git(&["clone", "--quiet", "--bare", ".", origin]);
    for persons in [None, Some("mine")] {
        trial.run(["run"]).graph_complete();
        let slot = trial.dir().join("slots/1/repo");
        if let Some(name) = persons {
            fs::write(slot.join(name), "mine\n").unwrap();
        }
        for entry in fs::read_dir(trial.root()).unwrap() {
            let path = entry.unwrap().path();
            let removed =
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            removed.unwrap();
        }
        trial.git(&["clone", "--quiet", origin, "."]);
        trial.git(&["config", "user.name", "A Person"]);
        trial.git(&["config", "user.email", "person@example.com"]);
        trial.write(".ralph/config.yaml", &settings);
        let run = trial.run(["run"]).graph_complete();
        assert_eq!(trial.read("deep/er/c.txt"), "1\n");
        if let Some(name) = persons {
            run.stderr_has("slots/1/repo is not reused: `mine` has uncommitted changes");
            assert_eq!(fs::read_to_string(slot.join(name)).unwrap(), "mine\n");
        }
        assert_eq!(trial.lines("slot_kept").is_empty(), persons.is_none());
        trial.no_process_is_left();
    }
}

/// Files that setup and verify commands leave do not prevent reuse of a slot.
#[test]
fn files_left_by_commands_do_not_block_a_slot() {
    let more = "jobs: 1\nverify: [sh check.sh, 'date > verified']\n\
                setup: 'date > set-up; echo setup >> \"$TRIAL_DIR/setups\"'\n";
    let trial = stage("tasks: [{id: a}, {id: b, depends_on: [a]}]\n", more);
    tell(
        &trial,
        "a-1",
        "sed -i s/pending/complete/ task-graph.yaml; echo '# mine' >> task-graph.yaml; exit 1",
    );
    completes(&trial);
    assert_eq!(slots(&trial), ["1", "merge"], "{:?}", trial.lines("slot_kept"));
    assert_eq!(fs::read_to_string(trial.sign("setups")).unwrap().lines().count(), 5);
    assert_eq!(trial.git(&["ls-files", "set-up", "verified"]), "");
}

#[test]
fn a_setup_that_fails_counts_for_no_task_whose_work_did_not_break_it() {
    let broken = "[ ! -e broken ] && [ ! -e \"$TRIAL_DIR/broken\" ]";
    let more = format!(
        "max_attempts: 2\nsetup: ['{broken} || {{ echo no luck > left; echo no luck; exit 3; }}']\n"
    );
    let trial = stage("tasks: [{id: a}, {id: b}, {id: c}]\n", &more);
    trial.leave("broken");
    tell(&trial, "b-1", "touch broken package.json; git add -A; git commit -qm broken; exit 1");
    let run = trial.start(["run"]);
    trial.wait_for_records(2, "executor_unreachable");
    trial.run(["status"]).stdout_has("Executor local is out since").stdout_has("no luck");
    assert_eq!(trial.lines("failed"), Vec::<Value>::new());
    fs::remove_file(trial.sign("broken")).unwrap();
    run.end(&trial).code(3);
    // It is not back because its setup starts once more.
    let out = trial.lines("executor_unreachable");
    assert_eq!((&out[0]["tries"], &out[1]["tries"]), (&1.into(), &2.into()));
    assert_eq!(trial.lines("executor_reachable").len(), 1);
    let failed = json!({"task_id": "b", "attempt": 2, "verdict": "setup-failed"});
    trial.assert_record("failed", &failed);
    sound_but_parked(&trial);
    let mut completed = trial.tasks("completed");
    completed.sort();
    assert_eq!(completed, ["a", "c"]);
    assert_eq!(trial.git(&["show", "refs/ralph/b/2:left"]), "no luck\n");
}

/// A filter like that of git-crypt finds its key in the git directory of a slot. Where it fails all the
/// same, no attempt is counted, and the run goes on once it works.
#[test]
fn a_filter_with_a_key_in_the_git_folder_works_in_slots() {
    let trial = stage("tasks: [{id: a}, {id: b}]\n", "jobs: 2\nmax_attempts: 1\n");
    let locked = trial.sign("locked");
    let key = "$(git rev-parse --git-dir)/git-crypt/keys/default";
    let filter = format!("test -s \"{key}\" && ! test -e '{}' && tr a-z n-za-m", locked.display());
    trial.write(".git/git-crypt/keys/default", "key\n");
    for side in ["clean", "smudge"] {
        trial.git(&["config", &format!("filter.crypt.{side}"), &filter]);
    }
    trial.git(&["config", "filter.crypt.required", "true"]);
    trial.write(".gitattributes", "secret filter=crypt\n");
    trial.write("secret", "password\n");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "--message", "Add a secret"]);
    tell(&trial, "", "[ \"$(cat secret)\" = password ] && work");
    trial.leave("locked");
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "executor_unreachable");
    std::fs::remove_file(&locked).unwrap();
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("failed"), [""; 0]);
    assert_eq!(trial.lines("executor_reachable")[0]["run_on"], "local");
    sound(&trial);
}

/// A verify command that shares a port with itself fails while another attempt runs it. That counts only
/// if it fails alone too.
#[test]
fn checks_that_fail_beside_others_run_once_more_alone() {
    let settings = "jobs: 2\nmax_attempts: 1\nproof: none\nverify: exec sh check\n";
    let trial = stage("tasks: [{id: a}, {id: b}]\n", settings).file(
        "check",
        "cd \"$TRIAL_DIR\"; touch \"began-$RALPH_TASK_ID\"\n\
         until [ -e began-a ] && [ -e began-b ]; do sleep 0.05; done\n\
         # Free again once its owner is gone, however it ended.\n\
         ln -s $$ port || { kill -0 $(readlink port) && { touch busy; exit 1; }; ln -sfn $$ port; }\n\
         trap 'rm port' EXIT; trap 'exit 1' TERM\n\
         until [ -e busy ]; do sleep 0.05; done\n",
    );
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert_eq!(trial.lines("flaky").len(), 1);
    assert_eq!(trial.tasks("failed"), [""; 0]);
}

#[test]
fn checks_run_one_at_a_time_if_they_are_exclusive() {
    let settings = "jobs: 3\nmax_attempts: 1\nverify_exclusive: true\nverify: sh check\n";
    let trial = stage("tasks: [{id: a}, {id: b}, {id: c}]\n", settings).file(
        "check",
        "mkdir \"$TRIAL_DIR/port\" || exit 1; sleep 0.3; rmdir \"$TRIAL_DIR/port\"\n",
    );
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert!(trial.lines("flaky").is_empty() && trial.lines("verify_failed").is_empty());
}

#[test]
fn ignored_files_that_are_needed_are_there() {
    let trial = stage("tasks: [{id: a}]\n", "jobs: 1\n")
        .file(".gitignore", ".env\ncache/\nbuild/\n")
        .file(".worktreeinclude", ".env\ncache/*.bin\n");
    trial.write(".env", "KEY=1\n");
    trial.write("cache/deep.bin", "x");
    trial.write("cache/no.txt", "x");
    trial.write("build/out", "x");
    tell(
        &trial,
        "a",
        "[ -e .env ] && [ -e cache/deep.bin ] && [ ! -e cache/no.txt ] && [ ! -e build ] && work",
    );
    completes(&trial);
}

#[test]
fn what_an_attempt_makes_of_ignored_files_is_not_in_the_way_of_the_next() {
    let graph = "tasks: [{id: a}, {id: b, depends_on: [a]}, {id: c, depends_on: [b]}]\n";
    let trial = stage(graph, "jobs: 1\n")
        .file(".gitignore", ".env\ncache\nlink\n")
        .file(".worktreeinclude", ".env\ncache/*.bin\nlink\n");
    trial.write(".env", "KEY=1\n");
    trial.write("cache/deep.bin", "x");
    std::os::unix::fs::symlink("line", trial.root().join("link")).unwrap();
    let whole = "[ \"$(cat .env)\" = KEY=1 ] && [ -f cache/deep.bin ] && [ -L link ]";
    let folders = "rm -r .env cache link; mkdir -p .env/x link; touch .env/x/y; echo x > cache";
    let names = "ln -f line .env; rm -r cache; ln -s /nowhere cache; ln -sf /nowhere link";
    tell(&trial, "a", &format!("{whole}; {folders}; work"));
    tell(&trial, "b", &format!("{whole}; {names}; work"));
    tell(&trial, "c", &format!("{whole}; [ \"$(git status --porcelain)\" = '' ]; work"));
    completes(&trial);
    assert_eq!(trial.tasks("started"), ["a", "b", "c"]);
    assert!(trial.lines("slot_kept").is_empty());
}

#[test]
fn a_virtualenv_of_the_checkout_is_one_of_the_slot() {
    let trial =
        stage("tasks: [{id: a, max_attempts: 1}]\n", "jobs: 1\nverify: [.venv/bin/check]\n")
            .file(".gitignore", ".venv/\n")
            .file(".worktreeinclude", ".venv/\n")
            .file("check.sh", "exit 0\n");
    trial.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
    let script = trial.root().join(".venv/bin/check");
    trial.script(&script, &format!("exec sh '{}/check.sh'", trial.root().display()));
    std::os::unix::fs::symlink(trial.root().join("check.sh"), trial.root().join(".venv/bin/link"))
        .unwrap();
    tell(
        &trial,
        "a",
        "[ \"$(readlink .venv/bin/link)\" = \"$PWD/check.sh\" ] && echo exit 9 > check.sh && work",
    );
    trial.run(["run"]).code(3);
    assert_eq!(trial.lines("verify_failed")[0]["exit_code"], 9, "the check of the slot ran");
}

#[test]
fn every_form_of_merge_brings_the_same_work() {
    let work = |how: &&str| {
        let trial = stage(PAIR, &format!("merge: {how}\n"));
        trial.write("CHANGELOG.md", "# Changes\n");
        trial.write("docs/knowledge/learnings.md", "# Learnings\n");
        trial.git(&["add", "."]);
        let trial = trial.file("first.txt", "1\n");
        tell(
            &trial,
            "",
            "together 2; echo \"- $id\" >> CHANGELOG.md; echo \"- $id\" >> docs/knowledge/learnings.md; git add .; \
             git commit --quiet -m 'And more'; work",
        );
        completes(&trial);
        assert_eq!(trial.read("work/a.txt"), trial.read("work/b.txt"));
        for path in ["CHANGELOG.md", "docs/knowledge/learnings.md"] {
            let text = trial.read(path);
            assert!(text.contains("- a\n") && text.contains("- b\n"), "{how} {path}: {text}");
        }
        let merges = trial.git(&["rev-list", "--merges", "--count", "main"]);
        assert_eq!(merges.trim(), if *how == "merge" { "2" } else { "0" });
        let since = trial.git(&["rev-list", "--first-parent", "--count", "main"]);
        let before = trial.git(&["rev-list", "--count", "main", "--grep", "Set the stage"]);
        let (since, before): (i32, i32) =
            (since.trim().parse().unwrap(), before.trim().parse().unwrap());
        let works = if *how == "rebase" { 4 } else { 2 };
        assert_eq!(since - before, works + 2, "{how}: two commits complete the tasks");
    };
    each(2, &["rebase", "merge"], work);
}

/// An agent's copy of the graph counts for its own task and does not land.
#[test]
fn a_graph_that_an_agent_commits_is_understood_and_does_not_land() {
    let trial =
        stage("tasks:\n  - id: a\n    status: pending\n  - id: b\n    status: pending\n", "");
    tell(
        &trial,
        "a",
        "sed -i 's/status: pending/status: complete/' task-graph.yaml; git add .; put work/a.txt 1; commit",
    );
    tell(
        &trial,
        "b",
        "echo '# graph' >> task-graph.yaml; git add .; put work/b.txt 1; commit; report",
    );
    completes(&trial);
    assert_eq!(trial.tasks("completed").len(), 2);
    assert!(!trial.graph_text().contains("# graph"));
    assert!(!prompt(&trial, "b-1").is_empty());
}

/// The branches of attempts are in their slots only.
#[test]
fn branches_of_a_person_are_not_used() {
    let trial = stage("tasks: [{id: a}]\n", "");
    let mine = trial.dir().join("mine");
    trial.git(&["worktree", "add", "--quiet", "-b", "ralph/a", mine.to_str().unwrap()]);
    let before = trial.git(&["rev-parse", "ralph/a"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.git(&["rev-parse", "ralph/a"]), before);
    let branches = ["for-each-ref", "refs/heads", "--format=%(refname:short)"];
    assert_eq!(trial.git(&branches), "main\nralph/a\n");
    trial.git(&["worktree", "remove", mine.to_str().unwrap()]);
    trial.git(&["branch", "-D", "ralph/a"]);
    sound(&trial);
    // A branch of this name leaves no room for `ralph/a` in a repository.
    trial.git(&["branch", "ralph"]);
    let graph = trial.graph_text().replace(']', ", {id: b}]");
    let trial = trial.graph(&graph);
    completes(&trial);
}

/// What an agent does to git in its slot does not reach the repository of the person.
#[test]
fn a_repository_does_not_change_with_the_git_of_a_slot() {
    let trial = stage("tasks: [{id: a}]\n", "");
    trial.git(&["branch", "feature"]);
    trial.git(&["tag", "v1"]);
    trial.write("line", "stashed\n");
    trial.git(&["stash", "--quiet"]);
    let state = |trial: &TestProject| -> Vec<String> {
        let list: [&[&str]; 5] = [
            &["for-each-ref", "refs/heads/feature", "refs/tags", "refs/stash", "refs/notes"],
            &["config", "--local", "--list"],
            &["stash", "list"],
            &["reflog", "show", "feature"],
            &["fsck", "--no-dangling", "--no-progress"],
        ];
        let hooks = trial.process("ls").arg(".git/hooks").output().unwrap().stdout;
        let hooks = String::from_utf8(hooks).unwrap();
        list.iter().map(|words| trial.git(words)).chain([hooks]).collect()
    };
    let before = state(&trial);
    let script = "
        git stash pop || true
        git stash clear
        git branch -D feature
        git tag -d v1
        git notes add -m note
        git config user.name Agent
        git config core.hooksPath nowhere
        git reflog expire --expire=now --all
        git gc --quiet --prune=now
        git worktree prune
        echo exit 1 > \"$(git rev-parse --git-path hooks)/pre-commit\"
        git update-ref -d refs/heads/main
    ";
    tell(
        &trial,
        "a-1",
        &format!("{script} put line lost; rm -rf \"$(git rev-parse --git-common-dir)\""),
    );
    tell(&trial, "a-2", &format!("git stash list | grep . && exit 1; {script} work"));
    trial.run(["run"]).graph_complete();
    assert_eq!(state(&trial), before);
    trial.git(&["stash", "drop", "--quiet"]);
    sound(&trial);
}

#[test]
fn what_a_completed_attempt_has_beside_its_work_is_kept() {
    let trial = stage("tasks: [{id: a}, {id: b, depends_on: [a]}, {id: c}]\n", "");
    let aside =
        "git checkout -q -b side; put side s; git add -A; git commit -qm Aside; git checkout -q -";
    tell(&trial, "a", &format!("{aside}; put stashed s; git stash -u -q; work"));
    tell(
        &trial,
        "b",
        "put b first; git add -A; git commit -qm First; put b 2; git commit -qa --amend --no-edit; work",
    );
    tell(&trial, "", "work");
    let run = trial.run(["run"]).graph_complete();
    run.stderr_has("`ralph restore a.1`");
    let kept = |name: &str| trial.git(&["log", "--format=%s", &format!("refs/ralph/{name}")]);
    assert!(kept("a/1").contains("Aside\n") && kept("a/1").contains("WIP on "), "{}", kept("a/1"));
    assert!(kept("b/1").contains("First\n"), "{}", kept("b/1"));
    let kept: Vec<_> = trial.lines("completed").iter().map(|line| line["pinned"].clone()).collect();
    assert_eq!(kept.iter().filter(|kept| kept.is_null()).count(), 1, "only of `c`: {kept:?}");
    assert_eq!(
        trial.git(&["log", "--format=%s", "--grep=Aside"]),
        "",
        "it is not part of its work"
    );
    trial.run(["slots", "remove"]);
    sound(&trial);
}

#[test]
fn an_unusable_branch_is_an_error_before_any_attempt() {
    let trial = stage(PAIR, "");
    trial.git(&["checkout", "--quiet", "--detach"]);
    trial.run(["run"]).code(1).stderr(
        "ralph: error: attempts start from a branch: HEAD is detached; switch to the branch that \
         work lands on, name one with `--onto`, or use `--in-place`\n",
    );
    let unborn = TestProject::bare().agent("commit");
    unborn.git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
    unborn.write("task-graph.yaml", PAIR);
    unborn.run(["run"]).code(1).stderr(
        "ralph: error: attempts start from a branch: the repository has no commit; create the \
         first one, or use `--in-place`\n",
    );
}

#[test]
fn commands_of_an_agent_apply_to_its_own_run() {
    let trial = stage("tasks: [{id: a}, {id: b}]\n", "jobs: 1\n");
    tell(
        &trial,
        "a-1",
        "\"$RALPH\" note --for-all 'mind the gap'; mkdir -p deep; cd deep; \
         \"$RALPH\" ask 'Which colour?'; cd ..; put half.txt 1; commit",
    );
    tell(
        &trial,
        "a-2",
        "grep -q 'mind the gap' \"$TRIAL_DIR/prompt-a-2\"; \"$RALPH\" verify; work",
    );
    trial.run(["run"]).code(4);
    assert_eq!(trial.status("a"), "needs-input");
    trial.run(["answer", "a", "blue"]);
    completes(&trial);
    assert!(prompt(&trial, "a-2").contains("blue"));
}

#[test]
fn a_task_with_nothing_to_commit_lands_as_its_completion() {
    let trial = stage("tasks: [{id: a, commit: optional}, {id: b, commit: optional}]\n", "");
    tell(&trial, "a", "report");
    completes(&trial);
    let mut completions = trial.completions();
    completions.sort();
    assert_eq!(completions, ["a", "b"]);
    assert_eq!(trial.subjects(), ["Work on b"]);
}

/// Reported work that is not committed is committed, verified alone, and lands.
#[test]
fn work_that_was_left_uncommitted_lands_when_it_is_done() {
    let trial = stage("tasks: [{id: a}, {id: b}]\n", "proof: none\n");
    tell(&trial, "a", "echo a > left.txt; report");
    // Passes only with a file that git ignores.
    let trial = trial
        .file(".gitignore", "made\n")
        .file("tests/made.sh", "[ ! -e work/b.txt ] || [ -e made ]\n");
    // The work of `a` has landed by then, so `b` is verified again.
    let landed_first = "until git -C \"$TRIAL_DIR/repo\" cat-file -e main:left.txt 2> /dev/null; do sleep 0.02; done; ";
    tell(
        &trial,
        "b-1",
        &format!("{landed_first}echo x > made; mkdir -p work; echo 1 > work/b.txt; report"),
    );
    tell(&trial, "b-2", "put tests/made.sh true; work");
    trial.run(["run"]);
    sound(&trial);
    assert_eq!(landed(&trial, "left.txt"), "a\n");
}

#[test]
fn twenty_tasks_and_a_second_run() {
    let tasks: String = (0..20).map(|n| format!("  - id: t{n}\n")).collect();
    let trial = stage(&format!("tasks:\n{tasks}"), "");
    tell(&trial, "t0", "await open; work");
    let run = trial.start_until(["run", "--jobs", "4"], "waiting-t0");
    trial.run(["run", "--jobs", "4"]).code(5);
    trial.leave("open");
    run.end(&trial).graph_complete();
    sound(&trial);
    assert_eq!(works(&trial), 20);
}

#[test]
fn work_in_the_main_checkout_is_unverified() {
    let trial = stage("tasks: [{id: a}]\n", "max_attempts: 1\n");
    tell(&trial, "a", "cd \"$TRIAL_DIR/repo\"; work");
    trial.run(["run"]).code(3);
    assert_eq!(verdicts(&trial), ["a unverified"]);
    sound_but_parked(&trial);
}

/// Makes a repository with a commit for a submodule. Returns its path.
fn module(trial: &TestProject) -> String {
    let path = trial.dir().join("module").display().to_string();
    trial.git(&["init", "--quiet", &path]);
    let identity = ["-c", "user.name=T", "-c", "user.email=t@t"];
    let commit = ["commit", "--quiet", "--allow-empty", "-m", "Sub"];
    trial.git(&[&["-C", &path], &identity[..], &commit[..]].concat());
    path
}

/// Has the checkout commit a submodule `sub`. Returns the path that it comes from.
fn add_module(trial: &TestProject) -> String {
    let path = module(trial);
    trial.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &path, "sub"]);
    trial.git(&["commit", "--quiet", "-m", "Set the stage"]);
    path
}

#[test]
fn a_submodule_is_there_and_may_stay_as_it_is() {
    let trial = stage(PAIR, "verify: ['[ -e sub/.git ]']\n");
    add_module(&trial);
    // The work that lands second is verified in the slot for merges.
    tell(&trial, "", "together 2; [ -e sub/.git ] && work");
    completes(&trial);
    let mut verdicts = verdicts(&trial);
    verdicts.sort();
    assert_eq!(verdicts, ["a complete", "b complete"]);
}

#[test]
fn the_checkout_has_the_commit_of_a_submodule_that_landed() {
    let trial = stage("tasks: [{id: a}]\n", "");
    add_module(&trial);
    tell(
        &trial,
        "",
        "git -C sub -c user.name=T -c user.email=t@t commit --quiet --allow-empty -m More
        git add sub; work",
    );
    completes(&trial);
    assert_eq!(trial.git(&["-C", "sub", "log", "-1", "--format=%s"]).trim(), "More");
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
}

/// No task is at fault, so none has one attempt less, and the next run continues.
#[test]
fn a_submodule_that_cannot_be_cloned_ends_the_run() {
    let trial = stage("tasks: [{id: a, max_attempts: 1}, {id: b}, {id: c}]\n", "jobs: 1\n");
    let module = add_module(&trial);
    let away = format!("{module}.away");
    fs::rename(&module, &away).unwrap();
    trial.git(&["submodule", "--quiet", "deinit", "--force", "sub"]);
    fs::remove_dir_all(trial.root().join(".git/modules/sub")).unwrap();
    let trial = trial.env("GIT_ALLOW_PROTOCOL", "file");
    let why = "cannot update the submodules of ";
    trial.run(["run"]).code(3).stderr_has(why).stderr_has("module' does not exist");
    assert_eq!(verdicts(&trial), ["a baseline-broken"]);
    let why = trial.lines("finished")[0]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("; every attempt starts from there: fix it, then run again"), "{why}");
    trial.run(["status"]).stdout_has("cannot update the submodules of ");
    assert_eq!(trial.status("a"), "pending");

    fs::rename(&away, &module).unwrap();
    // The checkout has no clone either. Git writes the address to the settings of the slot.
    trial.run(["run"]).graph_complete();
    let tampered = trial.lines("completed").into_iter().find(|line| !line["tampered"].is_null());
    assert_eq!(tampered, None);
    sound(&trial);
}

/// It is verified in a slot that has only what everyone can have.
#[test]
fn a_submodule_that_only_its_slot_can_have_does_not_land() {
    let trial = stage("tasks: [{id: a, max_attempts: 1}, {id: b}]\n", "jobs: 1\n");
    let module = module(&trial);
    let add = format!("git -c protocol.file.allow=always submodule --quiet add '{module}' sub");
    tell(&trial, "a", &format!("{add}; rm -rf '{module}'; work"));
    trial.run(["run"]).code(3);
    assert_eq!(verdicts(&trial), ["a merge-failed", "b complete"]);
    let why = trial.lines("failed")[0]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("cannot update the submodules of "), "{why}");
    sound_but_parked(&trial);
}

/// The machine crashed while a slot was made, and while another one was prepared again.
#[test]
fn incomplete_slots_are_repaired() {
    let trial = stage(PAIR, "");
    tell(&trial, "", "together 2; work");
    completes(&trial);
    let folder = trial.dir().join("repo.slots");
    let git_dir = folder.join("1/repo/.git");
    // A killed run was writing it again.
    fs::rename(git_dir.join("HEAD"), git_dir.join("ralph-begun")).unwrap();
    fs::write(git_dir.join("packed-refs"), "half of").unwrap();
    fs::remove_dir_all(folder.join("2/repo")).unwrap();
    fs::create_dir_all(folder.join("2/repo.making/.git")).unwrap();
    fs::write(folder.join("2/repo.making/.git/index.lock"), "").unwrap();
    let graph = trial.graph_text().replace(']', ", {id: c}, {id: d}]");
    let trial = trial.graph(&graph);
    for name in ["here-a", "here-b"] {
        fs::remove_file(trial.sign(name)).unwrap();
    }
    completes(&trial);
    assert_eq!(trial.tasks("slot_kept").len(), 0);
    assert!(!folder.join("2/repo.making").exists());
    // The second slot of the queue is there if both waited at once.
    assert_eq!(slots(&trial)[..3], ["1", "2", "merge"]);
}

/// A usage limit applies to the agent: the other running attempt continues, and no third starts.
#[test]
fn a_rate_limit_holds_back_all_attempts_of_its_agent() {
    let agent = agent("told");
    let settings = format!("agent: {{command: [{agent}], output: claude-json}}\n");
    let trial = stage("tasks: [{id: a}, {id: b}, {id: c}]\n", &settings).command([]);
    let stream = |name: &str| {
        format!("cat {}/tests/transcripts/claude-{name}.jsonl", env!("CARGO_MANIFEST_DIR"))
    };
    tell(&trial, "a-1", &format!("together 2; {}; exit 1", stream("usage-limit")));
    tell(&trial, "b", &format!("together 2; await open; work; {}", stream("success")));
    tell(&trial, "", &format!("work; {}", stream("success")));
    let run = trial.start_until(["run", "--max-wait", "1000000h"], "waiting-b");
    until("the limit is known", || trial.read("logs/ralph.jsonl").contains("\"rate_limited\""));
    trial.leave("open");
    trial.wait_for_records(1, "waiting");
    assert_eq!(trial.tasks("started"), ["a", "b"]);
    assert_eq!(trial.tasks("completed"), ["b"]);
    trial.run(["resume", "--now"]);
    run.end(&trial).graph_complete();
    sound(&trial);
}

#[test]
fn each_of_two_has_a_terminal_of_its_own() {
    if std::process::Command::new("tmux").arg("-V").output().is_err() {
        unavailable("there is no tmux here");
        return;
    }
    let trial = stage(PAIR, "");
    let dir = trial.dir().display().to_string();
    let trial = trial.env("TMPDIR", &dir);
    tell(&trial, "", "[ -t 1 ]; together 2; work");
    trial.run(["run", "--tmux"]).graph_complete();
    sound(&trial);
}

/// A checkout that waits for a person's file follows in the same run once the file is gone.
#[test]
#[ignore = "slow"]
fn a_checkout_that_waits_follows_in_the_same_run() {
    let trial = stage(PAIR, "notify: ['cat >> \"$TRIAL_DIR/told\"']\n");
    tell(&trial, "a", "put line agent; work");
    tell(&trial, "b", "await open; work");
    trial.write("line", "mine\n");
    let run = trial.start_until(["run", "--wait"], "waiting-b");
    trial.wait_for_records(1, "checkout_waits");
    let told = || std::fs::read_to_string(trial.sign("told")).unwrap_or_default();
    until("a person is notified", || told().contains("\"event\":\"merge-held\""));
    assert_eq!(trial.read("line"), "mine\n");
    trial.git(&["stash", "--quiet", "--", "line"]);
    until("it has followed", || landed(&trial, "line") == "agent\n");
    trial.leave("open");
    run.end(&trial).graph_complete();
    sound(&trial);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

/// Slots inside the repository do not count as untracked files of a person.
#[test]
fn slots_may_be_inside_the_repository() {
    let trial = stage(PAIR, "slot_dir: .slots\n");
    tell(&trial, "a-1", "rm -r .git; echo lost > lost; report");
    completes(&trial);
    assert!(trial.root().join(".slots/1").is_dir());
    assert_eq!(verdicts(&trial).iter().filter(|one| one.ends_with("complete")).count(), 2);
}
