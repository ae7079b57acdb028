//! A value as the line reader gives it, which still refers to the text.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// A value.
#[derive(Debug)]
pub(in crate::graph::load) enum LineValue<'t> {
    /// Nothing.
    Empty,
    /// A scalar.
    Scalar(Scalar<'t>),
    /// A list.
    List(Vec<LineValue<'t>>),
    /// A mapping, with every key once.
    Mapping(Vec<(&'t str, LineValue<'t>)>),
}

/// A scalar.
#[derive(Debug)]
pub(in crate::graph::load) enum Scalar<'t> {
    /// Null, written out.
    Null,
    /// A boolean or a number, and how it is written.
    Other(&'t str, Value),
    /// Text without quotes.
    Plain(&'t str),
    /// Text in quotes or in a block.
    Quoted(Cow<'t, str>),
}

impl<'t> Scalar<'t> {
    /// The text; a number or a boolean as it is written. None for null.
    pub(in crate::graph::load) fn into_text(self) -> Option<Cow<'t, str>> {
        match self {
            Scalar::Null => None,
            Scalar::Other(text, _) | Scalar::Plain(text) => Some(Cow::Borrowed(text)),
            Scalar::Quoted(text) => Some(text),
        }
    }

    fn value(&self) -> Value {
        match self {
            Scalar::Null => Value::Null,
            Scalar::Other(_, value) => value.clone(),
            Scalar::Plain(text) => Value::String((*text).to_owned()),
            Scalar::Quoted(text) => Value::String(text.clone().into_owned()),
        }
    }
}

impl<'t> LineValue<'t> {
    /// Whether the value is null, written out or not.
    pub(in crate::graph::load) fn is_null(&self) -> bool {
        matches!(self, LineValue::Empty | LineValue::Scalar(Scalar::Null))
    }

    /// The value of another reader's type.
    pub(in crate::graph::load) fn value(&self) -> Value {
        match self {
            LineValue::Empty => Value::Null,
            LineValue::Scalar(scalar) => scalar.value(),
            LineValue::List(items) => Value::Array(items.iter().map(LineValue::value).collect()),
            LineValue::Mapping(entries) => {
                let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), value.value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// The text of a scalar that is not null.
    pub(in crate::graph::load) fn into_text(self) -> Option<Cow<'t, str>> {
        match self {
            LineValue::Scalar(scalar) => scalar.into_text(),
            LineValue::Empty | LineValue::List(_) | LineValue::Mapping(_) => None,
        }
    }

    /// The texts of a list of scalars, none of them null. A single text is a list of one.
    pub(in crate::graph::load) fn into_texts(self) -> Option<Vec<Cow<'t, str>>> {
        match self {
            LineValue::List(items) => items.into_iter().map(LineValue::into_text).collect(),
            LineValue::Empty | LineValue::Scalar(_) | LineValue::Mapping(_) => {
                Some(vec![self.into_text()?])
            }
        }
    }
}
