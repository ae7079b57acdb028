//! Sandboxes: what an attempt in one cannot do, and what it still can.
//!
//! Every attack is a real process behind a real guardian, next to a run with two attempts. With
//! `--nocapture`, the test prints how many attacks were tried and which passed through.

mod attacks;
mod escapes;
mod stage;

use std::{fs, path::Path, time::Instant};

use ralph::{
    adapters::process::{
        AgentProcess, GuardianCommand,
        sandbox::{SandboxPaths, support},
    },
    core::executor::{Network, SandboxEngine, SandboxSettings},
};

use crate::support::{SETTINGS, TestProject, each, unavailable, until, wait_for};
use attacks::{Attack, Proof, attacks};
use escapes::{ESCAPES, Escape};
use stage::{CANARY, Stage};

const ENGINES: [SandboxEngine; 2] = [SandboxEngine::Bubblewrap, SandboxEngine::Landlock];

/// The engines that work on this machine.
fn engines() -> Vec<SandboxEngine> {
    let works = |engine: &SandboxEngine| match support(*engine) {
        Ok(found) => {
            println!("{engine:?} {}", found.version);
            true
        }
        Err(why) => {
            println!("{engine:?} skipped: {why}");
            false
        }
    };
    let found: Vec<SandboxEngine> = ENGINES.into_iter().filter(works).collect();
    if found.is_empty() {
        unavailable("no sandbox works here");
    }
    found
}

/// Whether an output has the secret of the stage, whose value the guardian replaces.
fn shows_secret(output: &str) -> bool {
    output.contains(CANARY) || output.contains("[redacted]")
}

fn settings(engine: SandboxEngine) -> SandboxSettings {
    SandboxSettings { engine, hide: vec!["~/secrets".to_owned()], ..SandboxSettings::default() }
}

/// Whether an attack passed through, or why that is not known.
fn passes(stage: &Stage, engine: SandboxEngine, attack: &Attack) -> Result<bool, String> {
    let mut settings = settings(engine);
    if attack.without_network {
        settings.network = Network::Off;
    }
    let before = match &attack.proof {
        Proof::Changes(path) => stage::content(path),
        _ => None,
    };
    let of_agent = |paths| SandboxPaths { agent: attack.agent.map(str::to_owned), ..paths };
    let ended = match stage.run_with(&settings, &attack.script, of_agent, |_| ()) {
        Ok(ended) => ended,
        // Landlock does not take the network away, and says so.
        Err(why) if attack.without_network && engine == SandboxEngine::Landlock => {
            assert!(why.contains("bubblewrap"), "{why}");
            return Ok(false);
        }
        Err(why) => return Err(why),
    };
    if !ended.stdout.contains("ready\n") {
        return Err(format!("{}{}", ended.stdout, ended.stderr));
    }
    Ok(match &attack.proof {
        Proof::Says => ended.stdout.contains("passed\n"),
        Proof::Reads => shows_secret(&ended.stdout),
        Proof::Changes(path) => stage::content(path) != before,
        Proof::Plants(path) => stage::is_planted(path),
        Proof::Lives(marker) => stage::lives(marker),
    })
}

/// What is known to pass through both; `docs/sandbox.md` says so.
const THROUGH_BOTH: &[&str] = &["hold a lock that the run needs"];

/// What Landlock is known not to hold; `docs/sandbox.md` says so.
const THROUGH_LANDLOCK: &[&str] = &[
    "write a hook of the slot",
    "write the settings of the slot",
    "write the attributes of the slot",
    "rename the git directory of the slot",
    "change the limits of the runner",
    "renice the runner",
    "connect to the ssh agent",
    "connect to docker",
    "create the settings of claude",
    "create the local settings of claude",
    "create instructions of claude",
    "create a hook of claude",
    "create a skill of claude",
    "create a command of claude",
    "create a plugin of claude",
    "create a claude program",
    "add an MCP server to claude",
    "write the status line of claude",
    "create the settings of codex",
    "create instructions of codex",
    "create overriding instructions of codex",
    "create hooks of codex",
    "create a skill of codex",
    "create a prompt of codex",
    "create the settings of gemini",
    "create variables of gemini",
    "create an extension of gemini",
    "create an MCP server of copilot",
];

#[test]
#[ignore = "slow"]
fn attacks_do_not_pass_through() {
    let stage = Stage::new();
    let attacks = attacks(&stage);
    assert!(attacks.len() >= 40);
    let mut faults = Vec::new();
    for engine in engines() {
        let results = each(4, &attacks, |attack| {
            // Another attack may just have taken the git directory away.
            let again = |_| {
                until("the git directory is back", || stage.slot.join(".git/HEAD").exists());
                passes(&stage, engine, attack)
            };
            (attack.name, passes(&stage, engine, attack).or_else(again))
        });
        let passed: Vec<&str> = results
            .iter()
            .filter(|(_, passed)| *passed == Ok(true))
            .map(|(name, _)| *name)
            .collect();
        println!("{engine:?}: tried {} / passed through {}", attacks.len(), passed.len());
        for name in &passed {
            println!("  {name}");
        }
        let known = if engine == SandboxEngine::Landlock { THROUGH_LANDLOCK } else { &[] };
        let unknown =
            passed.iter().filter(|name| !known.contains(name) && !THROUGH_BOTH.contains(name));
        faults.extend(unknown.map(|name| format!("{engine:?}: {name}")));
        let failed = results.iter().filter_map(|(name, passed)| {
            passed.as_ref().err().map(|why| format!("{engine:?}: {name} was not tried: {why}"))
        });
        faults.extend(failed);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    stage.end();
}

/// Without a sandbox, the attacks succeed: they are attacks.
#[test]
fn attacks_succeed_without_a_sandbox() {
    let stage = Stage::new();
    let attacks: Vec<Attack> =
        attacks(&stage).into_iter().filter(|attack| attack.works_outside).collect();
    let mut harmless = Vec::new();
    for attack in &attacks {
        let before = match &attack.proof {
            Proof::Changes(path) => stage::content(path),
            _ => None,
        };
        let ended = stage.run_outside(&attack.script);
        let worked = match &attack.proof {
            Proof::Says => ended.stdout.contains("passed\n"),
            Proof::Reads => shows_secret(&ended.stdout),
            Proof::Changes(path) => stage::content(path) != before,
            Proof::Plants(path) => stage::is_planted(path),
            Proof::Lives(_) => true,
        };
        if !worked {
            harmless.push(format!("{}: {}{}", attack.name, ended.stdout, ended.stderr));
        }
    }
    println!("{} of {} work without a sandbox", attacks.len() - harmless.len(), attacks.len());
    assert!(harmless.is_empty(), "{}", harmless.join("\n"));
}

#[test]
#[ignore = "slow"]
fn work_is_possible_inside() {
    for engine in engines() {
        let stage = Stage::new();
        let mut settings = settings(engine);
        settings.write = vec!["~/.cache/builds".to_owned()];
        let inside = |script: &str| stage.run_in(&settings, script).unwrap();
        let works = |script: &str| {
            let ended = inside(script);
            let code = ended.code;
            assert_eq!(code, Some(0), "{engine:?}: {script}\n{}{}", ended.stdout, ended.stderr);
            ended.stdout
        };
        works("echo new > new.txt && git add new.txt && git commit -q -m New");
        let slot = stage.slot.display().to_string();
        assert_eq!(stage.trial.git(&["-C", &slot, "show", "HEAD:new.txt"]), "new\n");
        works("git log -1 && git status && git stash list && git branch other");
        works("echo 1 > \"$HOME/.cache/builds/x\" && cat \"$HOME/.cache/builds/x\"");
        works("f=$(mktemp) && echo 1 > \"$f\" && cat \"$f\"");
        works("echo 1 > \"$TASK_FOLDER/notes.txt\" && echo > /dev/null && ls / /etc > /dev/null");
        assert!(works("cat").contains("the prompt"));
        assert_eq!(inside("exit 7").code, Some(7));
        let said = works("\"$RALPH\" note 'the parser wants UTF-8'");
        assert!(said.contains("noted in"), "{said}");
        works("\"$RALPH\" note --for-all --tag build 'run make'");
        let refused = inside("\"$RALPH\" status");
        assert!(refused.stderr.contains("outside of the sandbox"), "{}", refused.stderr);
        works("\"$RALPH\" verify a");
        let said = works("echo 'Which of the two?' | \"$RALPH\" ask -");
        assert!(said.contains("needs input"), "{said}");
        works("\"$RALPH\" task-complete a");
        works("[ -e \"$RALPH_TASK_DIR/DONE\" ]");
        works("grep -q 'Which of the two?' \"$RALPH_TASK_DIR/WAIT_WITHOUT_RESTART\"");
        assert!(works("cat \"$RALPH_TASK_DIR/notes.md\"").contains("UTF-8"));
        stage.end();
    }
}

/// Bubblewrap makes a `/dev` of its own, which has none of what is in that of the machine.
#[test]
fn a_project_in_shared_memory_works_in_a_sandbox() {
    const AGENT: &str =
        "cat > a.txt; git add a.txt; git commit -qm A; : > \"$RALPH_TASK_DIR/DONE\"";
    let memory = Path::new("/dev/shm");
    if !engines().contains(&SandboxEngine::Bubblewrap) || !memory.is_dir() {
        return println!("skipped: no bubblewrap, or no shared memory");
    }
    let trial = TestProject::bare_in(memory)
        .repository()
        .file(
            ".ralph/config.yaml",
            &format!("{SETTINGS}executors: {{inside: {{sandbox: {{}}}}}}\n"),
        )
        .file("prompts/task.md", "{{ task.id }}\n")
        .graph("tasks: [{id: a, verify: ['test -e a.txt', 'mktemp -p /dev/shm']}]\n")
        .command(["sh", "-c", AGENT]);
    trial.run(["run", "--on", "inside"]).graph_complete();
    assert_eq!(trial.git(&["show", "main:a.txt"]), "a\n");
}

/// Lets two attempts work at this executor, and `ralph` do what it does with their work. Returns
/// what started the program of the attempts outside, if anything did.
fn escapes(way: &Escape, run_on: &str) -> Option<String> {
    let agent = format!(
        "set -e; cat > /dev/null; evil=$PWD/evil\n{}\ntouch \"$RALPH_TASK_DIR/DONE\"",
        way.agent
    );
    let engines = "executors: {Bubblewrap: {sandbox: {engine: bubblewrap}}, Landlock: {sandbox: \
                   {engine: landlock}}}";
    let settings = format!(
        "{SETTINGS}run_on: {run_on}\n{engines}\nverify: 'true'\njobs: 2\nmax_attempts: 1\n"
    );
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .graph("tasks: [{id: a}, {id: b}, {id: c, depends_on: [a, b], commit: optional}]\n")
        .command(["sh", "-c", &agent]);
    let outside = trial.sign("outside");
    let mark = format!("tr '\\0' ' ' < /proc/$PPID/cmdline >> '{}'\ncat", outside.display());
    trial.script(&trial.root().join("evil"), &mark);
    let path = format!(".:{}", std::env::var("PATH").unwrap());
    let who = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
    let trial = who.into_iter().fold(trial, |trial, name| trial.env(name, "tess@example.invalid"));
    let trial = trial.env("PATH", &path);
    assert!(trial.process("sh").args(["-ec", way.before]).status().unwrap().success());
    let plain = ["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false"];
    trial.git(&[&plain[..], &["add", "-A"]].concat());
    trial.git(&[&plain[..], &["commit", "-qm", "Base"]].concat());
    let _ = fs::remove_file(&outside);
    let later: [&[&str]; 7] = [
        &["slots"],
        &["status"],
        &["show", "a"],
        &["review", "a"],
        &["run"],
        &["doctor"],
        &["land"],
    ];
    for arguments in [&["run"][..]].into_iter().chain(later) {
        trial.run(arguments).whole();
    }
    fs::read_to_string(&outside).ok()
}

#[test]
#[ignore = "slow"]
fn what_an_attempt_wrote_does_not_run_outside() {
    let mut passed = Vec::new();
    let said = |by: &Option<String>| if by.is_some() { "runs" } else { "does not run" };
    let works = each(4, ESCAPES, |way| (way.name, escapes(way, "local")));
    for (name, by) in &works {
        println!("{name}: {} without a sandbox", said(by));
    }
    for engine in engines() {
        let run_on = format!("{engine:?}");
        let results = each(4, ESCAPES, |way| (way.name, escapes(way, &run_on)));
        for (name, by) in results {
            println!("{name}: {} with {run_on}", said(&by));
            passed.extend(by.map(|by| format!("{run_on}: {name}: {by}")));
        }
    }
    assert!(passed.is_empty(), "{}", passed.join("\n"));
    let count = works.iter().filter(|(_, by)| by.is_some()).count();
    assert!(count > 15, "only {count} are ways out");
}

#[test]
fn hooks_filters_and_signatures_work_with_a_sandbox() {
    if !engines().contains(&SandboxEngine::Bubblewrap) {
        return println!("skipped: no bubblewrap");
    }
    let settings = format!("{SETTINGS}run_on: sandbox\nverify: 'grep -q . a.dat'\n");
    let agent =
        "cat > /dev/null; echo 2 > a.dat; echo 2 > 'b c.dat'; touch \"$RALPH_TASK_DIR/DONE\"";
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .graph("tasks: [{id: a}]\n")
        .command(["sh", "-c", agent]);
    let trial = trial.file(".gitattributes", "*.dat filter=x\n").file("a.dat", "1\n");
    trial.script(&trial.root().join("tool"), "sed \"s/2/$1/\"");
    let hook = "echo the hook ran; test -n \"$RALPH_AWAY\"";
    fs::create_dir(trial.root().join(".husky")).unwrap();
    trial.script(&trial.root().join(".husky/pre-commit"), hook);
    let key = trial.sign("key");
    let sign = format!("cat > '{}'; echo; echo '[GNUPG:] SIG_CREATED '; echo sig", key.display());
    let sign =
        sign.replace("echo; echo '[GNUPG:] SIG_CREATED '", "echo '[GNUPG:] SIG_CREATED ' >&2");
    trial.script(&trial.sign("sign"), &sign);
    for (name, value) in [
        ("filter.x.clean", "./tool two"),
        ("filter.x.smudge", "cat"),
        ("filter.x.required", "true"),
        ("core.hooksPath", ".husky"),
    ] {
        trial.git(&["config", name, value]);
    }
    trial.git(&["-c", "core.hooksPath=/dev/null", "add", "-A"]);
    trial.git(&["-c", "core.hooksPath=/dev/null", "commit", "-qm", "Base"]);
    trial.git(&["config", "commit.gpgsign", "true"]);
    trial.git(&["config", "gpg.program", &trial.sign("sign").display().to_string()]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.read("logs/attempts/a/1/commit.log"), "the hook ran\n");
    assert_eq!(trial.git(&["show", "main:b c.dat"]), "two\n");
    assert_eq!(trial.git(&["show", "main:a.dat"]), "two\n");
    assert!(trial.git(&["log", "--format=%B", "-2"]).contains("Ralph-Task: a"));
    let commit = trial.git(&["log", "-1", "--format=%H", "--", "a.dat"]);
    assert!(trial.git(&["cat-file", "commit", commit.trim()]).contains("gpgsig sig"));
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    trial.run(["doctor", "--", "sh"]).stdout_has("commit      as Tess");
}

#[test]
fn a_proof_is_made_in_a_sandbox() {
    if !engines().contains(&SandboxEngine::Bubblewrap) {
        return println!("skipped: no bubblewrap");
    }
    let settings = format!("{SETTINGS}run_on: sandbox\nverify: [sh -e check.sh]\n");
    let check = "[ -n \"$RALPH_AWAY\" ]\ntouch \"${TMPDIR:-/tmp}/x\"\necho 1..1
        if sh tests/add.sh; then echo ok 1 - add; else echo not ok 1 - add; exit 1; fi\n";
    let script = "cat > /dev/null; mkdir -p src; echo 'mul() { echo 6; }' > src/mul.sh
        echo '. src/mul.sh; [ \"$(mul)\" = 6 ]' > tests/add.sh
        git add -A; git commit -qm work; \"$RALPH\" task-complete a";
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .file("check.sh", check)
        .file("tests/add.sh", ":\n")
        .graph("tasks: [{id: a}]\n")
        .command(["sh", "-c", script]);
    let printed = trial.run(["run"]).code(0).whole();
    assert!(printed.contains("exercised: tests run all that changed"), "{printed}");
    assert!(printed.contains("the graph is complete"), "{printed}");
    trial.no_process_is_left();
}

#[test]
fn verify_and_doctor_run_commands_where_a_run_does() {
    if !engines().contains(&SandboxEngine::Bubblewrap) {
        return println!("skipped: no bubblewrap");
    }
    let settings = format!("{SETTINGS}run_on: sandbox\nsetup: sh test.sh\nverify: [sh test.sh]\n");
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .graph("tasks: [{id: a}, {id: b, run_on: local}]\n");
    let outside = trial.sign("outside");
    let script = format!(
        "echo in the sandbox: ${{RALPH_AWAY:+yes}}; touch '{}' || true\n",
        outside.display()
    );
    let trial = trial.file("test.sh", &script).command(["sh", "-c", "cat"]);
    trial
        .run(["verify", "a"])
        .stderr_has("verifying a on `sandbox`: `sh test.sh`\n")
        .stdout_has("in the sandbox: yes\n");
    assert!(!outside.exists());
    trial.run(["doctor", "--on", "sandbox", "--", "sh"]).stdout_has(
        "slot        setup and 1 verify command passed on main in a slot on `sandbox`\n",
    );
    assert!(!outside.exists());
    trial.run(["verify", "b"]).stderr_has("verifying b: `sh test.sh`\n");
    assert!(outside.exists(), "it can be written");
    fs::write(trial.root().join("test.sh"), "exit 3\n").unwrap();
    trial.run(["verify", "a"]).code(1).stderr_has("`sh test.sh` exited with code 3\n");
    // A place that needs a copy of the files is named.
    let settings = format!("{SETTINGS}run_on: far\nexecutors: {{far: {{command: [sh, -c]}}}}\n");
    trial.write(".ralph/config.yaml", &format!("{settings}verify: ['true']\n"));
    trial.run(["verify", "a"]).stderr_has("verifying a here, not on `far`: `true`\n");
    // An agent that is missing only inside costs no attempt.
    let hidden = trial.dir().join(".ssh");
    fs::create_dir_all(&hidden).unwrap();
    fs::copy("/bin/true", hidden.join("hidden-agent")).unwrap();
    trial.write(".ralph/config.yaml", &format!("{SETTINGS}run_on: sandbox\n"));
    let search = format!("{}:{}", hidden.display(), std::env::var("PATH").unwrap());
    let trial = trial.env("PATH", &search);
    let ran = trial.run(["run", "--task", "a", "--", "hidden-agent"]).code(69);
    ran.stderr_has("in the sandbox, `hidden-agent` is not on PATH");
    assert!(trial.lines("failed").is_empty());
}

#[test]
#[ignore = "slow"]
fn an_agent_in_a_sandbox_is_asked_to_end_before_it_is_killed() {
    for engine in engines() {
        let stage = Stage::new();
        let script = "trap 'echo asked; exit 3' TERM; touch up; while :; do sleep 0.05; done";
        let up = stage.slot.join("up");
        let ask = |process: &AgentProcess| {
            wait_for(&up);
            process.order(GuardianCommand::Terminate);
        };
        let ended = stage.run_with(&settings(engine), script, |paths| paths, ask).unwrap();
        assert_eq!((ended.code, ended.stdout.contains("asked")), (Some(3), true), "{engine:?}");
        stage.end();
    }
}

#[test]
#[ignore = "slow"]
fn a_sandbox_ends_with_its_guardian() {
    for engine in engines() {
        let stage = Stage::new();
        let marker = format!("{}4545", std::process::id());
        let script = format!("setsid sleep {marker} & touch up; trap '' TERM; sleep {marker}");
        let up = stage.slot.join("up");
        let kill = |process: &AgentProcess| {
            wait_for(&up);
            process.kill_guardian();
        };
        let ended = stage.run_with(&settings(engine), &script, |paths| paths, kill).unwrap();
        assert_eq!(ended.code, None);
        if engine == SandboxEngine::Bubblewrap {
            until("nothing is left", || !stage::lives(&marker));
        } else {
            // As without a sandbox, the next run finds what is left by the open record.
            let record = stage.record_of_newest();
            ralph::adapters::process::kill_marked(None, &record);
            until("nothing is left", || !stage::lives(&marker));
        }
        stage.end();
    }
}

#[test]
fn the_checkout_can_be_changed_but_not_what_rules_it() {
    let stage = Stage::new();
    let in_checkout = |paths: SandboxPaths| SandboxPaths { worktree: paths.main.clone(), ..paths };
    let run = |engine, script: &str| stage.run_with(&settings(engine), script, in_checkout, |_| ());
    for engine in engines() {
        if engine == SandboxEngine::Landlock {
            let why = run(engine, "true").err().unwrap();
            assert!(why.contains("bubblewrap"), "{why}");
            continue;
        }
        let ended =
            run(engine, "echo 2 > file.txt && git commit -qam Two && touch \"$TASK_FOLDER/DONE\"");
        let ended = ended.unwrap();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for path in [
            "task-graph.yaml",
            "logs/ralph.jsonl",
            "prompts/task.md",
            ".ralph/config.yaml",
            ".ralph/evil",
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/info/attributes",
            ".git/ralph/holder.json",
        ] {
            let file = stage.trial.root().join(path);
            let before = stage::content(&file);
            run(engine, &format!("echo evil >> {path}; mv -f file.txt {path}")).unwrap();
            assert_eq!(stage::content(&file), before, "{path}");
        }
        let moved = run(engine, "mv .git x || mv .ralph x || mv logs x").unwrap();
        assert_ne!(moved.code, Some(0), "{}", moved.stderr);
    }
    stage.end();
}

#[test]
fn settings_show_hide_and_pass_on() {
    for engine in engines() {
        let stage = Stage::new();
        let base = settings(engine);
        let says = |settings: &SandboxSettings, script: &str| {
            stage.run_in(settings, script).unwrap().stdout
        };
        let shown = SandboxSettings { show: vec!["~/.npmrc".to_owned()], ..base.clone() };
        assert!(shows_secret(&says(&shown, "cat ~/.npmrc")));
        assert!(!shows_secret(&says(&shown, "cat ~/.pypirc")));
        let folder = SandboxSettings { show: vec!["~/.aws".to_owned()], ..base.clone() };
        assert!(shows_secret(&says(&folder, "cat ~/.aws/credentials")));
        let hidden = SandboxSettings { hide: vec!["~/.profile".to_owned()], ..base.clone() };
        assert!(!says(&hidden, "cat ~/.profile").contains("profile"));
        let allowed = Some(vec!["GITHUB_*".to_owned()]);
        let allowed = SandboxSettings { env: allowed, ..base.clone() };
        assert!(shows_secret(&says(&allowed, "echo $GITHUB_TOKEN")));
        let none = SandboxSettings { env: Some(Vec::new()), ..base.clone() };
        let said = says(&none, "echo $TRIAL:$RALPH_TASK_ID:$HOME");
        assert!(said.contains(&format!(":a:{}", stage.trial.dir().display())), "{said}");
        let command = ["env", "WRAPPED=yes"].map(str::to_owned).to_vec();
        let wrapped = SandboxSettings { network: Network::Wrapper(command), ..base.clone() };
        assert!(says(&wrapped, "echo $WRAPPED").contains("yes"));
        let relative = SandboxSettings { write: vec!["cache".to_owned()], ..base.clone() };
        let why = stage.run_in(&relative, "true").err().unwrap();
        assert!(why.contains("`cache`"), "{why}");
        let missing = stage.trial.dir().join("new/cache");
        let write = vec![missing.display().to_string()];
        let made = SandboxSettings { write, ..base.clone() };
        says(&made, "echo 1 > ~/new/cache/x");
        assert!(missing.join("x").exists());
        stage.end();
    }
}

#[test]
fn a_link_that_a_process_leaves_opens_nothing_for_the_next() {
    for engine in engines() {
        let stage = Stage::new();
        let write = vec!["~/builds".to_owned(), "~/builds/nested".to_owned()];
        let settings = SandboxSettings { write, ..settings(engine) };
        let run = |script: &str| {
            let of_claude = |paths| SandboxPaths { agent: Some("claude".to_owned()), ..paths };
            stage.run_with(&settings, script, of_claude, |_| ())
        };
        let plant = "mkdir -p .git/modules/m && ln -s ~/.ssh .git/modules/m/hooks
            ln -s ~/.ssh ~/.claude/commands; ln -s ~/.aws ~/.claude/agents
            rmdir ~/builds/nested; ln -s ~/.gnupg ~/builds/nested";
        run(plant).unwrap();
        let look = "cat ~/.ssh/* ~/.aws/* ~/.gnupg/*/* ~/builds/nested/*/*
            echo evil > ~/.ssh/evil; echo evil > ~/.gnupg/evil";
        let ended = run(look).unwrap();
        assert!(ended.stdout.contains("ready") && !shows_secret(&ended.stdout), "{engine:?}");
        for path in [".ssh/evil", ".gnupg/evil"] {
            assert!(!stage.trial.dir().join(path).exists(), "{engine:?}: {path}");
        }
        if engine == SandboxEngine::Landlock {
            run("rm -rf .git && ln -s ~/.ssh .git").unwrap();
            assert!(run(look).err().unwrap().contains("is not a git directory"));
        }
    }
}

#[test]
fn settings_of_the_agent_in_its_own_folder_are_read_only() {
    if let Err(why) = support(SandboxEngine::Bubblewrap) {
        unavailable(&why);
        return;
    }
    let settings = settings(SandboxEngine::Bubblewrap);
    let stage = Stage::new();
    let own = stage.trial.dir().join(".claude");
    fs::create_dir_all(own.join("commands")).unwrap();
    fs::write(own.join("settings.json"), "{}").unwrap();
    let script = "echo 1 > ~/.claude/history && echo 2 > ~/.claude/settings.json
        echo 3 > ~/.claude/commands/evil; mv ~/.claude ~/.claude2; rm -rf ~/.claude/commands";
    let of_claude = |paths| SandboxPaths { agent: Some("claude".to_owned()), ..paths };
    stage.run_with(&settings, script, of_claude, |_| ()).unwrap();
    assert_eq!(fs::read_to_string(own.join("history")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(own.join("settings.json")).unwrap(), "{}");
    assert_eq!(fs::read_dir(own.join("commands")).unwrap().count(), 0);
    // The file with settings and state is a copy.
    let both = stage.trial.dir().join(".claude.json");
    let script = "echo changed >> ~/.claude.json && cat ~/.claude.json";
    let ended = stage.run_with(&settings, script, of_claude, |_| ()).unwrap();
    assert!(ended.stdout.contains("{}\nchanged"), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(fs::read_to_string(&both).unwrap(), "{}\n");
    // A link in the place of settings cannot be protected.
    fs::remove_file(own.join("settings.json")).unwrap();
    std::os::unix::fs::symlink(&both, own.join("settings.json")).unwrap();
    let why = stage.run_with(&settings, "true", of_claude, |_| ()).err().unwrap();
    assert!(why.contains("is a link"), "{why}");
    let write = vec!["~/.claude/settings.json".to_owned()];
    let accepted = SandboxSettings { write, ..settings };
    stage.run_with(&accepted, "true", of_claude, |_| ()).unwrap();
    stage.end();
}

#[test]
#[ignore = "slow"]
fn package_managers_have_caches_of_the_attempt() {
    for engine in engines() {
        let stage = Stage::new();
        let shared = stage.trial.dir().join(".npm");
        fs::create_dir(&shared).unwrap();
        // As npm does it.
        let script = "cache=${npm_config_cache:-$HOME/.npm}; mkdir -p \"$cache/_logs\" &&
            echo package > \"$cache/_logs/x\" && cat \"$cache/_logs/x\"";
        let base = settings(engine);
        let ended = stage.run_in(&base, script).unwrap();
        assert!(ended.stdout.contains("package"), "{engine:?}: {}{}", ended.stdout, ended.stderr);
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 0, "the shared one is left alone");
        let write = vec!["~/.npm".to_owned()];
        stage.run_in(&SandboxSettings { write, ..base }, script).unwrap();
        assert!(shared.join("_logs/x").exists(), "{engine:?}: unless the settings open it");
        stage.end();
    }
}

#[test]
fn what_cannot_be_held_is_refused() {
    if support(SandboxEngine::Landlock).is_err() {
        return;
    }
    let stage = Stage::new();
    let home = SandboxSettings { write: vec!["~".to_owned()], ..settings(SandboxEngine::Landlock) };
    let why = stage.run_in(&home, "true").err().unwrap();
    assert!(why.contains("would show credentials"), "{why}");
    fs::create_dir_all(stage.trial.dir().join("builds/x")).unwrap();
    let (write, hide) = (vec!["~/builds".to_owned()], vec!["~/builds/x".to_owned()]);
    let open = SandboxSettings { write, hide, ..settings(SandboxEngine::Landlock) };
    let why = stage.run_in(&open, "true").err().unwrap();
    assert!(why.contains("is hidden in") && why.contains("bubblewrap"), "{why}");
    let offline = SandboxSettings { network: Network::Off, ..settings(SandboxEngine::Landlock) };
    let why = stage.run_in(&offline, "true").err().unwrap();
    assert!(why.contains("network"), "{why}");
    stage.end();
}

/// Prints the time that a sandbox adds to a process. The fastest of many counts: what else the
/// machine does is not in it.
#[test]
#[ignore = "a measurement"]
fn measured_time_that_a_sandbox_adds() {
    let stage = Stage::new();
    let time = |run: &dyn Fn()| {
        let times = (0..60).map(|_| {
            let began = Instant::now();
            run();
            began.elapsed().as_secs_f64() * 1000.0
        });
        times.min_by(f64::total_cmp).unwrap_or_default()
    };
    let plain = time(&|| drop(stage.run_outside("true")));
    println!("without: {plain:.1} ms, with its guardian");
    for engine in engines() {
        let confined = time(&|| drop(stage.run_in(&settings(engine), "true")));
        println!("{engine:?}: {:.1} ms more", confined - plain);
    }
    stage.end();
}
