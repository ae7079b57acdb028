//! A planted failure: after the verify commands have passed in the slot of the trial, its code is
//! broken, and they must fail. Where they pass all the same, they test something else, or nothing.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::trial;
use crate::{
    adapters::terminal,
    commands::probe::{Probe, ProbeAnswer, ProbeFolder, ProbePlace},
    core::{
        environment,
        exit::{Exit, fail},
        finding::{Finding, FindingKind},
        graph::lint::cannot_fail,
        proof::{
            ProofPolicy,
            halves::{Half, HalvesRule, is_own_code},
            source_code::lexer::Language,
            tripwire::{Reach, Tripwire, garbage},
        },
        setup::MANIFESTS,
        test_output::TestRun,
    },
    project::{
        executors,
        graph_file::GraphFile,
        workspace::{Workspace, note_sandbox},
    },
    regular_file,
    runner::{self, RunOptions},
};

/// The largest file that is broken, and the largest that is searched for the path of the checkout.
const LARGEST: u64 = 1 << 20;
/// A command may take this many times as long as before, and has at least this long.
const TIMES: u32 = 3;
const LEAST: Duration = Duration::from_secs(30);
/// A verify command that passed, how long it took, and whether a test ran in it.
pub(super) struct GreenCheck<'a> {
    pub(super) command: &'a str,
    pub(super) took: Duration,
    pub(super) has_tests: bool,
}

/// Whether verify commands notice broken code.
pub(super) enum Notice {
    /// There is no code to break.
    NoCode,
    /// One of them failed.
    Noticed,
    /// None of them did, or none of those that run code; and whether a test ran.
    Missed(Finding, bool),
}

/// The test results in the output of the last command.
pub(super) fn tests_of(bench: &ProbeFolder) -> Option<TestRun> {
    let output = regular_file::read(&bench.output()).unwrap_or_default();
    TestRun::read(&terminal::plain(&String::from_utf8_lossy(&output)))
}

/// Breaks the code in the slot, builds it with these commands and runs the others again. The files are as
/// before afterwards.
///
/// # Errors
/// Errors of the disk.
pub(super) fn notice(
    bench: &ProbeFolder,
    place: &ProbePlace<'_>,
    files: &[String],
    build: &[String],
    green: &[GreenCheck<'_>],
) -> Result<Notice> {
    let wire = Tripwire::new(u64::from(std::process::id()));
    let verify: Vec<String> = green.iter().map(|it| it.command.to_owned()).collect();
    let settings = &place.workspace.config.proof;
    let rule = HalvesRule::new(settings, (&verify, files), &[]);
    let broken = BrokenCode::plant(&place.folder, files, &rule, wire)?;
    if broken.files.is_empty() {
        return Ok(Notice::NoCode);
    }
    let mut hides = None;
    let is_tested = green.iter().any(|it| it.has_tests);
    let env = vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())];
    for command in build {
        let probe = Probe { env: env.clone(), ..Probe::shell(command, &place.folder) };
        let limit = place.workspace.config.setup_timeout;
        if !matches!(bench.ask_in(place, probe, limit)?.0, ProbeAnswer::Yes(_)) {
            return Ok(Notice::Noticed);
        }
    }
    for GreenCheck { command, took, has_tests } in green {
        // Where tests run, formatters and linters show nothing.
        if is_tested && !has_tests {
            continue;
        }
        let probe = Probe { env: env.clone(), ..Probe::shell(command, &place.folder) };
        let (answer, _) = bench.ask_in(place, probe, (*took * TIMES).max(LEAST))?;
        let is_red = !matches!(answer, ProbeAnswer::Yes(_));
        let run = tests_of(bench);
        // Without a known runner in the output, nothing could be built.
        let fails = run.is_none_or(|run| run.is_red() || run.is_empty());
        match is_red {
            true if fails || !has_tests => return Ok(Notice::Noticed),
            false if fails && *has_tests => hides = Some(*command),
            _ => {}
        }
    }
    let has_tests = broken.has_tests;
    drop(broken);
    let missed = |finding| Ok(Notice::Missed(finding, is_tested));
    let tests = green.iter().find(|it| it.has_tests).or(green.first()).map(|it| it.command);
    let Some(command) = hides.or(tests) else {
        return missed(FindingKind::NoVerify.with(&[]));
    };
    if hides.is_some() || cannot_fail(command) {
        return missed(FindingKind::ChecksNothing.with(&[command]));
    }
    if !has_tests {
        return missed(FindingKind::RunsNone.with(&[command]));
    }
    missed(match leads_out(bench, place, files, command)? {
        Some((path, by)) => FindingKind::TestsCheckout.with(&[command, &path, &by]),
        None => FindingKind::TestsOther.with(&[command]),
    })
}

/// The files of a slot while their code is broken; dropping it restores them.
struct BrokenCode {
    /// Their paths and contents.
    files: Vec<(PathBuf, Vec<u8>)>,
    has_tests: bool,
}

impl BrokenCode {
    fn plant(
        root: &Path,
        files: &[String],
        rule: &HalvesRule,
        wire: Tripwire,
    ) -> Result<BrokenCode> {
        let mut broken = BrokenCode { files: Vec::new(), has_tests: false };
        for path in files.iter().filter(|path| is_own_code(path)) {
            match rule.half(path) {
                Half::Test => broken.has_tests = true,
                Half::Source => broken.break_file(root, path, wire)?,
                Half::Check | Half::Other => {}
            }
        }
        Ok(broken)
    }

    fn break_file(&mut self, root: &Path, path: &str, wire: Tripwire) -> Result<()> {
        let file = root.join(path);
        let is_plain =
            fs::symlink_metadata(&file).is_ok_and(|it| it.is_file() && it.len() <= LARGEST);
        let content = is_plain.then(|| regular_file::read(&file).ok()).flatten();
        let Some((content, text)) =
            content.and_then(|it| Some((it.clone(), String::from_utf8(it).ok()?)))
        else {
            return Ok(());
        };
        self.has_tests |= path.rsplit('.').next() == Some("rs") && text.contains("#[test]");
        let is_known = Language::of(path).is_some();
        let planted = match wire.plant(path, &text, Reach::All) {
            Some(planted) => planted,
            None if is_known => return Ok(()),
            None => garbage(&text),
        };
        self.files.push((file.clone(), content));
        fs::write(&file, planted).with_context(|| format!("write `{}`", file.display()))
    }
}

impl Drop for BrokenCode {
    fn drop(&mut self) {
        for (file, content) in &self.files {
            // The slot is removed in any case.
            let _ = fs::write(file, content);
        }
    }
}

fn is_in(path: &str, folders: &[&str]) -> bool {
    let mut parts = path.split('/').rev().skip(1);
    parts.any(|part| folders.contains(&part))
}

/// The path of the checkout that the command tests in place of the slot, and its cause, if found.
fn leads_out(
    bench: &ProbeFolder,
    place: &ProbePlace<'_>,
    files: &[String],
    command: &str,
) -> Result<Option<(String, String)>> {
    let (main, slot) = (place.workspace.root(), &place.folder);
    let root = main.display().to_string();
    if let Some(path) = path_in(command, &root) {
        return Ok(Some((path, "the command names it".to_owned())));
    }
    let named = |path: &&String| !path.starts_with(".ralph/") && !is_in(path, &["docs", "doc"]);
    for path in files.iter().filter(named) {
        let file = slot.join(path);
        if fs::symlink_metadata(&file).is_ok_and(|it| it.is_file() && it.len() <= LARGEST)
            && let Ok(text) = regular_file::read_to_string(&file)
            && let Some(found) = path_in(&text, &root)
        {
            return Ok(Some((found, format!("`{path}` names it"))));
        }
    }
    let modules = slot.join("node_modules");
    let scopes = entries(&modules).into_iter().filter(|it| it.is_dir() && !it.is_symlink());
    let scopes: Vec<PathBuf> = scopes.filter(|it| it.to_string_lossy().contains("/@")).collect();
    for link in scopes.iter().chain([&modules]).flat_map(|folder| entries(folder)) {
        let target =
            link.canonicalize().ok().filter(|it| link.is_symlink() && it.starts_with(main));
        if let Some(target) = target {
            let link = link.strip_prefix(slot).unwrap_or(&link).display().to_string();
            return Ok(Some((target.display().to_string(), format!("`{link}` is a link to it"))));
        }
    }
    let ask = "for it in python python3; do $it -c 'import sys; print(sys.prefix); \
               print(*sys.path, sep=\"\\n\")' 2> /dev/null && exit; done; exit 1";
    let (answer, _) = bench.ask_in(place, Probe::shell(ask, slot), LEAST)?;
    let said = regular_file::read_to_string(&bench.output()).unwrap_or_default();
    let mut lines = said.lines().filter(|_| matches!(answer, ProbeAnswer::Yes(_)));
    let prefix = lines.next().unwrap_or_default().to_owned();
    let found =
        lines.find(|line| Path::new(line).starts_with(main) && !line.contains("site-packages"));
    Ok(found.map(|path| (path.to_owned(), format!("the Python of `{prefix}` looks there"))))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The first path of the checkout in a text.
fn path_in(text: &str, root: &str) -> Option<String> {
    if environment::moved(text, root, "") == text {
        return None;
    }
    let below = &text[text.find(root)? + root.len()..];
    let end = below.find(|c: char| c.is_whitespace() || "'\"`:;,)&|<>".contains(c));
    Some(format!("{root}{}", &below[..end.unwrap_or(below.len())]))
}

// `ralph run`'s check before its first agent: a proof cannot show more than that.

/// The file of the state folder with the last answer.
const FILE: &str = "noticed.json";
/// How many days it holds.
const DAYS: i64 = 7;
/// The variables that say which programs and libraries tests use.
const VARIABLES: &[&str] = &[
    "CONDA_PREFIX",
    "GOFLAGS",
    "GOPATH",
    "JAVA_HOME",
    "NODE_PATH",
    "PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
];

/// That checks have noticed broken code.
#[derive(Serialize, Deserialize)]
struct Noticed {
    at: DateTime<Utc>,
    /// The inputs of that: the commands, lists of dependencies and variables.
    key: u64,
}

/// Tries whether the verify commands notice broken code, unless that is known. Returns a warning
/// where they cannot.
///
/// # Errors
/// They test something else than the slot; errors of git and of the disk.
pub(in crate::commands) fn check_notice(
    workspace: &Workspace,
    file: &GraphFile,
    run: &RunOptions,
) -> Result<Option<String>> {
    let (config, repo) = (&workspace.config, &workspace.repo);
    let (verify, policy) = (&config.verify.0, run.policy(workspace));
    let open = runner::open(&policy, file.graph().tasks());
    let is_proved =
        open.iter().any(|it| it.proof_settings(&config.proof).policy != ProofPolicy::None);
    let head = repo.head()?.commit.filter(|_| config.is_isolated() && is_proved);
    let Some(head) = head else { return Ok(None) };
    let files = repo.files_at(&head)?;
    let rule = HalvesRule::new(&config.proof, (verify, &files), &[]);
    let code: Vec<&String> =
        files.iter().filter(|path| is_own_code(path) && rule.half(path) == Half::Source).collect();
    if code.is_empty() {
        return Ok(None);
    }
    let has_tests = files.iter().any(|path| rule.half(path) == Half::Test)
        || code.iter().any(|path| path.rsplit('.').next() == Some("rs"));
    let unable = match verify.iter().find(|it| !cannot_fail(it)) {
        None if verify.is_empty() => Some(FindingKind::NoVerify.with(&[])),
        None => Some(FindingKind::ChecksNothing.with(&[&verify[0]])),
        Some(command) if !has_tests => Some(FindingKind::RunsNone.with(&[command])),
        Some(_) => None,
    };
    let line = |message: &str| format!("{message}; nothing will be called proved");
    if let Some(finding) = unable {
        return Ok(Some(line(&finding.message)));
    }
    let usual = run.run_on.as_deref().unwrap_or(&config.run_on);
    let executor = executors::find(config, Some(usual))?;
    let mut key = DefaultHasher::new();
    let variables = VARIABLES.iter().map(env::var_os);
    (verify, &config.setup.0, usual, variables.collect::<Vec<_>>()).hash(&mut key);
    repo.files_named(MANIFESTS)?.hash(&mut key);
    let (key, at) = (key.finish(), Utc::now());
    let known: Option<Noticed> = workspace.state.kept(FILE);
    let is_known = known.is_some_and(|it| it.key == key && at - it.at < TimeDelta::days(DAYS));
    if is_known || !executor.is_here() {
        return Ok(None);
    }
    note_sandbox(workspace, &executor);
    terminal::say(
        "trying whether the checks notice broken code (once a week; `--unproved` leaves it out)",
    );
    // The run itself reports its obstacles.
    match trial::notice(workspace, &executor).ok().flatten() {
        Some(Notice::Noticed) => {
            workspace.state.keep(FILE, &Noticed { at, key })?;
            Ok(None)
        }
        Some(Notice::Missed(finding, is_tested)) => {
            let is_elsewhere = match finding.kind {
                Some(FindingKind::TestsCheckout) => true,
                Some(FindingKind::TestsOther) => is_tested,
                _ => false,
            };
            if !is_elsewhere {
                return Ok(Some(line(&finding.message)));
            }
            let (message, remedy) = (finding.message, finding.remedy);
            fail(Exit::Error, format!("{message}; {remedy}; `--unproved` starts all the same"))
        }
        Some(Notice::NoCode) | None => Ok(None),
    }
}
