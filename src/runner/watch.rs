//! Events of the processes of attempts: their ends, their signs of life, the processes they leave.

use std::{
    collections::{HashMap, HashSet},
    iter,
    time::Duration,
};

use anyhow::{Result, ensure};

use super::{
    Runner,
    processes::Progress,
    reach::{ClosedProcess, EngineWord},
};
use crate::{
    adapters::{
        agent_output,
        process::{self, AgentProcess, Closed, Member, StartFault},
        terminal,
    },
    core::{
        event::{ChildEnded, ChildOutcome, ChildrenLeft, Event},
        failure_line,
        history::OpenChild,
        run::{
            command::{AttemptId, ProcessEnd},
            input::Input,
        },
        verdict::Outcome,
    },
    project::attempt::{self, AttemptRecord},
};

impl Runner {
    /// Ends the processes that a killed guardian could not. Returns their names, and how many could
    /// not be killed.
    pub(super) fn end_unguarded(&self, record: &AttemptRecord) -> (Vec<String>, usize) {
        let mut ended = record.end_all(&self.workspace);
        let others =
            !self.processes.is_empty() || self.slots.is_preparing() || self.asked_engines > 0;
        if others || self.run.landing().is_trying() || self.processes.has_spared() {
            return (ended, 0);
        }
        // All processes that it guarded are now our children, marked or not, and no git of ours
        // runs here.
        let (swept, immortal) = process::sweep(None);
        ended.extend(swept.into_iter().map(|member| member.name));
        (ended, immortal)
    }

    /// Handles the end of the process of an attempt.
    pub(super) fn process_closed(
        &mut self,
        id: &AttemptId,
        mut closed: Closed,
    ) -> Result<Option<Input>> {
        let (Some(handle), Some(record)) = (self.processes.remove(id), self.records.get(id)) else {
            return Ok(None);
        };
        let record = record.clone();
        if closed.outcome.is_none() {
            (closed.swept, closed.immortal) = self.end_unguarded(&record);
        } else {
            self.forget_guardian(id)?;
        }
        // No attempt may start while processes of the previous one remain.
        ensure!(
            closed.immortal == 0,
            "processes of attempt {} at `{}` could not be killed ({}); inspect them with `ps`, then run again",
            id.attempt,
            id.task_id,
            closed.immortal,
        );
        if closed.outcome.is_none() && self.fetches_after_loss(id, &handle, &record) {
            let asked = self.fetch_work(id, Duration::ZERO);
            return Ok(asked.map(|_| Input::ProcessFetching(id.clone())));
        }
        if handle.fetches {
            self.take_fetched(id, &record, &mut closed)?;
        }
        let way = handle.on_its_way.as_ref();
        let ended = ClosedProcess {
            closed,
            head: handle.head(),
            has_arrived: way.is_none(),
            was_queued: way.is_some_and(|way| way.awaits.is_some()),
            log: handle.log,
        };
        Ok(Some(self.ask_engine(id, &record, ended)))
    }

    /// Removes the guardian from the record of an attempt whose process has ended: from now on, what
    /// runs below it may be of another attempt.
    fn forget_guardian(&mut self, id: &AttemptId) -> Result<()> {
        let Some(record) = self.records.get_mut(id).filter(|it| it.guardian.is_some()) else {
            return Ok(());
        };
        record.guardian = None;
        record.note_process(&self.workspace)
    }

    /// Handles the end of a process, once its engine has told what it knows.
    pub(super) fn process_settled(
        &self,
        id: &AttemptId,
        ended: ClosedProcess,
        word: Option<&EngineWord>,
    ) -> Input {
        if let Some((run_on, fault)) = self.missed_why(id, &ended, word) {
            return Input::Unreachable { id: id.clone(), run_on, fault };
        }
        let ClosedProcess { closed, head, log, .. } = ended;
        let is_agent = log.is_none();
        let log = log.unwrap_or_default();
        let is_green = closed.outcome == Some(Outcome::Exited { exit_code: 0 });
        let last_line = (!log.is_empty()).then(|| self.workspace.root().join(&log));
        let last_line = last_line.and_then(|log| {
            if is_green {
                agent_output::last_line(&log)
            } else {
                failure_line::of(&terminal::plain(&agent_output::failure(&log)))
            }
        });
        let is_missing = closed.fault == Some(StartFault::Program);
        let end = ProcessEnd {
            outcome: closed.outcome,
            took: Duration::ZERO,
            swept: closed.swept,
            log,
            last_line,
            head,
            no_program: is_agent && is_missing,
        };
        Input::ProcessEnded(id.clone(), Box::new(end))
    }

    /// Handles a report that a process is idle. A file that has changed since the last check is a
    /// sign of life.
    pub(super) fn process_idle(&mut self, id: &AttemptId) -> Option<Input> {
        let record = self.records.get(id)?;
        // A missing or damaged slot shows no signs of life.
        let seen = record
            .tree(&self.workspace)
            .and_then(|tree| Ok((tree.head()?.commit, attempt::changed(&self.workspace, &tree)?)));
        let handle = self.processes.get_mut(id)?;
        let changed = seen.ok().filter(|seen| handle.seen != *seen);
        let is_changed = changed.is_some();
        if let Some(seen) = changed {
            handle.seen = seen;
        }
        Some(Input::ProcessIdle(id.clone(), is_changed))
    }

    /// Handles the end of an agent that left these processes running, or a change in that list.
    pub(super) fn process_left(
        &mut self,
        id: &AttemptId,
        members: &[Member],
    ) -> Result<Option<Input>> {
        // A report made just before must be taken into account.
        let records = self.store.catch_up()?;
        self.publish(&records);
        let Some(record) = self.records.get(id) else {
            return Ok(None);
        };
        let left = ChildrenLeft {
            attempt: id.attempt,
            children: named(members, &self.store.history().children),
            limit_seconds: self.workspace.config.child_wait_timeout.as_secs_f64(),
        };
        let reported = self.report(record, None).is_some();
        Ok(Some(Input::ProcessLeft { id: id.clone(), left, reported }))
    }

    /// Records the end of child agents that died without a record by their `ralph spawn`: those of
    /// an attempt that is being closed, or all.
    pub(super) fn close_children(&mut self, of: Option<&AttemptId>) -> Result<()> {
        let ours = |open: &&OpenChild| {
            of.is_none_or(|of| of.task_id == open.task_id && of.attempt == open.child.attempt)
        };
        let children = self.store.history().children.iter().filter(ours);
        let gone = children.filter(|open| !process::is_alive(&open.child.process));
        for OpenChild { task_id, child, .. } in gone.cloned().collect::<Vec<_>>() {
            let outcome = ChildOutcome::Crashed;
            let ended = ChildEnded { child, outcome, duration_seconds: None };
            let records = self.store.emit(None, Some(&task_id), Event::ChildEnded(ended))?;
            self.publish(&records);
        }
        Ok(())
    }

    /// Reads the new output of processes, and passes their activity to the reporters.
    pub(super) fn follow(&mut self) -> Result<()> {
        self.ask_executors();
        for progress in self.processes.follow() {
            if let Some(doing) = &progress.doing {
                for reporter in &mut self.reporters {
                    reporter.doing(&progress.id.task_id, doing);
                }
            }
            self.follow_report(&progress)?;
            if progress.is_result_new {
                self.handle(Input::FinalResult(progress.id, progress.result))?;
            }
        }
        Ok(())
    }

    /// Whether a file with which an agent can report has changed, and the report is not known.
    pub(super) fn has_report_news(&self) -> bool {
        self.processes.waiting().any(|(id, handle)| {
            self.records.get(id).is_some_and(|record| {
                attempt::done_file(&self.workspace, &id.task_id).is_file()
                    || match record.slot {
                        None => self.graph.file.has_changed(),
                        Some(_) => self.own_graph_stamp(record) != handle.graph,
                    }
            })
        })
    }

    /// Notices that an agent has reported completion, in any way, or is active after that.
    fn follow_report(&mut self, progress: &Progress) -> Result<()> {
        let (id, is_active) = (&progress.id, progress.typed && progress.doing.is_some());
        let (Some(record), Some(handle)) = (self.records.get(id), self.processes.get(id)) else {
            return Ok(());
        };
        let is_agent = handle.log.is_none();
        if !is_agent || (handle.reported && !is_active) {
            return Ok(());
        }
        let (was, stamp) = (handle.reported, self.own_graph_stamp(record));
        let status = match &record.slot {
            None => self.status_now(&id.task_id),
            Some(_) if stamp == handle.graph => None,
            Some(_) => self.own_graph_status(record),
        };
        let active = self.store.history().active.of(&id.task_id);
        let by_command = active.is_some_and(|active| active.reported);
        let reported =
            was || attempt::report(&self.workspace, record, by_command, status).is_some();
        if let Some(handle) = self.processes.get_mut(id) {
            (handle.reported, handle.graph) = (reported, stamp);
        }
        if reported { self.handle(Input::Reported(id.clone())) } else { Ok(()) }
    }

    /// Freezes or thaws every process.
    pub(super) fn freeze(&self, still: bool) {
        self.processes.order_all(if still { AgentProcess::freeze } else { AgentProcess::thaw });
    }
}

/// Returns the names of processes for people: a child agent, named by its command line, run and
/// process, stands for its ancestors and descendants.
fn named(members: &[Member], children: &[OpenChild]) -> Vec<String> {
    let agents: HashMap<u32, &OpenChild> =
        children.iter().map(|open| (open.child.process.pid, open)).collect();
    let parents: HashMap<u32, u32> = members.iter().map(|m| (m.pid, m.parent)).collect();
    // The processes were read one after the other, so a reused pid may form a cycle. The limit
    // prevents an endless walk.
    let above = |pid: u32| {
        let up = iter::successors(parents.get(&pid), |pid| parents.get(pid));
        up.take(members.len()).copied()
    };
    let of_agents = members.iter().filter(|member| agents.contains_key(&member.pid));
    let ancestors: HashSet<u32> = of_agents.flat_map(|member| above(member.pid)).collect();
    let name = |member: &Member| match agents.get(&member.pid) {
        Some(open) => Some(open.child.label()),
        None if ancestors.contains(&member.pid) => None,
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
    fn a_child_agent_replaces_its_ancestors_and_descendants() {
        let child = |pid, word: &str| OpenChild {
            task_id: TaskId::new("a").unwrap(),
            since: DateTime::UNIX_EPOCH,
            child: ChildAgent {
                child_run_id: format!("r{pid}"),
                parent_run_id: String::new(),
                attempt: 1,
                argv: vec!["bin/worker".to_owned(), word.to_owned()],
                process: Identity { boot_id: String::new(), pid, start_time: 0, pid_namespace: 0 },
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
        assert_eq!(
            named(&members, &children),
            ["worker one [run r12, process 12]", "worker two [run r15, process 15]", "make", "cc"]
        );
        assert_eq!(named(&members[..2], &[]), ["sh", "ralph"]);
    }
}
