//! The prompt of one attempt: a template and what it may refer to.
//!
//! The only user of minijinja. Pure: templates and facts come in as text and values. Values are
//! never evaluated as templates, so that a task's text cannot reach beyond its fence.

pub mod template;

use std::{collections::BTreeMap, fmt::Write as _};

use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value as Rendered};
use serde_json::{Map, Value, json};

use crate::core::{
    diagnostic::{Diagnostic, nearest},
    event::Answer,
    graph::{TaskGraph, task::Task},
    history::History,
    verdict::{CheckResult, Commit},
};

/// The template that is used where a project has none of its own.
pub const DEFAULT_TEMPLATE: &str = include_str!("../../prompts/task.md");

/// The steps a template may take before it is stopped; the default template on a large task takes
/// a few thousand.
const FUEL: u64 = 5_000_000;

/// What is known beside the graph and the past.
#[derive(Clone, Debug, Default)]
pub struct PromptContext {
    /// The branch, if there is one.
    pub branch: Option<String>,
    /// The newest commits, newest first.
    pub commits: Vec<Commit>,
    /// The tail of the learnings file.
    pub learnings: String,
    /// The notes that each dependency's agent left, by task id.
    pub notes: BTreeMap<String, String>,
    /// The commands that must succeed before the task is complete.
    pub verify: Vec<String>,
    /// The end of what the one printed that did not succeed after the attempt before.
    pub verify_output: String,
    /// The number of the attempt to come.
    pub attempt: u32,
    /// How many attempts the task has.
    pub max_attempts: u32,
    /// The command that runs `ralph`, quoted for a shell.
    pub command: String,
    /// The file that says done.
    pub done_file: String,
    /// The file that asks a person.
    pub wait_file: String,
    /// The graph file, relative to the repository.
    pub graph_path: String,
    /// The learnings file, relative to the repository.
    pub learnings_path: String,
    /// The checkout that people work in, where the attempt has a work tree to itself.
    pub apart_from: Option<String>,
    /// What the work of the attempt before was in conflict with, as a diff.
    pub conflict: String,
}

impl PromptContext {
    /// A path relative to the checkout that people work in, as the agent finds it.
    fn path(&self, path: &str) -> String {
        match &self.apart_from {
            Some(root) => format!("{root}/{path}"),
            None => path.to_owned(),
        }
    }
}

/// Everything a template can name.
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
            let mut fields = fields_of(graph.task(d));
            let id = &graph.task(d).id;
            fields.insert("commits".to_owned(), json!(history.of(id).commits));
            fields.insert("notes".to_owned(), json!(facts.notes.get(id.as_str())));
            Value::Object(fields)
        })
        .collect();
    let dependents: Vec<Value> =
        graph.dependents(number).map(|d| Value::Object(fields_of(graph.task(d)))).collect();
    let last = past.last.as_ref().map(|last| {
        json!({
            "verdict": last.ended.verdict,
            "why": last.ended.why,
            "commits": last.ended.evidence.commits,
            "diff": last.ended.evidence.diff,
            "leftovers": last.ended.evidence.leftovers,
            "last_line": last.ended.last_line,
            "pinned": last.ended.pinned,
            "merge": last.ended.evidence.merge,
            "conflict": facts.conflict,
            "verify": last.ended.evidence.red().map(|check| json!({
                "command": check.command,
                "why": check.outcome.to_string(),
                "output": facts.verify_output,
                "log": facts.path(&check.log),
            })),
            "question": last.ended.evidence.question,
            "log": facts.path(&last.ended.log),
        })
    });
    json!({
        "task": fields_of(task),
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
            "apart": facts.apart_from.is_some(),
            "last": last,
        },
        "answers": past.answers,
        "verify": facts.verify,
        "repository": { "branch": facts.branch, "commits": facts.commits },
        "learnings": facts.learnings,
        "report": {
            "command": facts.command,
            "done_file": facts.done_file,
            "wait_file": facts.wait_file,
        },
        "paths": { "graph": facts.graph_path, "learnings": facts.learnings_path },
    })
}

/// A task's fields by their names in the file, unknown ones included, absent known ones as null.
fn fields_of(task: &Task) -> Map<String, Value> {
    let mut fields = task.extra.clone();
    for absent in ["path", "output", "verify"] {
        fields.entry(absent).or_insert(Value::Null);
    }
    let known = json!({
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "priority": task.priority,
        "status": task.status,
        "story": task.story,
        "milestone": task.milestone,
        "tags": task.tags,
    });
    if let Value::Object(known) = known {
        fields.extend(known);
    }
    fields
}

/// The entry of a top-level list (`stories`, `milestones`) with this id.
fn entry<'a>(project: &'a Map<String, Value>, list: &str, id: Option<&str>) -> Option<&'a Value> {
    let id = id?;
    project.get(list)?.as_array()?.iter().find(|entry| entry["id"] == id)
}

/// A template that could not be rendered: which one, its text, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Unrenderable {
    /// The template's name, under `prompts/`.
    pub name: String,
    /// Its text; empty if it could not be had.
    pub source: String,
    /// The fault.
    pub diagnostic: Diagnostic,
}

/// Renders the template `name`; `find` gives the text of a template by name.
///
/// # Errors
/// What is wrong, with its place in the template.
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
    let refuse = |message: &str| {
        Err(Box::new(Unrenderable {
            name: name.to_owned(),
            source: String::new(),
            diagnostic: Diagnostic::error(message, 0..0),
        }))
    };
    match rendered.trim_start().chars().next() {
        None => refuse("the rendered prompt is empty"),
        Some('/') => refuse(
            "the rendered prompt starts with `/`, which agents take for a command; start it with a \
             word or a heading",
        ),
        Some(_) => Ok(rendered.trim_end().to_owned() + "\n"),
    }
}

/// The text in a fence longer than any run of backticks in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

/// What is appended to the prompt of a plain loop: what people answered, and the verify command
/// that did not succeed after the iteration before, with the end of what it printed.
pub fn appendix(answers: &[Answer], red: Option<(&CheckResult, &str)>) -> String {
    let mut text = String::new();
    if !answers.is_empty() {
        text +=
            "\n## What a person answered\n\nAgents before you asked this, and the answers hold.\n";
    }
    for Answer { question, answer } in answers {
        let question =
            if question.is_empty() { "(it waited without a question)" } else { question };
        let _ = write!(text, "\nAsked:\n\n{}\n", fenced(question));
        let _ = write!(text, "\nAnswered:\n\n{}\n", fenced(answer));
    }
    if let Some((check, output)) = red {
        let CheckResult { command, outcome, log, .. } = check;
        let _ = write!(
            text,
            "\n## Not done yet\n\nThe agent before you said that all is done. This command was run \
             then, and did not succeed ({outcome}):\n\n{}\n\nThe end of what it printed; all of it is \
             in `{log}`:\n\n{}\n",
            fenced(command),
            fenced(output)
        );
    }
    text
}

/// The text on one line, as a code span that its own backticks cannot end.
fn code(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// Title, description and every other field that the file gave, as plain text.
fn summary(task: &Task) -> String {
    let mut text = task.title.clone();
    if let Some(description) = &task.description {
        text = format!("{text}\n\n{}", description.trim_end());
    }
    let told = ["path", "output", "verify", "verify_baseline"];
    let mut fields: Vec<String> = task
        .extra
        .iter()
        .filter(|(name, value)| !told.contains(&name.as_str()) && !value.is_null())
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

/// A list as it is, a text as a list split at its commas: `output` is written both ways.
fn list_of(value: &Rendered) -> Vec<String> {
    match (value.as_str(), value.try_iter()) {
        (None, Ok(items)) => items.map(|item| item.to_string()).collect(),
        _ => value.to_string().split(',').map(|item| item.trim().to_owned()).collect(),
    }
}

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
        ErrorKind::OutOfFuel => Diagnostic::error("the template does not come to an end", at),
        kind => {
            Diagnostic::error(error.detail().map_or_else(|| kind.to_string(), str::to_owned), at)
        }
    };
    Unrenderable { name, source, diagnostic }
}

/// Names what is undefined, which minijinja does not, and what may have been meant.
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
        .expect("the end is a boundary");
    text[from..].find('\n').map_or("", |newline| &text[from + newline + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        event::Event,
        graph::tests as graphs,
        history::tests::{end, record},
        verdict::Verdict,
    };

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
            wait_file: ".ralph/tasks/t1/WAIT_WITHOUT_RESTART".to_owned(),
            graph_path: "task-graph.yaml".to_owned(),
            learnings_path: "docs/knowledge/learnings.md".to_owned(),
            ..PromptContext::default()
        }
    }

    fn context_of(change: impl FnOnce(&mut Task)) -> Value {
        let mut tasks = vec![graphs::task("t0"), graphs::task("t1"), graphs::task("t2")];
        change(&mut tasks[1]);
        let graph = TaskGraph::new(tasks, vec![(0, 1), (1, 2)]).unwrap();
        let mut history = History::default();
        let mut ended = end(1, Verdict::Unverified);
        ended.why = "reported done, but nothing changed in git".to_owned();
        ended.evidence.leftovers = vec!["src/half.rs".to_owned()];
        history.apply(&record("t1", 1, Event::Failed(ended)));
        context(&graph, &history, 1, &facts())
    }

    fn render_text(template: &str, context: &Value) -> Result<String, Box<Unrenderable>> {
        let template = template.to_owned();
        render("task.md", move |name| (name == "task.md").then(|| template.clone()), context)
    }

    #[test]
    fn the_default_template_says_what_one_context_needs() {
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
            "are not yours to do: `t2`.",
            "attempt 2 at the task; 1 of 3 have failed.",
            "judged **unverified**: reported done, but nothing changed in git.",
            "- `src/half.rs`",
            "  - `0123456789` `` Begin the `x` ``",
            "- the tests need `--all`",
            "ralph task-complete t1",
            "create the file `.ralph/tasks/t1/DONE`",
            "itself:\n\n- `cargo test`\n\nThe task is complete when all of them succeed",
        ] {
            assert!(prompt.contains(needed), "{needed:?} is not in:\n{prompt}");
        }
        assert!(!prompt.contains("\n\n\n"), "{prompt}");
    }

    #[test]
    fn a_misspelt_name_is_found_with_its_place() {
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
    fn hostile_templates_and_prompts_are_refused() {
        let context = context_of(|_| {});
        for (template, message) in [
            (
                "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
                "end",
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
