//! Graphs whose tasks collide: some conflict, some fail only together, some delete what others
//! edit. The agent is `collide`.

use std::{fmt::Write as _, fs};

use crate::support::{SETTINGS, TestProject};

/// The verify command: no two tasks are the first of a pair, and no work is there without the work
/// that it depends on. It passes before the stage is set.
pub const CHECK: &str = "[ ! -e check.sh ] || sh check.sh";

const SCRIPT: &str = "\
sleep 0.1
for name in $(ls first 2> /dev/null | sed 's/[.].*//' | sort -u); do
    [ \"$(cat first/$name.* | grep -c first)\" -le 1 ] || { echo \"$name: two are first\"; exit 1; }
done
while read -r task needs; do
    [ ! -e work/$task.txt ] || [ -e work/$needs.txt ] || { echo \"$task without $needs\"; exit 1; }
done < needs
";

/// The shape of a graph.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Chain,
    Diamonds,
    Wide,
    Random,
}

impl Shape {
    pub const ALL: [Shape; 4] = [Shape::Wide, Shape::Diamonds, Shape::Random, Shape::Chain];

    /// The tasks that a task depends on.
    fn needs(self, task: usize, roll: &mut impl FnMut(u64) -> u64) -> Vec<usize> {
        let mut earlier = || usize::try_from(roll(task as u64)).unwrap();
        match self {
            _ if task == 0 => Vec::new(),
            Shape::Chain => vec![task - 1],
            // The end of one diamond is the start of the next.
            Shape::Diamonds => match task % 4 {
                0 => vec![task - 3, task - 2, task - 1],
                step => vec![task - step],
            },
            Shape::Wide => Vec::new(),
            Shape::Random => {
                let mut needs = vec![earlier(), earlier()];
                needs.sort_unstable();
                needs.dedup();
                needs
            }
        }
    }
}

/// A repository in which tasks collide.
pub struct Workload {
    pub trial: TestProject,
    /// The graph once it is complete, without times.
    pub complete: String,
}

impl Workload {
    /// A graph of this shape, with random collisions; `form` is the setting `merge`.
    pub fn new(
        shape: Shape,
        tasks: usize,
        form: &str,
        roll: &mut impl FnMut(u64) -> u64,
    ) -> Workload {
        let needs: Vec<Vec<usize>> = (0..tasks).map(|task| shape.needs(task, roll)).collect();
        let verify = CHECK.replace('\'', "''");
        let settings = format!(
            "{SETTINGS}jobs: 4\nmerge: {form}\nmax_iterations: 10000\nverify: ['{verify}']\n"
        );
        let trial = TestProject::new().agent("collide");
        trial.hook("post-commit", "git rev-parse HEAD >> \"$TRIAL_DIR/made\"");
        let mut plan = String::new();
        for name in 0..tasks.div_ceil(3) {
            for (one, other) in [("append", "append"), ("first", "first"), ("delete", "edit")] {
                // Half of them are close to each other, where they are likely to run together.
                let task = roll(tasks as u64);
                let apart = 1 + if roll(2) == 0 { roll(3) } else { roll(tasks as u64) };
                for (task, action) in [(task, one), (task + apart, other)] {
                    writeln!(plan, "t{} {action} n{name}", task % tasks as u64).unwrap();
                }
            }
            trial.write(&format!("file/n{name}"), "one\ntwo\n");
        }
        fs::write(trial.sign("plan"), plan).unwrap();
        let all = needs.iter().enumerate();
        let pairs = all.flat_map(|(task, needs)| needs.iter().map(move |one| (task, one)));
        trial.write("needs", &pairs.map(|(a, b)| format!("t{a} t{b}\n")).collect::<String>());
        trial.write("check.sh", SCRIPT);
        trial.write(".ralph/config.yaml", &settings);
        trial.write("task-graph.yaml", &Workload::graph(&needs, "pending"));
        trial.git(&["add", "."]);
        trial.git(&["commit", "--quiet", "--message", "Set the stage"]);
        Workload { trial, complete: Workload::graph(&needs, "complete") }
    }

    fn graph(needs: &[Vec<usize>], status: &str) -> String {
        let task = |(task, needs): (usize, &Vec<usize>)| {
            let ids: Vec<String> = needs.iter().map(|one| format!("t{one}")).collect();
            let ids = ids.join(", ");
            format!(
                "  - id: t{task}\n    max_attempts: 50\n    depends_on: [{ids}]\n    status: {status}\n"
            )
        };
        format!("tasks:\n{}", needs.iter().enumerate().map(task).collect::<String>())
    }
}
