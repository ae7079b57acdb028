//! The ignored files that a slot gets from the checkout.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{adapters::git::Repo, core::environment, regular_file};

/// The list of ignored files that every slot needs: patterns as in `.gitignore`.
pub const INCLUDE: &str = ".worktreeinclude";

/// Copies the ignored files that every slot needs.
///
/// # Errors
/// Errors of git and of the disk.
pub fn bring(main: &Repo, slot: &Repo) -> Result<()> {
    let list = main.root().join(INCLUDE);
    if !list.is_file() {
        return Ok(());
    }
    let paths = main.local().ignored_by(&list)?;
    let named = paths.iter().filter(|path| path.file_name() == Some(OsStr::new(VENV)));
    let venvs: Vec<&Path> = named.filter_map(|path| path.parent()).collect();
    for path in &paths {
        let (from, to) = (main.root().join(path), slot.root().join(path));
        if !clear_way(slot, path)? {
            continue;
        }
        let copied = if venvs.iter().any(|venv| path.starts_with(venv)) {
            copy_moved((&from, main.root()), (&to, slot.root()))
        } else {
            copy(&from, &to)
        };
        copied.with_context(|| format!("copy `{}` of `{INCLUDE}`", path.display()))?;
    }
    Ok(())
}

/// Removes an attempt's entry in place of a folder that leads to a file: a link may lead out of the
/// slot. Returns whether the file may be there: the commit may have another file in that place.
fn clear_way(slot: &Repo, path: &Path) -> Result<bool> {
    let above = path.ancestors().skip(1).filter(|above| *above != Path::new(""));
    for above in above {
        let place = slot.root().join(above);
        let Ok(found) = fs::symlink_metadata(&place) else { continue };
        let is_ignored = || slot.local().is_ignored(&above.to_string_lossy());
        if !found.is_dir() && !found.is_symlink() && !is_ignored()? {
            return Ok(false);
        }
        if !found.is_dir() {
            fs::remove_file(&place).with_context(|| format!("remove `{}`", place.display()))?;
        }
    }
    Ok(true)
}

/// Whether every ignored file that a slot needs can be read in the checkout.
pub fn can_be_read(main: &Repo) -> bool {
    let paths = main.local().ignored_by(&main.root().join(INCLUDE));
    let can_be_read = |path: &PathBuf| {
        let path = main.root().join(path);
        fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink())
            || regular_file::open(&path).is_ok()
    };
    paths.is_ok_and(|paths| paths.iter().all(can_be_read))
}

/// The file at the top of a virtualenv of Python.
const VENV: &str = "pyvenv.cfg";

/// Copies a file of a virtualenv. Its scripts, and the packages that it has as a link to their
/// source, name its original folder: in the copy they name the copy's.
fn copy_moved((from, main): (&Path, &Path), (to, slot): (&Path, &Path)) -> io::Result<()> {
    let shown = |path: &Path| path.display().to_string();
    let moved = |text: &str| environment::moved(text, &shown(main), &shown(slot));
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        let target = fs::read_link(from)?;
        let target = target.to_str().map_or_else(|| target.clone(), |text| moved(text).into());
        if let Ok(there) = fs::symlink_metadata(to) {
            if there.is_symlink() {
                return Ok(());
            }
            remove(to, &there)?;
        }
        return link(&target, to);
    }
    let time = found.modified()?;
    if fs::symlink_metadata(to).is_ok_and(|there| there.modified().is_ok_and(|it| it == time)) {
        return Ok(());
    }
    copy(from, to)?;
    let text = regular_file::read(from).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(text) = text.filter(|text| moved(text) != *text) {
        // Its owner may be unable to write it.
        fs::remove_file(to)?;
        fs::write(to, moved(&text))?;
        fs::set_permissions(to, found.permissions())?;
    }
    // The next attempt sees by its time that it is the same.
    fs::File::open(to)?.set_modified(time)
}

fn remove(path: &Path, found: &fs::Metadata) -> io::Result<()> {
    if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn link(target: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    std::os::unix::fs::symlink(target, to)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let is_link = fs::symlink_metadata(from)?.is_symlink();
    if let Ok(there) = fs::symlink_metadata(to) {
        // A file that changed in the repository is copied again, and so is an unreadable one.
        let is_same = there.is_symlink() == is_link
            && if is_link {
                fs::read_link(from)? == fs::read_link(to)?
            } else {
                !there.is_dir()
                    && !regular_file::is_special(to)
                    && has_content_of(from, to).unwrap_or(false)
            };
        if is_same {
            return Ok(());
        }
        // An attempt may have made something else of it, or another name of another file.
        remove(to, &there)?;
    }
    if is_link {
        return link(&fs::read_link(from)?, to);
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    regular_file::copy(from, to)
}

/// Whether two files have the same content.
fn has_content_of(from: &Path, to: &Path) -> io::Result<bool> {
    if fs::metadata(from)?.len() != fs::metadata(to)?.len() {
        return Ok(false);
    }
    match (regular_file::read(from), regular_file::read(to)) {
        // Too large to compare.
        (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::FileTooLarge => {
            Ok(false)
        }
        (from, to) => Ok(from? == to?),
    }
}
