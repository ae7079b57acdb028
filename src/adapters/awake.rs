//! Keeps the machine awake: a program of the system holds it for as long as this process lives.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// How long the program may take to say that it holds.
const PATIENCE: Duration = Duration::from_secs(3);

/// What such a program runs: it says that it holds, and ends with its standard input, whose other end
/// only this process has.
const HOLD: &str = "echo held; exec cat > /dev/null";

/// A hold on the machine; dropping it lets the machine sleep.
#[derive(Debug)]
pub struct AwakeHold {
    child: Child,
    /// Whether the machine also stays awake with its lid closed.
    pub with_lid: bool,
}

impl AwakeHold {
    /// Keeps the machine awake, if it can with its lid closed.
    ///
    /// # Errors
    /// Why it cannot, for a person.
    pub fn take() -> Result<AwakeHold, String> {
        if cfg!(target_os = "macos") {
            let own = std::process::id().to_string();
            let child =
                start(Command::new("caffeinate").args(["-i", "-s", "-w", &own]), "caffeinate")?;
            return Ok(AwakeHold { child, with_lid: false });
        }
        inhibited("idle:sleep:handle-lid-switch", true).or_else(|_| inhibited("idle:sleep", false))
    }
}

fn inhibited(what: &str, with_lid: bool) -> Result<AwakeHold, String> {
    const PROGRAM: &str = "systemd-inhibit";
    let mut command = Command::new(PROGRAM);
    command.arg(format!("--what={what}")).args(["--mode=block", "--who=ralph", "--why=a run"]);
    let mut child = start(command.args(["sh", "-c", HOLD]), PROGRAM)?;
    let (sender, receiver) = mpsc::channel();
    let out = child.stdout.take();
    thread::spawn(move || {
        let mut line = String::new();
        let read = out.map(|out| BufReader::new(out).read_line(&mut line));
        let _ = sender.send(read.is_some() && line == "held\n");
    });
    let hold = AwakeHold { child, with_lid };
    match receiver.recv_timeout(PATIENCE) {
        Ok(true) => Ok(hold),
        Ok(false) | Err(_) => Err(format!("`{PROGRAM}` does not work here")),
    }
}

/// Starts the program in a group of its own, where Ctrl-C does not reach it.
fn start(command: &mut Command, program: &str) -> Result<Child, String> {
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map_err(|_| format!("there is no `{program}` here"))
}

impl Drop for AwakeHold {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends with its input, or hangs.
        for _ in 0..20 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the machine has a battery or a lid, and so may sleep while it is used.
pub fn may_sleep() -> bool {
    if cfg!(target_os = "macos") {
        let asked = Command::new("pmset").args(["-g", "batt"]).stdin(Stdio::null()).output();
        return asked.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("Battery"));
    }
    has_battery(Path::new("/sys/class/power_supply")) || has_lid(Path::new("/proc/acpi/button/lid"))
}

/// Whether a power supply in this folder is a battery of the machine, and not of a mouse.
fn has_battery(folder: &Path) -> bool {
    let says = |path: &Path, name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
    let is_battery = |path: &Path| {
        says(path, "type").trim() == "Battery" && says(path, "scope").trim() != "Device"
    };
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| is_battery(&entry.path()))
}

fn has_lid(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut lids| lids.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_battery_of_a_mouse_is_none_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let supply = |name: &str, kind: &str, scope: Option<&str>| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("type"), format!("{kind}\n")).unwrap();
            if let Some(scope) = scope {
                fs::write(path.join("scope"), format!("{scope}\n")).unwrap();
            }
        };
        assert!(!has_battery(&folder.path().join("none")) && !has_lid(folder.path()));
        supply("AC", "Mains", None);
        supply("hid-mouse", "Battery", Some("Device"));
        assert!(!has_battery(folder.path()));
        supply("BAT0", "Battery", None);
        assert!(has_battery(folder.path()) && has_lid(folder.path()));
    }
}
