//! The set-up of a project by `ralph init`: what it finds, the texts it writes, and the action for
//! each file.
//!
//! The caller reads and writes the files.

mod backlog;
mod checks;

pub use backlog::{Backlog, backlog, draftable, importable, layout};
pub use checks::{AGENT_SETTINGS, Folder, FoundCheck, READ, checks, installs, unrun, wanted_files};

use std::{collections::BTreeSet, path::Path};

use crate::{
    agents::agent_preset,
    loop_paths,
    prompt::template::{self, Template},
};

/// The names of files from which package managers make what they install.
pub const MANIFESTS: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "Gemfile",
    "Gemfile.lock",
    "Pipfile",
    "Pipfile.lock",
    "build.gradle",
    "build.gradle.kts",
    "bun.lock",
    "bun.lockb",
    "composer.json",
    "composer.lock",
    "deno.json",
    "deno.lock",
    "environment.yml",
    "go.mod",
    "go.sum",
    "mix.exs",
    "mix.lock",
    "package-lock.json",
    "package.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "pom.xml",
    "pyproject.toml",
    "requirements-dev.txt",
    "requirements.txt",
    "rust-toolchain.toml",
    "setup.cfg",
    "setup.py",
    "uv.lock",
    "yarn.lock",
];

/// The first words of commands that read no code: those that install from lists of dependencies, and those
/// whose files are not of the repository.
const PLAIN: &str = "[,apt,apt-get,brew,bundle install,cargo fetch,cd,chmod,command,composer install,conda,\
    corepack,cp .,echo,exit,export,go mod,ln -s,mix deps.get,mkdir,nvm,pdm install,pdm sync,\
    pipenv,poetry install,printf,python -m venv,python3 -m venv,rm,rustup,set,test,touch,true,\
    uv sync,uv venv,virtualenv";

/// Commands of Node that install, and the scripts of `package.json` that they run.
const NODE: &[&str] = &["bun", "npm", "pnpm", "yarn"];
const INSTALLS: &[&str] = &["", "ci", "i", "install"];
const SCRIPTS: &[&str] = &["\"install\":", "\"postinstall\":", "\"preinstall\":", "\"prepare\":"];
/// Programs in such scripts that install git hooks, and nothing that tests need.
const HOOKS: &[&str] = &["husky", "lefthook", "simple-git-hooks"];

/// Whether one of these commands may read code, in a repository with this `package.json`: it builds, or it
/// is not known what it does.
pub fn reads_code(commands: &[String], package: &str) -> bool {
    let parts = commands.iter().flat_map(|it| it.split(['\n', ';', '&', '|']));
    parts.map(str::trim).any(|part| !part.is_empty() && part_reads_code(part, package))
}

/// Whether no build reads a file or folder at the top: documents, and what `ralph` writes.
pub fn is_apart(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it.eq_ignore_ascii_case("md"))
        || ["doc", "docs", "LICENSE", ".github", "task-graph.yaml"].contains(&path)
        || loop_paths::is_own_or_above(path)
}

fn part_reads_code(part: &str, package: &str) -> bool {
    let is_setting =
        |word: &&str| word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    let words: Vec<&str> = part.split_whitespace().skip_while(is_setting).collect();
    let Some(first) = words.first() else { return false };
    // A program of a virtualenv.
    let program = first.rsplit('/').next().unwrap_or(first);
    if NODE.contains(&program) {
        let is_script = |line: &&str| SCRIPTS.iter().any(|it| line.contains(it));
        let mut scripts = package.lines().filter(is_script);
        return !INSTALLS.contains(words.get(1).unwrap_or(&""))
            || scripts.any(|line| !HOOKS.iter().any(|it| line.contains(it)));
    }
    if words.iter().any(|it| it.ends_with("pip") || it.ends_with("pip3")) {
        // A copy of the project, unless it is linked.
        let is_linked = words.iter().any(|it| *it == "-e" || *it == "--editable");
        return !is_linked && words[1..].iter().any(|it| it.starts_with('.'));
    }
    let line = [program].iter().chain(&words[1..]).copied().collect::<Vec<_>>().join(" ");
    let is_plain = |start: &str| {
        line.strip_prefix(start)
            .is_some_and(|it| it.is_empty() || it.starts_with(' ') || start.ends_with('.'))
    };
    // What the shell puts together is not known.
    line.replace("${", "$").contains(['`', '(', '{', '<']) || !PLAIN.split(',').any(is_plain)
}

/// The findings about a project.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The names at its top, where folders end with a slash, and that of a person's settings for agents.
    pub names: Vec<String>,
    /// The agents with a preset that are on PATH.
    pub agents: Vec<FoundAgent>,
    /// The test commands that it declares.
    pub checks: Vec<FoundCheck>,
    /// The commands that install what a copy of the project needs.
    pub installs: Vec<String>,
    /// The files that look like a backlog.
    pub backlog: Vec<Backlog>,
    /// What makes a sandbox here, if anything does.
    pub sandbox: Option<String>,
}

/// An agent on PATH.
#[derive(Clone, Debug)]
pub struct FoundAgent {
    /// The name of its preset.
    pub name: &'static str,
    /// Its path.
    pub path: String,
    /// The sign of a login: a name, never a value.
    pub login: Option<String>,
}

impl Found {
    /// The most likely agent.
    pub fn agent(&self) -> &'static str {
        let logged_in = self.agents.iter().find(|agent| agent.login.is_some());
        logged_in.or(self.agents.first()).map_or(agent_preset::ALL[0].name, |agent| agent.name)
    }

    /// The commands that test the project: its own entry point if that can run, otherwise one per
    /// language.
    pub fn verify(&self) -> Vec<String> {
        let ready = || self.checks.iter().filter(|check| check.is_ready);
        match ready().find(|check| check.is_entry) {
            Some(entry) => vec![entry.command.clone()],
            None => ready().map(|check| check.command.clone()).collect(),
        }
    }

    /// The name of the justfile, existing or new.
    pub fn justfile(&self) -> &str {
        self.names.iter().find(|name| is_justfile(name)).map_or("justfile", |name| name)
    }

    /// Whether the project has files other than plans and those of `ralph` and git.
    fn has_code(&self) -> bool {
        const NONE: &[&str] = &["logs/", "prompts/", "docs/", "task-graph.yaml"];
        let is_prose = |name: &str| {
            let name = name.to_lowercase();
            [".md", ".txt", ".json"].iter().any(|end| name.ends_with(end))
                || [".", "license", "specs/", "justfile"]
                    .iter()
                    .any(|start| name.starts_with(start))
        };
        self.names.iter().any(|name| !NONE.contains(&name.as_str()) && !is_prose(name))
            || !self.checks.is_empty()
    }
}

/// The agent of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentChoice {
    /// A known agent, with its default model unless one is named.
    Preset {
        /// The name of the preset.
        name: String,
        /// The model.
        model: Option<String>,
    },
    /// A command of one's own.
    Command(Vec<String>),
}

impl AgentChoice {
    /// The value of the setting `agent`.
    fn text(&self) -> String {
        match self {
            AgentChoice::Preset { name, model: None } => scalar(name),
            AgentChoice::Preset { name, model: Some(model) } => {
                format!("{{preset: {}, model: {}}}", scalar(name), scalar(model))
            }
            AgentChoice::Command(words) => {
                let words: Vec<String> = words.iter().map(|word| scalar(word)).collect();
                format!("[{}]", words.join(", "))
            }
        }
    }
}

/// The choices for the set-up.
#[derive(Clone, Debug)]
pub struct SetupChoices {
    /// The agent; none if the user settings name it.
    pub agent: Option<AgentChoice>,
    /// The commands that verify a task.
    pub verify: Vec<String>,
    /// The limit on attempts per run, if there is one.
    pub max_iterations: Option<u32>,
    /// The limit on the cost of a run, in US dollars.
    pub max_cost: Option<f64>,
    /// Whether attempts run in a sandbox.
    pub sandbox: bool,
    /// Whether to write a justfile, where there is none.
    pub recipes: bool,
    /// Whether to write the user settings too.
    pub global: bool,
}

impl SetupChoices {
    /// The default choices.
    pub fn of(found: &Found) -> SetupChoices {
        SetupChoices {
            agent: Some(AgentChoice::Preset { name: found.agent().to_owned(), model: None }),
            verify: found.verify(),
            max_iterations: None,
            max_cost: None,
            sandbox: found.sandbox.is_some(),
            recipes: true,
            global: false,
        }
    }
}

/// The text of the project settings.
pub fn config(found: &Found, wanted: &SetupChoices) -> String {
    let doubtful = || found.checks.iter().filter(|check| !check.is_ready);
    let verify = if !wanted.verify.is_empty() {
        wanted
            .verify
            .iter()
            .fold("verify:\n".to_owned(), |text, command| text + "  - " + &scalar(command) + "\n")
    } else if doubtful().next().is_some() {
        doubtful().fold(String::new(), |text, check| {
            let FoundCheck { command, program, source, .. } = check;
            text + &format!("# verify: [{command}]  # from {source}; `{program}` is not on PATH\n")
        })
    } else {
        "# verify: [make test]\n".to_owned()
    };
    let text = settings(&Template::Config.text(), wanted);
    let text = text.replace("# verify: [make test]\n", &verify);
    if found.installs.is_empty() {
        return text;
    }
    let installs = found.installs.iter();
    let setup = installs
        .fold("setup:\n".to_owned(), |text, command| text + "  - " + &scalar(command) + "\n");
    text.replace("# setup: [npm ci]\n", &setup)
}

/// The text of the list of ignored files that attempts need; none without such files.
pub fn includes(found: &Found) -> Option<String> {
    let files = wanted_files(&found.names);
    (!files.is_empty()).then(|| files.join("\n") + "\n")
}

/// The text of the user settings.
pub fn global(wanted: &SetupChoices) -> String {
    settings(template::GLOBAL, wanted)
}

fn settings(text: &str, wanted: &SetupChoices) -> String {
    let agent = match &wanted.agent {
        Some(agent) => format!("\nagent: {}\n", agent.text()),
        None => "\n# agent: claude  # default: from ~/.ralph/config.yaml\n".to_owned(),
    };
    let text = text.replace("\nagent: claude\n", &agent);
    let text = match wanted.max_iterations {
        None => text,
        Some(count) => {
            text.replace("# max_iterations: 50  ", &format!("max_iterations: {count}    "))
        }
    };
    let text = if wanted.sandbox {
        text.replace("# run_on: sandbox  ", "run_on: sandbox    ")
    } else {
        text
    };
    match wanted.max_cost {
        Some(sum) => text.replace("# max_cost: 20        #", &format!("max_cost: {sum} #")),
        None => text,
    }
}

/// Writes a text as a YAML scalar on one line, unquoted if possible.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./_-+=".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.' || c == '/');
    let word = ["true", "false", "null", "yes", "no", "on", "off"].contains(&&*text.to_lowercase());
    if starts && !word && text.chars().all(plain) && !text.ends_with(' ') {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

/// The text of a task graph with tasks that fit the project.
pub fn graph(found: &Found) -> String {
    let plan = found.backlog.iter().find_map(|one| one.document.as_deref());
    let plan = plan.map_or(String::new(), |path| template::TASK_PLAN.replace("PLAN", path));
    let tasks = if found.has_code() { template::TASKS_CODE } else { template::TASKS_START };
    // With a plan, the last example is not needed.
    let tasks = if plan.is_empty() { tasks } else { but_last(tasks) };
    format!("{}{plan}{tasks}", template::GRAPH_HEAD)
}

/// Whether this is the text of a task graph as [`graph`] makes it, unchanged.
pub fn is_example(text: &str) -> bool {
    let Some(tasks) = text.strip_prefix(template::GRAPH_HEAD) else {
        return false;
    };
    let path = tasks.lines().find_map(|line| line.strip_prefix("    path: "));
    let plan = path.map(|path| template::TASK_PLAN.replace("PLAN", path));
    [template::TASKS_CODE, template::TASKS_START].into_iter().any(|known| match &plan {
        Some(plan) => tasks.strip_prefix(plan.as_str()) == Some(but_last(known)),
        None => tasks == known,
    })
}

/// The text of a task graph without its tasks, where these are the unchanged examples of [`graph`].
pub fn without_examples(text: &str) -> Option<String> {
    let (head, _) = template::GRAPH_HEAD.rsplit_once("# Examples.")?;
    is_example(text).then(|| format!("{head}tasks: []\n"))
}

/// Drops the last task.
fn but_last(tasks: &str) -> &str {
    tasks.rfind("\n\n").map_or(tasks, |at| &tasks[..=at])
}

/// The action for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFate {
    /// Create it with this text.
    Create(String),
    /// Replace it with this text.
    Replace(String),
    /// Keep it, although it differs from the wanted content, for this reason.
    Keep(String),
    /// Keep it, because it already has the wanted content.
    Same,
}

impl FileFate {
    /// The action for a file with the text `there`; `may_replace` allows losing that text.
    pub fn of(there: Option<&[u8]>, wanted: &str, may_replace: bool) -> FileFate {
        match there {
            None => FileFate::Create(wanted.to_owned()),
            Some(bytes) if wanted.as_bytes() == bytes => FileFate::Same,
            Some(_) if may_replace => FileFate::Replace(wanted.to_owned()),
            Some(_) => FileFate::Keep("already exists".to_owned()),
        }
    }

    /// The text to write, if any.
    pub fn text(&self) -> Option<&str> {
        match self {
            FileFate::Create(text) | FileFate::Replace(text) => Some(text),
            FileFate::Keep(_) | FileFate::Same => None,
        }
    }
}

/// Whether `just` reads a file with this name.
pub fn is_justfile(name: &str) -> bool {
    ["justfile", ".justfile"].contains(&&*name.to_lowercase())
}

/// A new justfile with only these recipes.
pub fn new_justfile() -> String {
    let head = "# Recipes for common commands. `just` without arguments lists them.\n\n\
                _default:\n    @just --list\n\n";
    format!("{head}{}", Template::Just.text())
}

/// The names of recipes, aliases and modules.
fn taken(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(defined).collect()
}

/// The name that a line defines, unless it is a variable.
fn defined(line: &str) -> Option<String> {
    let name = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect()
    };
    for word in ["alias ", "mod ", "mod? "] {
        if let Some(rest) = line.strip_prefix(word) {
            let name = name(rest.trim_start());
            return (!name.is_empty()).then_some(name);
        }
    }
    let line = line.strip_prefix('@').unwrap_or(line);
    let found = name(line);
    let rest = line[found.len()..].trim_start();
    let is_recipe = !found.is_empty() && !rest.starts_with(":=") && rest.contains(':');
    let is_setting = ["set", "export", "import"].contains(&found.as_str()) && rest.contains(":=");
    (is_recipe && !is_setting).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(agent: &str, verify: &[&str]) -> SetupChoices {
        SetupChoices {
            agent: Some(AgentChoice::Preset { name: agent.to_owned(), model: None }),
            verify: verify.iter().map(|&command| command.to_owned()).collect(),
            max_iterations: Some(7),
            sandbox: false,
            max_cost: None,
            recipes: true,
            global: false,
        }
    }

    #[test]
    fn settings_hold_the_choices() {
        let text = config(&Found::default(), &wanted("codex", &["make test", "a: [b] # c"]));
        for line in ["agent: codex", "  - make test", "  - \"a: [b] # c\"", "max_iterations: 7  "] {
            assert!(text.lines().any(|it| it.starts_with(line)), "{line} is not in\n{text}");
        }
        assert!(!text.contains("# verify"), "{text}");
        let text = global(&wanted("true", &[]));
        assert!(text.contains("\nagent: \"true\"\n") && text.contains("\nmax_iterations: 7 "));
    }

    #[test]
    fn a_test_without_its_program_becomes_a_comment() {
        let check = FoundCheck {
            command: "go test ./...".to_owned(),
            program: "go".to_owned(),
            source: "go.mod".to_owned(),
            is_entry: false,
            is_ready: false,
        };
        let found = Found { checks: vec![check], ..Found::default() };
        assert!(found.verify().is_empty());
        let text = config(&found, &wanted("claude", &[]));
        let line = "# verify: [go test ./...]  # from go.mod; `go` is not on PATH";
        assert!(text.lines().any(|it| it == line), "{text}");
    }

    #[test]
    fn a_file_is_replaced_only_if_allowed() {
        let whole = "new";
        assert_eq!(FileFate::of(None, whole, false), FileFate::Create("new".to_owned()));
        assert_eq!(FileFate::of(Some(b"new"), whole, true), FileFate::Same);
        assert_eq!(FileFate::of(Some(b"old"), whole, true), FileFate::Replace("new".to_owned()));
        assert!(matches!(FileFate::of(Some(b"old"), whole, false), FileFate::Keep(_)));
    }

    #[test]
    fn a_project_with_only_prose_has_no_code() {
        let of = |names: &[&str]| Found {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            ..Found::default()
        };
        assert!(!of(&[".git/", "README.md", "LICENSE-MIT", "PRD.md", ".ralph/"]).has_code());
        assert!(of(&[".git/", "README.md", "src/"]).has_code());
    }

    const MINE: &str = "set shell := ['sh', '-c']\nversion := '1'\nalias c := check\nmod docs\n\n\
                        @check target='all': build\n  cargo check\n\nbuild:\n  cargo build\n";

    #[test]
    fn names_are_found_in_all_forms() {
        let found: Vec<String> = taken(MINE).into_iter().collect();
        assert_eq!(found, ["build", "c", "check", "docs"]);
    }

    #[test]
    fn installers_read_lists_and_builds_read_code() {
        let hooks = "{\"scripts\": {\n\"prepare\": \"husky\"}}";
        let reads = |command: &str, package| reads_code(&[command.to_owned()], package);
        for command in [
            "npm ci",
            "yarn",
            "CI=1 pnpm install --frozen-lockfile",
            "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]'",
            "uv sync",
            "cd web && npm ci",
            "[ -d node_modules ] || npm ci",
            "python -m pip install -r requirements.txt",
            "cp .env.example .env",
            "echo x >> ${DIR}/ran; touch $DIR/yes",
        ] {
            assert!(!reads(command, hooks), "{command}");
        }
        let builds = "{\"scripts\": {\"prepare\": \"tsc\"}}";
        for command in [
            "npm ci",
            "npm run build",
            "make",
            "./setup.sh",
            "pip install .",
            "mkdir -p dist && cp lib/*.js dist/",
            "for it in lib/*; do cp $it dist; done",
            "npm ci && npx tsc",
        ] {
            assert!(reads(command, builds), "{command}");
        }
        assert!(is_apart("README.md") && !is_apart("src"));
    }
}
