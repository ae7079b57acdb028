//! `ralph schedule install`: the services that it prints, and that nothing else changes.

use std::{fs, path::Path, process::Command};

use crate::support::{RALPH, TestProject};

const SETTINGS: &str = "schedule: {cron: 0 */4 * * *, time_zone: Europe/Berlin, run: [-q]}\n";

fn stage() -> TestProject {
    TestProject::new().file(".ralph/config.yaml", SETTINGS)
}

fn name(trial: &TestProject) -> String {
    let line = trial.run(["schedule", "install", "--cron"]).out();
    line.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn a_unit_of_systemd_is_printed_and_nothing_is_touched() {
    let trial = stage();
    let name = name(&trial);
    let before = trial.everything();
    let unit = trial.run(["schedule", "install", "--systemd", "--user"]);
    let unit = unit.stdout_has("ExecStart=:\"[ralph]\" \"-C\" \"[repo]\" \"schedule\"\n");
    unit.stderr(&format!(
        "save this as ~/.config/systemd/user/{name}.service, and start it with `systemctl --user \
         daemon-reload && systemctl --user enable --now {name}`\n"
    ));
    // System units run as the owner of the repository.
    let unit = trial.run(["schedule", "install", "--systemd"]);
    unit.stderr_has(&format!("/etc/systemd/system/{name}.service"));
    assert_eq!(trial.everything(), before);
}

#[test]
fn an_agent_of_launchd_is_printed() {
    let trial = stage();
    let name = name(&trial);
    let ran = trial.run(["schedule", "install", "--launchd", "--user"]);
    let ran = ran.stdout_has(&format!("<key>Label</key>\n  <string>{name}</string>"));
    let file = format!("~/Library/LaunchAgents/{name}.plist");
    ran.stderr_has(&format!("launchctl bootstrap gui/$(id -u) {file}"));
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
        let unit = run(&[&["schedule", "install", "--systemd"], scope].concat());
        let path = trial.dir().join(format!("ralph-{at}.service"));
        fs::write(&path, &unit).unwrap();
        assert_eq!(verify(&trial, &path), "", "{unit}");
    }
    // systemd would report an error.
    let unit = run(&["schedule", "install", "--systemd"]);
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
fn without_a_schedule_there_is_nothing_to_install() {
    let trial = TestProject::new();
    let message = "ralph: error: no schedule in the settings; add `schedule: \"0 */4 * * *\"` to \
                   `.ralph/config.yaml`\n";
    trial.run(["schedule", "install", "--cron"]).code(64).stderr(message);
    let asked = trial.file(".ralph/config.yaml", "schedule: {trigger: {secret_env: X}}\n");
    let message = "ralph: error: the schedule has no `cron`, and a crontab cannot serve requests\n";
    asked.run(["schedule", "install", "--cron"]).code(64).stderr(message);
    let trial = asked;
    trial.run(["schedule", "install"]).code(64).stderr_has("<--systemd|--launchd|--cron>");
    trial.run(["schedule", "install", "--cron", "--systemd"]).code(64).stderr_has("cannot be used");
}
