//! `ralph init`: sets up a project without overwriting files.

mod files;
mod wizard;

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use anyhow::{Result, bail};

use super::{Invocation, success};
use crate::{
    adapters::{
        git::Repo,
        signal,
        terminal::{
            self, Paint, Style,
            questions::{INTERRUPT, Questions},
        },
    },
    cli::InitArgs,
    core::{
        agents::agent_preset,
        exit::{Exit, fail},
        finding::FindingKind,
        loop_paths::LoopPaths,
        prompt::template::{self, Template},
        setup::{self, FileFate, Found, SetupChoices},
    },
    project::{
        config_layers::{self, ConfigLayers, Origin},
        slot_files,
        workspace::{self, GRAPH, Workspace},
    },
    regular_file, runner,
    view::lines::counted,
};
use files::FileStep;
pub(super) use wizard::{found, tools};

/// The template of a task's prompt, relative to the repository.
const TASK: &str = "prompts/task.md";
/// The prompt of a loop, relative to the working directory.
const PROMPT: &str = "PROMPT.md";

/// A setup's next step.
pub enum SetupEnd {
    /// Nothing.
    Done(Exit),
    /// The tasks are to be drafted from this file.
    Draft(PathBuf),
}

/// Inspects the project, asks on a terminal, and writes missing files.
///
/// # Errors
/// No repository; a conflicting file; a declined question.
pub fn run(invocation: &Invocation, options: &InitArgs) -> Result<SetupEnd> {
    if invocation.graph.is_some() || invocation.config.is_some() {
        return fail(
            Exit::Usage,
            format!(
                "`ralph init` writes `{GRAPH}` and `{}`; remove `--graph` and `--config`, and unset \
             `RALPH_GRAPH` and `RALPH_CONFIG`",
                config_layers::PATH
            ),
        );
    }
    let dir = invocation.directory()?;
    if options.prompt {
        return one(&dir, PROMPT, Template::Prompt, options.force).map(SetupEnd::Done);
    }
    let asks = !options.yes && !options.dry_run && terminal::can_ask();
    let questions = asks.then(catch_signals).transpose()?;
    if options.global {
        return global(&dir, options, questions.as_ref()).map(SetupEnd::Done);
    }
    project(&dir, options, questions.as_ref())
}

/// Catches signals from now on: they end a question, not the program, and do not interrupt the writing
/// of files.
fn catch_signals() -> io::Result<Questions> {
    let signal = Arc::new(AtomicI32::new(INTERRUPT));
    let last = Arc::clone(&signal);
    signal::listen(move |number| last.store(number, Ordering::Relaxed))?;
    Ok(Questions::ended_by(signal))
}

/// Writes one template to a file that does not exist or may be overwritten.
///
/// # Errors
/// The file exists; a conflicting folder or link.
fn one(root: &Path, name: &str, template: Template, force: bool) -> Result<Exit> {
    let step = FileStep::plan(root, name, &template.text(), true)?;
    let is_there = !matches!(step.fate, FileFate::Create(_));
    if is_there && !force {
        return fail(Exit::Error, format!("{name} already exists (use --force to overwrite)"));
    }
    files::write(&[step])?;
    let overwritten = if is_there { " (overwritten)" } else { "" };
    success(&format!("created {name}{overwritten}\n"))
}

/// Writes only the user settings.
fn global(dir: &Path, options: &InitArgs, questions: Option<&Questions>) -> Result<Exit> {
    let found =
        Found { agents: wizard::agents(dir), sandbox: wizard::sandbox(), ..Found::default() };
    tell(&found, None);
    let mut wanted = SetupChoices::of(&found);
    let replace = options.reset || options.force;
    if let Some(questions) = questions
        && global_step(&wanted, replace)?.fate.text().is_some()
    {
        wizard::ask_settings(questions, &found, &mut wanted)?;
    }
    let steps = [global_step(&wanted, replace)?];
    if options.dry_run {
        return preview(&steps);
    }
    files::write(&steps)?;
    report(&steps, 0, "`ralph config` shows every setting with its origin")
}

fn global_step(wanted: &SetupChoices, replace: bool) -> Result<FileStep> {
    let home = |path: &PathBuf| path.ancestors().nth(2).is_some_and(Path::is_dir);
    let Some(path) = config_layers::global_path().filter(home) else {
        bail!("no home folder; set `HOME`");
    };
    // The folder may be a link, as in a dotfiles repository.
    let folder = path.parent().unwrap_or(&path);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut step = FileStep::plan(&folder, "config.yaml", &setup::global(wanted), replace)?;
    config_layers::GLOBAL.clone_into(&mut step.name);
    Ok(step.keeping())
}

fn project(dir: &Path, options: &InitArgs, questions: Option<&Questions>) -> Result<SetupEnd> {
    // `ask` offers to create the repository. Nothing is written before the last question.
    let is_new = questions.is_some() && dir.is_dir() && Repo::is_missing(dir);
    let repo = if is_new { None } else { Some(Repo::discover(dir)?) };
    let root = repo.as_ref().map_or(dir, Repo::root);
    let found = wizard::found(root);
    let mut wanted = SetupChoices::of(&found);
    if speaks_for_all(root) {
        wanted.agent = None;
    }
    tell(&found, Some((root, repo.as_ref())));
    if let Some(questions) = questions {
        ask(questions, root, &found, &mut wanted, options, is_new)?;
    }
    let steps = steps(root, &found, &wanted, options)?;
    check_idle(repo.as_ref(), &steps)?;
    if options.dry_run {
        return preview(&steps).map(SetupEnd::Done);
    }
    if let Some(questions) = questions {
        let mut changes = 0;
        for step in steps.iter().filter(|step| step.fate.text().is_some()) {
            terminal::say(line(step, false).trim_end());
            changes += 1;
        }
        if changes > 0 && !questions.is_wanted(&format!("Write {changes} files?"), true)? {
            return Err(questions.declined());
        }
    }
    if is_new {
        Repo::init(root)?;
    }
    files::write(&steps)?;
    let workspace = Workspace::unset(root, LoopPaths::default())?;
    let ignored = workspace.ignore_own_files()?;
    let command = workspace::shown_command();
    let plan = setup::draftable(&found.backlog);
    let import = setup::importable(&found.backlog).map_or(String::new(), |path| {
        format!("{command} import {path}\n               put its tasks into the graph\n  ")
    });
    let draft = plan.map_or(String::new(), |path| {
        format!("{command} draft {path}\n               have the agent write its tasks\n  ")
    });
    let next = format!(
        "Next: put your tasks into {GRAPH}, commit the new files, then run\n  {import}{draft}\
         {command} check        validate the graph\n  \
         {command} doctor       find what would stop a run\n  \
         {command} run --once   make one attempt"
    );
    let exit = report(&steps, ignored, &next)?;
    let plan = plan
        .filter(|plan| questions.is_some_and(|questions| is_drafted(questions, &workspace, plan)));
    Ok(plan.map_or(SetupEnd::Done(exit), |plan| SetupEnd::Draft(root.join(plan))))
}

/// Asks whether the agent writes the tasks of a plan now, where it can: over the examples, and in a
/// repository with a commit. No answer is a no, since the setup is done.
fn is_drafted(questions: &Questions, workspace: &Workspace, plan: &str) -> bool {
    let has_commit = workspace.repo.head().is_ok_and(|head| head.commit.is_some());
    let text = regular_file::read_to_string(workspace.graph_path()).unwrap_or_default();
    let question = format!("Have the agent write the tasks from {plan} now?");
    has_commit && setup::is_example(&text) && questions.is_wanted(&question, false).unwrap_or(false)
}

/// Whether the user settings name the agent, so that the project need not.
fn speaks_for_all(root: &Path) -> bool {
    let Ok(mut layers) = ConfigLayers::of(root, None) else {
        return false;
    };
    let is_global =
        |origin: &Origin| matches!(origin, Origin::File(file, _) if file == config_layers::GLOBAL);
    layers.read().is_ok()
        && layers.all().iter().any(|(key, _, origin)| key == "agent" && is_global(origin))
}

fn ask(
    questions: &Questions,
    root: &Path,
    found: &Found,
    wanted: &mut SetupChoices,
    options: &InitArgs,
    is_new: bool,
) -> Result<()> {
    let replaces = options.force || options.reset;
    if is_new && !questions.is_wanted("Not a git repository. Create one?", true)? {
        return Err(Repo::discover(root).err().unwrap_or_else(|| questions.declined()));
    }
    if replaces || !root.join(config_layers::PATH).exists() {
        wizard::ask_settings(questions, found, wanted)?;
        wizard::ask_verify(questions, found, wanted)?;
    }
    let justfile = found.justfile();
    if !root.join(justfile).exists() {
        wanted.recipes =
            questions.is_wanted(&format!("Add recipes for `just` to {justfile}?"), true)?;
    }
    let own = root.join(config_layers::PATH);
    let is_free = |path: PathBuf| path != own && !path.exists();
    if !options.project && config_layers::global_path().is_some_and(is_free) {
        wanted.global = questions.is_wanted("Use this agent in all your projects?", false)?;
    }
    Ok(())
}

/// The planned change of every file.
fn steps(
    root: &Path,
    found: &Found,
    wanted: &SetupChoices,
    options: &InitArgs,
) -> Result<Vec<FileStep>> {
    let whole =
        |name: &str, text: String, replace: bool| FileStep::plan(root, name, &text, replace);
    let force = options.force;
    let settings = setup::config(found, wanted);
    let mut steps = vec![
        whole(config_layers::PATH, settings, force || options.reset)?.keeping(),
        whole(".ralph/.gitignore", template::IGNORE.to_owned(), force)?,
        whole(GRAPH, setup::graph(found), force)?.keeping(),
        whole(TASK, Template::Task.text(), force)?.keeping().made(),
    ];
    if let Some(files) = setup::includes(found) {
        steps.push(whole(slot_files::INCLUDE, files, force)?.keeping());
    }
    if wanted.recipes {
        // That of a person stays.
        steps.push(whole(found.justfile(), setup::new_justfile(), false)?);
    }
    if wanted.global {
        steps.push(global_step(wanted, false)?);
    }
    Ok(steps)
}

/// Refuses to replace files while a run is active.
fn check_idle(repo: Option<&Repo>, steps: &[FileStep]) -> Result<()> {
    let Some(repo) = repo else {
        return Ok(());
    };
    let replaces = steps.iter().any(|step| matches!(step.fate, FileFate::Replace(_)));
    let workspace = Workspace::unset(repo.root(), LoopPaths::default())?;
    if replaces && workspace.state.is_locked()? {
        return fail(Exit::Running, runner::held(&workspace));
    }
    Ok(())
}

/// Prints the findings.
fn tell(found: &Found, place: Option<(&Path, Option<&Repo>)>) {
    let mut lines = Vec::new();
    if let Some((root, repo)) = place {
        let branch = repo.and_then(|repo| repo.head().ok()?.branch);
        lines.push(match (repo, branch) {
            (None, _) => format!("folder: {}, not in a git repository", root.display()),
            (_, None) => format!("project: {}", root.display()),
            (_, Some(branch)) => format!("project: {}, branch {branch}", root.display()),
        });
    }
    for agent in &found.agents {
        let login = agent.login.as_deref().unwrap_or("no sign of a login");
        lines.push(format!("agent: {} ({}), {login}", agent.name, agent.path));
    }
    if !found.agents.is_empty() {
        lines.push(FindingKind::Unasked.with(&["the presets ask", "your user can do"]).line());
    }
    lines.extend(found.sandbox.as_ref().map(|sandbox| {
        format!("sandbox: {sandbox} works here, so `run_on: sandbox` keeps agents in it by default")
    }));
    if found.agents.is_empty() {
        let names: Vec<&str> = agent_preset::ALL.iter().map(|preset| preset.name).collect();
        lines.push(FindingKind::NoAgent.with(&[&names.join(", ")]).line());
    }
    for check in &found.checks {
        let missing = format!(", but `{}` is not on PATH", check.program);
        let missing = if check.is_ready { "" } else { &missing };
        lines.push(format!("tests: `{}`, from {}{missing}", check.command, check.source));
    }
    if place.is_some() && found.checks.is_empty() {
        lines.push(FindingKind::NoTests.with(&[]).line());
    }
    for one in &found.backlog {
        lines.push(format!("backlog: {}, {}", one.path, one.advice));
    }
    let width = terminal::stderr_width().unwrap_or(usize::MAX);
    for line in lines {
        terminal::say(&terminal::wrap(&terminal::visible(&line), width).join("\n"));
    }
}

/// Prints the changes and the next steps.
fn report(steps: &[FileStep], ignored: usize, next: &str) -> Result<Exit> {
    let mut text = steps.iter().fold(String::new(), |text, step| text + &line(step, true));
    if ignored > 0 {
        let word = painted(Style::Good, "added to");
        let lines = counted(ignored, "line");
        let _ = writeln!(text, "{word} .git/info/exclude of this clone: {lines}, for logs/");
    }
    let is_changed = ignored > 0 || steps.iter().any(|step| step.fate.text().is_some());
    if is_changed {
        let _ = writeln!(text, "\n{next}");
    } else {
        text.push_str("nothing changed: all files exist (--force overwrites)\n");
    }
    success(&text)
}

/// The line about one file, before or after writing.
fn line(step: &FileStep, is_done: bool) -> String {
    let (will, did, style, more) = match &step.fate {
        FileFate::Create(_) => ("create", "created", Style::Good, String::new()),
        FileFate::Replace(_) => {
            let kept = step.backup.as_ref();
            let kept = kept.map(|end| format!("; backup in {}{end}", step.name));
            ("replace", "replaced", Style::Warn, kept.unwrap_or_default())
        }
        FileFate::Keep(why) => ("keep", "kept", Style::Faint, format!(": it {why}")),
        FileFate::Same => ("keep", "kept", Style::Faint, String::new()),
    };
    format!("{} {}{more}\n", painted(style, if is_done { did } else { will }), step.name)
}

fn painted(style: Style, word: &str) -> String {
    Paint::for_stream(&std::io::stdout()).text(style, format!("{word:<8}")).into_owned()
}

/// Prints a preview.
fn preview(steps: &[FileStep]) -> Result<Exit> {
    let mut text = String::new();
    for step in steps {
        text += &line(step, false);
        if let (Some(whole), false) = (step.fate.text(), step.is_made) {
            for line in whole.lines() {
                let line = format!("    {}", terminal::visible(line));
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
    }
    text += "\nnothing was written (dry run of `ralph init --yes`)\n";
    success(&text)
}
