//! The trees of the controls of a change.

use std::collections::{BTreeMap, BTreeSet};

use super::{ChangedFile, ControlTree, FunctionSite};
use crate::proof::{
    ControlText,
    halves::{as_it_was, is_code},
    source_code::{SourceCode, lexer::Language},
    tripwire::{Reach, Tripwire, changed, garbage},
};

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

/// The tree with the existing tests as they were, if more of them changed than comments, and without new
/// ones that have their names.
pub(super) fn old_tests(tests: &[&ChangedFile], source: &[&ChangedFile]) -> ControlTree {
    let mut tree = ControlTree::new();
    for file in tests {
        let code = |text: &Option<String>| file.code_of(text.as_ref());
        let is_other = file.was_there && code(&file.base) != code(&file.head);
        // Two files of one name cannot be in one run of pytest.
        let is_moved =
            !file.was_there && tests.iter().any(|it| it.head.is_none() && it.name() == file.name());
        let is_binary = file.was_there && file.base.is_none();
        if is_other || is_moved || is_binary {
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

/// The names of the functions in a version of a file.
fn names(file: &ChangedFile, text: Option<&String>) -> BTreeSet<String> {
    let (Some(language), Some(text)) = (file.language(), text) else { return BTreeSet::new() };
    SourceCode::new(language, text).functions().into_iter().map(|it| it.name).collect()
}

/// The functions that a change adds or changes.
pub(super) fn functions(source: &[&ChangedFile]) -> Vec<FunctionSite> {
    let known: BTreeSet<String> =
        source.iter().flat_map(|it| names(it, it.base.as_ref())).collect();
    let mut sites = Vec::new();
    // What only lost lines runs nothing new.
    for file in source.iter().filter(|it| !only_loses_code(it)) {
        let (Some(language), Some(text)) = (file.language(), &file.head) else { continue };
        let code = SourceCode::new(language, text);
        let functions = code.functions();
        let lines = file.lines.iter().filter(|line| code.has_code(**line));
        let places: BTreeSet<usize> = lines.flat_map(|line| changed(&functions, *line)).collect();
        sites.extend(places.into_iter().map(|place| {
            let name = &functions[place].name;
            FunctionSite {
                path: file.path.clone(),
                place,
                is_new: !name.is_empty() && !known.contains(name),
                name: match name.as_str() {
                    "" => format!("{}:{}", file.path, functions[place].lines.start + 1),
                    name => name.to_owned(),
                },
            }
        }));
    }
    sites
}

/// Whether the code of a file is a part of what it was.
fn only_loses_code(file: &ChangedFile) -> bool {
    let code = |text: &Option<String>| file.code_of(text.as_ref()).unwrap_or_default();
    let (base, head) = (code(&file.base), code(&file.head));
    let mut old = base.lines();
    head.lines().all(|line| old.any(|it| it == line))
}

/// The tree with a statement in functions: in each with another number.
pub(super) fn wired(
    source: &[&ChangedFile],
    sites: &[&FunctionSite],
    wire: Tripwire,
) -> ControlTree {
    let planted = source.iter().filter_map(|file| {
        let here = (0_u32..).zip(sites).filter(|(_, site)| site.path == file.path);
        let these: Vec<(usize, u32)> = here.map(|(number, site)| (site.place, number)).collect();
        let planted = wire.plant(&file.path, file.head.as_deref()?, Reach::These(&these))?;
        Some((file.path.clone(), ControlText::Text(planted)))
    });
    planted.collect()
}

/// The tree in which the changed code of languages that are not read here is no code.
pub(super) fn unreadable(source: &[&ChangedFile]) -> ControlTree {
    let files = source.iter().filter(|it| it.language().is_none() && is_code(it.name()));
    let texts = files.filter_map(|file| {
        Some((file.path.clone(), ControlText::Text(garbage(file.head.as_deref()?))))
    });
    texts.collect()
}

/// The statement that breaks a file. What leaves a function of Rust needs to know its type.
fn breaking(path: &str, wire: Tripwire) -> Tripwire {
    if Language::of(path) == Some(Language::Rust) { wire } else { wire.stub() }
}

/// The tree in which all code of a project is broken: its functions in the languages that are read
/// here, or else its files.
pub(super) fn broken(code: &[(String, String)], wire: Tripwire) -> ControlTree {
    let planted = code.iter().filter_map(|(path, text)| {
        let planted = breaking(path, wire).plant(path, text, Reach::Functions)?;
        Some((path.clone(), ControlText::Text(planted)))
    });
    let planted: ControlTree = planted.collect();
    if !planted.is_empty() {
        return planted;
    }
    let others = code.iter().filter(|(path, _)| Language::of(path).is_none());
    others.map(|(path, text)| (path.clone(), ControlText::Text(garbage(text)))).collect()
}

/// The same tree with the tests and the settings of checks as they were.
pub(super) fn broken_old(
    broken: &ControlTree,
    tests: &[&ChangedFile],
    source: &[&ChangedFile],
    old_checks: &ControlTree,
    wire: Tripwire,
) -> ControlTree {
    let mut tree = broken.clone();
    tree.extend(tests.iter().map(|it| (it.path.clone(), ControlText::Base)));
    tree.extend(old_checks.clone());
    for file in source.iter().filter(|it| changes_tests(it)) {
        let text = with_old_tests(file);
        let planted = breaking(&file.path, wire).plant(&file.path, &text, Reach::Functions);
        tree.insert(file.path.clone(), ControlText::Text(planted.unwrap_or(text)));
    }
    tree
}

/// Whether a function is gone.
pub(super) fn has_lost_functions(source: &[&ChangedFile]) -> bool {
    let head: BTreeSet<String> = source.iter().flat_map(|it| names(it, it.head.as_ref())).collect();
    source.iter().flat_map(|it| names(it, it.base.as_ref())).any(|name| !head.contains(&name))
}

/// A file of source with the tests in it as they were.
fn with_old_tests(file: &ChangedFile) -> String {
    let head = file.head.as_deref().unwrap_or_default();
    let language = file.language().unwrap_or(Language::Rust);
    let code = split(&SourceCode::new(language, head), false);
    format!("{code}\n{}", test_half(file, file.base.as_deref().unwrap_or_default()))
}

/// The text of the tests of the work.
pub(super) fn test_text(tests: &[&ChangedFile], source: &[&ChangedFile]) -> String {
    let own = tests.iter().filter_map(|it| it.head.clone());
    let inner = source.iter().filter_map(|it| Some(test_half(it, it.head.as_deref()?)));
    own.chain(inner).collect()
}
