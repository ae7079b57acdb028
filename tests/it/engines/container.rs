//! The command for a container with a real engine.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use ralph::{
    adapters::executor::container,
    core::executor::{
        CarrierFacts, ContainerEngine, ContainerFault, ContainerSettings, Executor, ExecutorKind,
        Resources, SharedPath, carrier_command,
    },
};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    container_engine::{ContainerTool, IMAGE},
    exchange, send,
};
use crate::support::{until, wait_for};

/// A container to be, with a script in the place of a worker.
struct Trial {
    engine: ContainerEngine,
    dir: TempDir,
    mark: String,
}

impl Trial {
    /// `None` without an engine.
    fn with(script: &str) -> Option<Trial> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tool = ContainerTool::find()?;
        let settings = ContainerSettings { engine: Some(tool.program), ..settings() };
        let engine = container::find(&settings).unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("test-{}.a.{number}", std::process::id());
        let dir = tempfile::Builder::new().prefix("container-").tempdir().unwrap();
        let trial = Trial { engine, dir, mark };
        fs::create_dir(trial.slot()).unwrap();
        let file = trial.dir.path().join("ralph");
        fs::write(&file, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Some(trial)
    }

    fn slot(&self) -> PathBuf {
        self.dir.path().join("slot")
    }

    fn start(&self, settings: ContainerSettings, mounts: &[SharedPath]) -> Child {
        let facts = CarrierFacts {
            ralph: &self.dir.path().join("ralph"),
            sent_ralph: None,
            mark: &self.mark,
            home: self.dir.path(),
            slot: &self.slot(),
            mounts,
            resources: &Resources(BTreeMap::new()),
            time_limit: None,
            container: Some(&self.engine),
            slurm_variables: &[],
        };
        let kind = ExecutorKind::Container(settings);
        let argv = carrier_command(&Executor { name: "box".to_owned(), kind }, &facts).unwrap();
        Command::new(&argv[0])
            .args(&argv[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Starts one that must fail, and returns why it did.
    fn fault(&self, settings: ContainerSettings) -> ContainerFault {
        let output = self.start(settings, &[]).wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ContainerFault::of(output.status.code(), &errors).expect("it does not start")
    }

    fn is_there(&self) -> bool {
        container::is_there(&self.engine, &self.mark).unwrap()
    }
}

fn settings() -> ContainerSettings {
    ContainerSettings {
        image: IMAGE.to_owned(),
        engine: None,
        args: vec!["--network=none".to_owned()],
        mounts: Vec::new(),
        env: Vec::new(),
    }
}

#[test]
#[ignore = "slow"]
fn input_output_and_the_exit_code_are_carried_into_a_container() {
    let Some(trial) = Trial::with("echo \"$@\"; cat; echo oops >&2; exit 7\n") else { return };
    let child = trial.start(settings(), &[]);
    let (sent, output) = exchange(child);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "oops\n");
    assert_eq!(output.status.code(), Some(7));
    assert!(output.stdout == [b"__worker\n".as_slice(), &sent].concat(), "bytes are changed");
    until("the container is removed", || !trial.is_there());
}

#[test]
#[ignore = "slow"]
fn a_container_changes_the_slot_as_the_user_and_nothing_else() {
    let script = "touch made; touch \"$1/kept\" 2>/dev/null || echo refused\n\
                  for path in ../read-only/x /usr/local/bin/ralph; do\n\
                  touch \"$path\" 2>/dev/null || echo refused; done; ls /; ls ..\n";
    let Some(trial) = Trial::with(script) else { return };
    let read_only = trial.dir.path().join("read-only");
    fs::create_dir(&read_only).unwrap();
    fs::write(trial.dir.path().join("hidden"), "").unwrap();
    let mounts = [SharedPath { path: read_only.clone(), read_only: true }];
    let output = trial.start(settings(), &mounts).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let own = fs::metadata(trial.dir.path()).unwrap();
    let made = fs::metadata(trial.slot().join("made")).unwrap();
    assert_eq!((made.uid(), made.gid()), (own.uid(), own.gid()));
    assert!(!read_only.join("x").exists());
    assert!(said.matches("refused").count() >= 2, "{said}");
    assert!(!said.contains("hidden"), "{said}");
}

#[test]
#[ignore = "slow"]
fn a_container_ends_with_its_client() {
    let script = "(trap '' TERM; exec sleep 600) & touch there; cat >/dev/null; touch ended\n";
    for signal in [None, Some(Signal::KILL)] {
        let Some(trial) = Trial::with(script) else { return };
        let mut child = trial.start(settings(), &[]);
        wait_for(&trial.slot().join("there"));
        assert!(trial.is_there());
        match signal {
            Some(signal) => send(child.id(), signal),
            None => drop(child.stdin.take()),
        }
        wait_for(&trial.slot().join("ended"));
        child.wait().unwrap();
        until("the container is removed with all processes", || !trial.is_there());
    }
}

#[test]
#[ignore = "slow"]
fn a_container_that_is_left_is_removed_by_its_name() {
    let Some(trial) = Trial::with("trap '' TERM; touch there; while :; do sleep 1; done\n") else {
        return;
    };
    let mut child = trial.start(settings(), &[]);
    wait_for(&trial.slot().join("there"));
    send(child.id(), Signal::KILL);
    child.wait().unwrap();
    // It does not care about the end of its input.
    assert!(trial.is_there());
    assert_eq!(trial.fault(settings()), ContainerFault::NameTaken);
    assert_eq!(container::remove(&trial.engine, &trial.mark), Ok(true));
    assert!(!trial.is_there());
    assert_eq!(container::remove(&trial.engine, &trial.mark), Ok(false));
}

#[test]
#[ignore = "slow"]
fn a_missing_image_mount_program_and_engine_are_told_apart() {
    let Some(trial) = Trial::with("") else { return };
    let with = |change: &dyn Fn(&mut ContainerSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let image = with(&|it| {
        it.image = "localhost/ralph-no-such".to_owned();
        it.args.push("--pull=never".to_owned());
    });
    assert_eq!(trial.fault(image), ContainerFault::NoImage);
    let mount = with(&|it| it.mounts.push("/no/such/folder:/x".to_owned()));
    assert!(matches!(trial.fault(mount), ContainerFault::NoMount(_)));
    fs::write(trial.dir.path().join("ralph"), "#!/no/such/shell\n").unwrap();
    let fault = trial.fault(settings());
    assert!(matches!(fault, ContainerFault::NoProgram(_)), "{fault:?}");
    let named = |engine: &Path| {
        let engine = Some(engine.display().to_string());
        container::find(&ContainerSettings { engine, ..settings() })
    };
    let missing = Path::new("/no/such/engine");
    assert_eq!(named(missing), Err(ContainerFault::NoEngine(Some("/no/such/engine".to_owned()))));
}

#[test]
#[ignore = "slow"]
fn an_engine_without_its_service_is_told_from_one_without_an_image() {
    if super::program("docker").is_none() {
        eprintln!("skipped: there is no docker here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let docker = dir.path().join("docker");
    let script = "#!/bin/sh\nexport DOCKER_HOST=unix:///no/such/socket\nexec docker \"$@\"\n";
    let mut file = fs::File::create(&docker).unwrap();
    file.write_all(script.as_bytes()).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
    drop(file);
    let engine = Some(docker.display().to_string());
    let found = container::find(&ContainerSettings { engine, ..settings() });
    assert_eq!(found, Err(ContainerFault::NoDaemon));
}
