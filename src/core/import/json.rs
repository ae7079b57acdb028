//! Reads JSON and JSONL into values with their bytes. The only user of jsonc-parser.

use std::ops::Range;

use jsonc_parser::{
    CollectOptions, ParseOptions, ast,
    common::{Range as JsonRange, Ranged},
    errors::ParseErrorKind,
};

use super::value::{SourceEntry, SourceKind, SourceValue};
use crate::diagnostic::Diagnostic;

/// Reads one JSON value.
///
/// # Errors
/// The first error.
pub(super) fn value(text: &str) -> Result<SourceValue, Vec<Diagnostic>> {
    part(text, 0..text.len()).map_err(|fault| vec![*fault])
}

/// Reads a list of values: one JSON array, or one value per line.
///
/// # Errors
/// The first error of each line.
pub(super) fn lines(text: &str) -> Result<Vec<SourceValue>, Vec<Diagnostic>> {
    /// The number of lines with errors that are reported.
    const SHOWN: usize = 100;
    let bare = text.trim_start_matches('\u{feff}');
    if bare.trim_start().starts_with('[') {
        return Ok(value(text)?.into_items());
    }
    let (mut values, mut faults) = (Vec::new(), Vec::new());
    let mut at = text.len() - bare.len();
    for line in bare.split_inclusive('\n') {
        let end = at + line.trim_end().len();
        if !line.trim().is_empty() {
            match part(text, at..end) {
                Ok(value) => values.push(value),
                Err(fault) if faults.len() < SHOWN => faults.push(*fault),
                Err(_) => {}
            }
        }
        at += line.len();
    }
    if faults.is_empty() {
        return Ok(values);
    }
    // One value over many lines is JSON too, and its own error says more.
    value(text)
        .map(|value| vec![value])
        .map_err(|whole| if values.is_empty() { whole } else { faults })
}

/// The text of the first object in an array, found without reading the others.
pub(super) fn first_object(text: &str) -> Option<&str> {
    let bare = text.trim_start_matches('\u{feff}').trim_start().strip_prefix('[')?.trim_start();
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in bare.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'{' if !is_text => depth += 1,
            b'}' if !is_text => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(&bare[..=at]);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn part(text: &str, at: Range<usize>) -> Result<SourceValue, Box<Diagnostic>> {
    let slice = &text[at.clone()];
    let bare = slice.trim_start_matches('\u{feff}');
    let start = at.start + slice.len() - bare.len();
    let strict = ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = jsonc_parser::parse_to_ast(bare, &CollectOptions::default(), &strict);
    let fault = |message: String, at: Range<usize>| {
        let found = Diagnostic::error(format!("this is not JSON: {message}"), at)
            .help("if a program was writing the file, let it finish; nothing was changed");
        Box::new(found)
    };
    match parsed {
        Ok(found) => match found.value {
            Some(value) => Ok(convert(value, start)),
            None => Err(fault("it is empty".to_owned(), start..at.end)),
        },
        Err(error) => {
            let is_deep = matches!(error.kind(), ParseErrorKind::NestingDepthExceeded);
            let message = if is_deep {
                "it is nested too deeply".to_owned()
            } else {
                lower(&error.kind().to_string())
            };
            Err(fault(message, shifted(error.range(), start)))
        }
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn shifted(range: JsonRange, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

fn convert(value: ast::Value<'_>, start: usize) -> SourceValue {
    let at = shifted(value.range(), start);
    let kind = match value {
        ast::Value::StringLit(text) => SourceKind::Text(text.value.into_owned()),
        ast::Value::NumberLit(number) => SourceKind::Number(number.value.to_owned()),
        ast::Value::BooleanLit(flag) => SourceKind::Bool(flag.value),
        ast::Value::NullKeyword(_) => SourceKind::Null,
        ast::Value::Array(list) => {
            SourceKind::List(list.elements.into_iter().map(|item| convert(item, start)).collect())
        }
        ast::Value::Object(map) => {
            let entry = |property: ast::ObjectProp<'_>| SourceEntry {
                key_at: shifted(property.name.range(), start),
                name: property.name.into_string(),
                value: convert(property.value, start),
            };
            SourceKind::Map(map.properties.into_iter().map(entry).collect())
        }
    };
    SourceValue { at, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_bytes() {
        let text = "\u{feff}{\"a\": [1, \"b\\u00e9\"],\r\n \"c\": null}";
        let found = value(text).unwrap();
        let item = &found.get("a").unwrap().items()[1];
        assert_eq!(item.text().unwrap(), "b\u{e9}");
        assert_eq!(&text[item.at.clone()], "\"b\\u00e9\"");
        assert_eq!(&text[found.entries()[1].key_at.clone()], "\"c\"");
    }

    #[test]
    fn the_first_object_is_found_without_the_rest() {
        let found = first_object(" [ {\"a}\": \"\\\"{\", \"b\": {}}, {\"c\"");
        assert_eq!(found, Some("{\"a}\": \"\\\"{\", \"b\": {}}"));
        assert_eq!(first_object("[[{}]]"), None);
    }

    #[test]
    fn a_bad_line_is_named_with_its_place() {
        let text = "{\"a\": 1}\n\n{\"a\": }\n{\"b\": 2}\n";
        let faults = lines(text).unwrap_err();
        assert_eq!(faults.len(), 1);
        assert!((10..18).contains(&faults[0].at.start), "{faults:?}");
        assert_eq!(lines("{\"a\": 1}\n\n{\"b\": 2}").unwrap().len(), 2);
        assert_eq!(lines("{\n\"a\": 1\n}\n").unwrap().len(), 1);
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = "[".repeat(100_000);
        let fault = value(&deep).unwrap_err().remove(0);
        assert!(fault.message.contains("too deeply"), "{}", fault.message);
        for bad in ["", "[1,]", "{a: 1}", "// c", "{} {}", "['a']"] {
            assert!(value(bad).is_err(), "{bad}");
        }
    }
}
