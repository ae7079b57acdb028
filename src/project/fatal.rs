//! Turns diagnostics into the error that ends the program.

use crate::{
    adapters::{
        excerpt,
        terminal::{self, Paint},
    },
    core::{
        diagnostic::Diagnostic,
        exit::{self, Exit, Failure},
        prompt::Unrenderable,
    },
};

/// Returns the error for an invalid file, with drawn diagnostics and its exit code.
pub fn invalid(path: &str, text: &str, faults: &[Diagnostic]) -> anyhow::Error {
    let color = Paint::for_stream(&std::io::stderr()).is_on();
    Failure::drawn(Exit::Invalid, excerpt::render(path, text, faults, color)).into()
}

/// Returns the error for a template that cannot be rendered, with a drawn diagnostic.
pub fn unrenderable(fault: &Unrenderable) -> anyhow::Error {
    let path = format!("prompts/{}", fault.name);
    invalid(&path, &fault.source, std::slice::from_ref(&fault.diagnostic))
}

/// Returns an error as one line without color. A drawn diagnostic is shortened to its first error,
/// after its location.
pub fn summary(error: &anyhow::Error) -> String {
    first_line(&terminal::plain(&exit::words(error)))
}

/// Returns the first error of drawn ones on one line, after its location.
pub fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    match lines.next().and_then(|line| line.trim_start().strip_prefix("--> ")) {
        Some(place) => format!("{place}: {first}"),
        None => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_error_is_one_line_with_its_place() {
        let fault = Diagnostic::error("no such thing", 3..4);
        let drawn = excerpt::render("a.yaml", "a: b\n", &[fault], true);
        let drawn = anyhow::Error::new(Failure::drawn(Exit::Invalid, drawn));
        assert_eq!(summary(&drawn), "a.yaml:1:4: no such thing");
        assert_eq!(summary(&anyhow::anyhow!("x").context("y")), "y: x");
    }
}
