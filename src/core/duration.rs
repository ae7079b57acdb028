//! Lengths of time as people write and read them: `90s`, `15m`, `2h`.
//!
//! The only user of `humantime`. Knows no clock.

use std::time::Duration;

/// Reads `90s`, `15m`, `2h 30m`. A bare number is refused: seconds to one reader are minutes to
/// the next.
///
/// # Errors
/// A fragment that says what was expected.
pub fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|_| format!("`{text}` is not a length of time; write `90s`, `15m` or `2h`"))
}

/// To the millisecond, as [`parse`] reads it.
pub fn text(length: Duration) -> String {
    let millis = Duration::from_millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
    humantime::format_duration(millis).to_string()
}

/// The same, and a bare number means seconds: for what is called so elsewhere.
///
/// # Errors
/// As [`parse`].
pub fn seconds_or(text: &str) -> Result<Duration, String> {
    let bare = text.trim().parse().ok().map(Duration::try_from_secs_f64);
    bare.and_then(Result::ok).map_or_else(|| parse(text), Ok)
}

/// Two units at most, the finer one only where it says something: `420ms`, `4.2s`, `12s`, `3m 42s`,
/// `2h 10m`.
pub fn short(length: Duration) -> String {
    let rounded = match length.as_secs() {
        0 => return format!("{}ms", length.as_millis()),
        1..10 => return format!("{:.1}s", length.as_secs_f64()),
        secs @ 10..3600 => secs,
        secs @ 3600..86_400 => secs - secs % 60,
        secs => {
            let (days, hours) = (secs / 86_400, secs % 86_400 / 3600);
            let hours = if hours == 0 { String::new() } else { format!(" {hours}h") };
            return format!("{days} day{}{hours}", if days == 1 { "" } else { "s" });
        }
    };
    humantime::format_duration(Duration::from_secs(rounded)).to_string()
}

/// Seconds to the millisecond, as the journal has them.
pub fn seconds(length: Duration) -> f64 {
    (length.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse(" 2h 30m"), Ok(Duration::from_secs(9000)));
        assert!(parse("90").unwrap_err().contains("`90s`"));
        assert!(parse("soon").is_err());
        assert_eq!(seconds_or("60"), Ok(Duration::from_secs(60)));
        assert_eq!(seconds_or("0.2"), Ok(Duration::from_millis(200)));
        assert_eq!(seconds_or("15m"), Ok(Duration::from_secs(900)));
        for wrong in ["-1", "NaN", "1e300", "soon"] {
            assert!(seconds_or(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prints_two_units_at_most() {
        for (secs, want) in [
            (0.42, "420ms"),
            (4.21, "4.2s"),
            (12.9, "12s"),
            (222.0, "3m 42s"),
            (7_805.0, "2h 10m"),
            (93_700.0, "1 day 2h"),
            (172_900.0, "2 days"),
            (40_000_000.0, "462 days 23h"),
        ] {
            assert_eq!(short(Duration::from_secs_f64(secs)), want);
        }
    }
}
