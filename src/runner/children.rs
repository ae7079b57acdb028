//! What an agent leaves running when it has reported its task done and ended: waited for, for a
//! while. Whoever did not report is not waited for. And the ends of child agents that nobody saw.

use std::{
    collections::{HashMap, HashSet},
    iter,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Runner, verify::ProcessStage, watch::RunningAttempt};
use crate::{
    adapters::process::{self, Closed, Member},
    core::{
        duration,
        event::{ChildEnded, ChildOutcome, ChildrenLeft, Event, Orphans},
        history::OpenChild,
    },
    project::attempt::AttemptRecord,
};

/// What an attempt waits for.
pub(super) struct ChildrenWait {
    members: Vec<Member>,
    since: Instant,
    /// When the wait is over; none once it was.
    until: Option<Instant>,
}

impl ChildrenWait {
    /// When something has to be done about them.
    pub(super) fn due(&self) -> Option<Instant> {
        self.until
    }

    /// Puts that off.
    pub(super) fn postpone(&mut self, length: Duration) {
        self.until = self.until.map(|until| until + length);
    }
}

impl Runner {
    /// The agent is over by itself and has left these running, or other ones than it was told.
    pub(super) fn left_behind(&mut self, name: &str, members: Vec<Member>) -> Result<()> {
        // A report that was made just before must be known.
        let records = self.chronicle.catch_up()?;
        self.tell(&records);
        let limit = self.workspace.config.child_wait_timeout;
        let on_orphans = self.workspace.config.on_orphans;
        let Some(at) = self.running.iter().position(|running| running.record.name() == name) else {
            return Ok(());
        };
        let record = self.running[at].record.clone();
        let reported = self.report(&record, None).is_some();
        let running = &mut self.running[at];
        if let Some(children) = &mut running.children {
            children.members = members;
            return Ok(());
        }
        let in_vain = limit.is_zero() && on_orphans == Orphans::Kill;
        let of_agent = matches!(running.stage, ProcessStage::Agent);
        if !of_agent || !reported || in_vain || running.ending.is_some() {
            running.agent.kill();
            return Ok(());
        }
        let left = self.left(record.attempt, &members);
        let since = Instant::now();
        self.running[at].children =
            Some(ChildrenWait { members, since, until: Some(since + limit) });
        self.emit(Some((&record.task_id, record.iteration)), Event::WaitingForChildren(left))
    }

    fn left(&self, attempt: u32, members: &[Member]) -> ChildrenLeft {
        let children = named(members, &self.chronicle.history().children);
        ChildrenLeft {
            attempt,
            children,
            limit_seconds: self.workspace.config.child_wait_timeout.as_secs_f64(),
        }
    }

    /// Does away with what was waited for long enough, or lets go of it.
    pub(super) fn enforce_wait(&mut self) -> Result<()> {
        let on_orphans = self.workspace.config.on_orphans;
        for at in 0..self.running.len() {
            let running = &mut self.running[at];
            let due = |children: &&mut ChildrenWait| {
                children.until.is_some_and(|until| Instant::now() >= until)
            };
            let Some(children) = running.children.as_mut().filter(due) else {
                continue;
            };
            if running.ending.is_some() {
                continue;
            }
            children.until = None;
            let (record, members) = (running.record.clone(), children.members.clone());
            let left = self.left(record.attempt, &members);
            let event = Event::ChildrenOverdue { left, on_orphans };
            self.emit(Some((&record.task_id, record.iteration)), event)?;
            match on_orphans {
                Orphans::Kill => self.running[at].agent.kill(),
                Orphans::Leave => {
                    self.spared = true;
                    self.running[at].agent.spare();
                }
            }
        }
        Ok(())
    }

    /// Puts an end to child agents that are gone and whose `ralph spawn` did not live to say so: of
    /// an attempt that is being closed, or of any.
    pub(super) fn close_children(&mut self, of: Option<&AttemptRecord>) -> Result<()> {
        let ours = |open: &&OpenChild| {
            of.is_none_or(|of| of.task_id == open.task_id && of.attempt == open.child.attempt)
        };
        let children = self.chronicle.history().children.iter().filter(ours);
        let gone = children.filter(|open| !process::is_alive(&open.child.process));
        for OpenChild { task_id, child, .. } in gone.cloned().collect::<Vec<_>>() {
            let outcome = ChildOutcome::Crashed;
            let ended = ChildEnded { child, outcome, duration_seconds: None };
            let records = self.chronicle.emit(None, Some(&task_id), Event::ChildEnded(ended))?;
            self.tell(&records);
        }
        Ok(())
    }

    /// Says so if all that was waited for ended by itself.
    pub(super) fn note_end_of_children(
        &mut self,
        running: &RunningAttempt,
        closed: &Closed,
    ) -> Result<()> {
        let by_itself = running.ending.is_none() && closed.outcome.is_some();
        match &running.children {
            Some(children) if by_itself && children.until.is_some() => {
                let record = &running.record;
                let duration_seconds = duration::seconds(children.since.elapsed());
                let event = Event::ChildrenEnded { attempt: record.attempt, duration_seconds };
                self.emit(Some((&record.task_id, record.iteration)), event)
            }
            _ => Ok(()),
        }
    }
}

/// The names of processes, as people know them: child agents by their command lines instead of all
/// that is above and below them.
fn named(members: &[Member], children: &[OpenChild]) -> Vec<String> {
    let agents: HashMap<u32, &OpenChild> =
        children.iter().map(|open| (open.child.process.pid, open)).collect();
    let parents: HashMap<u32, u32> = members.iter().map(|m| (m.pid, m.parent)).collect();
    // Looked at one after the other, so that a number may have come round: no further than all.
    let above = |pid: u32| {
        let up = iter::successors(parents.get(&pid), |pid| parents.get(pid));
        up.take(members.len()).copied()
    };
    let of_agents = members.iter().filter(|member| agents.contains_key(&member.pid));
    let holders: HashSet<u32> = of_agents.flat_map(|member| above(member.pid)).collect();
    let name = |member: &Member| match agents.get(&member.pid) {
        Some(open) => Some(open.child.name()),
        None if holders.contains(&member.pid) => None,
        None if above(member.pid).any(|pid| agents.contains_key(&pid)) => None,
        None => Some(member.name.clone()),
    };
    members.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::core::{
        event::{ChildAgent, Identity},
        graph::task::TaskId,
    };

    #[test]
    fn child_agents_stand_for_what_is_above_and_below_them() {
        let child = |pid, word: &str| OpenChild {
            task_id: TaskId::new("a").unwrap(),
            since: DateTime::UNIX_EPOCH,
            child: ChildAgent {
                child_run_id: String::new(),
                parent_run_id: String::new(),
                attempt: 1,
                argv: vec!["bin/worker".to_owned(), word.to_owned()],
                process: Identity { boot_id: String::new(), pid, start_time: 0 },
            },
        };
        let member = |pid, parent, name: &str| Member { pid, parent, name: name.to_owned() };
        let members = [
            member(10, 1, "sh"),
            member(11, 10, "ralph"),
            member(12, 11, "worker"),
            member(13, 12, "sleep"),
            member(14, 12, "ralph"),
            member(15, 14, "worker"),
            member(20, 1, "make"),
            member(21, 20, "cc"),
        ];
        let children = [child(12, "one"), child(15, "two"), child(99, "gone")];
        assert_eq!(named(&members, &children), ["worker one", "worker two", "make", "cc"]);
        assert_eq!(named(&members[..2], &[]), ["sh", "ralph"]);
    }
}
