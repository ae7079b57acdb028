//! The trees of the controls of a change, and which of its tests are weaker than before.

use std::collections::{BTreeMap, BTreeSet};

use super::{ChangedFile, ControlTree};
use crate::proof::{
    ControlText,
    halves::{self, as_it_was},
    source_code::{SourceCode, lexer::Language},
    tripwire::{Reach, Tripwire, garbage},
};

/// Words of lines with which a test begins.
const TESTS: &[&str] =
    &["def test", "func Test", "it(", "test(", "#[test]", "::test]", "@Test", "void test"];

/// Words of lines that decide whether a test passes.
const ASSERTS: &[&str] = &[
    "assert", "Assert", "expect", "should", "raises", "require.", "t.Error", "t.Fatal", "[ ",
    "test ", "grep", "cmp", "diff", "exit",
];

/// Words with which tests are left out.
const SKIPS: &[&str] = &[
    "skip",
    "xfail",
    "xit(",
    "xdescribe",
    ".only",
    ".todo",
    "[ignore",
    "|| true",
    "deselect",
    "collect_ignore",
    "importorskip",
    "t.Skip",
];

/// The tests in a file of source.
fn test_half(file: &ChangedFile, text: &str) -> String {
    let Some(language) = file.language() else { return String::new() };
    split(&SourceCode::new(language, text), true)
}

/// Whether the tests in a file of source changed.
pub(super) fn changes_tests(file: &ChangedFile) -> bool {
    let half = |text: &Option<String>| text.as_deref().map(|text| test_half(file, text));
    half(&file.base).unwrap_or_default() != half(&file.head).unwrap_or_default()
}

/// Whether the source half of a file has another code than before.
pub(super) fn has_code_change(file: &ChangedFile) -> bool {
    let Some(language) = file.language() else { return true };
    let (Some(base), Some(head)) = (&file.base, &file.head) else {
        // A new file may be tests alone.
        let text = file.head.as_ref().or(file.base.as_ref());
        return text.is_none_or(|text| {
            let code = split(&SourceCode::new(language, text), false);
            !SourceCode::new(language, &code).code().trim().is_empty()
        });
    };
    let code = |text: &str| {
        let code = split(&SourceCode::new(language, text), false);
        SourceCode::new(language, &code).code()
    };
    code(base) != code(head)
}

/// The tests at the top level of a file, or all else.
fn split(code: &SourceCode<'_>, of_tests: bool) -> String {
    let tests = code.tests();
    let lines = code.text().split_inclusive('\n').enumerate();
    let is_test = |at: usize| tests.iter().any(|range| range.contains(&at));
    lines.filter(|(at, _)| is_test(*at) == of_tests).map(|(_, line)| line).collect()
}

/// The tree without the source half of a change.
pub(super) fn without_source(source: &[&ChangedFile]) -> ControlTree {
    let modules = kept_modules(source);
    let tree = source.iter().map(|file| {
        let tests = file.head.as_deref().map(|text| test_half(file, text)).unwrap_or_default();
        let declared = modules.get(&file.path).cloned().unwrap_or_default();
        let is_kept = !tests.is_empty() || !declared.is_empty();
        let text = match (file.language(), is_kept) {
            (Some(language), true) => {
                let base = file.base.as_deref().unwrap_or_default();
                let base = split(&SourceCode::new(language, base), false);
                let end = if base.is_empty() || base.ends_with('\n') { "" } else { "\n" };
                ControlText::Text(format!("{base}{end}{declared}{tests}"))
            }
            (Some(language), false)
                if file.base.as_deref().is_some_and(|base| {
                    // The tests that the work removed are a matter of another control.
                    !SourceCode::new(language, base).tests().is_empty()
                }) =>
            {
                let base = file.base.as_deref().unwrap_or_default();
                ControlText::Text(split(&SourceCode::new(language, base), false))
            }
            _ => ControlText::Base,
        };
        (file.path.clone(), text)
    });
    tree.collect()
}

/// The new declarations of modules of Rust that have tests, by the file that has them: without their
/// declarations, the tests would not be compiled.
fn kept_modules(source: &[&ChangedFile]) -> BTreeMap<String, String> {
    let rust = source.iter().filter(|it| it.language() == Some(Language::Rust));
    let rust: Vec<&&ChangedFile> = rust.filter(|it| it.head.is_some()).collect();
    let head = |file: &ChangedFile| file.head.clone().unwrap_or_default();
    let mut kept: BTreeSet<String> = rust
        .iter()
        .filter(|file| !file.was_there && !test_half(file, &head(file)).is_empty())
        .map(|file| file.path.clone())
        .collect();
    let mut declared: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let before = declared.clone();
        for file in &rust {
            let text = head(file);
            let base = file.base.as_deref().unwrap_or_default();
            let lines = text.lines().filter(|line| !base.lines().any(|old| old == *line));
            let modules = lines.filter(|line| {
                let name = line.trim().strip_suffix(';').and_then(|it| it.rsplit_once("mod "));
                name.is_some_and(|(_, name)| {
                    children(&file.path, name.trim()).iter().any(|it| kept.contains(it))
                })
            });
            let modules: String = modules.flat_map(|line| [line, "\n"]).collect();
            if !modules.is_empty() {
                declared.insert(file.path.clone(), modules);
                if !file.was_there {
                    kept.insert(file.path.clone());
                }
            }
        }
        if declared == before {
            return declared;
        }
    }
}

/// The files that a module of a file of Rust may be in.
fn children(path: &str, name: &str) -> [String; 2] {
    let (folder, file) = path.rsplit_once('/').map_or(("", path), |(folder, file)| (folder, file));
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let folder = match stem {
        "lib" | "main" | "mod" => folder.to_owned(),
        _ if folder.is_empty() => stem.to_owned(),
        _ => format!("{folder}/{stem}"),
    };
    let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    [format!("{start}{name}.rs"), format!("{start}{name}/mod.rs")]
}

/// The tree with the settings and scripts of checks as they were.
pub(super) fn old_checks(checks: &[&ChangedFile]) -> ControlTree {
    let old = checks.iter().filter_map(|file| {
        let old = as_it_was(&file.path, file.base.as_deref(), file.head.as_deref())?;
        Some((file.path.clone(), old))
    });
    old.collect()
}

/// Whether a changed file decides which tests pytest runs, and what they find.
pub(super) fn is_conftest(file: &ChangedFile) -> bool {
    halves::is_conftest(&file.path) && !file.lines.is_empty() && has_code_change(file)
}

/// What an older `conftest.py` finds at the path of a test: the tests as they were. Those that it does
/// not know, and whose fixtures it may lack, are empty.
pub(super) fn of_its_time(file: &ChangedFile) -> Option<(String, ControlText)> {
    let stem = file.name().strip_suffix(".py").unwrap_or_default();
    let has_tests = stem.starts_with("test_") || stem.ends_with("_test");
    if !file.was_there && !has_tests && !is_conftest(file) {
        return None;
    }
    let base = file.base.as_deref().unwrap_or_default();
    let new = file.head.as_deref().unwrap_or_default().lines().filter_map(|line| {
        let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def test")?;
        let (name, _) = name.split_once('(')?;
        (!base.contains(&format!("def test{name}("))).then(|| format!("\ndef test{name}(): pass\n"))
    });
    let new: String = new.filter(|_| has_tests).collect();
    let is_kept = file.was_there || !has_tests;
    let text = if is_kept && new.is_empty() {
        ControlText::Base
    } else {
        ControlText::Text(format!("{base}{new}"))
    };
    Some((file.path.clone(), text))
}

/// The files of tests from which tests or their asserts went, and those in which words came with which
/// tests are left out. What went to another file is still there.
pub(super) fn weakened(tests: &[&ChangedFile], source: &[&ChangedFile]) -> Vec<String> {
    let weigh = |file: &ChangedFile, text: &Option<String>, is_source: bool| -> [usize; 3] {
        let Some(text) = text else { return [0; 3] };
        let text = if is_source { test_half(file, text) } else { text.clone() };
        let code = file.code_of(Some(&text)).unwrap_or_default();
        let count = |words: &[&str]| {
            code.lines().filter(|line| words.iter().any(|word| line.contains(word))).count()
        };
        // The data of tests may be the cases of one.
        [count(TESTS), count(ASSERTS), usize::from(file.language().is_none())]
    };
    let files = tests.iter().map(|it| (it, false)).chain(source.iter().map(|it| (it, true)));
    let weights: Vec<(&ChangedFile, [usize; 3], [usize; 3])> = files
        .map(|(file, is_source)| {
            (*file, weigh(file, &file.base, is_source), weigh(file, &file.head, is_source))
        })
        .collect();
    let went = |at: usize| {
        let (old, new): (Vec<_>, Vec<_>) =
            weights.iter().map(|(_, old, new)| (old[at], new[at])).unzip();
        new.iter().sum::<usize>() < old.iter().sum::<usize>()
    };
    let went = [went(0), went(1), went(2)];
    let is_weaker = |(file, old, new): &&(&ChangedFile, [usize; 3], [usize; 3])| {
        (0..3).any(|at| went[at] && new[at] < old[at])
            || (tests.iter().any(|it| it.path == file.path) && skips_more(file))
    };
    weights.iter().filter(is_weaker).map(|(file, ..)| file.path.clone()).collect()
}

/// Whether words came into a file with which tests are left out.
pub(super) fn skips_more(file: &ChangedFile) -> bool {
    let skips = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        SKIPS.iter().map(|word| text.matches(word).count()).sum::<usize>()
    };
    skips(&file.head) > skips(&file.base)
}

/// The tree with the existing tests as they were, if more of them changed than comments, and without
/// new ones in which tests are left out.
pub(super) fn old_tests(tests: &[&ChangedFile], source: &[&ChangedFile]) -> ControlTree {
    let mut tree = ControlTree::new();
    for file in tests {
        let code = |text: &Option<String>| file.code_of(text.as_ref());
        let is_other = file.was_there && code(&file.base) != code(&file.head);
        // Two files of one name cannot be in one run of pytest.
        let is_moved =
            !file.was_there && tests.iter().any(|it| it.head.is_none() && it.name() == file.name());
        let is_binary = file.was_there && file.base.is_none();
        if is_other || is_moved || is_binary || skips_more(file) {
            tree.insert(file.path.clone(), ControlText::Base);
        }
    }
    for file in source.iter().filter(|it| changes_tests(it)) {
        let base = file.base.as_ref().map(|base| test_half(file, base)).unwrap_or_default();
        if !base.is_empty() {
            tree.insert(file.path.clone(), ControlText::Text(with_old_tests(file)));
        }
    }
    tree
}

/// The tree with a statement in each changed function.
pub(super) fn wired(source: &[&ChangedFile], wire: Tripwire) -> ControlTree {
    // What only lost lines runs nothing new.
    let planted = source.iter().filter(|it| !only_loses_code(it)).filter_map(|file| {
        let text = file.head.as_deref()?;
        let planted = wire.plant(&file.path, text, Reach::Lines(&file.lines))?;
        Some((file.path.clone(), ControlText::Text(planted)))
    });
    planted.collect()
}

/// The tree in which all code of a project is broken: its functions in the languages that are read
/// here, or else its files.
pub(super) fn broken(code: &[(String, String)], wire: Tripwire) -> ControlTree {
    let planted = code.iter().filter_map(|(path, text)| {
        Some((path.clone(), ControlText::Text(wire.plant(path, text, Reach::Functions)?)))
    });
    let planted: ControlTree = planted.collect();
    if !planted.is_empty() {
        return planted;
    }
    let others = code.iter().filter(|(path, _)| Language::of(path).is_none());
    others.map(|(path, text)| (path.clone(), ControlText::Text(garbage(text)))).collect()
}

/// Whether the code of a file is a part of what it was.
fn only_loses_code(file: &ChangedFile) -> bool {
    let code = |text: &Option<String>| file.code_of(text.as_ref()).unwrap_or_default();
    let (base, head) = (code(&file.base), code(&file.head));
    let mut old = base.lines();
    head.lines().all(|line| old.any(|it| it == line))
}

/// Whether lines of an existing file went.
pub(super) fn loses_lines(file: &ChangedFile) -> bool {
    file.was_there && file.has_lost
}

/// Whether all code that changed is in functions, or only declares and imports names.
pub(super) fn is_in_functions(file: &ChangedFile) -> bool {
    const NAMES: &[&str] = &[
        "import ",
        "from ",
        "class ",
        "@",
        "export ",
        "module.exports",
        "exports.",
        "__all__",
        "const {",
    ];
    let (Some(language), Some(text)) = (file.language(), &file.head) else { return false };
    let source = SourceCode::new(language, text);
    let functions = source.functions();
    let lines: Vec<&str> = text.lines().collect();
    let tests = source.tests();
    let declares = |line: &str| match language {
        Language::Rust | Language::Go => {
            !["const ", "static ", "var ", "="].iter().any(|it| line.contains(it))
        }
        Language::Python | Language::JavaScript | Language::TypeScript => {
            let is_name = |c: char| c.is_alphabetic() || "_ ,'\"()[]{};".contains(c);
            NAMES.iter().any(|it| line.starts_with(it)) || line.chars().all(is_name)
        }
    };
    file.lines.iter().filter(|line| source.has_code(**line)).all(|line| {
        functions.iter().any(|it| it.lines.contains(line))
            || tests.iter().any(|it| it.contains(line))
            || declares(lines.get(*line).map_or("", |it| it.trim()))
    })
}

/// The same tree with the tests as they were.
pub(super) fn broken_old_tests(
    broken: &ControlTree,
    tests: &[&ChangedFile],
    source: &[&ChangedFile],
    wire: Tripwire,
) -> ControlTree {
    let mut tree = broken.clone();
    if tree.is_empty() {
        return tree;
    }
    tree.extend(tests.iter().map(|it| (it.path.clone(), ControlText::Base)));
    for file in source.iter().filter(|it| changes_tests(it)) {
        let text = with_old_tests(file);
        let text = wire.plant(&file.path, &text, Reach::Functions).unwrap_or(text);
        tree.insert(file.path.clone(), ControlText::Text(text));
    }
    tree
}

/// A file of source with the tests in it as they were.
fn with_old_tests(file: &ChangedFile) -> String {
    let head = file.head.as_deref().unwrap_or_default();
    let language = file.language().unwrap_or(Language::Rust);
    let code = split(&SourceCode::new(language, head), false);
    format!("{code}\n{}", test_half(file, file.base.as_deref().unwrap_or_default()))
}
