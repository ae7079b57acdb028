//! The report as Markdown, for a pull request or a chat.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use super::RunReport;
use crate::{
    adapters::terminal::visible,
    core::{graph::task::TaskId, spend::dollars, verdict::Commit},
    view::words::{counted, full, length, moment, short},
};

impl RunReport {
    /// Returns the report as Markdown with tables. Texts of others stay what they are: they neither
    /// mention people, link issues nor change the layout.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let [head, totals] = self.head();
        let id = self.run.run_id.as_deref().unwrap_or("none");
        let _ = write!(
            text,
            "## Run {}\n\n**{}**\n\n{}\n",
            escaped(id),
            escaped(&head.text),
            escaped(&totals.text)
        );
        let times = [("Started", self.run.started_at), ("Ended", self.ended_at)];
        for (what, at) in times.into_iter().filter_map(|(what, at)| Some((what, at?))) {
            let _ = write!(text, "\n- {what}: {}", full(at));
        }
        let spend = &self.run.spend;
        let _ = write!(
            text,
            "\n- Attempts: {}, {} together, cost {}\n",
            spend.attempts,
            length(spend.duration_seconds),
            spend.cost
        );
        self.attention_table(&mut text);
        self.landed_table(&mut text);
        self.failed_table(&mut text);
        self.upcoming_table(&mut text);
        list(&mut text, "Next", self.next.iter().map(|next| escaped(next)));
        list(&mut text, "Not known", self.unknown.iter().map(|unknown| escaped(unknown)));
        text
    }

    fn attention_table(&self, text: &mut String) {
        let rows = self.attention.iter().map(|it| {
            let remedy =
                it.remedy.as_ref().or(it.look.as_ref()).map_or(String::new(), |next| escaped(next));
            let waiting = it.frees.saturating_sub(usize::from(it.task_id.is_some())).to_string();
            [task(it.task_id.as_ref(), it.title.as_deref()), escaped(&it.why), waiting, remedy]
        });
        table(text, "Needs you", ["Task", "Why", "Tasks waiting on it", "What to do"], rows);
        for it in self.attention.iter().filter(|it| !it.detail.is_empty()) {
            let name = it.task_id.as_ref().map_or("", TaskId::as_str);
            let lines: Vec<String> =
                it.detail.iter().map(|line| format!("    {}\n", visible(line))).collect();
            let _ = write!(text, "\n{} {}:\n\n{}", escaped(name), escaped(&it.why), lines.concat());
        }
    }

    fn landed_table(&self, text: &mut String) {
        let commit =
            |commit: &Commit| format!("{} {}", code(commit.short()), escaped(&commit.subject));
        let rows = self.landed.iter().map(|it| {
            let commits: Vec<String> = it.commits.iter().map(commit).collect();
            let changed =
                format!("{}, +{} -{}", counted(it.files, "file"), it.insertions, it.deletions);
            [
                task(Some(&it.id), it.title.as_deref()),
                commits.join("<br>"),
                changed,
                it.attempts.to_string(),
                length(it.duration_seconds),
                it.cost_usd.map_or("unknown".to_owned(), dollars),
            ]
        });
        let heads = ["Task", "Commits", "Changed", "Attempts", "Time", "Cost"];
        table(text, "Landed", heads, rows);
    }

    fn failed_table(&self, text: &mut String) {
        let rows = self.only_failed().into_iter().map(|it| {
            let shown = code(&format!("ralph show {}.{}", it.id, it.attempt));
            [task(Some(&it.id), it.title.as_deref()), escaped(&it.why), shown]
        });
        table(text, "Failed", ["Task", "Why", "Details"], rows);
    }

    fn upcoming_table(&self, text: &mut String) {
        let time = |at: Option<DateTime<Utc>>| {
            let day = self.forecast.as_ref().map(|all| all.from);
            at.map_or(String::new(), |at| day.map_or_else(|| full(at), |day| moment(at, day)))
        };
        let rows = self.upcoming.iter().map(|it| {
            let why = it.why.as_deref().map_or(String::new(), escaped);
            [task(Some(&it.id), Some(&it.title)), time(it.starts_at), time(it.ends_at), why]
        });
        table(text, "Left", ["Task", "Starts", "Ends", "Waits"], rows);
        if let Some(counts) = &self.left {
            let parts = counts.parts();
            if !parts.is_empty() {
                let _ = writeln!(
                    text,
                    "\n{} left: {}.",
                    counted(counts.left(), "task"),
                    parts.join(", ")
                );
            }
        }
        if let Some(all) = &self.forecast {
            let _ = writeln!(
                text,
                "\nIf every attempt succeeds, {} with {} {} {}.",
                counted(all.tasks, "task"),
                counted(all.jobs, "job"),
                if all.tasks == 1 { "takes" } else { "take" },
                short(all.seconds)
            );
        }
    }
}

fn task(id: Option<&TaskId>, title: Option<&str>) -> String {
    match (id, title) {
        (Some(id), Some(title)) if title != id.as_str() => {
            format!("{}: {}", code(id.as_str()), escaped(title))
        }
        (Some(id), _) => code(id.as_str()),
        (None, _) => String::new(),
    }
}

fn table<const N: usize>(
    text: &mut String,
    heading: &str,
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = write!(text, "\n### {heading}\n\n| {} |\n|{}\n", heads.join(" | "), "---|".repeat(N));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

fn list(text: &mut String, heading: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let _ = write!(text, "\n### {heading}\n\n");
    for item in items {
        let _ = writeln!(text, "- {item}");
    }
}

/// Code in one line. A pipe would end a cell even in code, so such code is escaped text.
fn code(text: &str) -> String {
    if text.contains(['`', '|', '\n']) { plain(text, None) } else { format!("`{}`", visible(text)) }
}

/// A text in which only code in single backticks is markup, as in our own messages.
fn escaped(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let is_code = |part: &&str| !part.trim().is_empty() && !part.contains(['|', '\n']);
    if parts.len().is_multiple_of(2) || !parts.iter().skip(1).step_by(2).all(is_code) {
        return plain(text, None);
    }
    let part = |(at, part): (usize, &&str)| match at % 2 {
        1 => code(part),
        _ => plain(part, (at > 0).then_some('`')),
    };
    parts.iter().enumerate().map(part).collect()
}

/// A text without markup: what Markdown, HTML or GitHub would act on is escaped, and a mention or the
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
            // A mention and a mail address are found in what entities stand for.
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

/// Whether the text after a colon is the name of an emoji, up to the next colon.
fn is_emoji(rest: &str) -> bool {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "_+-".contains(c);
    rest.split_once(':').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(in_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_escaped_and_commands_stay_code() {
        for (text, want) in [
            ("a|b", "a&#124;b"),
            ("@me #12 <b> `x`", "@&#8203;me &#35;12 &#60;b> `x`"),
            ("https://x.y :tada:", "https&#58;//x.y &#58;tada:"),
            ("run `ralph run`, then *wait*", "run `ralph run`, then \\*wait\\*"),
            ("a `b|c` d", "a &#96;b&#124;c&#96; d"),
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
        assert_eq!(code("a|b"), "a&#124;b");
    }
}
