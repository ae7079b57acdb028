//! The state of a job on a Slurm cluster, as the cluster reports it.

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits for this reason, a word of Slurm.
    Pending {
        /// The reason.
        reason: String,
    },
    /// It runs on this node, or its processes there are being ended.
    Running {
        /// The node.
        node: String,
    },
    /// It has ended.
    Ended(JobEnd),
    /// The cluster has no such job: it has not got it yet, or has forgotten it, as it does minutes
    /// after the end.
    Absent,
    /// The state is unknown, for this reason. Nothing follows from that.
    Unknown(String),
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// Its processes ended by themselves, with any exit code.
    Exited,
    /// The cluster lost its node. Its processes may still run there.
    NodeFail,
    /// It had to make room for another job.
    Preempted,
    /// It reached its time limit.
    Timeout,
    /// A person or a program canceled it.
    Cancelled,
    /// It used more memory than it had asked for.
    OutOfMemory,
    /// This other word of Slurm.
    Other(String),
}

/// How a cluster finds the processes of a job that it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobTracking {
    /// By its control group, which no process leaves.
    Cgroup,
    /// By process groups, parents, or in a way that is not known. A process that was left by its
    /// parent stays.
    Partial,
}

impl JobTracking {
    /// Reads the output of `scontrol show config`.
    pub fn of(config: &str) -> JobTracking {
        let mut lines = config.lines().filter_map(|line| line.split_once('='));
        match lines.find(|(name, _)| name.trim() == "ProctrackType") {
            Some((_, kind)) if kind.trim() == "proctrack/cgroup" => JobTracking::Cgroup,
            _ => JobTracking::Partial,
        }
    }
}

impl JobState {
    /// The format of `squeue` that [`JobState::of`] reads. The reason is last because it may
    /// contain anything.
    pub const FORMAT: &str = "%i|%T|%N|%r";

    /// Reads the output of `squeue --noheader --states=all` for one name of a job. The newest job
    /// counts.
    pub fn of(listed: &str) -> JobState {
        let newest = listed
            .lines()
            .filter_map(|line| {
                let mut parts = line.trim().splitn(4, '|');
                let id: u64 = parts.next()?.parse().ok()?;
                Some((id, parts.next()?, parts.next()?, parts.next()?))
            })
            .max_by_key(|(id, ..)| *id);
        match newest {
            Some((_, state, node, reason)) => JobState::of_words(state, node, reason),
            None if listed.lines().all(is_heading) => JobState::Absent,
            None => JobState::Unknown("its answer cannot be read".to_owned()),
        }
    }

    fn of_words(state: &str, node: &str, reason: &str) -> JobState {
        JobState::Ended(match state {
            "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" => {
                return JobState::Pending { reason: reason.to_owned() };
            }
            "RUNNING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "STAGE_OUT"
            | "RESIZING" => return JobState::Running { node: node.to_owned() },
            "COMPLETED" | "FAILED" => JobEnd::Exited,
            "NODE_FAIL" | "BOOT_FAIL" => JobEnd::NodeFail,
            "PREEMPTED" => JobEnd::Preempted,
            "TIMEOUT" | "DEADLINE" => JobEnd::Timeout,
            "CANCELLED" | "REVOKED" => JobEnd::Cancelled,
            "OUT_OF_MEMORY" => JobEnd::OutOfMemory,
            other => JobEnd::Other(other.to_owned()),
        })
    }

    /// Whether the cluster has ended it, or lost it.
    pub fn was_ended(&self) -> bool {
        match self {
            JobState::Ended(end) => match end {
                JobEnd::Exited | JobEnd::Other(_) => false,
                JobEnd::Preempted
                | JobEnd::Timeout
                | JobEnd::Cancelled
                | JobEnd::OutOfMemory
                | JobEnd::NodeFail => true,
            },
            JobState::Pending { .. }
            | JobState::Running { .. }
            | JobState::Absent
            | JobState::Unknown(_) => false,
        }
    }

    /// Whether it is certain that none of the job's processes runs any more.
    pub fn is_proof_of_end(&self, tracking: JobTracking) -> bool {
        match self {
            JobState::Ended(end) => match end {
                JobEnd::Exited
                | JobEnd::Preempted
                | JobEnd::Timeout
                | JobEnd::Cancelled
                | JobEnd::OutOfMemory => tracking == JobTracking::Cgroup,
                JobEnd::NodeFail | JobEnd::Other(_) => false,
            },
            JobState::Pending { .. }
            | JobState::Running { .. }
            | JobState::Absent
            | JobState::Unknown(_) => false,
        }
    }

    /// Says it for people: "its job …".
    pub fn describe(&self) -> String {
        match self {
            JobState::Pending { reason } => match hopeless(reason) {
                Some(why) => format!("its job waits and will not start: {why} ({reason})"),
                None => format!("its job waits in the queue ({reason})"),
            },
            JobState::Running { node } => format!("its job runs on {node}"),
            JobState::Ended(end) => match end {
                JobEnd::Exited => "its job ended".to_owned(),
                JobEnd::NodeFail => "the cluster lost the node of its job".to_owned(),
                JobEnd::Preempted => "its job was preempted".to_owned(),
                JobEnd::Timeout => "its job reached the time limit of the cluster".to_owned(),
                JobEnd::Cancelled => "its job was canceled".to_owned(),
                JobEnd::OutOfMemory => {
                    "its job used more memory than it asked for; raise `mem` in `resources`"
                        .to_owned()
                }
                JobEnd::Other(word) => format!("its job ended ({word})"),
            },
            JobState::Absent => "the cluster has no job of it".to_owned(),
            JobState::Unknown(why) => {
                format!("the cluster does not tell what became of its job: {why}")
            }
        }
    }
}

/// Whether a line is no row of the list: `squeue --clusters` puts the name of a cluster on top.
fn is_heading(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with("CLUSTER:")
}

/// Says why a job that waits for this reason does not start without a person.
fn hopeless(reason: &str) -> Option<&'static str> {
    Some(match reason.split([',', ' ']).next().unwrap_or_default() {
        "PartitionConfig" | "PartitionNodeLimit" | "PartitionTimeLimit" | "BadConstraints" => {
            "no node of its partition has what it asks for"
        }
        "JobHeldUser" | "JobHeldAdmin" => "it is held",
        "PartitionDown" | "PartitionInactive" => "its partition takes no jobs now",
        "InvalidAccount" | "InvalidQOS" => "its account or its quality of service is not valid",
        "DependencyNeverSatisfied" => "what it depends on did not succeed",
        _ => return None,
    })
}

/// Returns why `srun` can never start the job, with the remedy, from its errors; none if the
/// cluster may take the job later.
pub fn slurm_refusal(errors: &str) -> Option<String> {
    const REFUSALS: [(&str, &str); 5] = [
        ("Invalid partition name", "correct `partition`"),
        ("Invalid account", "correct the account in `resources` or `args`"),
        ("Invalid qos", "correct `qos` in `resources` or `args`"),
        ("Requested node configuration is not available", "correct `resources`"),
        ("More processors requested than permitted", "correct `resources`"),
    ];
    let lines = errors.lines().filter(|line| line.starts_with("srun: "));
    let mut found = lines.filter_map(|line| {
        let (_, cure) = REFUSALS.iter().find(|(words, _)| line.contains(words))?;
        Some(format!(
            "`srun` refuses it: {}; {cure}",
            line.rsplit("error: ").next().unwrap_or(line)
        ))
    });
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_the_cluster_never_takes_is_told_from_one_that_it_may_take_later() {
        let said = "srun: error: invalid partition specified: far\n\
                    srun: error: Unable to allocate resources: Invalid partition name specified\n";
        assert_eq!(
            slurm_refusal(said).unwrap(),
            "`srun` refuses it: Unable to allocate resources: Invalid partition name specified; \
             correct `partition`"
        );
        for passing in [
            "srun: error: Unable to contact slurm controller (connect failure)",
            "sh: Invalid partition name",
            "",
        ] {
            assert_eq!(slurm_refusal(passing), None, "{passing}");
        }
    }

    #[test]
    fn the_newest_job_counts() {
        let listed = "9|COMPLETED|n1|None\n12|RUNNING|n2|None\n10|PENDING||Priority\n";
        assert_eq!(JobState::of(listed), JobState::Running { node: "n2".to_owned() });
        assert_eq!(JobState::of("CLUSTER: far\n3|PREEMPTED|n1|None"), ended(JobEnd::Preempted));
    }

    fn ended(end: JobEnd) -> JobState {
        JobState::Ended(end)
    }

    #[test]
    fn only_an_empty_list_means_that_there_is_no_job() {
        assert_eq!(JobState::of(""), JobState::Absent);
        assert_eq!(JobState::of("CLUSTER: far\n"), JobState::Absent);
        for odd in ["slurm_load_jobs error", "|||", "12|RUNNING"] {
            assert!(matches!(JobState::of(odd), JobState::Unknown(_)), "{odd}");
        }
    }

    #[test]
    fn a_lost_node_is_no_proof_that_processes_have_ended() {
        for (word, proof) in [
            ("COMPLETED", true),
            ("FAILED", true),
            ("CANCELLED", true),
            ("TIMEOUT", true),
            ("PREEMPTED", true),
            ("OUT_OF_MEMORY", true),
            ("NODE_FAIL", false),
            ("COMPLETING", false),
            ("PENDING", false),
            ("LAUNCHED_TO_MARS", false),
        ] {
            let state = JobState::of(&format!("1|{word}|n1|None"));
            assert_eq!(state.is_proof_of_end(JobTracking::Cgroup), proof, "{word}");
            assert!(!state.is_proof_of_end(JobTracking::Partial), "{word}");
        }
    }

    #[test]
    fn only_cgroups_find_every_process() {
        let told = |kind: &str| {
            JobTracking::of(&format!("PrologFlags             = (null)\n{kind}\nRebootProgram = x"))
        };
        assert_eq!(told("ProctrackType           = proctrack/cgroup"), JobTracking::Cgroup);
        assert_eq!(told("ProctrackType           = proctrack/pgid"), JobTracking::Partial);
        assert_eq!(told(""), JobTracking::Partial);
    }

    #[test]
    fn a_job_that_cannot_start_is_told_from_one_that_waits_its_turn() {
        let told = |reason: &str| JobState::Pending { reason: reason.to_owned() }.describe();
        assert!(told("PartitionConfig").contains("will not start"));
        assert!(!told("Priority").contains("will not start"));
        assert!(!told("ReqNodeNotAvail, UnavailableNodes:n2").contains("will not start"));
    }
}
