//! What the system's own keepers of processes are told, as text: a unit of systemd, a property list
//! of launchd, a line of a crontab. Each in the quoting of its reader, since folders have any name.

use std::time::Duration;

/// What every one of these texts has in it, and nothing else of the system has.
pub(super) const MARK: &str = "Written by `ralph schedule install`";

/// How often systemd wants to hear that all is well.
const WATCHDOG: &str = "2min";

/// The longest line of a crontab that every cron takes whole.
const LONGEST: usize = 990;

/// What is to be started, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// This program.
    pub(super) program: String,
    /// The top of the work tree.
    pub(super) root: String,
    /// The words between `-C ROOT` and `schedule`: what was named in place of files.
    pub(super) named: Vec<String>,
    /// The `PATH` on which agents are found.
    pub(super) path: String,
    /// The user for whom a keeper of the whole machine starts it.
    pub(super) user: Option<String>,
    /// What it says, where the keeper keeps no log.
    pub(super) log: String,
    /// How long it may take to end: as long as an attempt is let go on, and then some.
    pub(super) patience: Duration,
}

impl Start {
    /// A name that no other repository's has: that of the folder, and a number made of its path.
    pub(super) fn name(&self) -> String {
        let folder = self.root.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let folder: String = folder.chars().map(plain).take(40).collect();
        // FNV-1a: the number must be the same in every later version.
        let number = self.root.bytes().fold(0x811c_9dc5_u32, |number, byte| {
            (number ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        format!("ralph-{folder}-{number:08x}")
    }

    /// What no quoting can carry.
    ///
    /// # Errors
    /// In words for a person.
    pub(super) fn check(&self) -> Result<(), String> {
        let texts = [&self.program, &self.root, &self.path, &self.log];
        for text in texts.into_iter().chain(&self.named) {
            if text.contains(char::is_control) {
                let shown = text.escape_debug();
                return Err(format!("`{shown}` has a control character in it; rename it"));
            }
        }
        Ok(())
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let fixed = [self.program.as_str(), "-C", &self.root].into_iter().map(str::to_owned);
        let more = more.iter().map(|word| (*word).to_owned());
        fixed.chain(self.named.iter().cloned()).chain(["schedule".to_owned()]).chain(more).collect()
    }

    /// A unit of systemd.
    ///
    /// # Errors
    /// The program lies where systemd starts none.
    pub(super) fn systemd(&self) -> Result<String, String> {
        if self.program.contains(['"', '\'', '\\']) {
            return Err(format!(
                "systemd starts no program with a quote or backslash in its path, as in `{}`; put \
                 it elsewhere",
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
             # When runs are started is in the settings of the repository. Secrets are not in here:\n\
             # name a file of them by `EnvironmentFile=` in `systemctl edit`.\n\
             [Unit]\n\
             Description=ralph in {root} by the clock\n\
             \n\
             [Service]\n\
             Type=notify\n\
             NotifyAccess=main\n\
             # The colon: a dollar is a dollar.\n\
             ExecStart=:{command}\n\
             Environment={path}\n\
             {user}\
             # It says so as long as it waits, and as long as the heartbeat of its run beats.\n\
             WatchdogSec={WATCHDOG}\n\
             Restart=on-failure\n\
             RestartSec=30s\n\
             # Wrong flags and settings do not mend themselves.\n\
             RestartPreventExitStatus=64 65\n\
             SuccessExitStatus=129 130 143\n\
             # The first signal is for it alone: it ends its run, whose guardian cleans up.\n\
             KillMode=mixed\n\
             TimeoutStopSec={patience}s\n\
             \n\
             [Install]\n\
             WantedBy={target}\n"
        ))
    }

    /// A property list of launchd.
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

    /// The lines of a crontab, markers included.
    ///
    /// # Errors
    /// They would be longer than cron takes.
    pub(super) fn crontab(&self) -> Result<String, String> {
        let words: Vec<String> = self.words(&["--due"]).iter().map(|word| quoted(word)).collect();
        let line = format!(
            "* * * * * PATH={} {} >>{} 2>&1",
            quoted(&self.path),
            words.join(" "),
            quoted(&self.log)
        );
        // To cron a percent sign is the end of the command.
        let line = line.replace('%', r"\%");
        if line.len() > LONGEST {
            return Err(format!(
                "the line would have {} characters, and cron takes {LONGEST}; make `PATH` shorter",
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

    /// A crontab without the lines of this repository; none if there are none.
    ///
    /// # Errors
    /// The end of them is missing.
    pub(super) fn cut<'a>(&self, crontab: &'a str) -> Result<Option<(&'a str, &'a str)>, String> {
        let (begin, end) = self.markers();
        let Some(start) = find_line(crontab, &begin) else {
            return Ok(None);
        };
        let Some(stop) = find_line(&crontab[start..], &end) else {
            return Err(format!(
                "the crontab has the line `{begin}`, and not the one that ends its lines, `{end}`; \
                 remove them with `crontab -e`"
            ));
        };
        let stop = start + stop + end.len();
        let rest = &crontab[stop..];
        Ok(Some((&crontab[..start], rest.strip_prefix('\n').unwrap_or(rest))))
    }
}

/// Where this very line begins.
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

/// A word for a shell.
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
    fn every_reader_gets_its_own_quoting() {
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
    fn a_unit_of_the_machine_names_its_user() {
        let unit = Start { user: Some("1000".to_owned()), ..start() }.systemd().unwrap();
        assert!(unit.contains("\nUser=1000\n") && unit.contains("WantedBy=multi-user.target"));
        let list = Start { user: Some("me".to_owned()), ..start() }.launchd();
        assert!(list.contains("<key>UserName</key>\n  <string>me</string>"), "{list}");
    }

    #[test]
    fn what_cannot_be_carried_is_refused() {
        let odd = Start { program: "/opt/\"x\"/ralph".to_owned(), ..start() };
        assert!(odd.systemd().unwrap_err().contains("put it elsewhere"));
        let long = Start { path: "/a".repeat(500), ..start() };
        assert!(long.crontab().unwrap_err().contains("make `PATH` shorter"));
        let odd = Start { root: "/a\nb".to_owned(), ..start() };
        assert!(odd.check().unwrap_err().starts_with("`/a\\nb` has a control character"));
        assert_eq!(start().check(), Ok(()));
    }

    #[test]
    fn a_name_is_of_one_folder() {
        assert_eq!(start().name(), "ralph-my-100---odd-----home-s--ddadc1a1");
        let other = Start { root: "/srv/b".to_owned(), ..start() };
        let third = Start { root: "/home/b".to_owned(), ..start() };
        assert!(other.name().starts_with("ralph-b-") && other.name() != third.name());
    }

    #[test]
    fn its_own_lines_are_cut_out_of_a_crontab_and_no_others() {
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
