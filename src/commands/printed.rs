//! Commands that print settings, completions, manual pages, schemas and templates.

use std::{env, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Invocation, success};
use crate::{
    adapters::terminal,
    cli::{self, Schemas},
    core::{
        diagnostic::nearest_or,
        exit::{Exit, Failure},
        prompt::template::Template,
    },
    project::{
        config::Config,
        config_layers::{self, Origin},
        schema,
    },
};

/// Prints the script that registers this program for completions.
///
/// # Errors
/// Errors of standard output.
pub fn completions(shell: &str) -> Result<Exit> {
    let program = env::current_exe().context("find this program")?;
    success(&cli::registration(shell, &program))
}

/// Prints the manual page of `ralph`, or writes the pages of all commands to a folder.
///
/// # Errors
/// Errors of standard output and of the disk.
pub fn man(to: Option<&Path>) -> Result<Exit> {
    let pages = cli::man_pages().context("write the manual")?;
    let Some(folder) = to else {
        let (_, first) = pages.into_iter().next().context("no manual page")?;
        return success(&first);
    };
    fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    let count = pages.len();
    for (name, text) in pages {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))?;
    }
    success(&format!("{count} pages in {}\n", folder.display()))
}

/// Prints a schema.
///
/// # Errors
/// Errors of standard output.
pub fn schema(of: Schemas) -> Result<Exit> {
    success(&match of {
        Schemas::Graph => schema::graph(),
        Schemas::Config => schema::config(),
    })
}

/// Prints a template.
///
/// # Errors
/// Errors of standard output.
pub fn template(template: Template) -> Result<Exit> {
    success(&template.text())
}

/// The longest value, in characters, with the origin on the same line.
const WIDE: usize = 40;

/// Shows the settings. Warns of environment variables that look like a misspelt setting.
///
/// # Errors
/// No repository, invalid settings, an unknown name.
pub fn config(invocation: &Invocation, options: &cli::ConfigArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    for (name, meant) in config_layers::misspelt() {
        terminal::say(&format!("warning: `{name}` is not a setting; did you mean `{meant}`?"));
    }
    let all = workspace.layers.all();
    if let Some(key) = &options.key {
        let found = all.iter().find(|(name, ..)| name == key);
        let (_, value, origin) = found.ok_or_else(|| unknown(key))?;
        let text =
            if options.json { terminal::json(&shown(value, origin)) } else { flow(value) + "\n" };
        return success(&text);
    }
    let text = if options.json {
        let all = all.iter().map(|(key, value, origin)| (key.clone(), shown(value, origin)));
        terminal::json(&Value::Object(all.collect()))
    } else {
        table(&all)
    };
    success(&text)
}

/// All settings with their origins, one a line.
pub(super) fn table(all: &[(String, Value, Origin)]) -> String {
    let texts: Vec<String> = all.iter().map(|(_, value, _)| flow(value)).collect();
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let name = widest(&mut all.iter().map(|(key, ..)| key.len()));
    let value = widest(&mut texts.iter().map(|text| text.chars().count()).filter(|n| *n <= WIDE));
    let mut table = String::new();
    for ((key, _, origin), text) in all.iter().zip(texts) {
        let _ = if text.chars().count() > WIDE {
            writeln!(table, "{key:name$}  {text}\n{:name$}  {:value$}  {origin}", "", "")
        } else {
            writeln!(table, "{key:name$}  {text:value$}  {origin}")
        };
    }
    table
}

/// A value as one line of a settings file.
fn flow(value: &Value) -> String {
    let text = match value {
        Value::Null => "none".to_owned(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "[]".to_owned(),
        other => other.to_string(),
    };
    terminal::visible(&text).into_owned()
}

fn shown(value: &Value, origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({ "value": value, "origin": "default" }),
        Origin::File(name, line) => {
            json!({ "value": value, "origin": "file", "file": name, "line": line })
        }
        Origin::Variable(name) => json!({ "value": value, "origin": "variable", "variable": name }),
        Origin::Flag => json!({ "value": value, "origin": "flag" }),
    }
}

fn unknown(key: &str) -> Failure {
    let known = Config::keys().iter().map(String::as_str);
    let hint = nearest_or(key, known, "`ralph config` lists the settings");
    Failure::new(Exit::Usage, format!("unknown setting `{}`; {hint}", key.escape_debug()))
}
