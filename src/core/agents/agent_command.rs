//! The command that starts an agent, from the name of a preset, a command line, or a mapping.
//!
//! Settings, tasks and flags are read alike. Nothing is started here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agents::{
        agent_preset::{self, AgentPreset},
        transcript::Format,
    },
    diagnostic::nearest,
    redact::{Redactor, is_secret_variable},
};

/// The command of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCommand {
    /// Its name in the journal. Limits of its provider are recorded under this name.
    pub name: String,
    /// The program and its arguments. It reads the prompt from standard input.
    pub argv: Vec<String>,
    /// The format of its output.
    #[serde(default)]
    pub output: Format,
    /// Variables added to its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// A command that prints its version and exits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version_check: Vec<String>,
}

impl AgentCommand {
    /// Returns the command of a preset.
    pub fn preset(name: &str) -> Option<AgentCommand> {
        agent_preset::find(name).map(|preset| AgentCommand::of(preset, words(preset.argv)))
    }

    /// Makes an agent of a command line. A known program gets the environment and the output format
    /// of its preset.
    pub fn command(argv: Vec<String>) -> AgentCommand {
        let program = argv.first().map_or("", String::as_str);
        let name = program.rsplit('/').next().unwrap_or_default();
        let Some(preset) = agent_preset::find(name) else {
            let name = name.to_owned();
            let (output, env, version_check) = Default::default();
            return AgentCommand { name, argv, output, env, version_check };
        };
        let is_typed = preset.typed.is_empty() || has_any(&argv, preset.typed);
        let output = if is_typed { preset.format } else { Format::Text };
        AgentCommand { output, ..AgentCommand::of(preset, argv) }
    }

    /// Its preset, if `ralph` knows it.
    pub fn known(&self) -> Option<&'static AgentPreset> {
        agent_preset::of_command(&self.name, self.argv.first().map_or("", String::as_str))
    }

    /// Whether it was given as a single word, which may be a name.
    pub fn is_word(&self) -> bool {
        AgentCommand::word(&self.name).is_ok_and(|word| word == *self)
    }

    /// Whether it uses processor time while it waits.
    pub fn is_restless(&self) -> bool {
        self.known().is_some_and(|preset| preset.is_restless)
    }

    /// The name of its preset, if it has one.
    pub fn preset_name(&self) -> Option<String> {
        self.known().map(|preset| preset.name.to_owned())
    }

    /// Whether it prints the messages and actions of its model live, in a format known to `ralph`.
    pub fn streams(&self) -> bool {
        let at_end = self.known().map_or(&[][..], |preset| preset.at_end);
        self.output != Format::Text && !has_any(&self.argv, at_end)
    }

    /// Its command line, with a limit on the cost of an attempt in US dollars, at least a cent, where it
    /// takes one and has none of its own.
    pub fn argv_within(&self, left: Option<f64>) -> Vec<String> {
        let mut argv = self.argv.clone();
        let flag = self.known().and_then(|preset| preset.budget);
        if let (Some(left), Some(flag)) = (left, flag)
            && !has_flag(&argv, flag)
        {
            argv.extend([flag.to_owned(), format!("{:.2}", left.max(0.01))]);
        }
        argv
    }

    /// Whether its output has the cost of an attempt.
    pub fn reports_cost(&self) -> bool {
        match self.output {
            Format::ClaudeJson => self.known().is_none_or(|preset| preset.name != "qwen"),
            Format::OpencodeJson | Format::PiJson => true,
            Format::Text | Format::CodexJson | Format::GeminiJson | Format::CopilotJson => false,
        }
    }

    /// Whether it can resume a conversation, which its output names.
    pub fn can_resume(&self) -> bool {
        self.output != Format::Text
            && self.known().is_some_and(|preset| {
                let mut barred = preset.no_resume.iter();
                preset.resume.is_some() && !barred.any(|flag| has_flag(&self.argv, flag))
            })
    }

    /// Returns it with the command line that resumes this conversation.
    #[must_use]
    pub fn resumed(mut self, conversation: &str) -> AgentCommand {
        if let Some(word) = self.known().and_then(|preset| preset.resume) {
            self.insert(&[word, conversation]);
        }
        self
    }

    /// The word of its command line with which it runs commands without asking for permission.
    pub fn unasked(&self) -> Option<&'static str> {
        self.known()?.unasked.filter(|word| has_any(&self.argv, &[word]))
    }

    /// Whether its model can only edit files that git does not ignore, and run no command.
    pub fn edits_only(&self) -> bool {
        self.known().is_some_and(|preset| preset.edits_only)
    }

    fn of(preset: &AgentPreset, argv: Vec<String>) -> AgentCommand {
        let env = preset.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        AgentCommand {
            name: preset.name.to_owned(),
            argv,
            output: preset.format,
            env: env.collect(),
            version_check: words(preset.version),
        }
    }

    /// Reads the agents of `agent:`, in the order they are tried. The value is the name of a
    /// preset, a command line as a list of words, a mapping, or a list of names and mappings.
    ///
    /// # Errors
    /// A message for people.
    pub fn read(value: &Value) -> Result<Vec<AgentCommand>, String> {
        match value {
            Value::String(word) => Ok(vec![AgentCommand::word(word)?]),
            Value::Object(_) => Ok(vec![AgentCommand::mapping(value)?]),
            Value::Array(items) if items.is_empty() => Err(WANTED.to_owned()),
            Value::Array(items) if items.iter().all(is_agent) => items
                .iter()
                .map(|item| match item.as_str() {
                    Some(word) => AgentCommand::word(word),
                    None => AgentCommand::mapping(item),
                })
                .collect(),
            Value::Array(items) => {
                let words: Option<Vec<String>> =
                    items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                match words {
                    Some(argv) if !argv[0].trim().is_empty() => {
                        Ok(vec![AgentCommand::command(argv)])
                    }
                    _ => Err(WANTED.to_owned()),
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Err(WANTED.to_owned()),
        }
    }

    /// Returns the command without secrets in its words, and without the variables that hold one.
    #[must_use]
    pub fn redacted(self, secrets: &Redactor) -> AgentCommand {
        let clean = |text: String| secrets.clone().text(&text);
        let env = self
            .env
            .into_iter()
            .filter(|(name, value)| !is_secret_variable(name, value.as_bytes()));
        AgentCommand {
            argv: self.argv.into_iter().map(clean).collect(),
            env: env.map(|(name, value)| (name, clean(value))).collect(),
            ..self
        }
    }

    fn word(word: &str) -> Result<AgentCommand, String> {
        if word.trim().is_empty() {
            return Err(WANTED.to_owned());
        }
        if word.contains(char::is_whitespace) {
            let list = word.split_whitespace().collect::<Vec<_>>().join(", ");
            return Err(format!("a command line is a list of words: `agent: [{list}]`"));
        }
        Ok(AgentCommand::preset(word)
            .unwrap_or_else(|| AgentCommand::command(vec![word.to_owned()])))
    }

    fn mapping(value: &Value) -> Result<AgentCommand, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Mapping {
            name: Option<String>,
            preset: Option<String>,
            model: Option<String>,
            fallback_model: Option<String>,
            command: Option<Vec<String>>,
            output: Option<String>,
            #[serde(default)]
            env: BTreeMap<String, String>,
            version_check: Option<Vec<String>>,
        }
        let given: Mapping =
            serde_json::from_value(value.clone()).map_err(|error| format!("`agent`: {error}"))?;
        let mut call = match (given.preset, given.command) {
            (Some(name), command) => {
                let call =
                    AgentCommand::preset(&name).ok_or_else(|| unknown("preset", &name, names()))?;
                AgentCommand { argv: command.unwrap_or(call.argv.clone()), ..call }
            }
            (None, Some(argv)) if !argv.is_empty() => AgentCommand::command(argv),
            (None, _) => return Err("`agent` as a mapping needs `command` or `preset`".to_owned()),
        };
        if let Some(model) = given.model {
            call.set("model", |preset| preset.model, &model)?;
        }
        if let Some(models) = given.fallback_model {
            call.set("fallback model", |preset| preset.fallback, &models)?;
        }
        if let Some(output) = given.output {
            let found = Format::ALL.iter().find(|(name, _)| *name == output);
            let formats = || Format::ALL.iter().map(|(name, _)| *name);
            call.output = found.ok_or_else(|| unknown("output", &output, formats()))?.1;
        }
        call.name = given.name.unwrap_or(call.name);
        call.version_check = given.version_check.unwrap_or(call.version_check);
        call.env.extend(given.env);
        Ok(call)
    }

    /// Adds a flag of its preset, with this value.
    fn set(
        &mut self,
        what: &str,
        flag: fn(&AgentPreset) -> Option<&'static str>,
        value: &str,
    ) -> Result<(), String> {
        let Some(flag) = self.known().and_then(flag) else {
            let name = &self.name;
            return Err(format!(
                "`ralph` knows no flag for the {what} of `{name}`; put it into `command`"
            ));
        };
        self.insert(&[flag, value]);
        Ok(())
    }

    /// Adds words to its command line.
    fn insert(&mut self, added: &[&str]) {
        // `-` stands for standard input and comes last.
        let at = self.argv.len() - usize::from(self.argv.last().is_some_and(|word| word == "-"));
        self.argv.splice(at..at, words(added));
    }
}

const WANTED: &str = "`agent` must be a preset such as `claude`, a command as a list of words such \
                      as [claude, -p], a mapping with `command`, or a list of presets and mappings";

/// Whether an item of a list is an agent rather than a word of a command line.
fn is_agent(item: &Value) -> bool {
    item.is_object() || item.as_str().is_some_and(|word| agent_preset::find(word).is_some())
}

/// Whether a command line contains any of these words, also as `--flag=word`.
fn has_any(argv: &[String], words: &[&str]) -> bool {
    let value = |given: &str| given.split_once('=').map(|(_, value)| value.to_owned());
    let is_one = |given: &String| {
        words.contains(&given.as_str())
            || value(given).is_some_and(|value| words.contains(&value.as_str()))
    };
    argv.iter().any(is_one)
}

/// Whether a command line contains this flag, also as `--flag=value`.
fn has_flag(argv: &[String], flag: &str) -> bool {
    argv.iter().any(|word| word.split('=').next() == Some(flag))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn names() -> impl Iterator<Item = &'static str> {
    agent_preset::ALL.iter().map(|preset| preset.name)
}

fn unknown<'a>(what: &str, given: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    match nearest(given, known.iter().copied()) {
        Some(near) => format!("unknown {what} `{given}`; did you mean `{near}`?"),
        None => format!("unknown {what} `{given}`; use one of {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Vec<(String, String, Format)> {
        let calls = AgentCommand::read(value).unwrap();
        calls.into_iter().map(|call| (call.name, call.argv.join(" "), call.output)).collect()
    }

    #[test]
    fn an_agent_is_a_name_a_command_or_a_mapping() {
        let one = |name: &str, argv: &str, format| (name.to_owned(), argv.to_owned(), format);
        let aider = "aider --yes-always --no-gitignore --message-file /dev/stdin";
        assert_eq!(read(&json!("aider")), [one("aider", aider, Format::Text)]);
        assert_eq!(read(&json!("./my.sh")), [one("my.sh", "./my.sh", Format::Text)]);
        let with_model = read(&json!({"preset": "codex", "model": "o9"})).remove(0).1;
        assert!(with_model.ends_with("--json --model o9 -"), "{with_model}");
        let amp = AgentCommand::read(&json!({"preset": "amp", "model": "o9"})).unwrap_err();
        assert!(amp.contains("no flag for the model of `amp`"), "{amp}");
        let fallback =
            |preset: &str| AgentCommand::read(&json!({"preset": preset, "fallback_model": "a,b"}));
        let claude = fallback("claude").unwrap().remove(0).argv.join(" ");
        assert!(claude.ends_with(" --verbose --fallback-model a,b"), "{claude}");
        let codex = fallback("codex").unwrap_err();
        assert!(codex.contains("no flag for the fallback model of `codex`"), "{codex}");
        assert_eq!(read(&json!(["sh", "-c", "x"])), [one("sh", "sh -c x", Format::Text)]);
        assert_eq!(read(&json!(["claude", "-p"])), [one("claude", "claude -p", Format::Text)]);
        let names: Vec<_> = read(&json!(["claude", "codex"])).into_iter().map(|c| c.0).collect();
        assert_eq!(names, ["claude", "codex"]);
        let typed = json!(["/opt/claude", "--output-format", "stream-json", "--verbose"]);
        assert_eq!(read(&typed)[0].2, Format::ClaudeJson);
        let claude = |words: &[&str]| {
            let argv = ["claude", "-p"].iter().chain(words).map(|word| (*word).to_owned());
            let call = AgentCommand::command(argv.collect());
            (call.output, call.streams())
        };
        for words in [&["--output-format", "json"][..], &["--output-format=json"]] {
            assert_eq!(claude(words), (Format::ClaudeJson, false));
        }
        assert_eq!(claude(&["--output-format=stream-json"]), (Format::ClaudeJson, true));
        assert_eq!(claude(&["--output-format", "text"]), (Format::Text, false));
        assert_eq!(
            read(
                &json!([{"command": ["x", "y"], "output": "codex-json", "name": "second"}, "codex"])
            )[0],
            one("second", "x y", Format::CodexJson)
        );
        let env = AgentCommand::read(&json!({"preset": "claude", "env": {"A": "b"}})).unwrap();
        assert_eq!((env[0].env["A"].as_str(), env[0].argv[0].as_str()), ("b", "claude"));
    }

    #[test]
    fn a_conversation_is_resumed_by_agents_that_can() {
        let call = |value: Value| AgentCommand::read(&value).unwrap().remove(0);
        let resumed = |value: Value| {
            let call = call(value);
            assert!(call.can_resume());
            let whole = call.argv.join(" ");
            let resumed = call.resumed("c1").argv.join(" ");
            (whole, resumed)
        };
        let (whole, claude) = resumed(json!("claude"));
        assert_eq!(claude, format!("{whole} --resume c1"));
        let wrapped = json!({"preset": "claude", "command": ["./wrapped", "--fast"]});
        assert_eq!(resumed(wrapped).1, "./wrapped --fast --resume c1");
        assert!(resumed(json!("codex")).1.ends_with(" --json resume c1 -"));
        assert!(resumed(json!("opencode")).1.ends_with(" --auto --session c1"));
        for name in ["gemini", "amp", "copilot", "aider", "./my.sh"] {
            assert!(!call(json!(name)).can_resume(), "{name}");
        }
        for words in
            ["-p", "--output-format=json --no-session-persistence", "--output-format=json -c"]
        {
            let argv: Vec<&str> = ["claude"].into_iter().chain(words.split(' ')).collect();
            assert!(!call(json!(argv)).can_resume(), "{words}");
        }
    }

    #[test]
    fn an_invalid_agent_is_reported() {
        for (value, part) in [
            (json!([]), "must be a preset"),
            (json!(""), "must be a preset"),
            (json!(3), "must be a preset"),
            (json!("claude -p"), "`agent: [claude, -p]`"),
            (json!({"preset": "clade"}), "did you mean `claude`?"),
            (json!({"command": ["x"], "output": "claude_json"}), "did you mean `claude-json`?"),
            (json!({"output": "text"}), "needs `command` or `preset`"),
            (json!({"comand": ["x"]}), "unknown field `comand`"),
        ] {
            let error = AgentCommand::read(&value).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
