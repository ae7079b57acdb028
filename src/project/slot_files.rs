//! The ignored files that a slot gets from the checkout.

use std::{ffi::OsStr, fs, io, path::Path};

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
        // An attempt may have left a link to a place outside of the slot.
        let above = path.ancestors().skip(1).filter(|above| *above != Path::new(""));
        for above in above.map(|above| slot.root().join(above)) {
            if fs::symlink_metadata(&above).is_ok_and(|found| found.is_symlink()) {
                fs::remove_file(&above)
                    .with_context(|| format!("remove the link `{}`", above.display()))?;
            }
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

/// The file at the top of a virtualenv of Python.
const VENV: &str = "pyvenv.cfg";

/// Copies a file of a virtualenv. Its scripts, and the packages that it has as a link to their source,
/// name the folder in which it was made: in the copy they name that of the copy.
fn copy_moved((from, main): (&Path, &Path), (to, slot): (&Path, &Path)) -> io::Result<()> {
    let shown = |path: &Path| path.display().to_string();
    let moved = |text: &str| environment::moved(text, &shown(main), &shown(slot));
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        let target = fs::read_link(from)?;
        let target = target.to_str().map_or_else(|| target.clone(), |text| moved(text).into());
        return match fs::symlink_metadata(to) {
            Ok(_) => Ok(()),
            Err(_) => link(&target, to),
        };
    }
    let time = found.modified()?;
    if fs::symlink_metadata(to).is_ok_and(|there| there.modified().is_ok_and(|it| it == time)) {
        return Ok(());
    }
    copy(from, to)?;
    let text = regular_file::read(from).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(text) = text.filter(|text| moved(text) != *text) {
        // It may be one that its owner cannot write.
        fs::remove_file(to)?;
        fs::write(to, moved(&text))?;
        fs::set_permissions(to, found.permissions())?;
    }
    // The next attempt sees by its time that it is the same.
    fs::File::open(to)?.set_modified(time)
}

fn link(target: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    std::os::unix::fs::symlink(target, to)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    // A file that changed in the repository is copied again.
    let is_link = fs::symlink_metadata(from)?.is_symlink();
    match fs::symlink_metadata(to) {
        Ok(there) if there.is_symlink() && !is_link => fs::remove_file(to)?,
        // An attempt made something else of it.
        Ok(_) if regular_file::is_special(to) && !is_link => fs::remove_file(to)?,
        Ok(_) if is_link || has_content_of(from, to)? => return Ok(()),
        Ok(_) | Err(_) => {}
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
