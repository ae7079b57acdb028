//! `ralph pr`: a pull request of what landed, with the evidence as its text; through `gh` or `glab` where
//! they are installed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use chrono::Utc;
use serde::Serialize;

use super::{
    Invocation, few,
    init::Wizard,
    review::{Landing, ReviewItem, landings},
    status, success,
    task_editor::TaskEditor,
};
use crate::{
    adapters::{
        git::AppliedChange,
        process,
        terminal::{self, visible},
    },
    cli::{PerPart, PullRequestArgs},
    core::{
        commit_id::CommitId,
        executor::shell_word,
        exit::{Exit, fail},
        verdict::CheckResult,
    },
    project::workspace::{landed_tip, landing_branch},
    view::{lines::counted, review::ReviewView, run_report::RunReport},
};

/// The remote that is meant where there are several.
const USUAL: &str = "origin";
/// The files that a message names.
const NAMED: usize = 3;
/// The longest title.
const TITLE: usize = 72;

/// The longest body, in characters; GitHub refuses one of more than 65,536.
const BODY: usize = 65_000;

/// A pull request.
#[derive(Debug, Serialize)]
struct PullRequest {
    /// The branch that it is of.
    branch: String,
    /// The commit of that branch.
    commit: CommitId,
    /// The branch that it is for.
    base: String,
    title: String,
    body: String,
    /// Whether the remote has the commit on that branch, as far as it is known here.
    is_pushed: bool,
}

/// The remote repository.
#[derive(Debug)]
struct Remote {
    name: String,
    url: String,
}

/// Opens pull requests, or prints their texts and the commands.
///
/// # Errors
/// Nothing has landed; the work of a part does not fit on the base alone; `git push`, `gh` or `glab` fails.
pub fn run(invocation: &Invocation, options: &PullRequestArgs) -> Result<Exit> {
    let editor = TaskEditor::for_review(invocation, "pr")?;
    let now = Utc::now();
    let report = status::read_chosen(invocation, options.run, now)?;
    let remote = remote(&editor)?;
    let requests = requests(&editor, options, &report, remote.as_ref())?;
    if options.json {
        return success(&terminal::json(&requests));
    }
    let mut exit = Exit::Success;
    for request in &requests {
        if !open(&editor, options, remote.as_ref(), request)? {
            exit = Exit::Waiting;
        }
    }
    Ok(exit)
}

/// Opens the pull request of a run that has just ended, if something landed in it.
pub(super) fn at_end(invocation: &Invocation) {
    let options = PullRequestArgs { push: true, ..PullRequestArgs::default() };
    let made = status::read_report(invocation, 1, Utc::now()).and_then(|report| {
        let has_landed = !report.landed.is_empty();
        if has_landed { run(invocation, &options).map(drop) } else { Ok(()) }
    });
    if let Err(error) = made {
        terminal::say(&visible(&format!("no pull request: {error:#}")));
    }
}

/// The remote repository to which work is sent.
fn remote(editor: &TaskEditor) -> Result<Option<Remote>> {
    let mut all = editor.workspace.repo.landings().remotes()?;
    let at = all.iter().position(|(name, _)| name == USUAL).unwrap_or(0);
    Ok((at < all.len()).then(|| all.swap_remove(at)).map(|(name, url)| Remote { name, url }))
}

/// The pull requests for what landed and the base does not have, or for what landed in the run that was
/// named.
fn requests(
    editor: &TaskEditor,
    options: &PullRequestArgs,
    report: &RunReport,
    remote: Option<&Remote>,
) -> Result<Vec<PullRequest>> {
    let workspace = &editor.workspace;
    let repo = &workspace.repo;
    let onto = landing_branch(workspace)?.context("HEAD is on no branch")?;
    let tip = landed_tip(workspace, &onto)?;
    let usual = match (&options.base, remote) {
        (Some(base), _) => Some(base.clone()),
        (None, Some(remote)) => repo.landings().default_branch(&remote.name)?,
        (None, None) => None,
    };
    let base = usual.unwrap_or_else(|| "main".to_owned());
    let known = |branch: &str| match remote {
        Some(remote) => repo.commit_of(&format!("refs/remotes/{}/{branch}", remote.name)),
        None => Ok(None),
    };
    let local = || if onto == base { Ok(None) } else { repo.branch(&base) };
    let start = known(&base)?.map_or_else(local, |commit| Ok(Some(commit)))?;
    let run_id = report.run.run_id.clone().unwrap_or_default();
    let is_of_run = options.run.is_some() || start.is_none();
    let mut landed = landings(editor, |entry| !is_of_run || entry.run_id == run_id)?;
    if let Some(start) = &start {
        landed.retain(|it| !repo.is_ancestor(&it.item.last, start).unwrap_or(false));
    }
    landed.sort_by_key(|it| it.item.at);
    if landed.is_empty() {
        let why = format!(
            "nothing has landed that `{base}` does not have; `ralph report` tells of the run"
        );
        return fail(Exit::Error, why);
    }
    let made = |branch: String, commit: CommitId, title: String, body: String| {
        // The same files were pushed before, as other commits.
        let (commit, is_pushed) = match known(&branch)? {
            Some(there) if repo.differing(Some(&there), &commit)?.is_empty() => (there, true),
            _ => (commit, false),
        };
        let body = whole_lines(&workspace.all_secrets().text(&body));
        let title = shortened(&title);
        anyhow::Ok(PullRequest { branch, commit, base: base.clone(), title, body, is_pushed })
    };
    if options.per == PerPart::Run {
        let own = (onto != base).then(|| onto.clone());
        let branch = own.unwrap_or_else(|| format!("ralph/run-{run_id}"));
        let title = title_of(&landed);
        let items = landed.into_iter().map(|it| it.item).collect();
        return Ok(vec![made(branch, tip, title, body_of_run(report, items))?]);
    }
    let start = start.with_context(|| format!("there is no other branch `{base}`"))?;
    let (mut requests, mut first) = (Vec::new(), None);
    for (name, members) in parts(editor, &landed, options.per)? {
        let commit = match alone(editor, (&base, &start), &members) {
            Ok(commit) => commit,
            Err(why) => {
                terminal::say(&visible(&format!("left out: {why:#}")));
                first.get_or_insert(why);
                continue;
            }
        };
        let kind = if options.per == PerPart::Story { "story" } else { "task" };
        let branch = format!("ralph/{kind}-{}", branch_word(&name));
        let title = match members.as_slice() {
            [one] => one.item.title.clone(),
            several => format!("{name}: {}", counted(several.len(), "task")),
        };
        let body = members.iter().map(|it| section(it)).collect();
        requests.push(made(branch, commit, title, body)?);
    }
    match first {
        Some(why) if requests.is_empty() => Err(why),
        _ => Ok(requests),
    }
}

/// The work of each story or task, by its name, in the order in which it landed; with the work that it
/// needs, without which it is broken.
fn parts<'a>(
    editor: &TaskEditor,
    landed: &'a [Landing],
    per: PerPart,
) -> Result<BTreeMap<String, Vec<&'a Landing>>> {
    let file = editor.workspace.graph()?;
    let graph = file.graph();
    let name = |it: &Landing| {
        let story = it.story.clone().filter(|_| per == PerPart::Story);
        story.unwrap_or_else(|| it.item.task_id.to_string())
    };
    let mut parts = BTreeMap::new();
    for part in landed.iter().map(name).collect::<BTreeSet<_>>() {
        let own = landed.iter().filter(|it| name(it) == part);
        let mut open: Vec<usize> = own.filter_map(|it| graph.number(&it.item.task_id)).collect();
        let mut needed = BTreeSet::new();
        while let Some(number) = open.pop() {
            if needed.insert(number) {
                open.extend(graph.dependencies(number));
            }
        }
        let is_needed =
            |it: &&Landing| graph.number(&it.item.task_id).is_some_and(|at| needed.contains(&at));
        parts.insert(part, landed.iter().filter(is_needed).collect());
    }
    Ok(parts)
}

/// Makes the commits of some work alone, on top of a commit of the base.
fn alone(
    editor: &TaskEditor,
    (base, start): (&str, &CommitId),
    members: &[&Landing],
) -> Result<CommitId> {
    let workspace = &editor.workspace;
    let own: Vec<String> = workspace.graph_in_git().into_iter().collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let mut commit = start.clone();
    for Landing { item, .. } in members {
        let change = (item.before.as_str(), item.last.as_str());
        let message = format!("{}\n\nRalph-Task: {}\n", item.title, item.task_id);
        match workspace.repo.landings().apply_change(&commit, change, &own, &message)? {
            AppliedChange::Done(made) => commit = made,
            AppliedChange::Nothing => {}
            AppliedChange::Conflict { paths, .. } => {
                let why = format!(
                    "the work of `{}` does not fit on `{base}` alone: it changes the same lines of {} \
                     as work before it; `--per run` has all of it",
                    item.task_id,
                    few(paths, NAMED)
                );
                return fail(Exit::Error, why);
            }
        }
    }
    Ok(commit)
}

/// A name as a part of the name of a branch.
fn branch_word(name: &str) -> String {
    let word: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    word.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The lines of a text that fit into [`BODY`], and that more is left out.
fn whole_lines(body: &str) -> String {
    if body.chars().count() <= BODY {
        return body.to_owned();
    }
    let mut size = 0;
    let kept = body.split_inclusive('\n').take_while(|line| {
        size += line.chars().count();
        size <= BODY
    });
    kept.collect::<String>() + "\n(The rest is left out: `ralph report` has all of it.)\n"
}

fn shortened(title: &str) -> String {
    let line = title.split_whitespace().collect::<Vec<_>>().join(" ");
    terminal::fit(&line, TITLE).into_owned()
}

fn title_of(landed: &[Landing]) -> String {
    match landed {
        [] => "Work of agents".to_owned(),
        [one] => one.item.title.clone(),
        [first, more @ ..] => {
            format!("{}, and {}", first.item.title, counted(more.len(), "more task"))
        }
    }
}

/// The report of the run, and what deserves a look.
fn body_of_run(report: &RunReport, items: Vec<ReviewItem>) -> String {
    let mut body = report.markdown(Utc::now());
    let items = ReviewView::of(items).to_review;
    let is_told = |item: &&ReviewItem| !report.landed.iter().any(|it| it.id == item.task_id);
    let before: Vec<_> = items.iter().filter(is_told).collect();
    if !before.is_empty() {
        body += "\n### Landed before this run\n\n";
        for item in before {
            let _ = writeln!(body, "- **{}**: {}; {}", item.task_id, item.title, item.facts());
        }
    }
    let risky: Vec<_> = items.iter().filter(|item| !item.risks.is_empty()).collect();
    if !risky.is_empty() {
        body += "\n### What deserves a look\n\n";
        for item in risky {
            let why: Vec<&str> = item.risks.iter().map(|risk| risk.why.as_str()).collect();
            let _ = writeln!(body, "- **{}**: {}", item.task_id, why.join("; "));
        }
    }
    body
}

/// What is said about one task.
fn section(landing: &Landing) -> String {
    let item = &landing.item;
    let mut text = format!("### {}\n\n`{}`: {}\n", item.title, item.task_id, item.facts());
    if let Some(description) = &landing.description {
        let _ = writeln!(text, "\n{}", description.trim());
    }
    let green = landing.verify.iter().filter(|check| check.is_green());
    let green: Vec<String> =
        green.map(|CheckResult { command, .. }| format!("`{command}`")).collect();
    if !green.is_empty() {
        let _ = writeln!(text, "\n- passed where it landed: {}", green.join(", "));
    }
    if let Some(proof) = &item.proof {
        let _ = writeln!(text, "- {}", proof.text);
    }
    for risk in &item.risks {
        let _ = writeln!(text, "- look: {}", risk.why);
    }
    text + "\n"
}

/// Opens a pull request, or prints its text and the commands. Returns whether it is open.
fn open(
    editor: &TaskEditor,
    options: &PullRequestArgs,
    remote: Option<&Remote>,
    request: &PullRequest,
) -> Result<bool> {
    let name = format!("pull-request-{}.md", branch_word(&request.branch));
    let file = editor.workspace.state.dir().join(name);
    fs::write(&file, &request.body).with_context(|| format!("write `{}`", file.display()))?;
    let PullRequest { branch, commit, base, title, body, is_pushed } = request;
    let forge = remote.map(|remote| Forge::of(&remote.url));
    let words = forge.map(|forge| forge.create(request, &file, options.draft));
    let push = remote.map(|it| format!("git push {} {commit}:refs/heads/{branch}", it.name));
    let can_open = forge.is_some_and(Forge::is_here);
    let mut is_pushed = *is_pushed;
    if let (Some(remote), Some(forge), true) = (remote, forge, options.push && !can_open) {
        if !is_pushed {
            editor.workspace.repo.landings().push(&remote.name, commit, branch)?;
        }
        is_pushed = true;
        terminal::say(&format!(
            "`{branch}` is pushed; `{}` is not here to open it",
            forge.program()
        ));
    }
    let mut is_wanted = can_open && options.push;
    if !is_wanted {
        terminal::print(&format!(
            "{}\n\n{}\n",
            visible(title),
            terminal::visible_lines(body).trim_end()
        ))?;
        let steps = push.iter().filter(|_| !is_pushed).cloned();
        let call = words
            .iter()
            .map(|words| words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" "));
        let steps: Vec<String> = steps.chain(call).collect();
        if steps.is_empty() {
            terminal::say("there is no remote repository; `git remote add origin URL` names one");
        } else {
            terminal::say(&format!("to open it for `{base}`:\n  {}", visible_steps(&steps)));
        }
        let push = format!("Push `{branch}` and open it?");
        let question = if is_pushed { "Open it?".to_owned() } else { push };
        is_wanted = can_open
            && terminal::can_ask()
            && Wizard::of_listener().is_wanted(&visible(&question), false)?;
    }
    let (Some(remote), Some(forge), Some(words), true) = (remote, forge, words, is_wanted) else {
        return Ok(false);
    };
    if !is_pushed {
        editor.workspace.repo.landings().push(&remote.name, commit, branch)?;
    }
    let root = editor.workspace.root();
    // A second run on one branch finds the request of the first: it has the new commits by the push.
    if succeeds(&words, root)? || succeeds(&forge.update(request, &file), root)? {
        return Ok(true);
    }
    Err(anyhow!("`{}` did not open it; `{branch}` is pushed", forge.program()))
}

/// Whether a program, which says itself what is wrong, succeeds.
fn succeeds(words: &[String], dir: &Path) -> Result<bool> {
    let (program, arguments) = words.split_first().context("a command has a program")?;
    let status = Command::new(program).args(arguments).current_dir(dir).status();
    Ok(status.with_context(|| format!("start `{program}`"))?.success())
}

fn visible_steps(steps: &[String]) -> String {
    steps.iter().map(|step| visible(step).into_owned()).collect::<Vec<_>>().join("\n  ")
}

/// Where pull requests are opened.
#[derive(Clone, Copy, Debug)]
enum Forge {
    /// With `gh`.
    Github,
    /// With `glab`.
    Gitlab,
}

impl Forge {
    /// A host of another name is what the installed program is for.
    fn of(url: &str) -> Forge {
        let is_gitlab = url.contains("gitlab")
            || (!url.contains("github") && Forge::Gitlab.is_here() && !Forge::Github.is_here());
        if is_gitlab { Forge::Gitlab } else { Forge::Github }
    }

    fn program(self) -> &'static str {
        match self {
            Forge::Github => "gh",
            Forge::Gitlab => "glab",
        }
    }

    fn is_here(self) -> bool {
        process::resolve(self.program(), &PathBuf::from("/")).is_ok()
    }

    /// The command that opens a pull request whose text is in a file.
    fn create(self, request: &PullRequest, file: &Path, is_draft: bool) -> Vec<String> {
        let PullRequest { branch, base, title, .. } = request;
        let head = match self {
            Forge::Github => ["gh", "pr", "create", "--base", base, "--head", branch],
            Forge::Gitlab => {
                ["glab", "mr", "create", "--target-branch", base, "--source-branch", branch]
            }
        };
        let draft = is_draft.then_some("--draft");
        let own = head.into_iter().chain(["--title", title]).chain(draft);
        own.map(str::to_owned).chain(self.text(request, file)).collect()
    }

    /// The command that writes the text of the one that is already open for the branch.
    fn update(self, request: &PullRequest, file: &Path) -> Vec<String> {
        let head = match self {
            Forge::Github => ["gh", "pr", "edit", &request.branch],
            Forge::Gitlab => ["glab", "mr", "update", &request.branch],
        };
        head.map(str::to_owned).into_iter().chain(self.text(request, file)).collect()
    }

    fn text(self, request: &PullRequest, file: &Path) -> Vec<String> {
        match self {
            Forge::Github => vec!["--body-file".to_owned(), file.display().to_string()],
            Forge::Gitlab => ["--description", &request.body, "--yes"].map(str::to_owned).into(),
        }
    }
}
