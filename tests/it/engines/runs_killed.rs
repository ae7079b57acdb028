//! Runner, guardians, carriers, workers, agents and daemons are killed at random while runs use
//! executors; then the oracle checks the result.
//!
//! `RALPH_TORTURE_SEED` repeats a test, `RALPH_TORTURE_KILLS` sets the number of kills of each
//! executor.

use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{
    is_alive, marked, send,
    slurm_cluster::NODES,
    station::{Engine, Kind, Station},
    tree,
};
use crate::{
    oracle,
    support::{RALPH, TestProject, agent},
    torture::{SeededNumbers, given, seed},
};

const TASKS: usize = 4;

/// The kills in one repository.
const KILLS: usize = 6;

/// The controller of a cluster. What it has not saved when it is killed, such as that a job was
/// canceled, it does not know when it is back.
const CONTROLLER: &str = "controller";

/// The time for a repository to complete.
const LONGEST: Duration = Duration::from_secs(300);

/// The work of an attempt, with a process that it leaves running.
const WORK: &str = "\
echo \"$id $RALPH_ATTEMPT\" >> \"$TRIAL_DIR/begun\"
(setsid sleep 600 > /dev/null 2>&1 &)
sleep 0.5
put \"work/$id.txt\" \"attempt $RALPH_ATTEMPT\"
commit
echo \"$(git rev-parse HEAD) $id\" >> \"$TRIAL_DIR/committed\"
report
sleep 0.5
";

/// The words of a process's command line.
fn words(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// What a process of a run is; none for what is not killed.
fn role(pid: u32) -> Option<&'static str> {
    let words = words(pid);
    let name = words.first()?.rsplit('/').next()?;
    let has = |word: &str| words.iter().any(|it| it == word);
    Some(match name {
        "ralph" | "exe" if has("__worker") => "worker",
        "ralph" | "exe" if has("__guard") => "guardian",
        "ralph" | "exe" if has("__work") => "work",
        "ssh" | "srun" | "podman" | "conmon" | "bwrap" => "carrier",
        name if name.starts_with("sshd") => "daemon",
        "sh" if has(&agent("told")) => "agent",
        _ => return None,
    })
}

impl Station {
    /// Kills one process of a role at random, or all of the role. Returns the role; none if there is
    /// no attempt, and chance spares the runner.
    fn strike(&mut self, run: &Child, dice: &mut SeededNumbers) -> Option<&'static str> {
        let mut pids = tree(run.id());
        pids.extend(marked(&self.trial.dir()));
        if let Engine::Ssh(host) = &self.engine {
            pids.extend(marked(host.folder()));
        }
        let all: Vec<u32> = pids.iter().flat_map(|pid| tree(*pid)).collect();
        let mut roles: BTreeMap<&'static str, Vec<u32>> = BTreeMap::new();
        for pid in all.into_iter().filter(|pid| *pid != run.id() && is_alive(*pid)) {
            if let Some(role) = role(pid) {
                roles.entry(role).or_default().push(pid);
            }
        }
        if roles.is_empty() && dice.roll(4) > 0 {
            return None;
        }
        roles.insert("runner", vec![run.id()]);
        if let Engine::Slurm(_) = self.engine {
            roles.insert("daemon", Vec::new());
        }
        let at = usize::try_from(dice.roll(roles.len() as u64)).unwrap();
        let (role, mut targets) = roles.into_iter().nth(at)?;
        if let (Engine::Slurm(cluster), "daemon") = (&mut self.engine, role) {
            if let Some(node) = NODES.get(usize::try_from(dice.roll(3)).unwrap()) {
                cluster.kill_node(node);
                cluster.start_node(node);
            } else {
                cluster.kill_controller();
                cluster.start_controller();
                return Some(CONTROLLER);
            }
            return Some(role);
        }
        targets.sort_unstable();
        targets.dedup();
        if dice.roll(2) == 0 {
            targets = vec![targets[usize::try_from(dice.roll(targets.len() as u64)).unwrap()]];
        }
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in &targets {
                send(*pid, signal);
            }
        }
        Some(role)
    }

    fn begin(&self) -> Child {
        let mut command: Command = self.trial.process(RALPH);
        command.args(["run", "--"]).arg(agent("told"));
        let said = fs::File::create(self.trial.sign("said")).unwrap();
        command.stdout(Stdio::null()).stderr(said).spawn().unwrap()
    }

    /// Whether a commit is kept where the worker was, from where the next attempt there fetches it.
    fn is_kept_there(&self, commit: &str) -> bool {
        let Some(folder) = self.repositories() else { return false };
        let mut find = self.trial.process("find");
        let find = find.arg(folder).args(["-path", "*/slots/*", "-name", ".git"]);
        let found = String::from_utf8(find.output().unwrap().stdout).unwrap();
        found.lines().any(|git| {
            let mut list = self.trial.process("git");
            let list = list.args(["--git-dir", git, "rev-list", "--all", "HEAD"]).output().unwrap();
            String::from_utf8_lossy(&list.stdout).contains(commit)
        })
    }

    /// Kills at random moments, then lets the run end. Returns the kills and what is wrong.
    fn torment(
        &mut self,
        kills: usize,
        dice: &mut SeededNumbers,
    ) -> (Vec<&'static str>, Vec<String>) {
        let began = Instant::now();
        let (mut run, mut struck, mut hit) = (self.begin(), Vec::new(), false);
        loop {
            // Not a wait for something: each kill comes at another moment.
            thread::sleep(Duration::from_millis(dice.roll(1500)));
            if began.elapsed() > LONGEST {
                run.kill().unwrap();
                run.wait().unwrap();
                return (struck, vec!["the graph does not complete".to_owned()]);
            }
            if struck.len() < kills && run.try_wait().unwrap().is_none() {
                let role = self.strike(&run, dice);
                hit |= role.is_some();
                struck.extend(role);
            }
            match run.try_wait().unwrap().map(|status| status.code()) {
                None => {}
                Some(Some(0)) => return (struck, Vec::new()),
                Some(Some(code)) if !hit && code != 5 => {
                    return (struck, vec![format!("exit code {code}")]);
                }
                Some(_) => (run, hit) = (self.begin(), false),
            }
        }
    }
}

fn torture(kind: Kind) {
    let wanted =
        given("RALPH_TORTURE_KILLS").map_or(KILLS, |kills| usize::try_from(kills).unwrap());
    let seed = seed();
    let mut dice = SeededNumbers::new(seed);
    let Some(mut engine) = Engine::start(kind) else { return };
    let (mut kills, mut survivors, mut violations) = (Vec::new(), 0, Vec::new());
    let (mut kept_there, mut forgotten) = (0, 0);
    while kills.len() < wanted {
        let settings = format!("jobs: 2\nverify: ['{}']\n", oracle::CHECK);
        let trial: TestProject = oracle::stage(TASKS);
        let mut station = Station::on(engine, kind, trial, &settings);
        station.told("do", WORK);
        let (struck, mut faults) = station.torment(KILLS.min(wanted - kills.len()), &mut dice);
        if struck.is_empty() {
            engine = station.engine;
            continue;
        }
        let forgets = struck.contains(&CONTROLLER);
        kills.extend(struck);
        let ended = Instant::now();
        while !station.left().is_empty() && ended.elapsed() < Duration::from_secs(30) {
            if let Engine::Ssh(host) = &station.engine {
                host.reap();
            }
            thread::sleep(Duration::from_millis(100));
        }
        let mut left = station.left();
        if let (Engine::Slurm(cluster), true) = (&station.engine, forgets) {
            let count = left.len();
            left.retain(|left| !left.starts_with("job "));
            forgotten += count - left.len();
            cluster.call(&["scancel", "--user=root"]);
        }
        survivors += left.len();
        faults.extend(left.iter().map(|left| format!("survives: {left}")));
        faults.extend(oracle::faults(&station.trial, TASKS).0);
        faults.extend(oracle::merged(&station.trial, oracle::CHECK, &[]));
        let count = faults.len();
        faults.retain(|fault| {
            let lost = fault.strip_prefix("lost: ").and_then(|lost| lost.get(..40));
            !lost.is_some_and(|commit| station.is_kept_there(commit))
        });
        kept_there += count - faults.len();
        if !faults.is_empty() {
            let said = fs::read_to_string(station.trial.sign("said")).unwrap_or_default();
            println!("{}\n{}\n{said}", faults.join("\n"), station.trial.read("logs/ralph.jsonl"));
        }
        violations.extend(faults);
        engine = station.engine;
    }
    println!(
        "{kind:?}: kills={} ({kills:?}) violations={} survivors={survivors} \
         kept_there={kept_there} forgotten_by_the_cluster={forgotten}",
        kills.len(),
        violations.len(),
    );
    assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
}

#[test]
#[ignore = "slow"]
fn no_kill_costs_anything_in_sandboxes() {
    torture(Kind::Sandbox);
}

#[test]
#[ignore = "slow"]
fn no_kill_costs_anything_behind_a_command() {
    torture(Kind::Command);
}

#[test]
#[ignore = "slow"]
fn no_kill_costs_anything_on_a_host() {
    torture(Kind::Ssh);
}

/// Only on request: an engine that is killed while it changes its storage may keep a container that it
/// cannot remove, which no program here can prevent.
#[test]
#[ignore = "slow"]
fn no_kill_costs_anything_in_containers() {
    on_request(Kind::Container);
}

/// Only on request: a controller that is killed while it books a job may keep the booking, which no
/// program here can prevent.
#[test]
#[ignore = "slow"]
fn no_kill_costs_anything_on_a_cluster() {
    on_request(Kind::Slurm);
}

fn on_request(kind: Kind) {
    if std::env::var_os("RALPH_TORTURE_KILLS").is_none() {
        println!("skipped without RALPH_TORTURE_KILLS");
        return;
    }
    torture(kind);
}
