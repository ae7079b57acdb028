//! The numbers of a repository in the text form of Prometheus. The only user of prometheus-client.

use std::{fmt, sync::atomic::AtomicU64};

use prometheus_client::{
    encoding::{self, EncodeLabel, EncodeLabelSet, LabelSetEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::{core::history::attempt_log::AttemptLog, view::state::TaskCounts};

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bounds of the lengths of attempts, in seconds: from half a minute to two hours, the default
/// limit of an attempt.
const LENGTHS: [f64; 9] = [30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 2400.0, 3600.0, 7200.0];

/// A counter of something that is not whole.
type Sum = Counter<f64, AtomicU64>;
/// A number that goes up and down.
type Level = Gauge<f64, AtomicU64>;

/// What the numbers are made of.
#[derive(Debug)]
pub struct MetricsFacts<'a> {
    /// The tasks by state; none where the graph is invalid.
    pub counts: Option<TaskCounts>,
    /// All attempts.
    pub log: &'a AttemptLog,
    /// Whether a run is active.
    pub is_live: bool,
    /// The seconds since the last heartbeat of the active run.
    pub heartbeat_age: Option<f64>,
}

/// One label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OneLabel(&'static str, String);

impl EncodeLabelSet for OneLabel {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        (self.0, self.1.as_str()).encode(encoder.encode_label())
    }
}

/// Returns the numbers as text.
pub fn text(facts: &MetricsFacts<'_>) -> String {
    let mut registry = Registry::with_prefix("ralph");
    tasks(&mut registry, facts.counts.as_ref());
    attempts(&mut registry, facts.log);
    let level = |value: f64| {
        let level = Level::default();
        level.set(value);
        level
    };
    let is_live = level(f64::from(u8::from(facts.is_live)));
    registry.register("run_active", "Whether a run is active", is_live);
    let valid = level(f64::from(u8::from(facts.counts.is_some())));
    registry.register("graph_valid", "Whether the graph file is valid", valid);
    if let Some(age) = facts.heartbeat_age {
        let about = "The time since the last heartbeat of the active run";
        registry.register_with_unit("heartbeat_age", about, Unit::Seconds, level(age));
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encoding::text::encode(&mut text, &registry);
    text
}

fn tasks(registry: &mut Registry, counts: Option<&TaskCounts>) {
    let Some(counts) = counts else {
        return;
    };
    let states = Family::<OneLabel, Gauge>::default();
    for (kind, count) in counts.states.iter().filter(|(kind, count)| kind.is_over() || **count > 0)
    {
        let (state, count) = (kind.word(), *count);
        let level = states.get_or_create(&OneLabel("state", state.to_owned()));
        level.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register(
        "tasks",
        "Tasks of the graph by state; only complete and cancelled are shown at 0",
        states,
    );
}

fn attempts(registry: &mut Registry, log: &AttemptLog) {
    let verdicts = Family::<OneLabel, Counter>::default();
    let tokens = Family::<OneLabel, Counter>::default();
    let (cost, unknown, running) =
        (Sum::default(), Counter::<u64>::default(), Gauge::<i64>::default());
    let lengths = Histogram::new(LENGTHS);
    for entry in log.of(None) {
        let Some((_, ended)) = &entry.ended else {
            running.inc();
            continue;
        };
        let ended = ended.read();
        verdicts.get_or_create(&OneLabel("verdict", ended.verdict.to_string())).inc();
        lengths.observe(ended.duration_seconds);
        match ended.usage.cost_usd {
            Some(usd) => {
                cost.inc_by(usd);
            }
            None => {
                unknown.inc();
            }
        }
        if let Some(used) = ended.usage.tokens {
            let kinds = [
                ("input", used.input),
                ("output", used.output),
                ("cache_read", used.cache_read),
                ("cache_write", used.cache_write),
            ];
            for (kind, count) in kinds {
                tokens.get_or_create(&OneLabel("kind", kind.to_owned())).inc_by(count);
            }
        }
    }
    registry.register("attempts", "Attempts that ended, by verdict", verdicts);
    registry.register("attempts_without_end", "Attempts that run, or whose end was lost", running);
    let about = "The lengths of attempts";
    registry.register_with_unit("attempt_duration", about, Unit::Seconds, lengths);
    registry.register("cost_usd", "What attempts cost, as far as their agents told it", cost);
    registry.register(
        "cost_unknown_attempts",
        "Attempts whose agents did not tell the cost",
        unknown,
    );
    registry.register(
        "tokens",
        "Tokens of attempts by kind, as far as their agents told them",
        tokens,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::state::StateKind;

    #[test]
    fn an_empty_repository_has_numbers_too() {
        let log = AttemptLog::default();
        let mut counts = TaskCounts { total: 3, ..TaskCounts::default() };
        counts.states[StateKind::Complete] = 1;
        counts.states[StateKind::Ready] = 2;
        let counts = Some(counts);
        let facts = MetricsFacts { counts, log: &log, is_live: true, heartbeat_age: Some(1.5) };
        let text = text(&facts);
        for line in [
            "ralph_tasks{state=\"complete\"} 1",
            "ralph_tasks{state=\"ready\"} 2",
            "ralph_run_active 1.0",
            "ralph_heartbeat_age_seconds 1.5",
            "ralph_cost_usd_total 0.0",
            "ralph_attempt_duration_seconds_count 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        let invalid = MetricsFacts { counts: None, log: &log, is_live: false, heartbeat_age: None };
        assert!(super::text(&invalid).contains("ralph_graph_valid 0.0"));
    }
}
