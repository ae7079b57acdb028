//! The sources of settings, with increasing precedence: defaults, two files, variables, flags.
//!
//! A setting comes from one source as a whole; lists and mappings of two sources are never merged.
//! An unknown key is an error: a misspelled limit must not go unnoticed.
//!
//! The only user of `serde_yaml` (in its maintained form, `yaml_serde`), which gets a text only after
//! the span tree has refused hostile input.

use std::{
    collections::BTreeMap,
    env, fmt,
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    adapters::{
        git::Repo,
        state::{self, Stamp},
    },
    core::{
        diagnostic::{Diagnostic, nearest},
        exit::{Exit, Failure, fail},
        graph::{
            load,
            yaml::{Document, Node, NodeKind},
        },
        retired::{self, RetiredKind, replacement},
    },
    project::{
        config::{Config, ConfigLayer, SettingFault},
        fatal,
    },
    regular_file,
};

/// The settings file of a project, relative to the repository.
pub const PATH: &str = ".ralph/config.yaml";
/// The settings file of the user, as it is shown.
pub const GLOBAL: &str = "~/.ralph/config.yaml";
/// The prefix of the variables.
const PREFIX: &str = "RALPH_";

/// The source of the value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// This line of this file.
    File(String, usize),
    /// This variable.
    Variable(String),
    /// A flag of the run.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(name, line) => write!(f, "{name}:{line}"),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// A settings file.
#[derive(Clone, Debug)]
struct LayerSource {
    path: PathBuf,
    name: String,
    /// Whether it must exist, because the user named it.
    named: bool,
    /// Its stamp when it was last read.
    stamp: Option<Stamp>,
    /// Its text when it was last read; none if it did not exist.
    text: Option<String>,
}

/// All sources, and their settings when they were last read.
#[derive(Clone, Debug, Default)]
pub struct ConfigLayers {
    /// The top of the repository, from which relative paths in files start.
    root: PathBuf,
    files: Vec<LayerSource>,
    variables: ConfigLayer,
    flags: ConfigLayer,
    /// The settings that any source sets, with the source.
    set: BTreeMap<String, (Value, Origin)>,
}

/// Returns the settings file for all projects of this user.
pub fn global_path() -> Option<PathBuf> {
    env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(PATH))
}

/// The settings in HEAD, if a sparse checkout leaves them out.
fn left_out(root: &Path) -> Option<String> {
    let repo = Repo::discover(root).ok()?;
    let text = repo.file_at("HEAD", PATH).ok()??;
    let is_left_out = repo.landings().leaves_out(PATH).unwrap_or(false);
    is_left_out.then(|| String::from_utf8(text).ok()).flatten()
}

/// Refuses to run without the settings that HEAD has: no `verify` command of theirs would run.
///
/// # Errors
/// The settings file is missing in the checkout; errors of git.
pub fn check_own(repo: &Repo, layers: &ConfigLayers) -> Result<()> {
    let own = repo.root().join(PATH);
    let is_missing = |file: &LayerSource| file.path == own && file.text.is_none();
    if !layers.files.iter().any(is_missing) || repo.file_at("HEAD", PATH)?.is_none() {
        return Ok(());
    }
    let message = format!(
        "`{PATH}` is in the last commit and missing in the checkout; bring it back with `git checkout \
         -- {PATH}`, or commit that it is deleted"
    );
    fail(Exit::Invalid, message)
}

impl ConfigLayers {
    /// Returns the sources for a project at `root`. `named` replaces its own file.
    ///
    /// # Errors
    /// An invalid value in a variable.
    pub fn of(root: &Path, named: Option<&Path>) -> Result<ConfigLayers> {
        let own = root.join(PATH);
        // If the home folder is the repository, both are the same file.
        let global = global_path().filter(|path| *path != own);
        let source = |path: PathBuf, name: String, named| LayerSource {
            path,
            name,
            named,
            stamp: None,
            text: None,
        };
        let mut files: Vec<LayerSource> =
            global.map(|path| source(path, GLOBAL.to_owned(), false)).into_iter().collect();
        files.push(match named {
            Some(path) => {
                let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
                source(path.to_owned(), name, true)
            }
            None => source(own, PATH.to_owned(), false),
        });
        Ok(ConfigLayers {
            root: root.to_owned(),
            files,
            variables: variables()?,
            ..ConfigLayers::default()
        })
    }

    /// The file that replaces the settings file of the project.
    pub fn named(&self) -> Option<&Path> {
        self.files.iter().find(|file| file.named).map(|file| file.path.as_path())
    }

    /// The flags.
    pub fn flags(&self) -> &ConfigLayer {
        &self.flags
    }

    /// Sets the flags, which override all other sources.
    ///
    /// # Errors
    /// As [`ConfigLayers::read`].
    pub fn set_flags(&mut self, flags: ConfigLayer) -> Result<Config> {
        self.flags = flags;
        self.read()
    }

    /// Reads the files and combines all sources. After an error, the settings are as before.
    ///
    /// # Errors
    /// The errors in a file, as a drawn diagnostic.
    pub fn read(&mut self) -> Result<Config> {
        let mut set = BTreeMap::new();
        for file in &mut self.files {
            file.stamp = state::stamp(&file.path).ok();
            let text = match regular_file::read_to_string(&file.path) {
                Err(error) if error.kind() == ErrorKind::NotFound && !file.named => {
                    file.text = None;
                    let is_own = file.path == self.root.join(PATH);
                    match is_own.then(|| left_out(&self.root)).flatten() {
                        Some(text) => text,
                        None => continue,
                    }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let message = format!(
                        "no settings at `{}`; name a file that is there, or none",
                        file.name
                    );
                    return Err(Failure::new(Exit::Invalid, message).into());
                }
                read => read.with_context(|| format!("read `{}`", file.name))?,
            };
            let said = parse(&text).map_err(|faults| fatal::invalid(&file.name, &text, &faults))?;
            file.text = Some(text);
            for (key, (value, line)) in said {
                set.insert(key, (value, Origin::File(file.name.clone(), line)));
            }
        }
        for (key, value) in &self.variables {
            set.insert(key.clone(), (value.clone(), Origin::Variable(variable(key))));
        }
        for (key, value) in &self.flags {
            set.insert(key.clone(), (value.clone(), Origin::Flag));
        }
        let whole = set.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        let mut config =
            Config::of(&whole).map_err(|faults| refused(&Origin::Flag, &faults.join("; ")))?;
        let base = self.base_of_agents(&set)?;
        config.settle_agents(&base, &self.root).map_err(|fault| self.refused(&set, &fault))?;
        self.set = set;
        Ok(config)
    }

    /// Returns the error for a setting, with its place in the file that sets it.
    fn refused(
        &self,
        set: &BTreeMap<String, (Value, Origin)>,
        fault: &SettingFault,
    ) -> anyhow::Error {
        let origin = set.get(fault.setting).map_or(&Origin::Default, |(_, origin)| origin);
        let name = match origin {
            Origin::File(name, _) => name,
            Origin::Default | Origin::Variable(_) | Origin::Flag => {
                return refused(origin, &fault.text);
            }
        };
        let file = self.files.iter().find(|file| file.name == *name);
        let text = file.and_then(|file| file.text.as_deref()).unwrap_or_default();
        let at = place_of(text, fault).unwrap_or(0..0);
        fatal::invalid(name, text, &[Diagnostic::error(fault.text.clone(), at)])
    }

    /// Returns the folder from which a relative path of an agent starts: the working directory for
    /// a variable, and the repository for a file.
    fn base_of_agents(&self, set: &BTreeMap<String, (Value, Origin)>) -> Result<PathBuf> {
        match set.get("agent") {
            Some((_, Origin::Variable(_) | Origin::Flag)) => {
                env::current_dir().context("the working directory is gone")
            }
            Some((_, Origin::File(..) | Origin::Default)) | None => Ok(self.root.clone()),
        }
    }

    /// Reads the files again if one of them has changed, and returns the names of the changed
    /// settings. Returns none if no file has changed. After an error, the next change is awaited.
    ///
    /// # Errors
    /// As [`ConfigLayers::read`].
    pub fn refresh(&mut self) -> Result<Option<(Config, Vec<String>)>> {
        if self.files.iter().all(|file| state::stamp(&file.path).ok() == file.stamp) {
            return Ok(None);
        }
        let before = self.set.clone();
        let config = self.read()?;
        let value = |set: &BTreeMap<String, (Value, Origin)>, key: &str| {
            set.get(key).map(|(value, _)| value.clone())
        };
        let changed = Config::keys()
            .iter()
            .filter(|key| value(&before, key) != value(&self.set, key))
            .cloned()
            .collect();
        Ok(Some((config, changed)))
    }

    /// Takes the files as read without using them: they changed at a time when nothing tells who
    /// changed them. Returns the names of those with another text.
    pub fn pass_over(&mut self) -> Vec<String> {
        let mut changed = Vec::new();
        for file in &mut self.files {
            let stamp = state::stamp(&file.path).ok();
            if stamp == file.stamp {
                continue;
            }
            file.stamp = stamp;
            if regular_file::read_to_string(&file.path).ok() != file.text {
                changed.push(file.name.clone());
            }
        }
        changed
    }

    /// The settings file of the project, relative to the repository, and its text when it was last
    /// used; none if the file is outside.
    pub fn own_text(&self) -> Option<(String, Option<&str>)> {
        let own = self.files.last()?;
        let path = own.path.strip_prefix(&self.root).ok()?;
        Some((path.to_str()?.to_owned(), own.text.as_deref()))
    }

    /// Returns all settings by name, with their values and sources.
    pub fn all(&self) -> Vec<(String, Value, Origin)> {
        let defaults = Config::default().to_layer();
        let of = |(key, value)| match self.set.get(&key) {
            Some((value, origin)) => (key, value.clone(), origin.clone()),
            None => (key, value, Origin::Default),
        };
        defaults.into_iter().map(of).collect()
    }
}

/// Returns the variables that look like a misspelled setting, each with the probable name.
pub fn misspelt() -> Vec<(String, String)> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let near = |name: String| {
        let key = name.strip_prefix(PREFIX)?.to_lowercase();
        if Config::keys().contains(&key) {
            return None;
        }
        let near = nearest(&key, Config::keys().iter().map(String::as_str))?;
        Some((name, variable(near)))
    };
    names.filter_map(near).collect()
}

fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase())
}

/// Returns the settings in the variables of this process. An empty variable sets nothing.
fn variables() -> Result<ConfigLayer> {
    let mut layer = ConfigLayer::new();
    for key in retired::names(RetiredKind::Setting) {
        let name = variable(key);
        if let Some(instead) = replacement(RetiredKind::Setting, key)
            && env::var_os(&name).is_some_and(|text| !text.is_empty())
        {
            let fault = format!("setting `{key}` is gone: {instead}");
            return Err(refused(&Origin::Variable(name), &fault));
        }
    }
    for key in Config::keys() {
        let name = variable(key);
        let Some(text) = env::var_os(&name).filter(|text| !text.is_empty()) else {
            continue;
        };
        let text = text.to_string_lossy();
        let value = read_variable(key, &text)
            .map_err(|fault| refused(&Origin::Variable(name.clone()), &fault))?;
        layer.insert(key.clone(), value);
    }
    Ok(layer)
}

/// Reads a value as in a file. If that fails, takes the text itself: a pattern needs no quotes.
fn read_variable(key: &str, text: &str) -> Result<Value, String> {
    let document = Document::parse(text).ok();
    let written = document.and_then(|document| typed::<Value>(&document).ok());
    if let Some(value) = written.filter(|value| Config::fault(key, value).is_none()) {
        return Ok(value);
    }
    let bare = Value::String(text.to_owned());
    Config::fault(key, &bare).map_or(Ok(bare), Err)
}

/// The error for settings that no file contains.
fn refused(origin: &Origin, what: &str) -> anyhow::Error {
    let (exit, whose) = match origin {
        Origin::Flag => (Exit::Usage, "the flags".to_owned()),
        Origin::Default | Origin::File(..) | Origin::Variable(_) => {
            (Exit::Invalid, origin.to_string())
        }
    };
    Failure::new(exit, format!("{whose}: {what}")).into()
}

/// The place of the word that a fault is about, or else of the setting.
fn place_of(text: &str, fault: &SettingFault) -> Option<Range<usize>> {
    let document = Document::parse(text).ok()?;
    let tree = document.tree();
    let (key, value) = tree.entry(text, tree.root()?, fault.setting)?;
    let whole = tree.range(value);
    let is_word = |node: &Node<'_>| {
        let at = node.range();
        whole.contains(&at.start) && node.written().trim_matches(['\'', '"']) == fault.word
    };
    let word = document.nodes().find(is_word).map(Node::range);
    Some(word.unwrap_or_else(|| tree.range(key)))
}

/// Reads a text into a type.
///
/// # Errors
/// The first error.
fn typed<T: DeserializeOwned>(document: &Document) -> Result<T, Vec<Diagnostic>> {
    let text = document.text();
    let mut written = document.nodes().filter(|node| node.kind() == NodeKind::Plain);
    if let Some(node) = written.find(|node| is_not_finite(node.written())) {
        let words = format!("`{}` is not a number; in quotes it is a text", node.written());
        return Err(vec![Diagnostic::error(words, node.range())]);
    }
    // libyaml takes a byte order mark before a mapping for a separate document.
    let bare = text.trim_start_matches('\u{feff}');
    serde_yaml::from_str(bare).map_err(|error| {
        let skipped = text.len() - bare.len();
        let at = error.location().map_or(0, |place| (place.index() + skipped).min(text.len()));
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let message = error.to_string();
        // The diagnostic shows the location, so the message must not repeat it.
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        vec![Diagnostic::error(message, at..at)]
    })
}

/// Whether a plain scalar is one of YAML's numbers that are none, which would stand for no limit.
fn is_not_finite(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    matches!(digits.as_str(), ".nan" | ".inf")
}

/// Returns the settings in a file, each with its line.
fn parse(text: &str) -> Result<BTreeMap<String, (Value, usize)>, Vec<Diagnostic>> {
    let document = Document::parse(text).map_err(|fault| vec![load::diagnostic(fault)])?;
    let tree = document.tree();
    let Some(root) = tree.root() else {
        return Ok(BTreeMap::new());
    };
    let layer: Option<ConfigLayer> = typed(&document)?;
    let layer = layer.unwrap_or_default();
    let mut faults = Vec::new();
    let mut found = BTreeMap::new();
    for (key, value) in tree.entries(root) {
        let Some(name) = tree.scalar(text, key) else {
            continue;
        };
        if !Config::keys().iter().any(|known| *known == *name) {
            let known = Config::keys().iter().map(String::as_str);
            let shown = name.escape_debug();
            faults.push(match replacement(RetiredKind::Setting, &name) {
                Some(instead) => Diagnostic::error(
                    format!("setting `{shown}` is gone: {instead}"),
                    tree.range(key),
                ),
                None => Diagnostic::error(format!("unknown setting `{shown}`"), tree.range(key))
                    .help("`ralph config` lists the settings")
                    .did_you_mean(elsewhere(&name).or_else(|| nearest(&name, known))),
            });
            continue;
        }
        let given = layer.get(&*name).cloned().unwrap_or_default();
        if let Some(words) = Config::fault(&name, &given) {
            faults.push(Diagnostic::error(words, tree.range(value)));
            continue;
        }
        let line = text[..tree.range(key).start].matches('\n').count() + 1;
        found.insert(name.to_string(), (given, line));
    }
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

/// Returns the setting that does what a setting of another loop does there.
fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "completion_promise" => "promise_text",
        "scheduler" | "cron" => "schedule",
        "max_runtime" | "max_runtime_seconds" | "time_limit" => "max_duration",
        "idle_timeout" | "idle_timeout_secs" | "inactivity_timeout" => "idle",
        "max_retries" | "retries" => "max_attempts",
        "parallel" | "concurrency" | "workers" => "jobs",
        "worktree" | "worktrees" => "isolation",
        "cli" | "backend" | "command" => "agent",
        "max_cost_usd" | "budget" => "max_cost",
        // Git keeps every attempt; this is the nearest there is.
        "checkpoint_interval" => "autocommit",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_read_with_the_line_of_each_setting() {
        let set = parse("# mine\ntimeout: 15m\n\nagent: [sh, -c, cat]\n").unwrap();
        assert_eq!(set["timeout"], (json!("15m"), 2));
        assert_eq!(set["agent"], (json!(["sh", "-c", "cat"]), 4));
        assert!(parse("# nothing yet\n").unwrap().is_empty());
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn every_error_in_a_file_has_its_location() {
        let text = "max_iteration: 3\ntimeout: 90\nautocommit:\n  - x\n";
        let faults = parse(text).unwrap_err();
        let told: Vec<(&str, &str)> =
            faults.iter().map(|fault| (fault.message.as_str(), &text[fault.at.clone()])).collect();
        assert_eq!(told[0], ("unknown setting `max_iteration`", "max_iteration"));
        assert_eq!(faults[0].help.as_deref(), Some("did you mean `max_iterations`?"));
        let faults = parse("completion_promise: x\n").unwrap_err();
        assert!(faults[0].help.as_deref().unwrap().contains("`promise_text`"), "{faults:?}");
        assert!(told[1].0.starts_with("`timeout`: `90` is not") && told[1].1 == "90");
        assert!(told[2].0.starts_with("`autocommit`: invalid type: sequence"));
        assert_eq!(parse("- a\n").unwrap_err().len(), 1);
        for text in [
            "max_cost: .nan\n",
            "max_cost: -.Inf\n",
            "max_duration: +.INF\n",
            "limits: {a: .NaN}\n",
        ] {
            let faults = parse(text).unwrap_err();
            assert!(faults[0].message.contains("is not a number"), "{faults:?}");
        }
        assert_eq!(parse("slot_dir: '.nan'\n").unwrap()["slot_dir"].0, ".nan");
    }

    #[test]
    fn a_variable_is_read_like_a_value_in_a_file_or_as_text() {
        for (key, text, value) in [
            ("timeout", "90s", json!("90s")),
            ("max_iterations", "5", json!(5)),
            ("max_cost", "2.50", json!(2.5)),
            ("agent", "claude", json!("claude")),
            ("agent", "[claude, codex]", json!(["claude", "codex"])),
            ("done_pattern", "[ab]", json!("[ab]")),
            ("done_pattern", "[a-z]+ done", json!("[a-z]+ done")),
            ("autocommit", "false", json!(false)),
            ("verify", "make test", json!("make test")),
        ] {
            assert_eq!(read_variable(key, text), Ok(value), "{key}={text}");
        }
        assert!(read_variable("max_iterations", "many").unwrap_err().contains("many"));
        assert!(read_variable("max_cost", ".inf").unwrap_err().contains("expected a number"));
    }
}
