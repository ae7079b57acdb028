//! Durations in the settings, as people write them: `90s`, `2h`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use serde_json::Value;

use crate::core::duration;

/// Reads a duration.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = match Value::deserialize(from)? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    duration::parse(&text).map_err(D::Error::custom)
}

/// Writes a duration.
pub(super) fn serialize<S: Serializer>(length: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&duration::text(*length))
}

/// Reads a duration or null.
pub(super) fn deserialize_optional<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(None),
        value => deserialize(value).map(Some).map_err(D::Error::custom),
    }
}

/// Writes a duration or null.
#[expect(clippy::ref_option, reason = "serde wants it so")]
pub(super) fn serialize_optional<S: Serializer>(
    length: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match length {
        Some(length) => serialize(length, to),
        None => to.serialize_none(),
    }
}
