//! Plans and writes a set of files.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    adapters::state,
    core::{
        exit::{Exit, Failure},
        setup::FileFate,
    },
    regular_file,
};

/// The planned change of one file.
pub(super) struct FileStep {
    /// The path to show, relative to the project.
    pub name: String,
    path: PathBuf,
    /// The planned change.
    pub fate: FileFate,
    /// The present content.
    there: Option<Vec<u8>>,
    /// Whether the file is generated, so that it needs no backup.
    pub is_made: bool,
    /// The suffix of the backup when the file is replaced.
    pub backup: Option<String>,
}

impl FileStep {
    /// Plans the change of the file `name`, which must be inside `root`.
    ///
    /// # Errors
    /// A conflicting file, folder or link.
    pub(super) fn plan(root: &Path, name: &str, content: &str, replace: bool) -> Result<FileStep> {
        let path = root.join(name);
        let there = match regular_file::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) if path.is_dir() => return Err(in_the_way(name, "a folder")),
            Err(error) if error.kind() == ErrorKind::NotADirectory => None,
            Err(error) => return Err(error).with_context(|| format!("read `{name}`")),
        };
        let fate = FileFate::of(there.as_deref(), content, replace);
        let step =
            FileStep { name: name.to_owned(), path, fate, there, is_made: false, backup: None };
        if step.fate.text().is_some() {
            step.check(root)?;
        }
        Ok(step)
    }

    /// Keeps the old content as `NAME.bak`.
    pub(super) fn keeping(mut self) -> FileStep {
        if matches!(self.fate, FileFate::Replace(_)) {
            let endings = (1..).map(|number: u32| match number {
                1 => ".bak".to_owned(),
                _ => format!(".bak.{number}"),
            });
            let free = |ending: &String| fs::symlink_metadata(self.with_suffix(ending)).is_err();
            self.backup = endings.into_iter().find(free);
        }
        self
    }

    /// Marks the file as generated.
    pub(super) fn made(mut self) -> FileStep {
        self.is_made = true;
        self
    }

    /// The path with a suffix.
    fn with_suffix(&self, ending: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(ending);
        self.path.with_file_name(name)
    }

    /// Checks that the path does not lead out of `root`.
    fn check(&self, root: &Path) -> Result<()> {
        let outside = |path: &Path| {
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            !real.starts_with(root.canonicalize().unwrap_or_else(|_| root.to_owned()))
        };
        let link = fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_symlink());
        if link && (self.there.is_none() || outside(&self.path)) {
            return Err(in_the_way(&self.name, "a link out of the project or to nothing"));
        }
        let folders = Path::new(&self.name).ancestors().skip(1);
        for folder in folders.filter(|folder| !folder.as_os_str().is_empty()) {
            let path = root.join(folder);
            let name = folder.display().to_string();
            if fs::symlink_metadata(&path).is_ok() && !path.is_dir() {
                return Err(in_the_way(&name, "not a folder"));
            }
            if path.is_dir() && outside(&path) {
                return Err(in_the_way(&name, "a link out of the project"));
            }
        }
        Ok(())
    }
}

fn in_the_way(name: &str, what: &str) -> anyhow::Error {
    let message = format!("`{name}` is {what}; nothing was written. Move it and try again");
    Failure::new(Exit::Error, message).into()
}

/// Writes the files one after the other, each as a whole: a rerun continues after an error.
///
/// # Errors
/// Errors of the disk.
pub(super) fn write(steps: &[FileStep]) -> Result<()> {
    let put = |path: &Path, bytes: &[u8]| {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        state::replace(path, bytes)
    };
    for step in steps {
        let Some(text) = step.fate.text() else { continue };
        if let (Some(ending), Some(bytes)) = (&step.backup, &step.there) {
            put(&step.with_suffix(ending), bytes)
                .with_context(|| format!("write `{}{ending}`", step.name))?;
        }
        put(&step.path, text.as_bytes()).with_context(|| format!("write `{}`", step.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_goes_on_after_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let plan = |name: &str, replace| FileStep::plan(dir.path(), name, "new", replace).unwrap();
        fs::write(dir.path().join("old"), "old").unwrap();
        let steps = [plan("a/b/c", false), plan("old", true).keeping(), plan("late/file", false)];
        // Another process creates a conflicting file.
        fs::write(dir.path().join("late"), "in the way").unwrap();
        assert!(write(&steps).is_err());
        fs::remove_file(dir.path().join("late")).unwrap();
        write(&[plan("a/b/c", false), plan("old", true).keeping(), plan("late/file", false)])
            .unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("old.bak")).unwrap(), "old");
        for name in ["a/b/c", "old", "late/file"] {
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), "new");
        }
    }

    #[test]
    fn conflicts_are_found_before_writing() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let refused =
            |name: &str| FileStep::plan(dir.path(), name, "new", true).err().unwrap().to_string();
        fs::write(dir.path().join("file"), "").unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
        assert!(refused("file/x").starts_with("`file` is not a folder; nothing was written"));
        assert!(refused("folder").starts_with("`folder` is a folder"));
        assert!(refused("link/x").starts_with("`link` is a link out of the project"));
        assert!(refused("dangling").starts_with("`dangling` is a link"));
    }
}
