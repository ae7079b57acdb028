//! The command for an ssh host with a real `ssh` and a real `sshd`.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use ralph::{
    adapters::executor::ssh::send_program,
    core::executor::{
        CarrierFacts, Executor, ExecutorKind, Resources, SshSettings, carrier_command,
    },
};

use super::{exchange, ssh_host::SshHost};
use crate::support::{RALPH, until, wait_for};

/// The carrier command for these settings.
fn carrier(settings: SshSettings) -> Command {
    let facts = CarrierFacts {
        ralph: Path::new("/nowhere/ralph"),
        sent_ralph: None,
        mark: "r1.a.2",
        home: Path::new("/nowhere"),
        slot: Path::new("/nowhere"),
        mounts: &[],
        resources: &Resources(BTreeMap::new()),
        time_limit: None,
        container: None,
        slurm_variables: &[],
    };
    let executor = Executor { name: "far".to_owned(), kind: ExecutorKind::Ssh(settings) };
    let argv = carrier_command(&executor, &facts).unwrap();
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]);
    command
}

/// Puts a shell script in the place of a worker.
fn worker(host: &SshHost, path: &str, script: &str) {
    let file = host.home().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[ignore = "slow"]
fn input_output_and_the_exit_code_are_carried() {
    let Some(host) = SshHost::start() else { return };
    worker(&host, ".local/bin/ralph", "echo \"$@\"; cat; echo oops >&2; exit 7\n");
    let child = carrier(host.settings())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("SECRET", "hunter2")
        .spawn()
        .unwrap();
    let (sent, output) = exchange(child);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "oops\n");
    assert!(output.stdout == [b"__worker\n".as_slice(), &sent].concat(), "bytes are changed");
    host.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn the_path_of_the_program_may_have_a_home_folder_spaces_and_quotes() {
    let Some(host) = SshHost::start() else { return };
    let absolute = host.home().join("it's $HOME `here`; \"there\"/ralph").display().to_string();
    for (path, setting) in [
        ("my bin/ralph", "~/my bin/ralph"),
        ("it's $HOME `here`; \"there\"/ralph", absolute.as_str()),
    ] {
        worker(&host, path, "echo \"here: $0 $1\"\n");
        let settings = SshSettings { ralph: Some(setting.to_owned()), ..host.settings() };
        let output = carrier(settings).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, format!("here: {} __worker\n", host.home().join(path).display()));
    }
}

#[test]
#[ignore = "slow"]
fn every_login_shell_reads_the_command_alike() {
    let odd = "it's $HOME `here`; \"there\" ~ * {a,b} (x) <y> | & % ^ = [z]";
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(odd);
    fs::create_dir(&folder).unwrap();
    let program = folder.join("ralph");
    fs::write(&program, "#!/bin/sh\necho \"here: $0 $1\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = SshSettings {
        host: "x".to_owned(),
        args: Vec::new(),
        dir: None,
        env: Vec::new(),
        ralph: Some(program.display().to_string()),
        send_binary: false,
    };
    let command = carrier(settings);
    // What sshd gives to the login shell.
    let word = command.get_args().last().unwrap();
    let mut tried = 0;
    for shell in ["sh", "dash", "bash", "zsh", "mksh", "ksh", "fish", "tcsh", "csh"] {
        let Some(shell) = super::program(shell) else { continue };
        let output = Command::new(&shell).arg("-c").arg(word).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("here: {} __worker\n", program.display());
        assert_eq!(said, expected, "{}: {errors}", shell.display());
        tried += 1;
    }
    println!("{tried} shells tried");
}

#[test]
#[ignore = "slow"]
fn a_missing_program_a_refused_connection_and_an_unknown_key_are_told_apart() {
    let Some(host) = SshHost::start() else { return };
    let said = |settings: SshSettings| {
        let output = carrier(settings).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, errors) = said(SshSettings { ralph: Some("/no/ralph".into()), ..host.settings() });
    assert_eq!(code, Some(127), "{errors}");
    host.refuse(true);
    let (code, errors) = said(host.settings());
    assert_eq!(code, Some(255), "{errors}");
    host.refuse(false);
    let mut strange = host.settings();
    strange.args.extend(["-o".to_owned(), "UserKnownHostsFile=/dev/null".to_owned()]);
    let (code, errors) = said(strange);
    assert_eq!(code, Some(255), "{errors}");
    assert!(errors.contains("verification failed"), "{errors}");
}

/// A worker that ends with its input, and says so in its home folder.
const ENDS_WITH_ITS_INPUT: &str =
    "sleep 600 & touch \"$HOME/there\"; cat >/dev/null; kill $!; touch \"$HOME/ended\"\n";

#[test]
#[ignore = "slow"]
fn the_worker_there_notices_that_the_connection_is_cut() {
    let Some(host) = SshHost::start() else { return };
    worker(&host, ".local/bin/ralph", ENDS_WITH_ITS_INPUT);
    let mut child = carrier(host.settings()).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(&host.home().join("there"));
    host.cut();
    wait_for(&host.home().join("ended"));
    assert_eq!(child.wait().unwrap().code(), Some(255));
    host.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn the_worker_there_notices_that_ssh_was_killed() {
    let Some(host) = SshHost::start() else { return };
    worker(&host, ".local/bin/ralph", ENDS_WITH_ITS_INPUT);
    let mut child = carrier(host.settings()).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(&host.home().join("there"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(&host.home().join("ended"));
    host.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_network_that_loses_everything_ends_the_connection_here() {
    let Some(host) = SshHost::start() else { return };
    worker(&host, ".local/bin/ralph", ENDS_WITH_ITS_INPUT);
    let mut settings = host.settings();
    for option in ["ServerAliveInterval=1", "ServerAliveCountMax=1"] {
        settings.args.extend(["-o".to_owned(), option.to_owned()]);
    }
    let mut child = carrier(settings).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(&host.home().join("there"));
    host.stop();
    assert_eq!(child.wait().unwrap().code(), Some(255));
    assert!(!host.home().join("ended").exists(), "the worker there cannot know it yet");
    host.go_on();
    wait_for(&host.home().join("ended"));
    host.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_stalled_connection_goes_on_where_it_was() {
    let Some(host) = SshHost::start() else { return };
    worker(&host, ".local/bin/ralph", "touch \"$HOME/there\"; read line; echo \"got $line\"\n");
    let mut child =
        carrier(host.settings()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait_for(&host.home().join("there"));
    host.stop();
    child.stdin.as_mut().unwrap().write_all(b"this\n").unwrap();
    until("the server is stopped", || child.try_wait().unwrap().is_none());
    host.go_on();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "got this\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(host.connections(), 1, "{}", host.log());
}

/// The programs that were sent to a host.
fn programs(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
#[ignore = "slow"]
fn the_program_is_sent_once_over_one_connection() {
    let Some(host) = SshHost::start() else { return };
    let path = send_program(&host.settings(), Path::new(RALPH)).unwrap();
    let sent = Path::new(&path);
    assert!(sent.starts_with(host.home().join(".cache/ralph/bin")), "{path}");
    assert!(fs::read(sent).unwrap() == fs::read(RALPH).unwrap());
    let made = fs::metadata(sent).unwrap().modified().unwrap();
    assert_eq!(send_program(&host.settings(), Path::new(RALPH)), Ok(path.clone()));
    assert_eq!(fs::metadata(sent).unwrap().modified().unwrap(), made);
    assert_eq!(host.connections(), 2);
    // One that was damaged is replaced.
    fs::write(sent, "").unwrap();
    assert_eq!(send_program(&host.settings(), Path::new(RALPH)), Ok(path.clone()));
    assert!(fs::read(sent).unwrap() == fs::read(RALPH).unwrap());
    let dir = host.home().join("other place").display().to_string();
    let settings = SshSettings { dir: Some(dir.clone()), ..host.settings() };
    let other = send_program(&settings, Path::new(RALPH)).unwrap();
    assert!(other.starts_with(&format!("{dir}/bin/ralph-")), "{other}");
    host.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_program_that_does_not_run_or_does_not_arrive_is_not_kept() {
    let Some(host) = SshHost::start() else { return };
    let folder = host.home().join(".cache/ralph/bin");
    let broken = host.home().join("broken");
    fs::write(&broken, "#!/bin/sh\necho no library >&2\nexit 1\n").unwrap();
    let error = send_program(&host.settings(), &broken).unwrap_err();
    assert!(error.why.ends_with("no library"), "{error:?}");
    assert!(programs(&folder).is_empty(), "{:?}", programs(&folder));
    // The connection is cut in between: a large program, and a host that is slow to read it.
    let large = host.home().join("large");
    fs::write(&large, vec![b'x'; 64 << 20]).unwrap();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            until("it is being received", || !programs(&folder).is_empty());
            host.stop();
            host.cut();
            host.go_on();
        });
        send_program(&host.settings(), &large).unwrap_err()
    });
    assert!(error.why.starts_with("cannot send ralph to `elsewhere`: "), "{error:?}");
    until("the part is removed", || programs(&folder).is_empty());
    host.refuse(true);
    send_program(&host.settings(), Path::new(RALPH)).unwrap_err();
    host.nothing_is_left();
}
