//! A real graph, if the file is available.

use std::{fs, path::Path};

use crate::support::TestProject;

const GRAPH: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/graphs/solar-sim.task-graph.yaml");

#[test]
fn a_real_graph_is_worked_off_with_only_its_statuses_changed() {
    if !Path::new(GRAPH).exists() {
        println!("skipped: {GRAPH} is not here");
        return;
    }
    let text = fs::read_to_string(GRAPH).unwrap();
    // As it is, with most tasks complete, and with all tasks pending.
    for text in [text.clone(), text.replace("status: complete", "status: ready")] {
        work_off(&text);
    }
}

fn work_off(text: &str) {
    let trial = TestProject::new().graph(text).agent("produce");
    trial.run(["check"]);
    trial.run(["run", "-q", "--max-iterations", "200"]).graph_complete();
    let ours = |line: &str| {
        let line = line.trim_start();
        ["status:", "completed_at:"].iter().any(|field| line.starts_with(field))
    };
    let others = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !ours(line)).map(str::to_owned).collect()
    };
    assert_eq!(others(&trial.graph_text()), others(text));
    trial.run(["run"]).graph_complete();
    trial.no_process_is_left();
}
