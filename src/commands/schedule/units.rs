//! The text of service definitions: a systemd unit, a launchd property list and a crontab line, each
//! with its own quoting.

use std::time::Duration;

/// The marker in every generated definition.
pub(super) const MARK: &str = "Written by `ralph schedule install`";

/// The watchdog interval of systemd.
const WATCHDOG: &str = "2min";

/// The longest crontab line that every cron accepts.
const LONGEST: usize = 990;

/// The command to start, and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The path of this program.
    pub(super) program: String,
    /// The top folder of the repository.
    pub(super) root: String,
    /// The flags for non-default files, between `-C ROOT` and `schedule`.
    pub(super) named: Vec<String>,
    /// The `PATH` for agents.
    pub(super) path: String,
    /// The user for a service of the machine.
    pub(super) user: Option<String>,
    /// The log file, for service managers without a log.
    pub(super) log: String,
    /// The time limit for stopping, long enough for a running attempt.
    pub(super) patience: Duration,
}

impl Start {
    /// A unique name per repository: the folder name and a hash of its path.
    pub(super) fn name(&self) -> String {
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
    pub(super) fn check(&self) -> Result<(), String> {
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
    pub(super) fn systemd(&self) -> Result<String, String> {
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
        let command = words.join(" ");
        let path = quoted(&format!("PATH={}", self.path));
        let root = self.root.replace('%', "%%");
        let patience = self.patience.as_secs();
        let (user, target) = match &self.user {
            Some(user) => (format!("User={user}\n"), "multi-user.target"),
            None => (String::new(), "default.target"),
        };
        Ok(format!(
            "# {MARK}; `ralph schedule uninstall` removes it.\n\
             # The times are in the settings of the repository. Do not put secrets here: name a file\n\
             # with them as `EnvironmentFile=` in `systemctl edit`.\n\
             [Unit]\n\
             Description=scheduled ralph runs in {root}\n\
             \n\
             [Service]\n\
             Type=notify\n\
             NotifyAccess=main\n\
             # The colon disables variable substitution.\n\
             ExecStart=:{command}\n\
             Environment={path}\n\
             {user}\
             # The watchdog is fed while ralph waits and while the heartbeat of its run is current.\n\
             WatchdogSec={WATCHDOG}\n\
             Restart=on-failure\n\
             RestartSec=30s\n\
             # A restart does not fix invalid flags or settings.\n\
             RestartPreventExitStatus=64 65\n\
             SuccessExitStatus=129 130 143\n\
             # The first signal goes to ralph only: it ends its run, whose guardian cleans up.\n\
             KillMode=mixed\n\
             TimeoutStopSec={patience}s\n\
             \n\
             [Install]\n\
             WantedBy={target}\n"
        ))
    }

    /// The launchd property list.
    pub(super) fn launchd(&self) -> String {
        let string = |text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            format!("<string>{text}</string>")
        };
        let words: Vec<String> = self.words(&[]).iter().map(|word| string(word)).collect();
        let words = words.join("\n    ");
        let user = self
            .user
            .as_ref()
            .map_or(String::new(), |user| format!("  <key>UserName</key>\n  {}\n", string(user)));
        let (name, path, log) = (string(&self.name()), string(&self.path), string(&self.log));
        let patience = self.patience.as_secs();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <!-- {MARK}; `ralph schedule uninstall` removes it. -->\n\
             <plist version=\"1.0\">\n\
             <dict>\n\
             \x20 <key>Label</key>\n\
             \x20 {name}\n\
             \x20 <key>ProgramArguments</key>\n\
             \x20 <array>\n\
             \x20   {words}\n\
             \x20 </array>\n\
             \x20 <key>EnvironmentVariables</key>\n\
             \x20 <dict>\n\
             \x20   <key>PATH</key>\n\
             \x20   {path}\n\
             \x20 </dict>\n\
             {user}\
             \x20 <key>RunAtLoad</key>\n\
             \x20 <true/>\n\
             \x20 <key>KeepAlive</key>\n\
             \x20 <dict>\n\
             \x20   <key>SuccessfulExit</key>\n\
             \x20   <false/>\n\
             \x20 </dict>\n\
             \x20 <key>ThrottleInterval</key>\n\
             \x20 <integer>30</integer>\n\
             \x20 <key>AbandonProcessGroup</key>\n\
             \x20 <true/>\n\
             \x20 <key>ExitTimeOut</key>\n\
             \x20 <integer>{patience}</integer>\n\
             \x20 <key>StandardOutPath</key>\n\
             \x20 {log}\n\
             \x20 <key>StandardErrorPath</key>\n\
             \x20 {log}\n\
             </dict>\n\
             </plist>\n"
        )
    }

    /// The crontab lines, including markers.
    ///
    /// # Errors
    /// A line that is too long for cron.
    pub(super) fn crontab(&self) -> Result<String, String> {
        let words: Vec<String> = self.words(&["--due"]).iter().map(|word| quoted(word)).collect();
        let line = format!(
            "* * * * * PATH={} {} >>{} 2>&1",
            quoted(&self.path),
            words.join(" "),
            quoted(&self.log)
        );
        // cron ends the command at a percent sign.
        let line = line.replace('%', r"\%");
        if line.len() > LONGEST {
            return Err(format!(
                "the line would have {} characters, but cron accepts {LONGEST}; make `PATH` shorter",
                line.len()
            ));
        }
        let (begin, end) = self.markers();
        Ok(format!("{begin}\n{line}\n{end}\n"))
    }

    fn markers(&self) -> (String, String) {
        let name = self.name();
        (format!("# {MARK}: {name}"), format!("# End of {name}"))
    }

    /// The parts of a crontab before and after the lines of this repository. `None` without such lines.
    ///
    /// # Errors
    /// A missing end marker.
    pub(super) fn cut<'a>(&self, crontab: &'a str) -> Result<Option<(&'a str, &'a str)>, String> {
        let (begin, end) = self.markers();
        let Some(start) = find_line(crontab, &begin) else {
            return Ok(None);
        };
        let Some(stop) = find_line(&crontab[start..], &end) else {
            return Err(format!(
                "the crontab has the line `{begin}` but not its end marker `{end}`; correct it with \
                 `crontab -e`"
            ));
        };
        let stop = start + stop + end.len();
        let rest = &crontab[stop..];
        Ok(Some((&crontab[..start], rest.strip_prefix('\n').unwrap_or(rest))))
    }
}

/// The offset of this line.
fn find_line(text: &str, line: &str) -> Option<usize> {
    let mut start = 0;
    for candidate in text.split_inclusive('\n') {
        if candidate.trim_end_matches('\n') == line {
            return Some(start);
        }
        start += candidate.len();
    }
    None
}

/// A word quoted for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
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
        let list = Start { user: Some("me".to_owned()), ..start() }.launchd();
        assert!(list.contains("<key>UserName</key>\n  <string>me</string>"), "{list}");
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

    #[test]
    fn only_the_lines_of_this_repository_are_cut_from_a_crontab() {
        let (start, other) = (start(), Start { root: "/srv/b".to_owned(), ..start() });
        let (own, others) = (start.crontab().unwrap(), other.crontab().unwrap());
        let before = "MAILTO=me\n# a\n";
        for after in ["", "\n", "0 1 * * * x", &others] {
            let crontab = format!("{before}{own}{after}");
            assert_eq!(start.cut(&crontab), Ok(Some((before, after))));
            assert_eq!(start.cut(&format!("{before}{after}")), Ok(None));
        }
        let first = own.lines().next().unwrap();
        assert!(start.cut(first).unwrap_err().contains("`crontab -e`"));
    }
}
