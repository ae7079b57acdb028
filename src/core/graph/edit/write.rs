//! Writes values as YAML, in block and flow style, and in flow style also as JSON.

use std::fmt::Write as _;

use serde_json::Value;

use crate::graph::yaml::{NodeKind, like, needs_escape};

/// The longest list that is written on one line, in bytes.
const LINE: usize = 60;

/// How a file writes its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueStyle {
    /// The line break.
    pub(super) newline: &'static str,
    /// Whether keys and texts are in double quotes, as in JSON.
    pub(super) is_json: bool,
    /// The number of columns between a key and the dashes of the list below it.
    pub(super) offset: usize,
}

/// Writes a value as YAML on one line.
pub fn flow(value: &Value) -> String {
    ValueStyle { newline: "\n", is_json: false, offset: 2 }.flow(value)
}

impl ValueStyle {
    fn scalar(self, text: &str) -> String {
        like(if self.is_json { NodeKind::DoubleQuoted } else { NodeKind::Plain }, text)
    }

    /// A value on one line.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are written as in JSON")]
    pub(super) fn flow(self, value: &Value) -> String {
        match value {
            Value::String(text) => self.scalar(text),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| self.flow_entry(key, value));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            plain => plain.to_string(),
        }
    }

    /// A key with its value on one line.
    pub(super) fn flow_entry(self, key: &str, value: &Value) -> String {
        format!("{}: {}", self.scalar(key), self.flow(value))
    }

    /// A key in this column with its value, as whole lines. The blanks before the key are left out.
    pub(super) fn entry(self, col: usize, key: &str, value: &Value) -> String {
        format!("{}:{}", self.scalar(key), self.after_key(col, value))
    }

    /// The value of a key in this column, from the colon to the end of its last line.
    pub(super) fn after_key(self, col: usize, value: &Value) -> String {
        let newline = self.newline;
        match value {
            Value::String(text) if fits_literal(text) => {
                format!(" {}", self.literal(col + 2, text))
            }
            Value::Array(items) if !fits_line(items) => {
                let dash = col + self.offset;
                let items = items.iter().map(|item| self.item(dash, item));
                format!("{newline}{}", items.collect::<String>())
            }
            Value::String(_)
            | Value::Array(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Object(_) => format!(" {}{newline}", self.flow(value)),
        }
    }

    /// An item of a list whose dashes are in this column, as whole lines.
    pub(super) fn item(self, dash: usize, value: &Value) -> String {
        let pad = " ".repeat(dash);
        match value {
            Value::String(text) if fits_literal(text) => {
                format!("{pad}- {}", self.literal(dash + 2, text))
            }
            Value::String(_)
            | Value::Array(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Object(_) => format!("{pad}- {}{}", self.flow(value), self.newline),
        }
    }

    /// A text as a literal block, from its header on.
    fn literal(self, col: usize, text: &str) -> String {
        let mut out = if text.ends_with('\n') { "|" } else { "|-" }.to_owned();
        out.push_str(self.newline);
        for line in text.lines() {
            if !line.is_empty() {
                let _ = write!(out, "{:col$}{line}", "");
            }
            out.push_str(self.newline);
        }
        out
    }
}

/// Whether a text of several lines is the same as a literal block to every reader.
fn fits_literal(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let is_usual = |line: &str| {
        !line.starts_with('\t')
            && (line.is_empty() || !line.trim().is_empty())
            && !line.chars().any(|c| c != '\t' && needs_escape(c))
    };
    text.contains('\n')
        && !body.is_empty()
        && !body.starts_with([' ', '\n'])
        && !body.ends_with('\n')
        && body.split('\n').all(is_usual)
}

/// Whether a list is written on one line: it has only short words.
fn fits_line(items: &[Value]) -> bool {
    let is_word = |item: &Value| match item {
        Value::String(text) => {
            !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "._-/".contains(c))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::Array(_) | Value::Object(_) => false,
    };
    let length = |item: &Value| item.as_str().map_or(8, str::len) + 2;
    items.iter().all(is_word) && items.iter().map(length).sum::<usize>() <= LINE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::graph::yaml::Document;

    const STYLE: ValueStyle = ValueStyle { newline: "\n", is_json: false, offset: 2 };

    fn reads(text: &str, value: &Value) -> bool {
        let document = Document::parse(text).unwrap_or_else(|fault| panic!("{fault}: {text:?}"));
        document.root().unwrap().is_json(value)
    }

    #[test]
    fn each_kind_of_value_has_its_form() {
        for (value, text) in [
            (json!("a b"), "k: a b\n"),
            (json!("a: b"), "k: \"a: b\"\n"),
            (json!("1"), "k: \"1\"\n"),
            (json!(1), "k: 1\n"),
            (json!("a\nb"), "k: |-\n    a\n    b\n"),
            (json!("a\n\n# b\n"), "k: |\n    a\n\n    # b\n"),
            (json!(" a\nb"), "k: \" a\\nb\"\n"),
            (json!(["a", "b"]), "k: [a, b]\n"),
            (json!(["cargo test", "x"]), "k:\n    - cargo test\n    - x\n"),
            (json!([]), "k: []\n"),
            (json!({"a": ["b c", 1]}), "k: {a: [b c, 1]}\n"),
        ] {
            assert_eq!(STYLE.entry(2, "k", &value), text);
        }
        let json = ValueStyle { is_json: true, ..STYLE };
        assert_eq!(json.flow(&json!({"a": ["b\n", 1]})), r#"{"a": ["b\n", 1]}"#);
    }

    proptest! {
        #[test]
        fn any_text_reads_back(text in "[a-c #:\\-\n\t\r'\"|>\u{1}\u{85}\u{feff}\u{202e}é\u{1f600}]{0,12}") {
            for value in [json!(text), json!([text, text]), json!({"k": text})] {
                let want = json!({"k": value});
                prop_assert!(reads(&STYLE.entry(0, "k", &value), &want));
                let flow = format!("{{{}}}\n", STYLE.flow_entry("k", &value));
                prop_assert!(reads(&flow, &want));
            }
        }
    }
}
