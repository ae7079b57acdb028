//! Diagnostics as the error that ends the program.

use crate::{
    diagnostic::Diagnostic,
    excerpt,
    exit::{Exit, Failure},
    prompt::Unrenderable,
    terminal::Paint,
};

/// An invalid file, drawn, with the exit code for it.
pub fn invalid(path: &str, text: &str, faults: &[Diagnostic]) -> anyhow::Error {
    let color = Paint::for_stream(&std::io::stderr()).is_on();
    Failure::drawn(Exit::Invalid, excerpt::render(path, text, faults, color)).into()
}

/// A template that cannot be rendered, drawn.
pub fn unrenderable(fault: &Unrenderable) -> anyhow::Error {
    let path = format!("prompts/{}", fault.name);
    invalid(&path, &fault.source, std::slice::from_ref(&fault.diagnostic))
}
