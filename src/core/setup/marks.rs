//! The paragraph for agents, between marks in a file that is otherwise somebody else's.

use super::{Fate, append, with_ends};
use crate::core::prompt::template::Template;

const BEGIN: &str = "<!-- ralph: begin -->";
const END: &str = "<!-- ralph: end -->";

/// Puts the paragraph behind the text, or, where it may be replaced, in place of the one there.
pub(super) fn put(text: &str, may_replace: bool) -> Fate {
    let paragraph = Template::Agents.text();
    let what = "a paragraph on `ralph`".to_owned();
    let (begin, end) = (text.find(BEGIN), text.find(END));
    let (begin, end) = match (begin, end) {
        (None, None) => return Fate::Add(append(text, &paragraph), what),
        (Some(begin), Some(end)) if begin < end => (begin, end + END.len()),
        _ => return Fate::Keep(format!("`{BEGIN}` and `{END}` do not belong together in it")),
    };
    let crlf = text.contains("\r\n");
    let wanted = with_ends(paragraph.trim_end(), crlf);
    if text[begin..end] == wanted {
        Fate::Same
    } else if may_replace {
        Fate::Add(format!("{}{wanted}{}", &text[..begin], &text[end..]), what)
    } else {
        Fate::Keep("has such a paragraph already".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paragraph_is_put_there_once() {
        for text in ["", "# Mine\n", "# Mine\r\n\r\nNo end"] {
            let Fate::Add(once, _) = put(text, false) else { panic!("{text:?}") };
            assert!(once.starts_with(text));
            assert_eq!(
                once.contains("\r\n"),
                once.matches('\n').count() == once.matches("\r\n").count()
            );
            assert_eq!(put(&once, true), Fate::Same);
            let behind = format!("{once}behind\n");
            assert_eq!(put(&behind, false), Fate::Same);
            let edited = behind.replacen("## Tasks", "## Jobs", 1);
            assert!(matches!(put(&edited, false), Fate::Keep(_)));
            let Fate::Add(mended, _) = put(&edited, true) else { panic!("{text:?}") };
            assert_eq!(mended, behind);
        }
        assert!(matches!(put(&format!("{END}\n{BEGIN}\n"), true), Fate::Keep(_)));
        assert!(matches!(put(BEGIN, true), Fate::Keep(_)));
    }

    #[test]
    fn the_template_has_its_marks() {
        let text = Template::Agents.text();
        assert!(text.starts_with(BEGIN) && text.ends_with(&format!("{END}\n")));
    }
}
