//! A Slurm cluster: the fate of a job, and its end. Needs no accounting.

use std::{
    env, thread,
    time::{Duration, Instant},
};

use super::{LIMIT, ask, words};
use crate::core::executor::{JOB_PREFIX, JobState, JobTracking, SlurmSettings, job_name};

/// The variables that select the cluster, and that every program of Slurm needs.
const KEPT: [&str; 3] = ["SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"];

/// Returns where the newest job of an attempt stands. A question that is not answered gives
/// [`JobState::Unknown`].
pub fn look(settings: &SlurmSettings, mark: &str) -> JobState {
    let mut argv = words(["squeue", "--noheader", "--states=all"]);
    argv.push(format!("--name={}", job_name(mark)));
    argv.push(format!("--format={}", JobState::FORMAT));
    argv.extend(cluster(settings));
    match ask(&argv, LIMIT) {
        Ok(answer) if answer.is_good() => JobState::of(&answer.output),
        Ok(answer) => JobState::Unknown(answer.why()),
        Err(error) => JobState::Unknown(format!("squeue: {error}")),
    }
}

/// Returns how the cluster finds the processes of a job. Without an answer, it may find only some.
pub fn tracking(settings: &SlurmSettings) -> JobTracking {
    let mut argv = words(["scontrol", "show", "config"]);
    argv.extend(cluster(settings));
    match ask(&argv, LIMIT) {
        Ok(answer) if answer.is_good() => JobTracking::of(&answer.output),
        Ok(_) | Err(_) => JobTracking::Partial,
    }
}

/// Cancels every job of an attempt, pending ones too. Only [`look`] proves that they have ended.
///
/// # Errors
/// The cluster did not take the order.
pub fn cancel(settings: &SlurmSettings, mark: &str) -> Result<(), String> {
    let mut argv = words(["scancel", "--quiet"]);
    argv.push(format!("--name={}", job_name(mark)));
    argv.extend(cluster(settings));
    match ask(&argv, LIMIT) {
        Ok(answer) if answer.is_good() => Ok(()),
        Ok(answer) => Err(answer.why()),
        Err(error) => Err(format!("scancel: {error}")),
    }
}

/// Cancels the jobs of a run whose attempts have ended: a controller that was away may never learn
/// that their processes have. `open` are the marks of those that have not.
///
/// # Errors
/// The cluster does not answer, or did not take the order.
pub fn cancel_left(settings: &SlurmSettings, run_id: &str, open: &[String]) -> Result<(), String> {
    let mut argv = words(["squeue", "--me", "--noheader", "--format=%j"]);
    argv.extend(cluster(settings));
    let answer = ask(&argv, LIMIT).map_err(|error| format!("squeue: {error}"))?;
    if !answer.is_good() {
        return Err(answer.why());
    }
    let marks = answer.output.lines().filter_map(|name| name.trim().strip_prefix(JOB_PREFIX));
    let is_left = |mark: &&str| {
        let is_its = mark.strip_prefix(run_id).is_some_and(|rest| rest.starts_with('.'));
        is_its && !open.iter().any(|open| open == mark)
    };
    marks.filter(is_left).try_for_each(|mark| cancel(settings, mark))
}

/// The time for a cluster to record the end of a job whose `srun` has ended, or a cancellation.
const NOTED: Duration = Duration::from_secs(5);
/// The time between two questions about it.
const PAUSE: Duration = Duration::from_millis(200);

/// Returns where the job of an attempt stands whose `srun` has ended, and cancels it unless it is
/// certain that it has ended, and whether it is certain now.
pub fn end(settings: &SlurmSettings, mark: &str) -> (JobState, bool) {
    let noted = || {
        let began = Instant::now();
        loop {
            let state = look(settings, mark);
            // Slurm reports `running` while it ends the processes.
            if !matches!(state, JobState::Running { .. }) || began.elapsed() >= NOTED {
                return state;
            }
            thread::sleep(PAUSE);
        }
    };
    let state = noted();
    let is_proof = |state: &JobState| state.is_proof_of_end(tracking(settings));
    if is_proof(&state) {
        return (state, true);
    }
    let _ = cancel(settings, mark);
    // The cluster has canceled nothing, or an unstarted job.
    let is_certain = match &state {
        JobState::Absent | JobState::Pending { .. } => true,
        // The cluster does not know the processes there.
        JobState::Ended(_) => false,
        JobState::Running { .. } | JobState::Unknown(_) => is_proof(&noted()),
    };
    (state, is_certain)
}

/// The names of the variables that would make `srun` start a step of the job that this process runs
/// in, with the size of that job, instead of a job of its own.
pub fn job_variables() -> Vec<String> {
    if env::var_os("SLURM_JOB_ID").is_none() && env::var_os("SLURM_JOBID").is_none() {
        return Vec::new();
    }
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with("SLURM_") && !KEPT.contains(&name.as_str())).collect()
}

/// The arguments that select another cluster than the default one.
fn cluster(settings: &SlurmSettings) -> Vec<String> {
    let mut found = Vec::new();
    let mut args = settings.args.iter();
    while let Some(arg) = args.next() {
        if arg == "-M" || arg == "--clusters" {
            found.extend([arg.clone()].into_iter().chain(args.next().cloned()));
        } else if arg.starts_with("-M") || arg.starts_with("--clusters=") {
            found.push(arg.clone());
        }
    }
    found
}
