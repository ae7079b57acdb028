//! The three-way merge of the graph file by task and field, instead of by line.
//!
//! There are three steps. `rules` decides the result from the values alone. `fit` builds a text for
//! it from pieces of the three sides. Then the text is parsed again and compared with the result of
//! the first step. Conflicts for a person are marked as git does. Other merges are refused, and
//! the caller can fall back to a merge by lines.
//!
//! This module knows neither the source of the texts nor whether they are valid graphs.

use std::fmt;

mod fit;
mod rules;

use self::rules::{Side, Three, Want, plainly};
use super::{
    edit::cut::{CutSource, ValueShape},
    yaml::Document,
};

/// The line above our side of a conflict.
pub const OURS: &str = "<<<<<<< ours";
/// The line between the sides of a conflict.
pub const MIDDLE: &str = "=======";
/// The line below their side of a conflict.
pub const THEIRS: &str = ">>>>>>> theirs";

const BOM: &str = "\u{feff}";

/// The three texts of a merge.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// The common ancestor.
    pub base: &'a str,
    /// Our side.
    pub ours: &'a str,
    /// Their side, merged into ours.
    pub theirs: &'a str,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The text, with conflict markers.
    pub text: String,
    /// The conflicts for a person to resolve.
    pub conflicts: Vec<Conflict>,
}

/// A place that the two sides changed in different ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path of names, such as `tasks`, `parser`, `title`.
    pub path: Vec<String>,
    /// The kind of conflict.
    pub clash: Clash,
}

/// The kind of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Both sides have different values.
    Different,
    /// Our side removed a value that theirs changed.
    RemovedByUs,
    /// Their side removed a value that ours changed.
    RemovedByThem,
}

impl Conflict {
    /// The place in words, such as "`title` of task `parser`".
    pub fn place(&self) -> String {
        let names: Vec<String> = self.path.iter().map(|name| format!("`{name}`")).collect();
        match names.as_slice() {
            [list, task, rest @ ..] if ["`tasks`", "`nodes`"].contains(&list.as_str()) => {
                let of = rest.first().map(|field| format!("{field} of "));
                format!("{}task {task}", of.unwrap_or_default())
            }
            names => names.join(" of "),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.place();
        match self.clash {
            Clash::Different => write!(f, "{what} differs between the two sides"),
            Clash::RemovedByUs => write!(f, "{what} was removed by ours and changed by theirs"),
            Clash::RemovedByThem => write!(f, "{what} was changed by ours and removed by theirs"),
        }
    }
}

/// The error for texts that cannot be merged by task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmergeable {
    /// The reason, as a lower-case fragment.
    pub reason: String,
    /// The place that both sides changed, in words, if that is the reason.
    pub place: Option<String>,
}

fn unmergeable<T>(reason: impl Into<String>) -> Result<T, Unmergeable> {
    Err(Unmergeable { reason: reason.into(), place: None })
}

/// Merges three texts by task and field.
///
/// # Errors
/// One of them is not YAML, or the changes do not fit together in their layouts.
pub fn merge(texts: Texts<'_>) -> Result<Merged, Unmergeable> {
    let all = [texts.base, texts.ours, texts.theirs];
    if let Some(side) = plainly(&all) {
        return Ok(Merged { text: all[side].to_owned(), conflicts: Vec::new() });
    }
    let pages = all.map(MergeText::of);
    let all = pages.each_ref().map(|page| page.text.as_str());
    let documents = documents(&all)?;
    let wanted = wanted(&documents)?;
    let Some((text, wanted)) = fitter(&documents).file(&wanted) else {
        return match conflicts(&wanted).first() {
            Some(conflict) => {
                let place = Some(conflict.place());
                Err(Unmergeable { reason: conflict.to_string(), place })
            }
            None => unmergeable("the changes of the two sides do not fit together in this layout"),
        };
    };
    let conflicts = conflicts(&wanted);
    let text = MergeText::like(&pages, text).written(conflicts.is_empty());
    let reads = |side: Side| {
        let text = if conflicts.is_empty() { text.clone() } else { taking(&text, side) };
        Document::parse(&text).is_ok_and(|document| wanted.is(side, document.root()))
    };
    if !reads(Side::Ours) || !reads(Side::Theirs) {
        return unmergeable("the merged text would have a different meaning");
    }
    Ok(Merged { text, conflicts })
}

/// Merges a text of the graph file with the landed one, by task; none where they conflict.
pub fn with_landed(base: &str, ours: &str, landed: &str) -> Option<String> {
    if ours == base || ours == landed {
        return Some(landed.to_owned());
    }
    if base == landed {
        return Some(ours.to_owned());
    }
    let merged = merge(Texts { base, ours, theirs: landed }).ok()?;
    // A task that a person has removed stays removed, although it has landed.
    let is_removed = |conflict: &Conflict| conflict.clash == Clash::RemovedByUs;
    let is_clear = merged.conflicts.iter().all(is_removed);
    is_clear.then(|| taking(&merged.text, Side::Ours))
}

/// Adopts new tasks: returns our text with the tasks that only theirs has and the edges to them.
/// None if there are none.
///
/// # Errors
/// One of them is not YAML, a new task differs from one of the same id on our side, or it does not
/// fit in the layout.
pub fn adopt(texts: Texts<'_>) -> Result<Option<String>, Unmergeable> {
    let pages = [texts.base, texts.ours, texts.theirs].map(MergeText::of);
    let documents = documents(&pages.each_ref().map(|page| page.text.as_str()))?;
    let [Some(base), Some(ours), Some(theirs)] = documents.each_ref().map(Document::root) else {
        return unmergeable("one of the files is empty");
    };
    let want = rules::additions([base, ours, theirs]);
    let want = want.or_else(|list| unmergeable(format!("`{list}` has items without a name")))?;
    let Some(want) = want else { return Ok(None) };
    let Some((text, want)) = fitter(&documents).file(&want) else {
        return unmergeable("the new tasks do not fit in this layout");
    };
    if let Some(conflict) = conflicts(&want).first() {
        return unmergeable(conflict.to_string());
    }
    let text = MergeText::like(&pages, text).written(true);
    if !Document::parse(&text).is_ok_and(|document| want.is_only(document.root())) {
        return unmergeable("the text with the new tasks would have a different meaning");
    }
    Ok(Some(text))
}

/// Whether a merged text has the same meaning as a merge by task without conflicts.
pub fn holds(texts: Texts<'_>, merged: &str) -> bool {
    let all = [texts.base, texts.ours, texts.theirs];
    let Ok(documents) = documents(&all) else { return false };
    let is_wanted =
        |merged: &Document| wanted(&documents).is_ok_and(|wanted| wanted.is_only(merged.root()));
    Document::parse(merged).is_ok_and(|merged| is_wanted(&merged))
}

fn documents(texts: &Three<&str>) -> Result<Three<Document>, Unmergeable> {
    let parse = |side: usize, name: &str| match Document::parse(texts[side]) {
        Ok(document) if document.tree().is_simple() => Ok(document),
        Ok(_) => unmergeable("there are tags or complex keys"),
        Err(fault) => unmergeable(format!("{name} cannot be read: {fault}")),
    };
    Ok([parse(0, "the base")?, parse(1, "ours")?, parse(2, "theirs")?])
}

fn fitter(documents: &Three<Document>) -> fit::Fitter<'_> {
    let source = |document| CutSource::of(document);
    fit::Fitter { sources: documents.each_ref().map(source) }
}

fn wanted(documents: &Three<Document>) -> Result<Want<'_>, Unmergeable> {
    let wanted = rules::merge(documents.each_ref().map(Document::root), ValueShape::File);
    wanted.map_or_else(|| unmergeable("no value is left"), Ok)
}

fn conflicts(want: &Want<'_>) -> Vec<Conflict> {
    let mut found = Vec::new();
    list_conflicts(want, &mut Vec::new(), &mut found);
    found
}

fn list_conflicts(want: &Want<'_>, path: &mut Vec<String>, found: &mut Vec<Conflict>) {
    match want {
        Want::Just(_) => {}
        Want::Map(parts) | Want::List(parts) => {
            for (name, want) in parts {
                path.push(name.clone());
                list_conflicts(want, path, found);
                path.pop();
            }
        }
        Want::Conflict(ours, theirs) => {
            let clash = match (ours, theirs) {
                (None, _) => Clash::RemovedByUs,
                (_, None) => Clash::RemovedByThem,
                _ => Clash::Different,
            };
            found.push(Conflict { path: path.clone(), clash });
        }
    }
}

/// The text with every conflict resolved to one side.
fn taking(text: &str, side: Side) -> String {
    let mut taken = String::with_capacity(text.len());
    let mut within = None;
    for line in text.split_inclusive('\n') {
        match (line.trim_end(), within) {
            (OURS, None) => within = Some(Side::Ours),
            (MIDDLE, Some(Side::Ours)) => within = Some(Side::Theirs),
            (THEIRS, Some(Side::Theirs)) => within = None,
            _ if within.is_none_or(|within| within == side) => taken.push_str(line),
            _ => {}
        }
    }
    taken
}

/// A text with `\n` line breaks, and its original line format.
struct MergeText {
    text: String,
    has_mark: bool,
    is_crlf: bool,
    is_closed: bool,
}

impl MergeText {
    fn of(text: &str) -> MergeText {
        let bare = text.strip_prefix(BOM).unwrap_or(text);
        let breaks = bare.matches('\n').count();
        // With an extra carriage return, the text stays unchanged, and is refused when it is read.
        let is_crlf = breaks > 0
            && bare.matches("\r\n").count() == breaks
            && bare.matches('\r').count() == breaks;
        let mut page = MergeText {
            text: if is_crlf { bare.replace("\r\n", "\n") } else { bare.to_owned() },
            has_mark: bare.len() < text.len(),
            is_crlf,
            is_closed: bare.is_empty() || bare.ends_with('\n'),
        };
        if !page.is_closed && !page.text.ends_with('\r') {
            page.text.push('\n');
        }
        page
    }

    /// Gives a text the format of three others.
    fn like(pages: &Three<MergeText>, text: String) -> MergeText {
        let habit = |of: fn(&MergeText) -> bool| {
            let habits = pages.each_ref().map(of);
            habits[plainly(&habits).unwrap_or(1)]
        };
        MergeText {
            text,
            has_mark: habit(|page| page.has_mark),
            is_crlf: habit(|page| page.is_crlf),
            is_closed: habit(|page| page.is_closed),
        }
    }

    fn written(self, may_be_open: bool) -> String {
        let mut text = self.text;
        if !self.is_closed && may_be_open && text.ends_with('\n') {
            text.pop();
        }
        if self.is_crlf && !text.contains('\r') {
            text = text.replace('\n', "\r\n");
        }
        if self.has_mark { BOM.to_owned() + &text } else { text }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    const BASE: &str = "\
version: 1
tasks:
  # The first.
  - id: a
    title: A # short
    status: pending
    depends_on: []

  - id: b
    title: B
    description: |
      one

      two
    depends_on: [a]
  - {id: c, title: C, tags: [x, y]}
# the end
";

    /// Merges two edited versions of a text; each edit replaces `old` with `new`.
    fn edited(base: &str, ours: &[(&str, &str)], theirs: &[(&str, &str)]) -> Merged {
        let edit = |edits: &[(&str, &str)]| {
            edits.iter().fold(base.to_owned(), |text, (old, new)| {
                assert!(text.contains(old), "{old:?} in {text}");
                text.replacen(old, new, 1)
            })
        };
        merge(Texts { base, ours: &edit(ours), theirs: &edit(theirs) }).unwrap()
    }

    /// Merges both ways and expects the base with these edits, without conflicts.
    fn clean(base: &str, ours: &[(&str, &str)], theirs: &[(&str, &str)], both: &[(&str, &str)]) {
        let want = edited(base, both, both).text;
        for (ours, theirs) in [(ours, theirs), (theirs, ours)] {
            let found = edited(base, ours, theirs);
            assert_eq!(found.conflicts, []);
            assert_eq!(found.text, want, "{ours:?} {theirs:?}");
        }
    }

    fn together(base: &str, ours: (&str, &str), theirs: (&str, &str)) {
        clean(base, &[ours], &[theirs], &[ours, theirs]);
    }

    #[test]
    fn changes_in_different_places_are_combined() {
        together(BASE, ("status: pending", "status: complete"), ("title: B", "title: 'Bee'"));
        together(BASE, ("title: A ", "title: AA "), ("status: pending", "status: done # yes"));
        together(BASE, ("title: A ", "title: AA "), ("# short", "# long"));
        together(BASE, ("one\n", "one and\n      a half\n"), ("[a]", "[a, c]"));
        together(BASE, ("title: C", "title: CC"), ("[x, y]", "[x, y, z]"));
        together(BASE, ("[x, y]", "[y]"), ("title: C", "priority: 1, title: C"));
        together(BASE, ("version: 1", "version: 2"), ("# the end\n", "# the end\nmeta: {n: 1}\n"));
        together(BASE, ("version: 1\n", ""), ("  # The first.\n", "  # The very first.\n"));
        together(BASE, ("# the end", "# The end"), ("- id: a\n", "- id: a\n    story: s\n"));
        together(BASE, ("  - id: b\n", "  # b\n  - id: b\n"), ("- id: b\n", "- id: b # bee\n"));
        clean(
            BASE,
            &[("[x, y]", "[w, x, y]")],
            &[("[x, y]", "[x, v]")],
            &[("[x, y]", "[w, x, v]")],
        );
        clean(
            BASE,
            &[("[]", "[b]"), ("[a]", "[]")],
            &[("[a]", "[a, c]"), ("title: B", "title: D")],
            &[("[]", "[b]"), ("[a]", "[c]"), ("title: B", "title: D")],
        );
        // The same change on both sides occurs once.
        let (same, more) = (("title: B", "title: D"), ("title: C", "title: E"));
        clean(BASE, &[same], &[same, more], &[same, more]);
    }

    #[test]
    fn tasks_are_added_and_removed_in_place() {
        let (one, two) = ("  - id: o\n    title: O\n", "\n  # why\n  - id: t # new\n");
        let after = |tasks: &str| "[a]\n".to_owned() + tasks;
        let found = edited(BASE, &[("[a]\n", &after(one))], &[("[a]\n", &after(two))]);
        let both = one.to_owned() + two;
        assert_eq!(found, edited(BASE, &[("[a]\n", &after(&both))], &[]));
        let end = "tags: [x, y]}\n";
        let after = |tasks: &str| end.to_owned() + tasks;
        let found = edited(BASE, &[(end, &after(one))], &[(end, &after(two))]);
        assert_eq!(found, edited(BASE, &[(end, &after(&both))], &[]));
        let before = "  # The first.\n";
        let found = edited(
            BASE,
            &[(before, &(one.to_owned() + before))],
            &[("status: pending", "status: complete")],
        );
        assert!(found.text.starts_with(&format!("version: 1\ntasks:\n{one}{before}  - id: a\n")));
        let third = "  - {id: c, title: C, tags: [x, y]}\n";
        together(BASE, (third, ""), ("title: B", "title: D"));
        together(BASE, (third, ""), ("- id: a\n", "- id: a\n    story: s\n"));
    }

    #[test]
    fn the_same_new_task_is_added_once() {
        let new = |fields: &str| format!("y]}}\n  - id: n\n{fields}");
        let add = |ours: &str, theirs: &str| {
            edited(BASE, &[("y]}\n", &new(ours))], &[("y]}\n", &new(theirs))])
        };
        let want = edited(BASE, &[("y]}\n", &new("    title: N\n    story: s\n"))], &[]);
        assert_eq!(add("    title: N\n    story: s\n", "    title: N\n    story: s\n"), want);
        assert_eq!(add("    title: N\n", "    title: N\n    story: s\n"), want);
        let found = add("    title: N\n", "    title: M\n");
        assert_eq!(
            found.conflicts[0].to_string(),
            "`title` of task `n` differs between the two sides"
        );
    }

    #[test]
    fn conflicts_have_markers() {
        let found = edited(
            BASE,
            &[("title: B", "title: Bee"), ("title: A ", "title: AA "), ("title: C", "title: D")],
            &[("title: B", "title: Bea"), ("[]", "[c]"), ("title: C", "title: E")],
        );
        let conflicts: Vec<String> = found.conflicts.iter().map(ToString::to_string).collect();
        assert_eq!(
            conflicts,
            [
                "`title` of task `b` differs between the two sides",
                // Markers need lines of their own.
                "task `c` differs between the two sides",
            ]
        );
        insta::assert_snapshot!(found.text, @"
        version: 1
        tasks:
          # The first.
          - id: a
            title: AA # short
            status: pending
            depends_on: [c]

          - id: b
        <<<<<<< ours
            title: Bee
        =======
            title: Bea
        >>>>>>> theirs
            description: |
              one

              two
            depends_on: [a]
        <<<<<<< ours
          - {id: c, title: D, tags: [x, y]}
        =======
          - {id: c, title: E, tags: [x, y]}
        >>>>>>> theirs
        # the end
        ");
        let third = "  - {id: c, title: C, tags: [x, y]}\n";
        let found = edited(BASE, &[(third, "")], &[("title: C", "title: E")]);
        assert_eq!(
            found.conflicts[0].to_string(),
            "task `c` was removed by ours and changed by theirs"
        );
        assert!(found.text.ends_with(
            "<<<<<<< ours\n=======\n  - {id: c, title: E, tags: [x, y]}\n>>>>>>> theirs\n# the end\n"
        ));
        let found = edited(BASE, &[("title: C", "title: E")], &[(third, "")]);
        assert!(found.conflicts[0].to_string().ends_with("changed by ours and removed by theirs"));
        let found = edited(BASE, &[("# short", "# brief")], &[("# short", "# long")]);
        assert!(found.text.contains("<<<<<<< ours\n    title: A # brief\n=======\n"));
    }

    #[test]
    fn the_further_status_wins_with_its_times() {
        let words =
            ["", "pending", "in-progress", "needs-input", "blocked", "complete", "cancelled"];
        let write = |word: &str, who: &str| match word {
            "" => format!("tasks:\n- id: a\n  title: {who}\n"),
            word => format!("tasks:\n- id: a\n  status: {word}\n  claimed_by: {who}\n  title: T\n"),
        };
        for (at, one) in words.iter().enumerate() {
            for (other_at, other) in words.iter().enumerate() {
                let base = "tasks:\n- id: a\n  status: odd\n  claimed_by: x\n  title: T\n";
                let (ours, theirs) = (write(one, "me"), write(other, "you"));
                let merged = merge(Texts { base, ours: &ours, theirs: &theirs }).unwrap();
                let clashes = at.min(other_at) == 5 && at.max(other_at) == 6;
                let has = |text: &str| merged.text.contains(text);
                if clashes {
                    assert!(has("<<<") && has(one) && has(other), "{}", merged.text);
                } else if at > 0 && other_at > 0 {
                    assert_eq!(merged.conflicts, [], "{}", merged.text);
                    // With the same status and no times, the first name wins.
                    let (word, who) = if other_at > at { (other, "you") } else { (one, "me") };
                    assert!(
                        has(&format!("status: {word}\n  claimed_by: {who}\n")),
                        "{}",
                        merged.text
                    );
                }
            }
        }
        let base = "tasks:\n- id: a\n";
        let done = |at: &str| format!("{base}  status: done\n  completed_at: {at}\n");
        let (early, late) = (done("2026-11-20T22:44:03Z"), done("2026-11-21T02:00:00Z"));
        for (ours, theirs) in [(&early, &late), (&late, &early)] {
            let merged = merge(Texts { base, ours, theirs }).unwrap();
            assert_eq!((&merged.text, merged.conflicts), (&early, vec![]));
        }
    }

    #[test]
    fn every_layout_is_merged() {
        let edges =
            "nodes:\n- id: a\n- id: b\n- id: c\nedges:\n- {from: a, to: b}\n- from: b\n  to: c\n";
        together(
            edges,
            ("- {from: a, to: b}\n", ""),
            ("  to: c\n", "  to: c\n- {from: a, to: c}\n"),
        );
        let (one, two) = ("  to: c\n- {from: a, to: c}\n", "  to: c\n- {from: c, to: d}\n");
        clean(
            edges,
            &[("  to: c\n", one)],
            &[("  to: c\n", one), ("- id: a\n", "- id: a # x\n")],
            &[("  to: c\n", one), ("- id: a\n", "- id: a # x\n")],
        );
        let found = edited(edges, &[("  to: c\n", one)], &[("  to: c\n", two)]);
        assert!(found.text.ends_with("- {from: a, to: c}\n- {from: c, to: d}\n"));
        let crlf = BASE.replace('\n', "\r\n");
        together(&crlf, ("title: A ", "title: AA "), ("title: B\r\n", "title: D\r\n"));
        let open = "tasks:\n- id: a\n- id: b";
        together(open, ("id: a\n", "id: a\n  title: A\n"), ("id: b", "id: b\n  title: B"));
        let found = edited(open, &[("id: b", "id: b\n- id: c")], &[("id: b", "id: b\n- id: d")]);
        assert_eq!(found.text, "tasks:\n- id: a\n- id: b\n- id: c\n- id: d");
        let mark = "\u{feff}tasks:\n- id: a\n- id: b\n";
        together(mark, ("id: a\n", "id: a\n  title: A\n"), ("id: b", "id: b\n  title: B"));
        let line = "tasks: [{id: a}, {id: b, title: B}]\n";
        together(line, ("{id: a}", "{id: a, status: done}"), ("title: B", "title: C"));
        let found = edited(line, &[("}]", "}, {id: c}]")], &[("}]", "}, {id: d}]")]);
        assert_eq!(found.text, "tasks: [{id: a}, {id: b, title: B}, {id: c}, {id: d}]\n");
        let found = edited(line, &[("{id: a}, ", "")], &[("title: B", "title: C")]);
        assert_eq!(found.text, "tasks: [{id: b, title: C}]\n");
        let json =
            "{\n  \"tasks\": [\n    {\n      \"id\": \"a\"\n    },\n    {\"id\": \"b\"}\n  ]\n}\n";
        together(
            json,
            ("\"a\"", "\"a\",\n      \"title\": \"A\""),
            ("\"b\"", "\"b\", \"story\": \"s\""),
        );
        let found = edited(
            json,
            &[("\"b\"}", "\"b\"},\n    {\"id\": \"c\"}")],
            &[("\"b\"}", "\"b\"},\n    {\"id\": \"d\"}")],
        );
        assert!(
            found
                .text
                .ends_with("{\"id\": \"b\"},\n    {\"id\": \"c\"},\n    {\"id\": \"d\"}\n  ]\n}\n")
        );
        let dashes = "tasks:\n  -\n    # first\n    id: a\n    title: A\n  -   id: b\n      tags:\n      - x\n";
        together(dashes, ("title: A", "title: AA\n    story: s"), ("- x\n", "- x\n      - y\n"));
        let tags = [("      - x\n", "      - x\n      - y\n"), ("      - x\n", "      - z\n")];
        let found = edited(dashes, &tags[..1], &tags[1..]);
        assert!(found.text.ends_with("tags:\n      - y\n      - z\n"), "{}", found.text);
        // An emptied list is not null.
        let two = "tasks:\n- id: a\n  tags:\n  - x\n  - y\n";
        let found = edited(two, &[("  - x\n", "")], &[("  - y\n", "")]);
        assert_eq!(found.text, "tasks:\n- id: a\n  tags: []\n");
        let aliased = "tasks:\n- id: a\n  title: &t A\n- id: b\n  title: *t\n";
        together(aliased, ("id: a", "id: a\n  story: s"), ("id: b", "id: b\n  story: s"));
    }

    #[test]
    fn the_order_of_the_side_that_moved_tasks_wins() {
        let base = "tasks:\n- id: a\n- id: b\n- id: c\n";
        let moved = "tasks:\n- id: c\n- id: a\n- id: b\n";
        let named = "tasks:\n- id: a\n- id: b\n  title: B\n- id: n\n- id: c\n";
        for (ours, theirs) in [(moved, named), (named, moved)] {
            let merged = merge(Texts { base, ours, theirs }).unwrap();
            assert_eq!(merged.text, "tasks:\n- id: c\n- id: a\n- id: b\n  title: B\n- id: n\n");
        }
    }

    #[test]
    fn unsupported_layouts_are_refused() {
        let base = "tasks:\n- id: a\n- id: b\n";
        for (ours, theirs) in [
            ("tasks:\n- id: [\n", "tasks:\n- id: c\n"),
            ("tasks:\n- id: a\n- id: a\n", "tasks:\n- id: b\n"),
            ("tasks:\n- id: !!str a\n", "tasks:\n- id: b\n"),
            (
                "tasks:\n  - id: a\n  - id: b\n    title: B\n",
                "tasks:\n- id: a\n  story: s\n- id: b\n",
            ),
            ("- id: a\n", "- id: b\n"),
        ] {
            let merged = merge(Texts { base, ours, theirs });
            match merged {
                Ok(merged) => assert!(!merged.conflicts.is_empty(), "{}", merged.text),
                Err(unmergeable) => assert!(!unmergeable.reason.is_empty()),
            }
        }
        let (ours, theirs) =
            ("tasks:\n- id: a\n  x: 1\n- id: b\n", "tasks:\n- id: a\n- id: b\n  x: 2\n");
        let texts = Texts { base, ours, theirs };
        assert!(holds(texts, "tasks:\n- {id: a, x: 1}\n- {x: 2, id: b}\n"));
        assert!(!holds(texts, "tasks:\n- {id: a, x: 1}\n- {id: b}\n"));
        assert!(!holds(texts, "tasks:\n- {id: a, x: 1}\n"));
        assert!(!holds(texts, "tasks: ["));
    }

    /// A generated graph: ids, and for each the comment and the fields.
    type Model = Vec<(String, String, Vec<(&'static str, String)>)>;

    const FIELDS: [&str; 4] = ["title", "story", "description", "priority"];

    fn model(count: usize, seeds: &[usize]) -> Model {
        let seed = |at: usize| seeds[at % seeds.len()] + at;
        (0..count)
            .map(|task| {
                let all = FIELDS.iter().enumerate();
                let has = all.filter(|(at, _)| seed(task * 5 + at) % 3 != 0);
                let fields = has.map(|(at, name)| (*name, value(seed(task + at))));
                let comment =
                    if seed(task) % 4 == 1 { format!("about {task}") } else { String::new() };
                let mut fields: Vec<_> = fields.collect();
                let needs: Vec<String> = (0..task)
                    .filter(|on| seed(task + on) % 3 == 0)
                    .map(|on| format!("t{on}"))
                    .collect();
                fields.push(("depends_on", needs.join(" ")));
                (format!("t{task}"), comment, fields)
            })
            .collect()
    }

    fn value(seed: usize) -> String {
        let words = ["short", "it's: \"so\" # no", "two\nlines", "", "yes", "caf\u{e9}", "- x"];
        format!("{}{seed}", words[seed % words.len()])
    }

    /// Writes it in one of the styles, with line breaks in values as escapes or blocks.
    fn written(model: &Model, style: usize) -> String {
        let (is_json, indent) = (style % 4 == 3, ["", "  "][style / 4 % 2]);
        let mut out =
            if is_json { "{\"tasks\": [".to_owned() } else { "version: 1\ntasks:\n".to_owned() };
        for (at, (id, comment, fields)) in model.iter().enumerate() {
            let is_flow = is_json || (style % 4 == 1 && id.bytes().last().unwrap_or(0) % 2 == 1);
            let quoted = |value: &str| format!("{value:?}");
            let list = |value: &str| {
                let items: Vec<String> = value.split_whitespace().map(quoted).collect();
                format!("[{}]", items.join(", "))
            };
            let one = |name: &str, value: &str| match name {
                "depends_on" => list(value),
                _ if !is_flow && value.contains('\n') => {
                    format!("|-\n{indent}    {}", value.replace('\n', &format!("\n{indent}    ")))
                }
                _ => quoted(value),
            };
            let all = fields.iter().map(|(name, value)| (*name, one(name, value)));
            let mut all: Vec<(&str, String)> = all.collect();
            all.insert(0, ("id", quoted(id)));
            if is_json {
                let all: Vec<String> =
                    all.iter().map(|(name, v)| format!("\"{name}\": {v}")).collect();
                let comma = if at > 0 { "," } else { "" };
                write!(out, "{comma}\n  {{{}}}", all.join(", ")).unwrap();
                continue;
            }
            if !comment.is_empty() {
                write!(out, "\n{indent}# {comment}\n").unwrap();
            }
            let all: Vec<String> = all.iter().map(|(name, v)| format!("{name}: {v}")).collect();
            let joint = if is_flow { ", ".to_owned() } else { format!("\n{indent}  ") };
            let (open, close) = if is_flow { ("{", "}") } else { ("", "") };
            writeln!(out, "{indent}- {open}{}{close}", all.join(&joint)).unwrap();
        }
        out += if is_json { "\n]}\n" } else { "# the end\n" };
        if style & 16 != 0 {
            out.pop();
        }
        if style & 32 != 0 { out.replace('\n', "\r\n") } else { out }
    }

    /// An edit: task, field and seed.
    type Edit = (usize, usize, usize);

    fn edit(model: &mut Model, (task, what, seed): Edit, side: &str) {
        let count = model.len();
        match what {
            0..=3 => {
                let Some((_, _, fields)) = model.iter_mut().find(|one| one.0 == format!("t{task}"))
                else {
                    return;
                };
                let found = fields.iter().position(|(name, _)| *name == FIELDS[what]);
                match (found, seed % 4) {
                    (Some(at), 0) => drop(fields.remove(at)),
                    (Some(at), _) => fields[at].1 = value(seed + 100),
                    (None, _) => {
                        fields.insert(seed % (fields.len() + 1), (FIELDS[what], value(seed)));
                    }
                }
            }
            4 => model.retain(|one| one.0 != format!("t{task}")),
            5 => {
                let id = format!("{side}{seed}");
                if model.iter().all(|one| one.0 != id) {
                    let fields = vec![("title", value(seed))];
                    model.insert(task % (count + 1), (id, format!("new {side}{seed}"), fields));
                }
            }
            _ => {
                let name = format!("{side}{seed}");
                let one = model.iter_mut().find(|one| one.0 == format!("t{task}"));
                let fields = one.into_iter().flat_map(|one| &mut one.2);
                for (_, needs) in fields.filter(|(name, _)| *name == "depends_on") {
                    let kept = needs.split_whitespace().skip(seed % 2).map(str::to_owned);
                    let mut kept: Vec<String> = kept.filter(|old| *old != name).collect();
                    kept.push(name.clone());
                    *needs = kept.join(" ");
                }
            }
        }
    }

    /// The tasks by id and fields by name, regardless of order; lists as sets.
    fn meaning(text: &str) -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
        let file: serde_yaml::Value =
            serde_yaml::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let tasks = file["tasks"].as_sequence().cloned().unwrap_or_default();
        let words = |value: &serde_yaml::Value| match value.as_sequence() {
            Some(items) => items.iter().map(|item| item.as_str().unwrap().to_owned()).collect(),
            None => BTreeSet::from([value.as_str().unwrap().to_owned()]),
        };
        let one = |task: &serde_yaml::Value| {
            let fields = task.as_mapping().unwrap().iter();
            let fields =
                fields.map(|(name, value)| (name.as_str().unwrap().to_owned(), words(value)));
            (task["id"].as_str().unwrap().to_owned(), fields.collect())
        };
        tasks.iter().map(one).collect()
    }

    /// The comments.
    fn comments(text: &str) -> BTreeSet<&str> {
        text.lines().filter(|line| line.trim_start().starts_with("# ")).map(str::trim).collect()
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        prop::collection::vec((0..6usize, 0..7usize, 0..40usize), 0..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn independent_edits_are_all_kept(
            count in 1..6usize,
            seeds in prop::collection::vec(0..50usize, 1..9),
            edits in edits(),
            style in 0..64usize,
        ) {
            let base = model(count, &seeds);
            let (mut ours, mut theirs, mut both) = (base.clone(), base.clone(), base.clone());
            for one in edits {
                let (task, what, seed) = one;
                // A task is removed only if the other side does not change it; each field belongs
                // to one side.
                if what == 4 {
                    continue;
                }
                let is_ours = (task + what + seeds[0]) % 2 == 0 || (what > 4 && seed % 2 == 0);
                let side = if is_ours { "o" } else { "x" };
                edit(if is_ours { &mut ours } else { &mut theirs }, one, side);
                edit(&mut both, one, side);
            }
            let [base, ours, theirs, both] = [base, ours, theirs, both].map(|one| written(&one, style));
            let texts = Texts { base: &base, ours: &ours, theirs: &theirs };
            let back = Texts { base: &base, ours: &theirs, theirs: &ours };
            for (texts, other) in [(texts, back), (back, texts)] {
                let merged = merge(texts).unwrap();
                prop_assert_eq!(&merged.conflicts, &[], "{}", merged.text);
                let set = meaning(&both);
                prop_assert_eq!(meaning(&merged.text).len(), set.len());
                for (id, task) in meaning(&merged.text) {
                    for (name, value) in task.iter().filter(|(name, _)| *name != "depends_on") {
                        prop_assert_eq!(Some(value), set[&id].get(name), "{}", &merged.text);
                    }
                    prop_assert_eq!(task.len(), set[&id].len(), "{}", &merged.text);
                }
                let all = |text: &str, part: fn(&BTreeSet<String>, &BTreeSet<String>) -> BTreeSet<String>| {
                    let (old, new) = (meaning(&base), meaning(text));
                    let of = |all: &BTreeMap<_, BTreeMap<String, _>>, id: &String| -> BTreeSet<String> {
                        all.get(id).and_then(|task| task.get("depends_on")).cloned().unwrap_or_default()
                    };
                    let ids = new.keys();
                    ids.map(|id| (id.clone(), part(&of(&old, id), &of(&new, id)))).collect::<BTreeMap<_, _>>()
                };
                let found = meaning(&merged.text);
                for side in [&ours, &theirs] {
                    for (id, added) in all(side, |old, new| new - old) {
                        let has = found[&id].get("depends_on").cloned().unwrap_or_default();
                        prop_assert!(added.is_subset(&has), "{}", &merged.text);
                    }
                    for (id, gone) in all(side, |old, new| old - new) {
                        let has = found[&id].get("depends_on").cloned().unwrap_or_default();
                        prop_assert!(gone.is_disjoint(&has), "{}", &merged.text);
                    }
                }
                prop_assert_eq!(comments(&merged.text), comments(&both), "{}", &merged.text);
                prop_assert!(holds(texts, &merged.text));
                prop_assert_eq!(meaning(&merge(other).unwrap().text), found);
            }
        }

        #[test]
        fn conflicting_edits_are_all_kept(
            count in 1..6usize,
            seeds in prop::collection::vec(0..50usize, 1..9),
            our_edits in edits(),
            their_edits in edits(),
            style in 0..64usize,
        ) {
            let base = model(count, &seeds);
            let (mut ours, mut theirs) = (base.clone(), base.clone());
            for one in our_edits {
                edit(&mut ours, one, "o");
            }
            for one in their_edits {
                edit(&mut theirs, one, "x");
            }
            let [base, ours, theirs] = [base, ours, theirs].map(|one| written(&one, style));
            let side = |text: &str, side: Side| meaning(&taking(text, side));
            let Ok(merged) = merge(Texts { base: &base, ours: &ours, theirs: &theirs }) else {
                return Ok(());
            };
            let found = [side(&merged.text, Side::Ours), side(&merged.text, Side::Theirs)];
            let old = meaning(&base);
            for text in [&ours, &theirs] {
                for (id, task) in meaning(text) {
                    let has: Vec<_> = found.iter().filter_map(|all| all.get(&id)).collect();
                    prop_assert!(!has.is_empty() || old.get(&id) == Some(&task), "{id}: {}", merged.text);
                    for (name, value) in task {
                        let was = old.get(&id).and_then(|task| task.get(&name));
                        let is_set = name == "depends_on";
                        let mut has = has.iter().filter_map(|task| task.get(&name));
                        let kept = if is_set {
                            let added = was.map_or(value.clone(), |was| &value - was);
                            added.is_empty() || has.any(|has| added.is_subset(has))
                        } else {
                            was == Some(&value) || has.any(|has| *has == value)
                        };
                        prop_assert!(kept, "{id}.{name}: {}", merged.text);
                    }
                }
            }
            for (text, other) in [(&base, &ours), (&ours, &base)] {
                let texts = Texts { base: &base, ours: text, theirs: other };
                prop_assert_eq!(&merge(texts).unwrap().text, &ours);
            }
            let same = Texts { base: &base, ours: &theirs, theirs: &theirs };
            prop_assert_eq!(&merge(same).unwrap().text, &theirs);
        }

        #[test]
        fn damaged_texts_are_merged_or_refused(
            style in 0..64usize,
            damage in prop::collection::vec(
                (0..3usize, any::<prop::sample::Index>(), 0..30usize, "[-\\[\\]{}:,#|>&*!\"' \na0\\t]{0,4}"),
                1..6,
            ),
        ) {
            let mut texts = [(); 3].map(|()| {
                if style % 5 == 0 { BASE.to_owned() } else { written(&model(3, &[style]), style) }
            });
            for (side, at, length, with) in damage {
                let mut chars: Vec<char> = texts[side].chars().collect();
                let at = at.index(chars.len() + 1);
                let end = (at + length).min(chars.len());
                chars.splice(at..end, with.chars());
                texts[side] = chars.into_iter().collect();
            }
            let [base, ours, theirs] = &texts;
            let texts = Texts { base, ours, theirs };
            if let Ok(merged) = merge(texts) && merged.conflicts.is_empty() && ours != theirs
                && base != ours && base != theirs
            {
                prop_assert!(holds(texts, &merged.text), "{}", merged.text);
            }
        }
    }

    #[test]
    fn a_carriage_return_alone_is_refused() {
        let base = "tasks:\r\n- {id: a}\r\n";
        let theirs = "tasks:\r\n- {id: a}\r\n# end\r\n";
        for ours in ["tasks:\r\n- {id: b}\r", "tasks:\r\n- {id: b}\r\r\n", "tasks:\r- {id: b}\r\n"]
        {
            assert!(merge(Texts { base, ours, theirs }).is_err(), "{ours:?}");
        }
    }

    #[test]
    fn only_new_tasks_and_their_edges_are_adopted() {
        let base = "# mine\nedges:\n  - {from: a, to: b}\ntasks:\n  - {id: a, status: pending}\n  - {id: b}\n";
        let ours = base.replace("status: pending}", "status: in-progress} # now") + "  - {id: d}\n";
        let edges = "  - {from: a, to: c}\n  - {from: c, to: b}\ntasks:";
        let theirs = base.replace("pending", "complete").replace("tasks:", edges)
            + "  - {id: c, depends_on: [a]} # new\n";
        let (ours, theirs) = (ours.as_str(), theirs.as_str());
        let adopted = adopt(Texts { base, ours, theirs }).unwrap().unwrap();
        assert_eq!(
            adopted,
            "# mine\nedges:\n  - {from: a, to: b}\n  - {from: a, to: c}\ntasks:\n  \
             - {id: a, status: in-progress} # now\n  - {id: b}\n  - {id: d}\n  \
             - {id: c, depends_on: [a]} # new\n"
        );
        let again = Texts { base, ours: &adopted, theirs };
        assert_eq!(adopt(again).unwrap(), None, "already adopted");
        assert_eq!(adopt(Texts { base, ours, theirs: ours }).unwrap(), None);
        assert!(adopt(Texts { base, ours, theirs: "tasks: [" }).is_err());
    }
}
