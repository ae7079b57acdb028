//! The page of a report: how much of each part is shown, and lines that fit the screen.

use crate::{
    adapters::terminal::{self, Style, visible},
    view::lines::{Line, line},
};

/// How many earlier runs are named.
const EARLIER: usize = 3;
/// Below this width, what is said of a task is cut to the most important.
const NARROW: usize = 80;

/// How much of each part is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// What needs a person.
    pub(super) attention: usize,
    /// The lines for why each of these does, and for why each task failed.
    pub(super) rows: usize,
    /// The lines that say more about it.
    pub(super) detail: usize,
    /// The completed tasks.
    pub(super) landed: usize,
    /// The commits of each, besides the first.
    pub(super) commits: usize,
    /// The failed tasks.
    pub(super) failed: usize,
    /// The tasks that are next.
    pub(super) upcoming: usize,
    /// The earlier runs.
    pub(super) earlier: usize,
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
        upcoming: usize::MAX,
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
        upcoming: 5,
        earlier: 0,
    };
    /// The least that is shown.
    const LEAST: Fold = Fold {
        attention: 2,
        rows: 1,
        detail: 1,
        landed: 2,
        commits: 0,
        failed: 1,
        upcoming: 1,
        earlier: 1,
    };
    /// What may be added to that, the most useful first, as long as it fits the screen.
    const MORE: [fn(Fold) -> Fold; 18] = [
        |fold| Fold { rows: 2, ..fold },
        |fold| Fold { attention: 3, ..fold },
        |fold| Fold { attention: 4, ..fold },
        |fold| Fold { rows: 4, ..fold },
        |fold| Fold { landed: 4, ..fold },
        |fold| Fold { failed: 2, ..fold },
        |fold| Fold { attention: 8, ..fold },
        |fold| Fold { upcoming: 3, ..fold },
        |fold| Fold { detail: 2, ..fold },
        |fold| Fold { landed: 8, ..fold },
        |fold| Fold { failed: 5, ..fold },
        |fold| Fold { attention: 16, ..fold },
        |fold| Fold { landed: 12, ..fold },
        |fold| Fold { detail: 4, ..fold },
        |fold| Fold { earlier: EARLIER, ..fold },
        |fold| Fold { upcoming: 6, ..fold },
        |fold| Fold { landed: 24, failed: 12, ..fold },
        |fold| Fold { detail: 12, ..fold },
    ];
}

/// Lines of a report, at most as wide as the screen.
pub(super) struct ReportPage {
    pub(super) width: Option<usize>,
    pub(super) lines: Vec<Line>,
}

impl ReportPage {
    /// A line that is wrapped.
    pub(super) fn text(&mut self, style: impl Into<Option<Style>>, text: &str) {
        let Line { style, text } = line(style, text);
        let texts = match self.width {
            Some(width) => terminal::wrap(&text, width),
            None => vec![text],
        };
        self.lines.extend(texts.into_iter().map(|text| Line { style, text }));
    }

    /// A line that is cut, but for its end.
    pub(super) fn item(&mut self, style: impl Into<Option<Style>>, text: &str, end: &str) {
        let (text, end) = (visible(text), visible(end));
        let room = self.width.map(|width| width.saturating_sub(terminal::columns(&end)));
        let text = match room {
            Some(room) if room < 20 => return self.text(style, &format!("{text}{end}")),
            Some(room) => terminal::fit(&text, room),
            None => text,
        };
        self.lines.push(Line { style: style.into(), text: format!("{text}{end}") });
    }

    pub(super) fn more(&mut self, count: usize, command: &str) {
        if count > 0 {
            self.text(Style::Faint, &format!("  … and {count} more; `{command}` shows all"));
        }
    }

    /// A text of at most so many lines, but for its end.
    pub(super) fn short(
        &mut self,
        style: impl Into<Option<Style>>,
        text: &str,
        end: &str,
        rows: usize,
    ) {
        let (text, end) = (visible(text), visible(end));
        // A wrapped line is not always full.
        let slack = rows.saturating_sub(1).saturating_mul(12);
        let room = self
            .width
            .filter(|_| rows < usize::MAX)
            .map(|width| (rows * width).saturating_sub(terminal::columns(&end) + slack));
        let text = match room {
            Some(room) => terminal::fit(&text, room.max(30)),
            None => text,
        };
        self.text(style, &format!("{text}{end}"));
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.width.is_some_and(|width| width < NARROW)
    }
}

/// The lines with as much as fits these rows.
pub(super) fn fitting(rows: usize, lines: impl Fn(Fold) -> Vec<Line>) -> Vec<Line> {
    let (mut fold, mut best) = (Fold::LEAST, lines(Fold::LEAST));
    for more in Fold::MORE {
        let longer = lines(more(fold));
        // The prompt of the shell needs a row.
        if longer.len() < rows {
            (fold, best) = (more(fold), longer);
        }
    }
    best
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
        let mut page = ReportPage { width: Some(40), lines: Vec::new() };
        page.item(None, "  + a: A title that is longer than the screen is", "; 1 file, +1 -0");
        page.short(Style::Warn, "  - a: a reason that is longer than the screen is", "; end", 1);
        page.item(None, "  ! x: why", "; `ralph show a-very-long-name-of-a-task.1`");
        let texts: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts[0], "  + a: A title that is l…; 1 file, +1 -0");
        assert_eq!(texts[1], "  - a: a reason that is longer tha…; end");
        assert!(texts[2..].concat().contains("a-very-long-name-of-a-task.1`"), "{texts:?}");
        assert!(texts.iter().all(|text| terminal::columns(text) <= 40), "{texts:?}");
    }
}
