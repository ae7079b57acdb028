//! A value in a YAML text, at its place. Only this module resolves scalars, and writes a text as a
//! scalar that every reader parses as this text.
//!
//! It quotes more than YAML 1.2 requires, because YAML 1.1 readers parse `no`, `1:30` or
//! `2026-11-20` as other types.

use std::{borrow::Cow, fmt::Write, ops::Range};

use serde_json::{Map, Number, Value};

use super::{NodeId, NodeKind, Tree};

/// A value in a text. An alias has the place of the alias and the value of its target.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    text: &'a str,
    tree: &'a Tree,
    id: NodeId,
    value: NodeId,
}

/// A scalar as YAML 1.2 reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// Nothing, or a number that JSON does not have.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(Cow<'a, str>),
}

impl<'a> Node<'a> {
    /// A node of a tree.
    pub fn new(text: &'a str, tree: &'a Tree, id: NodeId) -> Node<'a> {
        Node { text, tree, id, value: tree.target(id).unwrap_or(id) }
    }

    fn other(self, id: NodeId) -> Node<'a> {
        Node::new(self.text, self.tree, id)
    }

    /// The node where it is written.
    pub fn id(self) -> NodeId {
        self.id
    }

    /// The value where it is written: the target of an alias.
    pub fn value_id(self) -> NodeId {
        self.value
    }

    /// The style of the value.
    pub fn kind(self) -> NodeKind {
        self.tree.kind(self.value)
    }

    /// Whether the value is written elsewhere, and here as `*name`.
    pub fn is_alias(self) -> bool {
        self.id != self.value
    }

    /// Whether the value is a list.
    pub fn is_list(self) -> bool {
        matches!(self.kind(), NodeKind::Sequence { .. })
    }

    /// Whether the value is a mapping.
    pub fn is_mapping(self) -> bool {
        matches!(self.kind(), NodeKind::Mapping { .. })
    }

    /// The bytes, as [`Tree::range`] has them.
    pub fn range(self) -> Range<usize> {
        self.tree.range(self.id)
    }

    /// The bytes on the first line, so that an error in a long value does not underline all of it.
    pub fn first_line(self) -> Range<usize> {
        let at = self.range();
        let line = self.text[at.clone()].lines().next().map_or(0, str::len);
        at.start..at.start + line
    }

    /// The bytes as text: those of the alias if it is one.
    pub fn written(self) -> &'a str {
        &self.text[self.range()]
    }

    /// The source text of the value, with its quotes.
    pub fn source(self) -> &'a str {
        &self.text[self.tree.range(self.value)]
    }

    /// The items of a list; empty for any other value.
    pub fn items(self) -> impl Iterator<Item = Node<'a>> {
        self.tree.items(self.value).map(move |item| self.other(item))
    }

    /// The keys and values of a mapping; empty for any other value.
    pub fn entries(self) -> impl Iterator<Item = (Node<'a>, Node<'a>)> {
        let entries = self.tree.entries(self.value);
        entries.map(move |(key, value)| (self.other(key), self.other(value)))
    }

    /// The entry of a mapping with this key.
    pub fn entry(self, key: &str) -> Option<(Node<'a>, Node<'a>)> {
        self.entries().find(|entry| entry.0.text().is_some_and(|found| found == key))
    }

    /// The value of a key of a mapping.
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        self.entry(key).map(|entry| entry.1)
    }

    /// The text of a scalar, as [`Tree::scalar`] has it.
    pub fn text(self) -> Option<Cow<'a, str>> {
        self.tree.scalar(self.text, self.value)
    }

    /// The tag, in full, such as `tag:yaml.org,2002:str` or `!own`.
    pub fn tag(self) -> Option<&'a str> {
        self.tree.tag(self.value)
    }

    /// The scalar; none for a list or a mapping. A scalar that does not fit its tag is a text.
    pub fn scalar(self) -> Option<Scalar<'a>> {
        let text = self.text()?;
        let tag = self.tag().and_then(|tag| tag.strip_prefix("tag:yaml.org,2002:"));
        let resolved = match (tag, self.tag()) {
            (Some("bool" | "int" | "float" | "null"), _) => resolve(&text),
            (None, None) if self.kind() == NodeKind::Plain => resolve(&text),
            _ => None,
        };
        Some(resolved.unwrap_or(Scalar::Text(text)))
    }

    /// Whether the value has the type of its tag.
    pub fn fits_tag(self) -> bool {
        let tag = self.tag().and_then(|tag| tag.strip_prefix("tag:yaml.org,2002:"));
        match (tag, self.scalar()) {
            (Some("bool"), found) => matches!(found, Some(Scalar::Bool(_))),
            (Some("int" | "float"), found) => matches!(found, Some(Scalar::Number(_))),
            (Some("null"), found) => found == Some(Scalar::Null),
            _ => true,
        }
    }

    /// Whether the value is null.
    pub fn is_null(self) -> bool {
        self.scalar() == Some(Scalar::Null)
    }

    /// Whether the scalar is a text to every reader: quoted, or without any other meaning.
    pub fn is_text(self) -> bool {
        let is_plain = || self.text().is_some_and(|text| is_plain(&text));
        self.kind().is_scalar() && (self.kind() != NodeKind::Plain || is_plain())
    }

    /// Whether the value means the same as this JSON value, to every reader.
    pub fn is_json(self, value: &Value) -> bool {
        let is_written = |text: &str| self.text().is_some_and(|found| found == text);
        match value {
            Value::String(text) => is_written(text) && self.is_text(),
            Value::Array(values) => {
                self.is_list()
                    && self.items().count() == values.len()
                    && self.items().zip(values).all(|(item, value)| item.is_json(value))
            }
            Value::Object(values) => {
                self.is_mapping()
                    && self.entries().count() == values.len()
                    && values
                        .iter()
                        .all(|(key, value)| self.get(key).is_some_and(|found| found.is_json(value)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.kind() == NodeKind::Plain && is_written(&value.to_string())
            }
        }
    }

    /// The value as JSON.
    pub fn json(self) -> Value {
        match self.scalar() {
            Some(Scalar::Null) => Value::Null,
            Some(Scalar::Bool(flag)) => Value::Bool(flag),
            Some(Scalar::Number(number)) => Value::Number(number),
            Some(Scalar::Text(text)) => Value::String(text.into_owned()),
            None if self.is_list() => self.items().map(Node::json).collect(),
            None => {
                let text = |key: Node<'a>| key.text().unwrap_or_default().into_owned();
                let entries = self.entries().map(|(key, value)| (text(key), value.json()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// Two values are equal if they mean the same, whatever their layout. Numbers and the like are
/// compared verbatim, and mappings without the order of their keys.
impl PartialEq for Node<'_> {
    fn eq(&self, other: &Node<'_>) -> bool {
        if self.tag() != other.tag() {
            return false;
        }
        match (self.kind(), other.kind()) {
            (NodeKind::Sequence { .. }, NodeKind::Sequence { .. }) => {
                self.items().eq(other.items())
            }
            (NodeKind::Mapping { .. }, NodeKind::Mapping { .. }) => {
                let mut others = other.entries();
                self.entries().all(|(key, value)| match (others.next(), key.text()) {
                    (None, _) => false,
                    (Some(next), key) if next.0.text() == key => value == next.1,
                    (_, key) => {
                        key.and_then(|key| other.get(&key)).is_some_and(|found| value == found)
                    }
                }) && others.next().is_none()
            }
            (kind, other_kind) => {
                let is_same_text = self.text().is_some() && self.text() == other.text();
                is_same_text && (kind == other_kind || self.is_text() == other.is_text())
            }
        }
    }
}

/// The type and value of a scalar without quotes, unless it is a text.
fn resolve(text: &str) -> Option<Scalar<'static>> {
    match text.bytes().next() {
        None => return Some(Scalar::Null),
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => {}
        Some(b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F') => {
            return match text {
                "~" | "null" | "Null" | "NULL" => Some(Scalar::Null),
                "true" | "True" | "TRUE" => Some(Scalar::Bool(true)),
                "false" | "False" | "FALSE" => Some(Scalar::Bool(false)),
                _ => None,
            };
        }
        Some(_) => return None,
    }
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let is_unsigned = |digits: &str| !digits.starts_with(['+', '-']);
    let radix = [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().find_map(|(prefix, radix)| {
        digits.strip_prefix(prefix).filter(|digits| is_unsigned(digits)).zip(Some(radix))
    });
    if let Some(number) = radix.and_then(|(digits, radix)| integer(is_negative, digits, radix)) {
        return Some(Scalar::Number(number));
    }
    let is_padded = digits.len() > 1 && digits.starts_with('0');
    if !is_unsigned(digits) || is_padded && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if let Some(number) = integer(is_negative, digits, 10) {
        return Some(Scalar::Number(number));
    }
    let float = text.parse::<f64>().ok().filter(|float| float.is_finite())?;
    Number::from_f64(float).map(Scalar::Number)
}

fn integer(is_negative: bool, digits: &str, radix: u32) -> Option<Number> {
    if is_negative {
        return i64::from_str_radix(&format!("-{digits}"), radix).ok().map(Number::from);
    }
    u64::from_str_radix(digits, radix).ok().map(Number::from)
}

/// Words that some readers parse as a boolean, null or a number.
const WORDS: [&str; 13] =
    ["y", "n", "yes", "no", "true", "false", "on", "off", "null", "nan", "inf", "infinity", "none"];

/// Writes `value` in the style of `kind`, if that style can represent it.
pub(crate) fn like(kind: NodeKind, value: &str) -> String {
    match kind {
        NodeKind::SingleQuoted if !value.chars().any(needs_escape) => {
            format!("'{}'", value.replace('\'', "''"))
        }
        NodeKind::SingleQuoted | NodeKind::DoubleQuoted => double(value),
        NodeKind::Plain
        | NodeKind::Literal
        | NodeKind::Folded
        | NodeKind::Sequence { .. }
        | NodeKind::Mapping { .. }
        | NodeKind::Alias => {
            if is_plain(value) {
                value.to_owned()
            } else {
                double(value)
            }
        }
    }
}

/// Writes `value` in double quotes. The result is also JSON, except for rare invisible characters.
fn double(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if needs_escape(c) => {
                let code = u32::from(c);
                let written = if code > 0xffff {
                    write!(out, "\\U{code:08X}")
                } else {
                    write!(out, "\\u{code:04X}")
                };
                written.expect("writing to a string cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a character is invisible, breaks lines, or changes the text direction.
pub(crate) fn needs_escape(c: char) -> bool {
    c.is_control()
        || (c != ' ' && c.is_whitespace())
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{ffff}')
}

/// Whether `value` without quotes reads as the same text in block and flow, in YAML 1.1 and 1.2.
pub(crate) fn is_plain(value: &str) -> bool {
    let Some(first) = value.chars().next() else {
        return false;
    };
    let starts_well = first.is_alphanumeric() || first == '_' || first == '/';
    let looks_like_a_number = first.is_ascii_digit() && !value.chars().any(beyond_numbers);
    let lowered = value.to_ascii_lowercase();
    starts_well
        && !first.is_numeric() | first.is_ascii_digit()
        && !looks_like_a_number
        && !value.ends_with(' ')
        && !WORDS.contains(&lowered.as_str())
        && value.chars().all(|c| {
            c.is_alphanumeric() || " _-./+()=~;:".contains(c) || (!c.is_ascii() && !needs_escape(c))
        })
        && colons_are_inner(value, first)
}

/// Whether a letter occurs in no number or time, including hexadecimal ones.
fn beyond_numbers(c: char) -> bool {
    c.is_alphabetic()
        && !matches!(c, 'a'..='f' | 'A'..='F' | 'x' | 'X' | 'o' | 'O' | 't' | 'T' | 'z' | 'Z')
}

/// Whether all colons are between letters, and cannot make the text a time.
fn colons_are_inner(value: &str, first: char) -> bool {
    let mut parts = value.split(':').peekable();
    let mut has_colon = false;
    while let Some(part) = parts.next() {
        let Some(next) = parts.peek() else { break };
        has_colon = true;
        let before = part.chars().next_back().is_some_and(char::is_alphanumeric);
        let after = next.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '/');
        if !before || !after {
            return false;
        }
    }
    !has_colon || first.is_alphabetic()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_read_as_yaml_1_2_has_them() {
        for (text, value) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("NULL", json!(null)),
            ("nULL", json!("nULL")),
            ("True", json!(true)),
            ("yes", json!("yes")),
            ("0x1F", json!(31)),
            ("-0b11", json!(-3)),
            ("0o17", json!(15)),
            ("0x+1", json!("0x+1")),
            ("017", json!("017")),
            ("-0", json!(0)),
            ("+12", json!(12)),
            ("++1", json!("++1")),
            ("1e3", json!(1000.0)),
            (".5", json!(0.5)),
            ("1_000", json!("1_000")),
            ("1:30", json!("1:30")),
            ("2026-11-25", json!("2026-11-25")),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1e999", json!("1e999")),
            (".inf", json!(".inf")),
            ("-.INF", json!("-.INF")),
            (".nan", json!(".nan")),
            ("infinity", json!("infinity")),
            ("'~'", json!("~")),
            ("\"1\"", json!("1")),
            ("!!str 1", json!("1")),
            ("!!int \"1\"", json!(1)),
            ("!!bool x", json!("x")),
            ("{a: [1, *x], b: }", json!({"a": [1, "t"], "b": null})),
        ] {
            let text = format!("x: &x t\nv: {text}\n");
            let tree = Tree::parse(&text).unwrap();
            let root = Node::new(&text, &tree, tree.root().unwrap());
            assert_eq!(root.get("v").unwrap().json(), value, "{text}");
        }
    }
}
