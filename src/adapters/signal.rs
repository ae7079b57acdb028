//! The signals that stop or suspend the runner, delivered to a callback on a thread of its own.
//!
//! The only user of `signal-hook`. This module knows neither the runner nor agents.
//!
//! Handlers must be installed before the first agent starts, so that no signal is lost. Agents do
//! not inherit them: `exec` resets every handled signal to its default.

use std::{
    fs, io,
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Receiver},
    },
    thread,
};

use signal_hook::{
    consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP},
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// The signal with which service managers end a program.
pub const TERM: i32 = SIGTERM;

/// The signal of a terminal that is closed.
pub const HANGUP: i32 = SIGHUP;

/// The signal of a terminal at Ctrl-Z.
pub const SUSPEND: i32 = SIGTSTP;

/// The signal that continues a stopped process.
pub const CONTINUE: i32 = SIGCONT;

/// Stops this process as Ctrl-Z does by default. Returns when the process is continued.
pub fn suspend() {
    // Fails only for an unknown signal.
    let _ = emulate_default_handler(SIGTSTP);
}

/// Ends this process by a signal. Returns if the signal does not end a process.
pub fn end_by(signal: i32) {
    let _ = emulate_default_handler(signal);
}

/// The callback for the number of each signal.
type SignalCallback = Box<dyn Fn(i32) + Send>;

static CALLBACK: Mutex<Option<SignalCallback>> = Mutex::new(None);

/// Calls `on_signal` with the number of each SIGINT, SIGTERM, SIGHUP and SIGTSTP, in order, on a
/// thread that lives as long as the process, in place of the callback before it. Those signals have no
/// other effect from then on.
///
/// SIGHUP and SIGTSTP stay ignored if they are ignored when this is called, as SIGHUP is under
/// `nohup`. This is detected on Linux only (`/proc/self/status`); elsewhere they are always
/// handled.
///
/// # Errors
/// When the handlers cannot be installed or the thread cannot be started.
pub fn listen(on_signal: impl Fn(i32) + Send + 'static) -> io::Result<()> {
    let callback = || CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
    if callback().replace(Box::new(on_signal)).is_some() {
        return Ok(());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut wanted = vec![SIGINT, SIGTERM];
    wanted.extend([SIGHUP, SIGTSTP].iter().filter(|signal| !is_ignored(**signal, &status)));
    let mut signals = Signals::new(wanted)?;
    let call = move |number| callback().iter().for_each(|on_signal| on_signal(number));
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(call))?;
    Ok(())
}

/// Delivers the signals of [`listen`] to a receiver.
///
/// # Errors
/// Those of [`listen`].
pub fn receive() -> io::Result<Receiver<i32>> {
    let (sender, receiver) = mpsc::channel();
    listen(move |number| {
        let _ = sender.send(number);
    })?;
    Ok(receiver)
}

/// The name of a signal that [`listen`] delivers.
pub fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("an unknown signal")
}

fn is_ignored(signal: i32, status: &str) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::{env, process::Command, sync::mpsc, time::Duration};

    use signal_hook::low_level::raise;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn each_signal_reaches_the_callback() {
        let (sender, receiver) = mpsc::channel();
        listen(move |signal| sender.send(signal).unwrap_or_default()).unwrap();
        for signal in [SIGINT, SIGTERM, SIGINT] {
            raise(signal).unwrap();
            assert_eq!(receiver.recv_timeout(SOON), Ok(signal));
        }
        assert_eq!([name(SIGINT), name(SIGTERM), name(SIGHUP)], ["SIGINT", "SIGTERM", "SIGHUP"]);
    }

    #[test]
    fn an_ignored_hangup_stays_ignored() {
        const CHILD: &str = "RALPH_TEST_HANGUP";
        if env::var_os(CHILD).is_some() {
            let (sender, receiver) = mpsc::channel();
            listen(move |signal| sender.send(signal).unwrap_or_default()).unwrap();
            raise(SIGHUP).unwrap();
            raise(SIGTERM).unwrap();
            assert_eq!(receiver.recv_timeout(SOON), Ok(SIGTERM));
            return;
        }
        if !cfg!(target_os = "linux") {
            return;
        }
        let run = Command::new("sh")
            .args(["-c", "trap '' HUP; exec \"$0\" --exact \"$1\""])
            .arg(env::current_exe().unwrap())
            .arg("signal::tests::an_ignored_hangup_stays_ignored")
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    }

    #[test]
    fn the_mask_counts_signals_from_one() {
        assert!(is_ignored(1, "Name:\tx\nSigIgn:\t0000000000001001\n"));
        assert!(is_ignored(13, "SigIgn:\t0000000000001001"));
        assert!(!is_ignored(2, "SigIgn:\t0000000000001001"));
        assert!(!is_ignored(1, ""));
    }
}
