//! The halves of a change: what does the work, and what checks it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    ControlText, ProofPolicy, ProofSettings,
    source_code::lexer::{Language, file_name},
};
use crate::{glob::Glob, loop_paths, task_paths};

/// The part of a change that a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Half {
    /// It does the work: code, and the data beside it.
    Source,
    /// It is a test, or belongs to tests.
    Test,
    /// It decides which checks run: their settings and scripts.
    Check,
    /// Documentation and everything else.
    Other,
}

/// Folders of tests.
const TEST_FOLDERS: &str =
    "__mocks__ __snapshots__ __tests__ cypress e2e spec specs test testdata testing tests";

/// Folders of code: a file of any kind in them is part of it.
const SOURCE_FOLDERS: &str = "app cmd internal lib pkg source src";

/// Folders of documentation and examples.
const OTHER_FOLDERS: &str =
    "doc docs bench benches benchmark benchmarks examples .ralph .vscode .idea";

/// Folders of settings and scripts of checks.
const CHECK_FOLDERS: &str = ".cargo .ci .circleci .config .github .gitlab .husky ci scripts";

/// Folders with code of others, and with what a build makes.
const FOREIGN_FOLDERS: &str =
    "vendor third_party node_modules site-packages dist build generated target";

/// Files that say how a project is checked.
const CHECK_FILES: &str = ".babelrc .coveragerc .eslintrc .flake8 .gitlab-ci.yml .mocharc .nycrc \
    .pre-commit-config.yaml .prettierrc .ruff.toml .travis.yml CMakeLists.txt Cargo.toml \
    Gemfile Makefile GNUmakefile Rakefile Taskfile.yaml Taskfile.yml build.gradle \
    build.gradle.kts bunfig.toml clippy.toml composer.json deno.json deno.jsonc justfile \
    makefile meson.build mix.exs mypy.ini noxfile.py package.json phpunit.xml pom.xml \
    pyproject.toml pyrightconfig.json pytest.ini ruff.toml rust-toolchain.toml rustfmt.toml \
    setup.cfg setup.py tox.ini";

/// First parts of the names of files that say how a project is checked.
const CHECK_STEMS: &str = ".eslintrc. .mocharc. .nycrc. .prettierrc. babel.config. cypress.config. eslint.config. \
    jest.config. karma.conf. nyc.config. playwright.config. prettier.config. requirements \
    rollup.config. tsconfig. vite.config. vitest.config. webpack.config.";

/// The endings of code in languages that are not read here.
const CODE: &str = "asm astro bash c cc clj cljs cpp cs css cu cxx dart elm erl ex exs f90 fs graphql groovy h \
    hh hpp hs html java jl kt kts less lua m ml mli mm nim php pl pm proto ps1 pyi pyx r rb \
    sass scala scss sh sol sql svelte swift vb vue zig zsh";

/// What a project says of its files, where the guess is wrong, and what else decides.
#[derive(Clone, Debug, Default)]
pub struct HalvesRule {
    /// Paths of tests.
    pub tests: Vec<Glob>,
    /// Paths of source.
    pub source: Vec<Glob>,
    /// Changed files that a verify command names.
    pub named: Vec<String>,
    /// The folders with code in them.
    pub code_folders: BTreeSet<String>,
}

impl HalvesRule {
    /// The rule for these changed paths of work that these commands verify. `files` are those of the
    /// project in whose folders data belongs to code.
    pub fn new(
        settings: &ProofSettings,
        (verify, paths): (&[String], &[String]),
        files: &[String],
    ) -> HalvesRule {
        let runs = task_paths::running(verify);
        // A file is named by itself, and not only with its folder.
        let is_named = |path: &&String| {
            let sibling = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/?"));
            !task_paths::named_by(&runs, &[(*path).clone()]).is_empty()
                && sibling.is_none_or(|it| task_paths::named_by(&runs, &[it]).is_empty())
        };
        let (tests, source) = (settings.tests.clone(), settings.source.clone());
        let named = paths.iter().filter(is_named).cloned().collect();
        let folders = files.iter().filter_map(|path| {
            let (folder, name) = path.rsplit_once('/')?;
            is_code(name).then(|| folder.to_owned())
        });
        HalvesRule { tests, source, named, code_folders: folders.collect() }
    }

    /// Whether work is to be proved: it changes code or tests, or how they are checked, or its task asks for
    /// tests.
    pub fn is_due(settings: &ProofSettings, verify: &[String], paths: &[String]) -> bool {
        let rule = HalvesRule::new(settings, (verify, paths), &[]);
        let asks_all = settings.policy == ProofPolicy::Tests;
        settings.policy != ProofPolicy::None
            && paths.iter().any(|path| {
                asks_all
                    || matches!(rule.half(path), Half::Source | Half::Test)
                    || rule.decides_checks(path)
            })
    }

    /// Whether a file decides which checks run, and what they find.
    pub fn decides_checks(&self, path: &str) -> bool {
        match self.half(path) {
            Half::Check => !lists_dependencies(path),
            Half::Test => is_conftest(path),
            Half::Source | Half::Other => false,
        }
    }

    /// The half of a change that a file belongs to.
    pub fn half(&self, path: &str) -> Half {
        let folders: Vec<&str> = path.split('/').rev().skip(1).collect();
        let name = file_name(path);
        let is_in = |list: &str| list.split(' ').any(|it| folders.contains(&it));
        if self.tests.iter().any(|glob| glob.matches(path)) {
            return Half::Test;
        }
        if self.source.iter().any(|glob| glob.matches(path)) {
            return Half::Source;
        }
        if loop_paths::is_own_or_above(path) {
            return Half::Other;
        }
        if is_in(TEST_FOLDERS) || is_test_name(name) {
            return Half::Test;
        }
        let is_code = is_code(name);
        let is_script = is_script_name(name) || is_in(CHECK_FOLDERS);
        if self.named.iter().any(|named| named == path) && is_script && !is_in(SOURCE_FOLDERS) {
            return Half::Check;
        }
        if is_check_name(name) || is_lock(name) || (is_in(CHECK_FOLDERS) && !is_in(SOURCE_FOLDERS))
        {
            return Half::Check;
        }
        if is_in(OTHER_FOLDERS) && !is_in(SOURCE_FOLDERS) || is_document(name) {
            return Half::Other;
        }
        let with_code = |folder: &String| {
            path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let is_data = is_in(SOURCE_FOLDERS) || self.code_folders.iter().any(with_code);
        if is_code || (is_data && !name.starts_with('.')) { Half::Source } else { Half::Other }
    }
}

/// Whether a file lists dependencies alone: the work may need new ones.
fn is_lock(name: &str) -> bool {
    // By the whole name: `file-lock.ts` is code.
    const OTHERS: &[&str] = &["Pipfile", "bun.lockb", "go.mod", "go.sum", "npm-shrinkwrap.json"];
    const NODE: &[&str] = &["package-lock.json", "pnpm-lock.yaml", "pnpm-workspace.yaml"];
    let is_ending = |(_, ending): (&str, &str)| ending == "lock";
    name.rsplit_once('.').is_some_and(is_ending) || [OTHERS, NODE].concat().contains(&name)
}

fn lists_dependencies(path: &str) -> bool {
    let name = file_name(path);
    is_lock(name) || name.starts_with("requirements")
}

/// Whether a file is code, by its name.
pub fn is_code(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    Language::of(name).is_some()
        || ending.is_some_and(|ending| CODE.split(' ').any(|it| it == ending))
}

/// Whether a file is code of the project, which a check can run: not that of others, and not what only
/// builds it.
pub fn is_own_code(path: &str) -> bool {
    let name = file_name(path);
    is_code(name)
        && name != "build.rs"
        && !path
            .split('/')
            .rev()
            .skip(1)
            .any(|folder| FOREIGN_FOLDERS.split(' ').any(|it| it == folder))
}

/// Whether a file decides which tests pytest runs, and their fixtures.
pub(super) fn is_conftest(path: &str) -> bool {
    file_name(path) == "conftest.py"
}

fn is_check_name(name: &str) -> bool {
    CHECK_FILES.split(' ').any(|it| it == name)
        || CHECK_STEMS.split(' ').any(|stem| name.starts_with(stem))
        || name.strip_suffix(".mk").is_some()
}

/// Whether a file that a verify command names is a check, by its name.
fn is_script_name(name: &str) -> bool {
    const WORDS: &[&str] = &["check", "checks", "ci", "lint", "run", "smoke", "validate", "verify"];
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    ["sh", "bash"].contains(&ending) || stem.split(['.', '_', '-']).any(|it| WORDS.contains(&it))
}

fn is_document(name: &str) -> bool {
    const TEXTS: &[&str] = &["adoc", "md", "mdx", "rst"];
    const NAMES: &[&str] =
        &["AUTHORS", "CHANGELOG", "COPYING", "LICENSE", "NOTICE", "README", "VERSION"];
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    TEXTS.contains(&name.rsplit('.').next().unwrap_or(ending)) || NAMES.contains(&stem)
}

/// Whether a file is a test, by its name: `test_x.py`, `x_test.go`, `x.spec.ts`, `XTest.java`.
fn is_test_name(name: &str) -> bool {
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let words: Vec<&str> = stem.split(['.', '_', '-']).collect();
    let is_word = |word: Option<&&str>| {
        word.is_some_and(|it| ["test", "tests", "spec", "specs"].contains(it))
    };
    let is_class = ["Test", "Tests", "Spec"].iter().any(|word| {
        stem.strip_suffix(word)
            .is_some_and(|rest| rest.ends_with(|c: char| c.is_lowercase() || c.is_ascii_digit()))
    });
    is_conftest(name)
        || ending == "snap"
        || (is_code(name) && (is_word(words.first()) || is_word(words.last()) || is_class))
        || (Language::of(name).is_some()
            && words.len() > 2
            && is_word(words.get(words.len() - 2))
            && stem.contains('.'))
}

/// The verify settings of a new version of a file with the dependencies of the work: what an older
/// version of the file says of checks, and this one of all else. `None` if they say the same.
pub fn as_it_was(path: &str, base: Option<&str>, head: Option<&str>) -> Option<ControlText> {
    let name = file_name(path);
    if lists_dependencies(name) {
        return None;
    }
    let (Some(base), Some(head)) = (base, head) else {
        return (base != head).then_some(ControlText::Base);
    };
    let mixed = match name {
        "package.json" => package(base, head).unwrap_or_else(|| base.to_owned()),
        "Cargo.toml" => {
            // Other keys of the package are code.
            let targets = tested_keys(base) != tested_keys(head);
            sections(base, head, |name| {
                let is_target = ["package", "lib"].contains(&name.trim_end_matches(']'));
                (targets && is_target)
                    || ["[test", "profile", "lints", "workspace.lints"]
                        .iter()
                        .any(|it| name.starts_with(it))
            })
        }
        "pyproject.toml" => sections(base, head, |name| {
            name.starts_with("tool")
                && !["poetry", "setuptools", "hatch", "pdm", "uv", "flit"].iter().any(|tool| {
                    name.strip_prefix("tool.").is_some_and(|rest| rest.starts_with(tool))
                })
        }),
        "setup.cfg" => sections(base, head, |name| {
            !["metadata", "options"].iter().any(|it| name.starts_with(it))
        }),
        "setup.py" => head.to_owned(),
        _ => base.to_owned(),
    };
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    (plain(&mixed) != plain(head)).then_some(ControlText::Text(mixed))
}

/// A `package.json` with the scripts and the settings of checks of an older one.
fn package(base: &str, text: &str) -> Option<String> {
    const KEYS: &[&str] =
        &["scripts", "jest", "mocha", "vitest", "ava", "tap", "nyc", "c8", "eslintConfig", "babel"];
    let base: serde_json::Value = serde_json::from_str(base).ok()?;
    let head: serde_json::Value = serde_json::from_str(text).ok()?;
    let mut mixed = head.clone();
    for key in KEYS {
        match base.get(key) {
            Some(value) => mixed.as_object_mut()?.insert((*key).to_owned(), value.clone()),
            None => mixed.as_object_mut()?.remove(*key),
        };
    }
    if mixed == head { Some(text.to_owned()) } else { serde_json::to_string_pretty(&mixed).ok() }
}

/// The lines of a `Cargo.toml` that decide which targets are tested.
fn tested_keys(text: &str) -> Vec<&str> {
    const KEYS: &[&str] =
        &["autobenches", "autobins", "autoexamples", "autotests", "doctest", "harness", "test"];
    let is_key = |line: &&str| line.split('=').next().is_some_and(|key| KEYS.contains(&key.trim()));
    text.lines().filter(is_key).collect()
}

/// A text of sections, `[name]`, of which those that are about checks come from an older one.
fn sections(base: &str, head: &str, is_check: impl Fn(&str) -> bool) -> String {
    let of = |text: &str, checks: bool| {
        let mut is_taken = !checks;
        let mut taken = String::new();
        for line in text.lines() {
            let name = line.trim().strip_prefix('[').filter(|_| line.starts_with('['));
            if let Some(name) = name {
                is_taken = is_check(name) == checks;
            }
            if is_taken {
                taken.push_str(line);
                taken.push('\n');
            }
        }
        taken
    };
    if of(base, true) == of(head, true) {
        head.to_owned()
    } else {
        of(head, false) + &of(base, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_half() {
        let verify = ["./check.sh src/tool.sh".to_owned(), "pytest pkg".to_owned()];
        let table = [
            (
                Half::Source,
                "pkg/a.py app/main.rs src/tool.sh pkg/units.json src/data/x.csv lib/a.rb src/file-lock.ts a.lock.py",
            ),
            (
                Half::Test,
                "tests/a.py pkg/test_a.py a_test.go a.spec.ts conftest.py src/__tests__/a.js FooTest.java",
            ),
            (
                Half::Check,
                "package.json package-lock.json uv.lock Cargo.toml tox.ini check.sh .github/workflows/a.yml jest.config.js Makefile",
            ),
            (
                Half::Other,
                "README.md docs/a.py LICENSE notes.txt task-graph.yaml .gitignore pkg/README.md",
            ),
        ];
        for (want, paths) in table {
            let paths: Vec<String> = paths.split(' ').map(str::to_owned).collect();
            let settings = ProofSettings::default();
            let rule = HalvesRule::new(&settings, (&verify, &paths), &["pkg/a.py".to_owned()]);
            for path in &paths {
                assert_eq!(rule.half(path), want, "{path}");
            }
        }
        let given = r#"{"policy": "exercised", "tests": ["src/*_it.py"], "source": ["spec/*.js"]}"#;
        let given: ProofSettings = serde_json::from_str(given).expect("settings");
        let rule = HalvesRule::new(&given, (&[], &[]), &[]);
        assert_eq!((rule.half("src/a_it.py"), rule.half("spec/a.js")), (Half::Test, Half::Source));
        assert_eq!(given.with(Some(ProofPolicy::Report)).policy, ProofPolicy::Report);
        assert_eq!(given.with(None).policy, ProofPolicy::Exercised);
        let word: ProofSettings = serde_json::from_str("\"none\"").expect("a word");
        assert_eq!(serde_json::to_string(&word).expect("a word"), "\"none\"");
    }

    #[test]
    fn old_checks_have_the_dependencies_of_the_work() {
        let old = |path: &str, base: &str, head: &str| as_it_was(path, Some(base), Some(head));
        let base = r#"{"scripts": {"test": "jest"}, "dependencies": {}}"#;
        let needs = r#"{"scripts": {"test": "jest"}, "dependencies": {"a": "1"}}"#;
        let weak = r#"{"scripts": {"test": "jest || true"}, "dependencies": {"a": "1"}}"#;
        assert_eq!(old("package.json", base, needs), None);
        let Some(ControlText::Text(mixed)) = old("package.json", base, weak) else {
            panic!("the script changed")
        };
        let mixed: serde_json::Value = serde_json::from_str(&mixed).expect("JSON");
        assert_eq!(mixed, serde_json::from_str::<serde_json::Value>(needs).expect("JSON"));
        let cargo = "[package]\nname = \"a\"\n\n[dependencies]\n";
        let more = format!("{cargo}b = \"1\"\n");
        assert_eq!(old("Cargo.toml", cargo, &more), None);
        let narrowed = format!("{cargo}b = \"1\"\n\n[lib]\ntest = false\n");
        let want = "[dependencies]\nb = \"1\"\n\n[package]\nname = \"a\"\n\n".to_owned();
        assert_eq!(old("Cargo.toml", cargo, &narrowed), Some(ControlText::Text(want)));
        let edition = more.replace("\n\n", "\nedition = \"2021\"\n\n");
        assert_eq!(old("Cargo.toml", &more, &edition), None);
        let kept = "[package]\nname = \"a\"\nautotests = false\n\n[dependencies]\n";
        assert_eq!(old("Cargo.toml", kept, &format!("{kept}b = \"1\"\n")), None);
        let tests = "[package]\nautotests = true\n";
        let want = Some(ControlText::Text(tests.to_owned()));
        assert_eq!(old("Cargo.toml", tests, "[package]\nautotests = false\nname = \"a\"\n"), want);
        assert_eq!(as_it_was("tox.ini", None, Some("[tox]\n")), Some(ControlText::Base));
        assert_eq!(old("Cargo.lock", "a", "b"), None);
    }
}
