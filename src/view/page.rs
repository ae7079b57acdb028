//! Text pages: how much of each part is shown, and the lines for a terminal or as Markdown.

use std::fmt::Write as _;

use crate::{
    adapters::terminal::{self, Style, visible},
    core::verdict::Commit,
    view::lines::{Line, line},
};

/// How many earlier runs are named.
const EARLIER: usize = 3;
/// Below this width, the text about a task is cut to the most important.
const NARROW: usize = 80;

/// How much of each part is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The entries that need a person.
    pub attention: usize,
    /// The lines for why each of these does, and for why each task failed.
    pub rows: usize,
    /// The lines that say more about it.
    pub detail: usize,
    /// The completed tasks.
    pub landed: usize,
    /// The commits of each, besides the first.
    pub commits: usize,
    /// The failed tasks.
    pub failed: usize,
    /// The earlier runs.
    pub earlier: usize,
}

impl Fold {
    /// Everything.
    pub const ALL: Fold = Fold {
        attention: usize::MAX,
        rows: usize::MAX,
        detail: usize::MAX,
        landed: usize::MAX,
        commits: usize::MAX,
        failed: usize::MAX,
        earlier: EARLIER,
    };
    /// Most of it, for logs and messages.
    pub const LONG: Fold = Fold {
        attention: 40,
        rows: usize::MAX,
        detail: 3,
        landed: 40,
        commits: 0,
        failed: 40,
        earlier: 0,
    };
    /// The least that is shown.
    const LEAST: Fold =
        Fold { attention: 2, rows: 1, detail: 1, landed: 2, commits: 0, failed: 1, earlier: 1 };
    /// The possible additions, the most useful first, as long as they fit the screen.
    const MORE: [fn(Fold) -> Fold; 16] = [
        |fold| Fold { rows: 2, ..fold },
        |fold| Fold { attention: 3, ..fold },
        |fold| Fold { attention: 4, ..fold },
        |fold| Fold { rows: 4, ..fold },
        |fold| Fold { landed: 4, ..fold },
        |fold| Fold { failed: 2, ..fold },
        |fold| Fold { attention: 8, ..fold },
        |fold| Fold { detail: 2, ..fold },
        |fold| Fold { landed: 8, ..fold },
        |fold| Fold { failed: 5, ..fold },
        |fold| Fold { attention: 16, ..fold },
        |fold| Fold { landed: 12, ..fold },
        |fold| Fold { detail: 4, ..fold },
        |fold| Fold { earlier: EARLIER, ..fold },
        |fold| Fold { landed: 24, failed: 12, ..fold },
        |fold| Fold { detail: 12, ..fold },
    ];
}

/// The markup of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// A terminal with this many columns, or lines of any width.
    Terminal(Option<usize>),
    /// Markdown. Texts of others are escaped: they neither mention people, link issues nor change
    /// the layout.
    Markdown,
}

/// The lines of a page.
pub struct TextPage {
    /// Its markup.
    pub markup: Markup,
    /// The lines so far.
    pub lines: Vec<Line>,
}

impl TextPage {
    /// An empty page.
    pub fn new(markup: Markup) -> TextPage {
        TextPage { markup, lines: Vec::new() }
    }

    /// A named value.
    pub fn field(&mut self, name: &str, value: &str) {
        self.text(None, &format!("{name}: {value}"));
    }

    /// A heading with its items; nothing where there are none.
    pub fn list<T: ToString>(&mut self, heading: &str, items: impl IntoIterator<Item = T>) {
        let mut items = items.into_iter().map(|item| item.to_string()).peekable();
        if items.peek().is_some() {
            self.text(None, &format!("{heading}:"));
        }
        items.for_each(|item| self.text(None, &format!("  {item}")));
    }

    /// A line of Markdown.
    fn mark(&mut self, text: String) {
        self.lines.push(Line { style: None, text });
    }

    /// A heading of a part.
    pub fn heading(&mut self, text: &str) {
        if self.markup == Markup::Markdown {
            let text = escaped(text.trim_end_matches(':'));
            let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
            self.mark(format!("\n### {}{rest}\n", first.to_uppercase()));
        } else {
            self.text(Style::Strong, text);
        }
    }

    /// A heading, with a hint for a person at a terminal.
    pub fn heading_with(&mut self, text: &str, hint: &str) {
        let hint =
            if self.markup == Markup::Markdown { String::new() } else { format!(" ({hint})") };
        self.heading(&format!("{text}{hint}:"));
    }

    /// A line that is wrapped.
    pub fn text(&mut self, style: impl Into<Option<Style>>, text: &str) {
        let Line { style, text } = line(style, text);
        let text = match self.markup {
            Markup::Markdown => return self.mark(format!("\n{}", escaped(&text))),
            Markup::Terminal(Some(width)) => terminal::wrap(&text, width).join("\n"),
            Markup::Terminal(None) => text,
        };
        self.lines.push(Line { style, text });
    }

    /// A line that is cut, but for its end.
    pub fn row(&mut self, style: impl Into<Option<Style>>, text: &str, end: &str) {
        let (text, end) = (visible(text), visible(end));
        let width = match self.markup {
            Markup::Markdown => return self.text(None, &format!("{text}{end}")),
            Markup::Terminal(width) => width,
        };
        let room = width.map(|width| width.saturating_sub(terminal::columns(&end)));
        let text = match room {
            Some(room) if room < 20 => return self.text(style, &format!("{text}{end}")),
            Some(room) => terminal::fit(&text, room),
            None => text,
        };
        self.lines.push(Line { style: style.into(), text: format!("{text}{end}") });
    }

    /// An entry of a list in one line: its sign, its task, and the text about that.
    pub fn entry(&mut self, style: Option<Style>, sign: char, (id, text): (&str, &str), end: &str) {
        match self.markup {
            Markup::Markdown => {
                let id = if id.is_empty() { String::new() } else { code(id) };
                self.mark(format!("- {id}{}", escaped(&format!("{text}{end}"))));
            }
            Markup::Terminal(_) => self.row(style, &format!("  {sign} {id}{text}"), end),
        }
    }

    /// Lines of an output or a question below an entry.
    pub fn quote(&mut self, lines: &[String]) {
        let is_markdown = self.markup == Markup::Markdown;
        for (at, text) in lines.iter().enumerate() {
            let before = if is_markdown && at == 0 { "\n" } else { "" };
            if is_markdown {
                self.mark(format!("{before}      {}", visible(text)));
            } else {
                self.row(None, &format!("      {text}"), "");
            }
        }
        if is_markdown && !lines.is_empty() {
            self.mark(String::new());
        }
    }

    /// A commit below an entry.
    pub fn commit(&mut self, commit: &Commit) {
        let text = format!("{} {}", commit.short(), commit.subject);
        match self.markup {
            Markup::Markdown => self.note(Style::Faint, &text),
            Markup::Terminal(_) => self.row(None, &format!("      {text}"), ""),
        }
    }

    /// A wrapped line below an entry.
    pub fn note(&mut self, style: Style, text: &str) {
        match self.markup {
            Markup::Markdown => self.mark(format!("  - {}", escaped(text))),
            Markup::Terminal(_) => self.text(style, &format!("      {text}")),
        }
    }

    /// A line after the entries of a list.
    pub fn aside(&mut self, style: Style, text: &str) {
        match self.markup {
            Markup::Markdown => self.mark(format!("- {}", escaped(text))),
            Markup::Terminal(_) => self.text(style, &format!("  {text}")),
        }
    }

    /// Says that a command shows `count` more entries.
    pub fn more(&mut self, count: usize, command: &str) {
        if count > 0 {
            self.aside(Style::Faint, &format!("… and {count} more; `{command}` shows all"));
        }
    }

    /// A text of at most `rows` lines, except for its end.
    pub fn short(&mut self, style: impl Into<Option<Style>>, text: &str, end: &str, rows: usize) {
        let (text, end) = (visible(text), visible(end));
        // A wrapped line is not always full.
        let slack = rows.saturating_sub(1).saturating_mul(12);
        let room = match self.markup {
            Markup::Terminal(Some(width)) if rows < usize::MAX => {
                Some((rows * width).saturating_sub(terminal::columns(&end) + slack))
            }
            Markup::Terminal(_) | Markup::Markdown => None,
        };
        let text = match room {
            Some(room) => terminal::fit(&text, room.max(30)),
            None => text,
        };
        self.text(style, &format!("{text}{end}"));
    }

    /// An entry of at most `rows` lines.
    pub fn tall(
        &mut self,
        style: Style,
        sign: char,
        (id, text): (&str, &str),
        end: &str,
        rows: usize,
    ) {
        match self.markup {
            Markup::Markdown => self.entry(None, sign, (id, text), end),
            Markup::Terminal(_) => self.short(style, &format!("  {sign} {id}{text}"), end, rows),
        }
    }

    /// Whether the text about a task is cut to the most important.
    pub fn is_narrow(&self) -> bool {
        matches!(self.markup, Markup::Terminal(Some(width)) if width < NARROW)
    }
}

/// The lines with as much as fits these rows.
pub fn fitting(rows: usize, lines: impl Fn(Fold) -> Vec<Line>) -> Vec<Line> {
    let (mut fold, mut best) = (Fold::LEAST, lines(Fold::LEAST));
    for more in Fold::MORE {
        let longer = lines(more(fold));
        let taken: usize = longer.iter().map(|line| line.text.split('\n').count()).sum();
        // The prompt of the shell needs a row.
        if taken < rows {
            (fold, best) = (more(fold), longer);
        }
    }
    best
}

/// Code in one line; escaped text where that cannot be code.
fn code(text: &str) -> String {
    if text.contains(['`', '\n']) { plain(text, None) } else { format!("`{}`", visible(text)) }
}

/// The text with only code in single backticks as markup, as in our own messages.
fn escaped(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let is_code = |part: &&str| !part.trim().is_empty() && !part.contains('\n');
    if parts.len().is_multiple_of(2) || !parts.iter().skip(1).step_by(2).all(is_code) {
        return plain(text, None);
    }
    let part = |(at, part): (usize, &&str)| match at % 2 {
        1 => code(part),
        _ => plain(part, (at > 0).then_some('`')),
    };
    parts.iter().enumerate().map(part).collect()
}

/// A text without markup: markup of Markdown, HTML or GitHub is escaped, and a mention or the
/// number of an issue is broken by an entity. `before` is the character in front.
fn plain(text: &str, before: Option<char>) -> String {
    let text = visible(text);
    let mut shown = String::with_capacity(text.len());
    let mut last = before;
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        let next = rest.chars().next();
        let is_next = |test: fn(char) -> bool| next.is_some_and(test);
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let is_active = match c {
            '|' | '`' | '[' | '~' => true,
            '*' => !(is_blank(last) && is_blank(next)),
            '_' => !(is_word(last) && is_word(next)),
            '\\' => next.is_none_or(|next| next.is_ascii_punctuation()),
            '<' => is_next(|next| next.is_ascii_alphabetic() || "/!?".contains(next)),
            '&' => is_next(|next| next == '#' || next.is_ascii_alphanumeric()),
            '@' => is_next(|next| next.is_ascii_alphanumeric()),
            '#' => last.is_none() || is_next(|next| next.is_ascii_digit()),
            '>' => last.is_none(),
            // Only a sign after a character ends a formula.
            '$' => !is_blank(last),
            ':' => rest.starts_with("//") || is_emoji(rest),
            '.' => shown.to_ascii_lowercase().ends_with("www"),
            _ => false,
        };
        match c {
            '*' | '_' | '[' | '~' | '\\' if is_active => shown.extend(['\\', c]),
            // A mention and a mail address are also found in decoded entities.
            '@' if is_active => shown.push_str("@&#8203;"),
            _ if is_active => {
                let _ = write!(shown, "&#{};", u32::from(c));
            }
            _ => shown.push(c),
        }
        last = Some(c);
    }
    shown
}

/// Whether the text after a colon is the name of an emoji, up to the next colon; not the minutes of a
/// time.
fn is_emoji(rest: &str) -> bool {
    /// The names without a letter.
    const NUMBERS: [&str; 2] = ["100", "1234"];
    let in_name = |c: char| c.is_ascii_alphanumeric() || "_+-".contains(c);
    let is_number = |name: &str| name.chars().all(|c| c.is_ascii_digit());
    rest.split_once(':').is_some_and(|(name, _)| {
        name.chars().all(in_name) && (!is_number(name) || NUMBERS.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_filled_and_never_longer_than_it_can_be() {
        let part = |count: usize, wanted: usize| (0..count.min(wanted)).map(|_| line(None, "x"));
        let page = |fold: Fold| -> Vec<Line> {
            let needs = part(30, fold.attention).flat_map(|it| vec![it; 2 + fold.detail]);
            needs.chain(part(100, fold.landed)).chain(part(100, fold.failed)).collect()
        };
        for rows in [24, 30, 50, 80] {
            let lines = fitting(rows, page).len();
            assert!((rows * 2 / 3..rows).contains(&lines), "{lines} lines on {rows} rows");
        }
        assert_eq!(fitting(3, page), page(Fold::LEAST), "the least is always shown");
    }

    #[test]
    fn the_end_of_an_item_is_never_cut() {
        let mut page = TextPage::new(Markup::Terminal(Some(40)));
        page.row(None, "  + a: A title that is longer than the screen is", "; 1 file, +1 -0");
        page.short(Style::Warn, "  - a: a reason that is longer than the screen is", "; end", 1);
        page.row(None, "  ! x: why", "; `ralph show a-very-long-name-of-a-task.1`");
        let texts: Vec<&str> = page.lines.iter().flat_map(|line| line.text.split('\n')).collect();
        assert_eq!(texts[0], "  + a: A title that is l…; 1 file, +1 -0");
        assert_eq!(texts[1], "  - a: a reason that is longer tha…; end");
        assert!(texts[2..].concat().contains("a-very-long-name-of-a-task.1`"), "{texts:?}");
        assert!(texts.iter().all(|text| terminal::columns(text) <= 40), "{texts:?}");
    }

    #[test]
    fn texts_of_others_are_escaped_and_commands_stay_code() {
        for (text, want) in [
            ("a|b", "a&#124;b"),
            ("@me #12 <b> `x`", "@&#8203;me &#35;12 &#60;b> `x`"),
            ("https://x.y :tada:", "https&#58;//x.y &#58;tada:"),
            ("06:14:07 :100:", "06:14:07 &#58;100:"),
            ("run `ralph run`, then *wait*", "run `ralph run`, then \\*wait\\*"),
            ("a `b|c` d", "a `b|c` d"),
            ("one ` only @me", "one &#96; only @&#8203;me"),
            ("``@me`` `", "&#96;&#96;@&#8203;me&#96;&#96; &#96;"),
            ("[x](y) ![x] ~~no~~", "\\[x](y) !\\[x] \\~\\~no\\~\\~"),
            ("__x__ &lt; $a$", "\\_\\_x\\_\\_ &#38;lt; $a&#36;"),
            ("\\[x] a\\|b", "\\\\\\[x] a\\\\&#124;b"),
            ("# no head", "&#35; no head"),
            // These mean nothing.
            ("a: b_c 2 * 3 < 4, $1.50 & c > d", "a: b_c 2 * 3 < 4, $1.50 & c > d"),
        ] {
            assert_eq!(escaped(text), want, "{text}");
        }
        assert!(!escaped("two\nlines").contains('\n'));
    }
}
