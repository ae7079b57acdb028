//! How the agents that are known by name are called. Data only; every line of it was tried with the
//! real program, except where it says otherwise.
//!
//! All of them read the prompt from standard input, a file that ends, and none of them starts its
//! screen while standard output is no terminal.

use crate::core::agents::transcript::Format;

/// One agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentPreset {
    /// What it is called in the settings.
    pub name: &'static str,
    /// Its command line; the prompt comes on standard input.
    pub argv: &'static [&'static str],
    /// How its output is to be read.
    pub format: Format,
    /// What must be in its environment.
    pub env: &'static [(&'static str, &'static str)],
    /// What must not be: the traces of an agent around this program.
    pub env_remove: &'static [&'static str],
    /// What must be in its environment when it runs as root, and only by the person's own choice:
    /// it says that the machine is a sandbox.
    pub as_root: &'static [(&'static str, &'static str)],
    /// Prints its version and ends, without a key and without the network.
    pub version: &'static [&'static str],
    /// Where a login shows; none where that cannot be told.
    pub login: Option<Login>,
}

/// Where a login shows without asking anybody. From the documentation of the agents and not
/// complete: a keychain or a helper program may have what is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// One of these is set. What its value is, is nobody's business.
    pub variables: &'static [&'static str],
    /// One of these is there. `~` is the home folder, `$NAME` a variable's value.
    pub files: &'static [&'static str],
    /// How one logs in for work without a person.
    pub how: &'static str,
}

/// All of them.
pub const ALL: &[AgentPreset] = &[CLAUDE, CODEX, GEMINI, OPENCODE, AMP, COPILOT, AIDER];

/// The one of that name.
pub fn find(name: &str) -> Option<&'static AgentPreset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// What the rest begins with.
const PLAIN: AgentPreset = AgentPreset {
    name: "",
    argv: &[],
    format: Format::Text,
    env: &[],
    env_remove: &[],
    as_root: &[],
    version: &[],
    login: None,
};

/// Claude Code 1.0.128 to 2.1.329. `stream-json` needs `--verbose`. As root it refuses to skip
/// permissions (code 1, nothing on standard output) unless `IS_SANDBOX=1`. It runs within another
/// one, but cleaner without that one's variables.
const CLAUDE: AgentPreset = AgentPreset {
    name: "claude",
    argv: &[
        "claude",
        "-p",
        "--dangerously-skip-permissions",
        "--output-format",
        "stream-json",
        "--verbose",
    ],
    format: Format::ClaudeJson,
    env_remove: &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"],
    as_root: &[("IS_SANDBOX", "1")],
    version: &["claude", "--version"],
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

/// codex 0.169.0. `-` is standard input; without `--skip-git-repo-check` it refuses folders that it
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
    format: Format::CodexJson,
    version: &["codex", "--version"],
    login: Some(Login {
        variables: &["CODEX_API_KEY"],
        files: &["$CODEX_HOME/auth.json", "~/.codex/auth.json"],
        how: "run `codex login`, or set `CODEX_API_KEY`",
    }),
    ..PLAIN
};

/// gemini-cli 0.61.0. Without a terminal on standard input it runs unattended; the kind of login
/// must be in its own settings, else it exits with code 41.
const GEMINI: AgentPreset = AgentPreset {
    name: "gemini",
    argv: &["gemini", "--yolo", "--skip-trust", "--output-format", "stream-json"],
    format: Format::GeminiJson,
    version: &["gemini", "--version"],
    login: Some(Login {
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"],
        files: &["~/.gemini/oauth_creds.json"],
        how: "start `gemini` and log in, or set `GEMINI_API_KEY`",
    }),
    ..PLAIN
};

/// opencode 1.18.33. It works in `$PWD`, whatever its working directory is.
const OPENCODE: AgentPreset = AgentPreset {
    name: "opencode",
    argv: &["opencode", "run", "--format", "json", "--auto"],
    format: Format::OpencodeJson,
    version: &["opencode", "--version"],
    ..PLAIN
};

/// amp 0.0.1790142911. What it may do without asking stands in its own settings. Only its start was
/// tried: it works with its own server alone.
const AMP: AgentPreset = AgentPreset {
    name: "amp",
    argv: &["amp", "-x", "--stream-json"],
    format: Format::ClaudeJson,
    version: &["amp", "--version"],
    login: Some(Login {
        variables: &["AMP_API_KEY"],
        files: &["~/.local/share/amp/secrets.json"],
        how: "run `amp login`, or set `AMP_API_KEY`",
    }),
    ..PLAIN
};

/// copilot 1.0.102.
const COPILOT: AgentPreset = AgentPreset {
    name: "copilot",
    argv: &["copilot", "--allow-all-tools", "--output-format", "json"],
    format: Format::CopilotJson,
    version: &["copilot", "--version"],
    login: Some(Login {
        variables: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
        files: &["~/.config/gh/hosts.yml"],
        how: "start `copilot` and `/login`, or set `COPILOT_GITHUB_TOKEN`",
    }),
    ..PLAIN
};

/// aider 0.86.2. It commits by itself, and would write into `.gitignore`.
const AIDER: AgentPreset = AgentPreset {
    name: "aider",
    argv: &["aider", "--yes-always", "--no-gitignore", "--message-file", "/dev/stdin"],
    format: Format::Aider,
    version: &["aider", "--version"],
    ..PLAIN
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_and_calls_its_program() {
        for preset in ALL {
            assert_eq!(find(preset.name), Some(preset));
            assert_eq!([preset.argv[0], preset.version[0]], [preset.name; 2]);
            // A name of the settings must not be mistaken for one of a format.
            let is_format = Format::ALL.iter().any(|(name, _)| *name == preset.name);
            assert_eq!(is_format, preset.name == "aider");
        }
        assert_eq!(find("clude"), None);
        assert_eq!(find(""), None);
        assert_eq!(
            Format::ALL.iter().filter(|(name, format)| *name == format.to_string()).count(),
            7
        );
    }
}
