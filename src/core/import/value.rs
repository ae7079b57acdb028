//! The values of a source in JSON or YAML, with their bytes.

use std::{borrow::Cow, fmt, ops::Range};

use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, value::RawValue};

use super::SourceLink;
use crate::{
    diagnostic::Diagnostic,
    graph::yaml::{Node, NodeId, Scalar, Tree},
};

/// A value and its bytes.
#[derive(Clone, Debug)]
pub(super) struct SourceValue {
    pub(super) at: Range<usize>,
    kind: SourceKind,
}

/// What a value is.
#[derive(Clone, Debug)]
enum SourceKind {
    Null,
    Bool(bool),
    /// A number, as it is written.
    Number(String),
    Text(String),
    List(Vec<SourceValue>),
    Map(Vec<SourceEntry>),
}

/// An entry of a mapping.
#[derive(Clone, Debug)]
pub(super) struct SourceEntry {
    pub(super) name: String,
    pub(super) key_at: Range<usize>,
    pub(super) value: SourceValue,
}

impl SourceValue {
    /// A text at this place.
    pub(super) fn of_text(text: impl Into<String>, at: Range<usize>) -> SourceValue {
        SourceValue { at, kind: SourceKind::Text(text.into()) }
    }

    /// Reads a node of a YAML text, which starts at an offset of the whole text.
    pub(super) fn of_yaml(text: &str, tree: &Tree, node: NodeId, start: usize) -> SourceValue {
        SourceValue::of_node(Node::new(text, tree, node), start)
    }

    fn of_node(node: Node<'_>, start: usize) -> SourceValue {
        let shifted = |at: Range<usize>| at.start + start..at.end + start;
        let text = |node: Node<'_>| node.text().unwrap_or_default().into_owned();
        let kind = match node.scalar() {
            Some(Scalar::Null) => SourceKind::Null,
            Some(Scalar::Bool(flag)) => SourceKind::Bool(flag),
            Some(Scalar::Number(_)) => SourceKind::Number(text(node)),
            Some(Scalar::Text(text)) => SourceKind::Text(text.into_owned()),
            None if node.is_list() => {
                let items = node.items().map(|item| SourceValue::of_node(item, start));
                SourceKind::List(items.collect())
            }
            None => {
                let entry = |(key, value): (Node<'_>, Node<'_>)| SourceEntry {
                    name: text(key),
                    key_at: shifted(key.range()),
                    value: SourceValue::of_node(value, start),
                };
                SourceKind::Map(node.entries().map(entry).collect())
            }
        };
        SourceValue { at: shifted(node.range()), kind }
    }

    /// Reads one JSON value.
    ///
    /// # Errors
    /// The first error.
    pub(super) fn of_json(text: &str) -> Result<SourceValue, Vec<Diagnostic>> {
        SourceValue::of_json_part(text, 0..text.len())
    }

    /// Reads a list of JSON values: one array, or one value per line.
    ///
    /// # Errors
    /// The first error of each line.
    pub(super) fn of_json_lines(text: &str) -> Result<Vec<SourceValue>, Vec<Diagnostic>> {
        /// The number of lines with errors that are reported.
        const SHOWN: usize = 100;
        if unmarked(text).trim_start().starts_with('[') {
            return Ok(SourceValue::of_json(text)?.into_items());
        }
        let (mut values, mut faults, mut start) = (Vec::new(), Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            let at = start..start + line.trim_end().len();
            start += line.len();
            if !unmarked(line).trim().is_empty() {
                match SourceValue::of_json_part(text, at) {
                    Ok(value) => values.push(value),
                    Err(mut found) => faults.append(&mut found),
                }
            }
        }
        if faults.is_empty() {
            return Ok(values);
        }
        faults.truncate(SHOWN);
        // One value over many lines is JSON too, and its own error says more.
        SourceValue::of_json(text)
            .map(|value| vec![value])
            .map_err(|whole| if values.is_empty() { whole } else { faults })
    }

    /// The first object of an array, or the first value of a text, which may be broken below it.
    pub(super) fn first_of_json(text: &str) -> Option<SourceValue> {
        let bare = unmarked(text).trim_start();
        let list = bare.strip_prefix('[').map(str::trim_start);
        let bare = list.filter(|list| list.starts_with('{')).unwrap_or(bare);
        let raw: &RawValue = serde_json::Deserializer::from_str(bare).into_iter().next()?.ok()?;
        SourceValue::of_json(raw.get()).ok()
    }

    fn of_json_part(text: &str, at: Range<usize>) -> Result<SourceValue, Vec<Diagnostic>> {
        let part = unmarked(&text[at.clone()]);
        let found = serde_json::from_str::<&RawValue>(part);
        found.map_err(|error| json_fault(&error, text, part)).and_then(|raw| of_raw(raw, text, 0))
    }

    /// The text of a scalar, as it is written.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        match &self.kind {
            SourceKind::Text(text) | SourceKind::Number(text) => Some(Cow::Borrowed(text)),
            SourceKind::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
            SourceKind::Null | SourceKind::List(_) | SourceKind::Map(_) => None,
        }
    }

    /// The text of a scalar that is not blank.
    pub(super) fn word(&self) -> Option<String> {
        let text = self.text()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The name of a task.
    pub(super) fn link(&self) -> Option<SourceLink> {
        self.word().map(|key| SourceLink::new(key, &self.at))
    }

    /// Whether it is true or false.
    pub(super) fn flag(&self) -> Option<bool> {
        match self.text()?.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "y" | "x" | "1" => Some(true),
            "false" | "no" | "n" | "0" => Some(false),
            _ => None,
        }
    }

    /// The items of a list; empty for anything else.
    pub(super) fn items(&self) -> &[SourceValue] {
        if let SourceKind::List(items) = &self.kind { items } else { &[] }
    }

    /// The items of a list, without copying them; empty for anything else.
    pub(super) fn into_items(self) -> Vec<SourceValue> {
        if let SourceKind::List(items) = self.kind { items } else { Vec::new() }
    }

    /// The entries of a mapping; empty for anything else.
    pub(super) fn entries(&self) -> &[SourceEntry] {
        if let SourceKind::Map(entries) = &self.kind { entries } else { &[] }
    }

    /// The value of a key of a mapping.
    pub(super) fn get(&self, name: &str) -> Option<&SourceValue> {
        self.entries().iter().find(|entry| entry.name == name).map(|entry| &entry.value)
    }

    /// The list under a key of a mapping.
    pub(super) fn list(&self, name: &str) -> Option<&SourceValue> {
        self.get(name).filter(|value| value.is_list())
    }

    /// The first non-blank text under one of these keys.
    pub(super) fn word_of(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name)?.word())
    }

    /// Whether it is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.kind, SourceKind::List(_))
    }

    /// Whether it is a mapping.
    pub(super) fn is_map(&self) -> bool {
        matches!(self.kind, SourceKind::Map(_))
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        match &self.kind {
            SourceKind::Null => true,
            SourceKind::Text(text) => text.trim().is_empty(),
            SourceKind::List(items) => items.is_empty(),
            SourceKind::Map(entries) => entries.is_empty(),
            SourceKind::Bool(_) | SourceKind::Number(_) => false,
        }
    }

    /// The value as JSON.
    pub(super) fn json(&self) -> Value {
        match &self.kind {
            SourceKind::Null => Value::Null,
            SourceKind::Bool(flag) => Value::Bool(*flag),
            SourceKind::Number(text) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
            }
            SourceKind::Text(text) => Value::from(text.as_str()),
            SourceKind::List(items) => items.iter().map(SourceValue::json).collect(),
            SourceKind::Map(entries) => {
                let entry = |entry: &SourceEntry| (entry.name.clone(), entry.value.json());
                Value::Object(entries.iter().map(entry).collect())
            }
        }
    }
}

/// A text without a byte order mark.
fn unmarked(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// The entries of a JSON object, in their order, as they are written.
struct RawEntries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawEntries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> de::Visitor<'de> for Entries {
            type Value = RawEntries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(RawEntries(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The bytes of a part of a text.
fn bytes_of(part: &str, text: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// Reads a JSON value that is a part of a text.
fn of_raw(raw: &RawValue, text: &str, depth: usize) -> Result<SourceValue, Vec<Diagnostic>> {
    /// The number of values around the innermost one.
    const DEEPEST: usize = 128;
    let json = raw.get();
    let at = bytes_of(json, text);
    if depth > DEEPEST {
        return Err(not_json("it is nested too deeply", at.start..at.start + 1));
    }
    let fault = |error: serde_json::Error| json_fault(&error, text, json);
    let read = |raw: &RawValue| of_raw(raw, text, depth + 1);
    let kind = match json.as_bytes()[0] {
        b'{' => {
            let RawEntries(entries) = serde_json::from_str(json).map_err(fault)?;
            let entry = |(key, value): (&RawValue, &RawValue)| {
                let name = serde_json::from_str(key.get());
                let name = name.map_err(|error| json_fault(&error, text, key.get()))?;
                Ok(SourceEntry { name, key_at: bytes_of(key.get(), text), value: read(value)? })
            };
            SourceKind::Map(entries.into_iter().map(entry).collect::<Result<_, Vec<_>>>()?)
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(json).map_err(fault)?;
            SourceKind::List(items.into_iter().map(read).collect::<Result<_, _>>()?)
        }
        b'"' => SourceKind::Text(serde_json::from_str(json).map_err(fault)?),
        b't' | b'f' => SourceKind::Bool(json == "true"),
        b'n' => SourceKind::Null,
        _ => SourceKind::Number(json.to_owned()),
    };
    Ok(SourceValue { at, kind })
}

fn not_json(why: &str, at: Range<usize>) -> Vec<Diagnostic> {
    let fault = Diagnostic::error(format!("this is not JSON: {why}"), at);
    vec![fault.help("if a program was writing the file, let it finish; nothing was changed")]
}

/// An error in a part of a text.
fn json_fault(error: &serde_json::Error, text: &str, part: &str) -> Vec<Diagnostic> {
    let within = part.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len);
    let end = part.trim_end().len();
    let mut at = (within.sum::<usize>() + error.column().saturating_sub(1)).min(end);
    while !part.is_char_boundary(at) {
        at -= 1;
    }
    let at = bytes_of(part, text).start + at;
    let said = error.to_string();
    let why = match said.split_once(" at line ") {
        _ if part.trim().is_empty() => "it is empty",
        _ if error.is_eof() => "it ends within a value",
        Some((why, _)) => why,
        None => &said,
    };
    not_json(why, at..at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_bytes() {
        let text =
            "\u{feff}{\"a\": [1, \"b\\u00e9\"],\r\n \"\\u0063\": null, \"d\": \"\\ud83e\\ude81\"}";
        let found = SourceValue::of_json(text).unwrap();
        let item = &found.get("a").unwrap().items()[1];
        assert_eq!(item.text().unwrap(), "b\u{e9}");
        assert_eq!(&text[item.at.clone()], "\"b\\u00e9\"");
        assert_eq!(&text[found.entries()[1].key_at.clone()], "\"\\u0063\"");
        assert_eq!(found.entries()[1].name, "c");
        assert_eq!(found.get("d").unwrap().text().unwrap(), "\u{1fa81}");
    }

    #[test]
    fn the_first_object_is_found_without_the_rest() {
        let found =
            SourceValue::first_of_json(" [ {\"a}\": \"\\\"{\", \"b\": {}}, {\"c\"").unwrap();
        assert_eq!(found.entries().len(), 2);
        let found = SourceValue::first_of_json("{\"a\": 1}\n{\"b\":").unwrap();
        assert!(found.get("a").is_some());
        assert!(SourceValue::first_of_json("{\"a\": 1").is_none());
    }

    #[test]
    fn a_bad_line_is_named_with_its_place() {
        let text = "{\"a\": 1}\n\n{\"a\": }\n{\"b\": 2}\n";
        let faults = SourceValue::of_json_lines(text).unwrap_err();
        assert_eq!(faults.len(), 1);
        assert!((10..18).contains(&faults[0].at.start), "{faults:?}");
        let count = |text: &str| SourceValue::of_json_lines(text).unwrap().len();
        assert_eq!(count("\u{feff}{\"a\": 1}\n\n{\"b\": 2}"), 2);
        assert_eq!(count("{\n\"a\": 1\n}\n"), 1);
    }

    #[test]
    fn deep_nesting_is_an_error() {
        for deep in ["[".repeat(100_000) + &"]".repeat(100_000), "[".repeat(200) + &"]".repeat(200)]
        {
            let fault = SourceValue::of_json(&deep).unwrap_err().remove(0);
            assert!(fault.message.contains("too deeply"), "{}", fault.message);
        }
        for bad in ["", "[1,]", "{a: 1}", "// c", "{} {}", "['a']", "\"\\ud83e\"", "[\"é\", é]"] {
            assert!(SourceValue::of_json(bad).is_err(), "{bad}");
        }
    }
}
