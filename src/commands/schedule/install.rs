//! `ralph schedule install`: prints a service that runs `ralph schedule`, as a systemd unit, a launchd
//! property list or a crontab line, each with its own quoting, and how to install it.
//!
//! Services name only the repository. They run `ralph schedule`, not `ralph run` at times of their own,
//! so that one place handles time zones, clock changes, sleep and missed times.

use std::{env, fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

use anyhow::{Context, Result};

use super::check_settings;
use crate::{
    adapters::{process, terminal},
    cli::{InstallArgs, Keeper},
    commands::Invocation,
    core::{
        executor::shell_word,
        exit::{Exit, Failure, fail},
    },
    project::{config_layers, workspace::Workspace},
};

/// Prints the service of this repository.
///
/// # Errors
/// No schedule in the settings; a path that the service cannot name; errors of the disk.
pub(super) fn install(invocation: &Invocation, options: InstallArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let Some(schedule) = &workspace.config.schedule else {
        return fail(
            Exit::Usage,
            format!(
                "no schedule in the settings; add `schedule: \"0 */4 * * *\"` to `{}`",
                config_layers::PATH
            ),
        );
    };
    check_settings(&schedule.run)?;
    let InstallArgs { keeper: Keeper { systemd, launchd, .. }, user } = options;
    if !systemd && !launchd && schedule.times.expressions().is_empty() {
        return fail(
            Exit::Usage,
            "the schedule has no `cron`, and a crontab cannot serve requests",
        );
    }
    let start = start(&workspace, systemd && !user)?;
    let name = start.name();
    // The printing command, and the install hint.
    let (text, hint) = match (systemd, launchd) {
        (true, _) => {
            let (folder, scope) = if user {
                ("~/.config/systemd/user", " --user")
            } else {
                ("/etc/systemd/system", "")
            };
            let hint = format!(
                "save this as {folder}/{name}.service, and start it with `systemctl{scope} \
                 daemon-reload && systemctl{scope} enable --now {name}`"
            );
            (start.systemd(), hint)
        }
        (_, true) => {
            let (folder, domain) = if user {
                ("~/Library/LaunchAgents", "gui/$(id -u)")
            } else {
                ("/Library/LaunchDaemons", "system")
            };
            let file = format!("{folder}/{name}.plist");
            let hint = format!(
                "save this as {file}, and load it with `launchctl bootstrap {domain} {file}`"
            );
            (Ok(start.launchd()), hint)
        }
        _ => (start.crontab(), "add this to your crontab: `crontab -e` opens it".to_owned()),
    };
    let text = text.map_err(unusable)?;
    if !systemd {
        // launchd and cron have no log of their own.
        let folder = Path::new(&start.log).parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    }
    terminal::print(&text)?;
    terminal::say(&hint);
    Ok(Exit::Success)
}

/// The command for this repository. A service of the machine runs as the owner of the folder.
fn start(workspace: &Workspace, of_machine: bool) -> Result<Start> {
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
    let user = (of_machine && owner != 0).then(|| owner.to_string());
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

fn unusable(why: impl Into<String>) -> anyhow::Error {
    Failure::new(Exit::Error, why).into()
}

/// The first line of every service.
const MARK: &str = "Printed by `ralph schedule install`";

/// The longest crontab line that every cron accepts.
const LONGEST: usize = 990;

/// The command to start, and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Start {
    /// The path of this program.
    program: String,
    /// The top folder of the repository.
    root: String,
    /// The flags for non-default files, between `-C ROOT` and `schedule`.
    named: Vec<String>,
    /// The `PATH` for agents.
    path: String,
    /// The user for a service of the machine.
    user: Option<String>,
    /// The log file, for service managers without a log.
    log: String,
    /// The time limit for stopping, long enough for a running attempt.
    patience: Duration,
}

impl Start {
    /// A unique name per repository: the folder name and a hash of its path.
    fn name(&self) -> String {
        let folder = self.root.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let folder: String = folder.chars().map(plain).take(40).collect();
        // FNV-1a: the hash must be the same in every later version.
        let number = self.root.bytes().fold(0x811c_9dc5_u32, |number, byte| {
            (number ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        format!("ralph-{folder}-{number:08x}")
    }

    /// Checks for text that cannot be quoted.
    ///
    /// # Errors
    /// A message for a person.
    fn check(&self) -> Result<(), String> {
        let texts = [&self.program, &self.root, &self.path, &self.log];
        for text in texts.into_iter().chain(&self.named) {
            if text.contains(char::is_control) {
                let shown = text.escape_debug();
                return Err(format!("`{shown}` contains a control character; rename it"));
            }
        }
        Ok(())
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let fixed = [self.program.as_str(), "-C", &self.root].into_iter().map(str::to_owned);
        let more = more.iter().map(|word| (*word).to_owned());
        fixed.chain(self.named.iter().cloned()).chain(["schedule".to_owned()]).chain(more).collect()
    }

    /// The systemd unit.
    ///
    /// # Errors
    /// A path that systemd cannot start.
    fn systemd(&self) -> Result<String, String> {
        if self.program.contains(['"', '\'', '\\']) {
            return Err(format!(
                "systemd cannot start a program with a quote or backslash in its path, as in `{}`; \
                 move it",
                self.program
            ));
        }
        let quoted = |text: &str| {
            let escaped = text.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
            format!("\"{escaped}\"")
        };
        let words: Vec<String> = self.words(&[]).iter().map(|word| quoted(word)).collect();
        let (user, target) = match &self.user {
            Some(user) => (format!("User={user}\n"), "multi-user.target"),
            None => (String::new(), "default.target"),
        };
        Ok(filled(
            include_str!("systemd.service"),
            &[
                ("mark", MARK),
                ("root", &self.root.replace('%', "%%")),
                ("command", &words.join(" ")),
                ("path", &quoted(&format!("PATH={}", self.path))),
                ("user", &user),
                ("patience", &self.patience.as_secs().to_string()),
                ("target", target),
            ],
        ))
    }

    /// The launchd property list.
    fn launchd(&self) -> String {
        let string = |text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            format!("<string>{text}</string>")
        };
        let words: Vec<String> = self.words(&[]).iter().map(|word| string(word)).collect();
        filled(
            include_str!("launchd.plist"),
            &[
                ("name", &string(&self.name())),
                ("command", &words.join("\n    ")),
                ("path", &string(&self.path)),
                ("patience", &self.patience.as_secs().to_string()),
                ("log", &string(&self.log)),
            ],
        )
    }

    /// The line for a crontab, below its name.
    ///
    /// # Errors
    /// A line that is too long for cron.
    fn crontab(&self) -> Result<String, String> {
        let words = self.words(&["--due"]);
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        let line = format!(
            "* * * * * PATH={} {} >>{} 2>&1",
            shell_word(&self.path),
            words.join(" "),
            shell_word(&self.log)
        );
        // cron ends the command at a percent sign.
        let line = line.replace('%', r"\%");
        if line.len() > LONGEST {
            return Err(format!(
                "the line would have {} characters, but cron accepts {LONGEST}; make `PATH` shorter",
                line.len()
            ));
        }
        Ok(format!("# {MARK}: {}\n{line}\n", self.name()))
    }
}

/// A template with its `{names}` replaced. A value may itself contain a name in braces.
fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let value = values.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value);
        text += before;
        text += value;
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Start {
        Start {
            program: "/usr/local/bin/ralph".to_owned(),
            root: "/home/me/my 100% \"odd\" & $HOME's\\".to_owned(),
            named: vec!["--graph".to_owned(), "/home/me/other graph.yaml".to_owned()],
            path: "/usr/bin:/bin".to_owned(),
            user: None,
            log: "/home/me/x/.git/ralph/schedule/log".to_owned(),
            patience: Duration::from_secs(210),
        }
    }

    #[test]
    fn each_format_has_its_own_quoting() {
        let start = start();
        let unit = start.systemd().unwrap();
        let command = "ExecStart=:\"/usr/local/bin/ralph\" \"-C\" \"/home/me/my 100%% \\\"odd\\\" & \
                       $HOME's\\\\\" \"--graph\" \"/home/me/other graph.yaml\" \"schedule\"\n";
        assert!(unit.contains(command), "{unit}");
        assert!(unit.contains("Environment=\"PATH=/usr/bin:/bin\"\n"), "{unit}");
        assert!(unit.contains("WantedBy=default.target") && !unit.contains("User="), "{unit}");

        let list = start.launchd();
        let root = "<string>/home/me/my 100% \"odd\" &amp; $HOME's\\</string>\n";
        assert!(list.contains(root) && list.contains("<integer>210</integer>"), "{list}");

        let crontab = start.crontab().unwrap();
        let line = "* * * * * PATH=/usr/bin:/bin /usr/local/bin/ralph -C '/home/me/my 100\\% \"odd\" \
                    & $HOME'\\''s\\' --graph '/home/me/other graph.yaml' schedule --due \
                    >>/home/me/x/.git/ralph/schedule/log 2>&1";
        assert_eq!(crontab.lines().nth(1), Some(line));
    }

    #[test]
    fn a_service_of_the_machine_names_its_user() {
        let unit = Start { user: Some("1000".to_owned()), ..start() }.systemd().unwrap();
        assert!(unit.contains("\nUser=1000\n") && unit.contains("WantedBy=multi-user.target"));
    }

    #[test]
    fn text_that_cannot_be_quoted_is_refused() {
        let odd = Start { program: "/opt/\"x\"/ralph".to_owned(), ..start() };
        assert!(odd.systemd().unwrap_err().contains("move it"));
        let long = Start { path: "/a".repeat(500), ..start() };
        assert!(long.crontab().unwrap_err().contains("make `PATH` shorter"));
        let odd = Start { root: "/a\nb".to_owned(), ..start() };
        assert!(odd.check().unwrap_err().starts_with("`/a\\nb` contains a control character"));
        assert_eq!(start().check(), Ok(()));
    }

    #[test]
    fn a_name_is_unique_per_folder() {
        assert_eq!(start().name(), "ralph-my-100---odd-----home-s--ddadc1a1");
        let other = Start { root: "/srv/b".to_owned(), ..start() };
        let third = Start { root: "/home/b".to_owned(), ..start() };
        assert!(other.name().starts_with("ralph-b-") && other.name() != third.name());
    }
}
