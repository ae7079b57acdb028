//! The settings of an agent in its own folder, which an attempt must neither change nor create:
//! existing ones are read-only, missing ones get an empty, read-only place.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    core::sandbox::{
        AgentFolders, OPENCODE_IGNORED, OPENCODE_IGNORES, SCRIPTS, at_home, folders_of,
    },
    regular_file,
};

/// The paths of an agent's settings, wherever its folder is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentSettings {
    /// The files and folders that an attempt must not change.
    pub(super) guarded: Vec<PathBuf>,
    /// The files that it gets copies of.
    pub(super) copied: Vec<PathBuf>,
    /// The files and folders that are created if they are missing, with their content; none for a
    /// folder.
    provided: Vec<(PathBuf, Option<&'static str>)>,
}

impl AgentSettings {
    /// Returns those of an agent; none for an unknown agent.
    pub(super) fn of(
        agent: Option<&str>,
        home: &Path,
        environment: &BTreeMap<String, String>,
    ) -> AgentSettings {
        let mut settings = AgentSettings::default();
        let Some(folders) = agent.and_then(folders_of) else { return settings };
        settings.add(folders, |path| at_home(path, home));
        let named = folders.named_by.iter().filter_map(|name| environment.get(*name));
        for folder in named.map(Path::new).filter(|path| path.is_absolute() && path.is_dir()) {
            settings.add(folders, |path| folder.join(folders.moved(path)));
            // In the home folder nothing new can be created.
            let copied = folders.copied.iter().map(|path| folder.join(folders.moved(path)));
            settings.provided.extend(copied.map(|path| (path, Some(EMPTY_OBJECT))));
        }
        settings
    }

    fn add(&mut self, folders: &AgentFolders, place: impl Fn(&str) -> PathBuf) {
        for path in folders.settings {
            if let Some((parent, name)) = path.split_once("*/") {
                let entries = fs::read_dir(place(parent)).into_iter().flatten().flatten();
                let found = entries.map(|entry| entry.path().join(name.trim_end_matches('/')));
                self.guarded.extend(found.filter(|path| path.exists()));
                continue;
            }
            let content = match path.rsplit_once('.') {
                _ if path.ends_with('/') => None,
                _ if *path == OPENCODE_IGNORES => Some(OPENCODE_IGNORED),
                Some((_, "json")) => Some(EMPTY_OBJECT),
                _ => Some(""),
            };
            let path = place(path.trim_end_matches('/'));
            self.provided.push((path.clone(), content));
            self.guarded.push(path);
        }
        self.copied.extend(folders.copied.iter().map(|path| place(path)));
        let own = folders.own.first().filter(|own| own.ends_with('/'));
        for entry in own.and_then(|own| fs::read_dir(place(own)).ok()).into_iter().flatten() {
            self.guarded
                .extend(entry.ok().map(|entry| entry.path()).filter(|path| is_script(path)));
        }
        self.guarded.sort_unstable();
        self.guarded.dedup();
    }

    /// The links among the protected paths: a mount applies to a link's target, and an attempt
    /// could replace the link.
    pub(super) fn links(&self) -> impl Iterator<Item = &Path> {
        let is_link = |path: &&PathBuf| {
            fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink())
        };
        self.guarded.iter().filter(is_link).map(PathBuf::as_path)
    }

    /// Creates missing files, so that a mount can cover them.
    ///
    /// # Errors
    /// Errors of the disk, unless an attempt cannot create it either.
    pub(super) fn provide(&self) -> Result<(), String> {
        use ErrorKind::{AlreadyExists, NotADirectory, PermissionDenied, ReadOnlyFilesystem};
        let harmless = [AlreadyExists, NotADirectory, PermissionDenied, ReadOnlyFilesystem];
        for (path, content) in &self.provided {
            // The folder of an agent that was never started here.
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            match made.and_then(|()| create(path, *content)) {
                Err(error) if !harmless.contains(&error.kind()) => {
                    let path = path.display();
                    return Err(format!("create `{path}`, which attempts must not: {error}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Copies the `copied` files into `folder`. Returns each copy with its original.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn copy_into(&self, folder: &Path) -> Result<Vec<(PathBuf, PathBuf)>, String> {
        let mut copies = Vec::new();
        for (number, original) in self.copied.iter().enumerate() {
            let Ok(original) = fs::canonicalize(original) else { continue };
            let content = regular_file::read(&original)
                .map_err(|error| format!("read `{}`: {error}", original.display()))?;
            let copy = folder.join(format!("settings-{number}"));
            super::write(&copy, &content)?;
            copies.push((copy, original));
        }
        Ok(copies)
    }
}

/// The content of a file with settings that sets nothing.
const EMPTY_OBJECT: &str = "{}\n";

/// Creates a file with this content, or a folder.
fn create(path: &Path, content: Option<&str>) -> io::Result<()> {
    let Some(content) = content else { return fs::create_dir(path) };
    // Two attempts may start at once: a reader must not find half a file.
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(content.as_bytes())
}

/// Whether settings may name this file as a program, or instructions as further instructions.
fn is_script(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(|ending| SCRIPTS.contains(&ending)) {
        return !path.is_dir();
    }
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn settings(home: &Path, variable: &str) -> AgentSettings {
        let environment = [("CLAUDE_CONFIG_DIR".to_owned(), variable.to_owned())];
        AgentSettings::of(Some("claude"), home, &environment.into())
    }

    #[test]
    fn what_is_missing_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let (home, other) = (folder.path().join("home"), folder.path().join("other"));
        fs::create_dir_all(home.join(".claude/skills")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(home.join(".claude/CLAUDE.md"), "mine").unwrap();
        fs::write(home.join(".claude.json"), "{\"a\": 1}").unwrap();
        fs::write(home.join(".claude/status.sh"), "").unwrap();
        fs::write(home.join(".claude/history.jsonl"), "").unwrap();
        let found = settings(&home, &other.display().to_string());
        for _ in 0..2 {
            found.provide().unwrap();
        }
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        assert_eq!(read(home.join(".claude/CLAUDE.md")), "mine");
        assert_eq!(read(home.join(".claude/settings.json")), "{}\n");
        assert_eq!(read(other.join("settings.json")), "{}\n");
        assert_eq!(read(other.join(".claude.json")), "{}\n");
        assert!(home.join(".claude/hooks").is_dir() && other.join("hooks").is_dir());
        assert!(found.guarded.contains(&home.join(".claude/status.sh")));
        assert!(!found.guarded.contains(&home.join(".claude/history.jsonl")));
        let copies = found.copy_into(&folder.path().join("copies")).unwrap();
        let originals: Vec<_> = copies.iter().map(|(_, original)| original.clone()).collect();
        let want = [home, other].map(|folder| folder.join(".claude.json").canonicalize().unwrap());
        assert_eq!(originals, want);
        assert_eq!(read(copies[0].0.clone()), "{\"a\": 1}");
    }

    #[test]
    fn a_link_among_the_settings_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        fs::write(home.join("mine.json"), "{}").unwrap();
        let found = settings(home, "relative");
        found.provide().unwrap();
        assert_eq!(found.links().count(), 0);
        let path = home.join(".claude/settings.json");
        fs::remove_file(&path).unwrap();
        symlink(home.join("mine.json"), &path).unwrap();
        assert_eq!(found.links().collect::<Vec<_>>(), [path.as_path()]);
    }
}
