//! The time that each engine takes to start a process, without anything of ralph: what an attempt at
//! an executor costs at least.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    container_engine::{ContainerTool, IMAGE},
    slurm_cluster::SlurmCluster,
    ssh_host::{ALIAS, SshHost},
};

/// The number of calls of each.
const CALLS: usize = 20;

/// Prints the median and the extremes of the time that a command takes.
fn measure(name: &str, mut command: impl FnMut() -> Command) {
    let mut times: Vec<Duration> = (0..=CALLS)
        .map(|_| {
            let began = Instant::now();
            let status = command().stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
            assert!(status.success(), "{name}");
            began.elapsed()
        })
        .skip(1)
        .collect();
    times.sort();
    let (least, middle, most) = (times[0], times[CALLS / 2], times[CALLS - 1]);
    println!("{name}: {} ms ({} to {})", middle.as_millis(), least.as_millis(), most.as_millis());
}

#[test]
#[ignore = "a measurement"]
fn the_time_to_start_a_process() {
    measure("true", || Command::new("true"));
    if let Some(host) = SshHost::start() {
        let settings = host.settings();
        measure("ssh HOST true", || {
            let mut command = Command::new("ssh");
            command.args(&settings.args).args([ALIAS, "true"]);
            command
        });
    }
    if let Some(cluster) = SlurmCluster::start() {
        measure("srun true", || {
            let mut command = cluster.client("srun");
            command.args(["--quiet", "true"]);
            command
        });
    }
    if let Some(tool) = ContainerTool::find() {
        measure("podman run IMAGE true", || {
            let mut command = Command::new(&tool.program);
            command.args(["run", "--rm", "--interactive", "--network=none", IMAGE, "true"]);
            command
        });
    }
}
