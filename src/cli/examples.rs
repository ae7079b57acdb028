//! Examples for every command, shown below its flags. A test parses each of them.

/// The examples of each command.
pub(super) const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "init",
        &[
            ("ralph init", "ask, show the choices, and write the files"),
            ("ralph init --yes", "accept all defaults"),
            ("ralph init --dry-run", "show what `--yes` would write"),
            ("ralph init --global", "the user settings, for all projects"),
            ("ralph init --prompt", "PROMPT.md, for a loop without a graph"),
        ],
    ),
    (
        "template",
        &[
            ("ralph template", "the prompt for a task"),
            ("ralph template prompt > BUILD_PROMPT.md", "the prompt for a loop"),
            ("ralph template draft", "the prompt of `ralph draft`"),
            ("ralph template just >> justfile", "recipes for just"),
        ],
    ),
    (
        "draft",
        &[
            ("ralph draft PRD.md", "tasks from a document"),
            ("ralph draft --extend \"Add a dark theme\"", "more tasks, from one sentence"),
            ("ralph draft --split parser", "smaller tasks in place of one"),
            ("gh issue view 12 | ralph draft --extend --yes -", "without a question"),
            ("ralph draft TODO.md --max-cost 2 --agent codex", "with another agent"),
        ],
    ),
    (
        "run",
        &[
            ("ralph run", "the whole graph"),
            ("ralph run --once", "one attempt, to try it"),
            ("ralph run --milestone M1 --max-cost 20", "a part of the graph, for at most $20"),
            ("ralph run --agent codex", "with another agent"),
            ("ralph run -- ./my-agent.sh --fast", "with any command as agent"),
            ("ralph run --dry-run", "show the order of tasks"),
            (
                "ralph run --tmux -- claude --dangerously-skip-permissions",
                "each agent in a tmux window",
            ),
        ],
    ),
    (
        "loop",
        &[
            ("ralph loop --prompt-file PROMPT.md --max-iterations 40 -- claude -p", ""),
            (
                "ralph loop --prompt-file PROMPT.md --max-iterations 9 --done-pattern \"No tasks left\"",
                "",
            ),
            ("ralph loop --name docs --prompt-file docs.md --max-iterations 9 --agent codex", ""),
        ],
    ),
    ("ls", &[("ralph ls", ""), ("ralph ls --json | jq -r '.[].name'", "names only")]),
    (
        "prompt",
        &[
            ("ralph prompt", "the prompt of the next attempt"),
            ("ralph prompt --why", "why this task is next"),
            ("ralph prompt parser --accept | claude -p", "work on a task by hand"),
        ],
    ),
    (
        "plan",
        &[
            ("ralph plan", "the duration for 1, 2, 4, … jobs"),
            ("ralph plan --milestone M1 --jobs 3", "a part of the graph, with three jobs"),
        ],
    ),
    (
        "dag-status",
        &[
            ("ralph dag-status", "the state of every task"),
            ("ralph dag-status --watch", "the same, redrawn during a run"),
            ("ralph dag-status --json | jq .counts", "counts only"),
        ],
    ),
    (
        "graph",
        &[
            ("ralph graph", "what is left, as a tree"),
            ("ralph graph --all --milestone M1", "a part of it, with what is done"),
            ("ralph graph --format svg > graph.svg", "an image"),
            ("ralph graph --format svg --fold complete,story > graph.svg", "a smaller one"),
            ("ralph graph --format dot | dot -Tpdf > graph.pdf", "for Graphviz"),
            ("ralph graph --format mermaid", "for a Markdown page"),
        ],
    ),
    (
        "serve",
        &[
            ("ralph serve --open", "the page of this repository, in the browser"),
            ("ralph serve --port 8080", "on another port"),
            ("ralph run --serve", "a run with its page"),
        ],
    ),
    (
        "task-add",
        &[
            ("ralph task-add \"Write the parser\" --verify \"cargo test parser\"", ""),
            ("ralph task-add \"Document it\" --after write-the-parser --tag docs", ""),
            ("ralph task-add \"Port the tests\" --description - --json < notes.md", ""),
        ],
    ),
    (
        "task-edit",
        &[
            ("ralph task-edit parser", "in an editor"),
            ("ralph task-edit parser --priority P0 --after lexer", ""),
            ("ralph task-edit parser --set timeout=30m --unset story", "any field"),
        ],
    ),
    (
        "task-show",
        &[
            ("ralph task-show parser", ""),
            ("ralph task-show parser --json | jq .depends_on", "for programs"),
        ],
    ),
    (
        "task-move",
        &[
            ("ralph task-move parser --first", "before other tasks of its priority"),
            ("ralph task-move docs --after parser", ""),
        ],
    ),
    (
        "task-remove",
        &[
            ("ralph task-remove spike", ""),
            ("ralph task-remove lexer --rewire", "its dependents wait on its dependencies"),
        ],
    ),
    (
        "undo",
        &[
            ("ralph undo", "take back the newest change"),
            ("ralph undo --list", "what can be taken back"),
            ("ralph undo 3", "only the change with this number"),
        ],
    ),
    (
        "task-reset",
        &[("ralph task-reset parser docs", "both are pending, with all attempts available")],
    ),
    (
        "task-complete",
        &[("ralph task-complete parser", "by a person, or by the agent of the task")],
    ),
    ("task-block", &[("ralph task-block deploy --reason \"no access yet\"", "")]),
    ("ask", &[("ralph ask \"Which of the two formats?\"", ""), ("ralph ask - < question.md", "")]),
    (
        "answer",
        &[
            ("ralph answer parser", "show the question"),
            ("ralph answer parser \"TOML, please\"", "answer it; the task is ready again"),
        ],
    ),
    (
        "note",
        &[
            ("ralph note \"the parser wants UTF-8\"", "for the tasks that depend on this one"),
            ("ralph note --for-all --tag build \"run make gen first\"", "for every agent"),
        ],
    ),
    ("verify", &[("ralph verify parser", "as `ralph run` does after an attempt")]),
    ("costs", &[("ralph costs --by day", ""), ("ralph costs --by agent --json", "")]),
    (
        "check",
        &[
            ("ralph check", "the graph of the repository"),
            (
                "ralph check --strict",
                "also what wastes a run: no checks, vague or conflicting tasks",
            ),
            ("ralph check other.yaml", "any file"),
        ],
    ),
    (
        "import",
        &[
            ("ralph import prd.json --dry-run", "what would come, and what is lost"),
            ("ralph import .beads", "a folder of another tool"),
            ("gh issue list --json number,title,body | ralph import -", "GitHub issues"),
            ("ralph import --refresh", "take over what changed in all sources"),
            ("ralph import TODO.md --milestone M2 --tag todo", "a plan in Markdown"),
        ],
    ),
    (
        "export",
        &[
            ("ralph export --to prd prd.json", "update the statuses in the file"),
            ("ralph export --to csv --new tasks.csv", "all tasks in a new file"),
            ("ralph export --to markdown", "the plan they came from, with its boxes ticked"),
        ],
    ),
    (
        "config",
        &[
            ("ralph config", "every setting with its origin"),
            ("ralph config timeout", "one value only"),
        ],
    ),
    ("schema", &[("ralph schema graph > .ralph/schemas/task-graph.json", "")]),
    (
        "merge-driver",
        &[
            ("ralph merge-driver --install", "merge the graph by task in this clone"),
            ("ralph merge-driver base.yaml ours.yaml theirs.yaml", "write the result to ours.yaml"),
        ],
    ),
    (
        "slots",
        &[
            ("ralph slots", "the attempt and the unsaved work in each"),
            ("ralph slots remove", "remove all slots from which nothing would be lost"),
        ],
    ),
    (
        "doctor",
        &[
            ("ralph doctor", "check everything before a long run"),
            ("ralph doctor -q --agent codex", "only problems, with this agent"),
        ],
    ),
    ("notify", &[("ralph notify --test", "test every target before a long run")]),
    (
        "status",
        &[
            ("ralph status", ""),
            ("ralph status --run 2", "the run before the newest one"),
            ("ralph status --name loop", "the loop named `loop`"),
            ("ralph status --json | jq .status", ""),
        ],
    ),
    (
        "report",
        &[
            ("ralph report", "the newest run"),
            ("ralph report --run 2 night.md", "the run before, as Markdown"),
            ("ralph report night.html", "the page of the run, as one file to send"),
            ("ralph report --markdown | gh pr comment --body-file -", ""),
        ],
    ),
    ("pause", &[("ralph pause", "the running attempt finishes")]),
    (
        "resume",
        &[
            ("ralph resume", ""),
            ("ralph resume --now", "retry the provider immediately"),
            ("ralph resume --max-iterations 80", "with a new limit"),
        ],
    ),
    (
        "stop",
        &[
            ("ralph stop", "after the running attempt"),
            ("ralph stop --now", "immediately"),
            ("ralph stop --child 4711", "only the child agent with this process"),
        ],
    ),
    (
        "schedule",
        &[
            ("ralph schedule --cron \"0 22 * * MON-FRI\"", "at 22:00 on weekdays"),
            ("ralph schedule --cron @hourly -- --max-cost 5", "with flags for `ralph run`"),
            ("ralph schedule --next 5", "the next five times of the settings"),
            ("ralph schedule install --systemd --user", "as a service"),
        ],
    ),
    ("heartbeat", &[("ralph heartbeat --max-age 1h || mail -s ralph me", "in a crontab")]),
    ("attempts", &[("ralph attempts", "newest last"), ("ralph attempts parser", "of one task")]),
    (
        "logs",
        &[
            ("ralph logs -f", "follow the journal in plain words"),
            ("ralph logs --task parser --attempt 2", "one attempt"),
            ("ralph logs -f --output", "follow the messages of the agents"),
            ("ralph logs --raw --task parser > out", "the raw output of the newest attempt"),
            ("ralph logs --json --all | jq .action", "the actions of all runs"),
        ],
    ),
    ("attach", &[("ralph attach", "detach with Ctrl-C, in tmux with C-b d; the run continues")]),
    (
        "show",
        &[
            ("ralph show parser", "its newest attempt"),
            ("ralph show parser.2", "its second attempt"),
        ],
    ),
    ("restore", &[("ralph restore parser.2", "create branch `ralph/restore/parser.2`")]),
    (
        "spawn",
        &[("ralph spawn -- claude -p \"read the docs\"", "in the foreground, with its own record")],
    ),
    (
        "demo",
        &[("ralph demo", "in a temporary folder"), ("ralph demo --to /tmp/try", "in /tmp/try")],
    ),
    (
        "completions",
        &[
            ("source <(ralph completions bash)", "in ~/.bashrc; likewise for zsh"),
            ("ralph completions fish > ~/.config/fish/completions/ralph.fish", ""),
        ],
    ),
    ("man", &[("ralph man | man -l -", ""), ("ralph man --to ~/.local/share/man/man1", "")]),
];

/// The text with the examples of a command.
pub(super) fn of(command: &str) -> Option<String> {
    let (_, examples) = EXAMPLES.iter().find(|(name, _)| *name == command)?;
    let width = examples.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    let lines = examples.iter().map(|(line, what)| format!("  {line:width$}  {what}"));
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    Some(format!("Examples:\n{}", lines.join("\n")))
}
