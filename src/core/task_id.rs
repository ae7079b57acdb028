//! The ids of tasks.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

/// The id of a task: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, without `..`.
///
/// The rule makes an id safe as a file name, a branch name and a word on a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TaskId(Arc<str>);

/// The longest id, in bytes.
pub const MAX_ID: usize = 64;

impl TaskId {
    /// Checks that the text is an id.
    ///
    /// # Errors
    /// The broken rule, as a phrase to follow "the id `…`".
    pub fn new(text: &str) -> Result<TaskId, &'static str> {
        let mut bytes = text.bytes();
        let Some(first) = bytes.next() else {
            return Err("is empty");
        };
        if text.len() > MAX_ID {
            return Err("is longer than 64 characters");
        }
        if !first.is_ascii_alphanumeric() {
            return Err("must start with a letter or a digit");
        }
        if !bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
            return Err("may contain only letters, digits, `.`, `_` and `-`");
        }
        if text.contains("..") {
            return Err("must not contain `..`");
        }
        Ok(TaskId(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Lets maps by id be searched with any text.
impl Borrow<str> for TaskId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<TaskId, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        TaskId::new(&text).map_err(serde::de::Error::custom)
    }
}
