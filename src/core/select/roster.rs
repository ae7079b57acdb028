//! The agents of tasks: the names that settings give to agents, the agents of certain tasks, and the
//! ladder from one attempt to the next.

use std::collections::BTreeMap;

use super::Policy;
use crate::{
    agents::{agent_command::AgentCommand, agent_preset},
    diagnostic::{is_misspelled, nearest},
    graph::task::Task,
};

/// What the settings say about agents besides the ordinary ones.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    /// By name. With any, also the presets, so that a list may have both.
    named: BTreeMap<String, AgentCommand>,
    /// By what a task is, such as `tag:db`.
    by_kind: BTreeMap<String, Vec<AgentCommand>>,
    /// Those of the first, the second … attempt; the last one is for all after it.
    escalate: Vec<AgentCommand>,
}

/// An error in the name of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFault {
    /// The word as it is written.
    pub word: String,
    /// What is wrong with it.
    pub text: String,
}

/// The kinds of tasks that can have agents.
pub const KINDS: [&str; 3] = ["tag", "story", "complexity"];

impl Roster {
    /// A roster with these names, agents by kinds, and rungs.
    pub fn new(
        named: BTreeMap<String, AgentCommand>,
        by_kind: BTreeMap<String, Vec<AgentCommand>>,
        escalate: Vec<AgentCommand>,
    ) -> Roster {
        let presets = if named.is_empty() { &[][..] } else { agent_preset::ALL };
        let presets = presets
            .iter()
            .filter_map(|it| AgentCommand::preset(it.name).map(|call| (it.name.to_owned(), call)));
        Roster { named: presets.chain(named).collect(), by_kind, escalate }
    }

    /// The agents that these commands stand for: one of a single word may be a name, and one whose words
    /// are all names is a list.
    pub fn resolve<'a>(&'a self, calls: &'a [AgentCommand]) -> Vec<&'a AgentCommand> {
        let mut found = Vec::with_capacity(calls.len());
        for call in calls {
            match call.argv.iter().map(|word| self.named.get(word)).collect::<Option<Vec<_>>>() {
                Some(all) if !all.is_empty() => found.extend(all),
                _ => found
                    .push(self.named.get(&call.name).filter(|_| call.is_word()).unwrap_or(call)),
            }
        }
        found
    }

    /// The misspelled name of a preset or of one of `agents` in the place of a program that is not there.
    /// `has_program` says whether one is.
    pub fn misspelled(
        &self,
        calls: &[AgentCommand],
        has_program: &dyn Fn(&str) -> bool,
    ) -> Option<AgentFault> {
        let presets = agent_preset::ALL.iter().map(|preset| preset.name);
        let known: Vec<&str> = self.named.keys().map(String::as_str).chain(presets).collect();
        let programs = calls.iter().filter_map(|call| call.argv.first());
        let unknown =
            programs.filter(|word| !word.contains('/') && !known.contains(&word.as_str()));
        unknown.filter(|word| !has_program(word)).find_map(|word| {
            let near = known.iter().find(|name| is_misspelled(word, name))?;
            let text = format!("there is no agent `{word}`; did you mean `{near}`?");
            Some(AgentFault { word: word.clone(), text })
        })
    }

    /// What is wrong with a list that begins with a name, if anything.
    pub fn fault(&self, calls: &[AgentCommand]) -> Option<AgentFault> {
        let is_named = |word: &String| self.named.contains_key(word);
        let begins = |call: &&AgentCommand| {
            call.argv.first().is_some_and(|it| is_named(it) && agent_preset::find(it).is_none())
        };
        let odd =
            calls.iter().filter(begins).flat_map(|call| &call.argv).find(|it| !is_named(it))?;
        let known = self.named.keys().map(String::as_str);
        let cure = match nearest(odd, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name it in `agents`".to_owned(),
        };
        let text = format!("`{odd}` is neither one of `agents` nor a preset; {cure}");
        Some(AgentFault { word: odd.clone(), text })
    }

    /// The agents of a task of a kind that has its own.
    fn of_kind(&self, task: &Task) -> Option<&Vec<AgentCommand>> {
        if self.by_kind.is_empty() {
            return None;
        }
        let tags = task.tags.iter().map(|tag| format!("tag:{tag}"));
        let story = task.story.iter().map(|story| format!("story:{story}"));
        let size = task.extra.get("complexity").and_then(|size| size.as_str());
        let size = size.map(|size| format!("complexity:{}", size.to_uppercase()));
        let mut kinds = tags.chain(story).chain(size);
        kinds.find_map(|kind| self.by_kind.get(&kind))
    }

    /// The agents of the next attempt on a ladder when this many have failed: its own rung, and while that
    /// cannot start those above it, then those below.
    fn rung<'a>(&'a self, escalate: &'a [AgentCommand], failed: u32) -> Vec<&'a AgentCommand> {
        let rungs = self.resolve(escalate);
        let at = (failed as usize).min(rungs.len().saturating_sub(1));
        let (below, above) = rungs.split_at(at);
        let mut found: Vec<&AgentCommand> = Vec::new();
        for call in above.iter().chain(below.iter().rev()) {
            if !found.contains(call) {
                found.push(call);
            }
        }
        found
    }
}

impl Policy {
    /// The names of agents of the settings that a task may be given to, unless others stand above them.
    pub fn names_of_agents(&self) -> Vec<&str> {
        let Roster { named, by_kind, escalate } = &self.roster;
        let own = named.keys().filter(|name| agent_preset::find(name).is_none());
        let calls = self.agents.iter().chain(escalate).chain(by_kind.values().flatten());
        let calls = calls.filter(|call| call.is_word() || named.contains_key(&call.name));
        let mut names: Vec<&str> =
            own.map(String::as_str).chain(calls.map(|call| call.name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|_| !self.agents_given);
        names
    }

    /// The agents of a task as they are written, and whether they are the rungs of a ladder.
    fn chosen<'a>(&'a self, task: &'a Task) -> (&'a [AgentCommand], bool) {
        if self.agents_given {
            (&self.agents, false)
        } else if !task.escalate.is_empty() {
            (&task.escalate, true)
        } else if !task.agents.is_empty() {
            (&task.agents, false)
        } else if let Some(calls) = self.roster.of_kind(task) {
            (calls, false)
        } else if !self.roster.escalate.is_empty() {
            (&self.roster.escalate, true)
        } else {
            (&self.agents, false)
        }
    }

    /// The agents of a task when this many attempts at it have failed, in the order in which they are
    /// tried. Without a ladder, each `round` of attempts begins with another one.
    pub fn agents_of<'a>(
        &'a self,
        task: &'a Task,
        failed: u32,
        round: u32,
    ) -> Vec<&'a AgentCommand> {
        let (written, is_ladder) = self.chosen(task);
        if is_ladder {
            return self.roster.rung(written, failed);
        }
        let mut calls = self.roster.resolve(written);
        let first = round as usize % calls.len().max(1);
        calls.rotate_left(first);
        calls
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::task;

    fn names(calls: Vec<&AgentCommand>) -> Vec<&str> {
        calls.into_iter().map(|call| call.name.as_str()).collect()
    }

    fn roster() -> Roster {
        let named = [("fast", json!({"command": ["x"]})), ("strong", json!("codex"))];
        let named = named.into_iter().map(|(name, value)| {
            let call = AgentCommand::read(&value).unwrap().remove(0);
            (name.to_owned(), AgentCommand { name: name.to_owned(), ..call })
        });
        Roster::new(named.collect(), BTreeMap::new(), Vec::new())
    }

    #[test]
    fn names_stand_alone_and_in_lists_also_with_presets() {
        let roster = roster();
        for (value, expected) in [
            (json!("fast"), &["fast"][..]),
            (json!(["fast", "strong"]), &["fast", "strong"]),
            (json!(["gemini", "fast"]), &["gemini", "fast"]),
            (json!(["claude", "codex"]), &["claude", "codex"]),
            (json!(["other", "fast"]), &["other"]),
            (json!({"command": ["fast", "-p"]}), &["fast"]),
        ] {
            let calls = AgentCommand::read(&value).unwrap();
            assert_eq!(names(roster.resolve(&calls)), expected, "{value}");
        }
        let of = |value| roster.fault(&AgentCommand::read(&value).unwrap());
        let fault = of(json!(["fast", "strnog"])).unwrap();
        assert!(fault.text.contains("did you mean `strong`?"), "{fault:?}");
        assert_eq!(of(json!(["other", "fast"])), None);
        let has_program = |word: &str| word == "claud";
        let of = |value| roster.misspelled(&AgentCommand::read(&value).unwrap(), &has_program);
        for (value, near) in [
            (json!("strnog"), Some("strong")),
            (json!(["cladue", "-p"]), Some("claude")),
            (json!(["stong", "fast"]), Some("strong")),
            (json!("claud"), None),
            (json!("./claude"), None),
            (json!("mine"), None),
        ] {
            let fault = of(value).map(|fault| fault.text);
            assert_eq!(fault.as_ref().is_some(), near.is_some(), "{fault:?}");
            assert!(near.is_none_or(|near| fault.unwrap().contains(&format!("`{near}`?"))));
        }
    }

    #[test]
    fn a_ladder_goes_up_with_each_failure_and_stays_at_its_end() {
        let roster = roster();
        let rungs = AgentCommand::read(&json!(["fast", "fast", "strong"])).unwrap();
        for (failed, expected) in [
            (0, ["fast", "strong"]),
            (1, ["fast", "strong"]),
            (2, ["strong", "fast"]),
            (9, ["strong", "fast"]),
        ] {
            assert_eq!(names(roster.rung(&rungs, failed)), expected, "after {failed}");
        }
    }

    #[test]
    fn a_task_has_the_agents_of_its_tag_before_those_of_its_size() {
        let mut roster = roster();
        for kind in ["tag:db", "complexity:L"] {
            let call =
                AgentCommand { name: kind.to_owned(), ..AgentCommand::preset("amp").unwrap() };
            roster.by_kind.insert(kind.to_owned(), vec![call]);
        }
        let mut task = task("a");
        assert!(roster.of_kind(&task).is_none());
        task.extra.insert("complexity".to_owned(), json!("l"));
        assert_eq!(roster.of_kind(&task).unwrap()[0].name, "complexity:L");
        task.tags.push("db".to_owned());
        assert_eq!(roster.of_kind(&task).unwrap()[0].name, "tag:db");
    }
}
