//! Reads a long list of tasks in pieces, called runs, for speed.
//!
//! `serde_yaml` keeps all events of a text in memory until it has read the whole text. They take
//! seventeen times the size of the text, and their allocation takes half of the time. The span
//! tree knows where the lines of each task begin, so the text is split there, and the runs are read
//! separately, on several processors. If that is not possible (an alias, a list in brackets, an
//! error that needs its location), the text is read as a whole.

use std::{num::NonZero, ops::Range, thread};

use serde::de::DeserializeOwned;

use super::{GraphShape, GraphText, TaskFields, task_list};
use crate::graph::{
    edit::Document,
    yaml::{NodeId, NodeKind, column, line_start},
};

/// A run ends before the first task that starts after this many bytes.
const RUN: usize = 16 * 1024;
/// Below this many bytes a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 4 * RUN;
/// The most threads; with more, memory is the bottleneck.
const THREADS: usize = 4;

/// A run: its bytes, and the number of tasks in them according to the span tree.
type TextRun = (Range<usize>, usize);

/// Reads the file, if it can be split.
pub(super) fn read(document: &Document, shape: &GraphShape) -> Option<GraphText> {
    let (runs, list) = runs(document, shape)?;
    let text = document.text();
    let rest = format!("{}  []\n{}", &text[..list.start], &text[list.end..]);
    let mut file: GraphText = part(&rest)?;
    let threads = if list.len() < WORTH_A_THREAD { 1 } else { processors() };
    let each = runs.len().div_ceil(threads);
    let read_all = |runs: &[TextRun], room: usize| -> Option<Vec<TaskFields>> {
        let mut tasks = Vec::with_capacity(room);
        for (bytes, count) in runs {
            let read: Vec<TaskFields> = part(&text[bytes.clone()])?;
            if read.len() != *count {
                return None;
            }
            tasks.extend(read);
        }
        Some(tasks)
    };
    let (own, others) = runs.split_at(each.min(runs.len()));
    thread::scope(|scope| {
        let mut started = Vec::new();
        for runs in others.chunks(each) {
            let thread = thread::Builder::new().name("load".to_owned());
            started.push(thread.spawn_scoped(scope, move || read_all(runs, 0)).ok()?);
        }
        file.tasks = read_all(own, shape.tasks.len())?;
        for thread in started {
            file.tasks.append(&mut thread.join().ok()??);
        }
        Some(file)
    })
}

fn part<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_yaml::from_str(text.trim_start_matches('\u{feff}')).ok()
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(THREADS)
}

/// Returns the runs, and the bytes of all of them together.
fn runs(document: &Document, shape: &GraphShape) -> Option<(Vec<TextRun>, Range<usize>)> {
    let (tree, text) = (document.tree(), document.text());
    let (key, list) = task_list(document)?;
    let in_block = matches!(tree.kind(tree.root()?), NodeKind::Mapping { flow: false })
        && matches!(tree.kind(list), NodeKind::Sequence { flow: false });
    if !in_block
        || tree.has_aliases()
        || tree.is_tagged(list)
        || column(text, tree.range(key).start) != 0
    {
        return None;
    }
    let start = |node: NodeId| tree.range(node).start;
    let first = *shape.tasks.first()?;
    let dash = dash_before(text, start(first))?;
    let list_end = tree.range(list).end;
    let next = tree.entries(tree.root()?).map(|(key, _)| start(key)).find(|at| *at >= list_end);
    let end = next.unwrap_or(text.len());
    if next.is_some_and(|at| line_start(text.as_bytes(), at) != at) {
        return None;
    }
    let mut runs = Vec::new();
    let mut from = line_start(text.as_bytes(), start(first));
    let whole = from..end;
    let mut count = 0;
    for &task in &shape.tasks {
        let at = start(task);
        if at - from >= RUN && dash_before(text, at) == Some(dash) {
            let line = line_start(text.as_bytes(), at);
            runs.push((from..line, count));
            (from, count) = (line, 0);
        }
        count += 1;
    }
    runs.push((from..end, count));
    Some((runs, whole))
}

/// Returns the column of the dash before the item at `at`, if only blanks are around the dash.
fn dash_before(text: &str, at: usize) -> Option<usize> {
    let lead = &text[line_start(text.as_bytes(), at)..at];
    let dash = lead.find('-')?;
    let blank = |part: &str| part.bytes().all(|byte| byte == b' ');
    (blank(&lead[..dash]) && blank(&lead[dash + 1..]) && dash + 1 < lead.len()).then_some(dash)
}

#[cfg(test)]
mod tests {
    use super::{super::typed, *};

    /// Reads `head`, enough copies of `item` for several runs, and `tail`: in runs and as a whole.
    fn both(head: &str, item: &str, tail: &str) -> (Option<GraphText>, GraphText) {
        let count = 2 * WORTH_A_THREAD / item.len();
        let items: String = (0..count).map(|n| item.replace('@', &n.to_string())).collect();
        let document = Document::parse(&format!("{head}{items}{tail}")).unwrap();
        let shape = GraphShape::check(&document).unwrap();
        (read(&document, &shape), typed(document.text()).unwrap())
    }

    #[test]
    fn runs_are_read_like_the_whole_text() {
        let layouts = [
            ("tasks:\n", "- id: a@\n", ""),
            ("version: 1\ntasks:", "\n  - id: a@\n    n: 1", "\n"),
            ("\u{feff}tasks: #c\n\n#d\n", "    -   id: a@\n        tags: [x, y]\n", "#e\n"),
            ("tasks:\r\n", "- title: 'x'\r\n  id: a@\r\n", "\r\nnodez: 1\r\n"),
            (
                "%YAML 1.2\n---\nx: {y: z}\ntasks:\n",
                "- id: a@\n  description: |+\n    x\n\n\n",
                "...\n",
            ),
            (
                "tasks:\n",
                "  - id: a@\n    description: >\n      - id: b\n\n     # no comment\n",
                "edges: []\n",
            ),
            ("nodes:\n", "- id: a@\n  title: a\n    b\n# c\n\n", "defaults:\n  priority: 3\n"),
            ("tasks: &all\n", "- {id: a@, status: ~}\n-\n  id: b@\n- id: c@\n", "project: x"),
        ];
        for (head, item, tail) in layouts {
            let (runs, whole) = both(head, item, tail);
            assert_eq!(runs.unwrap_or_else(|| panic!("{head}{item}")), whole, "{head}{item}{tail}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_split_is_not_read_in_runs() {
        for (head, item, tail) in [
            ("tasks: [", "{id: a@},", "]\n"),
            ("tasks:\n", "-\n  id: a@\n", ""),
            ("x: &x 1\ntasks:\n", "- id: a@\n", "y: *x\n"),
            ("{tasks: [", "{id: a@},", "]}"),
        ] {
            let (runs, _) = both(head, item, tail);
            assert!(runs.is_none(), "{head}{item}{tail}");
        }
    }
}
