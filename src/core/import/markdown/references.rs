//! Finds the tasks that a text in a plan names: `Depends on: T001, Task 2`.

use std::collections::HashMap;

use crate::import::ids::slug;

/// The names of the tasks of a plan.
pub(super) struct PlanKeys<'a> {
    by_name: HashMap<String, &'a str>,
}

/// What stands before names of tasks.
pub(super) const PHRASES: [&str; 9] = [
    "depends on",
    "dependent on",
    "dependencies",
    "depends-on",
    "depends_on",
    "blocked by",
    "after task",
    "requires",
    "prerequisites",
];

impl<'a> PlanKeys<'a> {
    pub(super) fn new(keys: &[&'a str]) -> PlanKeys<'a> {
        PlanKeys { by_name: keys.iter().map(|key| (key.to_ascii_lowercase(), *key)).collect() }
    }

    /// The tasks that a text names, and names after a colon that are no tasks.
    pub(super) fn references(&self, text: &str) -> (Vec<String>, Vec<String>) {
        let (mut links, mut unknown): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let lower = line.to_ascii_lowercase();
            let Some((at, phrase)) =
                PHRASES.iter().filter_map(|phrase| Some((lower.find(phrase)?, phrase))).min()
            else {
                continue;
            };
            let rest = line[at + phrase.len()..].trim_start_matches(['*', '_', ' ']);
            let is_listed = rest.starts_with(':');
            let rest = rest.trim_start_matches([':', '*', '_', ' ']);
            let rest = rest.split(')').next().unwrap_or_default();
            for name in rest.split([',', ';']).flat_map(|part| part.split(" and ")) {
                let name =
                    name.trim_matches(|c: char| c.is_whitespace() || "*_`.:()[]#".contains(c));
                if name.is_empty()
                    || ["none", "n/a", "nothing", "-"].contains(&name.to_ascii_lowercase().as_str())
                {
                    continue;
                }
                if let Some(key) = self.find(name) {
                    if links.iter().all(|known| known != key) {
                        links.push(key.to_owned());
                    }
                } else if is_listed {
                    unknown.push(name.to_owned());
                }
            }
        }
        (links, unknown)
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        let lower = name.to_ascii_lowercase();
        let first = lower.split_whitespace().next().unwrap_or_default();
        let first = first.trim_matches(|c: char| ":.()`*#".contains(c)).to_owned();
        let number = lower.rsplit([' ', '#']).next().unwrap_or_default();
        let is_number = number.starts_with(|c: char| c.is_ascii_digit());
        let numbered = ["task", "story", "step", "issue", "ticket", "feature", "user-story"]
            .iter()
            .filter(|_| is_number)
            .map(|word| format!("{word}-{number}"));
        let names = [lower.clone(), first, slug(name)].into_iter().chain(numbered);
        let names = names.chain(is_number.then(|| number.to_owned()));
        names.into_iter().find_map(|name| self.by_name.get(&name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_after_a_phrase_are_found() {
        let keys = PlanKeys::new(&["T001", "T-2", "task-3", "add-login"]);
        let of = |text: &str| keys.references(text);
        assert_eq!(of("x (depends on T001, t-2)").0, ["T001", "T-2"]);
        assert_eq!(of("**Dependencies:** Task 3 and Add login").0, ["task-3", "add-login"]);
        assert_eq!(of("Depends on: T001, the weather").1, ["the weather"]);
        assert_eq!(of("It depends on the weather."), (vec![], vec![]));
        assert_eq!(of("Dependencies: none"), (vec![], vec![]));
    }
}
