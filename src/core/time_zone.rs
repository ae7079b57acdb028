//! Time zones by name, such as `Europe/Berlin`, with built-in rules.
//!
//! The only user of `chrono_tz`. Does not look up the zone of the machine.

use std::str::FromStr;

pub use chrono_tz::Tz as Zone;

use crate::core::diagnostic::nearest;

/// Returns the zone with this name.
///
/// # Errors
/// A message that suggests a similar name, if there is one.
pub fn named(name: &str) -> Result<Zone, String> {
    let found = Zone::from_str(name.trim());
    found.map_err(|_| {
        let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
        match nearest(name, names) {
            Some(near) => format!("unknown time zone `{name}`; did you mean `{near}`?"),
            None => {
                format!("unknown time zone `{name}`; use a name such as `Europe/Berlin` or `UTC`")
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_zones_get_a_suggestion() {
        assert_eq!(named("Europe/Berlin"), Ok(Zone::Europe__Berlin));
        assert_eq!(named(" UTC "), Ok(Zone::UTC));
        let hint = named("europe/berlin").unwrap_err();
        assert_eq!(hint, "unknown time zone `europe/berlin`; did you mean `Europe/Berlin`?");
        assert!(named("soon").unwrap_err().contains("such as `Europe/Berlin`"));
    }
}
