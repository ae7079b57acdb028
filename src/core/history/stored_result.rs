//! The result of an attempt as the stored history has it: read when it is needed.
//!
//! The results are most of a stored history, and few of them are looked at.

use std::{borrow::Cow, ops::Deref, sync::OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::{event::AttemptResult, verdict::Verdict};

/// The result of an attempt, or the text from which it is read.
#[derive(Clone, Debug)]
pub struct StoredResult {
    /// None if the result is at hand.
    text: Option<Box<RawValue>>,
    result: OnceLock<Box<AttemptResult>>,
}

impl From<AttemptResult> for StoredResult {
    fn from(result: AttemptResult) -> StoredResult {
        // What completed a task is rarely looked at, and a long run has thousands of them.
        let is_over = result.verdict == Verdict::Complete;
        match is_over.then(|| to_raw_value(&result).ok()).flatten() {
            Some(text) => StoredResult { text: Some(text), result: OnceLock::new() },
            None => StoredResult { text: None, result: OnceLock::from(Box::new(result)) },
        }
    }
}

impl StoredResult {
    /// Whether the text is what this build writes. Two builds of the same version may differ.
    pub(super) fn can_be_read(&self) -> bool {
        self.text.as_ref().is_none_or(|text| read(text).is_some())
    }
}

fn read(text: &RawValue) -> Option<AttemptResult> {
    serde_json::from_str(text.get()).ok()
}

impl StoredResult {
    /// The result, which is not kept as one: for a reader of the results of all tasks.
    pub fn read(&self) -> Cow<'_, AttemptResult> {
        match &self.text {
            Some(text) if self.result.get().is_none() => {
                Cow::Owned(read(text).unwrap_or_else(AttemptResult::unreadable))
            }
            _ => Cow::Borrowed(self),
        }
    }
}

impl Deref for StoredResult {
    type Target = AttemptResult;

    fn deref(&self) -> &AttemptResult {
        self.result.get_or_init(|| {
            let result = self.text.as_ref().and_then(|text| read(text));
            Box::new(result.unwrap_or_else(AttemptResult::unreadable))
        })
    }
}

impl PartialEq for StoredResult {
    fn eq(&self, other: &StoredResult) -> bool {
        **self == **other
    }
}

impl Serialize for StoredResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.text {
            Some(text) => text.serialize(serializer),
            None => (**self).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for StoredResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StoredResult, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(StoredResult { text: Some(text), result: OnceLock::new() })
    }
}
