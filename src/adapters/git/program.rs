//! The `git` program: how it is started, and the queries it answers.
//!
//! Each function takes a directory in the repository. Only [`run_with_input`] and the callers of [`run`] and
//! [`run_raw`] write, with the commands they pass.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use anyhow::{Result, anyhow, bail};

use super::{
    CallStopped, Codes, RepositoryFolders, bounded, bounded::CallStreams, confined, lossy,
};
use crate::core::{commit_id::CommitId, verdict::DiffStat};

/// The variables that name a repository to programs that git starts, hooks above all; they must not
/// apply to calls that name a repository themselves. From `git rev-parse --local-env-vars`, without
/// those that carry configuration.
pub(super) const FOREIGN: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// The setting with the folder of the hooks.
pub(super) const HOOKS: &str = "core.hooksPath";

/// The folders of the repository that contains `dir`, in one process.
pub(super) fn folders(dir: &Path) -> Result<RepositoryFolders> {
    let ask = ["--is-bare-repository", "--git-common-dir", "--git-dir", "--show-toplevel"];
    let arguments = [&["rev-parse"], &ask[..]].concat();
    let output = git(dir, &arguments)?;
    if output.stdout.starts_with(b"true") {
        return Err(super::bare(dir));
    }
    if !output.status.success() {
        let error = failed(&arguments, &output);
        if error.to_string().contains("not a git repository (or any") {
            bail!("`{}` is not in a git repository; make one with `git init`", dir.display());
        }
        return Err(error);
    }
    let lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').collect();
    let [_, common_dir, git_dir, root, b""] = lines[..] else {
        bail!("cannot open the repository in `{}`: its path has a line break", dir.display());
    };
    let path = |bytes: &[u8]| dir.join(OsStr::from_bytes(bytes));
    Ok(RepositoryFolders { root: path(root), common_dir: path(common_dir), git_dir: path(git_dir) })
}

pub(super) fn commit(root: &Path, name: &str) -> Result<Option<CommitId>> {
    let name = format!("{name}^{{commit}}");
    Ok(answer(root, &["rev-parse", "-q", "--verify", &name])?.map(CommitId::from))
}

/// The changes from `from` to `to`, in all files or in all but one; a renamed file counts as one
/// removed and one added.
pub(super) fn diff_stat(
    root: &Path,
    from: &str,
    to: &str,
    all_but: Option<&str>,
) -> Result<DiffStat> {
    let diff = ["diff-tree", "-r", "--shortstat", "--no-renames", "--no-ext-diff"];
    let all_but = all_but.map(|path| format!(":(top,exclude,literal){path}"));
    let paths = all_but.iter().flat_map(|path| ["--", ":/", path]);
    let rest: Vec<&str> = ["--no-textconv", from, to].into_iter().chain(paths).collect();
    Ok(parse_diff_stat(&lossy(&run(root, &[&diff[..], &rest].concat())?)))
}

/// Whether objects that are missing here are with a server.
pub(super) fn is_partial_clone(root: &Path) -> Result<bool> {
    let signs = r"^(extensions\.partialclone|remote\..*\.promisor)$";
    Ok(answer(root, &["config", "--get-regexp", signs])?.is_some())
}

pub(super) fn empty_tree(root: &Path) -> Result<String> {
    made(root, &["hash-object", "-w", "-t", "tree", "--stdin"], &[])
}

/// Runs a command that makes an object of its input, and returns the id.
pub(super) fn made(root: &Path, arguments: &[&str], input: &[u8]) -> Result<String> {
    Ok(lossy(&run_with_input(root, arguments, &[], input)?).trim().to_owned())
}

/// A commit to make.
pub(super) struct NewCommit<'a> {
    pub(super) tree: &'a str,
    pub(super) parents: &'a [&'a str],
    pub(super) message: &'a str,
    /// More variables, such as those for the identity of the committer.
    pub(super) env: &'a [(&'a str, &'a OsStr)],
    pub(super) is_signed: bool,
}

/// Why a commit could not be signed in this process. Each failure may take as long as a call of git.
static CANNOT_SIGN: OnceLock<String> = OnceLock::new();

/// Why commits are made without a signature from now on, although they are to have one.
pub fn unsigned() -> Option<&'static str> {
    CANNOT_SIGN.get().map(String::as_str)
}

/// Lets all later commits of this process be made without a signature.
pub(super) fn leave_unsigned(why: String) {
    CANNOT_SIGN.get_or_init(|| why);
}

/// Makes a commit that no ref names. If signing fails, the commit is unsigned: verified work does
/// not wait for a key.
pub(super) fn commit_tree(root: &Path, new: &NewCommit<'_>) -> Result<CommitId> {
    if !new.is_signed || unsigned().is_some() {
        return try_commit_tree(root, new, false);
    }
    match try_commit_tree(root, new, true) {
        Err(error) if !error.chain().any(<dyn std::error::Error>::is::<CallStopped>) => {
            let made = try_commit_tree(root, new, false)?;
            leave_unsigned(format!("{error:#}"));
            Ok(made)
        }
        made => made,
    }
}

/// Makes a commit that no ref names, signed or not.
pub(super) fn try_commit_tree(
    root: &Path,
    new: &NewCommit<'_>,
    is_signed: bool,
) -> Result<CommitId> {
    let mut words = vec!["-c", "i18n.commitEncoding=UTF-8", "commit-tree"];
    words.extend(is_signed.then_some("-S"));
    words.extend(new.parents.iter().flat_map(|parent| ["-p", *parent]));
    words.push(new.tree);
    let make = || run_with_input(root, &words, new.env, new.message.as_bytes());
    let id = if is_signed { bounded::signing(make) } else { make() }?;
    Ok(CommitId::from(lossy(&id).trim()))
}

/// Points a ref to a commit, with a line in its reflog.
pub(super) fn move_ref(root: &Path, name: &str, commit: &str, why: &str) -> Result<()> {
    run(root, &["update-ref", "-m", why, name, commit]).map(drop)
}

/// Keeps git out of nested repositories: it would start the filters of their settings.
pub(super) const STAYS_OUT: &str = "--ignore-submodules=dirty";

pub(super) fn status(root: &Path) -> Result<Codes> {
    let list = ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames"];
    let more = if confined::is_on() { &[STAYS_OUT][..] } else { &[] };
    let text = run(root, &[&list, more].concat())?;
    let mut codes: BTreeMap<&[u8], String> = BTreeMap::new();
    for entry in text.split(|byte| *byte == 0) {
        // The number of fields before the path, by kind of line (git-status(1), "Porcelain Format
        // Version 2"). There are no renames.
        let fields = match entry.first() {
            Some(b'1') => 8,
            Some(b'u') => 10,
            Some(b'?') => 1,
            _ => continue,
        };
        let parts: Vec<&[u8]> = entry.splitn(fields + 1, |byte| *byte == b' ').collect();
        let path = parts.get(fields).copied().unwrap_or_default();
        let code = match fields {
            1 => "??".to_owned(),
            10 => "UU".to_owned(),
            _ => lossy(parts.get(1).copied().unwrap_or_default()),
        };
        codes
            .entry(path)
            // A path that was removed from the index and still exists has two lines.
            .and_modify(|first| first.replace_range(1.., "?"))
            .or_insert(code);
    }
    let owned = codes.into_iter().map(|(path, code)| (path.to_owned(), code));
    Ok(owned.collect())
}

/// Those of the ids that are commits of the repository.
pub(super) fn known_commits(root: &Path, ids: &[&str]) -> Result<Vec<CommitId>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let check = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
    let known = run_with_input(root, &check, &[], ids.join("\n").as_bytes())?;
    let known = lossy(&known);
    let commits = known.lines().filter_map(|line| line.strip_suffix(" commit"));
    Ok(commits.map(CommitId::from).collect())
}

/// The top of the main worktree; none in a bare repository with added worktrees.
pub(super) fn main_root(root: &Path) -> Result<Option<PathBuf>> {
    let text = run(root, &["worktree", "list", "--porcelain", "-z"])?;
    let mut lines = text.split(|byte| *byte == 0).take_while(|line| !line.is_empty());
    let path = lines.next().and_then(|line| line.strip_prefix(b"worktree "));
    let is_bare = lines.any(|line| line == b"bare");
    Ok(path.filter(|_| !is_bare).map(|path| PathBuf::from(OsStr::from_bytes(path))))
}

/// Parses ` 2 files changed, 3 insertions(+), 1 deletion(-)`, where each part may be missing.
fn parse_diff_stat(text: &str) -> DiffStat {
    let mut stat = DiffStat::default();
    for part in text.trim().split(", ") {
        let (count, what) = part.split_once(' ').unwrap_or_default();
        let count = count.parse().unwrap_or_default();
        match what {
            _ if what.starts_with("file") => stat.files = count,
            _ if what.starts_with("insertion") => stat.insertions = count,
            _ if what.starts_with("deletion") => stat.deletions = count,
            _ => {}
        }
    }
    stat
}

/// Runs `git` in `dir` without prompts, hooks, monitors and optional locks, in English, for a
/// limited time. It has its own process group, because only the runner handles Ctrl-C, and still
/// reads the repository afterwards.
fn git(dir: &Path, arguments: &[&str]) -> Result<Output> {
    run_raw(dir, arguments, &[])
}

/// Runs `git` with more variables; the caller checks the exit status.
pub(super) fn run_raw(dir: &Path, arguments: &[&str], env: &[(&str, &OsStr)]) -> Result<Output> {
    start(dir, arguments, env, &[])
}

/// Runs `git` with an input; the caller checks the exit status.
pub(super) fn run_raw_with_input(dir: &Path, arguments: &[&str], input: &[u8]) -> Result<Output> {
    start(dir, arguments, &[], input)
}

fn start(dir: &Path, arguments: &[&str], env: &[(&str, &OsStr)], input: &[u8]) -> Result<Output> {
    /// Git's rule files, read by most commands.
    const RULES: [&str; 4] =
        [".gitattributes", ".gitignore", ".git/info/attributes", ".git/info/exclude"];
    let is_fifo =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    if let Some(path) = RULES.map(|name| dir.join(name)).iter().find(|path| is_fifo(path)) {
        bail!("`{}` is a FIFO, for which git would wait without end; remove it", path.display());
    }
    let mut command = command(dir, arguments);
    command.envs(env.iter().copied());
    bounded::output(command, input, name(arguments))
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    confined::remove_redirect(dir);
    let mut command = unconfined_command(dir, arguments);
    command.envs(confined_variables());
    command
}

/// The variables that keep git from starting commands written in a sandbox.
pub(super) fn confined_variables() -> Vec<(String, OsString)> {
    confined::variables(|dir| {
        let list = ["config", "--list", "--show-origin", "-z"];
        let output = bounded::output(unconfined_command(dir, &list), &[], "config");
        output.map(|output| output.stdout).unwrap_or_default()
    })
}

fn unconfined_command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program_file());
    command.arg0("git");
    for name in FOREIGN {
        command.env_remove(name);
    }
    command
        .args(["--no-pager", "--no-optional-locks", "--no-replace-objects"])
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
        .args(["-c", "protocol.ext.allow=never", "-C"])
        .arg(dir)
        .args(unsigned().iter().flat_map(|_| ["-c", "commit.gpgSign=false"]))
        .args(arguments)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        // In the background of a terminal, a question of ssh there would wait until the limit.
        .env("SSH_ASKPASS_REQUIRE", "force")
        .envs([("GIT_EDITOR", "true"), ("GIT_SEQUENCE_EDITOR", "true")])
        .env("LC_ALL", "C")
        .process_group(0);
    // Unit tests pass whatever the settings of the machine and of its user are.
    #[cfg(test)]
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

/// `git` in `dir` as the person in front of the terminal has it, with their pager and editor. It starts
/// nothing that an attempt in a sandbox has written.
pub(super) fn for_person(dir: &Path) -> Command {
    let mut command = Command::new(program_file());
    command.arg0("git").args(["-c", "core.fsmonitor=false", "-C"]).arg(dir);
    for name in FOREIGN {
        command.env_remove(name);
    }
    command.env_remove("GIT_LITERAL_PATHSPECS").envs(confined_variables());
    command
}

/// Starts this program again without the variables with which git points its own child processes to
/// one repository, if any is set: an alias, a hook or a merge driver has them. `ralph` and its agents
/// work in several repositories.
///
/// # Errors
/// The program cannot be started.
pub fn leave_repository() -> io::Result<()> {
    if FOREIGN.iter().all(|name| env::var_os(name).is_none()) {
        return Ok(());
    }
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut again = Command::new(env::current_exe()?);
    again.arg0(name).args(arguments);
    for name in FOREIGN {
        again.env_remove(name);
    }
    Err(again.exec())
}

/// The file of the program, searched once; its name where only the system finds it.
fn program_file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let folders = env::var_os("PATH").unwrap_or_default();
        let is_program = |file: &PathBuf| {
            let found = fs::metadata(file);
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let mut files = env::split_paths(&folders).map(|folder| folder.join("git"));
        let found = files.find(|file| file.is_relative() || is_program(file));
        found.filter(|file| file.is_absolute()).unwrap_or_else(|| PathBuf::from("git"))
    })
}

/// The git command of a command line.
fn name<'a>(arguments: &[&'a str]) -> &'a str {
    let named = |word: &&&str| !word.starts_with('-') && !word.contains('=');
    arguments.iter().find(named).copied().unwrap_or_default()
}

/// Returns a failed git command's message, as one line. Consequences of its first fatal error are
/// left out.
fn reason(said: &str) -> String {
    let mut fatal = 0;
    let mut reason = String::new();
    for line in said.lines().map(str::trim).filter(|line| !line.is_empty()) {
        fatal += u32::from(line.starts_with("fatal: "));
        if fatal > 1 {
            break;
        }
        if !reason.is_empty() {
            reason.push_str(if reason.ends_with(':') { " " } else { "; " });
        }
        reason.push_str(line);
    }
    reason
}

pub(super) fn failed(arguments: &[&str], output: &Output) -> anyhow::Error {
    let name = name(arguments);
    let said = lossy(&output.stderr);
    let error = match said.trim() {
        "" => format!("`git {name}` failed: {}", output.status),
        // A hook may say anything.
        said if name == "commit" => format!("`git {name}` failed: {said}"),
        said => format!("`git {name}` failed: {}", reason(said)),
    };
    let kinds = [
        ("No space left on device", io::ErrorKind::StorageFull),
        ("Out of diskspace", io::ErrorKind::StorageFull),
        ("Disk quota exceeded", io::ErrorKind::QuotaExceeded),
        ("Read-only file system", io::ErrorKind::ReadOnlyFilesystem),
    ];
    match kinds.iter().find(|(text, _)| said.contains(text)) {
        Some((_, kind)) => anyhow::Error::new(io::Error::from(*kind)).context(error),
        None => anyhow!(error),
    }
}

/// Runs `git` with more variables while its input is read and its output is written in pieces.
pub(super) fn run_streaming(
    dir: &Path,
    arguments: &[&str],
    env: &[(&str, &OsStr)],
    streams: CallStreams<'_>,
) -> Result<()> {
    let mut command = command(dir, arguments);
    command.envs(env.iter().copied());
    let (status, stderr) = bounded::stream(command, streams, name(arguments))?;
    let output = Output { status, stdout: Vec::new(), stderr };
    if status.success() { Ok(()) } else { Err(failed(arguments, &output)) }
}

/// Runs `git` on a line to another machine, which may be slow: the limit applies to time without
/// progress.
pub(super) fn run_on_line(dir: &Path, arguments: &[&str]) -> Result<()> {
    let streams = CallStreams { input: &mut io::empty(), output: &mut io::sink() };
    let (status, said) = bounded::stream(command(dir, arguments), streams, name(arguments))?;
    let is_error = |line: &&str| ["error:", "fatal:", " ! "].iter().any(|it| line.contains(it));
    let said = lossy(&said);
    let errors: Vec<&str> = said.split(['\r', '\n']).filter(is_error).collect();
    let (stdout, stderr) = (Vec::new(), errors.join("\n").into_bytes());
    if status.success() {
        Ok(())
    } else {
        Err(failed(arguments, &Output { status, stdout, stderr }))
    }
}

/// Runs `git` with more variables and with `input` on its standard input.
pub(super) fn run_with_input(
    dir: &Path,
    arguments: &[&str],
    env: &[(&str, &OsStr)],
    input: &[u8],
) -> Result<Vec<u8>> {
    let output = start(dir, arguments, env, input)?;
    if output.status.success() { Ok(output.stdout) } else { Err(failed(arguments, &output)) }
}

pub(super) fn run(dir: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = git(dir, arguments)?;
    if output.status.success() { Ok(output.stdout) } else { Err(failed(arguments, &output)) }
}

/// Runs a command that answers "no" with exit code 1.
pub(super) fn test(dir: &Path, arguments: &[&str]) -> Result<bool> {
    let output = git(dir, arguments)?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(failed(arguments, &output)),
    }
}

/// Runs a command that answers with one line, or "none" with exit code 1.
pub(super) fn answer(dir: &Path, arguments: &[&str]) -> Result<Option<String>> {
    let output = git(dir, arguments)?;
    match output.status.code() {
        Some(0) => Ok(Some(lossy(&output.stdout).trim_end_matches('\n').to_owned())),
        Some(1) => Ok(None),
        _ => Err(failed(arguments, &output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::tests::TestRepository;

    #[test]
    fn nothing_waits_for_a_fifo_among_the_rules_of_a_checkout() {
        let place = TestRepository::new();
        place.commit("a", "1\n", "First");
        for name in [".gitattributes", ".git/info/exclude"] {
            let path = place.top.join(name);
            let _ = fs::remove_file(&path);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            let error = status(&place.top).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("is a FIFO"), "{error}");
            fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn the_reason_of_a_failure_is_one_line() {
        let said = "fatal: no such repository\nfatal: clone of 'x' failed\nAborting";
        assert_eq!(reason(said), "fatal: no such repository");
        assert_eq!(
            reason("error: a\nfatal: b\n\n  hint: call:\n\tc\n"),
            "error: a; fatal: b; hint: call: c"
        );
    }

    #[test]
    fn a_diff_stat_may_lack_parts() {
        let stat = |text: &str| parse_diff_stat(text).to_string();
        let whole = " 2 files changed, 3 insertions(+), 1 deletion(-)\n";
        assert_eq!(stat(whole), "2 files, +3 -1");
        assert_eq!(stat(" 1 file changed, 4 deletions(-)"), "1 file, +0 -4");
        assert_eq!(stat(" 1 file changed, 0 insertions(+), 0 deletions(-)"), "1 file, +0 -0");
        assert_eq!(stat(""), "0 files, +0 -0");
    }
}
