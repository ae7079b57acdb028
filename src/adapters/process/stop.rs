//! The end of one process and of everything below it, by another process than its parent.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{
    Identity,
    tree::{descendants, identity_of, is_alive, signal_if},
};

/// The time after SIGKILL in which a process dies, unless it is in an uninterruptible wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends a process and its descendants: TERM, and KILL for those that still run after `grace`.
/// Returns whether all of them have ended.
pub fn end_tree(root: &Identity, grace: Duration) -> bool {
    let began = Instant::now();
    let mut family = vec![root.clone()];
    let mut told = 0;
    loop {
        // Before any signal: the orphans of a dead process have another parent.
        for pid in family.iter().flat_map(below).collect::<Vec<_>>() {
            if family.iter().all(|known| known.pid != pid) {
                family.push(identity_of(pid));
            }
        }
        for member in &family[told..] {
            tell(member, Signal::TERM);
        }
        family.retain(is_alive);
        told = family.len();
        if family.is_empty() {
            return true;
        }
        if began.elapsed() >= grace {
            for member in &family {
                tell(member, Signal::KILL);
            }
        }
        if began.elapsed() >= grace + PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn below(known: &Identity) -> Vec<u32> {
    if !is_alive(known) {
        return Vec::new();
    }
    descendants(known.pid).into_iter().map(|member| member.pid).collect()
}

/// Sends a signal, and lets a stopped process receive it.
fn tell(member: &Identity, signal: Signal) {
    for signal in [signal, Signal::CONT] {
        signal_if(member.pid, signal, || is_alive(member));
    }
}
