//! The files of a project in few lines.

use std::collections::BTreeMap;

/// Returns at most `most` lines that name files: single files as far as there is room, and for deeper
/// folders only how many files they have.
pub fn layout(paths: &[String], most: usize) -> Vec<String> {
    if paths.len() <= most {
        return paths.to_vec();
    }
    let mut best = Vec::new();
    for depth in 1.. {
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for path in paths {
            let end = path.match_indices('/').nth(depth - 1).map(|(at, _)| at + 1);
            *lines.entry(end.map_or(path, |end| &path[..end])).or_default() += 1;
        }
        let is_whole = lines.keys().all(|name| !name.ends_with('/'));
        let line = |(name, count): (&str, usize)| match count {
            count if name.ends_with('/') => format!("{name} ({count} files)"),
            _ => name.to_owned(),
        };
        let is_fit = lines.len() <= most;
        if is_fit || best.is_empty() {
            best = lines.into_iter().map(line).collect();
        }
        if !is_fit || is_whole {
            break;
        }
    }
    if best.len() > most {
        let more = best.len() + 1 - most;
        best.truncate(most.saturating_sub(1));
        best.push(format!("… and {more} more"));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_stand_for_files_where_there_are_too_many() {
        let paths = ["README.md", "src/a.rs", "src/deep/b.rs", "src/deep/c.rs", "x.rs"];
        let paths = paths.map(str::to_owned);
        assert_eq!(layout(&paths, 5), paths);
        assert_eq!(layout(&paths, 4), ["README.md", "src/a.rs", "src/deep/ (2 files)", "x.rs"]);
        assert_eq!(layout(&paths, 3), ["README.md", "src/ (3 files)", "x.rs"]);
        assert_eq!(layout(&paths, 2), ["README.md", "… and 2 more"]);
        assert_eq!(layout(&[], 2), [""; 0]);
        let many: Vec<String> = (0..100_000).map(|n| format!("a/b/{n}")).collect();
        assert_eq!(layout(&many, 300), ["a/b/ (100000 files)"]);
    }
}
