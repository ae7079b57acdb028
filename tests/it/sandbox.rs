//! Sandboxes: what an attempt in one cannot do, and what it still can.
//!
//! Every attack is a real process behind a real guardian, next to a run with two attempts. With
//! `--nocapture`, the test prints how many attacks were tried and which passed through.

mod attacks;
mod stage;

use ralph::{
    adapters::process::sandbox::support,
    core::executor::{Network, SandboxEngine, SandboxSettings},
};
use serde_json::json;

use crate::support::each;
use attacks::{Attack, Proof, attacks};
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
    ENGINES.into_iter().filter(works).collect()
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
    let ended = match stage.run_in(&settings, &attack.script) {
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
        Proof::Reads => ended.stdout.contains(CANARY),
        Proof::Changes(path) => stage::content(path) != before,
        Proof::Lives(marker) => stage.lives(marker),
    })
}

/// What Landlock is known not to hold; `docs/sandbox.md` says so.
const THROUGH_LANDLOCK: &[&str] = &[
    "write a hook of the slot",
    "write the settings of the slot",
    "write the attributes of the slot",
    "rename the git directory of the slot",
    "connect to the ssh agent",
    "connect to docker",
];

#[test]
fn attacks_do_not_pass_through() {
    let stage = Stage::new();
    let attacks = attacks(&stage);
    assert!(attacks.len() >= 40);
    let mut faults = Vec::new();
    for engine in engines() {
        let results = each(4, &attacks, |attack| (attack.name, passes(&stage, engine, attack)));
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
        let unknown = passed.iter().filter(|name| !known.contains(name));
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
            Proof::Reads => ended.stdout.contains(CANARY),
            Proof::Changes(path) => stage::content(path) != before,
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
        assert!(works("\"$RALPH\" status").contains("running"));
        assert!(works("\"$RALPH\" task-show a").contains('a'));
        works("\"$RALPH\" verify a");
        let said = works("echo 'Which of the two?' | \"$RALPH\" ask -");
        assert!(said.contains("needs input"), "{said}");
        let ended = inside("\"$RALPH\" spawn -- sh -c 'echo child; exit 5'");
        assert_eq!(
            (ended.code, ended.stdout.contains("child")),
            (Some(5), true),
            "{}",
            ended.stderr
        );
        works("\"$RALPH\" task-complete a");
        works("touch \"$RALPH_TASK_DIR/DONE\"");
        let trial = &stage.trial;
        trial.assert_record("noted", &json!({"task_id": "a", "note": "the parser wants UTF-8"}));
        trial.assert_record("asked", &json!({"task_id": "a", "question": "Which of the two?"}));
        trial.assert_record("reported", &json!({"task_id": "a", "attempt": 1}));
        let (started, over) = (trial.lines("child_started"), trial.lines("child_ended"));
        assert_eq!((started.len(), over.len()), (1, 1));
        assert_eq!(
            (&over[0]["exit_code"], &over[0]["run_id"]),
            (&5.into(), &started[0]["child_run_id"])
        );
        assert!(trial.read(".ralph/tasks/a/notes.md").contains("UTF-8"));
        stage.end();
    }
}
