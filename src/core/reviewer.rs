//! The review of work by another agent before it lands: its settings, its answer, and what follows.

use serde::{Deserialize, Serialize};

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

/// How grave a finding is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// A matter of taste.
    Low,
    /// It should be mended.
    #[default]
    Medium,
    /// The work is wrong or harmful.
    High,
}

impl FindingSeverity {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            FindingSeverity::Low => "low",
            FindingSeverity::Medium => "medium",
            FindingSeverity::High => "high",
        }
    }
}

/// What a reviewer found in work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What is wrong.
    pub text: String,
}

impl ReviewFinding {
    /// It as one line.
    pub fn line(&self) -> String {
        let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
        let place = self.file.as_ref().map_or_else(String::new, |file| format!("`{file}{line}`: "));
        let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}: {place}{text}", self.severity.word())
    }
}

/// The review of the work of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkReview {
    /// The name of the reviewer's agent.
    pub by: String,
    /// What it found, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ReviewFinding>,
    /// The number of findings that are left out: they name files that are not there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unfounded: u32,
    /// Why there is no review, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Whether its author has to go over the work again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sent_back: bool,
}

/// What follows a review.
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
    /// The review in the answer of a reviewer; `exists` is whether the repository has a file.
    ///
    /// # Errors
    /// The answer has none: what is wrong with it.
    pub fn read(
        by: &str,
        answer: &str,
        exists: impl Fn(&str) -> bool,
    ) -> Result<WorkReview, String> {
        let mut findings = findings_of(answer).ok_or("its last message has no findings as JSON")?;
        let count = findings.len();
        for finding in &mut findings {
            let file = finding.file.take().map(|file| file.trim_start_matches("./").to_owned());
            finding.file = file.filter(|file| !file.is_empty());
        }
        findings.retain(|it| it.file.as_ref().is_none_or(|file| exists(file)));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let unfounded = u32::try_from(count - findings.len()).unwrap_or(u32::MAX);
        Ok(WorkReview { by: by.to_owned(), findings, unfounded, ..WorkReview::default() })
    }

    /// A review that was not made.
    pub fn failed(by: &str, why: String) -> WorkReview {
        WorkReview { by: by.to_owned(), failed: Some(why), ..WorkReview::default() }
    }

    /// Whether it was made and found nothing.
    pub fn is_good(&self) -> bool {
        self.failed.is_none() && self.findings.is_empty()
    }

    /// Decides what follows when work at the task was sent back this often. Returns what is missing for
    /// it to land, if a review is required.
    pub fn decide(&mut self, rule: ReviewRule, before: u32) -> Option<String> {
        let grave = self.findings.iter().filter(|it| it.severity >= rule.severity).count();
        self.sent_back = grave > 0 && before < rule.rounds;
        let is_missing = rule.required && !self.sent_back && (grave > 0 || self.failed.is_some());
        is_missing.then(|| self.to_string())
    }
}

impl std::fmt::Display for WorkReview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

/// The answer that a reviewer is asked for.
#[derive(Deserialize)]
struct ReviewAnswer {
    findings: Vec<ReviewFinding>,
}

/// The findings of the last JSON object with them in a text.
fn findings_of(text: &str) -> Option<Vec<ReviewFinding>> {
    /// The most places at which an object may begin; an answer has a few.
    const PLACES: usize = 1000;
    let places = text.match_indices('{').map(|(at, _)| at).collect::<Vec<_>>();
    places.into_iter().rev().take(PLACES).find_map(|at| {
        let mut read = serde_json::Deserializer::from_str(&text[at..]).into_iter::<ReviewAnswer>();
        read.next()?.ok().map(|answer| answer.findings)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> Result<WorkReview, String> {
        WorkReview::read("strong", answer, |file| file.starts_with("src/"))
    }

    #[test]
    fn the_findings_are_the_last_json_object_of_the_answer() {
        let answer = r#"I looked at {"findings": []} as an example. Here it is:
            ```json
            {"findings": [
              {"file": "./src/a.rs", "line": 3, "severity": "low", "text": "a\n name"},
              {"severity": "high", "text": "no test"},
              {"file": "made/up.rs", "severity": "high", "text": "x"}
            ]}
            ```
            That is all."#;
        let review = read(answer).unwrap();
        let lines: Vec<String> = review.findings.iter().map(ReviewFinding::line).collect();
        assert_eq!(lines, ["high: no test", "low: `src/a.rs:3`: a name"]);
        assert_eq!(review.unfounded, 1);
        assert_eq!(read("{\"findings\": []}").unwrap().findings, []);
        for odd in ["", "looks good to me", "{\"findings\": 3}", "{\"finding\": []}"] {
            assert!(read(odd).unwrap_err().contains("no findings"), "{odd}");
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
