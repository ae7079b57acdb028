//! Tasks that an agent drafted: checked, alone and within the graph that they are for, and put into
//! its text.
//!
//! The text of an agent is not trusted. It may define tasks, and nothing that a person decides: the
//! status of a task, its agent, or the defaults of all tasks.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::{
    TaskGraph,
    edit::Unsupported,
    load,
    task::TaskId,
    task_edit::{NewTask, Relink, TaskPlace, insert, relink, remove},
    yaml::{Document, Node},
};
use crate::diagnostic::{Diagnostic, Severity};

/// What drafted tasks are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DraftAim {
    /// A new graph.
    New,
    /// An addition to a graph.
    Extend,
    /// Smaller tasks in place of this one.
    Split(TaskId),
    /// Tasks for which this one waits.
    Before(TaskId),
}

/// Drafted tasks in their place.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftedTasks {
    /// Their ids, in the order of the draft.
    pub ids: Vec<TaskId>,
    /// The text of the graph with them.
    pub text: String,
}

/// The reason why a draft cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub enum DraftRefusal {
    /// The draft has errors.
    Unfit {
        /// The text that the errors are about: the draft, or the graph with it.
        text: String,
        /// The errors.
        faults: Vec<Diagnostic>,
    },
    /// The layout of the graph file does not allow the edit, whatever the draft contains.
    Layout(Unsupported),
}

/// Why a draft must not set a limit.
const LIMIT: &str = "a person sets the limits";

/// Fields that a draft must not set, and why.
const BARRED: &[(&str, &str)] = &[
    ("status", "new tasks are pending"),
    ("claimed_at", "`ralph` writes it"),
    ("claimed_by", "`ralph` writes it"),
    ("completed_at", "`ralph` writes it"),
    ("added_by", "`ralph` writes it"),
    ("agent", "a person chooses the agents"),
    ("escalate", "a person chooses the agents"),
    ("prompt", "a person chooses the prompts"),
    ("allow", "a person decides which remarks do not apply"),
    ("commit", "a person decides which tasks need none"),
    ("proof", "a person decides what must be proved"),
    ("verify_only", "a person decides which checks of the project do not run"),
    ("max_attempts", LIMIT),
    ("candidates", LIMIT),
    ("max_cost", LIMIT),
    ("timeout", LIMIT),
    ("idle", LIMIT),
];

/// What a part of a split task takes over where the draft does not set it.
const INHERITED: &[&str] = &["priority", "story", "milestone", RUN_ON];

/// Where a task runs. A part of a task runs where the whole does.
const RUN_ON: &str = "run_on";

/// Checks a draft, and puts its tasks into the graph `base`; without one they are the graph. `used`
/// are ids that a new task must not have, because the history knows a task of that name.
///
/// # Errors
/// The errors of the draft, or why the graph cannot be edited.
pub fn drafted(
    draft: &str,
    base: Option<&str>,
    aim: &DraftAim,
    used: &BTreeSet<TaskId>,
) -> Result<DraftedTasks, DraftRefusal> {
    let whole = if draft.ends_with('\n') { draft.to_owned() } else { format!("{draft}\n") };
    let document = parse(&whole)?;
    let old = base.map(|base| parse(base).and_then(|document| graph(&document))).transpose()?;
    let own = ids_of(&document);
    let known: HashSet<&str> = own.iter().map(String::as_str).collect();
    let stubs = old.iter().flat_map(TaskGraph::tasks).map(|task| &task.id).filter(|id| {
        let is_split = matches!(aim, DraftAim::Split(split) if split == *id);
        !is_split && !known.contains(id.as_str())
    });
    let stubs: Vec<NewTask> = stubs
        .map(|id| NewTask { id: id.clone(), fields: Vec::new(), depends_on: Vec::new() })
        .collect();
    // So that a dependency on a task of the graph is none on an unknown task.
    let context = match insert(&whole, &stubs, &TaskPlace::Last) {
        Ok(text) => parse(&text)?,
        Err(why) => {
            graph(&document)?;
            return Err(unfit(&document, vec![Diagnostic::error(why.reason, 0..0)]));
        }
    };
    let mut faults = barred_at_top(&context, aim);
    for node in load::task_nodes(&context).take(own.len()) {
        faults.extend(barred_in_task(node, aim));
        faults.extend(taken_id(node, old.as_ref(), used));
    }
    let found = match load::load(&context) {
        Ok(loaded) if faults.is_empty() => loaded.graph,
        Ok(_) => return Err(unfit(&context, faults)),
        Err(more) => {
            faults.extend(more);
            return Err(unfit(&context, faults));
        }
    };
    if own.is_empty() {
        return Err(unfit(&document, vec![Diagnostic::error("the draft has no task", 0..0)]));
    }
    let tasks = tasks_of(&document, &found, own.len());
    let text = match (base, &old, aim) {
        (Some(base), Some(old), DraftAim::Split(id)) => split(base, old, id, tasks.clone(), true),
        (Some(base), Some(old), DraftAim::Before(id)) => split(base, old, id, tasks.clone(), false),
        (Some(base), _, _) => insert(base, &tasks, &TaskPlace::Last),
        (None, ..) => Ok(whole.clone()),
    };
    let text = text.map_err(DraftRefusal::Layout)?;
    graph(&parse(&text)?)?;
    Ok(DraftedTasks { ids: tasks.into_iter().map(|task| task.id).collect(), text })
}

fn unfit(document: &Document, mut faults: Vec<Diagnostic>) -> DraftRefusal {
    faults.retain(|fault| fault.severity == Severity::Error);
    faults.sort_by_key(|fault| fault.at.start);
    DraftRefusal::Unfit { text: document.text().to_owned(), faults }
}

fn parse(text: &str) -> Result<Document, DraftRefusal> {
    Document::parse(text).map_err(|fault| DraftRefusal::Unfit {
        text: text.to_owned(),
        faults: vec![load::diagnostic(fault)],
    })
}

fn graph(document: &Document) -> Result<TaskGraph, DraftRefusal> {
    load::load(document).map(|loaded| loaded.graph).map_err(|faults| unfit(document, faults))
}

/// The ids of the tasks, empty for those without one.
fn ids_of(document: &Document) -> Vec<String> {
    let id = |task: Node<'_>| task.get("id").and_then(Node::text).unwrap_or_default().into_owned();
    load::task_nodes(document).map(id).collect()
}

/// The errors about top-level fields that only a draft has.
fn barred_at_top(document: &Document, aim: &DraftAim) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let only_tasks = *aim != DraftAim::New;
    for (key, _) in document.root().into_iter().flat_map(Node::entries) {
        let name = key.text().unwrap_or_default();
        let why = match &*name {
            "tasks" | "nodes" | "edges" | "version" => continue,
            "defaults" => "a person sets what all tasks share",
            _ if only_tasks => "an addition to a graph has only `tasks`",
            _ => continue,
        };
        let fault = Diagnostic::error(format!("a draft cannot set `{name}`"), key.range());
        faults.push(fault.label(why).help("remove it"));
    }
    faults
}

/// The errors about fields of a task that only a draft has.
fn barred_in_task(task: Node<'_>, aim: &DraftAim) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let here = matches!(aim, DraftAim::Before(_));
    let here = here.then_some((RUN_ON, "it runs where the task does that waits for it"));
    for (name, why) in BARRED.iter().copied().chain(here) {
        if let Some((key, _)) = task.entry(name) {
            let message = format!("a draft cannot set `{name}` of a task");
            let fault = Diagnostic::error(message, key.range());
            faults.push(fault.label(why).help("remove it"));
        }
    }
    faults
}

/// The error about an id that a task has or had.
fn taken_id(
    task: Node<'_>,
    old: Option<&TaskGraph>,
    used: &BTreeSet<TaskId>,
) -> Option<Diagnostic> {
    let value = task.get("id")?;
    let id = TaskId::new(&value.text()?).ok()?;
    let message = if old.is_some_and(|old| old.number(&id).is_some()) {
        format!("the graph already has a task `{id}`")
    } else if used.contains(&id) {
        format!("a removed task was called `{id}`, and its history would count for this one")
    } else {
        return None;
    };
    Some(Diagnostic::error(message, value.range()).help("choose another id"))
}

/// The first tasks of a document, with their dependencies from wherever it names them.
fn tasks_of(document: &Document, graph: &TaskGraph, count: usize) -> Vec<NewTask> {
    let fields = |task: Node<'_>| {
        let mut fields: Vec<(String, Value)> = task
            .entries()
            .map(|(key, value)| (key.text().unwrap_or_default().into_owned(), value.json()))
            .filter(|(name, value)| {
                !["id", "depends_on"].contains(&name.as_str()) && !value.is_null()
            })
            .collect();
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        fields
    };
    let task = |(number, node): (usize, Node<'_>)| NewTask {
        id: graph.task(number).id.clone(),
        fields: fields(node),
        depends_on: graph.dependencies(number).map(|it| graph.task(it).id.clone()).collect(),
    };
    load::task_nodes(document).enumerate().take(count).map(task).collect()
}

/// The text with tasks in place of one: they come after its dependencies, and its dependents after
/// them. If it stays, it comes after them, and its dependents are as they were.
fn split(
    base: &str,
    old: &TaskGraph,
    id: &TaskId,
    mut parts: Vec<NewTask>,
    is_replaced: bool,
) -> Result<String, Unsupported> {
    let Some(number) = old.number(id) else {
        return Err(Unsupported { reason: format!("there is no task `{id}`") });
    };
    let own: HashSet<TaskId> = parts.iter().map(|part| part.id.clone()).collect();
    let needed: HashSet<TaskId> = parts.iter().flat_map(|part| part.depends_on.clone()).collect();
    let last: Vec<TaskId> = own_order(&parts).filter(|id| !needed.contains(id)).collect();
    let before: Vec<TaskId> = old.dependencies(number).map(|it| old.task(it).id.clone()).collect();
    let document = Document::parse(base)
        .map_err(|fault| Unsupported { reason: format!("the text cannot be read: {fault}") })?;
    let whole = load::task_node(&document, number).map(Node::json);
    for part in &mut parts {
        if !part.depends_on.iter().any(|id| own.contains(id)) {
            let more = before.iter().filter(|id| !part.depends_on.contains(id)).cloned();
            part.depends_on = more.chain(part.depends_on.clone()).collect();
        }
        for name in INHERITED {
            let value = whole.as_ref().and_then(|whole| whole.get(*name));
            if let Some(value) = value.filter(|value| !value.is_null())
                && !part.fields.iter().any(|(field, _)| field == name)
            {
                part.fields.push(((*name).to_owned(), value.clone()));
            }
        }
    }
    let text = insert(base, &parts, &TaskPlace::Before(id.clone()))?;
    if !is_replaced {
        return relink(&text, &[Relink { id: id.clone(), add: last, remove: Vec::new() }]);
    }
    let links: Vec<Relink> = old
        .dependents(number)
        .map(|it| Relink {
            id: old.task(it).id.clone(),
            add: last.clone(),
            remove: vec![id.clone()],
        })
        .collect();
    remove(&relink(&text, &links)?, std::slice::from_ref(id))
}

fn own_order(parts: &[NewTask]) -> impl Iterator<Item = TaskId> {
    parts.iter().map(|part| part.id.clone())
}

/// Returns the text of the last fenced block that has a line `tasks:` or `nodes:`.
pub fn fenced_graph(answer: &str) -> Option<String> {
    let mut found = None;
    let mut open: Option<(&str, usize, Vec<&str>)> = None;
    for line in answer.lines() {
        let bare = line.trim();
        match &mut open {
            None => {
                if let Some(fence) = fence_of(bare) {
                    let indent = line.len() - line.trim_start().len();
                    open = Some((fence, indent, Vec::new()));
                }
            }
            Some((fence, _, body)) => {
                let closes = fence_of(bare)
                    .is_some_and(|other| other.starts_with(*fence) && other.len() == bare.len());
                if !closes {
                    body.push(line);
                    continue;
                }
                if let Some((_, indent, body)) = open.take() {
                    found = block_graph(&body, indent).or(found);
                }
            }
        }
    }
    // An answer that was cut off has no end of its last block.
    open.and_then(|(_, indent, body)| block_graph(&body, indent)).or(found)
}

/// The run of three or more backticks or tildes at the start of a line.
fn fence_of(line: &str) -> Option<&str> {
    let first = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let length = line.chars().take_while(|c| *c == first).count();
    (length >= 3).then(|| &line[..length])
}

/// The lines of a block without its indentation, if they have tasks.
fn block_graph(lines: &[&str], indent: usize) -> Option<String> {
    let cut = |line: &&str| {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        line[blanks.min(indent)..].to_owned() + "\n"
    };
    let lines: Vec<String> = lines.iter().map(cut).collect();
    let is_list = |line: &String| line.starts_with("tasks:") || line.starts_with("nodes:");
    lines.iter().any(is_list).then(|| lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "\
tasks:
  # First.
  - id: lexer
    title: Write the lexer # soon
    status: complete
  - id: parser
    title: Write the parser
    priority: high
    depends_on: [lexer]
  - id: docs
    depends_on: [parser]
";

    fn drafted(
        draft: &str,
        base: Option<&str>,
        aim: &DraftAim,
    ) -> Result<DraftedTasks, DraftRefusal> {
        super::drafted(draft, base, aim, &BTreeSet::from([TaskId::new("tried").unwrap()]))
    }

    /// The errors, each with the text that it is about.
    fn refused(draft: &str, base: Option<&str>, aim: &DraftAim) -> Vec<String> {
        match drafted(draft, base, aim) {
            Err(DraftRefusal::Unfit { text, faults }) => {
                let one =
                    |fault: &Diagnostic| format!("{}: {}", &text[fault.at.clone()], fault.message);
                faults.iter().map(one).collect()
            }
            Err(DraftRefusal::Layout(why)) => vec![why.reason],
            Ok(done) => panic!("{}", done.text),
        }
    }

    #[test]
    fn a_new_graph_is_the_draft_itself() {
        let draft = "project: {name: X}\n# Why.\ntasks:\n- {id: a, title: One}";
        let done = drafted(draft, None, &DraftAim::New).unwrap();
        assert_eq!(done.text, format!("{draft}\n"));
        assert_eq!(done.ids, [TaskId::new("a").unwrap()]);
    }

    #[test]
    fn an_addition_is_in_the_style_of_the_file() {
        let draft = "tasks:\n- {id: types, depends_on: [parser], verify: \"true\", tags: [x]}\n\
                     - {id: last, estimate: 2}\nedges: []\n";
        let done = drafted(draft, Some(BASE), &DraftAim::Extend).unwrap();
        let more = "  - id: types\n    depends_on: [parser]\n    tags: [x]\n    verify: \"true\"\n";
        assert!(done.text.starts_with(BASE), "{}", done.text);
        let added = &done.text[BASE.len()..];
        assert!(added.contains("- id: types\n") && added.contains("- id: last\n"), "{added}");
        assert!(added.contains("depends_on: [parser]"), "{added}\n{more}");
        let by_edges =
            "tasks: [{id: b}, {id: c}]\nedges: [{from: b, to: c}, {from: docs, to: b}]\n";
        let done = drafted(by_edges, Some(BASE), &DraftAim::Extend).unwrap();
        assert!(done.text.contains("depends_on: [docs]") && done.text.contains("depends_on: [b]"));
    }

    #[test]
    fn the_parts_of_a_task_take_its_place() {
        let draft = "tasks:\n- {id: p1}\n- {id: p2, depends_on: [p1], priority: low}\n";
        let aim = DraftAim::Split(TaskId::new("parser").unwrap());
        let done = drafted(draft, Some(BASE), &aim).unwrap();
        let graph = graph(&parse(&done.text).unwrap()).unwrap();
        let seen: Vec<String> = (0..graph.tasks().len())
            .map(|number| {
                let task = graph.task(number);
                let before = graph.dependencies(number).map(|it| graph.task(it).id.to_string());
                format!("{} {} {:?}", task.id, task.priority, before.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(
            seen,
            ["lexer P2 []", "p1 P1 [\"lexer\"]", "p2 P3 [\"p1\"]", "docs P2 [\"p2\"]"]
        );
        assert!(done.text.contains("# First.") && done.text.contains("# soon"));
        let circle = "tasks: [{id: p1, depends_on: [docs]}]\n";
        assert!(refused(circle, Some(BASE), &aim)[0].contains("cycle"));
        let itself = "tasks: [{id: p1, depends_on: [parser]}]\n";
        assert!(refused(itself, Some(BASE), &aim)[0].contains("parser"));
    }

    #[test]
    fn a_task_stays_and_waits_for_those_before_it() {
        let draft = r#"{"tasks": [{"id": "p1", "title": "a \"b\"\nc"}, {"id": "p2", "depends_on": ["p1"]}]}"#;
        let aim = DraftAim::Before(TaskId::new("parser").unwrap());
        let done = drafted(draft, Some(BASE), &aim).unwrap();
        let graph = graph(&parse(&done.text).unwrap()).unwrap();
        let before = |id: &str| {
            let number = graph.number(&TaskId::new(id).unwrap()).unwrap();
            graph.dependencies(number).map(|it| graph.task(it).id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(before("p1"), ["lexer"]);
        assert_eq!(before("parser"), ["lexer", "p2"]);
        assert_eq!(before("docs"), ["parser"], "others are as they were");
        for (odd, fault) in [
            ("tasks: [{id: p1, depends_on: [docs]}]\n", "cycle"),
            ("tasks: [{id: p1, depends_on: [parser]}]\n", "cycle"),
            ("tasks: [{id: p1, run_on: local}]\n", "a draft cannot set `run_on`"),
            ("tasks: [{id: docs}]\n", "the graph already has a task"),
        ] {
            let faults = refused(odd, Some(BASE), &aim);
            assert!(faults.iter().any(|it| it.contains(fault)), "{odd}: {faults:?}");
        }
    }

    #[test]
    fn a_draft_says_nothing_that_a_person_decides() {
        let draft = "defaults: {agent: x}\ntasks:\n- {id: lexer, status: complete, agent: [sh]}\n";
        assert_eq!(
            refused(draft, Some(BASE), &DraftAim::Extend),
            [
                "defaults: a draft cannot set `defaults`",
                "lexer: the graph already has a task `lexer`",
                "status: a draft cannot set `status` of a task",
                "agent: a draft cannot set `agent` of a task",
            ]
        );
        let limits = "tasks: [{id: a, timeout: 9h, max_attempts: 99, allow: no-check}]\n";
        assert_eq!(refused(limits, None, &DraftAim::New).len(), 3);
        let fault = "verify_only: a draft cannot set `verify_only` of a task";
        let replaced = "tasks: [{id: a, verify_only: make}]\n";
        assert_eq!(refused(replaced, None, &DraftAim::New), [fault]);
        let gone = "tasks: [{id: tried}]\n";
        assert!(refused(gone, None, &DraftAim::New)[0].starts_with("tried: a removed task"));
        assert!(refused(gone, Some(BASE), &DraftAim::Extend)[0].starts_with("tried: a removed"));
        let more = "project: {name: X}\ntasks: [{id: a}]\n";
        assert_eq!(refused(more, Some(BASE), &DraftAim::Extend).len(), 1);
        assert!(drafted(more, None, &DraftAim::New).is_ok());
    }

    #[test]
    fn errors_name_their_place_in_the_draft() {
        let aim = DraftAim::New;
        assert_eq!(refused("tasks: []\n", None, &aim), [": the draft has no task"]);
        assert_eq!(refused("tasks: [{id: a, depends_on: [b]}]", None, &aim).len(), 1);
        assert_eq!(refused("tasks: [{id: a, depends_on: [b]}]", Some(BASE), &aim).len(), 1);
        for broken in ["", "tasks:\n- id: [\n", "- a\n", "hello", "tasks: 3", "a: &a [*a]"] {
            assert!(!refused(broken, None, &aim).is_empty(), "{broken}");
            assert!(!refused(broken, Some(BASE), &DraftAim::Extend).is_empty(), "{broken}");
        }
    }

    #[test]
    fn the_last_block_with_tasks_counts() {
        let answer = "First I looked:\n```sh\nls\n```\n\n```yaml\ntasks:\n- id: old\n```\nBetter:\n\
                      ~~~~ yml\ntasks:\n- id: new\n  description: |\n    ```\n    code\n    ```\n~~~~\n\
                      ```\nno graph\n```\nDone.";
        let graph = fenced_graph(answer).unwrap();
        assert!(
            graph.starts_with("tasks:\n- id: new\n") && graph.ends_with("    ```\n"),
            "{graph}"
        );
        assert_eq!(
            fenced_graph("1. So:\n   ```yaml\n   tasks:\n   - id: a\n   ```\n").unwrap(),
            "tasks:\n- id: a\n"
        );
        assert_eq!(fenced_graph("```\nnodes: []").unwrap(), "nodes: []\n");
        for none in ["", "tasks:\n- id: a", "```\nls\n```", "``\ntasks:\n``"] {
            assert_eq!(fenced_graph(none), None, "{none}");
        }
    }
}
