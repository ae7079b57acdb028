//! The files that a text names.

use std::collections::BTreeSet;

/// The endings by which a word without a folder counts as a file.
const ENDINGS: &[&str] = &[
    "c", "cc", "cfg", "conf", "cpp", "cs", "css", "go", "h", "hpp", "html", "java", "js", "json",
    "jsx", "kt", "lock", "md", "php", "proto", "py", "rb", "rs", "scala", "scss", "sh", "sql",
    "swift", "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml", "zig",
];

/// Returns the files that a text names: words with an ending that is known for files.
pub(super) fn named_paths(text: &str) -> BTreeSet<String> {
    text.split(|c| !is_path_part(c)).filter_map(path_of).collect()
}

/// Whether a character does not end a path in a text.
pub(super) fn is_path_part(c: char) -> bool {
    c.is_alphanumeric() || "/._-+@".contains(c)
}

fn path_of(word: &str) -> Option<String> {
    let word = word.trim_end_matches(['.', '/']).trim_start_matches("./");
    let name = word.rsplit('/').next()?;
    let (stem, ending) = name.rsplit_once('.')?;
    let is_file = !stem.is_empty() && ENDINGS.contains(&ending) && !word.contains("//");
    // `e.g.` and `Node.js` are no files.
    let is_name =
        word.contains('/') || !matches!(&*word.to_lowercase(), "node.js" | "next.js" | "vue.js");
    (is_file && is_name && !word.contains('@')).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_text() {
        let text = "Change `src/app.rs` and ./README.md (not https://a.b/c.html, e.g. Node.js \
                    18.04 or x@1.0.js); see src/lib/, Cargo.toml.";
        let found: Vec<String> = named_paths(text).into_iter().collect();
        assert_eq!(found, ["Cargo.toml", "README.md", "src/app.rs"]);
    }
}
