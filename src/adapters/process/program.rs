//! The program of a command line: finding it, and obstacles to its execution.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fmt,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{self, Path, PathBuf},
};

/// The reason why a program cannot be executed.
#[derive(Debug)]
pub(super) struct NoProgram(pub(super) String);

impl fmt::Display for NoProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NoProgram {}

impl From<NoProgram> for io::Error {
    fn from(why: NoProgram) -> io::Error {
        io::Error::new(io::ErrorKind::NotFound, why)
    }
}

impl NoProgram {
    /// Whether an error has this reason.
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<NoProgram>)
    }

    /// Turns the error of starting `program` into this one, if the program caused it: it is gone,
    /// or the system cannot execute it.
    pub(super) fn of_start(program: &Path, error: io::Error) -> io::Error {
        use rustix::io::Errno;
        const CAUSES: &[Errno] = &[
            Errno::NOENT,
            Errno::ACCESS,
            Errno::NOEXEC,
            #[cfg(target_os = "linux")]
            Errno::LIBBAD,
            Errno::NOTDIR,
            Errno::ISDIR,
        ];
        let is_cause = |cause: &Errno| error.raw_os_error() == Some(cause.raw_os_error());
        if !CAUSES.iter().any(is_cause) {
            return error;
        }
        let hint = if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) {
            "; a script needs a first line such as `#!/bin/sh`"
        } else {
            ""
        };
        NoProgram(format!("`{}`: {error}{hint}", program.display())).into()
    }
}

/// Finds the program that `argv[0]` means in `dir`: a path from `dir` if it has a slash, otherwise
/// a name on the `PATH` of this process. The result is absolute.
///
/// # Errors
/// A message for a person, when there is no such program or it cannot be executed.
pub fn resolve(program: &str, dir: &Path) -> Result<PathBuf, String> {
    find(program, dir, env::var_os("PATH").as_deref()).map_err(|why| why.0)
}

/// Makes the path of a program absolute, starting from `dir`. A name without a slash is left to the
/// search on `PATH`.
pub fn absolute(program: &str, dir: &Path) -> String {
    if !program.contains('/') || Path::new(program).is_absolute() {
        return program.to_owned();
    }
    let joined: PathBuf = dir.join(program).components().collect();
    // The last component is kept: some programs are links and act on their name.
    let parent = joined.parent().and_then(|parent| parent.canonicalize().ok());
    let resolved = parent.zip(joined.file_name()).map(|(parent, name)| parent.join(name));
    let path = resolved.unwrap_or(joined).into_os_string();
    // The words of a command line are text.
    path.into_string().unwrap_or_else(|_| program.to_owned())
}

pub(super) fn find(
    program: &str,
    dir: &Path,
    search: Option<&OsStr>,
) -> Result<PathBuf, NoProgram> {
    if program.is_empty() {
        return Err(NoProgram("the command is empty; name a program".to_owned()));
    }
    let dir =
        path::absolute(dir).map_err(|error| NoProgram(format!("`{}`: {error}", dir.display())))?;
    let file = locate(program, &dir, search).map_err(NoProgram)?;
    check_interpreter(program, &file, &dir, search).map_err(NoProgram)?;
    Ok(file)
}

fn locate(program: &str, dir: &Path, search: Option<&OsStr>) -> Result<PathBuf, String> {
    let not_executable = |name: &str| format!("`{name}` is not executable; chmod +x it");
    if program.contains('/') {
        let file = dir.join(program);
        return match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let place = if Path::new(program).is_absolute() {
                    String::new()
                } else {
                    format!(" in `{}`", dir.display())
                };
                Err(format!("`{program}` does not exist{place}; check the path"))
            }
            Err(error) => Err(format!("`{program}` cannot be read: {error}")),
            Ok(found) if found.is_dir() => {
                Err(format!("`{program}` is a directory; name a program"))
            }
            Ok(found) if !may_execute(&found) => Err(not_executable(program)),
            Ok(_) => Ok(file),
        };
    }
    let mut blocked = None;
    for place in env::split_paths(search.unwrap_or_default()) {
        let file = dir.join(place).join(program);
        match fs::metadata(&file) {
            Ok(found) if found.is_file() && may_execute(&found) => return Ok(file),
            Ok(found) if found.is_file() => blocked = blocked.or(Some(file)),
            _ => {}
        }
    }
    Err(match blocked {
        Some(file) => not_executable(&file.display().to_string()),
        None => format!("`{program}` is not on PATH"),
    })
}

/// Checks that the interpreter in the first line of a script exists. The system's own message for a
/// missing one is that the script does not exist.
fn check_interpreter(
    program: &str,
    file: &Path,
    dir: &Path,
    search: Option<&OsStr>,
) -> Result<(), String> {
    let Some(line) = first_line(file) else {
        return Ok(());
    };
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let Some(interpreter) = words.next() else {
        return Ok(());
    };
    let refuse = |why: String| {
        Err(format!("`{program}` starts with `#!{}`, but {why}", line.escape_debug()))
    };
    if !dir.join(interpreter).is_file() {
        return refuse(format!("`{}` does not exist", interpreter.escape_debug()));
    }
    if Path::new(interpreter).file_name() != Some(OsStr::new("env")) {
        return Ok(());
    }
    let is_option = |word: &&str| word.starts_with('-') || word.contains('=');
    let Some(named) = words.find(|word| !is_option(word)) else {
        return Ok(());
    };
    locate(named, dir, search).map_or_else(refuse, |_| Ok(()))
}

/// Returns the text after `#!` in a script's first line.
fn first_line(file: &Path) -> Option<String> {
    /// Linux reads this much of a script.
    const BOUND: u64 = 256;
    let mut options = File::options();
    // A pipe must not block.
    options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(file).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut start = Vec::new();
    file.take(BOUND).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).trim_matches([' ', '\t']).to_owned())
}

fn may_execute(file: &fs::Metadata) -> bool {
    file.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn programs_are_found_as_the_child_would_find_them() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        fs::create_dir(dir.join("bin")).unwrap();
        fs::write(dir.join("x.sh"), "#!/bin/sh\n").unwrap();
        fs::copy(dir.join("x.sh"), dir.join("bin/tool")).unwrap();
        let search = OsString::from("bin:/nowhere");
        let find = |program: &str| find(program, dir, Some(&search)).map_err(|why| why.0);
        assert_eq!(find("./x.sh"), Err("`./x.sh` is not executable; chmod +x it".to_owned()));
        let tool = dir.join("bin/tool");
        let blocked = format!("`{}` is not executable; chmod +x it", tool.display());
        assert_eq!(find("tool"), Err(blocked));
        for file in ["x.sh", "bin/tool"] {
            fs::set_permissions(dir.join(file), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(find("./x.sh"), Ok(dir.join("./x.sh")));
        assert_eq!(find("tool"), Ok(tool));
        assert_eq!(find("clude"), Err("`clude` is not on PATH".to_owned()));
        assert!(find("./bin").unwrap_err().contains("is a directory"));
        assert!(find("./none").unwrap_err().contains("does not exist"));
        assert!(find("").unwrap_err().contains("empty"));
        assert!(resolve("sh", dir).unwrap().is_absolute());
    }

    #[test]
    fn the_interpreter_of_a_script_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let search = OsString::from("/usr/bin:/bin");
        let find = |line: &str| {
            let file = dir.join("x.sh");
            fs::write(&file, format!("{line}\necho\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            find("./x.sh", dir, Some(&search)).map(drop).map_err(|why| why.0)
        };
        for line in ["#!/bin/sh", "#! /bin/sh -e", "#!/usr/bin/env sh", "#!/usr/bin/env -S sh -e"] {
            assert_eq!(find(line), Ok(()), "{line}");
        }
        for line in ["no script", "#!", ""] {
            assert_eq!(find(line), Ok(()), "{line}");
        }
        for (line, why) in [
            ("#!/nowhere/sh", "`/nowhere/sh` does not exist"),
            ("#!/bin/sh\r", r"`/bin/sh\r` does not exist"),
            ("#!/usr/bin/env no-such-shell -e", "`no-such-shell` is not on PATH"),
        ] {
            assert!(find(line).unwrap_err().ends_with(why), "{line}: {:?}", find(line));
        }
    }

    #[test]
    fn a_path_becomes_absolute_and_a_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        let of = |program| absolute(program, &dir.join("a/b"));
        let path = |path: &str| dir.join(path).display().to_string();
        assert_eq!(of("claude"), "claude");
        assert_eq!(of("/bin/sh"), "/bin/sh");
        assert_eq!(of("./x.sh"), path("a/b/x.sh"));
        assert_eq!(of("../x.sh"), path("a/x.sh"));
        assert_eq!(of("none/x.sh"), path("a/b/none/x.sh"));
    }
}
