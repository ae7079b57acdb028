//! `ralph schedule install` and `uninstall`: the service that runs `ralph schedule`.
//!
//! Services name only the repository. They run `ralph schedule`, not `ralph run` at times of their own,
//! so that one place handles time zones, clock changes, sleep and missed times.

use std::{
    env, fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};

use super::{
    check_settings,
    units::{MARK, Start},
};
use crate::{
    adapters::{process, state, terminal},
    cli::{self, InstallArgs},
    commands::Invocation,
    core::exit::{Exit, Failure},
    project::{config_layers, workspace::Workspace},
    regular_file,
};

/// A service manager with unit files, and the scope of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKeeper {
    Systemd { user: bool },
    Launchd { user: bool },
}

impl UnitKeeper {
    const ALL: [UnitKeeper; 4] = [
        UnitKeeper::Systemd { user: true },
        UnitKeeper::Systemd { user: false },
        UnitKeeper::Launchd { user: true },
        UnitKeeper::Launchd { user: false },
    ];

    fn is_of_user(self) -> bool {
        let (UnitKeeper::Systemd { user } | UnitKeeper::Launchd { user }) = self;
        user
    }

    /// The control program of the service manager.
    fn program(self) -> &'static str {
        match self {
            UnitKeeper::Systemd { .. } => "systemctl",
            UnitKeeper::Launchd { .. } => "launchctl",
        }
    }

    /// The path of a unit file.
    fn file(self, name: &str) -> Result<PathBuf> {
        let home = || env::home_dir().context("no home folder; set `HOME`");
        Ok(match self {
            UnitKeeper::Systemd { user } => {
                let folder = if user {
                    let named = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
                    let named = named.filter(|folder| folder.is_absolute());
                    named
                        .map_or_else(|| Ok(home()?.join(".config")), anyhow::Ok)?
                        .join("systemd/user")
                } else {
                    PathBuf::from("/etc/systemd/system")
                };
                folder.join(format!("{name}.service"))
            }
            UnitKeeper::Launchd { user } => {
                let folder = if user {
                    home()?.join("Library/LaunchAgents")
                } else {
                    PathBuf::from("/Library/LaunchDaemons")
                };
                folder.join(format!("{name}.plist"))
            }
        })
    }

    /// The commands that load a new or changed unit and start it.
    fn up(self, name: &str, file: &Path) -> Result<Vec<Vec<String>>> {
        let unit = format!("{name}.service");
        Ok(match self {
            UnitKeeper::Systemd { .. } => {
                [&["daemon-reload"][..], &["enable", &unit], &["restart", &unit]]
                    .map(|more| self.systemctl(more))
                    .into()
            }
            UnitKeeper::Launchd { .. } => {
                let file = file.display().to_string();
                let words = ["launchctl", "bootstrap", &self.domain()?, &file];
                vec![words.map(str::to_owned).into()]
            }
        })
    }

    /// The command that stops a unit, and the command to run after its file is removed.
    fn down(self, name: &str) -> Result<(Vec<String>, Option<Vec<String>>)> {
        Ok(match self {
            UnitKeeper::Systemd { .. } => (
                self.systemctl(&["disable", "--now", &format!("{name}.service")]),
                Some(self.systemctl(&["daemon-reload"])),
            ),
            UnitKeeper::Launchd { .. } => {
                let target = format!("{}/{name}", self.domain()?);
                (["launchctl", "bootout", &target].map(str::to_owned).into(), None)
            }
        })
    }

    fn systemctl(self, more: &[&str]) -> Vec<String> {
        let scope = self.is_of_user().then_some("--user");
        let words = [self.program()].into_iter().chain(scope).chain(more.iter().copied());
        words.map(str::to_owned).collect()
    }

    fn domain(self) -> Result<String> {
        if !self.is_of_user() {
            return Ok("system".to_owned());
        }
        let home = env::home_dir().context("no home folder; set `HOME`")?;
        Ok(format!("gui/{}", fs::metadata(home).context("check the home folder")?.uid()))
    }
}

/// Installs or prints the service of this repository.
///
/// # Errors
/// No schedule in the settings; missing root rights; a missing service manager; errors of the disk.
pub(super) fn install(invocation: &Invocation, options: &InstallArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let Some(schedule) = &workspace.config.schedule else {
        let message = format!(
            "no schedule in the settings; add `schedule: \"0 */4 * * *\"` to `{}`",
            config_layers::PATH
        );
        return Err(Failure::new(Exit::Usage, message).into());
    };
    check_settings(&schedule.run)?;
    let cli::Keeper { systemd, launchd, .. } = options.keeper;
    let user = options.user;
    let kept = match (systemd, launchd) {
        (true, _) => UnitKeeper::Systemd { user },
        (_, true) => UnitKeeper::Launchd { user },
        _ if schedule.times.expressions().is_empty() => {
            let message = "the schedule has no `cron`, and a crontab cannot serve requests";
            return Err(Failure::new(Exit::Usage, message).into());
        }
        _ => return install_line(&start(&workspace, None)?, options.print),
    };
    let start = start(&workspace, (!user).then_some(kept))?;
    let text = match kept {
        UnitKeeper::Systemd { .. } => start.systemd().map_err(unusable)?,
        UnitKeeper::Launchd { .. } => start.launchd(),
    };
    let file = kept.file(&start.name())?;
    if options.print {
        terminal::say(&format!("would write {}", file.display()));
        terminal::print(&text)?;
        return Ok(Exit::Success);
    }
    if !user && !process::is_root() {
        let message = "a service for the machine needs root; pass `--user`, or run this with \
                       `sudo`";
        return Err(Failure::new(Exit::Usage, message).into());
    }
    there(kept.program())?;
    match regular_file::read_to_string(&file) {
        Ok(before) if !before.contains(MARK) => {
            let message =
                format!("`{}` exists and was not written by `ralph`; move it", file.display());
            return Err(Failure::new(Exit::Error, message).into());
        }
        Ok(before) if before == text => {
            say(&format!("{} is already installed and current", file.display()));
            return Ok(Exit::Success);
        }
        _ => {}
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    if launchd {
        make_log(&start)?;
    }
    state::replace(&file, text.as_bytes(), workspace.durable())
        .with_context(|| format!("write `{}`", file.display()))?;
    say(&format!("wrote {}", file.display()));
    if launchd {
        // launchd does not reload a loaded unit. There may be none.
        let (end, _) = kept.down(&start.name())?;
        let _ = order(&end);
    }
    for words in kept.up(&start.name(), &file)? {
        order(&words).map_err(|why| {
            let line = words.join(" ");
            let message = format!(
                "the unit is written, but `{line}` failed: {why}; run it where it works, or run \
                 `ralph schedule uninstall`"
            );
            Failure::new(Exit::Error, message)
        })?;
        say(&format!("ran {}", words.join(" ")));
    }
    if kept == (UnitKeeper::Systemd { user: true }) {
        say("it runs while you are logged in; `loginctl enable-linger` keeps it running");
    }
    Ok(Exit::Success)
}

fn install_line(start: &Start, print: bool) -> Result<Exit> {
    let block = start.crontab().map_err(unusable)?;
    if print {
        terminal::print(&block)?;
        return Ok(Exit::Success);
    }
    there("crontab")?;
    let before = crontab()?;
    let after = match start.cut(&before).map_err(unusable)? {
        Some((head, tail)) => format!("{head}{block}{tail}"),
        None if before.is_empty() || before.ends_with('\n') => format!("{before}{block}"),
        None => format!("{before}\n{block}"),
    };
    if after == before {
        say("the crontab entry is already installed and current");
        return Ok(Exit::Success);
    }
    make_log(start)?;
    write_crontab(&after)?;
    say("added an entry to your crontab; `crontab -l` shows it");
    say(&format!("its output is in {}", start.log));
    Ok(Exit::Success)
}

/// Removes all installed services of this repository.
///
/// # Errors
/// Missing root rights; errors of the disk.
pub(super) fn uninstall(invocation: &Invocation) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let start = start(&workspace, None)?;
    let name = start.name();
    let mut found = false;
    for kept in UnitKeeper::ALL {
        let file = kept.file(&name)?;
        let ours = regular_file::read_to_string(&file).is_ok_and(|text| text.contains(MARK));
        if !ours {
            continue;
        }
        found = true;
        if !kept.is_of_user() && !process::is_root() {
            let message =
                format!("`{}` is a service of the machine; run this with `sudo`", file.display());
            return Err(Failure::new(Exit::Error, message).into());
        }
        let (end, forget) = kept.down(&name)?;
        match order(&end) {
            Ok(()) => say(&format!("ran {}", end.join(" "))),
            Err(why) => say(&format!("warning: `{}` failed: {why}", end.join(" "))),
        }
        // A manager that is not running has left its links too.
        let folder = file.parent().unwrap_or(Path::new("/"));
        for target in ["default.target", "multi-user.target"] {
            let link = folder.join(format!("{target}.wants/{name}.service"));
            if fs::read_link(&link).is_ok() {
                fs::remove_file(&link).with_context(|| format!("remove `{}`", link.display()))?;
            }
        }
        fs::remove_file(&file).with_context(|| format!("remove `{}`", file.display()))?;
        say(&format!("removed {}", file.display()));
        if let Some(words) = forget {
            let _ = order(&words);
        }
    }
    if process::resolve("crontab", Path::new("/")).is_ok() {
        let before = crontab()?;
        if let Some((head, tail)) = start.cut(&before).map_err(unusable)? {
            found = true;
            write_crontab(&format!("{head}{tail}"))?;
            say("removed the entry from your crontab");
        }
    }
    if !found {
        say("no service is installed for this repository");
    }
    Ok(Exit::Success)
}

/// The command for this repository. A service of the machine runs as the owner of the folder.
fn start(workspace: &Workspace, machine: Option<UnitKeeper>) -> Result<Start> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            unusable(format!("`{}` is not UTF-8, so a unit cannot name it", path.display()))
        })
    };
    let mut named = Vec::new();
    for (flag, path) in super::named(workspace) {
        named.extend([flag.to_owned(), text(path)?]);
    }
    let owner = fs::metadata(workspace.root()).context("check the repository")?.uid();
    let user = match machine {
        Some(UnitKeeper::Systemd { .. }) if owner != 0 => Some(owner.to_string()),
        Some(UnitKeeper::Launchd { .. }) if owner != 0 => Some(name_of(owner)?),
        _ => None,
    };
    let config = &workspace.config;
    let start = Start {
        program: text(&process::own_file().context("find this program")?)?,
        root: text(workspace.root())?,
        named,
        path: env::var("PATH").unwrap_or_default(),
        user,
        log: text(&workspace.state.schedule().join("log"))?,
        patience: config.term_grace + config.grace + 2 * config.commit_timeout + SPARE,
    };
    start.check().map_err(unusable)?;
    Ok(start)
}

/// Time for closing an attempt, in addition to the limits of the settings.
const SPARE: Duration = Duration::from_secs(60);

/// The name of a user.
fn name_of(user: u32) -> Result<String> {
    let output =
        Command::new("id").args(["-un", &user.to_string()]).output().context("run `id`")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Checks that a program exists, before anything is written.
fn there(program: &str) -> Result<()> {
    process::resolve(program, Path::new("/")).map(drop).map_err(|why| {
        let message = format!("{why}; `--print` prints the files instead");
        Failure::new(Exit::Error, message).into()
    })
}

/// Runs a program. The error is the reason of its failure.
fn order(words: &[String]) -> Result<(), String> {
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said =
        said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no error message");
    Err(format!("{} ({})", terminal::visible(said), output.status))
}

/// The crontab of the user; empty if there is none.
fn crontab() -> Result<String> {
    let output = Command::new("crontab").arg("-l").env("LC_ALL", "C").output();
    let output = output.context("run `crontab -l`")?;
    if output.status.success() {
        let text = String::from_utf8(output.stdout);
        return text.map_err(|_| {
            unusable("your crontab is not UTF-8; add the lines of `--print` by hand")
        });
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.to_lowercase().contains("no crontab") {
        return Ok(String::new());
    }
    // Do not overwrite a crontab that cannot be read.
    Err(unusable(format!("`crontab -l` failed: {}", terminal::visible(said.trim()))))
}

fn write_crontab(text: &str) -> Result<()> {
    let mut child = Command::new("crontab")
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("run `crontab -`")?;
    // crontab reads all input before it prints anything.
    let written = child.stdin.take().map(|mut pipe| pipe.write_all(text.as_bytes()));
    let output = child.wait_with_output().context("wait for `crontab -`")?;
    if output.status.success() && matches!(written, Some(Ok(()))) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(unusable(format!("`crontab -` failed: {}", terminal::visible(said.trim()))))
}

/// Creates the folder of the log file.
fn make_log(start: &Start) -> Result<()> {
    let folder = Path::new(&start.log).parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))
}

fn unusable(why: impl Into<String>) -> anyhow::Error {
    Failure::new(Exit::Error, why).into()
}

fn say(text: &str) {
    // Requested output, but not data for programs.
    let _ = terminal::print(&format!("{text}\n"));
}
