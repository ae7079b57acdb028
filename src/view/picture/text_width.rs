//! The width of text in a picture, without its font: what common sans-serif fonts need at most.

use std::borrow::Cow;

use crate::adapters::terminal::{columns, visible};

/// The fonts of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Font {
    /// Names of boxes.
    Title,
    /// Everything else.
    Text,
}

/// The widths of the characters from the blank to the tilde, in thousandths of the size.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 584, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
/// The width of other characters, for each column that they have in a terminal.
const COLUMN: f64 = 0.6;
/// The width of characters with two columns.
const FULL: f64 = 1.04;
/// How much wider than the table a font may be.
const RESERVE: f64 = 1.18;

impl Font {
    /// The size of the font.
    pub fn size(self) -> f64 {
        match self {
            Font::Title => 13.0,
            Font::Text => 11.0,
        }
    }

    /// How much wider it is than the plain font.
    fn weight(self) -> f64 {
        match self {
            Font::Title => 1.1,
            Font::Text => 1.0,
        }
    }
}

/// The width that a text needs.
pub fn text_width(text: &str, font: Font) -> f64 {
    text.chars().map(|c| char_width(c, font)).sum()
}

fn char_width(c: char, font: Font) -> f64 {
    let table = (c as usize).checked_sub(0x20).and_then(|at| WIDTHS.get(at));
    let width = match table {
        Some(width) => f64::from(*width) / 1000.0 * RESERVE,
        None => match columns(c.encode_utf8(&mut [0; 4])) {
            0 => 0.0,
            1 => COLUMN * RESERVE,
            _ => FULL,
        },
    };
    width * font.size() * font.weight()
}

/// The text as far as it fits, with an ellipsis if it was cut.
pub fn fitted(text: &str, font: Font, room: f64) -> Cow<'_, str> {
    if text_width(text, font) <= room {
        return Cow::Borrowed(text);
    }
    let room = room - char_width('…', font);
    let mut used = 0.0;
    let kept = text.chars().take_while(|c| {
        used += char_width(*c, font);
        used <= room
    });
    let kept: String = kept.collect();
    Cow::Owned(kept.trim_end().to_owned() + "…")
}

/// A text in an XML document: markup is escaped, and what XML cannot contain or what changes the
/// order of text is shown and has no effect.
pub fn xml(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_its_width() {
        let text = |text: &str, room: f64| fitted(text, Font::Text, room).into_owned();
        assert_eq!(text("iiiiiiiiii", 40.0), "iiiiiiiiii");
        assert_eq!(text("WWWWWWWWWW", 40.0), "WW…");
        assert_eq!(text("日本語の題名です", 60.0), "日本語の…");
        assert_eq!(text("words and more", 49.0), "words…");
        assert!(text_width("日本", Font::Text) > 3.0 * text_width("il", Font::Text));
        for room in 0..200 {
            let cut = text("Mixed 日本 text, e\u{301} and \u{1f600} signs", f64::from(room));
            let width = text_width(&cut, Font::Text);
            assert!(width <= f64::from(room).max(char_width('…', Font::Text)), "{cut}");
        }
    }

    #[test]
    fn a_document_has_no_markup_of_a_title() {
        assert_eq!(xml("<a b='c'>&\"\u{1b}[31m"), "&lt;a b=&#39;c&#39;&gt;&amp;&quot;\\u{1b}[31m");
        assert_eq!(
            xml("\u{202e}abc\u{2066}\u{61c}\u{ffff}\0"),
            "\\u{202e}abc\\u{2066}\\u{61c}\\u{ffff}\\u{0}"
        );
    }
}
