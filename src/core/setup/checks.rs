//! The checks of a project, and the commands that install their dependencies, found by its files.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{MANIFESTS, is_justfile, taken};
use crate::executor::shell_word;

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
    /// Whether its program exists.
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

/// A folder that may be a project of its own.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// Its path from the top of the repository, with a slash at its end; empty for the top.
    pub path: String,
    /// The names in it, where folders end with a slash.
    pub names: Vec<String>,
    /// The texts of the files in [`READ`].
    pub texts: BTreeMap<String, String>,
    /// The names in its folders for tests.
    pub in_tests: Vec<String>,
}

impl Folder {
    /// Whether it declares dependencies for a package manager, or how it is tested.
    pub fn is_project(&self) -> bool {
        let is_sign = |name: &String| MANIFESTS.contains(&name.as_str());
        self.names.iter().any(is_sign) || self.entry().is_some()
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|it| it == name)
    }

    fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    /// A command that runs in it.
    fn at(&self, command: &str) -> String {
        match self.path.trim_end_matches('/') {
            "" => command.to_owned(),
            path => format!("cd {} && {command}", shell_word(path)),
        }
    }

    /// Whether the names of files show tests.
    fn has_test(&self, is_test: impl Fn(&str) -> bool) -> bool {
        self.names.iter().chain(&self.in_tests).any(|name| is_test(name))
    }

    /// The entry point for its tests, and the file that has it.
    fn entry(&self) -> Option<(String, &str)> {
        let justfile = self.texts.iter().find(|(name, _)| is_justfile(name));
        if let Some((name, text)) = justfile
            && taken(text).contains("test")
        {
            return Some(("just test".to_owned(), name));
        }
        let makefile = ["GNUmakefile", "makefile", "Makefile"];
        let name = makefile.into_iter().find(|name| self.texts.contains_key(*name))?;
        let mut targets = ["test", "check"].into_iter();
        let target = targets.find(|target| has_target(self.text(name), target))?;
        Some((format!("make {target}"), name))
    }
}

/// The programs that run the tests of each language: where a verify command has one of them, that
/// language is tested.
const RUNNERS: &[&[&str]] = &[
    &["cargo"],
    &["npm", "pnpm", "yarn", "bun", "bunx", "npx", "node", "vitest", "jest"],
    &["go"],
    &["mvn", "mvnw", "gradle", "gradlew"],
    &["pytest", "tox", "nox", "unittest", "uv", "poetry", "pdm", "pipenv", "python", "python3"],
    &["mix"],
    &["rspec", "bundle", "rake"],
];

/// Returns the checks for a language that no command is about, if it is known what each command runs.
pub fn unrun<'a>(found: &'a [FoundCheck], commands: &[String]) -> Vec<&'a FoundCheck> {
    let languages = |command: &str| -> Vec<usize> {
        let is_end = |c: char| c.is_whitespace() || "/;&|()\"'".contains(c);
        let words: Vec<&str> = command.split(is_end).collect();
        let is_about = |at: &usize| RUNNERS[*at].iter().any(|runner| words.contains(runner));
        (0..RUNNERS.len()).filter(is_about).collect()
    };
    let run: Vec<Vec<usize>> = commands.iter().map(|command| languages(command)).collect();
    if run.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let is_unrun = |check: &&FoundCheck| {
        let of = languages(&check.command);
        !check.is_entry && !of.is_empty() && !run.iter().flatten().any(|it| of.contains(it))
    };
    found.iter().filter(is_unrun).collect()
}

/// Finds the test commands of a folder.
pub fn checks(folder: &Folder, on_path: impl Fn(&str) -> bool) -> Vec<FoundCheck> {
    let mut found = Vec::new();
    let mut add = |command: &str, source: &str, is_entry| {
        let program = command.split(' ').next().unwrap_or_default().to_owned();
        let is_ready = match program.split_once('/') {
            // Files of the project, and those that its setup makes.
            Some(_) => true,
            None => on_path(&program),
        };
        let (command, source) = (folder.at(command), format!("{}{source}", folder.path));
        found.push(FoundCheck { command, program, source, is_entry, is_ready });
    };
    if let Some((command, name)) = folder.entry() {
        add(&command, name, true);
    }
    let cargo = folder.text("Cargo.toml");
    let has_table = |table: &str| cargo.lines().any(|line| line.trim() == table);
    if has_table("[workspace]") {
        add("cargo test --workspace", "Cargo.toml", false);
    } else if has_table("[package]") {
        add("cargo test", "Cargo.toml", false);
    }
    if let Some(command) = node(folder) {
        add(&command, "package.json", false);
    }
    if folder.has("go.mod") {
        add("go test ./...", "go.mod", false);
    } else if folder.has("go.work") {
        add("go list -f '{{.Dir}}/...' -m | xargs go test", "go.work", false);
    }
    for (files, wrapper, program, arguments) in JAVA {
        if let Some(file) = files.iter().find(|file| folder.has(file)) {
            let program = if folder.has(wrapper) { &format!("./{wrapper}") } else { *program };
            add(&format!("{program} {arguments}"), file, false);
        }
    }
    if let Some(source) = pytest(folder) {
        // Tests by their names alone also run without pytest.
        let is_bare = source == TEST_FILES && !on_path("pytest");
        let plain = if is_bare { unittest(folder) } else { "pytest" };
        add(python(folder, &on_path).map_or(plain, |(_, test)| test), &source, false);
    }
    if folder.has("mix.exs") {
        add("mix test", "mix.exs", false);
    }
    if folder.has("Gemfile.lock") && folder.has("spec/") {
        add("bundle exec rspec", "spec/", false);
    }
    found
}

/// The builders of Java: their files, wrapper, program and arguments. A daemon of gradle would outlive its
/// check.
const JAVA: &[(&[&str], &str, &str, &str)] = &[
    (&["pom.xml"], "mvnw", "mvn", "-B test"),
    (
        &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"],
        "gradlew",
        "gradle",
        "--no-daemon test",
    ),
];

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

/// The lock files of the package managers of Node.
const NODE_LOCKS: &[(&str, &str)] = &[
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
];

/// The package manager whose lock file a folder has.
fn node_lock(folder: &Folder) -> Option<&'static str> {
    NODE_LOCKS.iter().find(|(lock, _)| folder.has(lock)).map(|(_, tool)| *tool)
}

/// The command for the tests of a `package.json`: its script `test`, unless it is npm's placeholder that
/// always fails; the scripts of its workspaces; or a known test runner.
fn node(folder: &Folder) -> Option<String> {
    let package: Value = serde_json::from_str(folder.text("package.json")).ok()?;
    let declared = || {
        let tool = package["packageManager"].as_str()?.split('@').next()?;
        NODE_LOCKS.iter().map(|(_, known)| *known).find(|known| *known == tool)
    };
    let tool = node_lock(folder).or_else(declared).unwrap_or("npm");
    let script = package["scripts"]["test"].as_str().unwrap_or_default();
    if !script.trim().is_empty() && !script.contains("no test specified") {
        return Some(format!("{tool} {}", if tool == "bun" { "run test" } else { "test" }));
    }
    if package.get("workspaces").is_some() || folder.has("pnpm-workspace.yaml") {
        let all = match tool {
            "pnpm" => "pnpm -r test",
            "yarn" if folder.has(".yarnrc.yml") => "yarn workspaces foreach --all run test",
            "yarn" => "yarn workspaces run test",
            "bun" => "bun run --filter '*' test",
            _ => "npm test --workspaces --if-present",
        };
        return Some(all.to_owned());
    }
    let depends = |name: &str| {
        ["dependencies", "devDependencies"].iter().any(|key| package[key].get(name).is_some())
    };
    let runner = [("vitest", "vitest run"), ("jest", "jest")];
    if let Some((_, runner)) = runner.into_iter().find(|(name, _)| depends(name)) {
        let starter = match tool {
            "pnpm" => "pnpm exec",
            "bun" => "bunx",
            "npm" => "npx",
            other => other,
        };
        return Some(format!("{starter} {runner}"));
    }
    let is_test = |name: &str| name.contains(".test.") || name.contains(".spec.");
    let own = if tool == "bun" { "bun test" } else { "node --test" };
    folder.has_test(is_test).then(|| own.to_owned())
}

/// The tools that install a Python project: their lock file, their part of `pyproject.toml`, the
/// commands that install it without and with its test dependencies, and the command that runs its
/// tests.
const PYTHON: &[(&str, &str, &str, &str, &str)] = &[
    ("uv.lock", "[tool.uv", "uv sync", "uv sync --all-extras", "uv run pytest"),
    (
        "poetry.lock",
        "[tool.poetry]",
        "poetry install",
        "poetry install --all-extras",
        "poetry run pytest",
    ),
    ("pdm.lock", "[tool.pdm", "pdm install", "pdm install --group :all", "pdm run pytest"),
    ("Pipfile.lock", "\0", "pipenv sync --dev", "pipenv sync --dev", "pipenv run pytest"),
];

/// How the tests of a Python project run, and how a copy of it gets their dependencies: by its own
/// tool, or in the virtualenv that is brought along or made.
fn python(
    folder: &Folder,
    on_path: impl Fn(&str) -> bool,
) -> Option<(Option<String>, &'static str)> {
    let project = folder.text("pyproject.toml");
    let own = PYTHON.iter().find(|it| folder.has(it.0) || project.contains(it.1));
    if let Some((_, _, plain, all, test)) = own
        && (on_path(test.split(' ').next()?) || !on_path("pytest"))
    {
        let has_extras = ["[project.optional-dependencies]", "[tool.poetry.extras]"];
        let has_extras = has_extras.iter().any(|table| project.contains(table));
        return Some((Some(if has_extras { all } else { plain }.to_string()), test));
    }
    let in_venv = VENVS.iter().zip([".venv/bin/python -m pytest", "venv/bin/python -m pytest"]);
    let in_venv = in_venv.filter(|(venv, _)| folder.path.is_empty() && folder.has(venv));
    if let Some((_, test)) = in_venv.into_iter().next() {
        return Some((None, test));
    }
    let names_pytest =
        |name: &&str| folder.text(name).lines().any(|line| line.starts_with("pytest"));
    let list = ["requirements-dev.txt", "requirements.txt"].into_iter().find(names_pytest)?;
    (on_path("python3") && !on_path("pytest")).then(|| {
        let install = format!(
            "python3 -m venv .venv && echo '*' > .venv/.gitignore && .venv/bin/pip install --quiet -r {list}"
        );
        (Some(install), ".venv/bin/python -m pytest")
    })
}

/// How the tests of Python run with nothing installed.
fn unittest(folder: &Folder) -> &'static str {
    if folder.in_tests.is_empty() || folder.in_tests.iter().any(|name| name == "__init__.py") {
        "python3 -m unittest"
    } else {
        "python3 -m unittest discover -s tests"
    }
}

/// The test files of Python where no file names pytest.
const TEST_FILES: &str = "test_*.py";

/// The file that shows that the project has tests for pytest.
fn pytest(folder: &Folder) -> Option<String> {
    let has = |name: &str, signs: &[&str]| {
        let is_sign = |line: &str| signs.iter().any(|sign| line.trim_start().starts_with(sign));
        folder.text(name).lines().any(is_sign).then(|| name.to_owned())
    };
    let dependency = || {
        let text = folder.text("pyproject.toml");
        let is_end = |rest: &str| rest.starts_with(|c: char| !c.is_ascii_alphanumeric());
        let mut quoted = text.split(['"', '\'']).filter_map(|part| part.strip_prefix("pytest"));
        quoted.any(|rest| rest.is_empty() || is_end(rest)).then(|| "pyproject.toml".to_owned())
    };
    let by_name = || {
        let is_test = |name: &str| {
            let stem = name.strip_suffix(".py").unwrap_or_default();
            stem == "conftest" || stem.starts_with("test_") || stem.ends_with("_test")
        };
        let python = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"];
        let has_any = |names: &[&str]| names.iter().any(|name| folder.has(name));
        let may_be = has_any(&python) || !has_any(&["Cargo.toml", "go.mod", "package.json"]);
        (may_be && folder.has_test(is_test)).then(|| TEST_FILES.to_owned())
    };
    folder
        .texts
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

/// The settings file below the top of the project.
pub const AGENT_SETTINGS: &str = ".claude/settings.local.json";

/// Finds the commands that install the dependencies of a copy of a folder. Only commands whose
/// program is on PATH count.
pub fn installs(folder: &Folder, on_path: impl Fn(&str) -> bool) -> Vec<String> {
    let by_file = [
        ("Cargo.lock", "cargo fetch"),
        ("go.mod", "go mod download"),
        ("Gemfile.lock", "bundle install"),
        ("composer.lock", "composer install"),
        ("mix.lock", "mix deps.get"),
    ];
    let others = by_file.into_iter().filter(|(file, _)| folder.has(file));
    let node = node_install(folder);
    let is_ready = |command: &String| on_path(command.split(' ').next().unwrap_or_default());
    node.map(str::to_owned)
        .into_iter()
        .chain(python(folder, &on_path).and_then(|(install, _)| install))
        .chain(others.map(|(_, command)| command.to_owned()))
        .filter(is_ready)
        .map(|command| folder.at(&command))
        .collect()
}

/// The command that installs the packages of a `package.json`, by the package manager that runs its
/// tests.
fn node_install(folder: &Folder) -> Option<&'static str> {
    match node_lock(folder) {
        Some("pnpm") => return Some("pnpm install --frozen-lockfile"),
        Some("bun") => return Some("bun install --frozen-lockfile"),
        // Yarn 2 and later has this file and no longer the old flag.
        Some("yarn") if folder.has(".yarnrc.yml") => return Some("yarn install --immutable"),
        Some("yarn") => return Some("yarn install --frozen-lockfile"),
        Some(_) => return Some("npm ci"),
        None => {}
    }
    let package: Value = serde_json::from_str(folder.text("package.json")).ok()?;
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
    fn folder(files: &Files) -> Folder {
        let names = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        let texts = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let in_tests = files.iter().filter(|(name, _)| *name == "tests/");
        let in_tests = in_tests.flat_map(|(_, text)| text.split_whitespace().map(str::to_owned));
        Folder { path: String::new(), names, in_tests: in_tests.collect(), texts: texts.collect() }
    }

    fn commands(found: Vec<FoundCheck>) -> Vec<String> {
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
            (&[("package.json", "{}"), ("a.test.ts", ""), ("bun.lock", "")], &["bun test"]),
            (&[("package.json", "{}"), ("tests/", "a.test.mjs")], &["node --test"]),
            (
                &[
                    ("package.json", r#"{"devDependencies": {"vitest": "3"}}"#),
                    ("pnpm-lock.yaml", ""),
                ],
                &["pnpm exec vitest run"],
            ),
            (
                &[("package.json", "{}"), ("pnpm-workspace.yaml", ""), ("pnpm-lock.yaml", "")],
                &["pnpm -r test"],
            ),
            (
                &[("package.json", r#"{"workspaces": ["a"]}"#)],
                &["npm test --workspaces --if-present"],
            ),
            (&[("pom.xml", "")], &["mvn -B test"]),
            (&[("build.gradle.kts", ""), ("gradlew", "")], &["./gradlew --no-daemon test"]),
            (&[("go.work", "")], &["go list -f '{{.Dir}}/...' -m | xargs go test"]),
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
            (&[("tests/", "test_a.py")], &["pytest"]),
            (&[("tests/", "test_a.py"), ("go.mod", "")], &["go test ./..."]),
            (&[("requirements.txt", "flask\npytest==8\n")], &["pytest"]),
            (&[("requirements.txt", "pytest\n"), (".venv/", "")], &[".venv/bin/python -m pytest"]),
            (
                &[("pyproject.toml", "[tool.poetry]\n"), ("tests/", "test_a.py")],
                &["poetry run pytest"],
            ),
            (&[("pyproject.toml", "x = ['pytest-cov']"), ("pdm.lock", "")], &["pdm run pytest"]),
            (&[("Pipfile", ""), ("Pipfile.lock", ""), ("test_a.py", "")], &["pipenv run pytest"]),
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
            assert_eq!(self::commands(checks(&folder(files), |_| true)), *commands, "{files:?}");
        }
    }

    fn installed(names: &[&'static str], package: &'static str) -> Vec<String> {
        let mut files: Vec<_> = names.iter().map(|name| (*name, "pytest\n")).collect();
        files.retain(|(name, _)| *name != "package.json");
        files.push(("package.json", package));
        installs(&folder(&files), |program| !["go", "pytest"].contains(&program))
    }

    #[test]
    fn tests_of_python_run_without_pytest_where_nothing_names_it() {
        let bare = |files: &Files| commands(checks(&folder(files), |program| program == "python3"));
        let discover = "python3 -m unittest discover -s tests";
        assert_eq!(bare(&[("tests/", "test_a.py")]), [discover]);
        assert_eq!(bare(&[("tests/", "__init__.py test_a.py")]), ["python3 -m unittest"]);
        assert_eq!(bare(&[("test_a.py", "")]), ["python3 -m unittest"]);
        assert_eq!(bare(&[("pytest.ini", ""), ("tests/", "test_a.py")]), ["pytest"]);
    }

    #[test]
    fn a_virtualenv_is_made_where_the_project_has_only_a_list_and_pytest_is_not_there() {
        let [setup] = &installed(&["requirements.txt"], "{}")[..] else { panic!() };
        assert!(
            setup.starts_with("python3 -m venv .venv && ")
                && setup.ends_with(" -r requirements.txt")
        );
        let files = [("requirements.txt", "pytest\n")];
        let found = checks(&folder(&files), |program| program == "python3");
        assert_eq!((&*found[0].command, found[0].is_ready), (".venv/bin/python -m pytest", true));
        assert_eq!(installed(&["requirements.txt", ".venv/"], "{}"), [""; 0]);
    }

    #[test]
    fn a_folder_of_its_own_is_tested_and_installed_there() {
        let path = "back end/".to_owned();
        let back = Folder { path, ..folder(&[("pyproject.toml", "'pytest'"), ("uv.lock", "")]) };
        assert!(back.is_project());
        let found = checks(&back, |_| true);
        assert_eq!(found[0].command, "cd 'back end' && uv run pytest");
        assert_eq!((&*found[0].program, &*found[0].source), ("uv", "back end/pyproject.toml"));
        assert_eq!(installs(&back, |_| true), ["cd 'back end' && uv sync"]);
    }

    #[test]
    fn tests_that_no_command_runs_are_found() {
        let files = [("Cargo.toml", "[package]\n"), ("go.mod", "")];
        let found = checks(&folder(&files), |_| true);
        let unrun = |verify: &[&str]| -> Vec<String> {
            let verify: Vec<String> = verify.iter().map(|it| (*it).to_owned()).collect();
            super::unrun(&found, &verify).iter().map(|check| check.command.clone()).collect()
        };
        assert_eq!(unrun(&["cargo nextest run"]), ["go test ./..."]);
        assert_eq!(unrun(&["cargo test", "cd x && go test"]), [""; 0]);
        assert_eq!(unrun(&["cargo test", "./ci.sh"]), [""; 0], "a script may run anything");
        assert_eq!(unrun(&[]), ["cargo test", "go test ./..."]);
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
            (&["poetry.lock"], "", &["poetry install"]),
            (&["go.mod"], "", &[]),
            (&["README.md"], "", &[]),
        ] {
            assert_eq!(installed(names, package), command, "{names:?}");
        }
    }
}
