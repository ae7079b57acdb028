//! An example or two for every command, shown under its flags. A test reads each as a command line.

/// Of a command, by its name.
pub(super) const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "init",
        &[
            ("ralph init", "asks, shows what was chosen, and writes it"),
            ("ralph init --yes", "takes every default"),
            ("ralph init --dry-run", "shows what `--yes` would write"),
            ("ralph init --global", "your own settings, for all projects"),
            ("ralph init --prompt", "PROMPT.md, for a loop without a graph"),
        ],
    ),
    (
        "template",
        &[
            ("ralph template", "that of a task's prompt"),
            ("ralph template prompt > BUILD_PROMPT.md", "that of a loop without a graph"),
            ("ralph template just >> justfile", "the recipes"),
        ],
    ),
    (
        "run",
        &[
            ("ralph run", "all of it, with the agent of the settings"),
            ("ralph run --once", "one attempt, to see how it goes"),
            ("ralph run --milestone M1 --max-cost 20", "part of it, for at most $20"),
            ("ralph run --agent codex", "with another agent"),
            ("ralph run -- ./my-agent.sh --fast", "with any command"),
            ("ralph run --dry-run", "the order it would take"),
            (
                "ralph run --tmux -- claude --dangerously-skip-permissions",
                "on screens of their own",
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
    ("ls", &[("ralph ls", ""), ("ralph ls --json | jq -r '.[].name'", "for programs")]),
    (
        "prompt",
        &[
            ("ralph prompt", "what the next agent would be told"),
            ("ralph prompt --why", "why this task is next"),
            ("ralph prompt parser --accept | claude -p", "work on one by hand"),
        ],
    ),
    (
        "plan",
        &[
            ("ralph plan", "how long the night is, and what would make it shorter"),
            ("ralph plan --milestone M1 --jobs 3", "of a part, with three agents"),
        ],
    ),
    (
        "dag-status",
        &[
            ("ralph dag-status", "where everything stands"),
            ("ralph dag-status --json | jq .counts", "for programs"),
        ],
    ),
    ("task-reset", &[("ralph task-reset parser docs", "both get all their attempts again")]),
    ("task-complete", &[("ralph task-complete parser", "by a person, or by its agent")]),
    ("task-block", &[("ralph task-block deploy --reason \"no access yet\"", "")]),
    ("ask", &[("ralph ask \"Which of the two formats?\"", ""), ("ralph ask - < question.md", "")]),
    (
        "answer",
        &[
            ("ralph answer parser", "what it asks"),
            ("ralph answer parser \"TOML, please\"", "the answer; its task is ready again"),
        ],
    ),
    (
        "note",
        &[
            ("ralph note \"the parser wants UTF-8\"", "for the tasks that depend on this one"),
            ("ralph note --for-all --tag build \"run make gen first\"", "for every agent"),
        ],
    ),
    ("verify", &[("ralph verify parser", "as `ralph run` would, after its agent")]),
    ("costs", &[("ralph costs --by day", ""), ("ralph costs --by agent --json", "")]),
    (
        "check",
        &[("ralph check", "the graph of this repository"), ("ralph check other.yaml", "any file")],
    ),
    (
        "config",
        &[
            ("ralph config", "every setting and where its value comes from"),
            ("ralph config timeout", "one value and nothing else"),
        ],
    ),
    ("schema", &[("ralph schema graph > .ralph/schemas/task-graph.json", "")]),
    (
        "merge-driver",
        &[
            ("ralph merge-driver --install", "git merges the graph of this clone by task"),
            ("ralph merge-driver base.yaml ours.yaml theirs.yaml", "the result is in ours.yaml"),
        ],
    ),
    (
        "worktree",
        &[
            ("ralph worktree list", "which attempt is where, and what is left over"),
            ("cd \"$(ralph worktree new parser)\"", "go on by hand, on the branch of a task"),
            ("ralph worktree remove 3", "the third of the pool; never forced"),
        ],
    ),
    (
        "doctor",
        &[("ralph doctor", "before the night"), ("ralph doctor -q --agent codex", "only faults")],
    ),
    ("notify", &[("ralph notify --test", "before the night: is everybody told?")]),
    (
        "status",
        &[
            ("ralph status", ""),
            ("ralph status --name loop", "of a plain loop"),
            ("ralph status --json | jq .state", ""),
        ],
    ),
    ("pause", &[("ralph pause", "the running attempt goes on to its end")]),
    ("resume", &[("ralph resume", ""), ("ralph resume --now", "try the provider again at once")]),
    ("stop", &[("ralph stop", "after the running attempt"), ("ralph stop --now", "at once")]),
    (
        "schedule",
        &[
            ("ralph schedule --cron \"0 22 * * MON-FRI\"", "every weekday at ten in the evening"),
            ("ralph schedule --cron @hourly -- --max-cost 5", "with flags of `ralph run`"),
            ("ralph schedule --next 5", "the next times, by the settings"),
            ("ralph schedule install --systemd --user", "as a service, by the settings"),
        ],
    ),
    ("heartbeat", &[("ralph heartbeat --max-age 1h || mail -s ralph me", "in a crontab")]),
    (
        "attempts",
        &[("ralph attempts", "the newest last"), ("ralph attempts parser", "of one task")],
    ),
    (
        "logs",
        &[
            ("ralph logs -f", "the journal in plain words, as it grows"),
            ("ralph logs --task parser --attempt 2", "of all that, one attempt"),
            ("ralph logs -f --output", "what the agents say, one after the other"),
            ("ralph logs --raw --task parser > out", "every byte that the newest attempt printed"),
            ("ralph logs --json --all | jq .action", "for programs"),
        ],
    ),
    ("attach", &[("ralph attach", "Ctrl-C leaves, or C-b d in tmux; the run goes on")]),
    ("show", &[("ralph show parser", "its newest attempt"), ("ralph show parser.2", "its second")]),
    ("restore", &[("ralph restore parser.2", "a branch `ralph/restore/parser.2`")]),
    (
        "spawn",
        &[("ralph spawn -- claude -p \"read the docs\"", "a child agent, in the foreground")],
    ),
    (
        "demo",
        &[("ralph demo", "in the temporary folder"), ("ralph demo --to /tmp/try", "in this one")],
    ),
    (
        "replay",
        &[("ralph run -- ralph replay logs/attempts/parser/2", "what would be made of it now?")],
    ),
    (
        "completions",
        &[
            ("source <(ralph completions bash)", "in ~/.bashrc; zsh likewise"),
            ("ralph completions fish > ~/.config/fish/completions/ralph.fish", ""),
        ],
    ),
    ("man", &[("ralph man | man -l -", ""), ("ralph man --to ~/.local/share/man/man1", "")]),
];

/// The lines under the flags of a command.
pub(super) fn of(command: &str) -> Option<String> {
    let (_, examples) = EXAMPLES.iter().find(|(name, _)| *name == command)?;
    let width = examples.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    let lines = examples.iter().map(|(line, what)| format!("  {line:width$}  {what}"));
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    Some(format!("Examples:\n{}", lines.join("\n")))
}
