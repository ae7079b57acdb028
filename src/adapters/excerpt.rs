//! Renders diagnostics in the style of rustc: message, location, excerpt, help.
//!
//! The only user of annotate-snippets. Returns text and prints nothing.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};

use crate::core::diagnostic::{Diagnostic, Severity, position};

/// The number of lines around the location that the renderer gets. The renderer reads its whole
/// input: for a 39 MB file that takes 180 ms.
const AROUND: usize = 2;

/// Renders all diagnostics in order, with a final line that counts them.
pub fn render(path: &str, text: &str, diagnostics: &[Diagnostic], color: bool) -> String {
    /// The number of diagnostics that are shown.
    const SHOWN: usize = 20;
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut drawn: Vec<String> =
        diagnostics.iter().take(SHOWN).map(|one| draw(&renderer, path, text, one)).collect();
    if diagnostics.len() > SHOWN {
        drawn.push(format!("… and {} more; fix these first", diagnostics.len() - SHOWN));
    }
    drawn.join("\n\n")
}

fn draw(renderer: &Renderer, path: &str, text: &str, diagnostic: &Diagnostic) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.message.as_str());
    let mut group = Group::with_title(title);
    if text.is_empty() {
        group = group.element(annotate_snippets::Origin::path(path));
    } else {
        let places =
            std::iter::once((&diagnostic.at, diagnostic.label.as_str(), AnnotationKind::Primary))
                .chain(
                    diagnostic
                        .related
                        .iter()
                        .map(|(at, label)| (at, label.as_str(), AnnotationKind::Context)),
                );
        // Two locations far apart get two excerpts: one excerpt could span the whole file.
        let near = diagnostic
            .related
            .as_ref()
            .is_some_and(|(at, _)| at.start.abs_diff(diagnostic.at.start) < 4_000);
        let mut windows: Vec<(Range<usize>, Vec<_>)> = Vec::new();
        for (at, label, kind) in places {
            let window = window(text, at);
            match windows.last_mut() {
                Some((open, annotations)) if near => {
                    *open = open.start.min(window.start)..open.end.max(window.end);
                    annotations.push((at, label, kind));
                }
                _ => windows.push((window, vec![(at, label, kind)])),
            }
        }
        for (window, annotations) in windows {
            group = group.element(snippet(path, text, &window).annotations(
                annotations.into_iter().map(|(at, label, kind)| {
                    let label = (!label.is_empty()).then_some(label);
                    kind.span(inside(at, &window)).label(label)
                }),
            ));
        }
    }
    let mut groups = Vec::new();
    match (&diagnostic.help, &diagnostic.replacement) {
        (Some(help), Some(replacement)) if !text.is_empty() => {
            let window = window(text, &diagnostic.at);
            let change = Patch::new(inside(&diagnostic.at, &window), replacement.as_str());
            groups.push(group);
            groups.push(
                Level::HELP
                    .secondary_title(help.as_str())
                    .element(snippet(path, text, &window).patch(change)),
            );
        }
        (Some(help), _) => groups.push(group.element(Level::HELP.message(help.as_str()))),
        (None, _) => groups.push(group),
    }
    renderer.render(&groups)
}

fn snippet<'a, T: Clone>(path: &'a str, text: &'a str, window: &Range<usize>) -> Snippet<'a, T> {
    Snippet::source(&text[window.clone()]).path(path).line_start(position(text, window.start).0)
}

/// The lines of a location and a few lines around it.
fn window(text: &str, at: &Range<usize>) -> Range<usize> {
    let start = at.start.min(text.len());
    let end = at.end.clamp(start, text.len());
    let from = text[..start].rmatch_indices('\n').nth(AROUND).map_or(0, |(at, _)| at + 1);
    let to = text[end..].match_indices('\n').nth(AROUND).map_or(text.len(), |(at, _)| end + at);
    from..to
}

fn inside(at: &Range<usize>, window: &Range<usize>) -> Range<usize> {
    let shift = |offset: usize| offset.clamp(window.start, window.end) - window.start;
    shift(at.start)..shift(at.end)
}
