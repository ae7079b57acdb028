//! One attempt at one task, apart from its process: the record that is on disk before it starts,
//! the prompt, and the evidence it leaves.
//!
//! The same evidence is gathered for an attempt that ends before our eyes and for one that is
//! found after a crash.

pub mod leftovers;
pub mod prompt_file;
pub mod scrutiny;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Local, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::{self, Identity},
    call::Call,
    complaint, crash,
    graph::TaskGraph,
    graphfile::{GraphFile, rfc3339},
    history::History,
    obstacle::{self, Obstacle, Remains},
    output,
    prompt::{self, Facts},
    state,
    task::{CommitRule, Status, Task, TaskId},
    terminal, tmux,
    transcript::{Format, Told},
    verdict::{Evidence, Outcome, Report},
    workspace::Workspace,
};

/// The file in a task's folder that says done.
const DONE: &str = "DONE";
/// The file in a task's folder that says: waits for a person; what it asks is in it.
const WAIT: &str = "WAIT_WITHOUT_RESTART";
/// The file in a task's folder for the tasks that depend on it.
pub const NOTES: &str = "notes.md";
/// How many of the newest commits a prompt names.
const RECENT: usize = 10;
/// How much of the learnings file goes into a prompt, in bytes.
const LEARNINGS_TAIL: usize = 8 * 1024;
/// How much of a dependency's notes goes into a prompt, in bytes.
const NOTES_TAIL: usize = 4 * 1024;
/// How much of the output of a failed verify command goes into a prompt, in bytes.
const VERIFY_TAIL: usize = 6 * 1024;
/// How long a guardian has to clean up behind a dead runner before it is done for it.
const GUARDIAN: Duration = Duration::from_secs(30);
/// How much of a question is kept, in characters.
const QUESTION: usize = 2000;
/// How many leftover paths are put on record; a build folder that nobody ignored has thousands.
pub const LEFTOVERS: usize = 50;

/// What an attempt is judged by, as the task said it when it began: an agent may edit the graph, and
/// must not choose its own judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    verify: Vec<String>,
    commit: CommitRule,
    output: Option<Value>,
}

impl Terms {
    /// Those of a task as it is now.
    pub fn of(workspace: &Workspace, task: &Task) -> Terms {
        let output = task.extra.get("output").cloned();
        Terms { verify: workspace.verify_of(task), commit: task.commit, output }
    }

    /// The task with these terms.
    pub fn applied(&self, task: &Task) -> Task {
        let mut task = task.clone();
        (task.verify, task.commit) = (Some(self.verify.clone()), self.commit);
        match self.output.clone() {
            Some(output) => task.extra.insert("output".to_owned(), output),
            None => task.extra.remove("output"),
        };
        task
    }
}

/// An attempt that has no end yet, as it is kept on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// The run it belongs to.
    pub run_id: String,
    /// The task.
    pub task_id: TaskId,
    /// Its number, per task.
    pub attempt: u32,
    /// Its number in the run.
    pub iteration: u32,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The commit it started from.
    pub base: Option<String>,
    /// The branch it started on.
    pub branch: Option<String>,
    /// What was changed and not committed before it began: path -> fingerprint.
    pub dirty: BTreeMap<String, String>,
    /// Those of `dirty` that an earlier attempt at the task left: not a person's, but its own.
    #[serde(default)]
    pub inherited: BTreeSet<String>,
    /// Its folder, relative to the repository.
    pub log: String,
    /// What it is judged by.
    #[serde(default)]
    pub terms: Option<Terms>,
    /// How its agent is called.
    #[serde(default)]
    pub call: Option<Call>,
    /// The agent's process, once it has one.
    pub agent: Option<Identity>,
    /// The process that guards it.
    #[serde(default)]
    pub guardian: Option<Identity>,
    /// The folder of the terminal that its agent has, if it has one.
    #[serde(default)]
    pub pane: Option<PathBuf>,
    /// Git's lock files that were there before it began: somebody else's.
    #[serde(default)]
    pub locks: Vec<PathBuf>,
    /// Git's hooks and settings before it began, with fingerprints.
    #[serde(default)]
    pub controls: Option<BTreeMap<String, String>>,
}

impl Open {
    /// The name of its record.
    pub fn name(&self) -> String {
        format!("{}.{}", self.task_id, self.attempt)
    }

    /// As it is put on disk: without the secrets with which its agent is called.
    #[must_use]
    pub fn redacted(&self, workspace: &Workspace) -> Open {
        let mut record = self.clone();
        if let Some(secrets) = workspace.secrets() {
            record.call = record.call.map(|call| call.redacted(&secrets));
        }
        record
    }

    /// What every process of the attempt has in its environment as `RALPH_ATTEMPT_ID`.
    pub fn mark(&self) -> String {
        format!("{}.{}", self.run_id, self.name())
    }

    /// Waits for the guardian to end the tree, as it does when its runner is gone, and ends what it
    /// could not. Returns the names of those.
    pub fn end_all(&self, workspace: &Workspace) -> Vec<String> {
        let began = Instant::now();
        while self.guardian.as_ref().is_some_and(agent::is_alive) && began.elapsed() < GUARDIAN {
            thread::sleep(Duration::from_millis(2));
        }
        let record = workspace.state.attempt(&self.name());
        let entry = format!("RALPH_ATTEMPT_ID={}", self.mark());
        agent::kill_marked(Some(&entry), &record).into_iter().map(|member| member.name).collect()
    }

    /// How the agent ended, if its guardian lived to say so and the end was the agent's own.
    pub fn outcome_left(&self, workspace: &Workspace) -> Option<Outcome> {
        let text = fs::read(workspace.state.exit(&self.name())).ok()?;
        let exit: agent::guard::Exit = serde_json::from_slice(&text).ok()?;
        (!exit.alone).then_some(exit.outcome)
    }

    /// What its agent told, and what kept it from working.
    pub fn told(&self, workspace: &Workspace, outcome: &Outcome) -> (Told, Option<Obstacle>) {
        /// How much of the end of its errors is looked at, in bytes.
        const ERRORS: u64 = 4 * 1024;
        let format = self.call.as_ref().map(|call| call.output).unwrap_or_default();
        let told = output::told(&self.file(workspace, "stdout"), format);
        let stderr = output::end(&self.file(workspace, "stderr"), ERRORS);
        let remains = Remains { format, told: &told, outcome, stderr: &stderr };
        let obstacle = obstacle::classify(&remains, &Local::now());
        (told, obstacle)
    }

    /// What its agent said last: its result, or the end of its words.
    pub fn last_words(&self, workspace: &Workspace) -> String {
        let format = self.call.as_ref().map(|call| call.output).unwrap_or_default();
        let told = output::told(&self.file(workspace, "stdout"), format);
        let is_blank = |text: &String| text.trim().is_empty();
        let result = told.end.map(|end| end.text).filter(|text| !is_blank(text));
        // What is said on the way of typed output is no result.
        let words = told.message.filter(|_| matches!(format, Format::Text | Format::Aider));
        let said = result.or(words).or(told.last_line).unwrap_or_default();
        if self.pane.is_some() { terminal::plain(&said).into_owned() } else { said }
    }

    /// Removes the lock files that a git of the attempt left when it was killed, and names them
    /// for people. To be called when the whole attempt is dead: what came after its beginning is
    /// then its own, unless another git is at work here.
    pub fn unlock(&self, workspace: &Workspace) -> Vec<String> {
        let began = self.started_at.timestamp();
        let is_ours = |path: &PathBuf| {
            let modified = fs::symlink_metadata(path).map(|found| found.mtime());
            // Whole seconds: some disks know no others.
            !self.locks.contains(path) && modified.is_ok_and(|modified| modified >= began)
        };
        let locks: Vec<PathBuf> = workspace.repo.locks().into_iter().filter(is_ours).collect();
        if locks.is_empty() || agent::works_in("git", workspace.root()) {
            return Vec::new();
        }
        let removed = locks.into_iter().filter(|path| fs::remove_file(path).is_ok());
        let shown = |path: PathBuf| {
            path.strip_prefix(workspace.root()).unwrap_or(&path).display().to_string()
        };
        removed.map(shown).collect()
    }

    /// Removes what is kept of it until it is closed.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn forget(&self, workspace: &Workspace) -> Result<()> {
        if let Some(folder) = &self.pane {
            tmux::remove(folder);
        }
        workspace.state.remove_attempt(&self.name()).context("close the attempt")
    }

    /// A file in its task's folder, by which its agent says something.
    fn said(&self, workspace: &Workspace, name: &str) -> PathBuf {
        workspace.root().join(workspace.task_dir(&self.task_id)).join(name)
    }

    /// A file in its folder.
    pub fn file(&self, workspace: &Workspace, name: &str) -> PathBuf {
        workspace.root().join(&self.log).join(name)
    }
}

/// Renders the prompt of the next attempt at a task. Touches nothing.
///
/// # Errors
/// A template that cannot be rendered, drawn.
pub fn render(
    workspace: &Workspace,
    graph: &TaskGraph,
    history: &History,
    number: usize,
    max_attempts: u32,
) -> Result<String> {
    let context = context(workspace, graph, history, number, max_attempts)?;
    let name = graph.task(number).prompt.clone().unwrap_or_else(|| "task.md".to_owned());
    let root = workspace.root().to_owned();
    prompt::render(&name, move |name| Workspace::template(&root, name), &context)
        .map_err(|fault| complaint::unrenderable(&fault))
}

/// Everything the template of a task's next attempt can name.
///
/// # Errors
/// As git gives them.
pub fn context(
    workspace: &Workspace,
    graph: &TaskGraph,
    history: &History,
    number: usize,
    max_attempts: u32,
) -> Result<serde_json::Value> {
    let id = &graph.task(number).id;
    let root = workspace.root();
    let tail = |path: &Path, limit| {
        let text = fs::read(path).unwrap_or_default();
        prompt::tail(&String::from_utf8_lossy(&text), limit).trim().to_owned()
    };
    let notes = graph
        .dependencies(number)
        .map(|d| {
            let id = &graph.task(d).id;
            let path = root.join(workspace.task_dir(id)).join(NOTES);
            (id.to_string(), tail(&path, NOTES_TAIL))
        })
        .filter(|(_, notes)| !notes.is_empty())
        .collect();
    let last = history.of(id).last.as_ref();
    let red = last.and_then(|last| last.ended.evidence.red());
    let facts = Facts {
        verify: workspace.verify_of(graph.task(number)),
        verify_output: red.map_or_else(String::new, |red| tail(&root.join(&red.log), VERIFY_TAIL)),
        branch: workspace.repo.head()?.branch,
        commits: workspace.repo.recent(RECENT)?,
        learnings: tail(&root.join(workspace.learnings()), LEARNINGS_TAIL),
        notes,
        attempt: history.of(id).attempts + 1,
        max_attempts,
        command: Workspace::own_command(),
        done_file: format!("{}/{DONE}", workspace.task_dir(id)),
        wait_file: format!("{}/{WAIT}", workspace.task_dir(id)),
        graph_path: workspace.graph_name(),
        learnings_path: workspace.learnings().to_owned(),
    };
    Ok(prompt::context(graph, history, number, &facts))
}

/// Makes the attempt's folders, writes its prompt without the values of secrets, and puts the record
/// on disk: from here on a crash is found.
///
/// # Errors
/// As git or the disk gives them.
pub fn open(workspace: &Workspace, record: Open, prompt: &str) -> Result<Open> {
    let task_dir = workspace.root().join(workspace.task_dir(&record.task_id));
    fs::create_dir_all(&task_dir).with_context(|| format!("make `{}`", task_dir.display()))?;
    // What an earlier attempt reported or asked is not said by this one. A plain loop has looked for
    // `DONE` already; one that is there now is newer than that, and meant.
    for said in [DONE, WAIT].map(|name| task_dir.join(name)) {
        let is_meant = workspace.place.name().is_some() && said.ends_with(DONE);
        if said.is_file() && !is_meant {
            fs::remove_file(&said).with_context(|| format!("remove `{}`", said.display()))?;
        }
    }
    let folder = workspace.root().join(&record.log);
    fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
    let path = folder.join("prompt.md");
    let clean = workspace.secrets().map(|secrets| secrets.without_shapes().text(prompt));
    let prompt = clean.as_deref().unwrap_or(prompt);
    fs::write(&path, prompt).with_context(|| format!("write `{}`", path.display()))?;
    crash::point("start.prepared");
    let kept = record.redacted(workspace);
    workspace.state.write_attempt(&record.name(), &kept).context("record the attempt")?;
    Ok(record)
}

/// The record of an attempt that is about to begin.
///
/// # Errors
/// As git gives them.
pub fn begin(
    workspace: &Workspace,
    run_id: &str,
    iteration: u32,
    id: &TaskId,
    attempt: u32,
) -> Result<Open> {
    let head = workspace.repo.head()?;
    let dirty = changed(workspace)?;
    let inherited = leftovers::inherited(workspace, id, attempt, &dirty)?;
    Ok(Open {
        run_id: run_id.to_owned(),
        task_id: id.clone(),
        attempt,
        iteration,
        started_at: Utc::now(),
        base: head.commit,
        branch: head.branch,
        dirty,
        inherited,
        log: workspace.place.attempt(id, attempt),
        terms: None,
        call: None,
        agent: None,
        guardian: None,
        pane: None,
        locks: workspace.repo.locks(),
        controls: Some(workspace.repo.controls()),
    })
}

/// The graph to go on with. Where the file cannot be read and an attempt that was cut off may have
/// done that, it is the one this attempt began with: closing the attempt puts it back.
///
/// # Errors
/// What is wrong with the file, drawn, with its exit code.
pub fn graph(workspace: &Workspace) -> Result<GraphFile> {
    let error = match workspace.graph() {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    let kept = workspace.kept_graph().filter(|file| {
        // The copy is of this attempt only if its claim is in it: the run may have been killed
        // before there was one.
        let claimed = |record: &Open| {
            let task = file.graph().number(&record.task_id).map(|n| file.graph().task(n));
            let at = task.and_then(|task| task.claimed_at.as_deref());
            at == Some(&rfc3339(record.started_at))
        };
        workspace.state.peek::<Open>().iter().any(claimed)
    });
    kept.ok_or(error)
}

/// The file that says that a task is done.
pub fn done_file(workspace: &Workspace, id: &TaskId) -> PathBuf {
    workspace.root().join(workspace.task_dir(id)).join(DONE)
}

/// How the attempt said that its task is done, if it did. `by_command` is a report by
/// `ralph task-complete`, `status` what the graph file says of the task now.
pub fn report(
    workspace: &Workspace,
    record: &Open,
    by_command: bool,
    status: Option<Status>,
) -> Option<Report> {
    if by_command {
        Some(Report::Command)
    } else if record.said(workspace, DONE).is_file() {
        Some(Report::DoneFile)
    } else {
        (status == Some(Status::Complete)).then_some(Report::Graph)
    }
}

/// What the repository shows of an attempt, all its leftovers included.
///
/// # Errors
/// As git gives them.
pub fn evidence(workspace: &Workspace, record: &Open, report: Option<Report>) -> Result<Evidence> {
    let head = workspace.repo.head()?;
    let since = workspace.repo.since(record.base.as_deref())?;
    let strayed = if let Some(what) = workspace.repo.unfinished() {
        // A commit of what is left would be taken for its end.
        Some(format!("{what} is left half-way"))
    } else if head.branch != record.branch {
        let name = |branch: &Option<String>| match branch {
            Some(branch) => format!("`{branch}`"),
            None => "a detached HEAD".to_owned(),
        };
        Some(format!("it moved from {} to {}", name(&record.branch), name(&head.branch)))
    } else if !since.descends {
        Some("it rewrote the history: HEAD does not descend from where it began".to_owned())
    } else {
        None
    };
    Ok(Evidence {
        report,
        commits: since.commits,
        diff: since.diff,
        leftovers: leftovers::left(workspace, record)?,
        strayed,
        question: question(&record.said(workspace, WAIT)),
        ..Evidence::default()
    })
}

/// Puts a question to a person into the task's folder, behind those that are there.
///
/// # Errors
/// More questions than can be shown; as the disk gives them.
pub fn ask(workspace: &Workspace, id: &TaskId, text: &str) -> Result<()> {
    let folder = workspace.root().join(workspace.task_dir(id));
    let path = folder.join(WAIT);
    let asked = question(&path).filter(|asked| !asked.is_empty());
    let whole = asked.map_or_else(|| text.to_owned(), |asked| format!("{asked}\n\n{text}"));
    let length = whole.chars().count();
    ensure!(
        length <= QUESTION,
        "what an attempt asks may have {QUESTION} characters in all, and this makes {length}; put \
         the rest into a file and name it"
    );
    fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
    state::replace(&path, (whole + "\n").as_bytes(), workspace.durable())
        .with_context(|| format!("write `{}`", path.display()))
}

/// What the file in which an agent says that it waits for a person has in it; none without one.
fn question(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut text = Vec::new();
    // Four bytes are the most that a character takes. What cannot be read was written all the same.
    let file = fs::File::open(path).map(|file| file.take(4 * QUESTION as u64));
    let _ = file.and_then(|mut file| file.read_to_end(&mut text));
    Some(String::from_utf8_lossy(&text).trim().chars().take(QUESTION).collect())
}

/// What is changed and not committed, without the files that `ralph` writes itself: path ->
/// fingerprint.
///
/// # Errors
/// As git gives them.
pub fn changed(workspace: &Workspace) -> Result<BTreeMap<String, String>> {
    let mut dirty = workspace.repo.dirty()?;
    dirty.retain(|path, _| !workspace.is_own(path));
    Ok(dirty)
}
