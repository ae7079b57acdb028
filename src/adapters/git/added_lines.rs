//! Conflicts in which both sides only added lines at the same place: the lines of both are kept,
//! and the verify commands decide.

use anyhow::Result;

use super::{integrate::GitCalls, lossy};
use crate::regular_file;

/// The attribute of files for which this is tried. A file with an attribute `merge` of its own is
/// merged as that says.
pub const KEEPS_ADDED: &str = "ralph-keep-added";

impl GitCalls<'_> {
    /// Resolves the conflicts at which git stopped, if both sides only added lines to files that
    /// have the attribute. Returns these files. Else changes nothing, and returns none.
    pub(super) fn keep_added(&self) -> Result<Vec<String>> {
        let unmerged = self.run_raw(&["ls-files", "--unmerged", "-z"])?.stdout;
        let entries: Vec<String> =
            unmerged.split(|byte| *byte == 0).filter(|it| !it.is_empty()).map(lossy).collect();
        // Each line is `MODE OBJECT STAGE\tPATH`.
        let fields = |entry: &String| {
            let (about, path) = entry.split_once('\t')?;
            Some((about.split(' ').next()?.to_owned(), path.to_owned()))
        };
        let mut paths = Vec::new();
        for stages in entries.chunks(3) {
            let mut stages = stages.iter().map(fields);
            let (Some(Some(base)), Some(ours), Some(theirs)) =
                (stages.next(), stages.next(), stages.next())
            else {
                return Ok(Vec::new());
            };
            // A file that both added, or one of them removed, has fewer stages.
            if !base.0.starts_with("100")
                || ours.as_ref() != Some(&base)
                || theirs.as_ref() != Some(&base)
            {
                return Ok(Vec::new());
            }
            paths.push(base.1);
        }
        let names = paths.iter().map(String::as_str);
        if paths.is_empty() || !self.keeps_added(&paths)? {
            return Ok(Vec::new());
        }
        let mut texts = Vec::new();
        for path in &paths {
            let path = self.repo.root.join(path);
            let Some(text) = regular_file::read(&path).ok().and_then(|text| with_both(&text))
            else {
                return Ok(Vec::new());
            };
            texts.push((path, text));
        }
        for (path, text) in &texts {
            regular_file::write(path, text)?;
        }
        let add = ["--literal-pathspecs", "add", "--"];
        let added = self.run_raw(&add.into_iter().chain(names).collect::<Vec<_>>())?;
        Ok(if added.status.success() { paths } else { Vec::new() })
    }

    fn keeps_added(&self, paths: &[String]) -> Result<bool> {
        let ask = ["check-attr", "-z", KEEPS_ADDED, "merge", "--"];
        let arguments: Vec<&str> =
            ask.into_iter().chain(paths.iter().map(String::as_str)).collect();
        let answer = lossy(&self.run_raw(&arguments)?.stdout);
        // Path, attribute and value in turn.
        let fields: Vec<&str> = answer.split('\0').collect();
        let mut values = fields.chunks_exact(3).map(|field| (field[1], field[2]));
        Ok(values.all(|it| it == (KEEPS_ADDED, "set") || it == ("merge", "unspecified")))
    }
}

/// The text with the lines of both sides, of a text with conflicts in the style `diff3`; none if a
/// side changed or removed a line there. The added lines of a side stay together.
fn with_both(text: &[u8]) -> Option<Vec<u8>> {
    const MARKERS: [&[u8]; 4] = [b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> "];
    let mut kept = Vec::with_capacity(text.len());
    // The marker that comes next.
    let mut next = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(MARKERS[next]) {
            next = (next + 1) % MARKERS.len();
        } else if next == 2 || line.starts_with(MARKERS[0]) {
            // A line of the base, or a file that has such lines of its own.
            return None;
        } else {
            kept.extend_from_slice(line);
        }
    }
    (next == 0 && kept.len() < text.len()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_lines_of_both_are_kept_together_and_anything_else_is_a_conflict() {
        let conflict = |base: &str| {
            let (head, end) = ("a\n<<<<<<< ours\nfn x() {\n}\n", "=======\nfn y() {\n}\n");
            format!("{head}||||||| base\n{base}{end}>>>>>>> theirs\nb\n")
        };
        let both = with_both(conflict("").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(both).unwrap(), "a\nfn x() {\n}\nfn y() {\n}\nb\n");
        let windows = conflict("").replace('\n', "\r\n");
        assert!(with_both(windows.as_bytes()).unwrap().ends_with(b"fn y() {\r\n}\r\nb\r\n"));
        for text in [
            conflict("old\n"),
            conflict("") + &conflict("old\n"),
            conflict("").replace(">>>>>>> theirs", "theirs"),
            "a\n".to_owned(),
        ] {
            assert_eq!(with_both(text.as_bytes()), None, "{text}");
        }
    }
}
