//! A graph in the shape that planners write.

use std::fs;

use crate::support::TestProject;

#[test]
fn only_the_statuses_of_a_graph_change() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graphs/edges.yaml");
    let text = fs::read_to_string(path).unwrap();
    // As it is, and with all tasks pending.
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
