//! What an agent tells on its standard output, read while it comes.
//!
//! One [`TranscriptReader`] per attempt takes bytes with any borders and keeps, in bounded memory, what
//! the agent does now, what it said last, how it ended and what it used. Knows no process and no
//! clock, and judges nothing: what an error means is `obstacle`'s affair.
//!
//! The formats were read off recordings of the real programs. What they share: events that are
//! unknown or cannot be read are skipped, never fatal, and no field is taken for granted.

mod aider;
mod claude;
mod codex;
mod copilot;
mod gemini;
mod hear;
mod lines;
mod opencode;
mod text;

use std::{collections::BTreeMap, fmt};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use hear::Ear;
pub use hear::Heard;
use lines::LineSplitter;

/// Bytes that are kept of a message or a result.
const MESSAGE: usize = 64 << 10;
/// Bytes that are kept of a name, a code or a phrase.
const PHRASE: usize = 200;
/// Different tools that are counted by name; the rest are counted together.
const TOOLS: usize = 100;

/// How an agent's output is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Words for people. Only the end is kept.
    #[default]
    Text,
    /// Claude Code with `--output-format stream-json --verbose` or `json`; amp with `--stream-json`.
    ClaudeJson,
    /// `codex exec --json`.
    CodexJson,
    /// `gemini --output-format stream-json`.
    GeminiJson,
    /// `opencode run --format json`.
    OpencodeJson,
    /// `copilot --output-format json`.
    CopilotJson,
    /// aider's words. It exits with code 0 whatever happened, so its error lines are its result.
    Aider,
}

impl Format {
    /// All of them, with the names they have in the settings.
    pub const ALL: &[(&str, Format)] = &[
        ("text", Format::Text),
        ("claude-json", Format::ClaudeJson),
        ("codex-json", Format::CodexJson),
        ("gemini-json", Format::GeminiJson),
        ("opencode-json", Format::OpencodeJson),
        ("copilot-json", Format::CopilotJson),
        ("aider", Format::Aider),
    ];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Format::ALL.iter().find(|(_, format)| format == self).map_or("", |(name, _)| name))
    }
}

/// Tokens, each counted once: what was read from the cache is not in `input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Sent, and not in the cache.
    pub input: u64,
    /// Written by the model, thoughts included.
    pub output: u64,
    /// Sent and found in the cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Sent and put into the cache.
    #[serde(default)]
    pub cache_write: u64,
}

impl Tokens {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

/// What an attempt used, as far as its agent said. What it did not say is none, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// In US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Of all turns. Of a stream that was cut, what had been told until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Rounds with the model, as the agent counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The model it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The agent's own word on how it ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalResult {
    /// Its answer or its error, at most 64 KiB.
    pub text: String,
    /// Whether it says that it failed.
    pub is_error: bool,
    /// The status of the request that failed.
    pub status: Option<u16>,
    /// The agent's own names for what went wrong.
    pub codes: Vec<String>,
    /// When the limit is lifted that it has met, if it told so as data.
    pub resets_at: Option<DateTime<Utc>>,
}

/// What an agent has told so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentTranscript {
    /// What it does now, in one short line. Raw text: whoever shows it makes it harmless.
    pub doing: Option<String>,
    /// What it said last, at most 64 KiB; of a text the end, of anything else the beginning. Of a
    /// text it is there after [`TranscriptReader::finish`].
    pub message: Option<String>,
    /// Its last result. A process may give several; the last one counts.
    pub end: Option<FinalResult>,
    /// Whether nothing has begun since that result, so that the process should be about to exit.
    pub is_over: bool,
    /// How often it used which tool.
    pub tools: BTreeMap<String, u64>,
    /// What it used.
    pub usage: Usage,
    /// Its own id for the conversation.
    pub conversation: Option<String>,
    /// How many of its background tasks still run. It stays for them after its result.
    pub background: usize,
    /// The last line that is not blank and no event, at most 500 characters.
    pub last_line: Option<String>,
    /// Whether there was anything but white space.
    pub has_spoken: bool,
    /// Lines that were too long to be read.
    pub skipped: u64,
    /// Whoever listens along.
    ear: Option<Box<Ear>>,
}

impl AgentTranscript {
    /// It uses a tool: counts it, and says so.
    fn uses(&mut self, tool: &str, target: Option<&str>) {
        let mut tool = cut(tool, PHRASE);
        let doing = phrase(&format!("{tool} {}", target.unwrap_or_default()));
        if let Some(ear) = &mut self.ear {
            ear.hear(Heard::Uses(doing.clone()));
        }
        self.doing = Some(doing);
        if self.tools.len() >= TOOLS && !self.tools.contains_key(&tool) {
            "…".clone_into(&mut tool);
        }
        *self.tools.entry(tool).or_default() += 1;
    }

    fn says(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if let Some(ear) = &mut self.ear {
            ear.hear_words(text);
        }
        self.doing = text.lines().map(phrase).find(|line| !line.is_empty());
        self.message = Some(cut(text, MESSAGE));
    }

    fn does(&mut self, what: &str) {
        self.doing = Some(phrase(what));
    }

    /// It waits for its provider.
    fn waits(&mut self, why: &str) {
        self.does(&format!("waiting for the provider ({why})"));
        if let (Some(ear), Some(doing)) = (&mut self.ear, &self.doing) {
            ear.hear(Heard::Uses(doing.clone()));
        }
    }

    /// Something has begun: a result so far was not the end.
    fn goes_on(&mut self) {
        self.is_over = false;
    }

    fn turn(&mut self) {
        self.goes_on();
        self.usage.turns = Some(self.usage.turns.unwrap_or(0).saturating_add(1));
    }

    fn ends(&mut self, end: FinalResult) {
        if let (Some(ear), true) = (&mut self.ear, end.is_error) {
            ear.hear_failure(&end.text);
        }
        self.doing = None;
        self.is_over = true;
        self.end = Some(end);
    }

    fn converses(&mut self, id: &Value) {
        if let Some(id) = id.as_str() {
            self.conversation = Some(cut(id, PHRASE));
        }
    }

    fn runs_on(&mut self, model: Option<&str>) {
        // `<synthetic>` is not a model.
        if let Some(model) = model.filter(|name| !name.starts_with('<')) {
            self.usage.model.get_or_insert_with(|| cut(model, PHRASE));
        }
    }

    fn spends(&mut self, tokens: Tokens) {
        self.usage.tokens = Some(self.usage.tokens.unwrap_or_default().plus(tokens));
    }
}

/// The beginning of a text, at most so many bytes of it.
fn cut(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// One line of at most 100 characters, with single spaces.
fn phrase(text: &str) -> String {
    const LENGTH: usize = 100;
    let mut line = String::new();
    for word in cut(text, 4 * LENGTH).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.chars().count() > LENGTH {
        line = line.chars().take(LENGTH - 1).chain(['…']).collect();
    }
    line
}

/// What a tool is used on, out of its input.
fn target(input: &Value) -> Option<&str> {
    const KEYS: &[&str] = &[
        "command",
        "file_path",
        "filePath",
        "path",
        "notebook_path",
        "pattern",
        "query",
        "url",
        "description",
    ];
    input.as_str().or_else(|| KEYS.iter().find_map(|key| input[*key].as_str()))
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// An amount of money, if it is one.
fn dollars(value: &Value) -> Option<f64> {
    value.as_f64().filter(|amount| amount.is_finite() && *amount >= 0.0)
}

fn http_status(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|status| u16::try_from(status).ok())
}

/// A name for what went wrong, if there is one.
fn code(value: &Value) -> Option<String> {
    value.as_str().filter(|code| !code.is_empty()).map(|code| cut(code, PHRASE))
}

/// Reads an agent's output.
#[derive(Debug)]
pub struct TranscriptReader {
    reader: FormatReader,
    lines: LineSplitter,
    told: AgentTranscript,
}

/// What each format has to remember between events.
#[derive(Debug)]
enum FormatReader {
    Text(text::TextReader),
    Aider(aider::AiderReader),
    Claude(claude::ClaudeReader),
    Codex(codex::CodexReader),
    Gemini(gemini::GeminiReader),
    Opencode(opencode::OpencodeReader),
    Copilot(copilot::CopilotReader),
}

impl TranscriptReader {
    /// Nothing read yet.
    pub fn new(format: Format) -> TranscriptReader {
        let reader = match format {
            Format::Text => FormatReader::Text(text::TextReader::default()),
            Format::ClaudeJson => FormatReader::Claude(claude::ClaudeReader::default()),
            Format::CodexJson => FormatReader::Codex(codex::CodexReader::default()),
            Format::GeminiJson => FormatReader::Gemini(gemini::GeminiReader::default()),
            Format::OpencodeJson => FormatReader::Opencode(opencode::OpencodeReader::default()),
            Format::CopilotJson => FormatReader::Copilot(copilot::CopilotReader::default()),
            Format::Aider => FormatReader::Aider(aider::AiderReader::default()),
        };
        TranscriptReader {
            reader,
            lines: LineSplitter::default(),
            told: AgentTranscript::default(),
        }
    }

    /// The same, for somebody who listens along.
    #[must_use]
    pub fn aloud(mut self) -> TranscriptReader {
        self.told.ear = Some(Box::default());
        self
    }

    /// What was heard since this was asked last; nothing of words for people.
    pub fn heard(&mut self) -> Vec<Heard> {
        self.told.ear.as_mut().map_or_else(Vec::new, |ear| ear.take())
    }

    /// Takes the next bytes, wherever they were cut.
    pub fn push(&mut self, bytes: &[u8]) {
        if let FormatReader::Text(reader) = &mut self.reader {
            reader.take(&mut self.told, bytes);
            return;
        }
        let TranscriptReader { reader, lines, told } = self;
        lines.push(bytes, |line| reader.line(told, line));
        told.skipped = lines.skipped;
    }

    /// What has been told so far.
    pub fn told(&self) -> &AgentTranscript {
        &self.told
    }

    /// The stream is at its end, perhaps in the middle of a line.
    pub fn finish(mut self) -> AgentTranscript {
        match &mut self.reader {
            FormatReader::Text(reader) => reader.finish(&mut self.told),
            FormatReader::Aider(reader) => {
                reader.line(&mut self.told, &self.lines.rest());
                reader.finish(&mut self.told);
            }
            reader => reader.line(&mut self.told, &self.lines.rest()),
        }
        self.told
    }
}

impl FormatReader {
    fn line(&mut self, told: &mut AgentTranscript, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        told.has_spoken = true;
        if let FormatReader::Aider(reader) = self {
            reader.line(told, line);
            return;
        }
        let events = lines::events(line);
        if events.is_empty() {
            let line = String::from_utf8_lossy(line);
            if let Some(ear) = &mut told.ear {
                ear.hear(Heard::Prints(cut(line.trim_end(), MESSAGE)));
            }
            told.last_line = Some(text::short(&line));
        }
        for event in &events {
            match self {
                FormatReader::Claude(reader) => reader.event(told, event),
                FormatReader::Codex(reader) => reader.event(told, event),
                FormatReader::Gemini(reader) => reader.event(told, event),
                FormatReader::Opencode(reader) => reader.event(told, event),
                FormatReader::Copilot(reader) => reader.event(told, event),
                FormatReader::Text(_) | FormatReader::Aider(_) => {}
            }
        }
    }
}
