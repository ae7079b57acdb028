//! The access of a sandbox: rules for paths, where the longest match applies.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{SandboxPaths, agent_settings::AgentSettings};
use crate::core::{
    executor::{Network, SandboxSettings},
    sandbox::{
        PRIVATE, SHOWN_OF_RUN, ShownPath, at_home, folders_of, hidden_paths, named, shown_paths,
    },
};

/// The access to a file, or to a folder with everything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PathAccess {
    /// It looks empty.
    Hidden,
    /// A folder of the sandbox alone takes its place.
    Private,
    /// It can be read.
    ReadOnly,
    /// It can be changed.
    Writable,
    /// It can be changed, and stays where it is.
    Anchored,
}

impl PathAccess {
    /// Whether files of the machine can be changed.
    pub(super) fn writes(self) -> bool {
        matches!(self, PathAccess::Writable | PathAccess::Anchored)
    }
}

/// The rules, by canonical paths. Other paths can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccessRules {
    rules: BTreeMap<PathBuf, PathAccess>,
}

impl AccessRules {
    /// Returns the rules of a sandbox. `environment` is that of the process.
    ///
    /// # Errors
    /// A path of the settings is not absolute, or cannot be used; the home folder is not known.
    pub(super) fn of(
        settings: &SandboxSettings,
        paths: &SandboxPaths,
        environment: &BTreeMap<String, String>,
    ) -> Result<AccessRules, String> {
        let home = &paths.home;
        if !home.is_absolute() {
            return Err("`HOME` is not set, so a sandbox cannot hide what is in it".to_owned());
        }
        let mut rules = AccessRules::default();
        let other = paths.environment.get("TMPDIR").map(String::as_str);
        for folder in PRIVATE.iter().copied().chain(other).map(Path::new) {
            if folder.is_absolute() && folder.is_dir() {
                rules.set(folder, PathAccess::Private);
            }
        }
        rules.hide_run(&settings.network);
        rules.show_home(home, environment);
        let shown = [&paths.main, &paths.git, &paths.record].into_iter().chain(&paths.read);
        for path in shown.filter(|path| !is_around(path, home)) {
            rules.set(path, PathAccess::ReadOnly);
        }
        for path in hidden_paths(home, environment) {
            rules.hide(&path)?;
        }
        rules.allow_worktree(paths)?;
        rules.set(&paths.task, PathAccess::Writable);
        rules.allow_agent(paths.agent.as_deref(), home, environment);
        for path in &settings.write {
            let path = named(path, home, "write")?;
            if is_around(&path, home) {
                return Err(format!("`write: [{}]` would show credentials", path.display()));
            }
            if !path.exists() {
                fs::create_dir_all(&path).map_err(|error| {
                    format!("`write` of the sandbox: create `{}`: {error}", path.display())
                })?;
            }
            rules.set(&path, PathAccess::Writable);
        }
        for path in &settings.show {
            rules.show(&named(path, home, "show")?);
        }
        for path in &settings.hide {
            rules.hide(&named(path, home, "hide")?)?;
        }
        rules.hide(&paths.pool)?;
        Ok(rules)
    }

    /// Sets the rule of a path, unless the path does not exist or leads through a link that an
    /// earlier process of the sandbox may have made.
    fn set(&mut self, path: &Path, access: PathAccess) {
        if access != PathAccess::Hidden && !self.is_trusted(path) {
            return;
        }
        if let Ok(path) = fs::canonicalize(path)
            && path != Path::new("/")
        {
            self.rules.insert(path, access);
        }
    }

    /// Hides a file or folder, if it exists and can be reached.
    ///
    /// # Errors
    /// It is there and cannot be hidden.
    pub(super) fn hide(&mut self, path: &Path) -> Result<(), String> {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        let found = match fs::canonicalize(path) {
            Err(error) if [NotFound, NotADirectory, PermissionDenied].contains(&error.kind()) => {
                return Ok(());
            }
            found => found
                .map_err(|error| format!("hide `{}` in the sandbox: {error}", path.display()))?,
        };
        // In a private folder it is absent, unless a part of that is shown.
        let above = found.parent().map(|above| self.of_path(above));
        if above != Some(PathAccess::Private) || self.below(&found).next().is_some() {
            self.rules.insert(found, PathAccess::Hidden);
        } else {
            self.rules.remove(&found);
        }
        Ok(())
    }

    /// Makes the home folder private, except for its shown paths.
    fn show_home(&mut self, home: &Path, environment: &BTreeMap<String, String>) {
        for ShownPath { folder, path, left_out } in shown_paths(home, environment) {
            let Some(left_out) = left_out else {
                self.show_in(&folder, &path, folder == home);
                continue;
            };
            let folder = folder.join(path);
            self.set(&folder, PathAccess::Private);
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            for name in entries.map(|entry| entry.file_name()) {
                if !left_out(&name.to_string_lossy()) {
                    self.show_in(&folder, Path::new(&name), folder == home);
                }
            }
        }
    }

    /// Shows a path in a private folder, whose first part may be a link that a person made.
    fn show_in(&mut self, folder: &Path, path: &Path, may_link: bool) {
        let Ok(folder) = fs::canonicalize(folder) else { return };
        let top = folder.join(path.iter().next().unwrap_or_default());
        let real = if may_link { fs::canonicalize(&top).unwrap_or_default() } else { top };
        let real: PathBuf = real.iter().chain(path.iter().skip(1)).collect();
        if fs::canonicalize(&real).is_ok_and(|found| found == real) {
            self.rules.entry(folder.join(path)).or_insert(PathAccess::ReadOnly);
        }
    }

    /// Whether no link on the way to a path is in a folder that a sandbox may change.
    fn is_trusted(&self, path: &Path) -> bool {
        let mut at = PathBuf::from("/");
        for part in path.components() {
            let next = at.join(part);
            if !fs::symlink_metadata(&next).is_ok_and(|found| found.is_symlink()) {
                at = next;
            } else if self.of_path(&at).writes() {
                return false;
            } else if let Ok(target) = fs::canonicalize(&next) {
                at = target;
            }
        }
        true
    }

    /// Makes a file readable wherever it is.
    pub(super) fn must_show(&mut self, path: &Path) {
        let Ok(path) = fs::canonicalize(path) else { return };
        if matches!(self.of_path(&path), PathAccess::Hidden | PathAccess::Private) {
            self.rules.insert(path, PathAccess::ReadOnly);
        }
    }

    /// Makes a folder of the attempt writable.
    pub(super) fn must_write(&mut self, folder: &Path) {
        self.set(folder, PathAccess::Writable);
    }

    /// Removes a path from the hidden ones.
    fn show(&mut self, path: &Path) {
        let Some(path) = fs::canonicalize(path).ok().filter(|_| self.is_trusted(path)) else {
            return;
        };
        self.rules
            .retain(|hidden, access| *access != PathAccess::Hidden || !hidden.starts_with(&path));
        self.must_show(&path);
    }

    fn hide_run(&mut self, network: &Network) {
        let run = Path::new("/run");
        self.set(run, PathAccess::Hidden);
        for name in SHOWN_OF_RUN {
            self.set(&run.join(name), PathAccess::ReadOnly);
        }
        // The file with the name servers may be a link to there.
        if let Ok(names) = fs::canonicalize("/etc/resolv.conf") {
            self.must_show(&names);
        }
        if *network == Network::Off {
            // A service that resolves names for others.
            self.rules.remove(Path::new("/run/systemd/resolve"));
        }
    }

    fn allow_agent(
        &mut self,
        agent: Option<&str>,
        home: &Path,
        environment: &BTreeMap<String, String>,
    ) {
        let Some(folders) = agent.and_then(folders_of) else { return };
        for own in folders.own {
            let path = at_home(own.trim_end_matches('/'), home);
            if own.ends_with('/') && !path.exists() {
                // The agent reports errors.
                let _ = fs::create_dir_all(&path);
            }
            self.set(&path, PathAccess::Anchored);
        }
        let named = folders.named_by.iter().filter_map(|name| environment.get(*name));
        for path in named.map(Path::new).filter(|path| path.is_absolute()) {
            let access = if path.is_dir() { PathAccess::Anchored } else { PathAccess::ReadOnly };
            self.set(path, access);
        }
        for path in AgentSettings::of(agent, home, environment).guarded {
            self.set(&path, PathAccess::ReadOnly);
        }
    }

    /// Allows changes in the worktree, except of the settings of git and `ralph`.
    fn allow_worktree(&mut self, paths: &SandboxPaths) -> Result<(), String> {
        let top = &paths.worktree;
        self.set(top, PathAccess::Anchored);
        let is_main = fs::canonicalize(top).ok() == fs::canonicalize(&paths.main).ok();
        let git = if is_main { paths.git.clone() } else { top.join(".git") };
        if !fs::symlink_metadata(&git).is_ok_and(|found| found.is_dir()) {
            return Err(format!("`{}` is not a git directory", git.display()));
        }
        for name in ["config", "hooks", "info"] {
            let path = git.join(name);
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
                let path = path.display();
                return Err(format!(
                    "`{path}` is a link, which a sandbox cannot protect; replace it"
                ));
            }
        }
        for name in ["hooks", "info"] {
            // Without a folder there, an attempt could make one.
            match fs::create_dir(git.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(format!("create `{name}` in `{}`: {error}", git.display()));
                }
                _ => {}
            }
        }
        // A folder that contains a mount can be renamed, unless it is one.
        self.set(&git, PathAccess::Anchored);
        for name in ["config", "hooks", "info", "ralph"] {
            self.set(&git.join(name), PathAccess::ReadOnly);
        }
        for module in fs::read_dir(git.join("modules")).into_iter().flatten().flatten() {
            for name in ["config", "hooks"] {
                self.set(&module.path().join(name), PathAccess::ReadOnly);
            }
        }
        if !is_main {
            return Ok(());
        }
        if top.join(".git").is_file() {
            self.set(&top.join(".git"), PathAccess::ReadOnly);
        }
        for name in &paths.guarded {
            let path = top.join(name);
            if path.extension().is_none() {
                // As above.
                let _ = fs::create_dir(&path);
            }
            self.set(&path, PathAccess::ReadOnly);
        }
        Ok(())
    }

    /// The access to a path by the longest rule that fits.
    pub(super) fn of_path(&self, path: &Path) -> PathAccess {
        let found = path.ancestors().find_map(|path| self.rules.get(path));
        found.copied().unwrap_or(PathAccess::ReadOnly)
    }

    /// Whether files in a folder can be changed, if it is there.
    pub(super) fn writes_in(&self, folder: &Path) -> bool {
        fs::canonicalize(folder).is_ok_and(|folder| self.of_path(&folder).writes())
    }

    /// The rules that change something, parents before their contents.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Path, PathAccess)> {
        self.rules.iter().filter_map(|(path, access)| {
            let above = path.parent().map_or(PathAccess::ReadOnly, |above| self.of_path(above));
            let is_place = matches!(access, PathAccess::Anchored | PathAccess::Private);
            let is_needed = above != *access || is_place;
            is_needed.then_some((path.as_path(), *access))
        })
    }

    /// The rules inside a folder.
    pub(super) fn below(&self, folder: &Path) -> impl Iterator<Item = (&Path, PathAccess)> {
        let inside = self
            .rules
            .iter()
            .filter(move |(path, _)| path.starts_with(folder) && path.as_path() != folder);
        inside.map(|(path, access)| (path.as_path(), *access))
    }
}

/// Whether a path is the home folder, or has it in it.
fn is_around(path: &Path, home: &Path) -> bool {
    fs::canonicalize(path)
        .is_ok_and(|path| fs::canonicalize(home).is_ok_and(|it| it.starts_with(path)))
}

/// Whether the list of changeable paths names this path itself.
pub(super) fn is_listed(list: &[String], path: &Path, home: &Path) -> bool {
    list.iter().any(|listed| at_home(listed.trim_end_matches('/'), home) == path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_longest_rule_counts_and_needless_ones_are_no_steps() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("home/.ssh/x")).unwrap();
        fs::create_dir_all(at("home/code/.git")).unwrap();
        let mut rules = AccessRules::default();
        rules.set(&at("home"), PathAccess::ReadOnly);
        rules.set(&at("home/.ssh"), PathAccess::Hidden);
        rules.set(&at("home/.ssh/x"), PathAccess::ReadOnly);
        rules.set(&at("home/code"), PathAccess::Anchored);
        rules.set(&at("home/code/.git"), PathAccess::Anchored);
        rules.set(&at("home/none"), PathAccess::Hidden);
        assert_eq!(rules.of_path(&at("home/.ssh/id")), PathAccess::Hidden);
        assert_eq!(rules.of_path(&at("home/.ssh/x/y")), PathAccess::ReadOnly);
        assert_eq!(rules.of_path(&at("elsewhere")), PathAccess::ReadOnly);
        let steps: Vec<_> = rules.steps().map(|(path, _)| path.to_owned()).collect();
        let want = ["home/.ssh", "home/.ssh/x", "home/code", "home/code/.git"].map(at);
        assert_eq!(steps, want);
        rules.show(&at("home/.ssh"));
        assert_eq!(rules.of_path(&at("home/.ssh/id")), PathAccess::ReadOnly);
    }

    #[test]
    fn the_home_folder_is_private_with_what_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (home, elsewhere) = (root.join("home"), root.join("elsewhere"));
        fs::create_dir(root.join("data")).unwrap();
        for name in [".ssh", ".m2/repository", ".cargo/bin", ".config/gh", ".config/git", "code"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        fs::write(home.join(".cargo/credentials.toml"), "").unwrap();
        fs::write(home.join(".m2/settings.xml"), "").unwrap();
        fs::write(home.join(".config/git/x"), "").unwrap();
        fs::create_dir_all(elsewhere.join("kube")).unwrap();
        fs::write(elsewhere.join("aws"), "").unwrap();
        symlink(root.join("data"), home.join("linked")).unwrap();
        symlink(home.join(".ssh"), home.join(".cargo/key")).unwrap();
        let name = |path: &str| elsewhere.join(path).display().to_string();
        let variables = [("KUBECONFIG", format!("/none:{}", name("kube"))), ("NETRC", name("aws"))];
        let environment = variables.map(|(name, value)| (name.to_owned(), value)).into();
        let mut rules = AccessRules::default();
        rules.show_home(&home, &environment);
        for path in hidden_paths(&home, &environment) {
            rules.hide(&path).unwrap();
        }
        for path in [
            ".ssh/id",
            ".m2/settings.xml",
            ".cargo/credentials.toml",
            ".config/gh/x",
            ".cargo/key",
            ".n",
        ] {
            assert_eq!(rules.of_path(&home.join(path)), PathAccess::Private, "{path}");
        }
        for path in [".m2/repository", ".cargo/bin/x", ".config/git/x", "code/x", "linked/x"] {
            assert_eq!(rules.of_path(&home.join(path)), PathAccess::ReadOnly, "{path}");
        }
        for path in ["aws", "kube/config"] {
            assert_eq!(rules.of_path(&elsewhere.join(path)), PathAccess::Hidden, "{path}");
        }
        symlink("loop", elsewhere.join("loop")).unwrap();
        assert!(rules.hide(&elsewhere.join("loop")).is_err());
    }

    #[test]
    fn links_count_only_where_a_sandbox_cannot_make_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("secret")).unwrap();
        fs::create_dir_all(at("slot")).unwrap();
        symlink(at("secret"), at("slot/link")).unwrap();
        symlink(at("slot"), at("alias")).unwrap();
        let mut rules = AccessRules::default();
        rules.set(&at("secret"), PathAccess::Hidden);
        rules.set(&at("alias"), PathAccess::Writable);
        assert_eq!(rules.of_path(&at("slot/x")), PathAccess::Writable);
        rules.set(&at("slot/link"), PathAccess::ReadOnly);
        rules.show(&at("alias/link"));
        assert_eq!(rules.of_path(&at("secret")), PathAccess::Hidden);
    }
}
