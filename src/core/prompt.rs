//! Prompts: a template rendered with the facts of one attempt.
//!
//! The only user of minijinja. The caller supplies templates and facts. Values are never evaluated
//! as templates, so the text of a task cannot escape its fence.

pub mod template;

use std::{collections::BTreeMap, fmt::Write as _};

use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value as Rendered};
use serde_json::{Map, Value, json};

use crate::{
    diagnostic::{Diagnostic, nearest},
    event::{Answer, AttemptResult, TipRed},
    graph::{TaskGraph, load::fields, task::Task},
    history::{History, Reopened},
    proof::{Proof, ProofReason},
    reviewer::ReviewFinding,
    verdict::{CheckResult, Commit},
};

/// The template for a project without its own.
pub const DEFAULT_TEMPLATE: &str = include_str!("../../prompts/task.md");

/// The template of the prompt of `ralph draft`, for a project without its own.
pub const DRAFT_TEMPLATE: &str = include_str!("../../prompts/draft.md");

/// The template of the prompt of a reviewer, for a project without its own.
pub const REVIEW_TEMPLATE: &str = include_str!("../../prompts/review.md");

/// The template of another prompt in a conversation, for a project without its own.
pub const FOLLOW_UP_TEMPLATE: &str = include_str!("../../prompts/follow-up.md");

/// The limit on steps of a template; the default template needs a few thousand for a large task.
const FUEL: u64 = 5_000_000;

/// The facts for a prompt that are not in the graph or the history.
#[derive(Clone, Debug, Default)]
pub struct PromptContext {
    /// The branch, if there is one.
    pub branch: Option<String>,
    /// The newest commits, newest first.
    pub commits: Vec<Commit>,
    /// The tail of the learnings file.
    pub learnings: String,
    /// The notes left by the agent of each dependency, by task id.
    pub notes: BTreeMap<String, String>,
    /// The commands that must succeed before the task is complete.
    pub verify: Vec<String>,
    /// The `path` of the task, if it is a folder.
    pub folder: Option<String>,
    /// The end of the output of the verify command that failed after the previous attempt.
    pub verify_output: String,
    /// The end of the standard error of the previous attempt, if its process failed.
    pub errors: String,
    /// The number of the new attempt.
    pub attempt: u32,
    /// The limit on attempts at the task.
    pub max_attempts: u32,
    /// The command that runs `ralph`, quoted for a shell.
    pub command: String,
    /// The file that reports completion.
    pub done_file: String,
    /// The end of the output of the check for which the task is open again.
    pub reopened_output: String,
    /// The file for a question to a person.
    pub wait_file: String,
    /// Whether the agent can only edit files that git does not ignore, so that only the graph file
    /// can report completion.
    pub edits_only: bool,
    /// The graph file, relative to the repository.
    pub graph_path: String,
    /// The learnings file, relative to the repository.
    pub learnings_path: String,
    /// The main checkout, if the attempt works in its own slot.
    pub isolated_from: Option<String>,
    /// The conflict of the previous attempt's work, as a diff.
    pub conflict: String,
}

impl PromptContext {
    /// Resolves a path in the main checkout for the agent.
    fn path(&self, path: &str) -> String {
        match &self.isolated_from {
            Some(root) => format!("{root}/{path}"),
            None => path.to_owned(),
        }
    }

    /// The paths that a template can name.
    fn paths(&self) -> Value {
        let (graph, learnings) = (&self.graph_path, &self.learnings_path);
        json!({ "graph": graph, "learnings": learnings, "folder": self.folder })
    }
}

/// The values that a template can use.
pub fn context(
    graph: &TaskGraph,
    history: &History,
    number: usize,
    facts: &PromptContext,
) -> Value {
    let task = graph.task(number);
    let past = history.of(&task.id);
    let dependencies: Vec<Value> = graph
        .dependencies(number)
        .map(|d| {
            let mut fields = fields::in_templates(graph.task(d));
            let id = &graph.task(d).id;
            fields.insert("commits".to_owned(), json!(history.of(id).commits));
            fields.insert("notes".to_owned(), json!(facts.notes.get(id.as_str())));
            Value::Object(fields)
        })
        .collect();
    let dependents: Vec<Value> = graph
        .dependents(number)
        .map(|d| Value::Object(fields::in_templates(graph.task(d))))
        .collect();
    let last = past.last.as_ref().map(|last| {
        json!({
            "verdict": last.ended.verdict,
            "why": last.ended.why,
            "commits": last.ended.evidence.commits,
            "diff": last.ended.evidence.diff,
            "leftovers": last.ended.evidence.leftovers,
            "last_line": last.ended.last_line,
            "errors": facts.errors,
            "pinned": last.ended.pinned,
            "others": last.ended.evidence.others,
            "graph_fault": last.ended.evidence.graph_fault,
            "merge": last.ended.evidence.merge,
            "conflict": facts.conflict,
            "findings": last.ended.evidence.review.as_ref().map(|review| {
                review.findings.iter().map(ReviewFinding::line).collect::<Vec<_>>()
            }),
            "verify": last.ended.evidence.red().map(|check| json!({
                "command": check.command,
                "why": check.outcome.to_string(),
                "output": facts.verify_output,
                "log": facts.path(&check.log),
            })),
            "proof": past.proof.as_deref().map(|proof| weak_proof(proof, &last.ended)),
            "question": last.ended.evidence.question,
            "log": facts.path(&last.ended.log),
        })
    });
    json!({
        "task": fields::in_templates(task),
        "summary": summary(task),
        "story": entry(&graph.project, "stories", task.story.as_deref()),
        "milestone": entry(&graph.project, "milestones", task.milestone.as_deref()),
        "dependencies": dependencies,
        "dependents": dependents,
        "project": graph.project,
        "attempt": {
            "number": facts.attempt,
            "counted": past.counted,
            "max": facts.max_attempts,
            "apart": facts.isolated_from.is_some(),
            "last": last,
            "taken_back": past.taken_back,
        },
        "reopened": past.reopening().map(|reopened| reopening(reopened, facts)),
        "answers": past.answers,
        "verify": facts.verify,
        "repository": { "branch": facts.branch, "commits": facts.commits },
        "learnings": facts.learnings,
        "report": {
            "command": facts.command,
            "done_file": facts.done_file,
            "wait_file": facts.wait_file,
            "by_edit": facts.edits_only,
        },
        "paths": facts.paths(),
    })
}

/// Why a task is open again.
fn reopening(reopened: &Reopened, facts: &PromptContext) -> Value {
    let TipRed { branch, check, broken_by, broken_by_task, .. } = &reopened.red;
    json!({
        "command": check.command,
        "why": check.outcome.to_string(),
        "branch": branch,
        "commit": broken_by,
        "task": broken_by_task,
        "output": facts.reopened_output,
        "log": facts.path(&check.log),
    })
}

/// The entry of a top-level list (`stories`, `milestones`) with this id.
fn entry<'a>(project: &'a Map<String, Value>, list: &str, id: Option<&str>) -> Option<&'a Value> {
    let id = id?;
    project.get(list)?.as_array()?.iter().find(|entry| entry["id"] == id)
}

/// A rendering error: the template, its text, and the diagnostic.
#[derive(Clone, Debug)]
pub struct Unrenderable {
    /// The template's name, under `prompts/`.
    pub name: String,
    /// Its text; empty if it is not available.
    pub source: String,
    /// The diagnostic.
    pub diagnostic: Diagnostic,
}

/// Renders the template `name`; `find` returns the text of a template by name.
///
/// # Errors
/// The diagnostic with its location in the template.
pub fn render(
    name: &str,
    find: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    context: &Value,
) -> Result<String, Box<Unrenderable>> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_debug(true);
    environment.set_fuel(Some(FUEL));
    environment.set_loader(move |name| Ok(find(name)));
    environment.add_filter("fenced", |text: String| fenced(&text));
    environment.add_filter("code", |text: String| code(&text));
    environment.add_filter("list_of", list_of);
    let rendered = environment
        .get_template(name)
        .and_then(|template| template.render(minijinja::value::Serde(context)))
        .map_err(|error| Box::new(unrenderable(name, &error, context)))?;
    let reject = |message: &str| {
        Err(Box::new(Unrenderable {
            name: name.to_owned(),
            source: String::new(),
            diagnostic: Diagnostic::error(message, 0..0),
        }))
    };
    match rendered.trim_start().chars().next() {
        None => reject("the rendered prompt is empty"),
        Some('/') => reject(
            "the rendered prompt starts with `/`, which agents read as a command; start it with a \
             word or a heading",
        ),
        Some(_) => Ok(rendered.trim_end().to_owned() + "\n"),
    }
}

/// Puts a text in a fence longer than any of its runs of backticks.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

/// The text appended to the prompt of a plain loop: what its agent could not know otherwise.
#[derive(Clone, Debug, Default)]
pub struct PromptAppendix<'a> {
    /// The answers of people.
    pub answers: &'a [Answer],
    /// The ref of the work that an isolated iteration continues.
    pub left: Option<&'a str>,
    /// The paths of the conflict that kept the work from landing, with the conflict.
    pub conflict: Option<(&'a [String], String)>,
    /// The verify command that failed after the previous iteration, with the end of its output.
    pub red: Option<(&'a CheckResult, String)>,
}

/// Formats the text to append.
pub fn appendix(more: &PromptAppendix<'_>) -> String {
    let PromptAppendix { answers, left, conflict, red } = more;
    let mut text = String::new();
    if let Some(left) = left {
        let _ = write!(
            text,
            "\n## Where you stand\n\nYour branch continues the work of the agents before you. If you \
             do not find it, it conflicted with what has landed since: look at it with \
             `git log -p {left}` and reuse what is good.\n"
        );
    }
    if let Some((paths, diff)) = conflict {
        let paths: Vec<String> = paths.iter().map(|path| code(path)).collect();
        let _ = write!(
            text,
            "\n## Not landed yet\n\nThe work is done but could not land, because other work changed \
             the same lines of {}. That work is in your branch now; keep it. Where your files \
             have lines that begin with `<<<<<<<` and `>>>>>>>`, they have both sides: make of these \
             what does both, remove the marks, and commit. The conflict:\n\n{}\n",
            paths.join(", "),
            fenced(diff)
        );
    }
    if !answers.is_empty() {
        text += "\n## What a person answered\n\nA person answered earlier agents, or left a note; \
                 it still applies.\n";
    }
    for Answer { question, answer } in *answers {
        let heading = if question.is_empty() {
            "Told"
        } else {
            let _ = write!(text, "\nAsked:\n\n{}\n", fenced(question));
            "Answered"
        };
        let _ = write!(text, "\n{heading}:\n\n{}\n", fenced(answer));
    }
    if let Some((check, output)) = red {
        let CheckResult { command, outcome, log, .. } = check;
        let _ = write!(
            text,
            "\n## Not done yet\n\nThe agent before you reported completion. This command then \
             failed ({outcome}):\n\n{}\n\nThe end of its output; the full output is in \
             `{log}`:\n\n{}\n",
            fenced(command),
            fenced(output)
        );
    }
    text
}

/// Formats a text on one line, as a code span that its backticks cannot end.
fn code(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// The title, the description and all other fields of the task as plain text.
fn summary(task: &Task) -> String {
    let mut text = task.title.clone();
    if let Some(description) = &task.description {
        text = format!("{text}\n\n{}", description.trim_end());
    }
    let shown_elsewhere = ["path", "output", "verify"];
    let mut fields: Vec<String> = task
        .extra
        .iter()
        .filter(|(name, value)| !shown_elsewhere.contains(&name.as_str()) && !value.is_null())
        .map(|(name, value)| match value.as_str() {
            Some(value) => format!("{name}: {}", value.trim_end()),
            None => format!("{name}: {value}"),
        })
        .collect();
    for (name, value) in [("story", &task.story), ("milestone", &task.milestone)] {
        fields.extend(value.iter().map(|value| format!("{name}: {value}")));
    }
    if !task.tags.is_empty() {
        fields.push(format!("tags: {}", task.tags.join(", ")));
    }
    if fields.is_empty() { text } else { format!("{text}\n\n{}", fields.join("\n")) }
}

/// Converts to a list: `output` is either a list or a text with commas.
fn list_of(value: &Rendered) -> Vec<String> {
    match (value.as_str(), value.try_iter()) {
        (None, Ok(items)) => items.map(|item| item.to_string()).collect(),
        _ => value.to_string().split(',').map(|item| item.trim().to_owned()).collect(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of minijinja is not exhaustive")]
fn unrenderable(name: &str, error: &minijinja::Error, context: &Value) -> Unrenderable {
    let source = error.template_source().unwrap_or_default().to_owned();
    let at = error.range().filter(|range| source.get(range.clone()).is_some()).unwrap_or(0..0);
    let name = error.name().unwrap_or(name).to_owned();
    let diagnostic = match error.kind() {
        ErrorKind::UndefinedError => undefined(&source, at, context),
        ErrorKind::TemplateNotFound => Diagnostic::error(
            error.detail().map_or_else(|| format!("no template `{name}`"), str::to_owned),
            at,
        ),
        ErrorKind::OutOfFuel => Diagnostic::error("the template exceeds the step limit", at),
        kind => {
            Diagnostic::error(error.detail().map_or_else(|| kind.to_string(), str::to_owned), at)
        }
    };
    Unrenderable { name, source, diagnostic }
}

/// Names the undefined variable, which minijinja does not, and suggests a similar one.
fn undefined(source: &str, at: std::ops::Range<usize>, context: &Value) -> Diagnostic {
    let expression = source[at.clone()].trim_matches(|c: char| "{}%-+ ".contains(c));
    let path: Vec<&str> = expression
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
        .next()
        .unwrap_or_default()
        .split('.')
        .collect();
    let mut scope = context;
    for (depth, part) in path.iter().enumerate() {
        match scope.get(part) {
            Some(inner) => scope = inner,
            None if depth == 0 || scope.is_object() => {
                let known = scope.as_object().into_iter().flat_map(|map| map.keys());
                let near = nearest(part, known.map(String::as_str));
                let fixed = near.map(|word| {
                    path[..depth].iter().chain([&word]).copied().collect::<Vec<_>>().join(".")
                });
                let whole = path[..=depth].join(".");
                return Diagnostic::error(format!("`{whole}` is not defined"), at)
                    .did_you_mean(fixed.as_deref());
            }
            None => break,
        }
    }
    Diagnostic::error(format!("`{expression}` is not defined"), at)
}

/// The last `limit` bytes of a text, from the start of a line.
pub fn tail(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let from = (text.len() - limit..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .expect("the end is a char boundary");
    text[from..].find('\n').map_or("", |newline| &text[from + newline + 1..])
}

/// What a proof lacks; nothing of one that is good.
fn weak_proof(proof: &Proof, ended: &AttemptResult) -> Option<Value> {
    let commands = ended.evidence.verify.iter().map(|check| &check.command).collect::<Vec<_>>();
    let is_weaker = matches!(proof.reason, ProofReason::NoticesLess { .. });
    let reason = proof.to_string();
    let facts = json!({ "reason": reason, "commands": commands, "is_weaker": is_weaker });
    (!proof.is_good()).then_some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{end, record, task};
    use crate::{event::Event, verdict::Verdict};

    fn facts() -> PromptContext {
        PromptContext {
            branch: Some("main".to_owned()),
            commits: vec![Commit {
                id: "0123456789abcdef".into(),
                subject: "Begin the `x`".to_owned(),
            }],
            learnings: "- the tests need `--all`\n".to_owned(),
            verify: vec!["cargo test".to_owned()],
            attempt: 2,
            max_attempts: 3,
            command: "ralph".to_owned(),
            done_file: ".ralph/tasks/t1/DONE".to_owned(),
            reopened_output: String::new(),
            wait_file: ".ralph/tasks/t1/WAIT_WITHOUT_RESTART".to_owned(),
            graph_path: "task-graph.yaml".to_owned(),
            learnings_path: "docs/knowledge/learnings.md".to_owned(),
            ..PromptContext::default()
        }
    }

    fn context_of(change: impl FnOnce(&mut Task)) -> Value {
        let mut tasks = vec![task("t0"), task("t1"), task("t2")];
        change(&mut tasks[1]);
        let graph = TaskGraph::new(tasks, vec![(0, 1), (1, 2)]).unwrap();
        let mut history = History::default();
        let mut ended = end(1, Verdict::Unverified);
        ended.why = "reported done, but nothing changed in git".to_owned();
        ended.evidence.leftovers = vec!["src/half.rs".to_owned()];
        history.apply(&record("t1", 1, Event::Ended(ended)));
        context(&graph, &history, 1, &facts())
    }

    fn render_text(template: &str, context: &Value) -> Result<String, Box<Unrenderable>> {
        let template = template.to_owned();
        render("task.md", move |name| (name == "task.md").then(|| template.clone()), context)
    }

    #[test]
    fn the_default_template_has_all_facts() {
        let context = context_of(|task| {
            task.description = Some("Write it.\n```\ncode\n```\n{{ task.id }}".to_owned());
            task.extra.insert("reviewer".to_owned(), json!("ann"));
            task.extra.insert("output".to_owned(), json!("a.txt, b.txt"));
        });
        let prompt = render_text(DEFAULT_TEMPLATE, &context).unwrap();
        for needed in [
            "# Task t1\n",
            "````text\nt1\n\nWrite it.\n```\ncode\n```\n{{ task.id }}\n\nreviewer: ann\n````",
            "It must produce: `a.txt`, `b.txt`.",
            "- `t0` (pending): `t0`",
            "Do not do them: `t2`.",
            "attempt 2 at the task; 1 of 3 have failed.",
            "judged **unverified**: reported done, but nothing changed in git.",
            "- `src/half.rs`",
            "  - `0123456789` `` Begin the `x` ``",
            "- the tests need `--all`",
            "ralph task-complete t1",
            "create the file `.ralph/tasks/t1/DONE`",
            "itself:\n\n- `cargo test`\n\nThe task is complete only if all of them pass",
        ] {
            assert!(prompt.contains(needed), "{needed:?} is not in:\n{prompt}");
        }
        assert!(!prompt.contains("\n\n\n"), "{prompt}");
    }

    #[test]
    fn a_misspelled_name_is_reported_with_its_location() {
        let error = render_text("Do\n{{ task.titel }}\n", &context_of(|_| {})).unwrap_err();
        assert_eq!(error.diagnostic.message, "`task.titel` is not defined");
        assert_eq!(error.diagnostic.help.as_deref(), Some("did you mean `task.title`?"));
        assert_eq!(&error.source[error.diagnostic.at.clone()], "task.titel");

        let error = render_text("{{ tsk.id }}", &context_of(|_| {})).unwrap_err();
        assert_eq!(error.diagnostic.help.as_deref(), Some("did you mean `task`?"));
        let error = render_text("x {% if %}", &context_of(|_| {})).unwrap_err();
        assert!(!error.source.is_empty());
    }

    #[test]
    fn invalid_templates_and_prompts_are_rejected() {
        let context = context_of(|_| {});
        for (template, message) in [
            (
                "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
                "step limit",
            ),
            ("  \n", "empty"),
            ("/clear", "starts with `/`"),
            ("{% include 'missing.md' %}", "missing.md"),
        ] {
            let error = render_text(template, &context).unwrap_err();
            assert!(error.diagnostic.message.contains(message), "{:?}", error.diagnostic);
        }
    }

    #[test]
    fn the_tail_starts_at_a_line() {
        assert_eq!(tail("one\ntwo\nthree\n", 9), "three\n");
        assert_eq!(tail("one\n", 100), "one\n");
        assert_eq!(tail("ééééé\nab\n", 6), "ab\n");
    }
}
