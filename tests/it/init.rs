//! `ralph init` and `ralph template`: what they detect, write, and leave unchanged.

use std::{fs, os::unix::fs::symlink};

use ralph::{adapters::process::sandbox::support, core::executor::SandboxEngine};
use serde_json::Value;

use crate::{
    support::{RALPH, TestProject, agent, wait_for},
    terminal::{bare, code, on_terminal},
};

/// The files that `ralph init` writes into an empty repository.
const WRITTEN: [&str; 5] =
    [".ralph/.gitignore", ".ralph/config.yaml", "justfile", "prompts/task.md", "task-graph.yaml"];

/// The standard output for these files.
const SAID: &str = "\
created  .ralph/config.yaml
created  .ralph/.gitignore
created  task-graph.yaml
created  prompts/task.md
created  justfile
added to .git/info/exclude of this clone: 9 lines, for logs/

Next: put your tasks into task-graph.yaml, commit the new files, then run
  [ralph] check        validate the graph
  [ralph] doctor       find what would stop a run
  [ralph] run --once   make one attempt
";

/// A folder, with git and these programs alone on PATH.
fn folder(programs: &[&str]) -> TestProject {
    let trial = TestProject::bare();
    let bin = trial.dir().join("bin");
    fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    for name in ["git", "sh", "stty"] {
        let real =
            std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.exists());
        symlink(real.unwrap(), bin.join(name)).unwrap();
    }
    for name in programs {
        symlink(agent("commit"), bin.join(name)).unwrap();
    }
    let path = bin.display().to_string();
    trial.env("PATH", &path)
}

/// A repository in such a folder, without a commit and without settings.
fn repository(programs: &[&str]) -> TestProject {
    let trial = folder(programs);
    trial.git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
    trial
}

/// The lines that are neither empty nor comments.
fn said(text: &str) -> Vec<&str> {
    let told = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().filter(told).collect()
}

/// The untracked files.
fn untracked(trial: &TestProject) -> Vec<String> {
    let text = trial.git(&["ls-files", "--others", "--exclude-standard"]);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_empty_repository_is_set_up_once() {
    let trial = repository(&[]);
    let found = "project: [repo], branch main\nagent: none of claude, codex, gemini, opencode, amp, \
                 copilot, qwen, pi, aider is on PATH; install one, or set `agent` in .ralph/config.yaml\ntests: none \
                 found; set `verify` in .ralph/config.yaml\n";
    trial.run(["init"]).stdout(SAID).stderr(found);
    assert_eq!(untracked(&trial), WRITTEN);
    trial.run(["check"]).stdout_has("2 tasks");
    assert_eq!(trial.read("prompts/task.md"), ralph::core::prompt::DEFAULT_TEMPLATE);
    assert!(!trial.sign(".ralph").exists(), "nothing for all projects was asked for");
    trial.write("logs/ralph.jsonl", "");
    trial.write(".ralph/tasks/a/DONE", "");
    assert_eq!(untracked(&trial), WRITTEN, "own files are ignored from the start");

    let before = trial.everything();
    insta::assert_snapshot!(trial.run(["init", "--yes"]).stderr(found).out(), @r"
    kept     .ralph/config.yaml
    kept     .ralph/.gitignore
    kept     task-graph.yaml
    kept     prompts/task.md
    kept     justfile
    nothing changed: all files exist (--force overwrites)
    ");
    assert!(before == trial.everything(), "the second time something was changed");
}

/// Files, programs, and the settings other than the agent.
type Kind =
    (&'static [(&'static str, &'static str)], &'static [&'static str], &'static [&'static str]);

#[test]
fn each_kind_of_project_gets_its_own_command() {
    const SCRIPT: &str = r#"{"scripts": {"test": "vitest run"}}"#;
    const PACKAGE: &str = "[package]\nname = \"x\"\n";
    let cases: &[Kind] = &[
        (&[("Cargo.toml", PACKAGE)], &["cargo"], &["verify:", "  - cargo test"]),
        (&[("package.json", SCRIPT)], &["npm"], &["verify:", "  - npm test"]),
        (
            &[("package.json", SCRIPT), ("pnpm-lock.yaml", "")],
            &["npm", "pnpm"],
            &["verify:", "  - pnpm test", "setup:", "  - pnpm install --frozen-lockfile"],
        ),
        (
            &[("go.mod", "module x\n")],
            &["go"],
            &["verify:", "  - go test ./...", "setup:", "  - go mod download"],
        ),
        (
            &[("pyproject.toml", "[project]\n"), ("tests/test_a.py", "")],
            &["pytest"],
            &["verify:", "  - pytest"],
        ),
        (&[("Makefile", "check:\n\ttrue\n")], &["make"], &["verify:", "  - make check"]),
        (
            &[("justfile", "test:\n    true\n"), ("Cargo.toml", PACKAGE)],
            &["just", "cargo"],
            &["verify:", "  - just test"],
        ),
        (
            &[("Cargo.toml", PACKAGE), ("package.json", SCRIPT)],
            &["cargo", "npm"],
            &["verify:", "  - cargo test", "  - npm test"],
        ),
        // Declared, but not runnable here.
        (&[("go.mod", "module x\n")], &[], &[]),
    ];
    for (files, programs, verify) in cases {
        let trial = repository(programs);
        for (name, text) in *files {
            trial.write(name, text);
        }
        trial.run(["init", "--yes"]);
        let config = trial.read(".ralph/config.yaml");
        assert_eq!(said(&config), [&["agent: claude"], *verify].concat(), "{files:?}");
        trial.run(["config", "verify"]);
        trial.run(["check"]).stdout_has("3 tasks, 2 dependencies");
        if verify.is_empty() {
            let line = "# verify: [go test ./...]  # from go.mod; `go` is not on PATH";
            assert!(config.lines().any(|it| it == line), "{config}");
        }
    }
}

#[test]
fn agents_and_plans_are_named_and_no_key_is_looked_at() {
    let trial = repository(&["claude", "codex"]).env("CODEX_API_KEY", "tell-nobody");
    for file in ["PRD.md", "TODO.md", "docs/old.task-graph.yaml", ".beads/x"] {
        trial.write(file, "");
    }
    let said_too = SAID.replace(
        "  [ralph] check ",
        "  [ralph] draft PRD.md\n               have the agent write its tasks\n  [ralph] check ",
    );
    trial.run(["init", "--yes"]).stdout(&said_too).stderr(
        "project: [repo], branch main\n\
         agent: claude ([trial]/bin/claude), no sign of a login\n\
         agent: codex ([trial]/bin/codex), `CODEX_API_KEY` is set\n\
         permissions: the presets ask for no permission: the agent can do anything that your user \
         can do\n\
         tests: none found; set `verify` in .ralph/config.yaml\n\
         backlog: docs/old.task-graph.yaml, a task graph: check it with `ralph --graph \
         docs/old.task-graph.yaml check`\n\
         backlog: PRD.md, `ralph draft PRD.md` has the agent write tasks from it\n\
         backlog: TODO.md, `ralph draft TODO.md` has the agent write tasks from it\n\
         backlog: .beads/, import it with `ralph import .beads`\n",
    );
    assert_eq!(said(&trial.read(".ralph/config.yaml")), ["agent: codex"]);
    assert!(trial.graph_text().contains("\n    path: PRD.md\n"));
    trial.run(["check"]).stdout_has("2 tasks, 0 dependencies");
    for (path, (_, bytes)) in trial.everything() {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("tell-nobody"), "{} has the key", path.display());
    }
}

#[test]
fn files_of_others_stay_as_they_are() {
    let trial = repository(&[]);
    trial.write("Justfile", "alias p := prompt\n@check:\n  true\n");
    trial.write("AGENTS.md", "# Mine\n\nNo newline at the end");
    let own = |trial: &TestProject| (trial.read("Justfile"), trial.read("AGENTS.md"));
    let before = own(&trial);
    trial.run(["init", "--yes"]).stdout_has("kept     Justfile: it already exists\n");
    trial.run(["init", "--yes", "--force"]).stdout_has("kept     Justfile: it already exists\n");
    assert!(before == own(&trial), "they are a person's");
}

#[test]
fn existing_files_are_overwritten_only_with_force() {
    let trial = repository(&[]);
    let own = [
        (".ralph/config.yaml", "timeout: 5m\n"),
        ("task-graph.yaml", "tasks: [{id: mine}]\n"),
        ("prompts/task.md", "# Mine\n"),
    ];
    for (file, text) in own {
        trial.write(file, text);
    }
    let out = trial.run(["init", "--yes"]).out();
    for (file, text) in own {
        assert_eq!(trial.read(file), text);
        assert!(out.contains(&format!("kept     {file}: it already exists\n")), "{out}");
    }
    assert!(out.contains("created  justfile\n"), "{out}");

    let out = trial.run(["init", "--yes", "--reset"]).out();
    let line = "replaced .ralph/config.yaml; backup in .ralph/config.yaml.bak\n";
    assert!(out.contains(line), "{out}");
    assert_eq!(trial.read(".ralph/config.yaml.bak"), "timeout: 5m\n");
    assert_eq!(said(&trial.read(".ralph/config.yaml")), ["agent: claude"]);
    assert_eq!(trial.graph_text(), own[1].1, "a reset is about settings");
    trial.run(["init", "--yes", "--reset"]).stdout_has("nothing changed: ");

    trial.write(".ralph/config.yaml", "timeout: [\n");
    let out = trial.run(["init", "--yes", "--force"]).out();
    for line in [
        "replaced .ralph/config.yaml; backup in .ralph/config.yaml.bak.2\n",
        "replaced task-graph.yaml; backup in task-graph.yaml.bak\n",
        "kept     justfile\n",
    ] {
        assert!(out.contains(line), "`{line}` is not in\n{out}");
    }
    assert_eq!(trial.read(".ralph/config.yaml.bak"), "timeout: 5m\n");
    assert_eq!(trial.read("task-graph.yaml.bak"), own[1].1);
    trial.run(["check"]).stdout_has("2 tasks");
}

#[test]
fn settings_for_all_projects_are_a_file_of_their_own() {
    let trial = folder(&["gemini"]);
    let out = trial.run(["init", "--global", "--yes"]).out();
    assert!(out.starts_with("created  ~/.ralph/config.yaml\n"), "{out}");
    assert_eq!(trial.everything().len(), 0, "the project is left alone");
    let path = trial.sign(".ralph/config.yaml");
    assert_eq!(said(&fs::read_to_string(&path).unwrap()), ["agent: gemini"]);
    trial
        .run(["init", "--global"])
        .stdout("kept     ~/.ralph/config.yaml\nnothing changed: all files exist (--force overwrites)\n")
        .stderr_has("agent: gemini");
    fs::write(&path, "agent: aider\n").unwrap();
    trial.run(["init", "--global"]).stdout_has("~/.ralph/config.yaml: it already exists\n");
    let line = "replaced ~/.ralph/config.yaml; backup in ~/.ralph/config.yaml.bak\n";
    trial.run(["init", "--global", "--reset"]).stdout_has(line);

    trial.git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
    trial.run(["init", "--project", "--yes"]);
    let config = trial.read(".ralph/config.yaml");
    assert!(said(&config).is_empty(), "the agent is set for all projects: {config}");
    trial.run(["config", "agent"]).stdout("gemini\n");
    let nowhere = folder(&[]).env("HOME", "/nowhere");
    nowhere.run(["init", "--global"]).code(1).stderr_has("no home folder");
    trial
        .run(["init", "--global", "--project"])
        .code(64)
        .stderr_has("cannot be used with '--project'");
}

#[test]
fn the_prompt_of_a_plain_loop_is_written_once() {
    let trial = folder(&[]);
    trial.run(["init", "--prompt"]).stdout("created PROMPT.md\n");
    let template = trial.run(["template", "prompt"]).out();
    assert_eq!(trial.read("PROMPT.md"), template);
    trial.write("PROMPT.md", "mine");
    trial
        .run(["init", "--prompt"])
        .code(1)
        .stderr("ralph: error: PROMPT.md already exists (use --force to overwrite)\n");
    assert_eq!(trial.read("PROMPT.md"), "mine");
    trial.run(["init", "--prompt", "--force"]).stdout("created PROMPT.md (overwritten)\n");
    assert_eq!(trial.read("PROMPT.md"), template);
    assert_eq!(trial.everything().len(), 1, "and nothing else");
}

#[test]
fn the_skill_names_only_what_there_is() {
    let trial = repository(&["claude"]);
    let text = trial.run(["template", "skill"]).out();
    assert!(text.starts_with("---\nname: ralph\ndescription: "), "{text}");
    assert!(text.split_whitespace().count() <= 600, "it stays short");
    let commands = ralph::cli::commands();
    let all: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in all.split("`ralph ").skip(1) {
        let name = part.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap();
        let is_there = commands.iter().any(|command| command == name) || name == "help";
        assert!(is_there, "`ralph {name}` is in the skill");
    }
    let example = text.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    trial.write("example.yaml", &format!("\n{example}").replace("\n   ", "\n"));
    trial.run(["check", "example.yaml"]);
}

#[test]
fn all_that_init_made_can_be_removed() {
    let trial = repository(&["make"]);
    trial.run(["init", "--yes"]).code_is_any();
    trial.run(["uninit", "--all", "--yes"]).code_is_any();
    for path in ["prompts", ".ralph", "justfile", "task-graph.yaml"] {
        assert!(!trial.root().join(path).exists(), "{path}");
    }
}

#[test]
fn a_dry_run_shows_everything_and_touches_nothing() {
    let trial = repository(&["make"]);
    trial.write("Makefile", "test:\n\ttrue\n");
    trial.write("justfile", "a:\n  b\n");
    let before = trial.everything();
    let out = trial.run(["init", "--dry-run"]).out();
    for part in [
        "create   .ralph/config.yaml\n    # Settings of `ralph`",
        "\n      - make test\n",
        "\nkeep     justfile: it already exists\n",
        "\nnothing was written (dry run of `ralph init --yes`)\n",
    ] {
        assert!(out.contains(part), "`{part}` is not in\n{out}");
    }
    assert!(before == trial.everything(), "something was written");
}

#[test]
fn nothing_is_written_where_not_all_of_it_can_be() {
    let trial = folder(&[]);
    trial
        .run(["init", "--yes"])
        .code(1)
        .stderr("ralph: error: `[repo]` is not in a git repository; make one with `git init`\n");
    trial.run(["--graph", "x.yaml", "init"]).code(64).stderr_has("remove `--graph`");
    assert_eq!(trial.everything().len(), 0);

    let trial = repository(&[]);
    trial.write("prompts", "a file");
    let before = trial.everything();
    trial.run(["init", "--yes"]).code(1).stderr_has(
        "ralph: error: `prompts` is not a folder; nothing was written. Move it and try again\n",
    );
    assert!(before == trial.everything(), "something was written");
}

#[test]
fn a_run_keeps_its_files() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("gate");
    let live = trial.start(["run"]);
    wait_for(&trial.sign("waiting-a"));
    let graph = trial.graph_text();
    trial
        .run(["init", "--yes", "--force"])
        .code(5)
        .stderr_has("ralph: error: another ralph runs in this repository: process");
    assert_eq!(trial.graph_text(), graph);
    trial.leave("open");
    live.end(&trial);
}

#[test]
fn the_examples_of_a_new_graph_waste_no_run() {
    for file in ["README.md", "src/main.c"] {
        let trial = TestProject::bare();
        trial.git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
        trial.write(file, "int main() {}\n");
        trial.run(["init", "--yes"]);
        trial.run(["check", "--strict"]).stderr("");
    }
}

#[test]
fn what_was_set_up_is_worked_off_to_the_end() {
    let trial = TestProject::bare();
    trial.git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
    trial.git(&["config", "user.name", "Tess"]);
    trial.git(&["config", "user.email", "tess@example.invalid"]);
    // In a sandbox, if there is one, as with Enter at every question: nothing is written outside.
    trial.write("Makefile", "test:\n\ttest -d work\n");
    let trial = trial.env("RALPH_NO_FSYNC", "1").agent("commit");
    trial.run(["init", "--yes"]).stdout_has("run --once").stderr_has("`make test`");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "--message", "Set ralph up"]);
    let agent = agent("commit");
    // A sandbox hides the temporary folder, and the agent may be in it.
    trial.run(["doctor", "--quiet", "--on", "local", "--", &agent]);
    trial.run(["run", "--on", "local"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["overview", "untested", "stumbling-block"]);
    let is_verified = |line: &Value| line["verify"][0]["command"] == "make test";
    assert!(trial.lines("completed").iter().all(is_verified));
    let has_bubblewrap = support(SandboxEngine::Bubblewrap).is_ok();
    assert_eq!(trial.read(".ralph/config.yaml").contains("\nrun_on: sandbox "), has_bubblewrap);
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    trial.run(["init", "--yes"]).stdout_has("nothing changed: ");
}

#[test]
fn templates_go_to_standard_output() {
    let trial = folder(&[]);
    trial.run(["template"]).stdout(ralph::core::prompt::DEFAULT_TEMPLATE);
    trial.run(["template", "task"]).stdout(ralph::core::prompt::DEFAULT_TEMPLATE);
    for (name, part) in [
        ("draft", "# Draft a task graph\n"),
        ("review", "# Review the work of another agent\n"),
        ("follow-up", "Your last turn at the task"),
        ("graph", "\n  - id: first-version\n"),
        ("config", "\nagent: claude\n"),
        ("just", "\nralph *ARGS:\n    ralph run {{ARGS}}\n"),
        ("agents", "`task-graph.yaml`"),
    ] {
        trial.run(["template", name]).stdout_has(part);
    }
    insta::assert_snapshot!(trial.run(["template", "prompt"]).out(), @r#"
    Read README.md, AGENTS.md or CLAUDE.md, and specs/README.md, if they exist. Then open
    IMPLEMENTATION_PLAN.md and pick the most important item that is not done.

    Complete that one item:

    - read the code before you conclude that something is missing or finished
    - add missing tests, in the style of the existing ones
    - run the tests and make them pass
    - check the item off in IMPLEMENTATION_PLAN.md, and note there what you found and left open
    - commit; do not push, pull, merge or tag

    Only when no item in the plan is left and all tests pass, end your last message with
    <promise>COMPLETE</promise>
    "#);
    insta::assert_snapshot!(trial.run(["template", "grpah"]).whole(), @r#"
    exit code 64
    --- stderr ---
    error: invalid value 'grpah' for '[NAME]'
      [possible values: task, draft, review, follow-up, prompt, graph, config, agents, just, skill]

      tip: a similar value exists: 'graph'

    For more information, try '--help'.
    "#);
    let help = trial.run(["template", "--help"]).out();
    assert!(help.contains("The paragraph for AGENTS.md or CLAUDE.md"), "{help}");
    trial.write("task-graph.yaml", &trial.run(["template", "graph"]).out());
    trial.git(&["init", "--quiet"]);
    trial.run(["check"]).stdout_has("2 tasks");
}

#[test]
fn the_wizard_asks_and_enter_takes_the_default() {
    let trial = folder(&["claude", "codex", "make", "cargo"]);
    let trial = trial.env("ANTHROPIC_API_KEY", "tell-nobody");
    trial.write("Makefile", "test:\n\ttrue\n");
    trial.write("Cargo.toml", "[package]\n");
    let down = "\u{1b}[B";
    // The second agent; three attempts; one command more; no recipes.
    let answers = [
        ("Create one?", "\r".to_owned()),
        ("Which agent?", format!("{down}\r")),
        ("Model of codex", "o9\r".to_owned()),
        ("number of attempts", "3\r".to_owned()),
        ("Maximum cost", "2.5\r".to_owned()),
        ("Which commands", format!("{down} \r")),
        ("Add recipes for `just` to justfile?", "n".to_owned()),
        ("in all your projects?", "y".to_owned()),
        ("Write 5 files?", "\r".to_owned()),
    ];
    let mut terminal = on_terminal(&trial, 60, "init");
    let mut seen = String::new();
    for (question, answer) in &answers {
        seen += &terminal.exp_string(question).unwrap();
        terminal.send(answer).unwrap();
        terminal.flush().unwrap();
    }
    seen += &terminal.exp_eof().unwrap();
    assert_eq!(code(&terminal), 0);
    let seen = bare(&seen);
    assert!(
        seen.contains("created  ~/.ralph/config.yaml") && !seen.contains("tell-nobody"),
        "{seen}"
    );
    assert!(seen.contains("claude (`ANTHROPIC_API_KEY` is set)"), "{seen}");
    assert!(
        seen.contains("another command") && seen.contains("create   task-graph.yaml"),
        "{seen}"
    );
    assert!(seen.contains("ask for no permission"), "{seen}");
    let config = trial.read(".ralph/config.yaml");
    assert_eq!(
        said(&config),
        [
            "agent: {preset: codex, model: o9}",
            "verify:",
            "  - make test",
            "  - cargo test",
            "max_iterations: 3    # attempts per run (default: open tasks x max_attempts, at least 50)",
            "max_cost: 2.5 # US dollars per run; also max_tokens, max_duration",
        ]
    );
    assert!(trial.root().join(".git").is_dir() && !trial.root().join("justfile").exists());
}

#[test]
fn leaving_the_wizard_writes_no_file() {
    for leave in ["\u{3}", "\u{1b}", "n"] {
        let trial = folder(&[]);
        let last = leave == "n";
        let mut terminal = on_terminal(&trial, 60, "init");
        terminal.exp_string("Create one?").unwrap();
        if leave == "\u{1b}" {
            terminal.send(leave).unwrap();
        } else {
            terminal.send("y").unwrap();
            terminal.flush().unwrap();
            terminal.exp_string("Which agent?").unwrap();
            terminal.send(if last { "\r" } else { leave }).unwrap();
        }
        terminal.flush().unwrap();
        if last {
            for (question, answer) in [
                ("Model of", "\r"),
                ("number of", "\r"),
                ("Maximum cost", "\r"),
                ("Command that", "make\r"),
                ("Add recipes", "y"),
                ("projects?", "n"),
                ("Write", "n"),
            ] {
                terminal.exp_string(question).unwrap();
                terminal.send(answer).unwrap();
                terminal.flush().unwrap();
            }
        }
        let rest = terminal.exp_eof().unwrap();
        assert_eq!(code(&terminal), 130, "{leave:?}: {rest}");
        assert!(bare(&rest).contains("cancelled; nothing was written"), "{rest}");
        let (hidden, shown) = (rest.rfind("\u{1b}[?25l"), rest.rfind("\u{1b}[?25h"));
        assert!(hidden < shown || hidden.is_none(), "the cursor is there again: {rest:?}");
        assert_eq!(trial.everything().len(), 0, "{leave:?}");
        assert!(!trial.sign(".ralph").exists());
    }
}

#[test]
fn the_wizard_has_a_plan_drafted() {
    for (answer, drafted) in [("y", true), ("\r", false)] {
        let trial = repository(&[]);
        trial.write("PRD.md", "Check the types.\n");
        trial.git(&["add", "PRD.md"]);
        let own = ["-c", "user.name=T", "-c", "user.email=t@example.invalid"];
        trial.git(&[&own[..], &["commit", "--quiet", "--message", "Plan"]].concat());
        let drafts = trial.dir().join("drafts");
        let write = "echo 'tasks: [{id: types}]' > \"$RALPH_TASK_DIR/task-graph.yaml\"";
        trial.script(&drafts, &format!("cat > /dev/null\n{write}"));
        let mut terminal = on_terminal(&trial, 60, "init");
        // The last agent of the list is any command.
        let answers = [
            ("Which agent?", "\u{1b}[A\r".to_owned()),
            ("Command that reads", format!("'{}'\r", drafts.display())),
            ("number of attempts", "\r".to_owned()),
            ("Maximum cost", "\r".to_owned()),
            ("Command that tests", "\r".to_owned()),
            ("Add recipes", "n".to_owned()),
            ("in all your projects?", "n".to_owned()),
            ("Write ", "y".to_owned()),
            ("write the tasks from PRD.md now?", answer.to_owned()),
            ("Take this over into task-graph.yaml?", "y".to_owned()),
        ];
        for (question, answer) in &answers[..if drafted { 10 } else { 9 }] {
            terminal.exp_string(question).unwrap();
            terminal.send(answer).unwrap();
            terminal.flush().unwrap();
        }
        let rest = terminal.exp_eof().unwrap();
        assert_eq!(code(&terminal), 0, "{rest}");
        assert_eq!(trial.graph_text() == "tasks: [{id: types}]\n", drafted, "{rest}");
    }
}

#[test]
fn a_run_without_a_set_up_asks_nothing() {
    let trial = repository(&[]);
    let mut terminal = on_terminal(&trial, 80, "run");
    let said = bare(&terminal.exp_eof().unwrap());
    assert!(said.contains("task-graph.yaml"), "{said}");
    assert_eq!(code(&terminal), 65, "{said}");
}

#[test]
fn the_next_steps_name_the_program_as_it_is_typed() {
    let trial = TestProject::new();
    let bin = trial.sign("bin");
    fs::create_dir(&bin).unwrap();
    symlink(RALPH, bin.join("ralph")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let trial = trial.env("PATH", &path);
    let said = trial.run(["init", "--yes"]).out();
    assert!(said.contains("\n  ralph check "), "{said}");
}

/// What a person tells agents in files of their own reaches the agents in slots.
#[test]
fn local_files_of_agents_are_brought_into_slots() {
    let local = ["CLAUDE.local.md", ".claude/settings.local.json"];
    let trial = TestProject::bare().repository().file(".gitignore", "*.local.*\n");
    for name in local {
        trial.write(name, "{}\n");
    }
    drop(trial.run(["init", "--yes"]).out());
    assert_eq!(trial.read(".worktreeinclude"), "CLAUDE.local.md\n.claude/settings.local.json\n");
    let settings = format!("{}verify: cat {}\n", crate::support::SETTINGS, local.join(" "));
    trial.write(".ralph/config.yaml", &settings);
    trial.write("task-graph.yaml", "tasks: [{id: a}]\n");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "--message", "Set up"]);
    trial.agent("commit").run(["run"]).graph_complete();
}

/// The commands of the settings are those of the virtualenv in the slot.
#[test]
fn a_virtualenv_that_no_lock_file_makes_is_brought_into_slots() {
    let trial = TestProject::bare().repository();
    trial.git(&["rm", "-rq", ".ralph"]);
    trial.write("pyproject.toml", "[project]\nname = \"x\"\n");
    trial.write(".gitignore", ".venv/\n");
    trial.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
    let check = trial.root().join(".venv/bin/check");
    trial.write(".venv/bin/check", "");
    trial
        .script(&check, "#!/bin/sh\ncase $0 in *repo.slots/*) ;; *) echo \"$0\"; exit 1 ;; esac\n");
    drop(trial.run(["init", "--yes"]).out());
    assert_eq!(trial.read(".worktreeinclude"), ".venv/\n");
    let settings = format!("{}verify: check\n", crate::support::SETTINGS);
    trial.write(".ralph/config.yaml", &settings);
    trial.write("task-graph.yaml", "tasks: [{id: a}]\n");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "--message", "Set up"]);
    let path = format!("{}:{}", check.parent().unwrap().display(), std::env::var("PATH").unwrap());
    trial.env("PATH", &path).agent("commit").run(["run"]).graph_complete();
}
