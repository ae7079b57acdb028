//! `ralph doctor`: every finding, in a repository that has the problem; it changes nothing.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::PathBuf};

use serde_json::Value;

use crate::support::{DIAMOND, RALPH, SETTINGS, TestProject, wait_for};

/// A repository without problems, with an agent called `claude`.
fn healthy() -> TestProject {
    let trial = TestProject::new().graph(DIAMOND).file(
        ".ralph/config.yaml",
        &format!("{SETTINGS}agent: [claude, -p]\nverify: git --version\n"),
    );
    let bin = trial.sign("bin");
    trial.script(&bin.join("claude"), "[ \"$*\" = --version ] && echo '2.1.329 (Claude Code)'");
    symlink(RALPH, bin.join("ralph")).unwrap();
    fs::create_dir(trial.sign("tmp")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let tmp = trial.sign("tmp").display().to_string();
    trial.env("PATH", &path).env("TMPDIR", &tmp).env("CLAUDE_CODE_OAUTH_TOKEN", "very secret")
}

/// Everything in the repository but the folders that `ralph` makes for itself.
fn untouched(trial: &TestProject) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let own = [".git/ralph", ".git/refs/ralph"].map(|path| trial.root().join(path));
    let mut all = trial.everything();
    all.retain(|path, _| !own.iter().any(|own| path.starts_with(own)));
    all
}

/// The line about one subject: its mark, and the finding with the advice.
#[track_caller]
fn line(trial: &TestProject, about: &str) -> (String, String) {
    let before = untouched(trial);
    let code = trial.run(["doctor", "-q", "--quick"]).whole();
    let code = code.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    let report = trial.run(["doctor", "--json", "--quick"]).code(code).json();
    assert!(untouched(trial) == before, "looking changed something");
    let left: Vec<PathBuf> =
        fs::read_dir(trial.sign("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [""; 0].map(PathBuf::from), "is left behind");
    assert_eq!(report["exit_code"], code);
    assert_eq!(report["would_start"], code == 0);
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["about"] == about).expect(about);
    let text = |key: &str| found[key].as_str().unwrap_or_default();
    let mark = match &found["exit_code"] {
        Value::Null => text("mark").to_owned(),
        code => format!("{} {code}", text("mark")),
    };
    (mark, trial.redact(format!("{}; {}", text("found"), text("cure")).trim_end_matches("; ")))
}

#[track_caller]
fn warns(trial: &TestProject, about: &str, part: &str) {
    let (mark, text) = line(trial, about);
    assert!(mark == "warning" && text.contains(part), "{mark} {about} {text}");
}

/// The doctor predicts this exit code of a run, and a run ends with it.
#[track_caller]
fn faults(trial: &TestProject, code: i32, about: &str, part: &str) {
    let (mark, text) = line(trial, about);
    assert!(mark == format!("fault {code}") && text.contains(part), "{mark} {about} {text}");
    trial.run(["doctor"]).code(code).stdout_has("a run would end with exit code");
    trial.run(["run"]).code(code);
}

#[test]
fn tests_that_no_verify_command_runs_are_named() {
    let package = r#"{"scripts": {"test": "vitest run"}}"#;
    let trial = healthy().file("package.json", package);
    let missed = "`npm test`, from package.json, is in no verify command";
    let found = trial.run(["doctor", "--quick"]).whole();
    assert!(!found.contains(missed), "`git` may run anything");
    let settings = format!("{SETTINGS}agent: [claude, -p]\nverify: cargo --version\n");
    let trial = trial.file(".ralph/config.yaml", &settings);
    assert!(trial.run(["doctor", "--quick"]).whole().contains(missed));
    let settings = settings.replace("cargo", "npm");
    let trial = trial.file(".ralph/config.yaml", &settings);
    assert!(!trial.run(["doctor", "--quick"]).whole().contains(missed));
}

#[test]
fn a_healthy_repository_is_all_right() {
    let trial = healthy();
    let text = trial.run(["doctor"]).whole();
    let shown = |line: &str| match line.split_whitespace().nth(1) {
        Some("disk") => "ok       disk [room]\n".to_owned(),
        _ => line.to_owned(),
    };
    let text: String = text.split_inclusive('\n').map(shown).collect();
    insta::assert_snapshot!(text, @r"
    exit code 0
    --- stdout ---
    ok       repository  [repo]
    ok       graph       4 tasks, 4 unfinished
    ok       agent       claude -p
    ok       version     2.1.329 (Claude Code)
    ok       login       `CLAUDE_CODE_OAUTH_TOKEN` is set
    ok       logs        in the repository
    ok       runs        none: no run yet; `ralph run` starts one
    ok       prompts     4 rendered
    ok       slot        1 verify command passed on main in a slot
    ok       commit      as Tess <tess@example.invalid>; no hooks, not signed
    ok       branch      main
    ok       checkout    clean
    ok       own files   ignored by git
    ok       ralph       ralph 0.1.0
    ok       disk [room]
    ok       locks       concurrent runs are prevented
    a run would start
    ");
    assert_eq!(line(&trial, "login").1, "`CLAUDE_CODE_OAUTH_TOKEN` is set");
    trial.run(["doctor", "-q"]).code(0).stdout("");
}

#[test]
fn every_problem_of_a_repository_is_reported() {
    let trial = healthy()
        .env("CLAUDE_CODE_OAUTH_TOKEN", "")
        .file("prompts/task.md", "# {{ task.state }}\n")
        .file("logs/ralph.jsonl", "");
    trial.write(".ralph/config.yaml", &format!("{SETTINGS}agent: [claude, -p]\n"));
    trial.write(
        "task-graph.yaml",
        "tasks: [{id: a, state: Begin, verify: [cargo-nonesuch x, cd y]}, {id: b}]\n",
    );
    trial.git(&["config", "--unset", "user.email"]);
    trial.git(&["checkout", "--quiet", "--detach"]);
    trial.hook("commit-msg", "exit 1");
    trial.script(&trial.sign("bin/claude"), "echo 'no node' >&2; exit 1");
    fs::remove_file(trial.sign("bin/ralph")).unwrap();
    trial.script(&trial.sign("bin/ralph"), "echo 'ralph 9.9.9'");
    let before = untouched(&trial);
    let text = trial.run(["doctor", "-q", "--quick"]).whole();
    assert!(untouched(&trial) == before, "looking changed something");
    insta::assert_snapshot!(text, @r"
    exit code 65
    --- stdout ---
    warning  graph       2 tasks, 2 unfinished, 1 warning
                         -> `ralph check` shows them
    warning  version     `claude --version` failed: no node
                         -> run `claude --version` by hand
    warning  login       no sign that `claude` is logged in (keychains and helper programs are not checked)
                         -> start `claude` and `/login`, or set `CLAUDE_CODE_OAUTH_TOKEN` (`claude setup-token` makes one) or `ANTHROPIC_API_KEY`
    fault    prompts     prompts/task.md:1:6: `task.state` is not defined (for `b`)
                         -> correct the template; `ralph prompt b` shows the location
    warning  verify      there is no program `cargo-nonesuch` (for `a`)
                         -> install it, or correct `verify`; the task cannot complete without it
    warning  commit      git does not know who commits
                         -> run `git config --global user.name NAME` and `git config --global user.email ADDRESS`
    fault    branch      HEAD is detached, and attempts start from a branch with a commit
                         -> switch to a branch with `git switch`, or use `--in-place`
    warning  checkout    1 path not committed: .ralph/config.yaml
                         -> commit or stash; work on the same files lands only then
    warning  own files   committed: logs/ralph.jsonl
                         -> run `git rm -r --cached logs/ralph.jsonl` and commit
    warning  ralph       `[trial]/bin/ralph` on PATH is another program; this is ralph 0.1.0
                         -> put the folder of this program first on PATH, or remove `[trial]/bin/ralph`
    a run would end with exit code 65
    ");
}

#[test]
fn outside_of_a_repository_the_first_line_says_so() {
    let trial = TestProject::bare();
    insta::assert_snapshot!(trial.run(["doctor"]).whole(), @r"
    exit code 1
    --- stdout ---
    fault    repository  `[repo]` is not in a git repository
                         -> make one with `git init`
    a run would end with exit code 1
    ");
}

#[test]
fn settings_that_cannot_be_read_are_told_with_their_place() {
    let trial = healthy();
    trial.write(".ralph/config.yaml", "timeuot: 5m\n");
    let place = ".ralph/config.yaml:1:1: unknown setting `timeuot`";
    faults(&trial, 65, "settings", place);
}

#[test]
fn the_graph_must_be_one() {
    let trial = healthy();
    trial.write("task-graph.yaml", "tasks: [{id: a, depends_on: [b]}]\n");
    faults(&trial, 65, "graph", "task-graph.yaml:1:30: ");
    fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
    faults(&trial, 65, "graph", "create it, or name another file");
    trial.write("task-graph.yaml", "tasks: [{id: a, status: blocked}]\n");
    faults(&trial, 3, "graph", "1 task, 1 unfinished, none ready");
    trial.write("task-graph.yaml", "tasks: [{id: a, state: x}]\n");
    warns(&trial, "graph", "1 task, 1 unfinished, 1 warning; `ralph check` shows them");
}

#[test]
fn limits_must_name_existing_tags() {
    let settings = |limits: &str| format!("{}limits: {limits}\n", crate::support::SETTINGS);
    let trial = healthy().graph("tasks: [{id: a, tags: [db], agent: {command: [make, it]}}]\n");
    trial.write(".ralph/config.yaml", &settings("{claude: 3, codex: 1, db: 1, make: 2}"));
    assert_eq!(line(&trial, "limits"), ("ok".to_owned(), "4 names".to_owned()));
    trial.write(".ralph/config.yaml", &settings("{cluade: 3}"));
    warns(&trial, "limits", "`cluade` is not an agent or a tag; did you mean `claude`?");
    trial.write(".ralph/config.yaml", &settings("{everything: 3}"));
    warns(
        &trial,
        "limits",
        "`everything` is not an agent or a tag; use the name of an agent or a tag",
    );
}

#[test]
fn every_upcoming_prompt_is_rendered() {
    let trial = healthy().graph(
        "tasks: [{id: over, prompt: gone.md, status: complete}, {id: a, prompt: gone.md}, {id: b, \
         prompt: gone.md}]\n",
    );
    let found = "prompts/gone.md: template \"gone.md\" does not exist (for `a` and 1 more)";
    faults(&trial, 65, "prompts", found);
    trial.write("prompts/gone.md", "# {{ task.id }}\n");
    assert_eq!(line(&trial, "prompts"), ("ok".to_owned(), "2 rendered".to_owned()));
}

#[test]
fn the_agent_must_be_there_and_say_its_version() {
    let trial = healthy();
    let bin = trial.sign("bin");
    assert_eq!(line(&trial, "version").1, "2.1.329 (Claude Code)");
    trial.script(&bin.join("claude"), "echo 2.1.330; sleep 600 &");
    assert_eq!(line(&trial, "version"), ("ok".to_owned(), "2.1.330".to_owned()));
    trial.no_process_is_left();
    trial.script(&bin.join("claude"), "exit 3");
    warns(&trial, "version", "`claude --version` failed: exited with code 3");
    let trial = trial.env("PATH", "/usr/bin:/bin");
    fs::remove_file(bin.join("claude")).unwrap();
    faults(&trial, 69, "agent", "`claude` is not on PATH; install it with `npm");
    let other = trial.run(["doctor", "--json", "--", "sh", "-c", "cat"]).json();
    assert_eq!(other["findings"][2]["found"], "sh -c cat");
    assert_eq!(other["findings"][4]["found"], "unknown for `sh`");
    trial.run(["doctor", "--agent", "a b"]).code(64).stderr_has("list of words");
}

#[test]
fn every_agent_of_the_graph_is_looked_at_once() {
    let trial = healthy().graph(
        "tasks:\n  - {id: a}\n  - {id: b, agent: {command: [sh, -c, cat], version_check: [sh, -c, \
         'echo 7']}}\n  - {id: c, agent: {command: [sh, -c, cat], version_check: [sh, -c, 'echo \
         7']}}\n  - {id: d, agent: [./gone]}\n",
    );
    let report = trial.run(["doctor", "--json"]).code(69).json();
    let of = |about: &str| -> Vec<String> {
        let findings = report["findings"].as_array().unwrap();
        let found = findings.iter().filter(|finding| finding["about"] == about);
        found.map(|finding| finding["found"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of("version"), ["2.1.329 (Claude Code)", "7"]);
    assert_eq!(of("agent")[..2], ["claude -p", "sh -c cat"]);
    assert!(of("agent")[2].contains("`./gone` does not exist"), "{:?}", of("agent"));
    trial.run(["run"]).code(69);
}

#[test]
fn root_needs_a_sandbox_where_the_agent_wants_one() {
    let settings = format!("{SETTINGS}agent: claude\n");
    let trial = healthy().file(".ralph/config.yaml", &settings);
    if rustix::process::geteuid().is_root() {
        faults(&trial, 69, "agent", "as root; run as another user, or set `IS_SANDBOX=1`");
    }
    let trial = trial.env("IS_SANDBOX", "1");
    assert_eq!(line(&trial, "agent").0, "ok");
}

#[test]
fn a_login_is_a_variable_or_a_file_and_otherwise_a_warning() {
    let trial = healthy().env("CLAUDE_CODE_OAUTH_TOKEN", "");
    warns(&trial, "login", "no sign that `claude` is logged in");
    let file = trial.sign(".claude/.credentials.json");
    fs::create_dir(trial.sign(".claude")).unwrap();
    fs::write(&file, "{}").unwrap();
    assert_eq!(line(&trial, "login").1, "`~/.claude/.credentials.json` exists");
    let trial = trial.env("ANTHROPIC_API_KEY", "sk-ant-do-not-show");
    let text = trial.run(["doctor"]).out();
    assert!(text.contains("`ANTHROPIC_API_KEY` is set") && !text.contains("sk-ant"), "{text}");
}

#[test]
fn git_must_know_who_commits() {
    let trial = healthy();
    assert_eq!(line(&trial, "commit").1, "as Tess <tess@example.invalid>; no hooks, not signed");
    trial.git(&["config", "--unset", "user.name"]);
    trial.git(&["config", "--unset", "user.email"]);
    trial.hook("pre-commit", "exit 0");
    warns(&trial, "commit", "git does not know who commits; run `git config --global user.name");
    trial.run(["run", "--once"]).code(1).stderr_has(
        "warning: git does not know who commits; run `git config --global user.name NAME` and `git \
         config --global user.email ADDRESS`; an agent that has no name of its own cannot commit",
    );
}

#[test]
fn what_a_run_would_do_about_a_red_branch_is_said() {
    let trial = healthy();
    let settings = format!("{SETTINGS}agent: [claude, -p]\nverify: 'false'\n");
    trial.write(".ralph/config.yaml", &settings);
    let text = trial.run(["doctor", "-q"]).out();
    let end = ", and end because a verify command fails without any work\n";
    assert!(text.contains("a run would start, with ") && text.contains(end), "{text}");
}

#[test]
fn head_should_be_on_a_branch_with_a_commit() {
    let trial = healthy();
    trial.git(&["checkout", "--quiet", "--detach"]);
    faults(&trial, 1, "branch", "HEAD is detached");
    let trial = trial.in_place();
    warns(&trial, "branch", "HEAD is detached");
    trial.git(&["checkout", "--quiet", "--orphan", "fresh"]);
    trial.hook("pre-commit", "exit 0");
    warns(&trial, "branch", "`fresh` has no commit yet");
    assert_eq!(line(&trial, "commit").0, "ok");
    let trial = trial.env("RALPH_ISOLATION", "slot");
    faults(&trial, 1, "branch", "`fresh` has no commit yet");
}

#[test]
fn what_is_not_committed_is_named() {
    let trial = healthy();
    trial.write("new.txt", "x");
    trial.write("task-graph.yaml", "tasks: [{id: a}]\n");
    warns(&trial, "checkout", "1 path not committed: new.txt; commit or stash; work on the same");
    warns(
        &trial.in_place(),
        "checkout",
        "1 path not committed: new.txt; commit or stash; `git add",
    );
}

#[test]
fn own_files_should_not_be_in_git() {
    let trial = healthy();
    trial.write("logs/attempts/a/1/stdout", "x");
    warns(&trial, "own files", "not ignored by git: /logs/attempts/;");
    let trial = trial.file(".gitignore", "/logs/\n");
    assert_eq!(line(&trial, "own files").0, "ok");
    let trial = trial.file("logs/ralph.jsonl", "");
    warns(
        &trial,
        "own files",
        "committed: logs/ralph.jsonl; run `git rm -r --cached logs/ralph.jsonl`",
    );
}

#[test]
fn logs_must_not_lead_out_of_the_repository() {
    let trial = healthy();
    symlink(trial.dir(), trial.root().join("logs")).unwrap();
    faults(&trial, 74, "logs", "is not in the repository; remove the link");
}

#[test]
fn the_programs_of_verify_commands_must_be_there() {
    let trial = healthy().graph("tasks: [{id: a, verify: ['./none --x', cd .]}, {id: b}]\n");
    let (mark, text) = line(&trial, "verify");
    assert_eq!(mark, "warning");
    assert!(text.contains("there is no program `./none` (for `a`)"), "{text}");
    // A program of the settings is missed where it is tried.
    let trial = trial.env("RALPH_VERIFY", "nonesuch");
    let found = trial.run(["doctor"]).out();
    assert!(found.contains("`nonesuch` (verify) fails on main in a slot: failed: "), "{found}");
}

#[test]
fn a_hook_is_tried_as_it_would_run() {
    let trial = healthy().file("listed.txt", "x\n");
    // The hook sees files and branch, and nothing that it does reaches the repository.
    let does = "test -f listed.txt && test \"$(git branch --show-current)\" = ralph/doctor && \
                git log --format=%s | grep -q Set && echo y > listed.txt && git add -A && \
                git stash list && git tag tried";
    trial.hook("pre-commit", does);
    trial.hook("post-commit", "true");
    let text = "as Tess <tess@example.invalid>; tested in a slot: an empty commit with pre-commit, \
                post-commit";
    assert_eq!(line(&trial, "commit"), ("ok".to_owned(), text.to_owned()));
    trial.hook("pre-commit", "echo formatting; echo 'line 3 is too long' >&2; exit 1");
    warns(&trial, "commit", "failed: formatting / line 3 is too long; make hooks pass");
}

#[test]
fn hooks_are_found_where_the_settings_say() {
    let trial = healthy();
    trial.script(&trial.root().join(".hooks/commit-msg"), "echo no >&2; exit 1");
    trial.git(&["config", "core.hooksPath", ".hooks"]);
    trial.git(&["add", ".hooks"]);
    trial.git(&["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "Hooks"]);
    warns(&trial, "commit", "with commit-msg failed: no;");
}

#[test]
fn hooks_are_found_also_where_only_the_git_program_can_look() {
    let trial = healthy();
    fs::remove_dir_all(trial.root().join(".git")).unwrap();
    trial.git(&["init", "--quiet", "--object-format=sha256"]);
    trial.git(&["config", "user.name", "Tess"]);
    trial.git(&["config", "user.email", "tess@example.invalid"]);
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "--message", "Anew"]);
    trial.hook("pre-commit", "test -f task-graph.yaml");
    assert_eq!(line(&trial, "commit").0, "ok");
    trial.script(&trial.root().join(".hooks/pre-commit"), "echo no; exit 1");
    trial.git(&["config", "core.hooksPath", ".hooks"]);
    trial.git(&["add", ".hooks"]);
    trial.git(&["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "Hooks"]);
    warns(&trial, "commit", "with pre-commit failed: no;");
}

#[test]
fn a_hook_that_hangs_is_ended_with_what_it_started() {
    let settings = format!("{SETTINGS}agent: [claude, -p]\ncommit_timeout: 400ms\n");
    let trial = healthy().file(".ralph/config.yaml", &settings);
    trial.hook("pre-commit", "setsid sleep 600 & exec sleep 600");
    warns(&trial, "commit", "did not finish within [took]; make hooks pass");
    trial.no_process_is_left();
}

#[test]
fn a_signature_is_tried_with_the_key_there_is() {
    let trial = healthy();
    let gpg = trial.sign("bin/gpg-of-tess");
    let good = "cat > /dev/null; printf '\\n[GNUPG:] SIG_CREATED D\\n' >&2; echo signature";
    trial.script(&gpg, good);
    // Settings that apply because of the location of the repository.
    let personal = trial.sign("personal");
    fs::write(&personal, "[commit]\ngpgSign = true\n[gpg]\nprogram = gpg-of-tess\n").unwrap();
    let global = trial.sign("gitconfig");
    let here = trial.root().display();
    let text = format!("[includeIf \"gitdir:{here}/\"]\npath = {}\n", personal.display());
    fs::write(&global, text).unwrap();
    let trial = trial.env("GIT_CONFIG_GLOBAL", global.to_str().unwrap());
    let (mark, tried) = line(&trial, "commit");
    assert!(mark == "ok" && tried.ends_with("an empty commit with a signature"), "{tried}");
    trial.script(&gpg, "echo 'gpg: signing failed: No pinentry' >&2; exit 2");
    warns(&trial, "commit", "gpg: signing failed: No pinentry");
    let settings = format!("{SETTINGS}agent: [claude, -p]\ncommit_timeout: 400ms\n");
    trial.write(".ralph/config.yaml", &settings);
    trial.script(&gpg, "exec sleep 600");
    warns(&trial, "commit", "did not finish within [took]");
    trial.no_process_is_left();
}

#[test]
fn another_ralph_that_is_found_first_is_named() {
    let trial = healthy();
    let other = trial.sign("bin/ralph");
    fs::remove_file(&other).unwrap();
    trial.script(&other, concat!("echo ralph ", env!("CARGO_PKG_VERSION")));
    warns(&trial, "ralph", "`[trial]/bin/ralph` on PATH is another program; this is ralph ");
    let trial = trial.env("PATH", "/usr/bin:/bin");
    let (_, text) = line(&trial, "ralph");
    assert!(text.contains("not on PATH, so prompts name its path"), "{text}");
}

#[test]
fn a_live_run_is_named_and_not_disturbed() {
    let trial = healthy().graph("tasks: [{id: a}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    let text = trial.run(["doctor"]).code(5).out();
    let live = "another ralph runs in this repository: process [pid], run [run], working on `a`";
    assert!(text.contains(live), "{text}");
    assert!(text.contains("`ralph stop` stops it"), "{text}");
    trial.leave("open");
    run.end(&trial).code(0);
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn a_paused_and_a_crashed_repository_say_what_follows() {
    let trial = healthy().graph("tasks: [{id: a}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    run.kill();
    // The guardian still records how the attempt ended.
    trial.no_process_is_left();
    warns(&trial, "runs", "the last run crashed; open attempts: a.1; none needed");
    trial.run(["pause"]);
    faults(&trial, 4, "runs", "`ralph resume` lifts the pause");
}

#[test]
fn an_unfinished_merge_is_a_warning() {
    let trial = healthy();
    let head = trial.git(&["rev-parse", "HEAD"]);
    trial.write(".git/MERGE_HEAD", &head);
    warns(&trial, "checkout", "a merge is in progress; no work lands until it is finished;");
    warns(&trial.in_place(), "checkout", "a merge is in progress; the first attempt would start");
}

#[test]
fn agents_that_act_without_permission_are_named_once() {
    let settings =
        |agent: &str| healthy().file(".ralph/config.yaml", &format!("{SETTINGS}agent: {agent}\n"));
    let said = |trial: &TestProject| {
        let text = trial.run(["doctor", "--quick"]).whole();
        let lines = text.lines().filter(|line| line.contains(" permissions "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = said(&settings("claude").graph("tasks: [{id: a}, {id: b, agent: claude}]\n"));
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(
        line.contains("`claude --dangerously-skip-permissions` asks for no permission"),
        "{line}"
    );
    let kept =
        format!("{SETTINGS}agent: claude\nrun_on: box\nexecutors: {{box: {{sandbox: {{}}}}}}\n");
    let kept = healthy().file(".ralph/config.yaml", &kept).graph("tasks: [{id: a}]\n");
    assert!(said(&kept)[0].ends_with("the agent can do anything that `box` allows"));
    // Another command line of the agent asks.
    assert_eq!(said(&settings("[claude, -p]")), [""; 0]);
}

/// A repository with code in a language that is not known and a test, and this verify command.
fn with_code(verify: &str) -> TestProject {
    let trial = healthy()
        .file("src/f.r", "f() { echo 1; }\n")
        .file("tests/f.sh", ". \"${1:-.}/src/f.r\"; test \"$(f)\" = 1\n")
        .file("tests/other.r", "");
    let verify = verify.replace("[repo]", &trial.root().display().to_string());
    trial.file(
        ".ralph/config.yaml",
        &format!("{SETTINGS}agent: [claude, -p]\nverify: ['{verify}']\n"),
    )
}

/// The finding about the slot, with the exit code of the doctor.
fn of_slot(trial: &TestProject) -> (i64, String, String) {
    let text = trial.run(["doctor", "--json"]).whole();
    let text = text.split("--- stdout ---\n").nth(1).and_then(|it| it.split("--- ").next());
    let report: Value = serde_json::from_str(text.unwrap()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["about"] == "slot").unwrap();
    assert_eq!(report["would_start"], true);
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (report["exit_code"].as_i64().unwrap(), text("mark"), trial.redact(&text("found")))
}

#[test]
fn checks_must_notice_broken_code() {
    let cases = [
        (
            "sh tests/f.sh",
            "ok",
            "1 verify command passed on main in a slot, and notices broken code",
        ),
        (
            r#"sh tests/f.sh "[repo]""#,
            "error",
            "your tests pass although the code is broken: `sh tests/f.sh \"[repo]\"` tests `[repo]`, \
             not the slot (the command names it)",
        ),
        (
            r#"cd "[repo]" && sh tests/f.sh"#,
            "error",
            "your tests pass although the code is broken: `cd \"[repo]\" && sh tests/f.sh` tests `[repo]`, \
             not the slot (the command names it)",
        ),
        (
            "ls tests",
            "error",
            "your checks pass although the code is broken: `ls tests` does not run the code of \
             the slot",
        ),
        ("true", "error", "`true` passes although the code is broken: it checks nothing of it"),
    ];
    for (verify, mark, found) in cases {
        let trial = with_code(verify);
        let code = i64::from(mark == "error");
        assert_eq!(of_slot(&trial), (code, mark.to_owned(), found.to_owned()), "{verify}");
    }
    let trial = with_code(r#"sh tests/f.sh "[repo]""#);
    trial.run(["doctor", "-q"]).code(1).stdout_has("a run would start, and complete whatever");
    // Another file leads there.
    let trial = with_code("sh tests/all.sh");
    let text = format!("sh tests/f.sh \"{}\"\n", trial.root().display());
    let trial = trial.file("tests/all.sh", &text);
    let (_, _, found) = of_slot(&trial);
    assert!(found.ends_with("tests `[repo]`, not the slot (`tests/all.sh` names it)"), "{found}");
    // Without tests, it is a warning; without code, it is nothing.
    let trial = healthy().file("tool.r", "f() { echo 1; }\n");
    let (code, mark, found) = of_slot(&trial);
    assert_eq!((code, mark.as_str()), (0, "warning"), "{found}");
    assert!(found.contains("it runs none of it"), "{found}");
}

#[test]
fn a_run_asks_whether_its_checks_notice_broken_code() {
    let agent =
        "cat > /dev/null; echo work >> src/f.r; git commit -qam w; touch \"$RALPH_TASK_DIR/DONE\"";
    let started = |trial: &TestProject, more: &[&str]| {
        let run = [&["run", "--once"][..], more, &["--", "sh", "-c", agent]].concat();
        trial.run(run).whole()
    };
    let trial = with_code(r#"sh tests/f.sh "[repo]""#);
    let text = started(&trial, &[]);
    assert!(text.contains("the command names it") && text.contains("`--unproved`"), "{text}");
    assert!(!trial.root().join("logs/ralph.jsonl").exists(), "no run has started");
    started(&trial, &["--unproved"]);
    assert_eq!(trial.tasks("started").len(), 1);
    // It is asked once for the same commands, and not where nothing can fail.
    let trial = with_code("sh tests/f.sh");
    assert!(started(&trial, &[]).contains("trying whether"), "{}", started(&trial, &[]));
    assert!(!started(&trial, &[]).contains("trying whether"));
    // Meanwhile, others see that a run starts.
    let trial = with_code(
        "touch \"$TRIAL_DIR/tries\"; until [ -e \"$TRIAL_DIR/go\" ]; do sleep 0.05; done; sh tests/f.sh",
    );
    let run = trial.start_until(["run", "--once", "--", "sh", "-c", agent], "tries");
    trial.run(["status"]).stdout_has("starting: a run tries");
    trial.run(["run", "--", "sh", "-c", agent]).code(5).stderr_has("starting a run");
    trial.leave("go");
    run.end(&trial);
    assert_eq!(trial.tasks("started").len(), 1);
    let text = started(&with_code("true"), &[]);
    assert!(text.contains("nothing will be called proved") && !text.contains("trying"), "{text}");
}

#[test]
fn broken_code_throws_where_the_language_is_known() {
    let code = "pub fn f() -> u8 {\n    1\n}\n\n#[test]\nfn one() {\n    assert_eq!(f(), 1);\n}\n";
    let trial = healthy()
        .file("Cargo.toml", "[package]\nname = \"m\"\nversion = \"0.1.0\"\n")
        .file(".gitignore", "/target/\nCargo.lock\n")
        .file("src/lib.rs", code);
    let home = |name: &str, folder: &str| {
        let usual = || std::env::home_dir().unwrap().join(folder).display().to_string();
        std::env::var(name).unwrap_or_else(|_| usual())
    };
    let trial = trial.env("RUSTUP_HOME", &home("RUSTUP_HOME", ".rustup"));
    let trial = trial.env("CARGO_HOME", &home("CARGO_HOME", ".cargo"));
    let cargo = |more: &str| {
        let verify = format!("cargo test -q --offline{more}");
        trial.write(
            ".ralph/config.yaml",
            &format!("{SETTINGS}agent: [claude, -p]\nverify: '{verify}'\n"),
        );
        of_slot(&trial)
    };
    let (code, mark, found) = cargo("");
    assert_eq!((code, mark.as_str()), (0, "ok"), "{found}");
    assert!(found.ends_with("and notices broken code"), "{found}");
    let elsewhere = format!(" --manifest-path \"{}/Cargo.toml\"", trial.root().display());
    let (code, mark, found) = cargo(&elsewhere);
    assert_eq!((code, mark.as_str()), (1, "error"), "{found}");
    assert!(found.contains("tests `[repo]/Cargo.toml`, not the slot"), "{found}");
}

#[test]
fn broken_code_is_in_no_slot_of_a_run() {
    let trial = with_code("sh tests/f.sh || { touch \"$SIGN\"; sleep 600; }");
    let sign = trial.sign("broken");
    let trial = trial.env("SIGN", &sign.display().to_string());
    trial.hook("pre-commit", "! grep -q \"this is no code\" src/f.r");
    let doctor = trial.start(["doctor"]);
    wait_for(&sign);
    doctor.kill();
    assert!(
        trial.root().with_extension("slots").join("probe/repo/src/f.r").exists(),
        "it was cut off"
    );
    let agent =
        "cat > /dev/null; echo work >> src/f.r; git commit -qam w; touch \"$RALPH_TASK_DIR/DONE\"";
    trial.write(
        ".ralph/config.yaml",
        &format!("{SETTINGS}agent: [claude, -p]\nverify: sh tests/f.sh\n"),
    );
    trial.run(["run", "--once", "--", "sh", "-c", agent]).whole();
    assert_eq!(trial.git(&["show", "main:src/f.r"]), "f() { echo 1; }\nwork\n");
    let (code, _, found) = of_slot(&trial);
    assert!(code == 0 && found.ends_with("and notices broken code"), "{found}");
    assert!(!trial.root().with_extension("slots").join("probe").exists());
}

#[test]
fn a_report_for_others_has_no_secrets() {
    // In parts: this file has no secret either.
    let key = ["sk-ant-api03-", "Kx9vQ2mZr7TtLw4NpYb8Hd"].concat();
    let planted = ["zebra-quilt-7391-omega", &key, "harbor-tulip-5520"];
    let [given, shaped, variable] = planted;
    let settings = format!(
        "{SETTINGS}agent: {{command: [claude, -p], env: {{DEPLOY_TOKEN: {given}}}}}\nverify: echo {shaped}\n"
    );
    let trial = healthy().file(".ralph/config.yaml", &settings).env("MY_API_KEY", variable);
    let event = format!(
        "{{\"timestamp\":\"2026-11-01T00:00:00.000Z\",\"run_id\":\"r\",\"seq\":0,\"iteration\":null,\
         \"task_id\":\"a\",\"action\":\"noted\",\"note\":\"a private word\",\"for_all\":false}}\n\
         {{\"timestamp\":\"2026-11-01T00:00:01.000Z\",\"run_id\":\"r\",\"seq\":1,\"iteration\":null,\
         \"task_id\":null,\"action\":\"noticed\",\"text\":\"{given} {shaped} {variable}\"}}\n"
    );
    trial.write("logs/ralph.jsonl", &event);
    trial
        .run(["doctor", "--quick", "--report", "told.txt"])
        .code(0)
        .stdout_has("a run would start");
    let text = fs::read_to_string(trial.root().join("told.txt")).unwrap();
    for part in ["git version", "2.1.329", "ok repository", "verify", "\"noticed\"", "[redacted]"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    for part in planted.iter().chain(&["a private word", "very secret"]) {
        assert!(!text.contains(part), "{part} is in {text}");
    }
    // Another one takes the place of no file.
    trial.run(["doctor", "--quick", "--report", "told.txt"]).code(1).stderr_has("told.txt");
    // It says why a repository cannot be opened, too.
    trial.write(".ralph/config.yaml", "agent: 7\n");
    trial.run(["doctor", "--report"]).code(65);
    let text = fs::read_to_string(trial.root().join("ralph-report.txt")).unwrap();
    assert!(text.contains("fault settings"), "{text}");
}
