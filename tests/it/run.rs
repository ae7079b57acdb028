//! `ralph run` from the first line to the last: order, journal, graph, git, filters, limits.

use std::fs;

use crate::support::{DIAMOND, Workspace, agent};

#[test]
fn a_diamond_is_worked_off_in_order() {
    let trial = Workspace::new().graph(DIAMOND).agent("commit");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r"
    exit code 0
    --- stderr ---
    [time]  4 tasks, 0 complete
    [time]  Iteration 1 of 50 · start · P2 · attempt 1
    [time]    Begin
    [time]  start complete in [took]: reported done, and committed
    [time]    [commit] Work on start
    [time]    1 file, +1 -0
    [time]    3 left (2 ready: right, left; 1 waiting)
    [time]  Iteration 2 of 50 · right · P1 · attempt 1
    [time]    The right half
    [time]  right complete in [took]: reported done, and committed
    [time]    [commit] Work on right
    [time]    1 file, +1 -0
    [time]    2 left (1 ready: left; 1 waiting)
    [time]  Iteration 3 of 50 · left · P3 · attempt 1
    [time]    The left half
    [time]  left complete in [took]: reported done, and committed
    [time]    [commit] Work on left
    [time]    1 file, +1 -0
    [time]    1 left (1 ready: end)
    [time]  Iteration 4 of 50 · end · P0 · attempt 1
    [time]    Put it together
    [time]  end complete in [took]: reported done, and committed
    [time]    [commit] Work on end
    [time]    1 file, +1 -0
    [time]    0 left
    [time]  complete (exit code 0)
    [time]  4 completed in 4 attempts, [took]; 4 of 4 done
    [time]    + start: [commit] Work on start
    [time]    + right: [commit] Work on right
    [time]    + left: [commit] Work on left
    [time]    + end: [commit] Work on end
    ");
    assert_eq!(trial.tasks("started"), ["start", "right", "left", "end"]);
    let subjects = ["start", "right", "left", "end"].map(|id| format!("Work on {id}"));
    assert_eq!(trial.subjects(), subjects);
    trial.nobody_is_left();
}
