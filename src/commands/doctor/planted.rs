//! A planted failure: after the verify commands have passed in the slot of the trial, its code is
//! broken, and they must fail. Where they pass all the same, they test something else, or nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{
    commands::probe::{Probe, ProbeAnswer, ProbeFolder, ProbePlace},
    core::{
        environment,
        finding::{Finding, FindingKind},
        graph::lint::cannot_fail,
        proof::{
            halves::{Half, HalvesRule, is_own_code},
            source_code::lexer::Language,
            tripwire::{Reach, Tripwire, garbage},
        },
    },
    regular_file,
};

/// The largest file that is broken, and the largest that is searched for the path of the checkout.
const LARGEST: u64 = 1 << 20;
/// A command may take this many times as long as before, and has at least this long.
const TIMES: u32 = 3;
const LEAST: Duration = Duration::from_secs(30);
/// Parts of commands that read code and do not run it.
const READERS: &[&str] = &[
    "audit",
    "black",
    "build",
    "cargo check",
    "clippy",
    "compile",
    "flake8",
    "fmt",
    "format",
    "lint",
    "mypy",
    "prettier",
    "pyright",
    "ruff",
    "shellcheck",
    "tsc",
    "typecheck",
    "vet",
];

/// A verify command that passed, and how long it took.
pub(super) struct GreenCheck<'a> {
    pub(super) command: &'a str,
    pub(super) took: Duration,
}

/// Whether verify commands notice broken code.
pub(super) enum Notice {
    /// There is no code to break.
    NoCode,
    /// One of them failed.
    Noticed,
    /// None of them did, or none of those that run code.
    Missed(Finding),
}

/// Breaks the code in the slot and runs the commands again. The files are as before afterwards.
///
/// # Errors
/// Errors of the disk.
pub(super) fn notice(
    bench: &ProbeFolder,
    place: &ProbePlace<'_>,
    files: &[String],
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
    let (mut runners, mut readers) = (Vec::new(), Vec::new());
    for GreenCheck { command, took } in green {
        let env = vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())];
        let probe = Probe { env, ..Probe::shell(command, &place.folder) };
        let (answer, _) = bench.ask_in(place, probe, (*took * TIMES).max(LEAST))?;
        let output = regular_file::read(&bench.output()).unwrap_or_default();
        let is_green = matches!(answer, ProbeAnswer::Yes(_));
        let is_reader = reads_only(command);
        // Code that cannot be compiled fails in a command that runs it, and needs no marker.
        let is_red = !is_green && !is_reader;
        if is_red || String::from_utf8_lossy(&output).contains(&wire.marker(0)) {
            return Ok(Notice::Noticed);
        }
        if is_reader { readers.push(*command) } else { runners.push(*command) }
    }
    let has_tests = broken.has_tests;
    drop(broken);
    let tests = runners.iter().find(|it| it.contains("test") || it.contains("spec"));
    let Some(command) = tests.or(runners.first()) else {
        let finding = match readers.first() {
            Some(reader) => FindingKind::OnlyRead.with(&[reader]),
            None => FindingKind::NoVerify.with(&[]),
        };
        return Ok(Notice::Missed(finding));
    };
    if cannot_fail(command) {
        return Ok(Notice::Missed(FindingKind::ChecksNothing.with(&[command])));
    }
    if !has_tests {
        return Ok(Notice::Missed(FindingKind::RunsNone.with(&[command])));
    }
    Ok(Notice::Missed(match leads_out(bench, place, files, command)? {
        Some((path, by)) => FindingKind::TestsCheckout.with(&[command, &path, &by]),
        None => FindingKind::TestsOther.with(&[command]),
    }))
}

/// Whether a command reads code and does not run it.
fn reads_only(command: &str) -> bool {
    let is_test = ["test", "spec", "check.sh"].iter().any(|word| command.contains(word));
    !is_test && READERS.iter().any(|word| command.contains(word))
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

/// What the command tests in place of the slot: a path of the checkout, and what leads there, if
/// that is found.
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
