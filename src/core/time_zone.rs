//! Time zones by their names, `Europe/Berlin`, with the rules of each built in.
//!
//! The only user of `chrono_tz`. What the zone of this machine is, is no affair of this module.

use std::str::FromStr;

pub use chrono_tz::Tz as Zone;

use crate::core::diagnostic::nearest;

/// The zone of that name.
///
/// # Errors
/// A fragment that names a similar zone, where there is one.
pub fn named(name: &str) -> Result<Zone, String> {
    let found = Zone::from_str(name.trim());
    found.map_err(|_| {
        let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
        match nearest(name, names) {
            Some(near) => format!("no time zone `{name}`; did you mean `{near}`?"),
            None => format!("no time zone `{name}`; write one such as `Europe/Berlin` or `UTC`"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names_and_misspelt_ones_a_hint() {
        assert_eq!(named("Europe/Berlin"), Ok(Zone::Europe__Berlin));
        assert_eq!(named(" UTC "), Ok(Zone::UTC));
        let hint = named("europe/berlin").unwrap_err();
        assert_eq!(hint, "no time zone `europe/berlin`; did you mean `Europe/Berlin`?");
        assert!(named("soon").unwrap_err().contains("such as `Europe/Berlin`"));
    }
}
