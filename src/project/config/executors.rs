//! The executors of the settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Map;

use crate::core::executor::{ExecutorKind, read_executors};

/// Reads executors, also in their short forms.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, ExecutorKind>, D::Error> {
    read_executors(&Map::deserialize(deserializer)?).map_err(D::Error::custom)
}
