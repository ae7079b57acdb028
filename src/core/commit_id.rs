//! The id of a git commit.

use std::{fmt, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

/// The full id of a commit in hexadecimal digits; a plain string in the journal. The records of a
/// task share one id several times.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct CommitId(Arc<str>);

impl CommitId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first seven digits.
    pub fn short(&self) -> &str {
        self.get(..7).unwrap_or(self)
    }
}

impl Deref for CommitId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<String> for CommitId {
    fn from(id: String) -> CommitId {
        CommitId(id.into())
    }
}

impl From<&str> for CommitId {
    fn from(id: &str) -> CommitId {
        CommitId(id.into())
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> String {
        id.0.as_ref().to_owned()
    }
}

impl PartialEq<str> for CommitId {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<String> for CommitId {
    fn eq(&self, other: &String) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<CommitId> for String {
    fn eq(&self, other: &CommitId) -> bool {
        **self == *other.0
    }
}
