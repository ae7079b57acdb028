//! Whether attributes (gitattributes(5)) can apply to files.
//!
//! Where none can, git neither converts nor filters, and libgit2 does the same as git.

use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
};

use super::Repo;

/// The files for all repositories of a machine.
const OF_MACHINE: &[&str] = &["/etc/gitattributes", "/usr/local/etc/gitattributes"];

impl Repo {
    /// Whether no file of attributes applies to these paths in the worktree. It reads no such file:
    /// an attempt may have left anything in its place.
    pub(super) fn has_no_attributes<'a>(&self, paths: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let config = env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
        let config = config.map_or_else(|| home.join(".config"), PathBuf::from);
        if is_there(&config.join("git/attributes"))
            || is_there(&self.common_dir.join("info/attributes"))
            || OF_MACHINE.iter().any(|file| is_there(Path::new(file)))
            || self.backend.setting("core.attributesFile").is_some_and(|file| file != "/dev/null")
        {
            return false;
        }
        let mut seen: HashSet<&[u8]> = HashSet::new();
        paths.into_iter().all(|path| {
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let mut folders = ends.map(|(at, _)| &path[..=at]).chain([&path[..0]]);
            folders.all(|folder| {
                let file = [folder, b".gitattributes"].concat();
                !seen.insert(folder) || !is_there(&self.file(&file))
            })
        })
    }
}
