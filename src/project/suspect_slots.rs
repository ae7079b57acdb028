//! The slots where a process of an ended attempt may still work, such as on a node lost by its
//! cluster. No run uses them again before its worker or the engine there proves that it has ended.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::{
        process::SignsOfLife,
        state::{self, StateFolder},
    },
    regular_file,
};

/// A slot where a process may still work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectSlot {
    /// The slot.
    pub path: PathBuf,
    /// The executor of the attempt.
    pub run_on: String,
    /// The mark of its processes.
    pub mark: String,
    /// Why they may not have ended.
    pub why: String,
}

impl SuspectSlot {
    /// Whether both are about the same attempt in the same slot.
    fn is_same(&self, other: &SuspectSlot) -> bool {
        (&self.path, &self.mark) == (&other.path, &other.mark)
    }

    /// Says why the slot is not used, and the remedy.
    pub fn text(&self) -> String {
        format!(
            "an earlier attempt may still work in it: {}; remove the folder once nothing of it runs at \
             `{}`",
            self.why, self.run_on
        )
    }
}

/// The signs of life of the attempt whose processes are recognized by this mark.
pub fn signs(state: &StateFolder, mark: &str) -> SignsOfLife {
    SignsOfLife::of(state.signs_folder(), mark)
}

/// Returns the suspect slots of a repository or loop. Where the attempt has no sign of life any more,
/// nothing works, and a person who removes a slot has made sure of that.
pub fn all(state: &StateFolder) -> Vec<SuspectSlot> {
    let text = regular_file::read(&file(state)).unwrap_or_default();
    let all: Vec<SuspectSlot> = serde_json::from_slice(&text).unwrap_or_default();
    let is_suspect = |slot: &SuspectSlot| slot.path.exists() && signs(state, &slot.mark).is_any();
    all.into_iter().filter(is_suspect).collect()
}

/// Remembers a suspect slot. Returns whether it was not known.
///
/// # Errors
/// Errors of the disk.
pub fn add(state: &StateFolder, slot: &SuspectSlot) -> Result<bool> {
    let mut slots = all(state);
    let is_new = !slots.iter().any(|known| known.is_same(slot));
    slots.retain(|known| !known.is_same(slot));
    slots.push(slot.clone());
    write(state, &slots)?;
    Ok(is_new)
}

/// Forgets a slot without running processes.
///
/// # Errors
/// Errors of the disk.
pub fn remove(state: &StateFolder, slot: &SuspectSlot) -> Result<()> {
    let mut slots = all(state);
    slots.retain(|known| !known.is_same(slot));
    write(state, &slots)
}

fn write(state: &StateFolder, slots: &[SuspectSlot]) -> Result<()> {
    let text = serde_json::to_vec(slots)?;
    state::replace(&file(state), &text).context("remember the suspect slots")
}

fn file(state: &StateFolder) -> PathBuf {
    Path::join(state.dir(), "suspects.json")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn suspect_slots_are_remembered_until_they_are_proven_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::open(folder.path().to_owned());
        let slot = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            let mark = format!("r1.{name}.1");
            fs::create_dir_all(state.signs_folder()).unwrap();
            fs::write(state.signs_folder().join(format!("{mark}-7.7")), "").unwrap();
            SuspectSlot { path, run_on: "cluster".to_owned(), mark, why: "lost".to_owned() }
        };
        assert!(all(&state).is_empty());
        let (one, two) = (slot("one"), slot("two"));
        assert!(add(&state, &one).unwrap() && add(&state, &two).unwrap());
        assert!(!add(&state, &one).unwrap(), "it is known");
        assert_eq!(all(&state), [two.clone(), one.clone()]);
        remove(&state, &two).unwrap();
        assert_eq!(all(&state), std::slice::from_ref(&one));
        fs::remove_dir(&one.path).unwrap();
        assert!(all(&state).is_empty());
        let three = slot("three");
        add(&state, &three).unwrap();
        assert_eq!(all(&state), std::slice::from_ref(&three));
        signs(&state, &three.mark).remove();
        assert!(all(&state).is_empty(), "its worker has ended everything");
    }
}
