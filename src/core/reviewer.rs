//! The review of work by another agent before it lands: its settings, its answer, its effect.

use std::{cmp::Reverse, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::default_value::is_default;

/// Which work another agent reviews before it lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewWhen {
    /// None.
    Never,
    /// All.
    Always,
    /// Work with a reason for a look, as in `ralph review`.
    Risky,
}

/// The variable in the environment of a reviewer, which may not speak for the author.
pub const REVIEWS: &str = "RALPH_REVIEWS";

/// How grave a finding is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// A matter of taste.
    Low,
    /// It should be fixed.
    #[default]
    Medium,
    /// The work is wrong or harmful.
    High,
}

impl fmt::Display for FindingSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The same word as in JSON.
        self.serialize(f)
    }
}

/// A finding of a reviewer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewFinding {
    /// The file, relative to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of the file, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// How grave it is.
    #[serde(default)]
    pub severity: FindingSeverity,
    /// The fault.
    pub text: String,
}

impl ReviewFinding {
    /// The finding in one line.
    pub fn line(&self) -> String {
        let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
        let place = self.file.as_ref().map_or_else(String::new, |file| format!("`{file}{line}`: "));
        let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}: {place}{text}", self.severity)
    }
}

/// The review of the work of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkReview {
    /// The name of the reviewer's agent.
    pub by: String,
    /// Its findings, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ReviewFinding>,
    /// Why there is no review, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Whether its author has to go over the work again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sent_back: bool,
}

/// The effect of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewRule {
    /// The gravity from which a finding sends work back.
    pub severity: FindingSeverity,
    /// How often work at a task is sent back.
    pub rounds: u32,
    /// Whether work lands only with a review that found nothing of that gravity.
    pub required: bool,
}

impl WorkReview {
    /// The review in the answer of a reviewer that worked in the folder `root`; `exists` is whether the
    /// repository has a file.
    ///
    /// # Errors
    /// The fault of an answer without a review.
    pub fn read(
        (by, root): (&str, &str),
        answer: &str,
        exists: impl Fn(&str) -> bool,
    ) -> Result<WorkReview, String> {
        let mut findings = findings_of(answer)?;
        for finding in &mut findings {
            let file = finding.file.take().unwrap_or_default();
            let file = file.strip_prefix(root).unwrap_or(&file).trim_start_matches(['.', '/']);
            if !file.is_empty() && !exists(file) {
                finding.text += " (there is no such file)";
            }
            finding.file = Some(file.to_owned()).filter(|file| !file.is_empty());
        }
        findings.sort_by_key(|finding| Reverse(finding.severity));
        Ok(WorkReview { by: by.to_owned(), findings, ..WorkReview::default() })
    }

    /// A review that was not made.
    pub fn failed(by: &str, why: String) -> WorkReview {
        WorkReview { by: by.to_owned(), failed: Some(why), ..WorkReview::default() }
    }

    /// Whether it was made and found nothing.
    pub fn is_good(&self) -> bool {
        self.failed.is_none() && self.findings.is_empty()
    }

    /// Decides whether the work is sent back, after `before` earlier times. Returns the reason that
    /// it cannot land, if a review is required.
    pub fn decide(&mut self, rule: ReviewRule, before: u32) -> Option<String> {
        let grave = self.findings.iter().filter(|it| it.severity >= rule.severity).count();
        self.sent_back = grave > 0 && before < rule.rounds;
        let is_missing = rule.required && !self.sent_back && (grave > 0 || self.failed.is_some());
        is_missing.then(|| self.to_string())
    }
}

impl fmt::Display for WorkReview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.failed {
            return write!(f, "`{}` did not review it: {why}", self.by);
        }
        match self.findings.as_slice() {
            [] => write!(f, "`{}` reviewed it and found nothing", self.by),
            [one] => write!(f, "`{}` reviewed it and found: {}", self.by, one.line()),
            [first, more @ ..] => {
                let more = more.len();
                write!(f, "`{}` reviewed it and found: {}; and {more} more", self.by, first.line())
            }
        }
    }
}

/// The result of `read` for the last JSON value in a text that begins with `bracket` and that it
/// accepts.
pub fn last_json<T>(text: &str, bracket: char, read: impl Fn(Value) -> Option<T>) -> Option<T> {
    /// The most places at which a value may begin.
    const PLACES: usize = 1000;
    text.rmatch_indices(bracket).take(PLACES).find_map(|(at, _)| {
        let mut found = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        read(found.next()?.ok()?)
    })
}

/// The findings of the last JSON object with them in a text, or of the last list of some.
fn findings_of(text: &str) -> Result<Vec<ReviewFinding>, String> {
    let list = |value| if let Value::Array(all) = value { Some(all) } else { None };
    let is_one = |it: &Value| it.is_object() && it.get("text").is_some();
    let whole = last_json(text, '{', |mut value| list(value.get_mut("findings")?.take()));
    let bare = || {
        last_json(text, '[', |value| {
            list(value).filter(|all| !all.is_empty() && all.iter().all(is_one))
        })
    };
    let found = whole.or_else(bare).ok_or("its last message has no findings as JSON")?;
    found.iter().map(finding_of).collect()
}

/// A finding as a reviewer writes it, which may use other words.
fn finding_of(value: &Value) -> Result<ReviewFinding, String> {
    let text_of = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let text = text_of("text").or_else(|| text_of("message")).or_else(|| text_of("description"));
    let text = text.ok_or_else(|| format!("a finding has no `text`: {value}"))?;
    let word = text_of("severity").unwrap_or_default().to_lowercase();
    let severity = match word.as_str() {
        "critical" | "blocker" | "high" | "major" | "error" => FindingSeverity::High,
        "" | "medium" | "moderate" | "warning" => FindingSeverity::Medium,
        "low" | "minor" | "info" | "nit" => FindingSeverity::Low,
        _ => return Err(format!("the severity `{word}` is none of `high`, `medium` and `low`")),
    };
    let digits = |text: &str| {
        let digits = text.chars().skip_while(|letter| !letter.is_ascii_digit());
        digits.take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    let line = value.get("line").and_then(|line| digits(&line.to_string()));
    Ok(ReviewFinding { file: text_of("file"), line, severity, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> Result<WorkReview, String> {
        WorkReview::read(("strong", "/slots/review"), answer, |file| file.starts_with("src/"))
    }

    #[test]
    fn the_findings_are_the_last_json_object_of_the_answer() {
        let answer = r#"I looked at {"findings": []} as an example. Here it is:
            ```json
            {"findings": [
              {"file": "./src/a.rs", "line": 3, "severity": "low", "text": "a\n name"},
              {"severity": "high", "text": "no test"},
              {"file": "/slots/review/src/b.rs", "line": "5-7", "severity": "Critical", "text": "x"},
              {"file": "made/up.rs", "text": "y"}
            ]}
            ```
            That is all."#;
        let review = read(answer).unwrap();
        let lines: Vec<String> = review.findings.iter().map(ReviewFinding::line).collect();
        assert_eq!(
            lines,
            [
                "high: no test",
                "high: `src/b.rs:5`: x",
                "medium: `made/up.rs`: y (there is no such file)",
                "low: `src/a.rs:3`: a name"
            ]
        );
        assert_eq!(read("{\"findings\": []}").unwrap().findings, []);
        assert_eq!(read("so: [{\"text\": \"a\"}]").unwrap().findings.len(), 1);
        for (odd, why) in [
            ("", "no findings"),
            ("looks good to me [1]", "no findings"),
            ("{\"findings\": 3}", "no findings"),
            ("{\"finding\": []}", "no findings"),
            ("{\"findings\": [{\"severity\": \"dire\", \"text\": \"x\"}]}", "`dire` is none of"),
            ("{\"findings\": [{\"severity\": \"low\"}]}", "no `text`"),
        ] {
            let fault = read(odd).unwrap_err();
            assert!(fault.contains(why), "{odd}: {fault}");
        }
    }

    #[test]
    fn grave_findings_send_work_back_as_often_as_the_rounds_say() {
        let rule = ReviewRule { severity: FindingSeverity::Medium, rounds: 2, required: false };
        let of = |severity: &str| {
            read(&format!(r#"{{"findings": [{{"severity": "{severity}", "text": "x"}}]}}"#))
                .unwrap()
        };
        let decided = |mut review: WorkReview, rule, before| {
            let missing = review.decide(rule, before);
            (review.sent_back, missing.is_some())
        };
        assert_eq!(decided(of("high"), rule, 1), (true, false));
        assert_eq!(decided(of("high"), rule, 2), (false, false), "it lands, and is named");
        assert_eq!(decided(of("low"), rule, 0), (false, false));
        let strict = ReviewRule { required: true, ..rule };
        assert_eq!(decided(of("high"), strict, 2), (false, true));
        assert_eq!(decided(of("low"), strict, 2), (false, false));
        let failed = || WorkReview::failed("strong", "it hung".to_owned());
        assert_eq!(decided(failed(), rule, 0), (false, false));
        assert_eq!(decided(failed(), strict, 0), (false, true));
    }
}
