//! The paragraph for agents, between markers in a file that belongs to the user.

use super::{FileFate, append, with_ends};
use crate::prompt::template::Template;

const BEGIN: &str = "<!-- ralph: begin -->";
const END: &str = "<!-- ralph: end -->";

/// Appends the paragraph, or replaces an existing one if allowed.
pub(super) fn put(text: &str, may_replace: bool) -> FileFate {
    let paragraph = Template::Agents.text();
    let what = "a paragraph on `ralph`".to_owned();
    let (begin, end) = (text.find(BEGIN), text.find(END));
    let (begin, end) = match (begin, end) {
        (None, None) => return FileFate::Add(append(text, &paragraph), what),
        (Some(begin), Some(end)) if begin < end => (begin, end + END.len()),
        _ => return FileFate::Keep(format!("has `{BEGIN}` and `{END}` that do not match")),
    };
    let crlf = text.contains("\r\n");
    let wanted = with_ends(paragraph.trim_end(), crlf);
    if text[begin..end] == wanted {
        FileFate::Same
    } else if may_replace {
        FileFate::Add(format!("{}{wanted}{}", &text[..begin], &text[end..]), what)
    } else {
        FileFate::Keep("already has a paragraph on `ralph`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paragraph_is_added_once() {
        for text in ["", "# Mine\n", "# Mine\r\n\r\nNo end"] {
            let FileFate::Add(once, _) = put(text, false) else { panic!("{text:?}") };
            assert!(once.starts_with(text));
            assert_eq!(
                once.contains("\r\n"),
                once.matches('\n').count() == once.matches("\r\n").count()
            );
            assert_eq!(put(&once, true), FileFate::Same);
            let behind = format!("{once}behind\n");
            assert_eq!(put(&behind, false), FileFate::Same);
            let edited = behind.replacen("## Tasks", "## Jobs", 1);
            assert!(matches!(put(&edited, false), FileFate::Keep(_)));
            let FileFate::Add(mended, _) = put(&edited, true) else { panic!("{text:?}") };
            assert_eq!(mended, behind);
        }
        assert!(matches!(put(&format!("{END}\n{BEGIN}\n"), true), FileFate::Keep(_)));
        assert!(matches!(put(BEGIN, true), FileFate::Keep(_)));
    }

    #[test]
    fn the_template_has_its_markers() {
        let text = Template::Agents.text();
        assert!(text.starts_with(BEGIN) && text.ends_with(&format!("{END}\n")));
    }
}
