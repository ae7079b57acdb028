//! Processes as `/proc` shows them: their parents, their attempts, and whether they still run.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, Read},
    iter,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, wait, waitid, waitpid},
};
use serde::{Deserialize, Serialize};

use crate::core::event::Identity;

/// Returns the identity of a process of ours that has not been reaped.
pub(super) fn identity_of(pid: u32) -> Identity {
    Identity {
        boot_id: boot_id().to_owned(),
        pid,
        start_time: Stat::of(pid).map_or(0, |stat| stat.start_time),
        pid_namespace: pid_namespace(),
    }
}

/// Whether exactly this process still runs. A dead process that is not reaped does not.
pub fn is_alive(identity: &Identity) -> bool {
    found(identity).is_some_and(|stat| stat.alive())
}

/// Whether a process counts in another pid namespace, as that of a container, so that nothing is
/// known of it here.
pub fn is_elsewhere(identity: &Identity) -> bool {
    booted_as(identity) && !counts_here(identity)
}

/// Whether a process runs, as far as can be seen from here.
pub fn may_live(identity: &Identity) -> bool {
    is_alive(identity) || is_elsewhere(identity)
}

/// Whether this process descends from a running one.
pub fn is_below(ancestor: &Identity) -> bool {
    is_alive(ancestor) && ancestors(std::process::id()).contains(&ancestor.pid)
}

/// The ancestors of a process, the nearest first.
pub(super) fn ancestors(pid: u32) -> Vec<u32> {
    /// A number that was reused while the processes were read may close a circle.
    const MOST: usize = 1000;
    let parent = |pid: &u32| Stat::of(*pid).map(|stat| stat.parent).filter(|parent| *parent != 0);
    iter::successors(parent(&pid), parent).take(MOST).collect()
}

/// A process that may have to be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub pid: u32,
    /// Its name in the kernel.
    pub name: String,
}

/// The guardians that this process has started and that still run. The list is locked while one is
/// started.
pub(super) fn guardians() -> MutexGuard<'static, Vec<u32>> {
    static GUARDIANS: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    GUARDIANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every living descendant of a process, by the parents in `/proc`.
pub(super) fn descendants(ancestor: u32) -> Vec<Member> {
    descendants_without(ancestor, &[])
}

/// Like [`descendants`], without `spared` and their descendants.
fn descendants_without(ancestor: u32, spared: &[u32]) -> Vec<Member> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in processes() {
        if let Some(stat) = Stat::of(pid).filter(Stat::alive) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![ancestor];
    while let Some(parent) = open.pop() {
        let young = children.remove(&parent).unwrap_or_default();
        for pid in young.into_iter().filter(|pid| !spared.contains(pid)) {
            open.push(pid);
            found.push(Member { pid, name: name(pid) });
        }
    }
    found
}

/// Whether a living process of this name works in the folder or below it.
pub fn works_in(program: &str, folder: &Path) -> bool {
    let there = |pid: u32| {
        name(pid) == program
            && Stat::of(pid).is_some_and(|stat| stat.alive())
            && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    processes().into_iter().any(there)
}

/// Reads a file of `/proc`. They say that they are empty, so that [`fs::read`] would ask for their length
/// and read them in small pieces.
fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(1024);
    File::open(path)?.take(u64::MAX).read_to_end(&mut text)?;
    Ok(text)
}

fn name(pid: u32) -> String {
    let name = read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim().to_owned()
}

pub(super) fn processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Ends every descendant of this process, which must be a subreaper, so that orphans of dying
/// processes become its children; running guardians and their descendants are left alone. Returns
/// the processes that were killed, and the number of those that did not die in time.
pub fn sweep() -> (Vec<Member>, usize) {
    /// A process in an uninterruptible wait does not die at once; a survivor is reported.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// While a spared child stays, the system does not report that there is no other child; so this
    /// many reads in a row must find none.
    const QUIET: usize = 10;
    let own = std::process::id();
    let began = Instant::now();
    let mut killed: Vec<Member> = Vec::new();
    let mut quiet = 0;
    loop {
        let guardians = guardians();
        if !reap() || quiet == QUIET {
            return (killed, 0);
        }
        let family = descendants_without(own, &guardians);
        quiet = if family.is_empty() && !guardians.is_empty() { quiet + 1 } else { 0 };
        for member in &family {
            if signal_if(member.pid, Signal::KILL, || is_living(member.pid))
                && killed.iter().all(|known| known.pid != member.pid)
            {
                killed.push(member.clone());
            }
        }
        if began.elapsed() > PATIENCE {
            return (killed, family.len());
        }
        drop(guardians);
        if family.is_empty() && quiet == 0 {
            continue;
        }
        thread::sleep(Duration::from_micros(300));
    }
}

/// Stops every descendant of this process, including those that start meanwhile.
pub(super) fn freeze() {
    let mut stopped = HashSet::new();
    loop {
        let before = stopped.len();
        for Member { pid, .. } in descendants(std::process::id()) {
            if stopped.insert(pid) {
                signal_if(pid, Signal::STOP, || is_living(pid));
            }
        }
        if stopped.len() == before {
            return;
        }
    }
}

/// Continues every descendant of this process.
pub(super) fn thaw() {
    for Member { pid, .. } in descendants(std::process::id()) {
        signal_if(pid, Signal::CONT, || is_living(pid));
    }
}

/// Continues a guardian if it is stopped. Nothing stops guardians on purpose: an agent may do it, as
/// its parent.
pub(super) fn wake(guardian: &Identity) {
    let is_stopped = || found(guardian).is_some_and(|stat| stat.state == STOPPED);
    if is_stopped() {
        signal_if(guardian.pid, Signal::CONT, is_stopped);
    }
}

/// Kills a process.
pub(super) fn kill(identity: &Identity) {
    signal_if(identity.pid, Signal::KILL, || is_alive(identity));
}

/// Continues the stopped guardians that hold this lock, whose runner is dead; they then clean up.
pub fn wake_guardians(lock: &Path) {
    for pid in processes() {
        let is_stopped = || Stat::of(pid).is_some_and(|stat| stat.state == STOPPED);
        let holds = || fs::read_link(format!("/proc/{pid}/fd/1")).is_ok_and(|it| it == lock);
        if is_stopped() && holds() {
            signal_if(pid, Signal::CONT, is_stopped);
        }
    }
}

/// Whether no child of this process lives, in one call and without reaping: the system names no
/// child that could still be stopped.
pub fn is_childless() -> bool {
    let looked =
        waitid(WaitId::All, WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
    looked.is_err_and(|error| error == Errno::CHILD)
}

/// Reaps every dead child; returns false once there is no child at all.
fn reap() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Reaps dead orphans while the agent runs, so that they do not accumulate; never the agent itself,
/// whose status its waiter needs.
pub(super) fn reap_orphans(agent: u32) {
    // One call instead of a look at every process: usually no child is dead.
    let dead =
        waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
    if !matches!(dead, Ok(Some(_))) {
        return;
    }
    let own = std::process::id();
    for pid in processes().into_iter().filter(|pid| *pid != agent) {
        if Stat::of(pid).is_some_and(|stat| stat.parent == own && !stat.alive()) {
            let _ = waitpid(number(pid), WaitOptions::NOHANG);
        }
    }
}

/// Ends every process of an attempt, wherever it is, for use when the guardian is gone. Each has an
/// entry in its environment, as `RALPH_ATTEMPT_ID=r1.a.2`, or has the attempt's record open, which
/// an agent's children inherit and `env -i` does not close. A command that is not an agent has only
/// the open record.
pub fn kill_marked(entry: Option<&str>, record: &Path) -> Vec<Member> {
    const PATIENCE: Duration = Duration::from_secs(10);
    /// A process that replaces itself by a new one again and again may be missed by a single read,
    /// and on a busy machine by ten.
    const QUIET: usize = 60;
    let own = std::process::id();
    let began = Instant::now();
    let mut killed: Vec<Member> = Vec::new();
    // Processes that were checked and are not ours; they never become ours, and a short pass finds
    // a process before it has replaced itself.
    let mut strangers: HashSet<(u32, u64)> = HashSet::new();
    let mut quiet = 0;
    while quiet < QUIET && began.elapsed() < PATIENCE {
        quiet += 1;
        let mut pids = processes();
        pids.sort_unstable_by(|one, other| other.cmp(one));
        for pid in pids.into_iter().filter(|pid| *pid != own && *pid > 1) {
            let Some(stat) = Stat::of(pid).filter(Stat::alive) else {
                continue;
            };
            if strangers.contains(&(pid, stat.start_time)) {
                continue;
            }
            let ours = || {
                is_living(pid)
                    && (entry.is_some_and(|entry| has_entry(pid, entry)) || has_open(pid, record))
            };
            let member = Member { pid, name: name(pid) };
            if signal_if(pid, Signal::KILL, ours) {
                quiet = 0;
                if killed.iter().all(|known| known.pid != pid) {
                    killed.push(member);
                }
            } else {
                strangers.insert((pid, stat.start_time));
            }
        }
        thread::sleep(Duration::from_micros(200));
    }
    killed
}

/// Whether a process with this number lives; 0 as a parent is the kernel.
fn is_living(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.alive() && stat.parent != 0)
}

fn has_entry(pid: u32, entry: &str) -> bool {
    read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
    })
}

fn has_open(pid: u32, file: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| {
        fs::read_link(entry.path()).is_ok_and(|target| {
            // The link of an open file that was removed has a note after its name.
            target == file
                || target.to_str().is_some_and(|t| t.strip_suffix(" (deleted)") == file.to_str())
        })
    })
}

/// The processor time of all descendants of a process but those of a process group, in clock ticks.
pub(super) fn ticks_of_tree(ancestor: u32, but: Option<u32>) -> u64 {
    let members = descendants(ancestor).into_iter().filter_map(|member| Stat::of(member.pid));
    members.filter(|stat| Some(stat.group) != but).map(|stat| stat.ticks).sum()
}

/// Sends a signal. The descriptor is taken before `ours` is called, so that the signaled process is
/// the checked one.
#[cfg(target_os = "linux")]
pub(super) fn signal_if(pid: u32, signal: Signal, ours: impl Fn() -> bool) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    if !ours() {
        return false;
    }
    number(pid)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .is_some_and(|process| ours() && pidfd_send_signal(&process, signal).is_ok())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn signal_if(pid: u32, signal: Signal, ours: impl Fn() -> bool) -> bool {
    ours() && number(pid).is_some_and(|pid| rustix::process::kill_process(pid, signal).is_ok())
}

pub(super) fn number(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Read once: a process does not outlive its boot.
pub(super) fn boot_id() -> &'static str {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    BOOT_ID.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    })
}

fn booted_as(identity: &Identity) -> bool {
    !identity.boot_id.is_empty() && identity.boot_id == boot_id()
}

/// The number of the pid namespace of this process; 0 if the system does not have it.
fn pid_namespace() -> u64 {
    static NAMESPACE: OnceLock<u64> = OnceLock::new();
    *NAMESPACE.get_or_init(|| fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino()))
}

fn counts_here(identity: &Identity) -> bool {
    [0, pid_namespace()].contains(&identity.pid_namespace)
}

fn found(identity: &Identity) -> Option<Stat> {
    let is_it = |stat: &Stat| {
        booted_as(identity)
            && ((counts_here(identity) && stat.start_time == identity.start_time)
                || (stat.alive() && crate::core::known_bug::is_on("trust-a-pid")))
    };
    Stat::of(identity.pid).filter(is_it)
}

/// The state of a process that a signal has stopped.
const STOPPED: u8 = b'T';

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) state: u8,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) start_time: u64,
    /// The processor time in clock ticks, its own and that of children it has waited for.
    pub(super) ticks: u64,
}

impl Stat {
    pub(super) fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Field 2 is the name of the program in parentheses and may contain spaces, parentheses and
    /// line ends; later fields cannot, so they are counted from the last parenthesis.
    fn parse(text: &[u8]) -> Option<Stat> {
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            state: *field(3)?.as_bytes().first()?,
            parent: field(4)?.parse().ok()?,
            group: field(5)?.parse().ok()?,
            start_time: field(22)?.parse().ok()?,
            ticks: (14..=17).filter_map(|at| field(at)?.parse::<u64>().ok()).sum(),
        })
    }

    pub(super) fn alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        process::{Child, Command, Stdio},
    };

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + SOON;
        while !holds() {
            assert!(Instant::now() < deadline, "never: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn gone(pid: u32) -> bool {
        Stat::of(pid).is_none_or(|stat| !stat.alive())
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        until("dead", || gone(pid));
        let identity = Identity {
            boot_id: boot_id().to_owned(),
            pid,
            start_time: Stat::of(pid).unwrap().start_time,
            pid_namespace: pid_namespace(),
        };
        assert!(!is_alive(&identity));
        child.wait().unwrap();
    }

    fn sleeper(change: impl FnOnce(&mut Command) -> &mut Command) -> Child {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null());
        let child = change(&mut command).spawn().unwrap();
        // Until it has executed the program, it has the environment of this process.
        until("started", || name(child.id()) == "sleep");
        child
    }

    #[test]
    fn a_dead_child_is_not_a_living_child() {
        // In a process of its own: other tests of this process have children too.
        if env::var_os("RALPH_TEST_CHILDLESS").is_none() {
            let name = thread::current().name().unwrap().to_owned();
            let mut again = Command::new(env::current_exe().unwrap());
            again.args(["--exact", &name]).env("RALPH_TEST_CHILDLESS", "1");
            assert!(again.output().unwrap().status.success());
            return;
        }
        assert!(is_childless());
        let mut child = sleeper(|command| command);
        assert!(!is_childless());
        child.kill().unwrap();
        until("dead", || gone(child.id()));
        assert!(is_childless() && Stat::of(child.id()).is_some(), "dead and not reaped");
        child.wait().unwrap();
    }

    #[test]
    fn only_marked_processes_are_killed() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("a.1.json");
        fs::write(&record, "{}").unwrap();
        let value = format!("run{}.a.1", std::process::id());
        let mut marked = sleeper(|command| command.env("RALPH_ATTEMPT_ID", &value));
        let mut holding =
            sleeper(|command| command.env_clear().stdout(fs::File::open(&record).unwrap()));
        let longer = format!("{value}2");
        let mut stranger = sleeper(|command| command.env("RALPH_ATTEMPT_ID", &longer));
        let killed = kill_marked(Some(&format!("RALPH_ATTEMPT_ID={value}")), &record);
        let mut pids: Vec<u32> = killed.iter().map(|member| member.pid).collect();
        pids.sort_unstable();
        let mut want = [marked.id(), holding.id()];
        want.sort_unstable();
        assert_eq!(pids, want);
        until("the marked are gone", || gone(marked.id()) && gone(holding.id()));
        assert!(!gone(stranger.id()));
        for child in [&mut marked, &mut holding, &mut stranger] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let script = "sleep 600 & sh -c 'sleep 600 & wait' & wait";
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let sleepers =
            |pid| descendants(pid).iter().filter(|member| member.name == "sleep").count();
        until("all have started", || sleepers(child.id()) == 2);
        for member in descendants(child.id()) {
            assert!(signal_if(member.pid, Signal::KILL, || true));
        }
        child.wait().unwrap();
    }

    #[test]
    fn the_processor_time_of_a_tree_is_that_of_all_descendants() {
        let script = "sh -c 'while :; do :; done' & wait";
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        until("the tree has used time", || ticks_of_tree(child.id(), None) > 2);
        for member in descendants(child.id()) {
            assert!(signal_if(member.pid, Signal::KILL, || true));
        }
        child.wait().unwrap();
        assert_eq!(ticks_of_tree(child.id(), None), 0);
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let tail = "S 1 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 9 9";
        let want = Stat { state: b'S', parent: 1, group: 77, start_time: 4242, ticks: 0 };
        for name in ["sh", "a b", ") R 1 (", "\n)", "\u{e4}"] {
            let text = format!("77 ({name}) {tail}");
            assert_eq!(Stat::parse(text.as_bytes()).as_ref(), Some(&want), "{name}");
        }
        for text in ["", "77 (sh", "77 (sh)", "77 (sh) S 1 x"] {
            assert_eq!(Stat::parse(text.as_bytes()), None);
        }
    }
}
