//! The schedule daemon: waits for scheduled times and starts runs.
//!
//! One thread receives all messages (signals, ends of runs, requests) from one channel and checks the
//! clock at least once per slice, so that it notices sleep of the machine and clock changes.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};

use super::{SchedulePlan, ScheduledRun, http_trigger};
use crate::{
    adapters::{
        process,
        service_manager::{self, NotifyState},
        signal,
        state::Lock,
        terminal,
    },
    cli,
    commands::background::exit_of,
    core::{
        duration,
        event::{GraphEvent, Hindrance, Hook, RunEvent, ScheduleEvent, Slept, WakeTrigger, Woken},
        exit::{Exit, fail},
        timetable::{Alarm, AlarmState, Due},
        verdict::Outcome,
    },
    project::{config::Config, event_store::EventStore, fatal, workspace::Workspace},
    runner::{HookOutcome, HookRun},
    view::{
        lines::{self, clock, schedule},
        message,
    },
};

/// The longest time between two checks of the clock.
const SLICE: Duration = Duration::from_secs(1);

/// How long the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Until a signal.
    Forever,
    /// For one run.
    Once,
    /// Until nothing is due.
    Due,
}

/// A message to the daemon.
enum ScheduleMessage {
    Signal(i32),
    Ended(io::Result<Outcome>),
    /// A request may have come.
    Requested,
}

/// The schedule daemon.
pub(super) struct ScheduleDaemon<'a> {
    workspace: Workspace,
    store: EventStore,
    plan: SchedulePlan,
    flags: &'a cli::ScheduleArgs,
    mode: Mode,
    alarm: Alarm,
    lock: Lock,
    inbox: Receiver<ScheduleMessage>,
    outbox: Sender<ScheduleMessage>,
    /// A queue of one: whether a requested run has not started yet.
    is_requested: Arc<AtomicBool>,
    running: Option<ScheduledRun>,
    /// The exit code and the duration of the last run, until they are recorded.
    ended: Option<(Exit, f64)>,
    /// The last printed state.
    shown: Option<AlarmState>,
    /// The signal that asked the daemon to end.
    signal: Option<i32>,
}

impl<'a> ScheduleDaemon<'a> {
    /// Takes the lock and continues where the last daemon stopped, unless a person stopped it. `None` if
    /// another one is waiting and the mode is [`Mode::Due`].
    ///
    /// # Errors
    /// Another daemon is waiting; the trigger does not start; errors of the disk.
    pub(super) fn begin(
        workspace: Workspace,
        plan: SchedulePlan,
        flags: &'a cli::ScheduleArgs,
        mode: Mode,
    ) -> Result<Option<ScheduleDaemon<'a>>> {
        workspace.check_logs()?;
        let lock = workspace.state.try_lock_schedule().context("take the lock of the schedule")?;
        let Some(lock) = lock else {
            if mode == Mode::Due {
                return Ok(None);
            }
            return fail(Exit::Running, held(&workspace)?);
        };
        let store = workspace.event_store()?;
        workspace.ignore_own_files()?;
        let (outbox, inbox) = mpsc::channel();
        let signals = outbox.clone();
        signal::listen(move |number| drop(signals.send(ScheduleMessage::Signal(number))))
            .context("listen for signals")?;
        let mut watch = ScheduleDaemon {
            alarm: Alarm::after(Utc::now()),
            is_requested: Arc::default(),
            workspace,
            store,
            plan,
            flags,
            mode,
            lock,
            inbox,
            outbox,
            running: None,
            ended: None,
            shown: None,
            signal: None,
        };
        watch.take_over();
        watch.open()?;
        Ok(Some(watch))
    }

    /// Continues where the last daemon stopped, if it waited for the same times.
    fn take_over(&mut self) {
        let Some(before) = &self.store.history().schedule else {
            return;
        };
        if before.slept.cron != self.plan.times.expressions()
            || before.slept.time_zone != self.zone()
        {
            return;
        }
        self.alarm = Alarm::after(before.seen_to);
        if self.mode == Mode::Due && before.slept.process.is_none() && !before.awake {
            self.shown = Some(AlarmState::Wait(before.slept.until));
        }
    }

    fn zone(&self) -> Option<String> {
        self.plan.zone.as_ref().map(|zone| zone.name().to_owned())
    }

    /// Waits and starts runs until there is a reason to end.
    ///
    /// # Errors
    /// An error that prevents continuing.
    pub(super) fn run(mut self) -> Result<Exit> {
        service_manager::tell(NotifyState::Ready);
        let result = self.turn();
        service_manager::tell(NotifyState::Stopping);
        if result.is_err() {
            self.give_up();
        }
        if self.mode == Mode::Due && self.signal.is_none() {
            return result;
        }
        let signal = self.signal.map(|number| signal::name(number).to_owned());
        let exit_code = self.ended.map(|(exit, _)| exit.code());
        let recorded =
            self.store.emit(None, None, ScheduleEvent::ScheduleEnded { signal, exit_code });
        let exit = result?;
        recorded?;
        Ok(exit)
    }

    /// Ends the current run, which would get no signals after this process exits.
    fn give_up(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        running.child.signal(signal::TERM);
        while let Ok(message) = self.inbox.recv() {
            match message {
                ScheduleMessage::Ended(_) => return,
                ScheduleMessage::Signal(number) => running.child.signal(number),
                ScheduleMessage::Requested => {}
            }
        }
    }

    fn turn(&mut self) -> Result<Exit> {
        loop {
            if let Some(exit) = self.over() {
                return Ok(exit);
            }
            self.refresh()?;
            let until = match self.plan.look(&mut self.alarm, Utc::now()) {
                AlarmState::Due(due) => {
                    self.wake(WakeTrigger::Cron, Some(due))?;
                    continue;
                }
                AlarmState::Wait(until) => until,
            };
            if self.running.is_none() {
                if self.is_requested.load(Ordering::SeqCst) {
                    self.wake(WakeTrigger::Webhook, None)?;
                    continue;
                }
                let ended = self.ended.map_or(Exit::Success, |(exit, _)| exit);
                if until.is_none() && (self.plan.trigger.is_none() || self.mode == Mode::Due) {
                    say("no further scheduled times");
                    return Ok(ended);
                }
                self.settle(until)?;
                if self.mode == Mode::Due {
                    return Ok(ended);
                }
            }
            self.feed();
            let left = until.map(|until| (until - Utc::now()).to_std().unwrap_or_default());
            match self.inbox.recv_timeout(left.unwrap_or(SLICE).min(SLICE)) {
                Ok(ScheduleMessage::Signal(number)) => self.signalled(number),
                Ok(ScheduleMessage::Ended(outcome)) => self.ended(outcome)?,
                Ok(ScheduleMessage::Requested) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the daemon holds a sender"),
            }
        }
    }

    /// The exit code, if no run is active and none will follow.
    fn over(&self) -> Option<Exit> {
        if self.running.is_some() {
            return None;
        }
        let ended = self.ended.map(|(exit, _)| exit);
        self.signal.map(Exit::Signal).or(ended.filter(|_| self.mode == Mode::Once))
    }

    /// Reloads changed settings between runs. Keeps the last valid settings if the new ones are invalid.
    fn refresh(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let config = match self.workspace.layers.refresh() {
            Ok(None) => return Ok(()),
            Ok(Some((config, _))) => Ok(config),
            Err(error) => Err(error),
        };
        let planned = config.and_then(|config: Config| {
            let plan = SchedulePlan::of(self.flags, &config)?;
            self.workspace.config = config;
            Ok(plan)
        });
        match planned {
            Ok(plan) if plan == self.plan => {}
            Ok(plan) => {
                if plan.trigger != self.plan.trigger {
                    say("the trigger has changed; restart `ralph schedule` to apply it");
                }
                if (&plan.times, &plan.zone) != (&self.plan.times, &self.plan.zone) {
                    self.alarm = Alarm::after(Utc::now());
                    self.shown = None;
                }
                self.plan = SchedulePlan { trigger: self.plan.trigger.take(), ..plan };
                let text = "settings changed: schedule".to_owned();
                self.store.emit(None, None, RunEvent::Noticed { text })?;
            }
            Err(error) => {
                let error = fatal::summary(&error);
                say(&format!("invalid settings, keeping the last valid ones: {error}"));
                self.store.emit(None, None, GraphEvent::FileRejected { error })?;
            }
        }
        Ok(())
    }

    /// Handles a scheduled time or a request.
    fn wake(&mut self, trigger: WakeTrigger, due: Option<Due>) -> Result<()> {
        self.store.catch_up()?;
        if trigger == WakeTrigger::Webhook {
            self.is_requested.store(false, Ordering::SeqCst);
        }
        let scheduled_for = due.map(|due| due.scheduled_for);
        let late = scheduled_for.map(|at| (Utc::now() - at).num_seconds());
        let skipped = if self.running.is_some() {
            Some(Hindrance::StillRunning)
        } else if self.store.history().paused {
            Some(Hindrance::Paused)
        } else if self.workspace.is_busy()? {
            Some(Hindrance::Busy)
        } else {
            None
        };
        let woken = Woken {
            trigger,
            scheduled_for,
            late_seconds: late.and_then(|late| u64::try_from(late).ok()).unwrap_or(0),
            missed: due.map_or(0, |due| due.missed),
            run: self.plan.run.clone(),
            skipped,
        };
        self.shown = None;
        let text = schedule::woken(&woken, |at| self.plan.shown(at));
        // An active run on this terminal reports a skipped one itself.
        if self.running.is_none() {
            say(&text);
        }
        if skipped.is_some() {
            self.store.emit(None, None, ScheduleEvent::Woken(woken))?;
            return Ok(());
        }
        let folder = self.workspace.state.schedule();
        if !self.lock.is_on(&folder) {
            return fail(
                Exit::Disk,
                "the lock of this schedule was removed, so another could be waiting too; \
                           restart it",
            );
        }
        self.woken(woken, &text)
    }

    /// Records a wake, runs its hooks and starts the run.
    fn woken(&mut self, woken: Woken, text: &str) -> Result<()> {
        let began = Instant::now();
        let emitted = self.store.emit(None, None, ScheduleEvent::Woken(woken))?;
        let message = || {
            let facts = emitted.own.fields();
            let hook = Hook::OnScheduledWake.word();
            message::MessageSender::of(&self.workspace).message(hook, facts, &[lines::plain(text)])
        };
        let (folder, lock) = (self.workspace.place.hooks(), self.lock.folder());
        let hook = HookRun::new(&self.workspace, Hook::OnScheduledWake, folder, message, lock)?;
        match hook.map_or(Ok(HookOutcome::Passed), |hook| hook.run(|| self.attend()))? {
            HookOutcome::Passed if self.signal.is_none() => {
                let outbox = self.outbox.clone();
                let ended = move |outcome| drop(outbox.send(ScheduleMessage::Ended(outcome)));
                self.running = Some(ScheduledRun::start(&self.workspace, &self.plan, ended)?);
            }
            HookOutcome::Passed | HookOutcome::Cancelled => {}
            HookOutcome::Failed(failed) => {
                say(&format!("{failed}; no run starts; the output is in {}", failed.check.log));
                self.store.emit(None, None, ScheduleEvent::HookFailed(failed))?;
                self.ended = Some((Exit::Error, duration::seconds(began.elapsed())));
            }
        }
        Ok(())
    }

    /// Handles messages while a hook runs. Returns whether the hook may continue.
    fn attend(&mut self) -> bool {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                ScheduleMessage::Signal(signal::SUSPEND) => signal::suspend(),
                ScheduleMessage::Signal(number) => drop(self.signal.get_or_insert(number)),
                ScheduleMessage::Ended(_) | ScheduleMessage::Requested => {}
            }
        }
        self.feed();
        self.signal.is_none()
    }

    /// Handles the end of a run.
    fn ended(&mut self, outcome: io::Result<Outcome>) -> Result<()> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        let exit = exit_of(&outcome.context("wait for `ralph run`")?);
        say(&schedule::run_ended(exit.code()));
        self.ended = Some((exit, duration::seconds(running.began.elapsed())));
        Ok(())
    }

    /// Records and prints a new wait.
    fn settle(&mut self, until: Option<DateTime<Utc>>) -> Result<()> {
        let wait = Some(AlarmState::Wait(until));
        if self.shown == wait && self.ended.is_none() {
            return Ok(());
        }
        self.shown = wait;
        let (exit, duration_seconds) = self.ended.take().unzip();
        let slept = Slept {
            until,
            cron: self.plan.times.expressions().to_vec(),
            time_zone: self.zone(),
            process: (self.mode != Mode::Due).then(process::own_identity),
            exit_code: exit.map(Exit::code),
            duration_seconds,
        };
        self.store.emit(None, None, ScheduleEvent::Slept(slept))?;
        let text = match until {
            Some(until) => {
                let left = (until - Utc::now()).to_std().unwrap_or_default();
                format!("next wake {}, in {}", self.plan.shown(until), duration::short(left))
            }
            None => schedule::waits_for_requests().to_owned(),
        };
        say(&text);
        service_manager::tell(NotifyState::Status(&text));
        Ok(())
    }

    /// Feeds the watchdog of the service manager, while waiting and while the run has a heartbeat.
    fn feed(&mut self) {
        let running = self.running.as_mut();
        let well = running.is_none_or(|running| running.is_well(&self.workspace));
        if well {
            service_manager::tell(NotifyState::Watchdog);
        }
    }

    /// Handles a signal. An active run gets it too, and is waited for.
    fn signalled(&mut self, number: i32) {
        if let Some(running) = &self.running {
            running.child.signal(number);
        }
        if number != signal::SUSPEND {
            self.signal.get_or_insert(number);
            return;
        }
        signal::suspend();
        if let Some(running) = &self.running {
            running.child.signal(signal::CONTINUE);
        }
    }

    /// Starts the HTTP trigger, if it is configured.
    fn open(&mut self) -> Result<()> {
        let Some(trigger) = self.plan.trigger.as_ref().filter(|_| self.mode != Mode::Due) else {
            return Ok(());
        };
        let (is_requested, outbox) = (Arc::clone(&self.is_requested), self.outbox.clone());
        let address = http_trigger::open(trigger, self.workspace.root(), move || {
            let has_room = !is_requested.swap(true, Ordering::SeqCst);
            if has_room {
                let _ = outbox.send(ScheduleMessage::Requested);
            }
            has_room
        })?;
        say(&format!("accepting requests at http://{address}{}", http_trigger::PATH));
        if !address.ip().is_loopback() {
            say("warning: other machines can reach this address, without encryption; put a proxy \
                 with TLS in front");
        }
        Ok(())
    }
}

fn say(text: &str) {
    terminal::say(&format!("{}  {}", clock(Utc::now()), terminal::visible(text)));
}

/// The message about another waiting daemon.
fn held(workspace: &Workspace) -> Result<String> {
    let store = workspace.event_store()?;
    let process = store.history().schedule.as_ref().and_then(|it| it.slept.process.as_ref());
    let who = process.filter(|process| process::is_alive(process));
    let who = who.map_or(String::new(), |process| format!(": process {}", process.pid));
    Ok(format!("another `ralph schedule` is waiting in this repository{who}"))
}
