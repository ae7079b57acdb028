//! Reads the text of the graph file, which an agent may have replaced by something else.

use std::{env, fs, io, path::Path};

use super::Rejected;
use crate::{
    adapters::state::{self, Stamp},
    core::{diagnostic::Diagnostic, executor::shell_word, graph::yaml::MAX_BYTES},
    regular_file,
};

/// Reads the file, and what it was like right before.
///
/// # Errors
/// It is missing, too large, not UTF-8 or not a regular file; errors of the disk.
pub(super) fn read_text(path: &Path, name: &str) -> Result<(Stamp, String), Box<Rejected>> {
    let refuse = |message: String, help: &str| {
        let fault = Diagnostic::error(message, 0..0);
        let fault = if help.is_empty() { fault } else { fault.help(help) };
        Box::new(Rejected { name: name.to_owned(), text: String::new(), faults: vec![fault] })
    };
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            let usual =
                "`ralph init` writes an example; a list `tasks:`, each with an `id`, is enough";
            // As in a repository of several projects.
            let here = env::current_dir().ok().zip(path.file_name());
            let here = here.map(|(here, file)| here.join(file));
            let help = match here.filter(|here| here != path && here.is_file()) {
                Some(here) => format!(
                    "it is looked for at the top of the repository; `--graph {}` uses the one in this \
                     folder",
                    shell_word(&here.display().to_string())
                ),
                None => usual.to_owned(),
            };
            refuse(format!("there is no `{name}`"), &help)
        }
        _ => refuse(format!("cannot read `{name}`: {error}"), ""),
    };
    if regular_file::is_special(path) {
        let help = "remove what is there, and restore the file, as with `git checkout`";
        return Err(refuse(format!("`{name}` is not a regular file"), help));
    }
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_BYTES as u64 {
        return Err(refuse(
            format!("`{name}` is {} MiB long; the limit is {} MiB", length >> 20, MAX_BYTES >> 20),
            "a graph of 100,000 tasks is about 13 MiB: is this the right file?",
        ));
    }
    // The stamp is taken first, so that a change during the read is noticed later.
    let stamp = state::stamp(path).map_err(unreadable)?;
    let bytes = regular_file::read(path).map_err(unreadable)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((stamp, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(&error.into_bytes()).into_owned();
            let fault = Diagnostic::error("the file is not UTF-8", at..at + '\u{fffd}'.len_utf8())
                .help("save it as UTF-8");
            Err(Box::new(Rejected { name: name.to_owned(), text, faults: vec![fault] }))
        }
    }
}
