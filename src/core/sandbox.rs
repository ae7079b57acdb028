//! What a sandbox hides, removes and allows by default.
//!
//! Only names and patterns; the adapter looks for the files.

use crate::redact;

/// Files and folders with credentials, sockets of other programs, or what people typed. `~` is the
/// home folder. What is not there is not hidden.
pub const HIDDEN: &[&str] = &[
    "~/.ssh",
    "~/.aws",
    "~/.azure",
    "~/.gnupg",
    "~/.netrc",
    "~/_netrc",
    "~/.authinfo",
    "~/.config/gh",
    "~/.config/glab-cli",
    "~/.config/hub",
    "~/.config/gcloud",
    "~/.config/doctl",
    "~/.config/git/credentials",
    "~/.config/pip",
    "~/.config/rclone",
    "~/.config/sops",
    "~/.config/containers/auth.json",
    "~/.git-credentials",
    "~/.kube",
    "~/.docker",
    "~/.npmrc",
    "~/.yarnrc.yml",
    "~/.pypirc",
    "~/.gem/credentials",
    "~/.cargo/credentials",
    "~/.cargo/credentials.toml",
    "~/.composer/auth.json",
    "~/.config/composer/auth.json",
    "~/.m2/settings.xml",
    "~/.gradle/gradle.properties",
    "~/.terraform.d",
    "~/.terraformrc",
    "~/.vault-token",
    "~/.boto",
    "~/.s3cfg",
    "~/.pgpass",
    "~/.my.cnf",
    "~/.mylogin.cnf",
    "~/.password-store",
    "~/.local/share/keyrings",
    "~/.local/share/kwalletd",
    "~/.config/kwalletrc",
    "~/.config/Bitwarden",
    "~/.config/Bitwarden CLI",
    "~/.config/1Password",
    "~/.config/op",
    "~/.1password",
    "~/.config/age",
    // Browsers and mail.
    "~/.mozilla",
    "~/.thunderbird",
    "~/.config/google-chrome",
    "~/.config/chromium",
    "~/.config/BraveSoftware",
    "~/.config/microsoft-edge",
    "~/.config/vivaldi",
    "~/.config/opera",
    "~/.config/Slack",
    "~/.config/Signal",
    "~/.config/discord",
    "~/snap/firefox",
    "~/snap/chromium",
    "~/.var/app",
    // What people typed.
    "~/.bash_history",
    "~/.zsh_history",
    "~/.histfile",
    "~/.history",
    "~/.local/share/fish/fish_history",
    "~/.python_history",
    "~/.node_repl_history",
    "~/.psql_history",
    "~/.mysql_history",
    "~/.sqlite_history",
    "~/.rediscli_history",
    "~/.lesshst",
    "~/.viminfo",
    "~/.local/state/nvim",
    // Sockets of programs that do more than the sandbox may.
    "~/.colima",
    "~/.lima",
    "~/.orbstack",
    "~/.local/share/containers/podman",
    "~/.config/systemd",
    "/var/lib/docker",
    "/var/lib/incus/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
    // Password hashes and keys of the machine, which root can read.
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/var/spool/cron",
    "/var/lib/systemd/credential.secret",
];

/// Variables that name a file or folder with credentials, or a folder with a file of that name.
pub const HIDDEN_BY_VARIABLE: &[(&str, &str)] = &[
    ("AWS_CONFIG_FILE", ""),
    ("AWS_SHARED_CREDENTIALS_FILE", ""),
    ("CARGO_HOME", "credentials.toml"),
    ("CLOUDSDK_CONFIG", ""),
    ("DOCKER_CONFIG", ""),
    ("GH_CONFIG_DIR", ""),
    ("GNUPGHOME", ""),
    ("GOOGLE_APPLICATION_CREDENTIALS", ""),
    ("HISTFILE", ""),
    ("KUBECONFIG", ""),
    ("NETRC", ""),
    ("NPM_CONFIG_USERCONFIG", ""),
    ("PGPASSFILE", ""),
    ("SOPS_AGE_KEY_FILE", ""),
    ("XAUTHORITY", ""),
];

/// Variables that name another folder for one in the home folder.
pub const MOVED_BY_VARIABLE: &[(&str, &str)] =
    &[("XDG_CONFIG_HOME", "~/.config/"), ("XDG_DATA_HOME", "~/.local/share/")];

/// The parts of `/run` that programs need; all else in it is hidden, because it contains sockets.
pub const SHOWN_OF_RUN: &[&str] = &[
    "booted-system",
    "current-system",
    "opengl-driver",
    "wrappers",
    "systemd/resolve",
    "resolvconf",
];

/// The folders that are private and empty.
pub const PRIVATE: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];

/// Package managers that fail without a cache that they can write: the variable that names another
/// one, the name of that of an attempt, and the usual one.
pub const CACHES: &[(&str, &str, &str)] = &[
    ("npm_config_cache", "npm", "~/.npm"),
    ("UV_CACHE_DIR", "uv", "~/.cache/uv"),
    ("GOCACHE", "go-build", "~/.cache/go-build"),
];

/// Variables that lead to a socket or to a program that asks for passwords. `*` is any text.
pub const SOCKET_VARIABLES: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "GIT_ASKPASS",
    "SUDO_ASKPASS",
    "GPG_AGENT_INFO",
    "DBUS_*",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "VSCODE_*",
];

/// Variables that every process keeps, also with a list of those it gets.
pub const NEEDED_VARIABLES: &[&str] = &[
    "RALPH",
    "RALPH_*",
    "TASK_FOLDER",
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "PWD",
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_*",
    "GIT_CONFIG_VALUE_*",
];

/// What an agent keeps for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentFolders {
    /// The name of its preset.
    pub agent: &'static str,
    /// The files and folders that it writes; those that end in `/` are created if they are missing.
    /// The first one has its settings.
    pub own: &'static [&'static str],
    /// The variables that name another folder for the first one.
    pub named_by: &'static [&'static str],
    /// What it reads in the first one as settings or instructions, or runs as programs; folders end
    /// in `/`. An attempt that changed or created one of these would leave behind what acts outside,
    /// when a person starts the same agent.
    pub settings: &'static [&'static str],
    /// Files with both settings and state, which the agent writes again as a whole. An attempt gets
    /// a copy.
    pub copied: &'static [&'static str],
    /// The variables with its credentials.
    pub variables: &'static [&'static str],
}

impl AgentFolders {
    /// Returns where a file of the first folder is if a variable names `folder` in place of it.
    pub fn moved<'a>(&self, path: &'a str) -> &'a str {
        let first = self.own.first().copied().unwrap_or_default();
        path.strip_prefix(first).or_else(|| path.strip_prefix("~/")).unwrap_or(path)
    }
}

/// A file that opencode writes into the folder of its settings, and its content.
pub const OPENCODE_IGNORES: &str = "~/.config/opencode/.gitignore";
/// See [`OPENCODE_IGNORES`].
pub const OPENCODE_IGNORED: &str =
    "node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore";

/// The endings of files in an agent's own folder that its settings may name as programs, or its
/// instructions as further instructions.
pub const SCRIPTS: &[&str] = &["cjs", "js", "md", "mjs", "pl", "py", "rb", "sh", "toml", "ts"];

/// The known agents.
pub const AGENT_FOLDERS: &[AgentFolders] = &[
    AgentFolders {
        agent: "claude",
        own: &["~/.claude/", "~/.claude.json", "~/.cache/claude/", "~/.cache/claude-cli-nodejs/"],
        named_by: &["CLAUDE_CONFIG_DIR"],
        settings: &[
            "~/.claude/settings.json",
            "~/.claude/settings.local.json",
            "~/.claude/remote-settings.json",
            "~/.claude/keybindings.json",
            "~/.claude/CLAUDE.md",
            "~/.claude/AGENTS.md",
            "~/.claude/loop.md",
            "~/.claude/agent-memory/",
            "~/.claude/agents/",
            "~/.claude/commands/",
            "~/.claude/hooks/",
            "~/.claude/local/",
            "~/.claude/output-styles/",
            "~/.claude/plugins/",
            "~/.claude/rules/",
            "~/.claude/skills/",
            "~/.claude/workflows/",
        ],
        copied: &["~/.claude.json"],
        variables: &["ANTHROPIC_*", "CLAUDE_*", "IS_SANDBOX"],
    },
    AgentFolders {
        agent: "codex",
        own: &["~/.codex/"],
        named_by: &["CODEX_HOME"],
        settings: &[
            "~/.codex/config.toml",
            "~/.codex/managed_config.toml",
            "~/.codex/requirements.toml",
            "~/.codex/hooks.json",
            "~/.codex/AGENTS.md",
            "~/.codex/AGENTS.override.md",
            "~/.codex/.env",
            "~/.codex/agents/",
            "~/.codex/bin/",
            "~/.codex/hooks/",
            "~/.codex/memories/",
            "~/.codex/packages/",
            "~/.codex/plugins/",
            "~/.codex/prompts/",
            "~/.codex/rules/",
            "~/.codex/skills/",
        ],
        copied: &[],
        variables: &["OPENAI_*", "CODEX_*"],
    },
    AgentFolders {
        agent: "gemini",
        own: &["~/.gemini/"],
        named_by: &["GOOGLE_APPLICATION_CREDENTIALS"],
        settings: &[
            "~/.gemini/settings.json",
            "~/.gemini/trustedFolders.json",
            "~/.gemini/trusted_hooks.json",
            "~/.gemini/mcp-server-enablement.json",
            "~/.gemini/keybindings.json",
            "~/.gemini/GEMINI.md",
            "~/.gemini/system.md",
            "~/.gemini/.env",
            "~/.gemini/agents/",
            "~/.gemini/bin/",
            "~/.gemini/commands/",
            "~/.gemini/extensions/",
            "~/.gemini/hooks/",
            "~/.gemini/policies/",
            "~/.gemini/skills/",
        ],
        copied: &[],
        variables: &[
            "GEMINI_*",
            "GOOGLE_API_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_*",
            "GOOGLE_GENAI_*",
        ],
    },
    AgentFolders {
        agent: "opencode",
        own: &["~/.local/share/opencode/", "~/.local/state/opencode/", "~/.cache/opencode/"],
        named_by: &[],
        // It does not start without the second, which it would write itself.
        settings: &["~/.config/opencode/", OPENCODE_IGNORES, "~/.local/share/opencode/bin/"],
        copied: &[],
        variables: &["OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "OPENROUTER_*", "GEMINI_*"],
    },
    AgentFolders {
        agent: "amp",
        own: &["~/.local/share/amp/", "~/.cache/amp/"],
        named_by: &[],
        settings: &[],
        copied: &[],
        variables: &["AMP_*"],
    },
    AgentFolders {
        agent: "copilot",
        own: &["~/.copilot/"],
        named_by: &[],
        settings: &[
            "~/.copilot/config.json",
            "~/.copilot/settings.json",
            "~/.copilot/mcp-config.json",
            "~/.copilot/lsp-config.json",
            "~/.copilot/copilot-instructions.md",
            "~/.copilot/agents/",
            "~/.copilot/hooks/",
            "~/.copilot/installed-plugins/",
            "~/.copilot/pkg/",
            "~/.copilot/skills/",
        ],
        copied: &[],
        variables: &["COPILOT_*", "GITHUB_TOKEN", "GH_TOKEN"],
    },
    AgentFolders {
        agent: "qwen",
        own: &["~/.qwen/"],
        named_by: &[],
        settings: &[
            "~/.qwen/settings.json",
            "~/.qwen/.env",
            "~/.qwen/QWEN.md",
            "~/.qwen/agents/",
            "~/.qwen/commands/",
            "~/.qwen/extensions/",
            "~/.qwen/skills/",
        ],
        copied: &[],
        variables: &["QWEN_*", "DASHSCOPE_*", "OPENAI_*", "ANTHROPIC_*", "GEMINI_*"],
    },
    AgentFolders {
        agent: "pi",
        own: &["~/.pi/"],
        named_by: &["PI_CODING_AGENT_DIR"],
        settings: &[
            "~/.pi/agent/settings.json",
            "~/.pi/agent/models.json",
            "~/.pi/agent/AGENTS.md",
            "~/.pi/agent/SYSTEM.md",
            "~/.pi/agent/APPEND_SYSTEM.md",
            "~/.pi/agent/bin/",
            "~/.pi/agent/extensions/",
            "~/.pi/agent/git/",
            "~/.pi/agent/npm/",
            "~/.pi/agent/prompts/",
            "~/.pi/agent/skills/",
        ],
        copied: &[],
        variables: &["PI_*", "ANTHROPIC_*", "OPENAI_*", "OPENROUTER_*", "GEMINI_*"],
    },
    AgentFolders {
        agent: "aider",
        own: &["~/.aider/"],
        named_by: &[],
        settings: &["~/.aider/oauth-keys.env"],
        copied: &[],
        variables: &[
            "AIDER_*",
            "ANTHROPIC_*",
            "OPENAI_*",
            "OPENROUTER_*",
            "GEMINI_*",
            "DEEPSEEK_*",
        ],
    },
];

/// Returns what an agent keeps for itself; none for an agent that is not known.
pub fn folders_of(agent: &str) -> Option<&'static AgentFolders> {
    AGENT_FOLDERS.iter().find(|folders| folders.agent == agent)
}

/// Whether a process keeps a variable.
///
/// `allowed` is the list of the settings, if there is one. The credentials of the agent stay; those
/// of every known agent stay for an agent that is not known.
pub fn keeps_variable(
    (name, value): (&str, &str),
    allowed: Option<&[String]>,
    agent: Option<&str>,
) -> bool {
    let is_in = |patterns: &[&str]| patterns.iter().any(|pattern| is_match(pattern, name));
    let own = agent.and_then(folders_of);
    let is_own = match own {
        Some(folders) => is_in(folders.variables),
        None => AGENT_FOLDERS.iter().any(|folders| {
            // A token for a code host is not only an agent's.
            is_in(folders.variables) && !["GITHUB_TOKEN", "GH_TOKEN"].contains(&name)
        }),
    };
    let is_secret = is_in(SOCKET_VARIABLES) || redact::is_secret_variable(name, value.as_bytes());
    if is_own || is_in(NEEDED_VARIABLES) && !is_secret {
        return true;
    }
    match allowed {
        Some(allowed) => allowed.iter().any(|pattern| is_match(pattern, name)),
        None => !is_secret,
    }
}

/// Whether a name fits a pattern, in which a `*` at the start or the end is any text.
fn is_match(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::agent_preset;

    #[test]
    fn every_agent_has_its_folders() {
        let known: Vec<&str> = AGENT_FOLDERS.iter().map(|folders| folders.agent).collect();
        let presets: Vec<&str> = agent_preset::ALL.iter().map(|preset| preset.name).collect();
        assert_eq!(known, presets);
        for folders in AGENT_FOLDERS {
            let preset = agent_preset::find(folders.agent).unwrap();
            for name in preset.login.iter().flat_map(|login| login.variables) {
                assert!(keeps_variable((name, ""), None, Some(folders.agent)), "{name}");
                assert!(keeps_variable((name, ""), Some(&[]), Some(folders.agent)), "{name}");
            }
        }
    }

    #[test]
    fn credentials_are_removed_and_the_own_key_stays() {
        let kept = |name: &str, agent: &str| keeps_variable((name, ""), None, Some(agent));
        let names = ["SSH_AUTH_SOCK", "VAULT_TOKEN", "GITHUB_TOKEN", "STRIPE_API_KEY", "DB_PASS"];
        for name in names {
            assert!(!kept(name, "claude"), "{name}");
            assert!(!keeps_variable((name, ""), None, None), "{name}");
        }
        assert!(kept("ANTHROPIC_API_KEY", "claude") && !kept("OPENAI_API_KEY", "claude"));
        assert!(keeps_variable(("OPENAI_API_KEY", ""), None, Some("my-agent")));
        assert!(kept("EDITOR", "claude") && kept("RALPH_TASK_ID", "claude"));
        let allowed = ["GITHUB_TOKEN".to_owned(), "CARGO_*".to_owned()];
        let kept = |name: &str| keeps_variable((name, ""), Some(&allowed), Some("claude"));
        for name in ["GITHUB_TOKEN", "CARGO_HOME", "PATH", "RALPH_RELAY", "ANTHROPIC_API_KEY"] {
            assert!(kept(name), "{name}");
        }
        assert!(!kept("EDITOR") && !kept("GH_TOKEN"));
    }
}
