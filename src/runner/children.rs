//! What an agent leaves running when it has reported its task done and ended: waited for, for a
//! while. Whoever did not report is not waited for.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Runner, seconds, verify::Stage, watch::Running};
use crate::{
    agent::{Closed, Member},
    attempt,
    event::{Event, Left, Orphans},
};

/// What an attempt waits for.
pub(super) struct Children {
    members: Vec<Member>,
    since: Instant,
    /// When the wait is over; none once it was.
    until: Option<Instant>,
}

impl Children {
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
        let limit = self.options.child_wait;
        let on_orphans = self.options.on_orphans;
        let Some(at) = self.running.iter().position(|running| running.record.name() == name) else {
            return Ok(());
        };
        let record = self.running[at].record.clone();
        let by_command = self.chronicle.history().of(&record.task_id).reported;
        let reported = attempt::report(&self.workspace, &record, by_command, None).is_some();
        let running = &mut self.running[at];
        if let Some(children) = &mut running.children {
            children.members = members;
            return Ok(());
        }
        let in_vain = limit.is_zero() && on_orphans == Orphans::Kill;
        let of_agent = matches!(running.stage, Stage::Agent);
        if !of_agent || !reported || in_vain || running.ending.is_some() {
            running.agent.kill();
            return Ok(());
        }
        let left = self.left(record.attempt, &members);
        let since = Instant::now();
        self.running[at].children = Some(Children { members, since, until: Some(since + limit) });
        self.emit(Some((&record.task_id, record.iteration)), Event::WaitingForChildren(left))
    }

    fn left(&self, attempt: u32, members: &[Member]) -> Left {
        let children = members.iter().map(|member| member.name.clone()).collect();
        Left { attempt, children, limit_seconds: self.options.child_wait.as_secs_f64() }
    }

    /// Does away with what was waited for long enough, or lets go of it.
    pub(super) fn enforce_wait(&mut self) -> Result<()> {
        let on_orphans = self.options.on_orphans;
        for at in 0..self.running.len() {
            let running = &mut self.running[at];
            let due = |children: &&mut Children| {
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

    /// Says so if all that was waited for ended by itself.
    pub(super) fn note_end_of_children(
        &mut self,
        running: &Running,
        closed: &Closed,
    ) -> Result<()> {
        let by_itself = running.ending.is_none() && closed.outcome.is_some();
        match &running.children {
            Some(children) if by_itself && children.until.is_some() => {
                let record = &running.record;
                let duration_seconds = seconds(children.since.elapsed());
                let event = Event::ChildrenEnded { attempt: record.attempt, duration_seconds };
                self.emit(Some((&record.task_id, record.iteration)), event)
            }
            _ => Ok(()),
        }
    }
}
