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
        let is_kept = only_adds_tests(file, file.base.as_deref(), file.head.as_deref());
        if (is_other && !is_kept) || is_moved || is_binary {
            tree.insert(file.path.clone(), ControlText::Base);
        }
    }
    for file in source.iter().filter(|it| changes_tests(it)) {
        let half = |text: &Option<String>| text.as_ref().map(|text| test_half(file, text));
        let (base, head) = (half(&file.base).unwrap_or_default(), half(&file.head));
        if !base.is_empty() && !only_adds_tests(file, Some(&base), head.as_deref()) {
            tree.insert(file.path.clone(), ControlText::Text(with_old_tests(file)));
        }
    }
    tree
}

/// Whether a change of a file of tests only adds whole tests, under new names, and what they import: the tests
/// that were there are as they were, and notice as much.
fn only_adds_tests(file: &ChangedFile, base: Option<&str>, head: Option<&str>) -> bool {
    let (Some(language), Some(base), Some(head)) = (file.language(), base, head) else {
        return false;
    };
    let is_import = |line: &&str| {
        let line = line.trim_start();
        let is_named = ["import ", "from ", "use "].iter().any(|it| line.starts_with(it));
        is_named || (line.starts_with("const ") && line.contains(" = require("))
    };
    let (base, head) = (SourceCode::new(language, base), SourceCode::new(language, head));
    let (base, head) = (base.code(), head.code());
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let words = |text: &str, of_imports: bool| -> Vec<String> {
        let lines = text.lines().filter(|it| is_import(it) == of_imports);
        let words = lines.flat_map(|line| line.split(|c| !is_part(c)));
        words.filter(|it| !it.is_empty()).map(str::to_owned).collect()
    };
    let (old, new, known) = (words(&base, true), words(&head, true), words(&base, false));
    let count = |words: &[String], word: &String| words.iter().filter(|it| *it == word).count();
    // An import may put another thing in the place of what the old tests use.
    let hides = |it: &String| known.contains(it) && count(&new, it) > count(&old, it);
    if old.iter().any(|it| count(&new, it) < count(&old, it)) || new.iter().any(hides) {
        return false;
    }
    // The start of a test, whose name hides nothing that the old tests use.
    let is_test = |text: &str, before: &str| {
        let words = ["async def ", "class ", "def ", "fn ", "func "];
        let Some(rest) = words.iter().find_map(|it| text.strip_prefix(it)) else {
            let calls = ["describe(", "it(", "test("].iter().find_map(|it| text.strip_prefix(it));
            return text == "#[test]" || calls.is_some_and(|it| it.starts_with(['\'', '"']));
        };
        let name = rest.split(|c| !is_part(c)).next().unwrap_or_default();
        let is_named = name.starts_with("test_") || name.starts_with("Test");
        !known.iter().any(|it| it == name) && (is_named || before == "#[test]")
    };
    let mut left = base.lines().filter(|it| !is_import(it)).peekable();
    // The lines around the next one, from the outermost: their depths, and whether they are new.
    let mut around: Vec<(usize, bool, &str)> = Vec::new();
    let mut before = "";
    for line in head.lines().filter(|it| !is_import(it)) {
        let depth = line.len() - line.trim_start().len();
        around.retain(|(outer, ..)| *outer < depth);
        let is_new = left.next_if_eq(&line).is_none();
        let text = line.trim_start();
        let (belongs, in_group) = around.last().map_or((false, true), |(_, is_new, outer)| {
            (*is_new, ["class ", "describe(", "mod "].iter().any(|it| outer.starts_with(it)))
        });
        let is_whole = text.starts_with(['}', ')']) || is_test(text, before);
        if is_new && !belongs && !(in_group && is_whole) {
            return false;
        }
        around.push((depth, is_new, text));
        before = text;
    }
    left.next().is_none()
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

/// The changed lines of the tests of the work, with the lines above them that are indented less, up to the
/// first level: they name the tests.
pub(super) fn changed_tests(tests: &[&ChangedFile], source: &[&ChangedFile]) -> String {
    let mut text = String::new();
    for file in tests.iter().chain(source.iter().filter(|it| changes_tests(it))) {
        let lines: Vec<&str> = file.head.as_deref().unwrap_or_default().lines().collect();
        let depth = |line: &str| line.len() - line.trim_start().len();
        let is_text = |at: &&usize| lines.get(**at).is_some_and(|line| !line.trim().is_empty());
        for changed in file.lines.iter().filter(is_text).map(|at| &lines[..=*at]) {
            let mut inner = usize::MAX;
            for line in changed.iter().rev() {
                if !line.trim().is_empty() && depth(line) < inner {
                    inner = depth(line);
                    text.extend([line, "\n"]);
                }
                if inner == 0 {
                    break;
                }
            }
        }
    }
    text
}

/// The text of the tests of the work.
pub(super) fn test_text(tests: &[&ChangedFile], source: &[&ChangedFile]) -> String {
    let own = tests.iter().filter_map(|it| it.head.clone());
    let inner = source.iter().filter_map(|it| Some(test_half(it, it.head.as_deref()?)));
    own.chain(inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_read_with_the_headers_around_them() {
        let head = "class A:\n    def test_a():\n        assert 1\n\n    def test_b():\n        if 1:\n            assert 2\n";
        let file = |lines: &[usize]| ChangedFile {
            head: Some(head.to_owned()),
            lines: lines.iter().copied().collect(),
            ..ChangedFile::default()
        };
        let text = changed_tests(&[&file(&[6])], &[]);
        assert_eq!(text, "            assert 2\n        if 1:\n    def test_b():\nclass A:\n");
        assert_eq!(changed_tests(&[&file(&[3])], &[]), "");
    }

    #[test]
    fn whole_new_tests_are_told_from_changed_ones() {
        const PYTHON: &str = "import calc\n\n\nclass CalcTest:\n    def test_half(self):\n        assert calc.half(7) == 3\n";
        const SCRIPT: &str =
            "import { half } from 'a';\n\ntest('halves', () => {\n  equal(half(7), 3);\n});\n";
        const RUST: &str = "mod tests {\n    use super::half;\n    #[test]\n    fn halves() {\n        assert_eq!(half(7), 3);\n    }\n}\n";
        let more = "    def test_zero(self):\n        assert calc.half(0) == 0\n";
        let of = |path: &str, base: &str, head: &str| {
            let file = ChangedFile { path: path.to_owned(), ..ChangedFile::default() };
            only_adds_tests(&file, Some(base), Some(head))
        };
        let python = |head: &str| of("test_a.py", PYTHON, head);
        let script = |head: &str| of("a.test.js", SCRIPT, head);
        let rust = |head: &str| of("lib.rs", RUST, head);
        assert!(python(&format!("import os\n{PYTHON}\n{more}")));
        assert!(python(&PYTHON.replace("    def", &format!("{more}\n    def"))));
        assert!(script(&SCRIPT.replace("half }", "half, mul }").replace(
            "\ntest(",
            "\ntest('multiplies', () => {\n  equal(mul(2, 3), 6);\n});\ntest("
        )));
        let adds = "    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n    }\n}\n";
        let more = RUST.replace("super::half", "super::{add, half}");
        assert!(rust(&more.replace("    }\n}\n", &format!("    }}\n{adds}"))));
        for weaker in [
            PYTHON.replace("        assert", "        return\n        assert"),
            PYTHON.replace("    def", "    @skip\n    def"),
            PYTHON.replace("== 3", ">= 3"),
            format!("{PYTHON}    def test_half(self, n):\n        pass\n"),
            format!("{PYTHON}    def setUp(self):\n        calc.half = int\n"),
            format!("{PYTHON}calc.half = int\n"),
            PYTHON.replace("import calc", "import calc\nfrom fakes import calc"),
            String::new(),
        ] {
            assert!(!python(&weaker), "{weaker}");
        }
        assert!(!script(&SCRIPT.replace("test(", "test.skip(")));
        assert!(!script(&SCRIPT.replace("\ntest(", "\nmock('a', () => ({}));\ntest(")));
        assert!(!rust(&RUST.replace("    #[test]", "    #[test]\n    #[should_panic]")));
        assert!(!rust(&RUST.replace(
            "    #[test]",
            "    fn half(n: i32) -> i32 {\n        3\n    }\n    #[test]"
        )));
    }
}
