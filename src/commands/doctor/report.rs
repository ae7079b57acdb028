//! `ralph doctor --report`: the facts about a problem for others, in one file.

use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::mark;
use crate::{
    adapters::terminal,
    commands::{
        Invocation, printed,
        probe::{Probe, ProbeFolder},
    },
    core::{event::record::Record, finding::Finding, redact::Redactor},
    project::{config::Config, workspace::Workspace},
};

/// Describes the machine, as far as it has these programs.
const MACHINE: &str = "date -u; uname -srm; sed -n 's/^PRETTY_NAME=//p' /etc/os-release || sw_vers; \
                       ldd --version 2>&1 | head -n 2; git --version; \
                       echo \"$SHELL, TERM=$TERM COLORTERM=$COLORTERM, LANG=$LANG LC_ALL=$LC_ALL\"";
/// The time for that.
const ANSWER: Duration = Duration::from_secs(20);
/// Bytes of the end of the journal.
const JOURNAL: u64 = 32 << 10;
/// Fields of the journal with the words of people and agents.
const WORDS: [&str; 3] = ["note", "question", "answer"];

/// Writes a new file with the findings, without the secrets that are recognized.
///
/// # Errors
/// The file exists; errors of the disk.
pub(super) fn write(invocation: &Invocation, findings: &[Finding], path: &Path) -> Result<()> {
    let bench = ProbeFolder::new(&Config::default())?;
    bench.ask(Probe::shell(MACHINE, Path::new("/")), ANSWER)?;
    let machine = fs::read_to_string(bench.output()).unwrap_or_default();
    let mut text = format!("ralph {}\n{machine}", env!("CARGO_PKG_VERSION"));
    for finding in findings {
        let Finding { subject, message, remedy, .. } = finding;
        let _ = write!(text, "\n{} {subject}: {message}; {remedy}", mark(finding).0);
    }
    let workspace = invocation.workspace().ok();
    if let Some(workspace) = &workspace {
        let _ = write!(text, "\n\n{}", printed::table(&workspace.layers.all()));
        let page = workspace.journal().page_before(None, JOURNAL).context("read the journal")?;
        for mut fields in page.records.iter().map(Record::fields) {
            fields.retain(|name, _| !WORDS.contains(&name.as_str()));
            let _ = write!(text, "\n{}", Value::Object(fields));
        }
    }
    let secrets = workspace.as_ref().map(Workspace::secrets);
    let text = secrets.unwrap_or_else(|| Redactor::of_variables(env::vars_os())).text(&text);
    let home = env::var("HOME").ok().filter(|home| home.len() > 1);
    let text = home.map_or(text.clone(), |home| text.replace(&home, "~"));
    File::create_new(path)
        .and_then(|mut file| writeln!(file, "{text}"))
        .with_context(|| format!("write `{}`", path.display()))?;
    terminal::say(&format!("wrote `{}`; read it before you share it", path.display()));
    Ok(())
}
