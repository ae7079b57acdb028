//! Words and commands by which lint judges a text.

/// Words that each reader takes differently.
const VAGUE: &[&str] = &[
    "and so on",
    "as appropriate",
    "as needed",
    "better",
    "clean up",
    "cleaner",
    "etc",
    "if needed",
    "if necessary",
    "improve",
    "misc",
    "nicer",
    "optimize",
    "properly",
    "robust",
    "somehow",
    "stuff",
    "tbd",
    "user friendly",
    "various",
    "where possible",
];

/// Words by which a text says when the work is done.
const CRITERIA: &[&str] = &[
    "acceptance",
    "assert",
    "criteria",
    "criterion",
    "definition of done",
    "done when",
    "exit code",
    "expected",
    "expects",
    "fails with",
    "must",
    "passes",
    "prints",
    "returns",
    "so that",
    "test",
    "tests",
    "verify",
];

/// Beginnings of the names of fields that say when the work is done.
const FIELDS: &[&str] = &["acceptance", "criteria", "definition_of_done", "done_when", "success"];

/// Endings of a shell command that hide its failure.
const HIDDEN: &[&str] = &["|| true", "|| :", "|| exit 0", "; true", "; :", "; exit 0"];

/// The most characters of a command in a message.
const SHOWN: usize = 40;

/// Returns the vague words of a text.
pub(super) fn vague_words(text: &str) -> Vec<&'static str> {
    let text = plain(text);
    VAGUE.iter().filter(|word| text.contains(&format!(" {word} "))).copied().collect()
}

/// Whether a text says when the work is done.
pub(super) fn has_criteria(text: &str) -> bool {
    let boxes = ["- [ ]", "* [ ]"].iter().any(|it| text.contains(it));
    let text = plain(text);
    boxes || CRITERIA.iter().any(|word| text.contains(&format!(" {word} ")))
}

/// Whether a field of this name says when the work is done.
pub(super) fn is_criteria(field: &str) -> bool {
    let field = field.to_lowercase().replace('-', "_");
    FIELDS.iter().any(|name| field.starts_with(name))
}

/// Whether a shell command succeeds whatever the state of the work.
pub fn cannot_fail(command: &str) -> bool {
    let command = command.trim().trim_end_matches(';').trim_end();
    let is_chain = ["&&", "||", ";", "|", "$("].iter().any(|part| command.contains(part));
    let first = command.split_whitespace().next().unwrap_or_default();
    let is_constant = matches!(command, "" | "true" | ":" | "exit 0" | "/bin/true")
        || (!is_chain && matches!(first, "echo" | "printf" | "sleep"));
    is_constant || HIDDEN.iter().any(|end| command.ends_with(end))
}

/// Returns a command in one short line.
pub(super) fn shortened(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    if line.chars().count() <= SHOWN && line == command {
        return line.to_owned();
    }
    line.chars().take(SHOWN).chain(['…']).collect()
}

/// Returns the number of words of a text. Where a script has no blanks between words, two characters
/// count as a word.
pub(super) fn count(text: &str) -> usize {
    let words = |word: &str| {
        let unspaced = word.chars().filter(|c| is_unspaced(*c)).count();
        if unspaced == 0 { 1 } else { unspaced.div_ceil(2) }
    };
    text.split_whitespace().map(words).sum()
}

/// Whether a character is of a script without blanks between words: Chinese, Japanese, Thai, Lao,
/// Burmese, Khmer.
fn is_unspaced(c: char) -> bool {
    matches!(
        c,
        '\u{e00}'..='\u{eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ff9f}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

/// Returns a number of words in words.
pub(super) fn counted(words: usize) -> String {
    match words {
        0 => "no words".to_owned(),
        1 => "1 word".to_owned(),
        words => format!("{words} words"),
    }
}

/// A text in lower case with single blanks between its words, before the first and after the last.
fn plain(text: &str) -> String {
    let mut plain = String::from(" ");
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        plain.push_str(&word.to_lowercase());
        plain.push(' ');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_cannot_fail_are_known() {
        for command in ["true", " : ", "exit 0", "echo ok", "cargo test || true", "make; true;"] {
            assert!(cannot_fail(command), "{command}");
        }
        for command in ["cargo test", "echo x | grep y", "true && make", "test -f x || exit 1"] {
            assert!(!cannot_fail(command), "{command}");
        }
    }

    #[test]
    fn words_are_counted_without_blanks_too() {
        assert_eq!((count(""), count("a b\n c-d")), (0, 3));
        assert_eq!(count("新しい形式のパーサーを書く"), 7);
        assert_eq!(count("修改 src/app.rs 的解析器"), 4);
        assert_eq!(count("새 형식의 파서를 작성한다"), 4, "Korean has blanks");
    }

    #[test]
    fn words_are_found_as_whole_words() {
        assert_eq!(
            vague_words("Improve it, clean-up, etc. (sketch)"),
            ["clean up", "etc", "improve"]
        );
        assert_eq!(vague_words("improvement, sketchy etcd"), [""; 0]);
        assert!(has_criteria("`--help` prints the version"));
        assert!(has_criteria("- [ ] it builds"));
        assert!(!has_criteria("write the parser"));
        assert!(is_criteria("acceptanceCriteria") && is_criteria("done-when") && !is_criteria("x"));
    }
}
