//! The variables of a person's shell that lead back to the checkout, and their replacements in a
//! slot: with an activated virtualenv, the tests of a slot would test the checkout.

use serde::{Deserialize, Serialize};

/// The variable set in an attempt where `ralph` cannot write to the run's repository: in a sandbox,
/// and behind a worker.
pub const AWAY: &str = "RALPH_AWAY";

/// A variable with a path of the checkout in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedBack {
    /// Its name.
    pub name: String,
    /// Its value in the slot; none where it is removed.
    pub value: Option<String>,
}

/// Variables that every shell and tool sets for its own folder.
const OWN: [&str; 4] = ["PWD", "OLDPWD", "_", "SHLVL"];
/// Variables that name an environment that must exist.
const ENVIRONMENTS: [&str; 3] = ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"];

/// Returns the variables that lead to the checkout, in the order of their names. Each path of the
/// checkout becomes the same path of the slot, where the same thing is or will be; an environment
/// missing there is removed. Those in `keep` and those of `ralph` stay unchanged. `checkout` has
/// all spellings of the path of the checkout; `is_there` answers for a path of the slot.
pub fn in_slot(
    variables: impl IntoIterator<Item = (String, String)>,
    checkout: &[String],
    slot: &str,
    keep: &[String],
    is_there: impl Fn(&str) -> bool,
) -> Vec<LedBack> {
    let stays = |name: &str| {
        name.starts_with("RALPH_") || OWN.contains(&name) || keep.iter().any(|kept| kept == name)
    };
    let mut found: Vec<LedBack> = variables
        .into_iter()
        .filter(|(name, _)| !stays(name))
        .filter_map(|(name, value)| {
            let moved = checkout.iter().fold(value.clone(), |text, root| moved(&text, root, slot));
            let value = (moved != value).then_some(moved)?;
            let is_gone = ENVIRONMENTS.contains(&name.as_str()) && !is_there(&value);
            Some(LedBack { name, value: (!is_gone).then_some(value) })
        })
        .collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// The text with every path at or below `root` moved below `slot`.
pub fn moved(text: &str, root: &str, slot: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(root).filter(|_| root.len() > 1) {
        let (before, found) = rest.split_at(at);
        let after = &found[root.len()..];
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '+');
        let is_whole = !after.starts_with(is_part) && !before.ends_with(is_part);
        result.push_str(before);
        result.push_str(if is_whole { slot } else { root });
        rest = after;
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKOUT: &str = "/home/ann/app";

    fn of(
        variables: &[(&str, &str)],
        keep: &[&str],
        there: &[&str],
    ) -> Vec<(String, Option<String>)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let keep: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
        let checkout = [CHECKOUT.to_owned(), "/srv/app".to_owned()];
        let is_there = |path: &str| there.contains(&path);
        in_slot(variables.iter().map(owned), &checkout, "/home/ann/app.slots/1", &keep, is_there)
            .into_iter()
            .map(|led| (led.name, led.value))
            .collect()
    }

    fn value(value: &str) -> Option<String> {
        of(&[("X", value)], &[], &[]).pop().and_then(|(_, value)| value)
    }

    #[test]
    fn every_path_of_the_checkout_becomes_one_of_the_slot() {
        for (given, want) in [
            ("/home/ann/app", "/home/ann/app.slots/1"),
            ("/home/ann/app/.venv/bin:/usr/bin", "/home/ann/app.slots/1/.venv/bin:/usr/bin"),
            (
                "/usr/bin:/srv/app/bin:/home/ann/app/x",
                "/usr/bin:/home/ann/app.slots/1/bin:/home/ann/app.slots/1/x",
            ),
            ("sqlite:////home/ann/app/dev.db", "sqlite:////home/ann/app.slots/1/dev.db"),
            ("--require /home/ann/app/hook.js -x", "--require /home/ann/app.slots/1/hook.js -x"),
        ] {
            assert_eq!(value(given).as_deref(), Some(want), "{given}");
        }
        for other in [
            "",
            "app",
            "/home/ann/app.slots/2/bin",
            "/home/ann/application",
            "/home/ann/app-old/bin",
            "/mnt/home/ann/app",
            "/usr/bin:/bin",
        ] {
            assert_eq!(of(&[("X", other)], &[], &[]), [], "{other}");
        }
    }

    #[test]
    fn an_environment_that_the_slot_lacks_is_removed() {
        let active = [("VIRTUAL_ENV", "/home/ann/app/.venv"), ("PYTHONPATH", "/home/ann/app/src")];
        let moved = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let path = moved("PYTHONPATH", "/home/ann/app.slots/1/src");
        assert_eq!(of(&active, &[], &[]), [path.clone(), ("VIRTUAL_ENV".to_owned(), None)]);
        let venv = "/home/ann/app.slots/1/.venv";
        assert_eq!(of(&active, &[], &[venv]), [path.clone(), moved("VIRTUAL_ENV", venv)]);
        assert_eq!(of(&active, &["VIRTUAL_ENV"], &[]), [path]);
    }

    #[test]
    fn variables_of_shells_and_of_ralph_stay() {
        let own =
            [("PWD", CHECKOUT), ("OLDPWD", CHECKOUT), ("_", CHECKOUT), ("RALPH_GRAPH", CHECKOUT)];
        assert_eq!(of(&own, &[], &[]), []);
    }
}
