//! The setting `write_back`: sources are told which tasks are done.

use std::{fs, path::PathBuf};

use crate::support::{SETTINGS, TestProject, agent};

const STORIES: &str = "{\"userStories\": [\n  {\"id\": \"a\", \"title\": \"A\", \"passes\": false},\n  \
                       {\"id\": \"b\", \"title\": \"B\", \"passes\": false}\n]}\n";
const PLAN: &str = "# Plan\n\n- [ ] Cut the cloth\n- [ ] Sew it\n";

/// A project whose tasks come from these committed files.
fn project(sources: &[(&str, &str)]) -> TestProject {
    let settings = format!("{SETTINGS}write_back: true\nhook_timeout: 1s\n");
    let trial = TestProject::new().agent("commit").file(".ralph/config.yaml", &settings);
    for (name, text) in sources {
        trial.write(name, text);
        trial.run(["import", name]);
    }
    if !sources.is_empty() {
        commit(&trial);
    }
    trial
}

fn commit(trial: &TestProject) {
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "--message", "Set the stage"]);
}

fn is_clean(trial: &TestProject) {
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
}

#[test]
fn landed_tasks_are_marked_in_their_files_with_one_commit_each() {
    for in_place in [false, true] {
        let trial = project(&[("docs/prd.json", STORIES), ("PLAN.md", PLAN)]);
        let trial = if in_place { trial.in_place() } else { trial };
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.read("docs/prd.json"), STORIES.replace("false", "true"));
        assert_eq!(trial.read("PLAN.md"), PLAN.replace("[ ]", "[x]"));
        is_clean(&trial);
        let log = trial.git(&["log", "-2", "--format=%s%n%(trailers)", "--name-only"]);
        let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(
            lines,
            [
                "Mark 2 tasks as done in docs/prd.json",
                "Ralph-Task: a",
                "Ralph-Task: b",
                "docs/prd.json",
                "Mark 2 tasks as done in PLAN.md",
                "Ralph-Task: cut-the-cloth",
                "Ralph-Task: sew-it",
                "PLAN.md",
            ]
        );
        assert!(trial.read("logs/run.log").contains("marked as done in `PLAN.md` in "));
        let head = trial.git(&["rev-parse", "HEAD"]);
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.git(&["rev-parse", "HEAD"]), head, "there is nothing left to do");
    }
}

#[test]
fn nothing_is_marked_without_the_setting_or_before_it_has_landed() {
    let trial = project(&[("prd.json", STORIES)]);
    trial.run(["run", "--once"]);
    assert_eq!(trial.read("prd.json"), STORIES.replacen("false", "true", 1));
    let trial = project(&[("prd.json", STORIES)]).file(".ralph/config.yaml", SETTINGS);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.read("prd.json"), STORIES);
    // A person completes a task, and has not committed that.
    let trial = project(&[("prd.json", STORIES)]);
    trial.run(["task-complete", "a"]);
    trial.run(["task-block", "b", "--reason", "later"]);
    trial.run(["run"]).code(3);
    assert_eq!(trial.read("prd.json"), STORIES);
    // The work landed on another branch than the one that is checked out.
    let trial = project(&[("prd.json", STORIES)]).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    trial.git(&["switch", "--quiet", "--create", "other"]);
    trial.leave("open");
    run.end(&trial);
    assert_eq!(trial.read("prd.json"), STORIES);
    trial.git(&["checkout", "--quiet", "--", "."]);
    trial.git(&["switch", "--quiet", "main"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.read("prd.json"), STORIES.replace("false", "true"));
    is_clean(&trial);
}

#[test]
fn changes_of_a_person_stay_and_are_not_committed() {
    for is_staged in [false, true] {
        let trial = project(&[("prd.json", STORIES)]);
        trial.write(".git/info/exclude", "PLAN.md\n");
        trial.write("PLAN.md", PLAN);
        trial.run(["import", "PLAN.md"]);
        commit(&trial);
        let mine = STORIES.replace("\"B\"", "\"Mine\"");
        trial.write("prd.json", &mine);
        if is_staged {
            trial.git(&["add", "prd.json"]);
        }
        let head = trial.git(&["rev-parse", "HEAD:prd.json"]);
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.read("prd.json"), mine.replace("false", "true"));
        assert_eq!(trial.git(&["rev-parse", "HEAD:prd.json"]), head);
        assert_eq!(trial.git(&["show", ":prd.json"]) == mine, is_staged);
        assert_eq!(trial.read("PLAN.md"), PLAN.replace("[ ]", "[x]"));
        let updated = trial.lines("source_updated");
        let why: Vec<String> = { updated.iter() }
            .map(|line| format!("{}: {}", line["source"], line["uncommitted"]))
            .collect();
        let want = [
            "\"PLAN.md\": \"git does not track the file\"",
            "\"prd.json\": \"the file has other changes\"",
        ];
        assert_eq!(why, want);
    }
}

#[test]
fn line_ends_that_git_converts_stay() {
    let trial = project(&[]);
    let trial = trial.file(".gitattributes", "*.md text eol=crlf\n");
    trial.write("PLAN.md", &PLAN.replace('\n', "\r\n"));
    trial.run(["import", "PLAN.md"]);
    commit(&trial);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.read("PLAN.md"), PLAN.replace("[ ]", "[x]").replace('\n', "\r\n"));
    assert_eq!(trial.git(&["show", "HEAD:PLAN.md"]), PLAN.replace("[ ]", "[x]"));
    is_clean(&trial);
}

#[test]
fn a_file_that_cannot_be_read_is_left_and_told_once() {
    let trial = project(&[("prd.json", STORIES)]);
    trial.write("prd.json", "{\"userStories\": [");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.read("prd.json"), "{\"userStories\": [");
    let failed = trial.lines("source_failed");
    assert_eq!((failed.len(), failed[0]["source"].as_str()), (1, Some("prd.json")));
    trial.git(&["checkout", "--quiet", "--", "prd.json"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.read("prd.json"), STORIES.replace("false", "true"));
    is_clean(&trial);
}

#[test]
fn only_files_of_the_repository_are_written() {
    let trial = project(&[]);
    let outside = trial.sign("outside.json");
    fs::write(&outside, STORIES).unwrap();
    trial.write("real.json", STORIES);
    std::os::unix::fs::symlink(&outside, trial.root().join("link.json")).unwrap();
    std::os::unix::fs::symlink(trial.dir(), trial.root().join("up")).unwrap();
    fs::copy(trial.root().join("real.json"), trial.root().join(".git/in.json")).unwrap();
    let names = [
        "../outside.json",
        "link.json",
        "up/outside.json",
        ".git/in.json",
        "./real.json",
        &outside.display().to_string(),
    ];
    let tasks: String = { names.iter().enumerate() }
        .map(|(at, name)| format!("  - {{id: t{at}, status: complete, source: '{name}#a'}}\n"))
        .collect();
    let trial = trial.graph(&format!("tasks:\n{tasks}"));
    trial.run(["run"]).graph_complete();
    for path in [outside, trial.root().join(".git/in.json"), trial.root().join("real.json")] {
        assert_eq!(fs::read_to_string(&path).unwrap(), STORIES, "{}", path.display());
    }
}

#[test]
fn a_kill_between_commit_and_file_is_made_up_for() {
    let trial = project(&[("prd.json", STORIES)]);
    let record = trial.sign("passed");
    let trial = trial
        .env("RALPH_CRASH_RECORD", record.to_str().unwrap())
        .env("RALPH_CRASH_POINT", "file.committed:1");
    trial.run(["run"]).code(-1);
    let head = trial.git(&["rev-parse", "HEAD"]);
    assert!(trial.git(&["log", "-1", "--format=%s"]).starts_with("Mark 2 tasks"));
    assert_eq!(trial.read("prd.json"), STORIES);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.git(&["rev-parse", "HEAD"]), head);
    is_clean(&trial);
    // As after a kill when the index is written, and the file is not.
    trial.write("prd.json", STORIES);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.git(&["rev-parse", "HEAD"]), head);
    is_clean(&trial);
    let said = trial.lines("source_updated");
    assert!(said.iter().all(|line| line["uncommitted"].is_null()), "{said:?}");
}

#[test]
fn a_mark_is_no_work_on_the_task() {
    let trial = project(&[("prd.json", STORIES)]);
    trial.run(["run"]).graph_complete();
    trial.git(&["revert", "--no-edit", "HEAD~5..HEAD~1"]);
    trial.run(["task-reset", "a"]);
    // Forgets which commits were those of the attempts.
    fs::remove_dir_all(trial.root().join("logs")).unwrap();
    fs::remove_file(trial.state().join("history.json")).unwrap();
    let trial = trial.command([agent("lie").as_str()]);
    trial.run(["run", "--once"]).code(1);
    assert_eq!(trial.tasks("completed"), Vec::<String>::new());
}

/// A project with two issues, and a `gh` that writes its arguments to a file and does this.
fn with_issues(script: &str) -> (TestProject, PathBuf) {
    let issue = |number: u32| {
        format!(
            "{{\"number\": {number}, \"title\": \"I{number}\", \"body\": \"\", \"state\": \"OPEN\", \
             \"labels\": [], \"url\": \"https://github.com/owner/name/issues/{number}\"}}"
        )
    };
    let done = issue(9).replace("OPEN", "CLOSED");
    let issues = format!("[{}, {}, {done}]\n", issue(3), issue(4));
    let trial = project(&[("issues.json", &issues)]);
    let (calls, tools) = (trial.sign("calls"), trial.dir().join("tools"));
    trial.script(
        &tools.join("gh"),
        &format!("printf '%s\\n' \"$@\" -- >> '{}'\n{script}", calls.display()),
    );
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    (trial.env("PATH", &path), calls)
}

#[test]
fn issues_are_closed_once_with_commits_and_verdict() {
    let (trial, calls) = with_issues("");
    trial.run(["run"]).graph_complete();
    let said = fs::read_to_string(&calls).unwrap();
    assert_eq!(said.matches("issue\nclose\n").count(), 2, "{said}");
    for number in ["3", "4"] {
        let start =
            format!("issue\nclose\n{number}\n--repo\nowner/name\n--comment\nDone: reported");
        assert!(said.contains(&start), "{said}");
        let work = format!("--grep=^Work on {number}$");
        let commit = trial.git(&["log", "-1", "--format=%H %s", &work]);
        assert!(said.contains(&format!("- {commit}")), "{said}");
    }
    assert!(said.contains("Landed on `main` as "), "{said}");
    trial.assert_record(
        "source_updated",
        &serde_json::json!({"source": "https://github.com/owner/name/issues/3", "tasks": ["3"]}),
    );
    trial.run(["run"]).graph_complete();
    assert_eq!(fs::read_to_string(&calls).unwrap(), said, "each issue is closed once");
}

#[test]
fn an_issue_that_cannot_be_closed_is_told_and_tried_again() {
    let (trial, calls) = with_issues("echo 'no rights' >&2; [ -e \"$TRIAL_DIR/works\" ]");
    trial.run(["run"]).graph_complete();
    let failed = trial.lines("source_failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    let why = failed[0]["why"].as_str().unwrap();
    assert!(why.contains("exited with code 1") && why.contains("no rights"), "{why}");
    trial.leave("works");
    fs::remove_file(&calls).unwrap();
    trial.run(["run"]).graph_complete();
    assert_eq!(fs::read_to_string(&calls).unwrap().matches("issue\nclose\n").count(), 2);
    assert_eq!(trial.lines("source_updated").len(), 2);
}

#[test]
fn a_command_that_hangs_or_is_missing_ends_no_run() {
    let (trial, calls) = with_issues("sleep 600 & sleep 600");
    trial.run(["run"]).graph_complete();
    trial.no_process_is_left();
    let said = fs::read_to_string(&calls).unwrap();
    assert_eq!(said.matches("issue\nclose\n").count(), 1, "the next one would hang, too");
    let why = trial.lines("source_failed")[0]["why"].to_string();
    assert!(why.contains("at its limit"), "{why}");
    fs::remove_file(trial.dir().join("tools/gh")).unwrap();
    let path = trial.dir().join("tools");
    for program in ["git", "sh"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join(program))
            .find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), path.join(program)).unwrap();
    }
    let trial = trial.env("PATH", path.to_str().unwrap());
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("source_failed").len(), 2);
}
