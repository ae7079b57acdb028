//! Parses the period of a limit and the time at which it resets from the text of an error.
//!
//! Agents print the local time of a named zone, which may differ from the zone of the machine.

use std::{sync::LazyLock, time::Duration};

use chrono::{
    DateTime, Datelike, Days, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta,
    TimeZone, Utc,
};
use regex_lite::{Captures, Regex};
use serde::{Deserialize, Serialize};

use crate::time_zone;

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

/// A time of day that passed less than this ago was just reached; it does not mean tomorrow.
const JUST: TimeDelta = TimeDelta::minutes(15);

/// Returns the time at which the limit in a text resets, if the text names it.
///
/// - `… limit reached|1760000400`: seconds since 1970; 0 means unknown.
/// - `resets 10pm (Europe/Berlin)`, `reset at 9:56pm`, `resets Nov 23, 9pm`, `resets Mar 5, 2027,
///   1am`, `try again at Jan 1st, 2030 12:00 AM`. Without a zone, the zone of `now` applies;
///   without a date, the next such time; without a year, the next such day.
/// - `"resets_at": 1760000400`, `"resets_in_seconds": 90`, `retry-after: 90`, `resets at
///   2026-11-20T22:00:00Z`.
/// - `retry in 15.002899939s`, `try again in 1h 20m`, `resets in 3 days`: from `now` on.
pub fn reset<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<DateTime<Utc>> {
    epoch(text).or_else(|| field(text, now)).or_else(|| after(text, now)).or_else(|| {
        let clock = Clock::find(text)?;
        match clock.zone.as_deref().map(time_zone::named) {
            Some(Ok(zone)) => clock.next(&now.with_timezone(&zone)),
            Some(Err(_)) | None => clock.next(now),
        }
    })
}

fn epoch(text: &str) -> Option<DateTime<Utc>> {
    let (_, rest) = text.split_once("limit reached|")?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    // Ten digits are seconds from 2001 to 2286.
    let seconds = rest[..digits].parse().ok().filter(|_| digits == 10)?;
    DateTime::from_timestamp(seconds, 0)
}

/// A time in the fields and headers of providers: a moment, or seconds from now.
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    let moment = r#"(?:resets?[_ ]?at|try again at|available at)"?:?\s*"?(\d{10}\b|\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d)|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"#;
    let seconds = r#"(?:resets_in_seconds|retry[-_]after)"?:?\s*"?(\d{1,8}(?:\.\d+)?)\b"#;
    Regex::new(&format!("(?i){moment}|{seconds}")).expect("the expression is valid")
});

/// Returns the time in a field or a header.
fn field<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<DateTime<Utc>> {
    let found = FIELD.captures_iter(text).last()?;
    if let Some(moment) = found.get(1).map(|moment| moment.as_str()) {
        return match moment.parse() {
            Ok(seconds) => DateTime::from_timestamp(seconds, 0),
            Err(_) => match NaiveDateTime::parse_from_str(moment, "%Y-%m-%d %H:%M:%S") {
                Ok(local) => instant(&now.timezone(), local.date(), local.time()),
                Err(_) => Some(DateTime::parse_from_rfc3339(moment).ok()?.with_timezone(&Utc)),
            },
        };
    }
    let seconds: f64 = found.get(2)?.as_str().parse().ok()?;
    let span = TimeDelta::from_std(Duration::try_from_secs_f64(seconds.ceil()).ok()?).ok()?;
    now.with_timezone(&Utc).checked_add_signed(span)
}

/// A length of time from now, as printed.
static SPAN: LazyLock<Regex> = LazyLock::new(|| {
    let number = r"\d+(?:\.\d+)?";
    let before = r#"(?:(?:retry|try again|resets?|available again)\s+(?:in|after):?\s+(?:about\s+)?|\bwait(?:ing)?\s+(?:for\s+)?|"retrydelay":\s*")"#;
    let joined = format!(r"(?:{number}(?:ms|[dhms]))+\b");
    let unit = "milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s";
    let spaced = format!(r"(?:{number}\s*(?:{unit})\b[\s,]*(?:and\s+)?)+");
    Regex::new(&format!("(?i){before}({joined}|{spaced})")).expect("the expression is valid")
});
/// One number of it with its unit.
static SPAN_PART: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)(\d+(?:\.\d+)?)\s*(ms|mil|d|h|m|s)").expect("it is valid"));

/// Returns the end of a length of time that a text names.
fn after<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<DateTime<Utc>> {
    let found = SPAN.captures_iter(text).last()?;
    let parts = SPAN_PART.captures_iter(found.get(1)?.as_str());
    let seconds = parts.map(|part| {
        let unit = match part[2].to_ascii_lowercase().as_str() {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            _ => 0.001,
        };
        part[1].parse::<f64>().unwrap_or(0.0) * unit
    });
    let span = Duration::try_from_secs_f64(seconds.sum::<f64>().ceil()).ok()?;
    let span = TimeDelta::from_std(span).ok().filter(|span| *span <= TimeDelta::days(366))?;
    now.with_timezone(&Utc).checked_add_signed(span)
}

/// A time as printed: month, day and year; hour, minute and half of the day; zone.
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    let date = r"([a-z]{3})[a-z]*\s+(\d{1,2})[a-z]*,?\s+(?:(\d{4}),?\s+)?(?:at\s+)?";
    let time = r"(\d{1,2})(?::(\d{2}))?(?:\s*(am|pm))?";
    let zone = r"[^\s(]*\s+\(([^)]*)\)";
    let day = r"(?:on\s+)?(tomorrow|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*),?\s+(?:at\s+)?";
    let before = r"(?:resets?|try again|available again)\s+(?:at\s+|on\s+)?";
    let whole = format!("(?i){before}(?:{date}|{day})?{time}(?:{zone})?");
    Regex::new(&whole).expect("the expression is valid")
});

/// A time as printed.
#[derive(Debug, PartialEq, Eq)]
struct Clock {
    month_and_day: Option<(u32, u32)>,
    year: Option<i32>,
    /// `tomorrow` or the name of a day.
    day: Option<String>,
    time: NaiveTime,
    zone: Option<String>,
}

impl Clock {
    fn find(text: &str) -> Option<Clock> {
        CLOCK.captures_iter(text).filter_map(|found| Clock::read(&found)).last()
    }

    fn read(found: &Captures<'_>) -> Option<Clock> {
        const MONTHS: [&str; 12] =
            ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
        let part = |number| found.get(number).map(|part| part.as_str().to_ascii_lowercase());
        let number = |at| part(at).and_then(|part| part.parse::<u32>().ok());
        let month = |name: String| (1..).zip(MONTHS).find(|(_, month)| *month == name);
        let month_and_day = match part(1) {
            Some(name) => Some((month(name)?.0, number(2)?)),
            None => None,
        };
        let (hour, minute) = (number(5)?, number(6));
        let hour = match (part(7).as_deref(), minute) {
            (Some(half), _) if (1..=12).contains(&hour) => {
                hour % 12 + if half == "pm" { 12 } else { 0 }
            }
            (None, Some(_)) => hour,
            _ => return None,
        };
        Some(Clock {
            month_and_day,
            year: part(3).and_then(|year| year.parse().ok()),
            day: part(4),
            time: NaiveTime::from_hms_opt(hour, minute.unwrap_or(0), 0)?,
            zone: found.get(8).map(|zone| zone.as_str().to_owned()),
        })
    }

    /// Returns the next such time.
    fn next<Z: TimeZone>(&self, now: &DateTime<Z>) -> Option<DateTime<Utc>> {
        let zone = now.timezone();
        let today = now.naive_local().date();
        let at = |date: NaiveDate| instant(&zone, date, self.time);
        let is_over = |at: &DateTime<Utc>| *at + JUST < now.with_timezone(&Utc);
        match (self.month_and_day, self.year) {
            (None, _) if self.day.is_some() => {
                const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
                let name = self.day.as_deref().unwrap_or_default();
                let of_week = (0..).zip(DAYS).find(|(_, day)| name.starts_with(day));
                let ahead = of_week.map_or(1, |(number, _)| {
                    (number + 7 - u64::from(today.weekday().num_days_from_monday())) % 7
                });
                let time = at(today.checked_add_days(Days::new(ahead))?)?;
                let is_past = is_over(&time);
                if is_past { at(today.checked_add_days(Days::new(ahead + 7))?) } else { Some(time) }
            }
            (None, _) => match at(today) {
                Some(time) if is_over(&time) => at(today.checked_add_days(Days::new(1))?),
                time => time,
            },
            (Some((month, day)), Some(year)) => at(NaiveDate::from_ymd_opt(year, month, day)?),
            (Some((month, day)), None) => {
                let this_year = NaiveDate::from_ymd_opt(today.year(), month, day).and_then(at);
                this_year.filter(|time| !is_over(time)).or_else(|| {
                    at(NaiveDate::from_ymd_opt(today.year().checked_add(1)?, month, day)?)
                })
            }
        }
    }
}

/// Converts a local time: the later one if it repeats, one hour later if it is skipped.
fn instant<Z: TimeZone>(zone: &Z, date: NaiveDate, time: NaiveTime) -> Option<DateTime<Utc>> {
    let local = date.and_time(time);
    let found = match zone.from_local_datetime(&local) {
        MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(_, at) => at,
        MappedLocalTime::None => {
            zone.from_local_datetime(&local.checked_add_signed(TimeDelta::hours(1))?).latest()?
        }
    };
    Some(found.with_timezone(&Utc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, now: &str) -> Option<String> {
        let tokyo = time_zone::named("Asia/Tokyo").unwrap();
        let now = DateTime::parse_from_rfc3339(now).unwrap().with_timezone(&tokyo);
        reset(text, &now).map(|at| at.format("%Y-%m-%d %H:%M").to_string())
    }

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

    #[test]
    fn clock_times_are_read_in_their_zone() {
        // 21:30 in Berlin; 05:30 of the next day in Tokyo, the zone of the machine.
        let now = "2026-11-20T20:30:00Z";
        for (text, want) in [
            ("You've hit your 5-hour limit · resets 10pm (Europe/Berlin)", "2026-11-20 21:00"),
            ("resets 9:56pm (Europe/Berlin)", "2026-11-20 20:56"),
            ("resets 9pm (Europe/Berlin)", "2026-11-21 20:00"),
            // Just reached, so it does not mean tomorrow.
            ("resets 9:20pm (Europe/Berlin)", "2026-11-20 20:20"),
            ("resets Nov 23, 9pm (Europe/Berlin)", "2026-11-23 20:00"),
            ("resets Nov 23 at 8:55pm (UTC)", "2026-11-23 20:55"),
            ("resets Jan 2, 1am (UTC)", "2027-01-02 01:00"),
            ("resets Mar 5, 2027, 1am (UTC)", "2027-03-05 01:00"),
            ("Your limit will reset at 3pm (America/Bogota).", "2026-11-21 20:00"),
            ("5-hour limit reached ∙ resets 2am", "2026-11-21 17:00"),
            ("try again at Jan 1st, 2030 12:00 AM.", "2029-12-31 15:00"),
            ("try again at 3:05 PM.", "2026-11-21 06:05"),
            ("resets 12am (UTC)", "2026-11-21 00:00"),
            ("resets 12pm (UTC)", "2026-11-21 12:00"),
            ("resets 22:00 (UTC)", "2026-11-20 22:00"),
            ("resets 10pm (Nowhere/Land)", "2026-11-21 13:00"),
            ("Claude AI usage limit reached|1795212000", "2026-11-20 22:00"),
            ("Please retry in 15.002899939s.", "2026-11-20 20:30"),
            ("Please retry in 23h4m12.5s.", "2026-11-21 19:34"),
            ("Rate limit reached. Please try again in 1 hour 20 minutes", "2026-11-20 21:50"),
            ("resets in 3 days", "2026-11-23 20:30"),
            ("try again in 250ms", "2026-11-20 20:30"),
            ("Your quota will reset after 2h30m15s.", "2026-11-20 23:00"),
            ("Please wait 90 seconds before trying again", "2026-11-20 20:31"),
            ("resets at 2026-11-20T23:15:00Z", "2026-11-20 23:15"),
            ("Your limit will reset at 2026-11-21 08:15:00", "2026-11-20 23:15"),
            (r#"{"resets_at":1795212000,"resets_in_seconds":5400}"#, "2026-11-20 22:00"),
            (r#"{"retryDelay": "75s"}"#, "2026-11-20 20:31"),
            ("429 Too Many Requests; retry-after: 3600", "2026-11-20 21:30"),
            ("resets tomorrow at 9am (UTC)", "2026-11-21 09:00"),
            ("resets Mon 9:30am (UTC)", "2026-11-23 09:30"),
            ("Your limit resets on Friday at 9pm (UTC)", "2026-11-20 21:00"),
            ("try again on Friday at 8pm (UTC)", "2026-11-27 20:00"),
        ] {
            assert_eq!(at(text, now).as_deref(), Some(want), "{text}");
        }
        for nothing in [
            "",
            "resets soon",
            "resets 25pm",
            "resets 0am",
            "resets 10",
            "resets Feb 30, 1am (UTC)",
            "resets Nov",
            "usage limit reached|0",
            "usage limit reached|17952120001",
            "limit reached|",
            "try again in a while",
            "retry in 99999999999 days",
        ] {
            assert_eq!(at(nothing, now), None, "{nothing}");
        }
    }

    #[test]
    fn repeated_and_skipped_times_are_resolved() {
        let berlin = |text: &str, now| at(&format!("resets {text} (Europe/Berlin)"), now).unwrap();
        // 02:00 to 03:00 does not exist on 28 March 2027; 02:00 to 03:00 repeats on 31 October.
        assert_eq!(berlin("2:30am", "2027-03-27T23:00:00Z"), "2027-03-28 01:30");
        assert_eq!(berlin("2:30am", "2027-10-30T23:00:00Z"), "2027-10-31 01:30");
        assert_eq!(berlin("9pm", "2027-03-27T20:30:00Z"), "2027-03-28 19:00");
    }
}
