//! Timetables: cron expressions and the times they stand for.
//!
//! The only user of `croner`. Does not read the clock or the zone of the machine: the time, and the
//! zone of the expressions, are arguments.
//!
//! When clocks change, an expression with numbers for minutes and hours stands for times of day: a
//! skipped time occurs right after the gap, and a repeated time occurs once, the first time. An
//! expression with a `*` there stands for an interval and follows elapsed time.

use std::{fmt, str::FromStr};

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use croner::Cron;

/// A set of cron expressions; each time of each expression counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timetable {
    expressions: Vec<String>,
    crons: Vec<Cron>,
}

impl Timetable {
    /// Parses expressions of five fields, of six with leading seconds, or of seven with trailing
    /// years. `@daily` and similar names are known. An empty list has no times.
    ///
    /// # Errors
    /// A message that names the first expression that is invalid or never occurs.
    pub fn new(expressions: &[String]) -> Result<Timetable, String> {
        let mut crons = Vec::new();
        for expression in expressions {
            let found = read(expression)?;
            if next(&found, &DateTime::<Utc>::UNIX_EPOCH).is_none() {
                return Err(format!("`{expression}` never occurs"));
            }
            crons.extend(found);
        }
        let expressions = expressions.iter().map(|text| text.trim().to_owned()).collect();
        Ok(Timetable { expressions, crons })
    }

    /// The expressions as given.
    pub fn expressions(&self) -> &[String] {
        &self.expressions
    }

    /// Returns the first time after `after`, with the expressions in its zone; none if there is no
    /// such time.
    pub fn next<Z: TimeZone>(&self, after: &DateTime<Z>) -> Option<DateTime<Z>> {
        next(&self.crons, after)
    }
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expressions.join(", "))
    }
}

fn next<Z: TimeZone>(crons: &[Cron], after: &DateTime<Z>) -> Option<DateTime<Z>> {
    crons.iter().filter_map(|cron| cron.find_next_occurrence(after, false).ok()).min()
}

/// The limit on times per day: an expression with more stands for an interval.
const MOMENTS: usize = 100;

/// Parses an expression and splits it if it has several times a day. Croner takes an expression
/// with more than one for an interval, and would skip or repeat times when clocks change.
fn read(expression: &str) -> Result<Vec<Cron>, String> {
    let cron = Cron::from_str(expression).map_err(|error| {
        let why = error.to_string().to_lowercase().replace("cronpattern", "it");
        format!(
            "`{expression}` is not a cron expression ({}); write minute, hour, day, month and day \
             of the week, such as `0 */4 * * *`",
            why.trim_end_matches('.')
        )
    })?;
    let pattern = &cron.pattern;
    let fields: Vec<&str> = pattern.as_str().split_whitespace().collect();
    let rest = match fields.as_slice() {
        [_, _, rest @ ..] if rest.len() == 3 => rest,
        [_, _, _, rest @ ..] => rest,
        _ => return Ok(vec![cron]),
    };
    let times = [&pattern.seconds, &pattern.minutes, &pattern.hours];
    if times.iter().any(|field| field.from_wildcard) {
        return Ok(vec![cron]);
    }
    let [seconds, minutes, hours] = times.map(croner::CronComponent::values);
    if seconds.len() * minutes.len() * hours.len() > MOMENTS {
        return Ok(vec![cron]);
    }
    let mut crons = Vec::new();
    for hour in &hours {
        for minute in &minutes {
            for second in &seconds {
                let one = format!("{second} {minute} {hour} {}", rest.join(" "));
                crons.push(Cron::from_str(&one).map_err(|error| format!("`{one}`: {error}"))?);
            }
        }
    }
    Ok(crons)
}

/// The largest adjustment of a wall clock. A larger jump means that the clock was wrong, so times
/// seen before are void.
const CORRECTION: TimeDelta = TimeDelta::hours(3);

/// The limit on counted missed times.
const COUNTED: u32 = 1000;

/// An alarm that reports each time of a timetable once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    handled_until: DateTime<Utc>,
}

/// The state of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmState {
    /// Nothing is due before this time; none if nothing ever is.
    Wait(Option<DateTime<Utc>>),
    /// A scheduled time was reached.
    Due(Due),
}

/// A scheduled time that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The scheduled time; the first one if several passed since the last check.
    pub scheduled_for: DateTime<Utc>,
    /// The number of other times that passed, at most 1000. They count as handled.
    pub missed: u32,
}

impl Alarm {
    /// Creates an alarm that has handled all times up to this one.
    pub fn after(handled_until: DateTime<Utc>) -> Alarm {
        Alarm { handled_until }
    }

    /// Checks the clock. All times that are due count as handled, so at most one is caught up after
    /// the machine slept. If the clock is set back by up to three hours, no time repeats. If it is
    /// set back further, the clock was wrong, and the alarm starts over from the new time.
    pub fn look<Z: TimeZone>(&mut self, table: &Timetable, now: &DateTime<Z>) -> AlarmState {
        let utc = now.to_utc();
        if self.handled_until - utc > CORRECTION {
            self.handled_until = utc;
        }
        let following = |after: DateTime<Utc>| {
            table.next(&after.with_timezone(&now.timezone())).map(|at| at.to_utc())
        };
        let first = match following(self.handled_until) {
            Some(at) if at <= utc => at,
            later => return AlarmState::Wait(later),
        };
        self.handled_until = utc;
        let passed = std::iter::successors(following(first), |at| following(*at));
        let missed = passed.take_while(|at| *at <= utc).take(COUNTED as usize).count();
        AlarmState::Due(Due { scheduled_for: first, missed: missed as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_zone;

    fn table(expressions: &[&str]) -> Timetable {
        let expressions: Vec<String> = expressions.iter().map(|it| (*it).to_owned()).collect();
        Timetable::new(&expressions).unwrap()
    }

    fn at(time: &str) -> DateTime<Utc> {
        time.parse().unwrap()
    }

    /// The times from `from` until before `to`, in local time.
    fn times(expressions: &[&str], zone: &str, from: &str, to: &str) -> Vec<String> {
        let (table, zone) = (table(expressions), time_zone::named(zone).unwrap());
        let mut times = Vec::new();
        let mut last = at(from).with_timezone(&zone);
        while let Some(next) = table.next(&last).filter(|next| *next < at(to)) {
            assert!(next > last, "{next} follows {last}");
            times.push(next.format("%a %H:%M %z").to_string());
            last = next;
        }
        times
    }

    #[test]
    fn invalid_expressions_are_rejected() {
        for (wrong, part) in [
            ("", "is not a cron expression"),
            ("0 25 * * *", "is not a cron expression"),
            ("* * *", "such as `0 */4 * * *`"),
            ("every day", "is not a cron expression"),
            ("0 0 31 2 *", "never occurs"),
            ("0 0 0 1 1 * 1969", "never occurs"),
        ] {
            let error = Timetable::new(&[wrong.to_owned()]).unwrap_err();
            assert!(error.starts_with(&format!("`{wrong}` ")) && error.contains(part), "{error}");
        }
        assert_eq!(Timetable::new(&[]).unwrap().next(&Utc::now()), None);
        assert_eq!(table(&["@daily", " 0 4 * * * "]).to_string(), "@daily, 0 4 * * *");
    }

    #[test]
    fn several_expressions_are_one_timetable() {
        let week = times(
            &["0 22 * * MON-FRI", "30 8,20 * * SAT,SUN", "0 0 * * 1#1"],
            "UTC",
            "2026-11-20T12:00:00Z",
            "2026-11-23T23:00:00Z",
        );
        let want = ["Fri 22:00", "Sat 08:30", "Sat 20:30", "Sun 08:30", "Sun 20:30", "Mon 22:00"];
        assert_eq!(week, want.map(|time| format!("{time} +0000")));
    }

    /// The day around each clock change: zone, from, to, expression, times.
    #[test]
    fn skipped_and_repeated_times_occur_once() {
        for (zone, from, to, expression, want) in [
            // 02:00 to 03:00 is skipped on 28 March 2027, and repeats on 31 October.
            (
                "Europe/Berlin",
                "2027-03-27T12:00:00Z",
                "2027-03-29T12:00:00Z",
                "30 2 * * *",
                &["Sun 03:00 +0200", "Mon 02:30 +0200"][..],
            ),
            (
                "Europe/Berlin",
                "2027-03-27T12:00:00Z",
                "2027-03-28T12:00:00Z",
                "0,15 2,4 * * *",
                &["Sun 03:00 +0200", "Sun 04:00 +0200", "Sun 04:15 +0200"],
            ),
            (
                "Europe/Berlin",
                "2027-10-30T12:00:00Z",
                "2027-10-31T12:00:00Z",
                "30 2 * * *",
                &["Sun 02:30 +0200"],
            ),
            (
                "Europe/Berlin",
                "2027-10-30T12:00:00Z",
                "2027-10-31T12:00:00Z",
                "30 1-3 * * *",
                &["Sun 01:30 +0200", "Sun 02:30 +0200", "Sun 03:30 +0100"],
            ),
            // 02:00 to 03:00 on 14 March 2027, 01:00 to 02:00 on 7 November.
            (
                "America/New_York",
                "2027-03-13T18:00:00Z",
                "2027-03-15T12:00:00Z",
                "15 2 * * *",
                &["Sun 03:00 -0400", "Mon 02:15 -0400"],
            ),
            (
                "America/New_York",
                "2027-11-06T18:00:00Z",
                "2027-11-08T12:00:00Z",
                "0 1,13 * * *",
                &["Sun 01:00 -0400", "Sun 13:00 -0500", "Mon 01:00 -0500"],
            ),
            // Half an hour: 02:00 to 02:30 on 3 October 2027, 01:30 to 02:00 on 4 April.
            (
                "Australia/Lord_Howe",
                "2027-10-02T06:00:00Z",
                "2027-10-03T20:00:00Z",
                "10 2 * * *",
                &["Sun 02:30 +1100", "Mon 02:10 +1100"],
            ),
            (
                "Australia/Lord_Howe",
                "2027-04-03T06:00:00Z",
                "2027-04-04T20:00:00Z",
                "45 1 * * *",
                &["Sun 01:45 +1100", "Mon 01:45 +1030"],
            ),
        ] {
            assert_eq!(times(&[expression], zone, from, to), want, "{expression} in {zone}");
        }
    }

    #[test]
    fn an_interval_follows_elapsed_time() {
        let forward = ("2027-03-28T00:15:00Z", "2027-03-28T02:15:00Z");
        let back = ("2027-10-30T23:15:00Z", "2027-10-31T02:15:00Z");
        let berlin = |expression, (from, to)| times(&[expression], "Europe/Berlin", from, to);
        assert_eq!(berlin("0 * * * *", forward), ["Sun 03:00 +0200", "Sun 04:00 +0200"]);
        assert_eq!(
            berlin("0 * * * *", back),
            ["Sun 02:00 +0200", "Sun 02:00 +0100", "Sun 03:00 +0100"]
        );
        assert_eq!(berlin("*/30 2 * * *", forward), [""; 0]);
        assert_eq!(berlin("0-59 0-23 * * *", back).len(), 3 * 60 - 1);
        let half = ("2027-04-03T14:00:00Z", "2027-04-03T15:45:00Z");
        assert_eq!(
            times(&["*/30 * * * *"], "Australia/Lord_Howe", half.0, half.1),
            ["Sun 01:30 +1100", "Sun 01:30 +1030", "Sun 02:00 +1030"]
        );
        let half = ("2027-10-02T15:00:00Z", "2027-10-02T16:45:00Z");
        assert_eq!(
            times(&["*/30 * * * *"], "Australia/Lord_Howe", half.0, half.1),
            ["Sun 02:30 +1100", "Sun 03:00 +1100", "Sun 03:30 +1100"]
        );
    }

    /// The results of checks at these times, in Berlin.
    fn looks(alarm: &mut Alarm, expression: &str, moments: &[&str]) -> Vec<String> {
        let table = table(&[expression]);
        let berlin = time_zone::named("Europe/Berlin").unwrap();
        let mut said = Vec::new();
        for now in moments {
            let now = at(now).with_timezone(&berlin);
            said.push(match alarm.look(&table, &now) {
                AlarmState::Wait(None) => "never".to_owned(),
                AlarmState::Wait(Some(at)) => format!("wait for {}", at.format("%d %H:%M")),
                AlarmState::Due(Due { scheduled_for, missed }) => {
                    format!("due since {} and {missed}", scheduled_for.format("%d %H:%M"))
                }
            });
        }
        said
    }

    #[test]
    fn times_missed_during_sleep_are_caught_up_once() {
        let mut alarm = Alarm::after(at("2026-11-20T10:00:30Z"));
        assert_eq!(
            looks(
                &mut alarm,
                "0 * * * *",
                &[
                    "2026-11-20T10:00:31Z",
                    "2026-11-20T10:59:59.999Z",
                    "2026-11-20T11:00:00Z",
                    "2026-11-20T11:00:00.5Z",
                    // Asleep until the next morning.
                    "2026-11-21T07:20:00Z",
                    "2026-11-21T07:20:01Z",
                    "2026-11-21T08:00:02Z",
                ]
            ),
            [
                "wait for 20 11:00",
                "wait for 20 11:00",
                "due since 20 11:00 and 0",
                "wait for 20 12:00",
                "due since 20 12:00 and 19",
                "wait for 21 08:00",
                "due since 21 08:00 and 0",
            ]
        );
        let mut alarm = Alarm::after(at("2026-11-20T10:00:00Z"));
        let months = looks(&mut alarm, "* * * * * *", &["2027-11-20T10:00:00Z"]);
        assert_eq!(months, ["due since 20 10:00 and 1000"]);
    }

    #[test]
    fn setting_the_clock_repeats_no_time() {
        let mut alarm = Alarm::after(at("2026-11-20T10:59:00Z"));
        assert_eq!(
            looks(
                &mut alarm,
                "*/10 * * * *",
                &[
                    "2026-11-20T11:00:01Z",
                    // Back by an hour and a half: all of these times were handled.
                    "2026-11-20T09:30:00Z",
                    "2026-11-20T11:00:00Z",
                    "2026-11-20T11:09:59Z",
                    "2026-11-20T11:10:00Z",
                    // Forward by an hour.
                    "2026-11-20T12:10:30Z",
                    // Back by a day: the clock was wrong.
                    "2026-11-19T12:10:30Z",
                    "2026-11-19T12:20:00Z",
                ]
            ),
            [
                "due since 20 11:00 and 0",
                "wait for 20 11:10",
                "wait for 20 11:10",
                "wait for 20 11:10",
                "due since 20 11:10 and 0",
                "due since 20 11:20 and 5",
                "wait for 19 12:20",
                "due since 19 12:20 and 0",
            ]
        );
    }

    #[test]
    fn clock_changes_during_sleep_repeat_no_time() {
        // 02:30 repeats; once awake between both, once asleep over both.
        let night = ["2027-10-31T00:29:00Z", "2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z"];
        let mut alarm = Alarm::after(at("2027-10-30T12:00:00Z"));
        assert_eq!(
            looks(&mut alarm, "30 2 * * *", &night),
            ["wait for 31 00:30", "due since 31 00:30 and 0", "wait for 01 01:30"]
        );
        let mut alarm = Alarm::after(at("2027-10-30T12:00:00Z"));
        assert_eq!(
            looks(&mut alarm, "30 2 * * *", &["2027-10-31T06:00:00Z"]),
            ["due since 31 00:30 and 0"]
        );
        let mut alarm = Alarm::after(at("2027-03-27T12:00:00Z"));
        assert_eq!(
            looks(
                &mut alarm,
                "30 2 * * *",
                &["2027-03-28T00:59:59Z", "2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z"]
            ),
            ["wait for 28 01:00", "due since 28 01:00 and 0", "wait for 29 00:30"]
        );
    }

    #[test]
    fn a_timetable_can_end() {
        let mut alarm = Alarm::after(at("2026-11-20T10:00:00Z"));
        let moments = ["2026-11-20T10:00:00Z", "2027-01-01T00:00:00Z", "2027-01-01T00:00:01Z"];
        assert_eq!(
            looks(&mut alarm, "0 0 1 1 1 * 2027", &moments),
            ["wait for 01 00:00", "due since 01 00:00 and 0", "never"]
        );
    }
}
