//! The known bugs of `tests/bugs`. Each file describes a plausible mistake, names the test that
//! must detect it, and contains snippets to find in `src` and to replace:
//!
//! ```text
//! A report without a commit is sufficient.
//! caught-by: it verdicts::a_lie_is_unverified
//!
//! find:
//!     !self.commits.is_empty() && changes
//! replace:
//!     changes || self.report.is_some()
//! ```
//!
//! A snippet names no file. It is compared token by token, so it survives formatting and moving
//! code, and it must occur exactly once. `caught-by` is `it module::function` or, for a unit test,
//! `lib function`.
//!
//! With `RALPH_BUGS=all` (or names), each bug is applied to a copy of the tree; its test must pass
//! without the bug and fail with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    ops::Range,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::is_a_test;

/// The time limit of a test with a bug; a test that does not end has failed.
const TEST_LIMIT: Duration = Duration::from_secs(150);
/// The time limit of a build; the first one compiles all dependencies.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// A file of `tests/bugs`.
struct KnownBug {
    name: String,
    /// `lib` or `it`.
    target: String,
    test: String,
    /// Pairs of a text to find and its replacement.
    snippets: Vec<(String, String)>,
}

impl KnownBug {
    fn parse(name: String, file: &str) -> KnownBug {
        let (mut caught_by, mut snippets) = (None, Vec::new());
        let mut in_find = true;
        for line in file.lines() {
            if let Some(words) = line.strip_prefix("caught-by: ") {
                caught_by = words.split_once(' ');
            } else if line == "find:" {
                snippets.push((String::new(), String::new()));
                in_find = true;
            } else if line == "replace:" {
                in_find = false;
            } else if let Some((find, replace)) = snippets.last_mut() {
                let part = if in_find { find } else { replace };
                *part += line;
                *part += "\n";
            }
        }
        let caught_by = caught_by.unwrap_or_else(|| panic!("{name}: no `caught-by`"));
        assert!(!snippets.is_empty(), "{name}: no `find:`");
        let (target, test) = (caught_by.0.to_owned(), caught_by.1.to_owned());
        KnownBug { name, target, test, snippets }
    }

    /// All known bugs, by name.
    fn all() -> Vec<KnownBug> {
        let mut bugs = Vec::new();
        for path in files(&root().join("tests/bugs")) {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            bugs.push(KnownBug::parse(name, &fs::read_to_string(&path).unwrap()));
        }
        bugs.sort_by(|a, b| a.name.cmp(&b.name));
        bugs
    }

    /// Replaces the snippets in the texts of `src`, and returns the paths of the changed files.
    /// The error names a snippet that does not occur exactly once.
    fn apply(&self, sources: &mut BTreeMap<PathBuf, String>) -> Result<BTreeSet<PathBuf>, String> {
        let mut changed = BTreeSet::new();
        for (find, replace) in &self.snippets {
            let mut places = Vec::new();
            for (path, text) in &*sources {
                places.extend(occurrences(text, find).into_iter().map(|at| (path.clone(), at)));
            }
            let [(path, at)] = &places[..] else {
                return Err(format!("found {} times instead of once:\n{find}", places.len()));
            };
            sources.get_mut(path).unwrap().replace_range(at.clone(), replace.trim());
            changed.insert(path.clone());
        }
        Ok(changed)
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

/// The texts of all source files of a tree.
fn sources(tree: &Path) -> BTreeMap<PathBuf, String> {
    let paths = files(&tree.join("src")).into_iter();
    let rust = paths.filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    rust.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The tokens of a text: words and single characters. Formatting is left out: white space, comments
/// on lines of their own, and trailing commas.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let mut tokens: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let (line_start, mut word) = (start, None);
        start += line.len();
        if line.trim_start().starts_with("//") {
            continue;
        }
        for (at, c) in line.char_indices() {
            let at = line_start + at;
            if c.is_alphanumeric() || c == '_' {
                word.get_or_insert(at);
                continue;
            }
            tokens.extend(word.take().map(|word| word..at));
            if c.is_whitespace() {
                continue;
            }
            if matches!(c, ')' | ']' | '}') {
                tokens.pop_if(|last| &text[last.clone()] == ",");
            }
            tokens.push(at..at + c.len_utf8());
        }
        tokens.extend(word.map(|word| word..start));
    }
    tokens
}

/// Where a snippet occurs in a text.
fn occurrences(text: &str, snippet: &str) -> Vec<Range<usize>> {
    let wanted: Vec<&str> = tokens(snippet).into_iter().map(|at| &snippet[at]).collect();
    let all = tokens(text);
    let same = |some: &&[Range<usize>]| {
        some.iter().zip(&wanted).all(|(at, wanted)| text[at.clone()] == **wanted)
    };
    let windows = all.windows(wanted.len().max(1)).filter(same);
    windows.map(|some| some[0].start..some[some.len() - 1].end).collect()
}

#[test]
fn snippets_are_found_by_their_tokens() {
    let text = "a(\n    b,\n    // why\n    c_d,\n);\nab(c);\n";
    let found = |snippet| -> Vec<&str> {
        occurrences(text, snippet).into_iter().map(|at| &text[at]).collect()
    };
    assert_eq!(found("a(b, c_d)"), [&text[..=text.find(");").unwrap()]]);
    assert_eq!(found("(b, c_d);\nab"), [&text[1..text.rfind('(').unwrap()]]);
    assert_eq!(found("b"), ["b"], "a whole token");
    assert_eq!(occurrences("x x x", "x x").len(), 2);
}

#[test]
fn known_bugs_apply_and_name_a_test() {
    let (bugs, sources) = (KnownBug::all(), sources(root()));
    let mut stale = Vec::new();
    for bug in &bugs {
        let (name, test) = (&bug.name, &bug.test);
        if let Err(why) = bug.apply(&mut sources.clone()) {
            stale.push(format!("{name}: {why}"));
        }
        if bug.target == "lib" {
            let same = |text: &String| text.matches(&format!("fn {test}()")).count();
            let count: usize = sources.values().map(same).sum();
            assert_eq!(count, 1, "{name}: unit tests of the name {test}");
        } else {
            assert!(bug.target == "it" && is_a_test(test), "{name}: no test {test}");
        }
    }
    assert!(stale.is_empty(), "known bugs that no longer apply:\n{}", stale.join("\n"));
    assert!(bugs.len() >= 19, "{} bugs", bugs.len());
}

/// The copy of the tree to which the bugs are applied.
struct Copy {
    folder: PathBuf,
    tree: PathBuf,
}

impl Copy {
    /// Brings the copy up to date. Unchanged files keep their times, so they are not built again.
    fn new() -> Copy {
        let folder = root().join("target/bugs");
        let tree = folder.join("tree");
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let list = git.current_dir(root()).output().unwrap();
        assert!(list.status.success(), "git ls-files: {}", String::from_utf8_lossy(&list.stderr));
        let mut stale: BTreeSet<PathBuf> = files(&tree).into_iter().collect();
        for path in String::from_utf8(list.stdout).unwrap().split_terminator('\0') {
            let (from, to) = (root().join(path), tree.join(path));
            let Ok(bytes) = fs::read(&from) else { continue };
            stale.remove(&to);
            if fs::read(&to).ok() != Some(bytes) {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::copy(from, to).unwrap();
            }
        }
        for path in stale {
            fs::remove_file(path).unwrap();
        }
        Copy { folder, tree }
    }

    /// Runs `cargo test` with these arguments and returns its output if it succeeds in time.
    fn cargo(&self, log: &str, limit: Duration, words: &[&str]) -> Result<String, PathBuf> {
        let log = self.folder.join(log);
        let output = File::create(&log).unwrap();
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--quiet"]).args(words).current_dir(&self.tree).process_group(0);
        cargo.stdout(output.try_clone().unwrap()).stderr(output).env_remove("RALPH_BUGS");
        cargo.env("CARGO_TARGET_DIR", self.folder.join("target"));
        // The copy lies in a repository but is not part of it.
        cargo.env("GIT_CEILING_DIRECTORIES", &self.folder);
        let mut child = cargo.spawn().unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
                return if status.success() { Ok(text) } else { Err(log) };
            }
            if began.elapsed() > limit {
                let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
                let _ = kill_process_group(group, Signal::KILL);
                child.wait().unwrap();
                return Err(log);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn build(&self, log: &str) -> Result<String, PathBuf> {
        self.cargo(log, BUILD_LIMIT, &["--no-run", "--lib", "--bins", "--test", "it"])
    }

    fn test(&self, log: &str, bug: &KnownBug) -> Result<String, PathBuf> {
        match bug.target.as_str() {
            "lib" => self.cargo(log, TEST_LIMIT, &["--lib", "--", &format!("::{}", bug.test)]),
            _ => self.cargo(
                log,
                TEST_LIMIT,
                &["--test", "it", "--", "--include-ignored", "--exact", &bug.test],
            ),
        }
    }

    /// Applies a bug and runs its test. The error says why the bug does not count as caught.
    fn catch(&self, bug: &KnownBug) -> Result<(), String> {
        let (name, test) = (&bug.name, &bug.test);
        match self.test(&format!("{name}.green"), bug) {
            Ok(output) if output.contains(" 1 passed") => {}
            Ok(_) => return Err(format!("{test} is not exactly one test")),
            Err(log) => {
                return Err(format!("{test} fails without the bug, see {}", log.display()));
            }
        }
        let clean = sources(&self.tree);
        let mut broken = clean.clone();
        let changed = bug.apply(&mut broken)?;
        for path in &changed {
            fs::write(path, &broken[path]).unwrap();
        }
        let caught = match self.build(&format!("{name}.build")) {
            Err(log) => Err(format!("does not build, see {}", log.display())),
            Ok(_) if self.test(&format!("{name}.red"), bug).is_ok() => {
                Err(format!("NOT caught by {test}"))
            }
            Ok(_) => Ok(()),
        };
        for path in &changed {
            fs::write(path, &clean[path]).unwrap();
        }
        caught
    }
}

#[test]
fn known_bugs_are_caught_if_asked() {
    let Ok(names) = env::var("RALPH_BUGS") else { return };
    let names: Vec<&str> = names.split_whitespace().filter(|name| *name != "all").collect();
    let mut bugs = KnownBug::all();
    for name in &names {
        assert!(bugs.iter().any(|bug| bug.name == *name), "no known bug `{name}`");
    }
    bugs.retain(|bug| names.is_empty() || names.contains(&bug.name.as_str()));
    let copy = Copy::new();
    if let Err(log) = copy.build("build") {
        panic!("the tree does not build without a bug, see {}", log.display());
    }
    let mut escaped = Vec::new();
    for bug in &bugs {
        match copy.catch(bug) {
            Ok(()) => println!("{}: caught by {}", bug.name, bug.test),
            Err(why) => {
                println!("{}: {why}", bug.name);
                escaped.push(&bug.name);
            }
        }
    }
    println!("caught {} of {}", bugs.len() - escaped.len(), bugs.len());
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
