# Recipes for common commands. `just` without arguments lists them.

# This project builds its own `ralph`; in your project, write `ralph := "ralph"` here.
ralph := "cargo run --quiet --"

_default:
    @just --list

# Run the task graph: `just ralph`, `just ralph --once`, `just ralph -- my-agent`
ralph *ARGS:
    {{ralph}} run {{ARGS}}

# Show the next prompt; change nothing
prompt *ARGS:
    @{{ralph}} prompt {{ARGS}}

# Show the state of every task
dag-status *ARGS:
    @{{ralph}} dag-status {{ARGS}}

# Set a task to pending, with all its attempts
task-reset ID:
    {{ralph}} task-reset {{ID}}

# Validate the task graph
check *ARGS:
    @{{ralph}} check {{ARGS}}

# Run the demo, with a built-in agent
demo:
    cargo run --quiet -- demo

# Draw the demo as it is on a terminal: `docs/pictures/demo.svg`; needs tmux
demo-picture:
    cargo build --quiet --example terminal_picture --bin ralph
    tmux -L ralph-demo new -d -x 100 -y 36 "PATH=$PWD/target/debug:$PATH; ralph demo; tmux -L ralph-demo wait -S over; sleep 60"
    tmux -L ralph-demo wait over
    tmux -L ralph-demo capture-pane -epS - | sed -n '/tasks, 0 done/,/^The commits/p' | head -n -2 | target/debug/examples/terminal_picture > docs/pictures/demo.svg
    tmux -L ralph-demo kill-server

# Run the tests
test *ARGS:
    cargo test {{ARGS}}

# Run all tests, also the slow ones
test-all *ARGS:
    cargo test -- --include-ignored --skip measured {{ARGS}}

# Run the tests with another person's git settings, locale, time zone and temporary folder
test-hostile *ARGS:
    bash .ci/hostile cargo test {{ARGS}}

# Run the benchmarks; `--full` adds the long rows, `--before PROGRAM` an earlier ralph
bench *ARGS:
    cargo bench --bench ralph -- {{ARGS}}

# Drive the run's decisions through N random schedules, without processes
simulate N:
    RALPH_SIMULATIONS={{N}} cargo test --release --lib simulation -- --nocapture

# Kill runs N times at random moments, and check the result
torture N:
    RALPH_TORTURE_KILLS={{N}} cargo test --test it torture::no_kill -- --include-ignored --nocapture

# Kill runs N times while colliding work lands, and verify every position of the target branch
positions N:
    RALPH_TORTURE_KILLS={{N}} cargo test --test it torture::no_position -- --include-ignored --nocapture

# Kill runs at every passing of every crash point
crash-points:
    RALPH_CRASH_ALL=1 cargo test --test it points:: -- --include-ignored --nocapture

# Kill the processes of runs on each executor N times at random moments, and check the result
torture-executors N:
    RALPH_TORTURE_KILLS={{N}} cargo test --test it engines::runs_killed -- --include-ignored --nocapture

# Test executors on real clusters, containers and hosts, with the slow tests, and measure them
engines:
    RALPH_ENGINES=1 cargo test --test it engines:: -- --include-ignored --nocapture

# Switch on each known bug and check that its test fails: `just bugs`, `just bugs close-twice`
bugs *NAMES:
    RALPH_BUGS="{{ if NAMES == "" { "all" } else { NAMES } }}" cargo test --test it bugs:: -- --include-ignored --nocapture
