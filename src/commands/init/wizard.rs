//! The inspection and the questions of `ralph init`. The only user of shell-words.

use std::{fs, path::Path};

use anyhow::Result;

use crate::{
    adapters::{
        process,
        terminal::questions::{Questions, fitted},
    },
    commands::probe::login_sign,
    core::{
        agents::agent_preset,
        executor::SandboxEngine,
        import,
        setup::{self, AgentChoice, Folder, Found, FoundAgent, FoundCheck, SetupChoices},
    },
    regular_file,
};

/// Longer files are not read.
const LONG: u64 = 1 << 20;
/// Folders that are not searched for plans.
const FOREIGN: &[&str] = &["node_modules", "target", "vendor", "dist", "build", "logs"];
/// The most projects below the top whose tests are looked for.
const PROJECTS: usize = 12;

/// Inspects the project in `root`. Unreadable files are ignored.
pub(in crate::commands) fn found(root: &Path) -> Found {
    let mut names = names(root);
    let plans = paths(root, &names);
    let (checks, installs) = tools(root);
    if root.join(setup::AGENT_SETTINGS).is_file() {
        names.push(setup::AGENT_SETTINGS.to_owned());
    }
    Found {
        installs,
        checks,
        backlog: setup::backlog(&plans, |path| has_tasks(&root.join(path))),
        agents: agents(root),
        sandbox: sandbox(),
        names,
    }
}

/// The commands that test the project and that install what a copy needs: those of its top, or those of the
/// projects below it where the top is none.
pub(in crate::commands) fn tools(root: &Path) -> (Vec<FoundCheck>, Vec<String>) {
    let mut folders = vec![folder(root, String::new())];
    if !folders[0].is_project() {
        let below = |parent: &Folder| -> Vec<Folder> {
            let own = parent.names.iter().filter(|name| is_own(name));
            own.map(|name| folder(root, format!("{}{name}", parent.path))).collect()
        };
        let (mut found, others): (Vec<_>, Vec<_>) =
            below(&folders[0]).into_iter().partition(Folder::is_project);
        found.extend(others.iter().flat_map(below).filter(Folder::is_project));
        // Without one below, tests may show that the top is a project.
        if !found.is_empty() {
            folders = found;
        }
        folders.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        folders.truncate(PROJECTS);
    }
    let on_path = |program: &str| process::resolve(program, root).is_ok();
    let checks = folders.iter().flat_map(|folder| setup::checks(folder, on_path)).collect();
    let installs = folders.iter().flat_map(|folder| setup::installs(folder, on_path)).collect();
    (checks, installs)
}

fn folder(root: &Path, path: String) -> Folder {
    let dir = root.join(&path);
    let names = names(&dir);
    let read = |name: &String| {
        let path = dir.join(name);
        let is_read = setup::READ.contains(&&*name.to_lowercase())
            && fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= LONG);
        let text = is_read.then(|| regular_file::read_to_string(&path).ok()).flatten()?;
        Some((name.clone(), text))
    };
    let texts = names.iter().filter_map(read).collect();
    let places = ["tests", "test", "__tests__", "src"];
    let in_tests = places.iter().flat_map(|name| self::names(&dir.join(name))).collect();
    Folder { path, names, texts, in_tests }
}

/// Whether the name in a folder is of a folder with a project's own files.
fn is_own(name: &str) -> bool {
    let bare = name.trim_end_matches('/');
    bare != name && !(bare.starts_with('.') || FOREIGN.contains(&bare))
}

/// Whether `ralph import` finds tasks in a document.
fn has_tasks(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= LONG)
        && regular_file::read_to_string(path).is_ok_and(|text| {
            let found = import::read(&path.to_string_lossy(), &text);
            found.is_ok_and(|backlog| !backlog.tasks.is_empty())
        })
}

/// Bubblewrap, if it works on this machine: Landlock alone holds less.
pub(super) fn sandbox() -> Option<String> {
    let support = process::sandbox::support(SandboxEngine::Bubblewrap).ok()?;
    Some(support.to_string())
}

/// The presets whose program is on PATH.
pub(super) fn agents(root: &Path) -> Vec<FoundAgent> {
    let look = |preset: &agent_preset::AgentPreset| {
        let path = process::resolve(preset.argv[0], root).ok()?;
        let login = login_sign(preset, |_| false);
        Some(FoundAgent { name: preset.name, path: path.display().to_string(), login })
    };
    agent_preset::ALL.iter().filter_map(look).collect()
}

/// The sorted names in a folder. Names of folders end with a slash.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(if entry.path().is_dir() { name + "/" } else { name })
        })
        .collect();
    names.sort_unstable();
    names
}

/// The paths in which plans are searched: the top level and two levels of folders.
fn paths(root: &Path, names: &[String]) -> Vec<String> {
    let mut paths = names.to_vec();
    for folder in names.iter().filter(|name| *name == ".taskmaster/" || is_own(name)) {
        for name in self::names(&root.join(folder)) {
            let path = format!("{folder}{name}");
            if path.ends_with('/') && !FOREIGN.contains(&name.trim_end_matches('/')) {
                let below = self::names(&root.join(&path));
                paths.extend(below.into_iter().map(|name| format!("{path}{name}")));
            }
            paths.push(path);
        }
    }
    paths
}

/// Asks for the agent and the limits of a run.
pub(super) fn ask_settings(
    questions: &Questions,
    found: &Found,
    wanted: &mut SetupChoices,
) -> Result<()> {
    if let Some(agent) = &mut wanted.agent {
        *agent = ask_agent(questions, found, agent)?;
    }
    if let Some(sandbox) = &found.sandbox {
        let question = format!("Keep agents in a sandbox ({sandbox})?");
        wanted.sandbox = questions.is_wanted(&question, wanted.sandbox)?;
    }
    let count = |text: &String| match text.trim().parse::<u32>() {
        _ if text.trim().is_empty() => Ok(()),
        Ok(1..) => Ok(()),
        Ok(0) | Err(_) => Err("a number above 0, or nothing"),
    };
    let attempts =
        questions.text("Maximum number of attempts per run (empty for enough)", count)?;
    wanted.max_iterations = attempts.parse().ok();
    let sum = |text: &String| match text.trim().parse::<f64>() {
        _ if text.trim().is_empty() => Ok(()),
        Ok(sum) if sum.is_finite() && sum > 0.0 => Ok(()),
        _ => Err("a number above 0, or nothing"),
    };
    let cost = questions.text("Maximum cost per run in US dollars (empty for none)", sum)?;
    wanted.max_cost = cost.parse().ok();
    Ok(())
}

fn ask_agent(questions: &Questions, found: &Found, default: &AgentChoice) -> Result<AgentChoice> {
    let here = |name: &str| found.agents.iter().find(|agent| agent.name == name);
    let mut names: Vec<&str> = agent_preset::ALL.iter().map(|preset| preset.name).collect();
    names.sort_by_key(|name| here(name).is_none());
    let about = |name: &&str| match here(name) {
        Some(agent) => format!("{name} ({})", agent.login.as_deref().unwrap_or("found")),
        None => format!("{name} (not on PATH)"),
    };
    let mut items: Vec<String> = names.iter().map(about).collect();
    items.push("another command".to_owned());
    let is_default = |name: &&str| matches!(default, AgentChoice::Preset { name: default, .. } if default == name);
    let first = names.iter().position(is_default).unwrap_or(0);
    let Some(name) = names.get(questions.choice("Which agent?", &items, first)?) else {
        let words = |text: &String| match shell_words::split(text) {
            Ok(words) if words.is_empty() => Err("a command that reads a prompt on stdin"),
            Ok(_) => Ok(()),
            Err(_) => Err("a quotation mark is missing"),
        };
        let line = questions.text("Command that reads a prompt on standard input", words)?;
        return Ok(AgentChoice::Command(shell_words::split(&line)?));
    };
    let mut model = None;
    if agent_preset::find(name).is_some_and(|preset| preset.model.is_some()) {
        let question = format!("Model of {name} (empty for its default)");
        model = Some(questions.text(&question, |_| Ok(()))?).filter(|model| !model.is_empty());
    }
    Ok(AgentChoice::Preset { name: (*name).to_owned(), model })
}

/// Asks for the verify commands.
pub(super) fn ask_verify(
    questions: &Questions,
    found: &Found,
    wanted: &mut SetupChoices,
) -> Result<()> {
    let ready: Vec<_> = found.checks.iter().filter(|check| check.is_ready).collect();
    wanted.verify = match ready.as_slice() {
        [] => {
            let question = "Command that tests this project (empty for none)";
            let command = questions.text(question, |_| Ok(()))?;
            Some(command).filter(|text| !text.is_empty()).into_iter().collect()
        }
        [check] => {
            let question = format!("Run `{}` before a task is complete?", check.command);
            let is_wanted = questions.is_wanted(&fitted(&question), true)?;
            is_wanted.then(|| check.command.clone()).into_iter().collect()
        }
        several => {
            let items: Vec<String> =
                several.iter().map(|it| format!("{} ({})", it.command, it.source)).collect();
            let is_default = |at: usize| wanted.verify.contains(&several[at].command);
            let question = "Which commands must pass before a task is complete?";
            let chosen = questions.choices(question, &items, is_default)?;
            chosen.into_iter().map(|at| several[at].command.clone()).collect()
        }
    };
    Ok(())
}
