//! `ralph schedule install` and `uninstall`: the files for service managers, and that nothing else
//! changes. Scripts that record their arguments replace the programs of the service managers.

use std::{fs, path::Path, process::Command};

use crate::support::{RALPH, TestProject};

const SETTINGS: &str = "schedule: {cron: 0 */4 * * *, time_zone: Europe/Berlin, run: [-q]}\n";

/// A `crontab` with a file in the project's folder and the messages of Debian's.
const CRONTAB: &str = r#"kept="$TRIAL_DIR/crontab"
case "$1" in
    -l) [ -e "$kept" ] || { echo "no crontab for tess" >&2; exit 1; }; cat "$kept" ;;
    -) cat > "$kept" ;;
    *) exit 2 ;;
esac"#;

/// A service manager that records its arguments, and fails if the file `broken` exists.
const KEEPER: &str = r#"echo "$(basename "$0") $*" >> "$TRIAL_DIR/told"
[ ! -e "$TRIAL_DIR/broken" ] || { echo "no bus here" >&2; exit 1; }"#;

fn stage() -> TestProject {
    let trial = TestProject::new().file(".ralph/config.yaml", SETTINGS);
    let bin = trial.dir().join("bin");
    for (name, text) in [("crontab", CRONTAB), ("systemctl", KEEPER)] {
        trial.script(&bin.join(name), text);
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    trial.env("PATH", &path)
}

/// The recorded arguments since the last call.
fn told(trial: &TestProject) -> String {
    let text = fs::read_to_string(trial.sign("told")).unwrap_or_default();
    let _ = fs::remove_file(trial.sign("told"));
    trial.redact(&text)
}

/// All units in the test's home, by name.
fn kept(trial: &TestProject) -> Vec<String> {
    let found = fs::read_dir(trial.dir().join(".config/systemd/user"));
    let mut names: Vec<String> = found
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path().strip_prefix(trial.dir()).unwrap().display().to_string())
        .collect();
    names.sort();
    names
}

fn name(trial: &TestProject) -> String {
    let line = trial.run(["schedule", "install", "--cron", "--print"]).out();
    line.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn printing_touches_nothing() {
    let trial = stage();
    let before = trial.everything();
    let unit = trial.run(["schedule", "install", "--systemd", "--user", "--print"]).whole();
    assert!(unit.contains("would write [trial]/.config/systemd/user/ralph-repo-"), "{unit}");
    assert!(unit.contains("ExecStart=:\"[ralph]\" \"-C\" \"[repo]\" \"schedule\"\n"), "{unit}");
    let list = trial.run(["schedule", "install", "--launchd", "--user", "--print"]).whole();
    assert!(list.contains("<string>[repo]</string>\n    <string>schedule</string>"), "{list}");
    let line = trial.run(["schedule", "install", "--cron", "--print"]).out();
    assert!(line.contains(" [ralph] -C [repo] schedule --due >>[repo]/.git/ralph/"), "{line}");
    assert_eq!(trial.everything(), before);
    assert!(kept(&trial).is_empty() && told(&trial).is_empty());
    // System units run as the owner of the repository.
    let unit = trial.run(["schedule", "install", "--systemd", "--print"]).whole();
    assert!(unit.contains("would write /etc/systemd/system/ralph-repo-"), "{unit}");
}

#[test]
fn a_service_of_systemd_comes_and_goes() {
    let trial = stage();
    let name = name(&trial);
    let unit = format!(".config/systemd/user/{name}.service");
    let install = || trial.run(["schedule", "install", "--systemd", "--user"]);
    install().stdout(&format!(
        "wrote [trial]/{unit}\nran systemctl --user daemon-reload\nran systemctl --user enable \
         {name}.service\nran systemctl --user restart {name}.service\nit runs while you are logged in; `loginctl enable-linger` keeps it running\n"
    ));
    assert_eq!(kept(&trial), [unit.as_str()]);
    assert_eq!(told(&trial).lines().count(), 3);
    install().stdout(&format!("[trial]/{unit} is already installed and current\n"));
    assert_eq!(told(&trial), "");

    let path = trial.dir().join(&unit);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("WatchdogSec=2min", "WatchdogSec=1min")).unwrap();
    install().stdout_has(&format!("wrote [trial]/{unit}\n"));
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "as it should be");
    told(&trial);

    let links = trial.dir().join(".config/systemd/user/default.target.wants");
    fs::create_dir(&links).unwrap();
    std::os::unix::fs::symlink(&path, links.join(format!("{name}.service"))).unwrap();
    std::os::unix::fs::symlink("/other", links.join("other.service")).unwrap();
    trial.run(["schedule", "uninstall"]).stdout(&format!(
        "ran systemctl --user disable --now {name}.service\nremoved [trial]/{unit}\nran systemctl \
         --user daemon-reload\n"
    ));
    assert_eq!(told(&trial).lines().last(), Some("systemctl --user daemon-reload"));
    let left: Vec<_> = fs::read_dir(&links).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["other.service"]);
    trial.run(["schedule", "uninstall"]).stdout("no service is installed for this repository\n");
    assert_eq!(told(&trial), "");
}

#[test]
fn a_missing_service_manager_is_reported() {
    let trial = stage();
    let name = name(&trial);
    trial.leave("broken");
    trial.run(["schedule", "install", "--systemd", "--user"]).code(1).stdout_has("wrote ").stderr(
        "ralph: error: the unit is written, but `systemctl --user daemon-reload` failed: no bus here \
         (exit status: 1); run it where it works, or run `ralph schedule uninstall`\n",
    );
    trial.run(["schedule", "uninstall"]).stdout_has(&format!(
        "warning: `systemctl --user disable --now {name}.service` failed: no bus here (exit status: \
         1)\nremoved [trial]/.config/systemd/user/{name}.service\n"
    ));
    assert!(kept(&trial).is_empty());
    let nowhere = trial.env("PATH", "/nowhere");
    let said = "ralph: error: `systemctl` is not on PATH; `--print` prints the unit instead\n";
    nowhere.run(["schedule", "install", "--systemd", "--user"]).code(1).stderr(said);
    assert!(kept(&nowhere).is_empty());
}

#[test]
fn a_foreign_file_is_left_alone() {
    let trial = stage();
    let unit = format!(".config/systemd/user/{}.service", name(&trial));
    trial.write(&format!("../{unit}"), "[Unit]\n");
    let refused =
        format!("ralph: error: `[trial]/{unit}` exists and was not written by `ralph`; move it\n");
    trial.run(["schedule", "install", "--systemd", "--user"]).code(1).stderr(&refused);
    trial.run(["schedule", "uninstall"]);
    assert_eq!(trial.read(&format!("../{unit}")), "[Unit]\n");
    assert_eq!(told(&trial), "");
}

#[test]
fn an_agent_of_launchd_is_printed() {
    let trial = stage();
    let name = name(&trial);
    let ran = trial.run(["schedule", "install", "--launchd", "--user"]);
    let ran = ran.stdout_has(&format!("<key>Label</key>\n  <string>{name}</string>"));
    let file = format!("~/Library/LaunchAgents/{name}.plist");
    ran.stderr_has(&format!("launchctl bootstrap gui/$(id -u) {file}"));
    assert!(kept(&trial).is_empty() && told(&trial).is_empty());
    assert!(trial.state().join("schedule").is_dir(), "for its output");
}

#[test]
fn what_the_crontab_says_is_what_a_shell_runs() {
    let trial = stage();
    let odd = trial.dir().join("odd 100% 'x' $HOME \"y\"");
    fs::rename(trial.root(), &odd).unwrap();
    let process = |program: &str| {
        let mut command = Command::new(program);
        command.env_clear().envs(trial.variables());
        command
    };
    let install = process(RALPH)
        .arg("-C")
        .arg(&odd)
        .args(["schedule", "install", "--cron"])
        .output()
        .unwrap();
    assert!(install.status.success());
    let crontab = String::from_utf8(install.stdout).unwrap();
    let line = crontab.lines().nth(1).unwrap().strip_prefix("* * * * * ").unwrap();
    let line = line.replace("\\%", "%");
    assert!(process("sh").args(["-c", &line]).status().unwrap().success());
    let said = fs::read_to_string(odd.join(".git/ralph/schedule/log")).unwrap();
    assert!(said.contains("  next wake "), "{said}");
}

#[test]
fn systemd_understands_the_unit() {
    let there = Command::new("systemd-analyze").arg("--version").output().is_ok();
    if !there {
        println!("not tested: there is no systemd-analyze");
        return;
    }
    let trial = stage();
    let odd = trial.dir().join("odd 100% 'x' $HOME \"y\" \\");
    fs::rename(trial.root(), &odd).unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(RALPH);
        command.env_clear().envs(trial.variables()).arg("-C").arg(&odd).args(words);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    for (at, scope) in [&["--user"][..], &[]].into_iter().enumerate() {
        let unit = run(&[&["schedule", "install", "--systemd", "--print"], scope].concat());
        let path = trial.dir().join(format!("ralph-{at}.service"));
        fs::write(&path, &unit).unwrap();
        assert_eq!(verify(&trial, &path), "", "{unit}");
    }
    // systemd would report an error.
    let unit = run(&["schedule", "install", "--systemd", "--print"]);
    let path = trial.dir().join("wrong.service");
    fs::write(&path, unit.replace("WatchdogSec", "WatchdogSeconds")).unwrap();
    assert!(verify(&trial, &path).contains("Unknown key"));
}

/// The messages about this unit; other units of this machine may have errors.
fn verify(trial: &TestProject, path: &Path) -> String {
    let mut command = trial.process("systemd-analyze");
    command.current_dir(trial.dir()).arg("verify").arg(path);
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    said.lines().filter(|line| line.contains(name)).collect()
}

#[test]
fn the_machine_takes_root() {
    if rustix::process::geteuid().is_root() {
        println!("not tested: this is root, for whom it would be written");
        return;
    }
    let message = "ralph: error: a service for the machine needs root; pass `--user`, or run this with `sudo`\n";
    stage().run(["schedule", "install", "--systemd"]).code(64).stderr(message);
}

#[test]
fn without_a_schedule_there_is_nothing_to_install() {
    let trial = TestProject::new();
    let message = "ralph: error: no schedule in the settings; add `schedule: \"0 */4 * * *\"` to \
                   `.ralph/config.yaml`\n";
    trial.run(["schedule", "install", "--cron"]).code(64).stderr(message);
    let asked = trial.file(".ralph/config.yaml", "schedule: {trigger: {secret_env: X}}\n");
    let message = "ralph: error: the schedule has no `cron`, and a crontab cannot serve requests\n";
    asked.run(["schedule", "install", "--cron", "--print"]).code(64).stderr(message);
    let trial = asked;
    trial.run(["schedule", "install"]).code(64).stderr_has("<--systemd|--launchd|--cron>");
    trial.run(["schedule", "install", "--cron", "--systemd"]).code(64).stderr_has("cannot be used");
}
