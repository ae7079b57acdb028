//! The checks of a project, and the commands that install what they need, known by its files.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{is_justfile, taken};

/// A command that tests the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCheck {
    /// The command, for a shell.
    pub command: String,
    /// The program it runs.
    pub program: String,
    /// The file that declares it.
    pub source: String,
    /// Whether it is the project's entry point for tests in any language, such as `just test`.
    pub is_entry: bool,
    /// Whether its program is on PATH.
    pub is_ready: bool,
}

/// The names, in lower case, of the files that [`checks`] reads.
pub const READ: &[&str] = &[
    "justfile",
    ".justfile",
    "makefile",
    "gnumakefile",
    "cargo.toml",
    "package.json",
    "go.mod",
    "pyproject.toml",
    "pytest.ini",
    "setup.cfg",
    "tox.ini",
    "requirements.txt",
    "requirements-dev.txt",
];

/// Finds the test commands of a project, from the names at its top, the texts of the files in
/// [`READ`] and the names in its folder `tests`.
pub fn checks(
    names: &[String],
    texts: &BTreeMap<String, String>,
    in_tests: &[String],
    on_path: impl Fn(&str) -> bool,
) -> Vec<FoundCheck> {
    let mut found = Vec::new();
    let mut add = |command: &str, source: &str, is_entry| {
        let program = command.split(' ').next().unwrap_or_default().to_owned();
        let is_ready = on_path(&program);
        let (command, source) = (command.to_owned(), source.to_owned());
        found.push(FoundCheck { command, program, source, is_entry, is_ready });
    };
    let text = |name: &str| texts.get(name).map(String::as_str);
    let justfile = texts.iter().find(|(name, _)| is_justfile(name));
    if let Some((name, text)) = justfile
        && taken(text).contains("test")
    {
        add("just test", name, true);
    }
    let makefile =
        ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|it| text(it).is_some());
    if let Some((name, text)) = makefile.and_then(|name| Some((name, text(name)?)))
        && let Some(target) = ["test", "check"].into_iter().find(|target| has_target(text, target))
    {
        add(&format!("make {target}"), name, true);
    }
    if let Some(text) = text("Cargo.toml") {
        let has = |table: &str| text.lines().any(|line| line.trim() == table);
        if has("[workspace]") {
            add("cargo test --workspace", "Cargo.toml", false);
        } else if has("[package]") {
            add("cargo test", "Cargo.toml", false);
        }
    }
    if let Some(runner) = text("package.json").and_then(|text| node(text, names)) {
        add(runner, "package.json", false);
    }
    if text("go.mod").is_some() {
        add("go test ./...", "go.mod", false);
    }
    if let Some(source) = pytest(names, texts, in_tests) {
        let is_uv = names.iter().any(|name| name == "uv.lock") && on_path("uv");
        add(if is_uv { "uv run pytest" } else { "pytest" }, &source, false);
    }
    found
}

/// Whether a makefile has a rule for the target.
fn has_target(text: &str, target: &str) -> bool {
    text.lines().any(|line| {
        let Some((targets, rest)) = line.split_once(':') else {
            return false;
        };
        let is_rule = !line.starts_with(['\t', '#', ' ', '.']) && !rest.starts_with(['=', ':']);
        let is_rule = is_rule || (rest.starts_with(':') && !rest.starts_with(":="));
        is_rule && !targets.contains('=') && targets.split_whitespace().any(|it| it == target)
    })
}

/// The command for the `test` script of a `package.json`, unless it is npm's placeholder that
/// always fails.
fn node(text: &str, names: &[String]) -> Option<&'static str> {
    let package: Value = serde_json::from_str(text).ok()?;
    let script = package["scripts"]["test"].as_str()?;
    if script.trim().is_empty() || script.contains("no test specified") {
        return None;
    }
    let locks = [
        ("pnpm-lock.yaml", "pnpm test"),
        ("yarn.lock", "yarn test"),
        ("bun.lock", "bun run test"),
        ("bun.lockb", "bun run test"),
        ("package-lock.json", "npm test"),
        ("npm-shrinkwrap.json", "npm test"),
    ];
    let locked = locks.iter().find(|(lock, _)| names.iter().any(|name| name == lock));
    let declared = package["packageManager"].as_str().and_then(|declared| {
        let tool = declared.split('@').next()?;
        locks.iter().find(|(_, command)| command.split(' ').next() == Some(tool))
    });
    Some(locked.or(declared).map_or("npm test", |(_, command)| command))
}

/// The file that shows that the project uses pytest.
fn pytest(
    names: &[String],
    texts: &BTreeMap<String, String>,
    in_tests: &[String],
) -> Option<String> {
    let has = |name: &str, signs: &[&str]| {
        let text = texts.get(name)?;
        let is_sign = |line: &str| signs.iter().any(|sign| line.trim_start().starts_with(sign));
        text.lines().any(is_sign).then(|| name.to_owned())
    };
    let dependency = || {
        let text = texts.get("pyproject.toml")?;
        let forms = ["\"pytest\"", "\"pytest>", "\"pytest=", "\"pytest~", "'pytest'", "'pytest>"];
        forms.iter().any(|form| text.contains(form)).then(|| "pyproject.toml".to_owned())
    };
    let by_name = || {
        let python = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"];
        let is_python = names.iter().any(|name| python.contains(&name.as_str()));
        let is_test = |name: &String| {
            let stem = name.strip_suffix(".py").unwrap_or_default();
            stem == "conftest" || stem.starts_with("test_") || stem.ends_with("_test")
        };
        (is_python && in_tests.iter().any(is_test)).then(|| "tests/".to_owned())
    };
    texts
        .contains_key("pytest.ini")
        .then(|| "pytest.ini".to_owned())
        .or_else(|| has("pyproject.toml", &["[tool.pytest", "pytest ="]))
        .or_else(dependency)
        .or_else(|| has("setup.cfg", &["[tool:pytest]"]))
        .or_else(|| has("tox.ini", &["[pytest]"]))
        .or_else(|| has("requirements-dev.txt", &["pytest"]))
        .or_else(|| has("requirements.txt", &["pytest"]))
        .or_else(by_name)
}

/// The ignored files that a copy usually needs, as patterns of `.worktreeinclude`: settings of the
/// project, and a person's own instructions and settings for agents.
const WANTED: &[&str] = &[
    ".env",
    ".env.local",
    ".env.development",
    ".env.test",
    ".envrc",
    ".aider.conf.yml",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    AGENT_SETTINGS,
];

/// The one of them that is not at the top of the project.
pub const AGENT_SETTINGS: &str = ".claude/settings.local.json";

/// Finds the commands, from the names at the top of the project and the texts of its manifests.
/// Only commands whose program is on PATH count.
pub fn installs(
    names: &[String],
    texts: &BTreeMap<String, String>,
    on_path: impl Fn(&str) -> bool,
) -> Vec<String> {
    let has = |name: &str| names.iter().any(|it| it == name);
    let node = node_install(has, texts.get("package.json").map_or("", String::as_str));
    let by_file = [
        ("uv.lock", "uv sync"),
        ("poetry.lock", "poetry install"),
        ("pdm.lock", "pdm install"),
        ("Pipfile.lock", "pipenv sync --dev"),
        ("Cargo.lock", "cargo fetch"),
        ("go.mod", "go mod download"),
        ("Gemfile.lock", "bundle install"),
        ("composer.lock", "composer install"),
        ("mix.lock", "mix deps.get"),
    ];
    let others = by_file.into_iter().filter(|(file, _)| has(file)).map(|(_, command)| command);
    let is_ready = |command: &&str| on_path(command.split(' ').next().unwrap_or_default());
    node.into_iter().chain(others).filter(is_ready).map(str::to_owned).collect()
}

fn node_install(has: impl Fn(&str) -> bool, package: &str) -> Option<&'static str> {
    let locks = [
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("bun.lock", "bun install --frozen-lockfile"),
        ("bun.lockb", "bun install --frozen-lockfile"),
        ("package-lock.json", "npm ci"),
        ("npm-shrinkwrap.json", "npm ci"),
    ];
    if let Some((_, command)) = locks.into_iter().find(|(lock, _)| has(lock)) {
        return Some(command);
    }
    if has("yarn.lock") {
        // Yarn 2 and later has this file and no longer the old flag.
        let is_new = has(".yarnrc.yml");
        return Some(if is_new {
            "yarn install --immutable"
        } else {
            "yarn install --frozen-lockfile"
        });
    }
    let package: Value = serde_json::from_str(package).ok()?;
    let has_any = |key: &str| package[key].as_object().is_some_and(|list| !list.is_empty());
    // Without a lock file, none is written: it would count as work of an attempt.
    ["dependencies", "devDependencies"]
        .into_iter()
        .any(has_any)
        .then_some("npm install --no-package-lock")
}

/// The usual names of a virtualenv of Python, and the lock files from which a command of `setup` makes
/// one in each slot.
const VENVS: &[&str] = &[".venv/", "venv/"];
const VENV_LOCKS: &[&str] = &["uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"];

/// Returns the files of the project that a copy needs and that git usually ignores.
pub fn wanted_files(names: &[String]) -> Vec<String> {
    let is_made = names.iter().any(|name| VENV_LOCKS.contains(&name.as_str()));
    let is_wanted = |name: &&String| {
        WANTED.contains(&name.as_str()) || !is_made && VENVS.contains(&name.as_str())
    };
    names.iter().filter(is_wanted).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Files = [(&'static str, &'static str)];

    /// Files with their texts; a name that ends with a slash is a folder with these files.
    fn of(files: &Files) -> Vec<String> {
        let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        let texts = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let in_tests = files.iter().find(|(name, _)| *name == "tests/");
        let in_tests: Vec<String> = in_tests
            .map(|(_, text)| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default();
        let found = checks(&names, &texts.collect(), &in_tests, |_| true);
        found.into_iter().map(|check| check.command).collect()
    }

    #[test]
    fn a_virtualenv_that_no_lock_file_makes_is_wanted() {
        let wanted = |names: &[&str]| {
            wanted_files(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(wanted(&[".env", ".venv/", "src/"]), [".env", ".venv/"]);
        assert_eq!(wanted(&["CLAUDE.md", "CLAUDE.local.md"]), ["CLAUDE.local.md"]);
        assert_eq!(wanted(&[".venv/", "uv.lock"]), [""; 0]);
    }

    #[test]
    fn each_kind_of_project_gets_its_command() {
        let script = r#"{"scripts": {"test": "vitest run"}}"#;
        let pnpm = r#"{"packageManager": "pnpm@9.1.0", "scripts": {"test": "vitest run"}}"#;
        let empty = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        let cases: &[(&Files, &[&str])] = &[
            (&[], &[]),
            (&[("Cargo.toml", "[package]\nname = \"x\"\n")], &["cargo test"]),
            (&[("Cargo.toml", "[workspace]\n")], &["cargo test --workspace"]),
            (&[("Cargo.toml", "")], &[]),
            (&[("package.json", script)], &["npm test"]),
            (&[("package.json", script), ("pnpm-lock.yaml", "")], &["pnpm test"]),
            (&[("package.json", script), ("yarn.lock", "")], &["yarn test"]),
            (&[("package.json", script), ("bun.lock", "")], &["bun run test"]),
            (&[("package.json", pnpm)], &["pnpm test"]),
            (&[("package.json", empty)], &[]),
            (&[("package.json", "{}")], &[]),
            (&[("package.json", "{")], &[]),
            (&[("go.mod", "module x\n")], &["go test ./..."]),
            (&[("pytest.ini", "")], &["pytest"]),
            (
                &[("pyproject.toml", "[tool.pytest.ini_options]\n"), ("uv.lock", "")],
                &["uv run pytest"],
            ),
            (&[("pyproject.toml", "[project]\n")], &[]),
            (&[("pyproject.toml", "dev = [\"pytest>=8\"]\n")], &["pytest"]),
            (&[("pyproject.toml", ""), ("tests/", "test_a.py")], &["pytest"]),
            (&[("tests/", "test_a.py")], &[]),
            (&[("requirements.txt", "flask\npytest==8\n")], &["pytest"]),
            (&[("Makefile", "all:\n\ttrue\ntest: all\n\ttrue\n")], &["make test"]),
            (&[("Makefile", "build check::\n\ttrue\n")], &["make check"]),
            (&[("Makefile", "test := 1\ntest = a:b\n# test:\n\ttest: x\n.PHONY: test\n")], &[]),
            (&[("justfile", "test *ARGS:\n  cargo test\n")], &["just test"]),
            (&[("justfile", "test := '1'\n")], &[]),
            (
                &[
                    ("justfile", "test:\n  x\n"),
                    ("Cargo.toml", "[package]\n"),
                    ("package.json", script),
                ],
                &["just test", "cargo test", "npm test"],
            ),
        ];
        for (files, commands) in cases {
            assert_eq!(of(files), *commands, "{files:?}");
        }
    }

    fn installed(names: &[&str], package: &str) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let texts = [("package.json".to_owned(), package.to_owned())].into();
        installs(&names, &texts, |program| program != "go")
    }

    #[test]
    fn each_kind_of_project_is_installed() {
        for (names, package, command) in [
            (&["package.json", "package-lock.json"][..], "{}", &["npm ci"][..]),
            (&["pnpm-lock.yaml"], "{}", &["pnpm install --frozen-lockfile"]),
            (&["yarn.lock"], "{}", &["yarn install --frozen-lockfile"]),
            (&["yarn.lock", ".yarnrc.yml"], "{}", &["yarn install --immutable"]),
            (&["package.json"], "{}", &[]),
            (
                &["package.json"],
                r#"{"devDependencies": {"a": "1"}}"#,
                &["npm install --no-package-lock"],
            ),
            (&["uv.lock", "Cargo.lock"], "", &["uv sync", "cargo fetch"]),
            (&["go.mod"], "", &[]),
            (&["README.md"], "", &[]),
        ] {
            assert_eq!(installed(names, package), command, "{names:?}");
        }
    }
}
