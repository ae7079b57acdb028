//! `ralph review`: steps through unreviewed landed work, the most deserving first.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use anyhow::Result;

use super::{
    Invocation, diff, success, take_back,
    task_editor::{TaskEditor, usage},
};
pub(super) use crate::view::review::ReviewItem;
use crate::{
    adapters::{
        git::ChangeStyle,
        terminal::{self, Paint, Style, visible},
    },
    cli::{ReviewArgs, TakeBackArgs},
    core::{
        event::RequestEvent,
        exit::{Exit, fail},
        graph::task::Status,
        history::attempt_log::{AttemptEntry, LogDetail},
        risk::WorkFacts,
    },
    project::{landed_work::LandedChange, workspace::find},
    view::review::ReviewView,
};

/// The keys of the dialog.
const KEYS: &str = "[d]iff  [a]ccept  [n] accept with a note  [t]ake back  [s]kip  [q]uit";

/// Reviews landed work: in a dialog, or as a list if not interactive.
///
/// # Errors
/// An unknown task, or one without work to review; inside an attempt; errors of git and of the disk.
pub fn run(invocation: &Invocation, options: &ReviewArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_review(invocation, "review")?;
    let mut items = to_review(&editor)?;
    if !options.ids.is_empty() {
        let ids = editor.find_all(&options.ids)?;
        if let Some(id) = ids.iter().find(|id| !items.iter().any(|item| item.task_id == **id)) {
            return fail(Exit::Error, format!("`{id}` has no landed work to review"));
        }
        items.retain(|item| ids.contains(&item.task_id));
    }
    if options.accept {
        if options.ids.is_empty() {
            return usage("name the tasks to accept: `ralph review ID --accept`");
        }
        for item in &items {
            accept(&mut editor, item, options.note.clone())?;
        }
        return Ok(Exit::Success);
    }
    if options.json {
        return success(&terminal::json(&ReviewView::of(items)));
    }
    let items = ReviewView::of(items).to_review;
    if items.is_empty() {
        return success("nothing is left to review\n");
    }
    if terminal::can_ask() && terminal::stdout_is_terminal() {
        return dialog(invocation, editor, &items);
    }
    let (paint, width) = (Paint::for_stream(&std::io::stdout()), terminal::stdout_width());
    success(&items.iter().map(|item| lines(item, paint, width)).collect::<String>())
}

/// Items awaiting review.
///
/// # Errors
/// Inside an attempt; an invalid graph; errors of git and of the disk.
pub(super) fn read(invocation: &Invocation) -> Result<ReviewView> {
    let editor = TaskEditor::for_review(invocation, "review")?;
    Ok(ReviewView::of(to_review(&editor)?))
}

/// The unreviewed landed work of complete tasks, unordered.
fn to_review(editor: &TaskEditor) -> Result<Vec<ReviewItem>> {
    let history = editor.store.history();
    let is_new = |entry: &AttemptEntry| history.of(&entry.task_id).reviewed < entry.attempt;
    landings(editor, is_new)
}

/// The landed work of complete tasks whose newest attempt is of this kind, in no order.
pub(super) fn landings(
    editor: &TaskEditor,
    is_wanted: impl Fn(&AttemptEntry) -> bool,
) -> Result<Vec<ReviewItem>> {
    let workspace = &editor.workspace;
    let log = workspace.attempt_log(LogDetail::Results)?;
    let (graph, tip) = (workspace.graph()?, diff::tip(workspace)?);
    let mut newest = BTreeMap::new();
    for entry in log.of(None).filter(|entry| entry.ended.is_some()) {
        newest.insert(&entry.task_id, entry);
    }
    let mut found = Vec::new();
    for (id, entry) in newest.into_iter().filter(|(_, entry)| is_wanted(entry)) {
        let Some(number) = graph.graph().number(id) else { continue };
        let task = graph.graph().task(number);
        let Some((_, ended)) = entry.ended.as_ref().filter(|_| task.status == Status::Complete)
        else {
            continue;
        };
        let Some(change) = LandedChange::of(&workspace.repo, entry, &tip)? else { continue };
        let (before, last) = change.ends();
        let files = workspace.repo.differing(Some(&before), &last)?;
        let steps = workspace.repo.local().steps_after(&before, &last)?;
        let added: BTreeSet<&str> =
            steps.iter().flat_map(|step| &step.added).map(String::as_str).collect();
        let added: Vec<&str> = added.into_iter().collect();
        let free = workspace.repo.local().unignored(&added)?;
        let ignored = added.iter().filter(|path| !free.contains(path)).map(ToString::to_string);
        let facts = WorkFacts {
            evidence: &ended.evidence,
            proof: entry.proof.as_deref(),
            files: &files,
            ignored: &ignored.collect::<Vec<_>>(),
            paths: &task.paths(),
            added_by: task.added_by.as_deref(),
        };
        let about = (task.title_line(), editor.store.history().of(id));
        found.extend(ReviewItem::of(entry, about, change.ends(), &facts));
    }
    Ok(found)
}

/// The list entry of an item, at most this wide.
fn lines(item: &ReviewItem, paint: Paint, width: Option<usize>) -> String {
    let (id, title) = (item.task_id.as_str(), visible(&item.title));
    let title = if *title == *id { String::new() } else { format!("  {title}") };
    let wrapped = |text: &str| terminal::wrap(text, width.unwrap_or(usize::MAX));
    let head = wrapped(&format!("{id}{title}  ({})", item.facts())).join("\n");
    let mut text = head.replacen(id, &paint.text(Style::Strong, id), 1) + "\n";
    for risk in &item.risks {
        for part in wrapped(&format!("  {}", visible(&risk.why))) {
            let _ = writeln!(text, "{}", paint.text(Style::Warn, part));
        }
    }
    text
}

/// Shows one item after the other, and applies each choice.
fn dialog(invocation: &Invocation, mut editor: TaskEditor, items: &[ReviewItem]) -> Result<Exit> {
    let paint = Paint::for_stream(&std::io::stderr());
    for (at, item) in items.iter().enumerate() {
        let place = format!("{} of {}  ", at + 1, items.len());
        let width = terminal::stderr_width().map(|width| width.saturating_sub(place.len()));
        terminal::say(&format!("\n{place}{}", lines(item, paint, width).trim_end()));
        loop {
            terminal::say(&paint.text(Style::Faint, KEYS));
            let Ok(key) = terminal::key() else { return Ok(Exit::Success) };
            match key.to_ascii_lowercase() {
                'd' | '\n' | '\r' => show(&editor, item)?,
                'a' => {
                    accept(&mut editor, item, None)?;
                    break;
                }
                'n' => {
                    let note = sentence("Note on the work that you accept:")?;
                    let Some(note) = note.filter(|note| !note.is_empty()) else { continue };
                    accept(&mut editor, item, Some(note))?;
                    break;
                }
                't' => {
                    let wrong = "What was wrong, for the next attempt (empty for nothing):";
                    let Some(note) = sentence(wrong)? else { continue };
                    let note = Some(note).filter(|note| !note.is_empty());
                    let ids = vec![item.task_id.to_string()];
                    let wanted = TakeBackArgs { ids, note, ..TakeBackArgs::default() };
                    match take_back::run(invocation, &wanted) {
                        Ok(_) => {
                            editor = TaskEditor::for_review(invocation, "review")?;
                            break;
                        }
                        Err(error) => terminal::say(&format!("{error:#}")),
                    }
                }
                's' => break,
                'q' => return Ok(Exit::Success),
                _ => {}
            }
        }
    }
    Ok(Exit::Success)
}

fn show(editor: &TaskEditor, item: &ReviewItem) -> Result<()> {
    let workspace = &editor.workspace;
    let own: Vec<String> = workspace.graph_in_git().into_iter().collect();
    let ends = (item.before.clone(), item.last.clone());
    workspace.repo.landings().show_changes(&[ends], ChangeStyle::Lines, &own)
}

/// A line that the person writes, which may be empty; none if Escape or the end of the input calls it off.
fn sentence(question: &str) -> Result<Option<String>> {
    terminal::say(&format!("{question} (Escape, then Enter: go back)"));
    let mut line = String::new();
    let is_read = std::io::stdin().read_line(&mut line)? > 0;
    Ok(Some(line.trim().to_owned()).filter(|line| is_read && !line.contains('\u{1b}')))
}

/// Records that a person has looked at the work and keeps it.
fn accept(editor: &mut TaskEditor, item: &ReviewItem, note: Option<String>) -> Result<()> {
    let (id, attempt) = (&item.task_id, item.attempt);
    find(&editor.file, id.as_str())?;
    editor.store.emit(None, Some(id), RequestEvent::Reviewed { attempt, note })?;
    terminal::say(&format!("{id}: reviewed"));
    Ok(())
}
