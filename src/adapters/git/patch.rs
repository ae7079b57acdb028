//! What a commit changed: as text for people, and compared with another change.

use std::io;

use anyhow::Result;

use super::{Repo, bounded::CallStreams, lossy, program};

/// The text of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The change in the unified format, or its beginning.
    pub text: String,
    /// Whether the end is missing.
    pub is_cut: bool,
}

/// The beginning of what is written to it.
struct Beginning {
    bytes: Vec<u8>,
    most: usize,
}

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Repo {
    /// Whether two changes, each from one commit to another, remove and add the same lines of the same
    /// files.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn is_same_change(&self, one: [&str; 2], other: [&str; 2]) -> Result<bool> {
        let lines = |[from, to]: [&str; 2]| -> Result<Vec<String>> {
            let diff = ["diff-tree", "-r", "-p", "-U0", "--full-index", "--no-renames"];
            let rest = ["--no-ext-diff", "--no-textconv", "--no-color", from, to];
            let text = lossy(&program::run(&self.root, &[&diff[..], &rest].concat())?);
            // Of a binary file, only the ids are there.
            let has_ids = text.contains("\nBinary files ");
            // Without context, each line of a file begins with a sign.
            let is_place =
                |line: &&str| line.starts_with("@@ ") || (line.starts_with("index ") && !has_ids);
            Ok(text.split('\n').filter(|line| !is_place(line)).map(str::to_owned).collect())
        };
        Ok(lines(one)? == lines(other)?)
    }

    /// The change of a commit against its first parent, at most `most` bytes of it. No program of
    /// the repository's owner runs: neither external diff programs nor text conversions.
    ///
    /// # Errors
    /// There is no such commit; errors of git.
    pub fn patch(&self, commit: &str, most: usize) -> Result<Patch> {
        let options = ["--no-ext-diff", "--no-textconv", "--no-color", "-M", "--root", "-m"];
        let id = format!("{commit}^{{commit}}");
        let show = [&["show", "--format=", "-p"], &options[..], &["--first-parent", &id]].concat();
        let mut output = Beginning { bytes: Vec::new(), most: most + 1 };
        let streams = CallStreams { input: &mut io::empty(), output: &mut output };
        program::run_streaming(&self.root, &show, &[], streams)?;
        let mut bytes = output.bytes;
        let is_cut = bytes.len() > most;
        bytes.truncate(most);
        Ok(Patch { text: lossy(&bytes), is_cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::tests::TestRepository;

    #[test]
    fn a_change_that_is_replayed_is_the_same_and_another_one_is_not() {
        let place = TestRepository::new();
        let lines = |more: [&str; 2]| format!("{}\n1\n2\n3\n4\n5\n6\n{}\n", more[0], more[1]);
        let base = place.commit("many", &lines(["a", "b"]), "Base");
        place.write("new", "1\n");
        place.git(&["add", "new"]);
        let work = place.commit("many", &lines(["a", "work"]), "Work");
        place.git(&["checkout", "-q", "--detach", &base]);
        let onto = place.commit("many", &lines(["other", "b"]), "Other");
        place.git(&["cherry-pick", &work]);
        let landed = place.git(&["rev-parse", "HEAD"]);
        let is_same = |landed: &str| {
            let repo = Repo::discover(&place.top).unwrap();
            repo.is_same_change([&base, &work], [&onto, landed]).unwrap()
        };
        assert!(is_same(&landed));
        // One file more, one less, another line, another mode.
        assert!(!is_same(&place.commit("more", "1\n", "More")));
        place.git(&["reset", "-q", "--hard", &landed]);
        place.git(&["rm", "-q", "new"]);
        assert!(!is_same(&place.commit("many", &lines(["other", "work"]), "Less")));
        place.git(&["reset", "-q", "--hard", &landed]);
        assert!(!is_same(&place.commit("many", &lines(["other", "merged"]), "Merged")));
        place.git(&["reset", "-q", "--hard", &landed]);
        place.git(&["update-index", "--chmod=+x", "many"]);
        place.git(&["commit", "-qm", "Mode"]);
        assert!(!is_same(&place.git(&["rev-parse", "HEAD"])));
    }

    #[test]
    fn binary_files_are_the_same_only_as_a_whole() {
        let place = TestRepository::new();
        let base = place.commit("image", "\0one", "Base");
        let work = place.commit("image", "\0two", "Work");
        place.git(&["checkout", "-q", "--detach", &base]);
        let onto = place.commit("image", "\0other", "Other");
        let landed = place.commit("image", "\0both", "Landed");
        let repo = Repo::discover(&place.top).unwrap();
        assert!(!repo.is_same_change([&base, &work], [&onto, &landed]).unwrap());
        assert!(repo.is_same_change([&base, &work], [&base, &work]).unwrap());
    }
}
