//! `ralph slots`, and the other views of isolated attempts: `status`, `dag-status`, `attach`,
//! `logs -f`, `doctor`, the lines of a run.

use std::fs;

use serde_json::{Value, json};

use crate::support::{RALPH, SETTINGS, TestProject, until, wait_for};

const TWO: &str = "tasks: [{id: a, title: The first}, {id: b}]\n";

const THREE: &str = "tasks: [{id: a}, {id: b}, {id: c}]\n";

fn settings(more: &str) -> String {
    format!("{SETTINGS}jobs: 2\n{more}")
}

fn stage(more: &str) -> TestProject {
    TestProject::new().graph(TWO).file(".ralph/config.yaml", &settings(more)).agent("gate")
}

/// A repository in which the work of two attempts has landed, with their slots.
fn landed() -> TestProject {
    let trial = stage("verify: [\"true\"]\nverify_exclusive: true\n").agent("commit");
    trial.run(["run", "-q"]);
    trial
}

/// The path of a file in a slot.
fn slot_file(trial: &TestProject, path: &str) -> std::path::PathBuf {
    let (slot, file) = path.split_once('/').unwrap_or((path, ""));
    trial.dir().join("repo.slots").join(slot).join("repo").join(file)
}

fn git_in(trial: &TestProject, slot: &str, words: &[&str]) -> String {
    let slot = slot_file(trial, slot).display().to_string();
    trial.git(&[&["-C", &slot], words].concat())
}

/// `remove` refuses with this reason and changes nothing.
#[track_caller]
fn stays(trial: &TestProject, name: &str, why: &str) {
    let ran = trial.run(["slots", "remove", name]).code(1);
    ran.stderr(&format!("../repo.slots/{name}/repo stays: {why}\n"));
    assert!(slot_file(trial, name).exists());
}

#[test]
fn agents_that_commit_a_graph_that_git_does_not_track_leave_their_slots_free() {
    let trial = TestProject::new().file("f", "x\n").env("RALPH_JOBS", "1");
    trial.write("task-graph.yaml", THREE);
    trial.script(
        &trial.sign("agent.sh"),
        "cat > /dev/null; echo 1 > \"$RALPH_TASK_ID\"; git add -A; git commit -qm \"$RALPH_TASK_ID\"\n\
         exec \"$RALPH\" task-complete \"$RALPH_TASK_ID\"\n",
    );
    let agent = trial.sign("agent.sh").display().to_string();
    trial.run(["run", "--", "sh", &agent]).graph_complete();
    insta::assert_snapshot!(trial.run(["slots"]).out(), @r"
    slot                      task  state
    ../repo.slots/1/repo      -     free
    ../repo.slots/merge/repo  -     merge queue; free
    ");
    assert_eq!(trial.git(&["ls-tree", "--name-only", "HEAD", "task-graph.yaml"]), "");
    trial.run(["slots", "remove"]);
    assert!(!slot_file(&trial, "1").exists());
}

#[test]
fn agents_that_report_in_their_copy_of_the_graph_leave_their_slots_free() {
    let trial = TestProject::new().graph(THREE).env("RALPH_JOBS", "1");
    trial.script(
        &trial.sign("agent.sh"),
        "cat > /dev/null; echo 1 > \"$RALPH_TASK_ID\"; git add \"$RALPH_TASK_ID\"; git commit -qm Work\n\
         sed \"s/id: $RALPH_TASK_ID/id: $RALPH_TASK_ID, status: complete/\" task-graph.yaml > new\n\
         mv new task-graph.yaml\n",
    );
    let agent = trial.sign("agent.sh").display().to_string();
    trial.run(["run", "--", "sh", &agent]).graph_complete();
    trial.run(["slots", "remove"]);
    assert!(!slot_file(&trial, "1").exists());
}

#[test]
fn a_slot_is_named_where_it_is_verified_and_has_one_index() {
    let check = "verify: ['test \"$RALPH_SLOT\" = \"$PWD\"']\n";
    let trial = stage(check).agent("commit");
    trial.git(&["config", "core.splitIndex", "true"]);
    trial.run(["run", "--jobs", "1"]).graph_complete();
}

#[test]
fn work_in_a_worktree_inside_of_the_slot_counts() {
    for place in ["slot", "checkout"] {
        let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n");
        trial.git(&["worktree", "add", "-q", "-b", "of-a-person", ".mine"]);
        trial.write(".git/info/exclude", ".mine\n");
        trial.git(&["-C", ".mine", "commit", "-q", "--allow-empty", "-m", "Mine"]);
        let trial = trial.env("RALPH_ISOLATION", place).command([
            "sh",
            "-c",
            "cat > /dev/null; git worktree add -q -b own .claude/worktrees/own
            git worktree lock .claude/worktrees/own --reason 'the agent, which is gone'
            cd .claude/worktrees/own; mkdir deep; cd deep; echo 1 > work; git add work
            git commit -qm Work; \"$RALPH\" task-complete a",
        ]);
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.git(&["show", "HEAD^:deep/work"]).trim(), "1");
        assert!(!trial.root().join(".claude/worktrees/own").exists());
        // The worktrees of a person stay as they are.
        assert_eq!(trial.git(&["log", "-1", "--format=%s", "of-a-person"]).trim(), "Mine");
        assert!(!trial.git(&["log", "--format=%s"]).contains("Mine"));
        trial.run(["slots", "remove"]);
        assert!(!slot_file(&trial, "1").exists());
    }
}

#[test]
fn commits_on_other_branches_are_named_and_kept() {
    // The third one works in the checkout, where it must not.
    for (place, stand, branch) in
        [("slot", ".", "side"), ("checkout", ".", "side"), ("slot", "CHECKOUT", "main")]
    {
        let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n");
        let checkout = trial.root().display().to_string();
        let script = format!(
            "cat > /dev/null; cd {stand}; git checkout -q -B {branch}; echo 1 > work; git add work
            git commit -qm Work; git checkout -q -; \"$RALPH\" task-complete a",
        );
        let script = script.replace("CHECKOUT", &checkout);
        let trial = trial.env("RALPH_ISOLATION", place).command(["sh", "-c", &script]);
        trial.run(["run"]).code(3);
        let failed = &trial.lines("failed")[0];
        let (apart, why) = (&failed["apart"][0], failed["why"].as_str().unwrap());
        assert_eq!((&apart["branch"], &apart["commits"]), (&json!(branch), &json!(1)));
        let commit = apart["commit"].as_str().unwrap();
        assert!(why.contains(&format!("`git merge {}`", &commit[..7])), "{why}");
        assert_eq!(why.contains(&checkout), branch == "main", "{why}");
        trial.git(&["merge", "-q", commit]);
        assert_eq!(trial.read("work"), "1\n");
    }
    let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n");
    trial.write("mine", "from before\n");
    let work = trial.root().join("work").display().to_string();
    let script = format!("cat > /dev/null; echo 1 > '{work}'; \"$RALPH\" task-complete a");
    let trial = trial.command(["sh", "-c", &script]);
    trial.run(["run"]).code(3).stderr_has("/work` changed, outside its slot");
    assert_eq!(trial.lines("failed")[0]["touched"], json!([work]));
}

#[test]
fn a_branch_that_goes_during_a_run_waits_for_a_person() {
    for end in ["\"$RALPH\" task-complete a", "true"] {
        let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n");
        let checkout = trial.root().display();
        let script = format!(
            "cat > /dev/null; echo 1 > work; git add work; git commit -qm Work
            git -C '{checkout}' switch -qc other; git -C '{checkout}' branch -qD main; {end}"
        );
        let trial = trial.command(["sh", "-c", &script]);
        trial.run(["run"]).code(4).stderr_has("branch `main` is gone; `git branch main` makes");
    }
}

#[test]
fn a_report_counts_wherever_the_agent_stands() {
    for place in ["slot", "checkout"] {
        for stand in ["/", "inner", "deep/er", "inner/deep"] {
            let script = format!(
                "cat > /dev/null; echo 1 > work; git add work; git commit -qm Work
                git clone -q . inner; echo inner > .git/info/exclude; mkdir -p deep/er inner/deep
                cd {stand}; \"$RALPH\" task-complete a"
            );
            let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n");
            let trial = trial.env("RALPH_ISOLATION", place).command(["sh", "-c", &script]);
            trial.run(["run"]).graph_complete();
        }
    }
}

#[test]
fn every_view_shows_the_slots_of_attempts() {
    let trial = stage("verify: sh \"$TRIAL_DIR/check.sh\"\n");
    trial.script(&trial.sign("check.sh"), "until [ -e \"$TRIAL_DIR/green\" ]; do sleep 0.02; done");
    let run = trial.start_until(["run"], "waiting-a");
    wait_for(&trial.sign("waiting-b"));
    until("the agents have started", || trial.lines("agent_started").len() == 2);
    insta::assert_snapshot!(trial.run(["slots"]).out(), @r"
    slot                  task  state
    ../repo.slots/1/repo  a     in use by attempt a.1, running
    ../repo.slots/2/repo  b     in use by attempt b.1, running
    ");
    insta::assert_snapshot!(trial.run(["dag-status"]).out().split_once("\n\n").unwrap().1, @r"
    In progress
      a  The first  for [took], an agent is at work, in ../repo.slots/1/repo (ralph/a)
      b  for [took], an agent is at work, in ../repo.slots/2/repo (ralph/b)
    ");
    let attempts = |text: String| -> Vec<String> {
        let shown = |line: &&str| line.starts_with("Current") || line.starts_with("Merge");
        text.lines().filter(shown).map(str::to_owned).collect()
    };
    insta::assert_snapshot!(attempts(trial.run(["status"]).out()).join("\n"), @r"
    Current attempt: a, attempt 1, since [time], for [took]; in ../repo.slots/1/repo (ralph/a)
    Current attempt: b, attempt 1, since [time], for [took]; in ../repo.slots/2/repo (ralph/b)
    ");
    let live = trial.start(["attach"]);
    until("it follows", || ["a started", "b started"].iter().all(|it| live.printed().contains(it)));
    assert_eq!(live.said(), "");
    trial
        .run(["attach", "c"])
        .code(1)
        .stderr("ralph: error: no attempt at `c` is running; choose one of `a`, `b` with `ralph attach ID`\n");
    stays(&trial, "1", "attempt a.1 works in it; `ralph stop` ends the run after it");
    let all = live;
    // Both are verified; then one is merged, and the other waits.
    trial.leave("open");
    until("each line has its task", || {
        ["a | a is reported", "b | b is reported"].iter().all(|it| all.printed().contains(it))
    });
    all.kill();
    let stages = || {
        let status = trial.run(["status", "--json"]).json();
        let attempts = status["attempts"].as_array().unwrap().iter();
        let stages: Vec<String> =
            attempts.map(|one| one["stage"].as_str().unwrap().to_owned()).collect();
        (stages.join(" "), status)
    };
    until("both are verified", || stages().0 == "landing landing");
    let (_, status) = stages();
    assert_eq!(status["attempts"][0]["slot"], "[repo].slots/1/repo");
    assert_eq!(
        status["merge_queue"]["landing"]["tasks"].as_array().map(Vec::len),
        Some(2),
        "{status}"
    );
    trial.leave("green");
    run.end(&trial).code(0);
    insta::assert_snapshot!(trial.run(["slots"]).out(), @r"
    slot                        task  state
    ../repo.slots/1/repo        -     free
    ../repo.slots/2/repo        -     free
    ../repo.slots/merge/repo    -     merge queue; free
    ../repo.slots/merge-2/repo  -     merge queue; free
    ");
    let list = trial.run(["slots", "--json"]).json();
    assert_eq!((&list[0]["state"], &list[0]["kind"]), (&json!("free"), &json!("attempt")));
    assert_eq!(list[2]["kind"], "merge_queue");
    trial.no_process_is_left();
}

#[test]
fn what_waits_for_the_checkout_is_shown_with_what_is_in_its_way() {
    let trial = stage("").agent("commit");
    trial.write("work/a.txt", "mine\n");
    trial.run(["run", "-q", "--task", "a"]).code(0);
    let status = trial.run(["status"]).out();
    let (_, shown) = status.split_once("needs you:").unwrap();
    let (shown, _) = shown.split_once("left: ").unwrap_or((shown, ""));
    let said = "1 landed task waits for your checkout: work/a.txt has uncommitted changes";
    assert!(shown.contains(said) && shown.contains("stash push --all"), "{shown}");
    let queue = trial.run(["status", "--json"]).json()["merge_queue"].clone();
    assert_eq!((&queue["waiting"], &queue["landed"]["tasks"]), (&json!([]), &json!(["a"])));
    assert_eq!(queue["landed"]["paths"], json!(["work/a.txt"]));
    assert_eq!(trial.status("a"), "pending", "the checkout is the person's");
    fs::remove_file(trial.root().join("work/a.txt")).unwrap();
    trial.run(["status"]).stdout_has("nothing is in the way any more");
    trial.run(["land"]).code(0);
    assert_eq!(trial.status("a"), "complete");
    assert!(!trial.run(["status"]).out().contains("for your checkout"));
}

#[test]
fn nothing_is_removed_that_is_kept_nowhere_else() {
    let trial = landed();
    let change = "commit it there and `git fetch ../repo.slots/1/repo HEAD:NAME`, or undo it";
    fs::write(slot_file(&trial, "1/new"), "").unwrap();
    stays(&trial, "1", &format!("`new` has uncommitted changes; {change}"));
    git_in(&trial, "1", &["add", "new"]);
    stays(&trial, "1", &format!("`new` has uncommitted changes; {change}"));
    git_in(&trial, "1", &["commit", "-qm", "New"]);
    stays(&trial, "1", &format!("commit [commit] is only in this slot; {change}"));
    // A branch of the slot is only in the slot, too.
    git_in(&trial, "1", &["branch", "mine"]);
    stays(&trial, "1", &format!("commit [commit] is only in this slot; {change}"));
    trial.git(&["fetch", "-q", "../repo.slots/1/repo", "HEAD:kept"]);
    trial.run(["slots", "remove", "1"]).stderr("removed ../repo.slots/1/repo\n");
    assert!(!slot_file(&trial, "1").exists());

    let two = slot_file(&trial, "2").display().to_string();
    let output = trial.process(RALPH).args(["slots", "remove", "."]).current_dir(&two).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(
        said.ends_with("stays: it is the current directory; change to another one\n"),
        "{said}"
    );
    trial.run(["slots", "remove", &two]).stderr("removed ../repo.slots/2/repo\n");
    for name in [".", "9", "../repo.slots"] {
        trial.run(["slots", "remove", name]).code(1).stderr(&format!(
            "ralph: error: `{name}` is not a slot of this repository; `ralph slots` lists them\n",
        ));
    }
    trial.run(["slots", "remove", "merge"]).stderr("removed ../repo.slots/merge/repo\n");
    trial
        .run(["slots"])
        .stdout("")
        .stderr("there are no slots; a run makes them as it needs them\n");
    trial.run(["slots", "--json"]).stdout("[]\n");
    trial.run(["slots", "remove"]).stderr("there are no slots\n");
}

#[test]
fn all_slots_that_hold_nothing_are_removed_at_once() {
    let trial = landed();
    fs::write(slot_file(&trial, "1/new"), "").unwrap();
    let folder = trial.dir().join("repo.slots");
    fs::create_dir_all(folder.join("mine")).unwrap();
    // Left by a killed run.
    fs::create_dir_all(folder.join("3/repo.making/.git")).unwrap();
    let begun = slot_file(&trial, "2/.git/ralph-begun");
    fs::rename(slot_file(&trial, "2/.git/HEAD"), begun).unwrap();
    insta::assert_snapshot!(trial.run(["slots"]).out(), @r"
    slot                         task  state
    ../repo.slots/1/repo         -     kept: `new` has uncommitted changes
    ../repo.slots/2/repo         -     free
    ../repo.slots/3/repo.making  -     free
    ../repo.slots/merge/repo     -     merge queue; free
    ../repo.slots/mine           -     not a slot of this repository; take the files that you want, and remove the folder
    ");
    insta::assert_snapshot!(trial.run(["slots", "remove"]).code(1).err(), @r"
    ../repo.slots/1/repo stays: `new` has uncommitted changes; commit it there and `git fetch ../repo.slots/1/repo HEAD:NAME`, or undo it
    removed ../repo.slots/2/repo
    removed ../repo.slots/3/repo.making
    removed ../repo.slots/merge/repo
    ../repo.slots/mine stays: it is not a slot of this repository; take the files that you want, and remove the folder
    ");
    assert!(slot_file(&trial, "1/new").exists() && folder.join("mine").exists());
    fs::remove_file(slot_file(&trial, "1/new")).unwrap();
    let graph = trial.graph_text().replace(']', ", {id: c}]");
    trial.graph(&graph).run(["run", "-q"]);
}

#[test]
fn lines_of_several_attempts_can_be_told_apart() {
    let trial = stage(
        "verify: 'test -e good || { echo not good for $RALPH_TASK_ID; false; }'\nmax_attempts: 1\n",
    );
    let trial = trial.agent("commit");
    let text = trial.run(["run", "-v"]).whole();
    let text = text.split_once("--- stderr ---\n").unwrap().1;
    let lines: Vec<&str> = text.lines().map(|line| &line["[time]  ".len()..]).collect();
    let of_run = [
        "ends at a time that is not known yet",
        "run [run], agent: ",
        "2 tasks",
        "what is left",
        "everything left",
        "0 completed",
    ];
    let end = lines.iter().position(|line| line.starts_with("everything left")).unwrap();
    for line in &lines[..end] {
        let named = ["a", "b"].iter().any(|id| {
            line.starts_with(&format!("{id} "))
                || line.starts_with(&format!("{id}: "))
                || line.contains(&format!(" {id} "))
                || line.contains(&format!(" {id}:"))
        });
        let goes_on =
            line.starts_with("  ") || line.starts_with("chosen by") || line.starts_with("from ");
        let of_run = of_run.iter().any(|begin| line.starts_with(begin));
        assert!(named || goes_on || of_run, "{line:?} in\n{text}");
    }
    // Each head line is followed by its details.
    for id in ["a", "b"] {
        let at = lines.iter().position(|line| line.starts_with(&format!("{id}: `test"))).unwrap();
        let head = format!(
            "{id}: `test -e good || {{ echo not good for $RALPH_TASK_ID; false; }}` exited with code 1"
        );
        assert!(lines[at].starts_with(&head), "{text}");
        assert_eq!(lines[at + 1], format!("    not good for {id}"), "{text}");
        let log = format!("    output in logs/attempts/{id}/1/red-merge-1.log");
        assert_eq!(lines[at + 2], log, "{text}");
    }
    assert!(text.contains("a started: The first\n"), "{text}");
}

#[test]
fn the_doctor_checks_what_isolated_attempts_need() {
    let trial = landed();
    let found = |trial: &TestProject| -> Vec<(String, String)> {
        let report: Value = trial.run(["doctor", "--json", "--", "true"]).json();
        let list = report["findings"].as_array().unwrap().iter();
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let marked = |one: &Value| format!("{} {}", text(one, "mark"), text(one, "found"));
        list.map(|one| (text(one, "about"), trial.redact(&marked(one)))).collect()
    };
    let of = |all: &[(String, String)], about: &str| {
        all.iter().find(|(name, _)| name == about).map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let all = found(&trial);
    assert_eq!(of(&all, "leftovers"), "");

    fs::write(slot_file(&trial, "1/new"), "").unwrap();
    let all = found(&trial);
    let kept = "../repo.slots/1/repo (kept: `new` has uncommitted changes)";
    assert_eq!(of(&all, "leftovers"), format!("warning {kept}"));
    trial.git(&["checkout", "-q", "--detach"]);
    let (doctor, run) = (trial.run(["doctor", "-q", "--", "true"]), trial.run(["run"]));
    doctor.code(1).stdout_has("HEAD is detached, and attempts start from a branch");
    run.code(1);
}

/// libgit2 waits without end for the rest of a truncated object, and panics at an unknown mode.
#[test]
fn objects_that_libgit2_cannot_read_hang_and_end_no_run() {
    let graph = "tasks: [{id: cut}, {id: odd}, {id: fine}]\n";
    let trial = TestProject::new().graph(graph);
    let agent = trial.sign("agent");
    trial.script(
        &agent,
        "cat > /dev/null\n\
         echo 1 > \"$RALPH_TASK_ID\"; git add .; git commit -qm \"$RALPH_TASK_ID\"\n\
         object() { echo \".git/objects/$(echo \"$1\" | cut -c1-2)/$(echo \"$1\" | cut -c3-)\"; }\n\
         case $RALPH_TASK_ID in\n\
         cut) file=$(object \"$(git rev-parse HEAD)\"); cp \"$file\" \"$TRIAL_DIR/whole\"\n\
         chmod u+w \"$file\"; head -c 20 \"$TRIAL_DIR/whole\" > \"$file\";;\n\
         odd) tree=$(git cat-file tree HEAD^{tree} | LC_ALL=C sed 's/100644 odd/777 odd/' |\n\
         git hash-object -t tree -w --literally --stdin)\n\
         git update-ref HEAD \"$(git commit-tree -p HEAD~ -m odd \"$tree\")\";;\n\
         esac\n\
         : > \"$RALPH_TASK_DIR/DONE\"",
    );
    let trial = trial
        .file(".ralph/config.yaml", &format!("{SETTINGS}jobs: 3\nmax_attempts: 1\n"))
        .command(["sh", &agent.display().to_string()]);
    trial.run(["run", "-q"]).code_is_any();
    let statuses = |trial: &TestProject| ["cut", "odd", "fine"].map(|id| trial.status(id));
    assert_eq!(statuses(&trial), ["in-progress", "in-progress", "complete"]);
    assert_eq!(trial.lines("finished").len(), 1);
    for words in [&["slots"][..], &["status"], &["dag-status"], &["attempts"]] {
        trial.run(words).code_is_any();
    }
    trial.run(["task-reset", "cut"]);
    trial.run(["run", "-q"]).code_is_any();
    assert_eq!(trial.lines("finished").len(), 2);
    assert_eq!(trial.lines("started").len(), 4);
    trial.git(&["fsck", "--strict", "--no-dangling"]);
}
