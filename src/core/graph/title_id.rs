//! Ids for new tasks, made from their titles.

use super::task::TaskId;

/// The longest id that is made, in bytes. A number may follow.
const LONGEST: usize = 40;

/// Letters with marks, by the letters without them.
const PLAIN: &[(&str, &str)] = &[
    ("a", "àáâãåāăą"),
    ("ae", "äæ"),
    ("c", "çćĉċč"),
    ("d", "ďđð"),
    ("e", "èéêëēĕėęě"),
    ("g", "ĝğġģ"),
    ("h", "ĥħ"),
    ("i", "ìíîïĩīĭįı"),
    ("j", "ĵ"),
    ("k", "ķ"),
    ("l", "ĺļľŀł"),
    ("n", "ñńņňŉ"),
    ("o", "òóôõōŏő"),
    ("oe", "öøœ"),
    ("r", "ŕŗř"),
    ("s", "śŝşšș"),
    ("ss", "ß"),
    ("t", "ţťŧț"),
    ("th", "þ"),
    ("u", "ùúûũūŭůűų"),
    ("ue", "ü"),
    ("w", "ŵ"),
    ("y", "ýÿŷ"),
    ("z", "źżž"),
];

/// Returns an id for a title: its words in lower case and ASCII, joined by `-`, as many as fit. A
/// number is added if the id is taken.
pub fn id_of_title(title: &str, is_taken: impl Fn(&str) -> bool) -> TaskId {
    let mut id = String::new();
    for word in words(title) {
        let room = LONGEST - id.len();
        if id.is_empty() {
            id.push_str(&word[..word.len().min(room)]);
        } else if word.len() < room {
            id.push('-');
            id.push_str(&word);
        } else {
            break;
        }
    }
    if id.is_empty() {
        "task".clone_into(&mut id);
    }
    let numbered = (2_u64..).map(|number| format!("{id}-{number}"));
    let mut free = std::iter::once(id.clone()).chain(numbered).filter(|id| !is_taken(id));
    let found = free.next().expect("numbers do not end");
    TaskId::new(&found).expect("letters, digits and `-` make an id")
}

/// The words of a title, in lower-case ASCII letters and digits.
fn words(title: &str) -> impl Iterator<Item = String> {
    // An apostrophe does not separate words.
    let lowered = title.to_lowercase().replace(['\'', '’'], "");
    let mut plain = String::with_capacity(lowered.len());
    for c in lowered.chars().take(10 * LONGEST) {
        if c.is_ascii_alphanumeric() {
            plain.push(c);
        } else if let Some((letters, _)) = PLAIN.iter().find(|(_, marked)| marked.contains(c)) {
            plain.push_str(letters);
        } else {
            plain.push(' ');
        }
    }
    plain.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_made_of_the_words_of_the_title() {
        for (title, id) in [
            ("Add a parser", "add-a-parser"),
            ("Don't  crash on `../x`!", "dont-crash-on-x"),
            ("Größe & Façade", "groesse-facade"),
            ("日本語", "task"),
            ("", "task"),
            (
                "Rewrite the whole of the storage layer in terms of pages",
                "rewrite-the-whole-of-the-storage-layer",
            ),
            ("HTTP/2 support", "http-2-support"),
            ("\u{1b}[31mred\n-- x: y", "31mred-x-y"),
        ] {
            assert_eq!(id_of_title(title, |_| false).as_str(), id);
        }
        let taken = ["x", "x-2"];
        assert_eq!(id_of_title("X", |id| taken.contains(&id)).as_str(), "x-3");
        assert_eq!(id_of_title(&"y".repeat(10_000_000), |_| false).as_str().len(), LONGEST);
    }

    proptest! {
        #[test]
        fn any_title_has_an_id(title in ".{0,80}") {
            let id = id_of_title(&title, |_| false);
            prop_assert!(id.as_str().len() <= LONGEST);
        }
    }
}
