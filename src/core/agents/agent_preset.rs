//! Presets: the command lines of known agents. Each line was tried with the real program unless
//! noted.
//!
//! All of them read the prompt from standard input, which ends, and none opens a terminal interface
//! unless standard output is a terminal.

use crate::core::agents::transcript::Format;

/// The preset of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentPreset {
    /// The name in the settings.
    pub name: &'static str,
    /// The command line; the prompt comes on standard input.
    pub argv: &'static [&'static str],
    /// The format of its output.
    pub format: Format,
    /// Variables to set in its environment.
    pub env: &'static [(&'static str, &'static str)],
    /// Variables to remove: traces of an agent that runs `ralph`.
    pub env_remove: &'static [&'static str],
    /// Variables to set when it runs as root, and only at the user's choice: they declare that the
    /// machine is a sandbox.
    pub as_root: &'static [(&'static str, &'static str)],
    /// The command that prints its version, without a key and without the network.
    pub version: &'static [&'static str],
    /// Signs of a login; none if they are unknown.
    pub login: Option<Login>,
}

/// Signs of a login that need no request. They come from the documentation of the agents and are
/// incomplete: a keychain or a helper program may hold the login instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// Variables of which one is set. Their values are not read.
    pub variables: &'static [&'static str],
    /// Files of which one exists. `~` is the home folder, `$NAME` the value of a variable.
    pub files: &'static [&'static str],
    /// Instructions to log in for unattended work.
    pub how: &'static str,
}

/// All presets.
pub const ALL: &[AgentPreset] = &[CLAUDE, CODEX, GEMINI, OPENCODE, AMP, COPILOT, AIDER];

/// Returns the preset with this name.
pub fn find(name: &str) -> Option<&'static AgentPreset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// The defaults of a preset.
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
/// permissions (code 1, no standard output) unless `IS_SANDBOX=1`. It runs within another Claude
/// Code, but with fewer side effects without the variables of that one.
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

/// codex 0.169.0. `-` is standard input. Without `--skip-git-repo-check` it refuses untrusted
/// folders.
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

/// gemini-cli 0.61.0. Without a terminal on standard input it runs unattended. The kind of login
/// must be in its own settings, otherwise it exits with code 41.
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

/// amp 0.0.1790142911. Its own settings hold its permissions. Only its start was tried, because it
/// works with its own server only.
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

/// aider 0.86.2. It commits by itself, and would edit `.gitignore`.
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
    fn each_preset_is_named_after_its_program() {
        for preset in ALL {
            assert_eq!(find(preset.name), Some(preset));
            assert_eq!([preset.argv[0], preset.version[0]], [preset.name; 2]);
            // The settings take both, so a preset name must not be a format name.
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
