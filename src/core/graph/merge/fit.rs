//! Builds the text for a merged value from pieces of three texts.
//!
//! Changes of one side keep their layout: comments, quotes, line breaks. Changes that cannot be
//! combined become a conflict, in the text and in the value. The caller parses the result again.

use super::{
    MIDDLE, OURS, THEIRS,
    rules::{Three, Want, plainly},
};
use crate::graph::{
    edit::cut::{Cut, CutPart, CutPiece, CutSource, CutStyle, ValueShape},
    yaml::Node,
};

/// The three texts.
pub(super) struct Fitter<'a> {
    pub(super) sources: Three<CutSource<'a>>,
}

/// A text and its value.
type Fitted<'a> = (String, Want<'a>);

impl<'a> Fitter<'a> {
    /// The whole file.
    pub(super) fn file(&self, want: &Want<'a>) -> Option<Fitted<'a>> {
        let parts = self.sources.each_ref().map(|source| Some(source.whole()));
        self.fit(want, ValueShape::File, &parts)
    }

    fn fit(
        &self,
        want: &Want<'a>,
        shape: ValueShape,
        parts: &Three<Option<CutPart>>,
    ) -> Option<Fitted<'a>> {
        let texts = self.texts(parts);
        if let Some(side) = plainly(&texts)
            && want.is_only(self.value(parts, side))
        {
            return Some((texts[side].clone()?, want.clone()));
        }
        self.pieces(want, shape, parts).or_else(|| self.one(want, parts))
    }

    fn texts(&self, parts: &Three<Option<CutPart>>) -> Three<Option<String>> {
        let text = |side: usize| parts[side].as_ref().map(|part| self.sources[side].text_of(part));
        [text(0), text(1), text(2)]
    }

    fn value(&self, parts: &Three<Option<CutPart>>, side: usize) -> Option<Node<'a>> {
        self.sources[side].value_of(parts[side].as_ref()?)
    }

    /// Takes the text of one side as a whole; only the text after the value may come from the other
    /// side.
    fn one(&self, want: &Want<'a>, parts: &Three<Option<CutPart>>) -> Option<Fitted<'a>> {
        let side = [1, 2, 0].into_iter().find(|side| want.is_only(self.value(parts, *side)))?;
        let split = |side: usize| -> Option<(String, String)> {
            let part = parts[side].as_ref()?;
            let source = &self.sources[side];
            let end = part.node.map_or(part.at.end, |node| source.tree.range(node).end);
            let end = end.clamp(part.at.start, part.at.end);
            let head = " ".repeat(part.pad) + &source.text[part.at.start..end];
            Some((head, source.text[end..part.at.end].to_owned()))
        };
        let (heads, rests): (Vec<_>, Vec<_>) = (0..3).map(split).map(Option::unzip).unzip();
        // Refuses to lose a comment of a side that is not taken.
        let loses_comment = |other: usize| {
            other != side
                && heads[other] != heads[0]
                && heads[other] != heads[side]
                && heads[other].as_ref().is_some_and(|head| head.contains('#'))
        };
        if loses_comment(1) || loses_comment(2) {
            return None;
        }
        let rest = between([rests[0].as_deref(), rests[1].as_deref(), rests[2].as_deref()])?;
        Some((heads[side].clone()? + &rest, want.clone()))
    }

    /// Combines parts from all sides.
    fn pieces(
        &self,
        want: &Want<'a>,
        shape: ValueShape,
        parts: &Three<Option<CutPart>>,
    ) -> Option<Fitted<'a>> {
        let (is_list, wanted) = want.parts(shape)?;
        let cut = |side: usize| self.sources[side].cut(parts[side].as_ref()?, shape);
        let (ours, theirs) = (cut(1)?, cut(2)?);
        let base = cut(0).filter(|base| base.style == ours.style);
        let has_base = self.value(parts, 0).is_some_and(|value| {
            !value.is_null() && shape.parts(value).is_none_or(|parts| !parts.is_empty())
        });
        if ours.style != theirs.style || (has_base && base.is_none()) {
            return None;
        }
        let cuts = [base, Some(ours), Some(theirs)];
        let texts = |of: fn(&Cut) -> &str| -> Option<String> {
            between(cuts.each_ref().map(|cut| cut.as_ref().map(of)))
        };
        let open = texts(|cut| &cut.open)?;
        let close = texts(|cut| &cut.close)?;
        let (body, wanted) = match cuts[1].as_ref()?.style {
            CutStyle::Block(_) => {
                let dash = texts(|cut| &cut.dash)?;
                self.lines(&cuts, shape, wanted, &dash)?
            }
            CutStyle::Flow => self.list(&cuts, shape, wanted)?,
        };
        let is_block = open.ends_with('\n');
        let open = match open.trim_end().strip_suffix(':') {
            // A key without a value would not be an empty list.
            Some(key) if is_block && wanted.is_empty() => {
                is_list.then(|| format!("{key}: []\n"))?
            }
            None if is_block && wanted.is_empty() => return None,
            _ => open,
        };
        let want = if is_list { Want::List(wanted) } else { Want::Map(wanted) };
        Some((open + &body + &close, want))
    }

    fn lines(
        &self,
        cuts: &Three<Option<Cut>>,
        shape: ValueShape,
        wanted: Vec<(String, Want<'a>)>,
        dash: &str,
    ) -> Option<(String, Vec<(String, Want<'a>)>)> {
        let mut text = String::new();
        let mut fitted = Vec::with_capacity(wanted.len());
        for (name, want) in wanted {
            let pieces = pieces_of(cuts, &name);
            let parts = pieces.map(|piece| piece.map(|piece| piece.part.clone()));
            let lead = between(pieces.map(|piece| piece.map(|piece| piece.lead.as_str())));
            let found = match &lead {
                Some(lead) => self
                    .fit(&want, shape.below(&name), &parts)
                    .map(|(text, want)| (lead.clone() + &text, want)),
                None => None,
            };
            // Markers around all tasks are worse than the result of a merge by lines.
            let is_too_much = shape.below(&name) == ValueShape::Tasks
                && pieces[1].is_some()
                && pieces[2].is_some();
            let (piece, want) = match found {
                Some(found) => found,
                None if is_too_much => return None,
                None => self.marked(pieces, &parts),
            };
            text.push_str(&piece);
            fitted.push((name, want));
        }
        if dash.contains('-') {
            let lead = text.get(..dash.len())?;
            lead.bytes().all(|byte| byte == b' ').then_some(())?;
            text.replace_range(..dash.len(), dash);
        }
        Some((text, fitted))
    }

    /// Puts both sides between markers, for a person.
    fn marked(
        &self,
        pieces: Three<Option<&CutPiece>>,
        parts: &Three<Option<CutPart>>,
    ) -> Fitted<'a> {
        let texts = self.texts(parts);
        let lead = |side: usize| pieces[side].map(|piece| piece.lead.as_str());
        let same = if lead(1) == lead(2) { lead(1).unwrap_or_default() } else { "" };
        let whole = |side: usize| {
            let lead = lead(side).unwrap_or_default();
            let text = texts[side].as_deref().unwrap_or_default();
            lead[same.len()..].to_owned() + text
        };
        let text = format!("{same}{OURS}\n{}{MIDDLE}\n{}{THEIRS}\n", whole(1), whole(2));
        (text, Want::Conflict(self.value(parts, 1), self.value(parts, 2)))
    }

    fn list(
        &self,
        cuts: &Three<Option<Cut>>,
        shape: ValueShape,
        wanted: Vec<(String, Want<'a>)>,
    ) -> Option<(String, Vec<(String, Want<'a>)>)> {
        let sides = || [1, 2, 0].into_iter().filter_map(|side| cuts[side].as_ref());
        let usual =
            |at: usize| sides().find_map(|cut| cut.pieces.get(at).map(|piece| piece.lead.clone()));
        let (first, later) = (usual(0).unwrap_or_default(), usual(1));
        let mut texts = Vec::with_capacity(wanted.len());
        let mut fitted = Vec::with_capacity(wanted.len());
        for (name, want) in wanted {
            let pieces = pieces_of(cuts, &name);
            let parts = pieces.map(|piece| piece.map(|piece| piece.part.clone()));
            // Markers need lines of their own.
            let (text, want) = self.fit(&want, shape.below(&name), &parts)?;
            let own = sides().find_map(|cut| match cut.by_name.get(&name)? {
                0 => None,
                at => Some(cut.pieces[*at].lead.clone()),
            });
            let lead = match own.or_else(|| later.clone()) {
                _ if texts.is_empty() => first.clone(),
                Some(lead) => lead,
                None if first.contains('\n') => first.clone(),
                None => " ".to_owned(),
            };
            texts.push(lead + &text);
            fitted.push((name, want));
        }
        Some((texts.join(","), fitted))
    }
}

fn pieces_of<'c>(cuts: &'c Three<Option<Cut>>, name: &str) -> Three<Option<&'c CutPiece>> {
    cuts.each_ref().map(|cut| {
        let cut = cut.as_ref()?;
        cut.by_name.get(name).map(|at| &cut.pieces[*at])
    })
}

/// Merges the text between values; if neither side has a comment there, ours wins.
fn between(texts: Three<Option<&str>>) -> Option<String> {
    if let Some(side) = plainly(&texts) {
        return Some(texts[side].or(texts[1]).or(texts[2]).unwrap_or_default().to_owned());
    }
    match (texts[1], texts[2]) {
        (Some(ours), Some(theirs)) if !ours.contains('#') && !theirs.contains('#') => {
            Some(ours.to_owned())
        }
        // Text that only one side has is taken unchanged.
        (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
        _ => None,
    }
}
