//! The agents of tasks: the names that settings give to agents, the agents of certain tasks, and the
//! ladder from one attempt to the next.

use std::collections::BTreeMap;

use super::Policy;
use crate::{
    agents::{agent_command::AgentCommand, agent_preset},
    diagnostic::{is_misspelled, nearest},
    graph::task::Task,
};

/// The settings of agents besides the ordinary ones.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    /// By name. With any, also the presets, so that a list may have both.
    named: BTreeMap<String, AgentCommand>,
    /// By the kind of task, such as `tag:db`.
    by_kind: BTreeMap<String, Vec<AgentCommand>>,
    /// Those of the first, the second … attempt; the last one is for all after it.
    escalate: Vec<AgentCommand>,
}

/// An error in the name of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFault {
    /// The word, verbatim.
    pub word: String,
    /// Its fault.
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

    /// The misspelled name of a preset or of one of `agents` in the place of a missing program.
    /// `has_program` says whether a program exists.
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

    /// The fault of a list that begins with a name, if any.
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
    /// The agents of a task, verbatim, and whether they are the rungs of a ladder.
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

    /// The agents of a task after this many failed attempts at it, in the order they are tried.
    /// Without a ladder, each `round` of attempts begins with another one.
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
    use chrono::DateTime;
    use serde_json::json;

    use super::*;
    use crate::{
        agents::transcript::Usage,
        dice::Dice,
        event::{AttemptResult, Begun, Event, RunEvent, StopReason},
        graph::task::Status,
        history::History,
        samples::{end, graph, record, started, task},
        select::{Decision, Turn, View, keys},
        spend::Budget,
        verdict::Verdict,
    };

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

    /// 200 tasks with the odds of a fast and a strong agent in percent, and the cost of their
    /// attempts.
    struct LadderNight {
        odds: Vec<[u64; 2]>,
        prices: [f64; 2],
        seed: u64,
    }

    /// The result of a night.
    struct LadderEnd {
        done: u32,
        spent: f64,
        why: StopReason,
    }

    impl LadderEnd {
        /// The cost of a completed task.
        fn each(&self) -> f64 {
            self.spent / f64::from(self.done.max(1))
        }
    }

    const AGENTS: [&str; 2] = ["fast", "strong"];

    impl LadderNight {
        /// A share of the tasks is hard, and only the strong agent is likely to do these; the numbers are
        /// percent, and the last one is the price of the strong agent in prices of the fast one.
        fn drawn(
            seed: u64,
            [hard, fast_at_hard, fast, strong, ratio]: [[usize; 2]; 5],
        ) -> LadderNight {
            let mut dice = Dice(seed);
            let mut within = |[least, most]: [usize; 2]| {
                u64::try_from(least + dice.below(most - least + 1)).unwrap()
            };
            let (hard, ratio) = (within(hard), within(ratio));
            let mut odds = Vec::new();
            for _ in 0..200 {
                let is_hard = within([1, 100]) <= hard;
                odds.push([within(if is_hard { fast_at_hard } else { fast }), within(strong)]);
            }
            LadderNight { odds, prices: [0.5, 0.005 * ratio as f64], seed }
        }

        /// The nth attempt of an agent at a task ends in the same way whatever the policy is.
        fn succeeds(&self, task: usize, agent: usize, nth: u32) -> bool {
            let place = (task * 2 + agent) as u64 * 1000 + u64::from(nth);
            Dice(self.seed ^ place.wrapping_mul(0x2545_f491_4f6c_dd1d))
                .chance(self.odds[task][agent])
        }

        /// Plays it with the decisions of a run; an attempt is cut where the budget of the run ends.
        fn play(&self, rungs: &[&str], budget: Option<f64>) -> LadderEnd {
            let call = |name: &str| {
                let call = AgentCommand::read(&json!({"command": [name]})).unwrap().remove(0);
                AgentCommand { name: name.to_owned(), ..call }
            };
            let rungs = rungs.iter().map(|name| call(name)).collect();
            let named = AGENTS.map(|name| (name.to_owned(), call(name))).into();
            let policy = Policy {
                roster: Roster::new(named, BTreeMap::new(), rungs),
                max_attempts: 500,
                max_failures: 0,
                max_iterations: Some(10_000),
                budget: Budget { cost: budget, ..Budget::default() },
                ..Policy::default()
            };
            let mut graph = graph(self.odds.len(), &[]);
            let keys = keys(&graph);
            let (mut history, mut now) = (History::default(), 0);
            let mut tried = vec![[0; 2]; self.odds.len()];
            history.apply(&record("", 0, RunEvent::LoopStarted(Begun::default())));
            for _ in 0..100_000 {
                let view = View {
                    graph: &graph,
                    keys: &keys,
                    history: &history,
                    policy: &policy,
                    active: &[],
                };
                let at = DateTime::from_timestamp(now, 0).unwrap();
                let number = match view.decide(at) {
                    Decision::Start(key) => key.number,
                    Decision::Wait(wait) => {
                        now = wait.until.expect("nothing runs").timestamp().max(now + 1);
                        continue;
                    }
                    Decision::Stop(why) => {
                        let run = &history.run;
                        return LadderEnd { done: run.completed, spent: run.spend.cost_usd, why };
                    }
                };
                let Turn::Now(Some(call)) = view.agent(number, at) else {
                    panic!("nothing is busy")
                };
                let (name, agent) = (call.name.clone(), usize::from(call.name == AGENTS[1]));
                let left = policy.budget.left(&history.spend());
                let cost = left.map_or(self.prices[agent], |left| left.min(self.prices[agent]));
                let nth = &mut tried[number][agent];
                *nth += 1;
                let verdict = match self.succeeds(number, agent, *nth) {
                    _ if cost < self.prices[agent] => Verdict::Cancelled,
                    true => Verdict::Complete,
                    false => Verdict::Failed,
                };
                let id = graph.task(number).id.clone();
                let attempt = history.of(&id).attempts + 1;
                history.apply(&record(id.as_str(), now, started(attempt)));
                now += 120;
                let usage = Usage { cost_usd: Some(cost), ..Usage::default() };
                let ended = end(attempt, verdict);
                let ended =
                    AttemptResult { agent: Some(name), usage, duration_seconds: 120.0, ..ended };
                history.apply(&record(id.as_str(), now, Event::Ended(ended)));
                if verdict == Verdict::Complete {
                    graph.set_status(number, Status::Complete);
                }
            }
            panic!("it does not end");
        }

        /// The cost of a task on this ladder, in shares of the agent that proved better alone.
        fn share(&self, rungs: &[&str]) -> f64 {
            let alone = AGENTS.map(|name| self.play(&[name], None).each());
            self.play(rungs, None).each() / alone[0].min(alone[1])
        }
    }

    const LADDER: [&str; 3] = ["fast", "fast", "strong"];

    /// The odds for which a ladder is meant: most tasks are easy for the fast agent, the others are hardly
    /// for it, and the strong one costs several times as much.
    const SUITABLE: [[usize; 2]; 5] = [[5, 40], [5, 15], [80, 95], [80, 97], [300, 600]];

    /// If all tasks were equal, and the fast agent failed with the odds `q`, the ladder would cost
    /// `(1 - q²) · fast + q² · strong`, each as if it worked alone: never more than the worse one.
    #[test]
    fn a_ladder_costs_at_most_a_tenth_more_than_the_better_agent_where_tasks_differ() {
        let nights: Vec<LadderNight> =
            (0..12).map(|seed| LadderNight::drawn(seed, SUITABLE)).collect();
        let mut worst = 0.0_f64;
        for night in &nights {
            let share = night.share(&LADDER);
            worst = worst.max(share);
            assert!(share <= 1.1, "{}: {share:.2} of the better agent", night.seed);
            let whole = night.play(&LADDER, None);
            assert_eq!((whole.done, whole.why), (200, StopReason::Complete), "{}", night.seed);
        }
        println!("the ladder costs at most {worst:.2} of the better agent alone");
        // The bound is not trivial: the same rungs in another order break it, and so do other odds.
        let upside_down = ["strong", "fast", "fast"];
        assert!(nights.iter().any(|night| night.share(&upside_down) > 1.1), "worst {worst:.2}");
        let useless = [[100, 100], [2, 10], [60, 90], [80, 97], [120, 200]];
        let share = LadderNight::drawn(0, useless).share(&LADDER);
        assert!(share > 1.1, "{share:.2} where the fast agent is of no use");
    }

    #[test]
    fn a_ladder_keeps_the_budget_of_the_run() {
        for seed in 0..8 {
            let night = LadderNight::drawn(seed, SUITABLE);
            let whole = night.play(&LADDER, None);
            for part in [0.01, 0.3, 0.9] {
                let budget = whole.spent * part;
                let cut = night.play(&LADDER, Some(budget));
                assert!(cut.spent <= budget + 1e-9, "{seed}: {} of {budget}", cut.spent);
                assert!(matches!(cut.why, StopReason::Limit(_)), "{seed}: {}", cut.why);
            }
        }
    }
}
