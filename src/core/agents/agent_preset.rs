//! The table of the agents that `ralph` knows by name.
//!
//! A new agent is one constant here and its place in [`ALL`]: command line, output format,
//! environment, installation, version check and login. The settings, `ralph init`, `ralph doctor`
//! and the table in `docs/agents.md` read it from here. Every value was tried with the real program,
//! except where a comment says otherwise.
//!
//! All agents read the prompt from standard input, a file that ends, and none of them opens a
//! full-screen interface while standard output is not a terminal.

use crate::agents::transcript::Format;

/// An agent known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentPreset {
    /// Its name in the settings.
    pub name: &'static str,
    /// Its command line. It reads the prompt from standard input.
    pub argv: &'static [&'static str],
    /// The word of its command line with which it runs commands without asking for permission; none
    /// if its own settings decide, or if it always asks.
    pub unasked: Option<&'static str>,
    /// The flag that selects its model, if it has one.
    pub model: Option<&'static str>,
    /// The flag that selects the models for when that one is not available, if it has one.
    pub fallback: Option<&'static str>,
    /// The flag that limits the cost of an attempt in US dollars, if it has one.
    pub budget: Option<&'static str>,
    /// The word that resumes a conversation whose id follows; none if it cannot do that unattended.
    pub resume: Option<&'static str>,
    /// The words of a command line with which it keeps no conversation, or resumes one already.
    pub no_resume: &'static [&'static str],
    /// The format of its output.
    pub format: Format,
    /// The command-line words that each select this format; none if it always has it.
    pub typed: &'static [&'static str],
    /// The words that make it print nothing before its end.
    pub at_end: &'static [&'static str],
    /// Variables added to its environment.
    pub env: &'static [(&'static str, &'static str)],
    /// Variables removed from its environment: those of an agent that runs `ralph`.
    pub env_remove: &'static [&'static str],
    /// Variables that it needs when it runs as root. `ralph` never sets them: they declare that the
    /// machine is a sandbox, which only a person can know.
    pub as_root: &'static [(&'static str, &'static str)],
    /// Prints its version and exits, without a key and without the network.
    pub version: &'static [&'static str],
    /// A command that installs it.
    pub install: &'static str,
    /// How to see whether it is logged in; none if that cannot be seen.
    pub login: Option<Login>,
    /// Patterns, as in `.gitignore`, of files of its own that it leaves in the repository it works
    /// in.
    pub litter: &'static [&'static str],
    /// Whether it uses processor time while it waits. It runs commands in other process groups.
    pub is_restless: bool,
    /// Whether its model can only edit files: it runs no command, and creates no file that git
    /// ignores, such as `DONE`.
    pub edits_only: bool,
}

/// The signs of a login. They come from the documentation of the agents and are not complete: a
/// keychain or a helper program may hold a login too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// Variables; one is enough. Their values are never read.
    pub variables: &'static [&'static str],
    /// Files; one is enough. `~` is the home folder, `$NAME` the value of a variable.
    pub files: &'static [&'static str],
    /// How to log in for unattended work.
    pub how: &'static str,
}

/// All presets, the default first.
pub const ALL: &[AgentPreset] = &[CLAUDE, CODEX, GEMINI, OPENCODE, AMP, COPILOT, QWEN, PI, AIDER];

/// Returns the preset of that name.
pub fn find(name: &str) -> Option<&'static AgentPreset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// Returns the preset of an agent by its name or by its program.
pub fn of_command(name: &str, program: &str) -> Option<&'static AgentPreset> {
    find(name).or_else(|| find(program.rsplit('/').next().unwrap_or_default()))
}

/// The values that a preset has unless it sets them.
const PLAIN: AgentPreset = AgentPreset {
    name: "",
    argv: &[],
    unasked: None,
    model: None,
    fallback: None,
    budget: None,
    resume: None,
    no_resume: &[],
    format: Format::Text,
    typed: &[],
    at_end: &[],
    env: &[],
    env_remove: &[],
    as_root: &[],
    version: &[],
    install: "",
    login: None,
    litter: &[],
    is_restless: false,
    edits_only: false,
};

/// Claude Code 1.0.128 to 2.1.329. `stream-json` needs `--verbose`. As root it refuses to skip
/// permissions (code 1, nothing on standard output) unless `IS_SANDBOX=1`. It runs
/// inside another one, but more cleanly without the variables of that one. `--max-budget-usd` is an
/// unknown option to 2.0.28 and before, and known to 2.0.31. Without the tools that leave the slot or
/// outlast the attempt; versions without them accept their names. Sessions in other slots send it nothing,
/// it does not update itself meanwhile, and remembers nothing from one task to the next.
const CLAUDE: AgentPreset = AgentPreset {
    name: "claude",
    argv: &[
        "claude",
        "-p",
        "--dangerously-skip-permissions",
        "--disallowedTools",
        "EnterWorktree,ScheduleWakeup,CronCreate,Monitor",
        "--settings",
        "{\"crossSessionInbound\":\"refuse\"}",
        "--output-format",
        "stream-json",
        "--verbose",
    ],
    unasked: Some("--dangerously-skip-permissions"),
    model: Some("--model"),
    fallback: Some("--fallback-model"),
    budget: Some("--max-budget-usd"),
    resume: Some("--resume"),
    no_resume: &["--no-session-persistence", "--session-id", "--resume", "-r", "--continue", "-c"],
    format: Format::ClaudeJson,
    typed: &["stream-json", "json"],
    at_end: &["json"],
    env: &[("DISABLE_AUTOUPDATER", "1"), ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1")],
    env_remove: &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"],
    as_root: &[("IS_SANDBOX", "1")],
    version: &["claude", "--version"],
    install: "npm install -g @anthropic-ai/claude-code",
    login: Some(Login {
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
        ],
        files: &["$CLAUDE_CONFIG_DIR/.credentials.json", "~/.claude/.credentials.json"],
        how: "start `claude` and `/login`, or set `CLAUDE_CODE_OAUTH_TOKEN` (`claude setup-token` \
              makes one) or `ANTHROPIC_API_KEY`",
    }),
    ..PLAIN
};

/// codex 0.169.0. `-` is standard input. Without `--skip-git-repo-check` it refuses folders that it
/// does not trust.
const CODEX: AgentPreset = AgentPreset {
    name: "codex",
    argv: &[
        "codex",
        "exec",
        "--dangerously-bypass-approvals-and-sandbox",
        "--skip-git-repo-check",
        "--json",
        "-",
    ],
    unasked: Some("--dangerously-bypass-approvals-and-sandbox"),
    model: Some("--model"),
    resume: Some("resume"),
    no_resume: &["--ephemeral", "resume", "review"],
    format: Format::CodexJson,
    typed: &["--json"],
    version: &["codex", "--version"],
    install: "npm install -g @openai/codex",
    login: Some(Login {
        variables: &["CODEX_API_KEY"],
        files: &["$CODEX_HOME/auth.json", "~/.codex/auth.json"],
        how: "run `codex login`, or set `CODEX_API_KEY`",
    }),
    ..PLAIN
};

/// gemini-cli 0.61.0. It runs unattended if standard input is not a terminal. Its own settings must
/// name the kind of login, or it exits with code 41.
const GEMINI: AgentPreset = AgentPreset {
    name: "gemini",
    argv: &["gemini", "--yolo", "--skip-trust", "--output-format", "stream-json"],
    unasked: Some("--yolo"),
    model: Some("--model"),
    format: Format::GeminiJson,
    typed: &["stream-json"],
    version: &["gemini", "--version"],
    install: "npm install -g @google/gemini-cli",
    login: Some(Login {
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"],
        files: &["~/.gemini/oauth_creds.json"],
        how: "start `gemini` and log in, or set `GEMINI_API_KEY`",
    }),
    ..PLAIN
};

/// opencode 1.18.33. It works in `$PWD`, whatever its working directory is. Its screen, which no one sees,
/// takes a quarter of a core while it waits.
const OPENCODE: AgentPreset = AgentPreset {
    name: "opencode",
    argv: &["opencode", "run", "--format", "json", "--auto"],
    unasked: Some("--auto"),
    model: Some("--model"),
    resume: Some("--session"),
    no_resume: &["--session", "-s", "--continue", "-c"],
    format: Format::OpencodeJson,
    typed: &["json"],
    version: &["opencode", "--version"],
    install: "npm install -g opencode-ai",
    is_restless: true,
    ..PLAIN
};

/// amp 0.0.1790142911. Its own settings grant permissions. Only its start was tried: it works only
/// with its own server.
const AMP: AgentPreset = AgentPreset {
    name: "amp",
    argv: &["amp", "-x", "--stream-json"],
    format: Format::ClaudeJson,
    typed: &["--stream-json"],
    version: &["amp", "--version"],
    install: "npm install -g @sourcegraph/amp",
    login: Some(Login {
        variables: &["AMP_API_KEY"],
        files: &["~/.local/share/amp/secrets.json"],
        how: "run `amp login`, or set `AMP_API_KEY`",
    }),
    ..PLAIN
};

/// copilot 1.0.102. The task's folder and `ralph` are outside of the folder that it works in.
const COPILOT: AgentPreset = AgentPreset {
    name: "copilot",
    argv: &["copilot", "--allow-all-tools", "--allow-all-paths", "--output-format", "json"],
    unasked: Some("--allow-all-tools"),
    model: Some("--model"),
    format: Format::CopilotJson,
    typed: &["json"],
    version: &["copilot", "--version"],
    install: "npm install -g @github/copilot",
    login: Some(Login {
        variables: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
        files: &["~/.config/gh/hosts.yml"],
        how: "start `copilot` and `/login`, or set `COPILOT_GITHUB_TOKEN`",
    }),
    ..PLAIN
};

/// Qwen Code, as its documentation (`docs/users/features/headless.md` of `QwenLM/qwen-code`) and its source
/// (`packages/cli/src/nonInteractive`) have it; not tried. Its `stream-json` has the events of Claude Code.
const QWEN: AgentPreset = AgentPreset {
    name: "qwen",
    argv: &[
        "qwen",
        "--yolo",
        "--exclude-tools",
        "enter_worktree,monitor,cron_create,loop_wakeup",
        "--output-format",
        "stream-json",
    ],
    unasked: Some("--yolo"),
    model: Some("--model"),
    resume: Some("--resume"),
    no_resume: &["--resume", "-r", "--continue", "-c"],
    format: Format::ClaudeJson,
    typed: &["stream-json", "json"],
    at_end: &["json"],
    version: &["qwen", "--version"],
    install: "npm install -g @qwen-code/qwen-code",
    login: Some(Login {
        variables: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
        files: &["~/.qwen/oauth_creds.json", "~/.qwen/.env"],
        how: "start `qwen` and `/auth`, or set `OPENAI_API_KEY` (and `OPENAI_BASE_URL`)",
    }),
    ..PLAIN
};

/// pi 0.58.3, as its documentation (`packages/coding-agent/docs/json.md` and `providers.md` of
/// `badlogic/pi-mono`) and its source (`src/main.ts`, `src/cli/args.ts`) have it; not tried. It has no
/// permissions to ask for. `--session` takes the start of an id.
const PI: AgentPreset = AgentPreset {
    name: "pi",
    argv: &["pi", "--mode", "json"],
    model: Some("--model"),
    resume: Some("--session"),
    no_resume: &["--no-session", "--session", "--resume", "-r", "--continue", "-c"],
    format: Format::PiJson,
    typed: &["json"],
    version: &["pi", "--version"],
    install: "npm install -g @earendil-works/pi-coding-agent",
    login: Some(Login {
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_OAUTH_TOKEN",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
        ],
        files: &["$PI_CODING_AGENT_DIR/auth.json", "~/.pi/agent/auth.json"],
        how: "start `pi` and `/login`, or set the variable of a provider such as `ANTHROPIC_API_KEY`",
    }),
    ..PLAIN
};

/// aider 0.86.2. It makes its own commits, and would write to `.gitignore`. It keeps its history and
/// caches where it works. A command that its model proposes needs a person, even with
/// `--yes-always`. An answer with a file outside of the repository is rejected as a whole.
const AIDER: AgentPreset = AgentPreset {
    name: "aider",
    argv: &["aider", "--yes-always", "--no-gitignore", "--message-file", "/dev/stdin"],
    model: Some("--model"),
    version: &["aider", "--version"],
    install: "pipx install aider-chat",
    litter: &[".aider*"],
    edits_only: true,
    ..PLAIN
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preset_is_found_by_its_name_and_runs_its_program() {
        for preset in ALL {
            assert_eq!(find(preset.name), Some(preset));
            assert_eq!([preset.argv[0], preset.version[0]], [preset.name; 2]);
            assert!(!preset.install.is_empty(), "{}", preset.name);
            assert!(preset.unasked.is_none_or(|word| preset.argv.contains(&word)));
            assert_eq!(preset.model.is_none(), preset.name == "amp");
            // The names of presets and of formats must stay distinguishable.
            assert!(Format::ALL.iter().all(|(name, _)| *name != preset.name));
        }
        assert_eq!(of_command("mine", "/opt/bin/aider"), find("aider"));
        assert_eq!(of_command("codex", "aider"), find("codex"));
        assert_eq!(of_command("mine", "./x.sh"), None);
        assert_eq!(find("clude"), None);
        assert_eq!(find(""), None);
        assert_eq!(
            Format::ALL.iter().filter(|(name, format)| *name == format.to_string()).count(),
            7
        );
    }
}
