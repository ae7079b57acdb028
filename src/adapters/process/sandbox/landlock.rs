//! Landlock: rules of the Linux kernel for this process and all that it starts.
//!
//! They only allow: to hide a folder, everything next to it is allowed, up to the root. The names in
//! a hidden folder can be listed, its files cannot be read.

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use super::{
    SandboxPaths, SandboxSupport,
    access::{AccessRules, PathAccess},
};
use crate::core::executor::{Network, SandboxEngine, SandboxSettings};

/// The first version of Landlock that keeps signals and abstract sockets inside.
pub(super) const SCOPES: u32 = 6;

/// The first version with rules for sockets with a path.
const SOCKETS: u32 = 9;

/// The gap for later runs of the agent, outside every sandbox.
pub(super) const AGENT_SETTINGS: &str = "the settings of the agent in its own folder can be changed and created: \
    hooks, MCP servers, instructions, skills and plugins, which your next start of the agent obeys";

/// The devices that every program may use.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Tries it.
///
/// # Errors
/// The kernel lacks it, or its version restricts too little.
pub(super) fn probe() -> Result<SandboxSupport, String> {
    let abi = abi();
    if abi < SCOPES {
        let has = if abi == 0 { "no Landlock".to_owned() } else { format!("Landlock {abi}") };
        return Err(format!(
            "the kernel has {has}, and a sandbox needs version {SCOPES} (Linux 6.12), which keeps \
             signals inside; install the package `bubblewrap`"
        ));
    }
    let mut gaps = vec![
        "processes outside, and their command lines, are visible; the limits, the priority and the \
         processors of those of the same user can be changed"
            .to_owned(),
        "the names of hidden files are visible, and so is whether they exist".to_owned(),
        "git's settings and hooks in the slot can be changed; `ralph` writes them again after each \
         process"
            .to_owned(),
        AGENT_SETTINGS.to_owned(),
        "the temporary folder is not `/tmp` but `$TMPDIR`, and `/dev/shm` cannot be used".to_owned(),
    ];
    if abi < SOCKETS {
        gaps.push(
            "sockets with a path can be reached, such as that of an SSH agent or of Docker"
                .to_owned(),
        );
    }
    Ok(SandboxSupport {
        engine: SandboxEngine::Landlock,
        version: abi.to_string(),
        gaps,
        program: PathBuf::new(),
        closes_namespaces: false,
        has_scopes: true,
    })
}

/// Refuses unenforceable settings.
///
/// # Errors
/// The problem and its fix.
pub(super) fn must_hold(
    settings: &SandboxSettings,
    paths: &SandboxPaths,
    rules: &AccessRules,
) -> Result<(), String> {
    if paths.has_terminal && abi() < SOCKETS {
        return refuse("the server of the agent's terminal could be reached");
    }
    must_close(settings)?;
    if fs::canonicalize(&paths.worktree).ok() == fs::canonicalize(&paths.main).ok() {
        return refuse(
            "the attempt works in the checkout, whose hooks and settings it could change",
        );
    }
    for (path, _) in rules.steps().filter(|(_, access)| access.writes()) {
        let hidden = rules.below(path).find(|(_, access)| *access == PathAccess::Hidden);
        if let Some((hidden, _)) = hidden {
            let (hidden, path) = (hidden.display(), path.display());
            return refuse(&format!("`{hidden}` is hidden in `{path}`, which may be changed"));
        }
    }
    if settings.engine == SandboxEngine::Auto
        && abi() < SOCKETS
        && let Some(socket) = reachable_socket(rules)
    {
        return refuse(&format!(
            "the socket `{}` can be reached (`engine: landlock` accepts that)",
            socket.display()
        ));
    }
    Ok(())
}

/// Checks that Landlock can close the network as these settings say.
///
/// # Errors
/// It cannot, and the fix.
pub(super) fn must_close(settings: &SandboxSettings) -> Result<(), String> {
    match settings.network {
        Network::Off => refuse("`network: off`, because its rules are only about TCP"),
        Network::On | Network::Wrapper(_) => Ok(()),
    }
}

fn refuse(what: &str) -> Result<(), String> {
    let remedy = match super::support(SandboxEngine::Bubblewrap) {
        Ok(_) => "set `engine: bubblewrap`, which works here".to_owned(),
        Err(why) => format!("bubblewrap could: {why}"),
    };
    Err(format!("Landlock cannot hold this sandbox: {what}; {remedy}"))
}

/// Returns a socket in a hidden folder to which this user may connect.
fn reachable_socket(rules: &AccessRules) -> Option<PathBuf> {
    /// Sockets are at most this deep in `/run` and `/tmp`.
    const DEPTH: u32 = 3;
    fn find(rules: &AccessRules, path: &Path, depth: u32) -> Option<PathBuf> {
        if !matches!(rules.of_path(path), PathAccess::Hidden | PathAccess::Private) {
            return None;
        }
        let found = fs::symlink_metadata(path).ok()?;
        if found.file_type().is_socket() {
            let writes = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
            return writes.then(|| path.to_owned());
        }
        if !found.is_dir() || depth == 0 {
            return None;
        }
        fs::read_dir(path).ok()?.flatten().find_map(|entry| find(rules, &entry.path(), depth - 1))
    }
    let closed = |access| matches!(access, PathAccess::Hidden | PathAccess::Private);
    rules
        .steps()
        .filter(|(_, access)| closed(*access))
        .find_map(|(path, _)| find(rules, path, DEPTH))
}

/// Makes the temporary folder of an attempt, next to its record.
///
/// # Errors
/// Errors of the disk.
pub(super) fn make_scratch(record: &Path) -> Result<PathBuf, String> {
    let folder = record.with_extension("tmpdir");
    fs::create_dir_all(&folder)
        .map_err(|error| format!("create `{}`: {error}", folder.display()))?;
    Ok(folder)
}

/// The allowed paths, each with everything in it.
#[derive(Debug, Default, PartialEq, Eq)]
struct AllowedPaths {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl AllowedPaths {
    fn of(rules: &AccessRules) -> AllowedPaths {
        let mut allowed = AllowedPaths::default();
        allowed.read_all_in(rules, Path::new("/"));
        // Not a path in another one: a process of the sandbox can put a link in its place.
        let is_in_another =
            |path: &Path| path.parent().is_some_and(|above| rules.of_path(above).writes());
        let written = rules.steps();
        let written = written.filter(|(path, access)| access.writes() && !is_in_another(path));
        allowed.write.extend(written.map(|(path, _)| path.to_owned()));
        allowed.write.extend(DEVICES.iter().map(PathBuf::from));
        allowed
    }

    /// Allows reading a path, except its hidden contents.
    fn read_all_in(&mut self, rules: &AccessRules, path: &Path) {
        let closed = |access| matches!(access, PathAccess::Hidden | PathAccess::Private);
        let is_dev = path == Path::new("/dev");
        if is_dev {
            self.read.extend(DEVICES.iter().map(PathBuf::from));
        }
        if is_dev || closed(rules.of_path(path)) {
            let open = rules.below(path).filter(|(_, access)| !closed(*access));
            for (path, _) in open.collect::<Vec<_>>() {
                self.read_all_in(rules, path);
            }
            return;
        }
        let has_devices = path == Path::new("/");
        if !has_devices && !rules.below(path).any(|(_, access)| closed(access)) {
            self.read.push(path.to_owned());
            return;
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            // A link is as open as its target.
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.read_all_in(rules, &entry.path());
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use landlock::{
        ABI, Access, AccessFs, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr,
        RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    };

    use rustix::thread::{
        CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
    };

    use super::{AccessRules, AllowedPaths, Path, PathBuf};

    /// The newest version that this program knows; older kernels do what they can.
    const NEWEST: ABI = ABI::V10;

    /// The version of the kernel; 0 without Landlock.
    pub(in crate::adapters::process::sandbox) fn abi() -> u32 {
        // The restriction is that of a thread that ends.
        let tried = std::thread::spawn(|| -> Option<u32> {
            let rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST)).ok()?;
            let status = rules.create().ok()?.restrict_self().ok()?;
            match status.landlock {
                LandlockStatus::Available { effective_abi, .. } => Some(effective_abi as u32),
                LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => None,
            }
        });
        tried.join().ok().flatten().unwrap_or(0)
    }

    /// Restricts this thread and its children.
    ///
    /// # Errors
    /// A message for a person.
    pub(in crate::adapters::process::sandbox) fn restrict(
        rules: Option<&AccessRules>,
        scopes: bool,
    ) -> Result<(), String> {
        if rules.is_none() && !scopes {
            return Ok(());
        }
        if rules.is_some() {
            drop_capabilities()?;
        }
        let status = set(rules).map_err(|error| format!("set up Landlock: {error}"))?;
        if status == RulesetStatus::NotEnforced {
            return Err("set up Landlock: the kernel does not enforce it".to_owned());
        }
        Ok(())
    }

    /// Drops root's rights beyond a file owner's: with them, a device or a module of the kernel
    /// leads around every rule. Another user has none of them.
    fn drop_capabilities() -> Result<(), String> {
        for number in 0..64 {
            let one = CapabilitySet::from_bits_retain(1 << number);
            // Only root may, and only root has to.
            let _ = remove_capability_from_bounding_set(one);
        }
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).map_err(|error| format!("drop the rights of root: {error}"))
    }

    fn set(rules: Option<&AccessRules>) -> Result<RulesetStatus, RulesetError> {
        let all = AccessFs::from_all(NEWEST);
        let mut ruleset = Ruleset::default().scope(Scope::from_all(NEWEST))?;
        if rules.is_some() {
            ruleset = ruleset.handle_access(all)?;
        }
        let mut created = ruleset.create()?;
        if let Some(rules) = rules {
            let allowed = AllowedPaths::of(rules);
            let listed = [PathBuf::from("/")];
            created = allow(created, &listed, AccessFs::ReadDir.into())?;
            created = allow(created, &allowed.read, AccessFs::from_read(NEWEST))?;
            let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
            created = allow(created, &allowed.write, all & !devices)?;
        }
        Ok(created.restrict_self()?.ruleset)
    }

    /// Allows this access; skips paths that are gone.
    fn allow(
        mut created: RulesetCreated,
        paths: &[PathBuf],
        access: BitFlags<AccessFs>,
    ) -> Result<RulesetCreated, RulesetError> {
        for path in paths {
            let access =
                if is_folder(path) { access } else { access & AccessFs::from_file(NEWEST) };
            if access.is_empty() {
                continue;
            }
            if let Ok(file) = PathFd::new(path) {
                created = created.add_rule(PathBeneath::new(file, access))?;
            }
        }
        Ok(created)
    }

    fn is_folder(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| found.is_dir())
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::AccessRules;

    pub(in crate::adapters::process::sandbox) fn abi() -> u32 {
        0
    }

    pub(in crate::adapters::process::sandbox) fn restrict(
        _: Option<&AccessRules>,
        _: bool,
    ) -> Result<(), String> {
        Err("a sandbox needs Linux".to_owned())
    }
}

pub(super) use kernel::{abi, restrict};

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, os::unix::net::UnixListener};

    use super::*;

    #[test]
    fn what_is_hidden_is_not_among_what_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for name in [".ssh", "code/.git", "other", "pool"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        let paths = SandboxPaths {
            main: home.join("other"),
            git: home.join("other"),
            worktree: home.join("code"),
            pool: home.join("pool"),
            home: home.clone(),
            ..SandboxPaths::default()
        };
        let settings = SandboxSettings::default();
        let rules = AccessRules::of(&settings, &paths, &BTreeMap::new()).unwrap();
        let allowed = AllowedPaths::of(&rules);
        let is_read = |path: &Path| allowed.read.iter().any(|allowed| path.starts_with(allowed));
        assert!(is_read(&home.join("other/x")) && is_read(Path::new("/etc/hostname")));
        for path in [home.join(".ssh/id"), home.join("pool/2"), "/dev/sda".into(), "/run/x".into()]
        {
            assert!(!is_read(&path), "{}", path.display());
        }
        assert!(allowed.write.contains(&home.join("code")));
        assert!(!allowed.write.contains(&home.join("code/.git")), "a link may take its place");
    }

    #[test]
    fn a_socket_that_can_be_reached_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for name in [".docker/run", "code/.git"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        let socket = home.join(".docker/run/docker.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let mut rules = AccessRules::default();
        assert_eq!(reachable_socket(&rules), None);
        rules.hide(&home.join(".docker")).unwrap();
        assert_eq!(reachable_socket(&rules), Some(socket));
    }
}
