//! The period that a usage limit of an account applies to.

use serde::{Deserialize, Serialize};

/// The period of a usage limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitWindow {
    /// Five hours.
    FiveHour,
    /// A week, for all models or for one.
    Weekly,
    /// A month.
    Monthly,
}

impl LimitWindow {
    /// Returns the window of Claude Code's `rateLimitType`.
    pub fn of_code(code: &str) -> Option<LimitWindow> {
        match code {
            "five_hour" => Some(LimitWindow::FiveHour),
            _ if code.starts_with("seven_day") => Some(LimitWindow::Weekly),
            _ => None,
        }
    }

    /// Returns the window that the text of a usage limit names. Only Claude Code limits single
    /// models, and only by the week.
    pub fn of_text(text: &str) -> Option<LimitWindow> {
        const WORDS: &[(&str, LimitWindow)] = &[
            ("5-hour limit", LimitWindow::FiveHour),
            ("session limit", LimitWindow::FiveHour),
            ("weekly limit", LimitWindow::Weekly),
            ("weekly usage limit", LimitWindow::Weekly),
            ("opus limit", LimitWindow::Weekly),
            ("sonnet limit", LimitWindow::Weekly),
            ("monthly limit", LimitWindow::Monthly),
            ("monthly spend limit", LimitWindow::Monthly),
            ("monthly usage limit", LimitWindow::Monthly),
        ];
        let text = text.to_lowercase();
        WORDS.iter().find(|(words, _)| text.contains(words)).map(|(_, window)| *window)
    }

    /// Returns the name of a limit with this window, or of one whose window is unknown.
    pub fn limit(window: Option<LimitWindow>) -> &'static str {
        match window {
            Some(LimitWindow::FiveHour) => "5-hour limit",
            Some(LimitWindow::Weekly) => "weekly limit",
            Some(LimitWindow::Monthly) => "monthly limit",
            None => "usage limit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_from_codes_and_texts() {
        use LimitWindow as W;
        for (text, want) in [
            ("You've hit your 5-hour limit · resets 10pm (Europe/Berlin)", Some(W::FiveHour)),
            ("Session limit reached ∙ resets 10pm", Some(W::FiveHour)),
            ("You've hit your weekly limit · resets Nov 23, 9pm (UTC)", Some(W::Weekly)),
            ("Weekly limit reached ∙ resets Nov 23, 9pm", Some(W::Weekly)),
            ("You've hit your Opus limit · resets Nov 23, 9pm", Some(W::Weekly)),
            ("You've hit your monthly spend limit", Some(W::Monthly)),
            ("You've hit your limit · resets 9:56pm (Europe/Berlin)", None),
            ("You've hit your usage limit. Try again at 3:05 PM.", None),
        ] {
            assert_eq!(W::of_text(text), want, "{text}");
        }
        let codes = ["five_hour", "seven_day", "seven_day_opus", "overage", ""];
        let want = [Some(W::FiveHour), Some(W::Weekly), Some(W::Weekly), None, None];
        assert_eq!(codes.map(W::of_code), want);
    }
}
