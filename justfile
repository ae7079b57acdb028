# What people type. `just` alone lists it.

# This project builds its own `ralph`; in yours, put `ralph := "ralph"` here.
ralph := "cargo run --quiet --"

_default:
    @just --list

# Work off the task graph: `just ralph`, `just ralph --once`, `just ralph -- my-agent`
ralph *ARGS:
    {{ralph}} run {{ARGS}}

# Show the next prompt, without touching anything
prompt *ARGS:
    @{{ralph}} prompt {{ARGS}}

# Show what is done, in progress, ready and blocked
dag-status *ARGS:
    @{{ralph}} dag-status {{ARGS}}

# Give a task back: pending, with all its attempts
task-reset ID:
    {{ralph}} task-reset {{ID}}

# Check the task graph
check *ARGS:
    @{{ralph}} check {{ARGS}}

# Watch it work, with a built-in agent
demo:
    cargo run --quiet -- demo

# Run the tests
test *ARGS:
    cargo test {{ARGS}}

# Measure it, each figure beside something that is known; `just bench --full` adds the long rows
bench *ARGS:
    cargo bench --bench ralph -- {{ARGS}}

# Kill it N times at random moments, and hold what is left against what must be
torture N:
    RALPH_TORTURE_KILLS={{N}} cargo test --test it torture -- --nocapture

# Kill it at every passing of every crash point
crash-points:
    RALPH_CRASH_ALL=1 cargo test --test it points:: -- --nocapture

# Put every known bug in, one at a time, and see its test catch it: `just bugs`, `just bugs close-twice`
bugs *NAMES:
    tests/bugs/run {{NAMES}}
