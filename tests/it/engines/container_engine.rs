//! Containers by the podman or docker of this machine, with an image that is made of its own files:
//! nothing is fetched. Image and storage are kept in `target/engines`.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use super::{program, unavailable};
use crate::support::RALPH;

/// The programs of the image, besides what they need.
const PROGRAMS: [&str; 16] = [
    "sh", "cat", "env", "git", "grep", "id", "kill", "ls", "mkdir", "ps", "rm", "setsid", "sleep",
    "stat", "touch", "true",
];

/// The image.
pub const IMAGE: &str = "localhost/ralph-test";

/// A way to run containers, as the `engine` of the settings.
#[derive(Clone, Debug)]
pub struct ContainerTool {
    /// The program.
    pub program: String,
}

impl ContainerTool {
    /// The first engine that runs a container here; `None` if none does.
    pub fn find() -> Option<ContainerTool> {
        static FOUND: OnceLock<Option<ContainerTool>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/engines");
            fs::create_dir_all(&folder).unwrap();
            // Tests of several processes make the image once.
            let lock = File::create(folder.join("lock")).unwrap();
            lock.lock().unwrap();
            forget_another_folder(&folder);
            candidates(&folder).into_iter().map(|program| ContainerTool { program }).find(|tool| {
                tool.make_image(&folder);
                tool.call(&["run", "--rm", IMAGE, "true"]).status.success()
            })
        });
        if found.is_none() {
            unavailable("neither podman nor docker runs a container here");
        }
        found.clone()
    }

    /// Runs the engine.
    pub fn call(&self, words: &[&str]) -> Output {
        Command::new(&self.program).args(words).stdin(Stdio::null()).output().unwrap()
    }

    /// Imports the image if it is not there.
    fn make_image(&self, folder: &Path) {
        if self.call(&["image", "inspect", IMAGE]).status.success() {
            return;
        }
        let root = folder.join("image");
        fill(&root);
        let mut tar = Command::new("tar")
            .arg("-C")
            .arg(&root)
            .args(["-c", "."])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let archive = tar.stdout.take().unwrap();
        let _ = Command::new(&self.program)
            .args(["import", "-", IMAGE])
            .stdin(archive)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        tar.wait().unwrap();
    }
}

/// Removes what podman has stored if the folder was moved or copied: it has its path in it.
fn forget_another_folder(folder: &Path) {
    let (file, path) = (folder.join("path"), folder.display().to_string());
    if fs::read_to_string(&file).is_ok_and(|stored| stored == path) {
        return;
    }
    for name in ["storage", "run", "tmp"] {
        let _ = fs::remove_dir_all(folder.join(name));
    }
    fs::write(file, path).unwrap();
}

/// The engines to try: podman with storage of its own, the same for machines that limit processes
/// or mix the versions of cgroups, and docker.
fn candidates(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    if program("podman").is_some() {
        let place = folder.display();
        let podman = format!(
            "podman --root '{place}/storage' --runroot '{place}/run' --tmpdir '{place}/tmp'"
        );
        let plain = format!("exec {podman} \"$@\"\n");
        let limits =
            "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n";
        fs::write(folder.join("containers.conf"), limits).unwrap();
        let script = format!("umount /sys/fs/cgroup/unified 2>/dev/null; exec {podman} \"$@\"");
        let limited = format!(
            "export CONTAINERS_CONF='{place}/containers.conf'\n\
             exec unshare --mount sh -c '{}' podman \"$@\"\n",
            script.replace('\'', "'\\''")
        );
        for (name, text) in [("podman", plain), ("podman-limited", limited)] {
            let file = folder.join(name);
            // Another process may be running it: replaced, not changed.
            let new = folder.join(format!("{name}.new"));
            fs::write(&new, format!("#!/bin/sh\n{text}")).unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
            fs::rename(&new, &file).unwrap();
            found.push(file.display().to_string());
        }
    }
    if program("docker").is_some() {
        found.push("docker".to_owned());
    }
    found
}

/// Copies programs of this machine with their libraries.
fn fill(root: &Path) {
    let _ = fs::remove_dir_all(root);
    for folder in ["bin", "etc", "tmp", "proc", "sys", "dev", "root", "usr/local/bin"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    let programs = PROGRAMS.iter().filter_map(|name| program(name));
    for file in programs.chain([PathBuf::from(RALPH)]) {
        if file != Path::new(RALPH) {
            fs::copy(&file, root.join("bin").join(file.file_name().unwrap())).unwrap();
        }
        let output = Command::new("ldd").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
            let to = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(library, to).unwrap();
        }
    }
}
