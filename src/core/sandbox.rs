//! The defaults of a sandbox: hidden, removed and allowed names.
//!
//! Only names and patterns; the adapter looks for the files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::redact::{self, Redactor, names_secret_place};

/// The names shown in the private home folder of a sandbox, besides those without a full stop:
/// tools, caches, and settings without secrets. `!` precedes the names hidden in a folder.
pub const SHOWN: &str = ".gitconfig .gitignore_global .gitignore .gitattributes .editorconfig \
    .prettierrc .eslintrc.json .clang-format .shellcheckrc .tool-versions .asdfrc .profile .bashrc \
    .bash_profile .zshrc .zshenv .zprofile .inputrc .Rprofile .hushlogin .nvmrc .node-version \
    .python-version .ruby-version .rbenv .nodenv .volta .bun .deno .nvm .fnm .pyenv .asdf .asdf-vm \
    .sdkman .jenv .jdks .goenv .gvm .rustup .cargo!credentials,credentials.toml .elan .ghcup .opam \
    .julia .juliaup .konan .linuxbrew .mamba .conda .micromamba .moon .mix .hex!hex.config .nimble!github_api_token .nix-profile \
    .nix-defexpr .phpbrew .phpenv .pixi!credentials.json .plenv .proto .racket .raku .roswell .rubies .rvm .rye \
    .sbt!.credentials,1.0 .stack!upload .svm .swiftenv .swiftly .swiftpm .tfenv .zvm .foundry!keystores .fvm \
    .espressif .arduino15 .clojure .cmake .luarocks!upload_config.lua .platformio!appstate.json .dub \
    .gem!credentials .npm .npm-global .npm-packages .pnpm-store .yarn .node-gyp .nx .m2/repository \
    .m2/wrapper .m2/toolchains.xml .gradle!gradle.properties,init.d,init.gradle \
    .ivy2!.credentials .kotlin .dartServer .pub-cache!credentials.json .cpan .cabal!config .lein!credentials.clj.gpg,profiles.clj \
    .nuget/packages .dotnet .terraform.d/plugins .terraform.d/plugin-cache .pulumi/plugins .pulumi/bin \
    .docker/cli-plugins .krew .conan2/p .keras .triton .nv .wp-cli .xmake .vmodules .embedmongo \
    .emscripten_cache .java .android!adbkey,adbkey.pub .local/bin .local/lib .local/include \
    .local/share/applications .local/share/aquaproj-aqua .local/share/devbox .local/share/fnm \
    .local/share/fonts .local/share/gem!credentials .local/share/hatch .local/share/mise .local/share/pipx \
    .local/share/pnpm .local/share/man .local/share/claude .local/share/cursor-agent .local/share/svm .local/share/uv!credentials \
    .local/share/virtualenvs .local/share/nvm .local/share/rtx .local/share/bash-completion \
    .local/state/mise .local/state/nix .local/state/cabal .cache/Cypress .cache/bazel .cache/bazelisk \
    .cache/black .cache/ccache .cache/composer .cache/deno .cache/electron .cache/elixir_make \
    .cache/fontconfig .cache/gem .cache/go-build .cache/golangci-lint .cache/hatch .cache/helm \
    .cache/huggingface!token,stored_tokens .cache/matplotlib .cache/meson .cache/mise .cache/ms-playwright \
    .cache/mypy .cache/node .cache/node-gyp .cache/org.swift.swiftpm .cache/pdm .cache/pip \
    .cache/pnpm .cache/pre-commit .cache/prisma .cache/puppeteer .cache/pypoetry .cache/rebar3 .cache/ruff \
    .cache/sccache .cache/selenium .cache/staticcheck .cache/torch .cache/typescript .cache/uv .cache/vcpkg \
    .cache/yarn .cache/zig .config/ccache .config/clangd .config/git!credentials .config/go .config/matplotlib \
    .config/mise .config/nix .config/rubocop .config/user-dirs.dirs .config/uv .config/rustfmt";

/// Whether a sandbox shows this name in the home folder to some agent.
pub fn is_shown(name: &str) -> bool {
    let first = |path: &str| path.split(['/', '!']).next() == Some(name);
    let own = AGENT_FOLDERS.iter().flat_map(|folders| folders.own);
    !name.starts_with('.')
        || SHOWN.split(' ').any(first)
        || own.filter_map(|path| path.strip_prefix("~/")).any(first)
}

/// Files among them that may mix secrets with settings for tools: lines with a secret are left out.
pub const FILTERED: &str = ".gitconfig .cargo/config .cargo/config.toml .config/git/config .config/go/env \
    .config/nix/nix.conf .config/uv/uv.toml .bashrc .bash_profile .profile .zshrc .zshenv .zprofile";

/// Returns a file without its lines that hold a secret.
pub fn without_secrets(content: &[u8], environment: &BTreeMap<String, String>) -> Vec<u8> {
    let variables = environment.iter().map(|(name, value)| (name.into(), value.into()));
    let secrets = Redactor::of_variables(variables);
    let text = String::from_utf8_lossy(content);
    let is_open = |line: &&str| secrets.clone().text(line) == **line;
    let kept: String = text.split_inclusive('\n').filter(is_open).collect();
    if kept == text { content.to_vec() } else { kept.into_bytes() }
}

/// Whether a folder leaves out a name.
pub type LeftOut = Box<dyn Fn(&str) -> bool>;

/// A path that a private folder shows.
pub struct ShownPath {
    /// The private folder.
    pub folder: PathBuf,
    /// The path in it.
    pub path: PathBuf,
    /// Whether a name in it is left out; none if all of it is shown.
    pub left_out: Option<LeftOut>,
}

/// Returns a path that may start with `~/`.
pub fn at_home(path: &str, home: &Path) -> PathBuf {
    path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |rest| home.join(rest))
}

/// Returns a path of the settings.
///
/// # Errors
/// It is not absolute.
pub fn named(path: &str, home: &Path, setting: &str) -> Result<PathBuf, String> {
    let found = if path == "~" { home.to_owned() } else { at_home(path, home) };
    if found.is_absolute() {
        return Ok(found);
    }
    let path = path.escape_debug();
    Err(format!(
        "`{setting}` of the sandbox names `{path}`; use an absolute path, or one with `~/`"
    ))
}

/// The paths that a sandbox shows: the home folder first, then the folders that replace a part of
/// it.
pub fn shown_paths(home: &Path, environment: &BTreeMap<String, String>) -> Vec<ShownPath> {
    let hides_dots = |folder: &Path| ShownPath {
        folder: folder.to_owned(),
        path: PathBuf::new(),
        left_out: Some(Box::new(|name| name.starts_with('.'))),
    };
    let shown = |folder: &Path, path: &str, left_out: &'static str| ShownPath {
        folder: folder.to_owned(),
        path: path.into(),
        left_out: (!left_out.is_empty())
            .then(|| -> LeftOut { Box::new(move |name| left_out.split(',').any(|it| it == name)) }),
    };
    let mut all = vec![hides_dots(home)];
    let moved = |(variable, usual): &(&str, &'static str)| {
        let folder = PathBuf::from(environment.get(*variable)?);
        let is_other = folder.is_absolute() && !home.starts_with(&folder);
        (is_other && folder != home.join(usual)).then_some((folder, *usual))
    };
    let moved: Vec<(PathBuf, &str)> = MOVED_BY_VARIABLE.iter().filter_map(moved).collect();
    all.extend(
        moved.iter().map(|(folder, _)| ShownPath {
            left_out: Some(Box::new(|_| true)),
            ..hides_dots(folder)
        }),
    );
    for word in SHOWN.split(' ') {
        let (path, left_out) = word.split_once('!').unwrap_or((word, ""));
        all.push(shown(home, path, left_out));
        let there =
            moved.iter().filter_map(|(folder, usual)| Some((folder, path.strip_prefix(*usual)?)));
        all.extend(there.map(|(folder, path)| shown(folder, path, left_out)));
    }
    let search = environment.get("PATH").into_iter().flat_map(|it| it.split(':')).map(Path::new);
    let programs = search.filter(|it| it.ends_with("bin") || it.ends_with("shims"));
    let programs = programs.filter_map(|folder| folder.strip_prefix(home).ok()?.to_str());
    all.extend(programs.map(|path| shown(home, path, "")));
    all
}

/// The paths that every sandbox hides.
pub fn hidden_paths(home: &Path, environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = HIDDEN.iter().map(|path| at_home(path, home)).collect();
    // Settings of the machine hold no credentials of a person.
    let is_of_machine = |path: &str| {
        ["/usr/", "/etc/", "/lib", "/nix/", "/bin/"].iter().any(|folder| path.starts_with(folder))
    };
    let named = environment.iter().filter(|(name, value)| {
        names_secret_place(name) && !(name.contains("CONF") && is_of_machine(value))
    });
    let named = named.map(|(name, _)| name.as_str());
    for word in HIDDEN_BY_VARIABLE.split(' ').chain(named) {
        let (variable, file) = word.split_once('/').unwrap_or((word, ""));
        let named = environment.get(variable).into_iter().flat_map(|it| it.split(':'));
        let named =
            named.map(|path| Path::new(path).components().chain(Path::new(file).components()));
        paths.extend(named.map(Iterator::collect::<PathBuf>));
    }
    paths.extend(sockets(environment));
    // A variable may name the home folder, or a device.
    let is_private = |path: &Path| PRIVATE.iter().any(|folder| path.starts_with(folder));
    let is_device = |path: &Path| path.starts_with("/dev") && !is_private(path);
    paths.retain(|path| path.is_absolute() && !home.starts_with(path) && !is_device(path));
    paths
}

/// The sockets that variables name.
fn sockets(environment: &BTreeMap<String, String>) -> impl Iterator<Item = PathBuf> {
    let names = |name: &str| {
        ["SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST"].contains(&name)
            || name.starts_with("DBUS_")
    };
    let values = environment.iter().filter(move |(name, _)| names(name)).map(|(_, value)| value);
    values.map(|value| {
        let path = value.split([',', ';']).next().unwrap_or_default();
        let path = path.trim_start_matches("unix:").trim_start_matches("path=");
        PathBuf::from(path.replace("//", "/"))
    })
}

/// Folders in the home folder that a variable names elsewhere.
pub const MOVED_BY_VARIABLE: &[(&str, &str)] = &[
    ("XDG_CACHE_HOME", ".cache/"),
    ("XDG_CONFIG_HOME", ".config/"),
    ("XDG_DATA_HOME", ".local/share/"),
    ("XDG_STATE_HOME", ".local/state/"),
];

/// Files and folders that are hidden elsewhere: names in the home folder without a full stop, sockets
/// of programs that do more than a sandbox may, password hashes and keys that root can read.
pub const HIDDEN: &[&str] = &[
    "~/_netrc",
    "~/clearml.conf",
    "~/snap",
    "/var/lib/docker",
    "/var/lib/incus/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
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

/// Variables that name a folder with credentials although their names do not
/// [say so](names_secret_place), each with the file in it that has them, if others are needed.
pub const HIDDEN_BY_VARIABLE: &str = "CARGO_HOME/credentials.toml CARGO_HOME/credentials \
    DOCKER_CERT_PATH REGISTRY_AUTH_FILE GNUPGHOME GOOGLE_APPLICATION_CREDENTIALS MINIKUBE_HOME \
    BUNDLE_APP_CONFIG/config COMPOSER_HOME/auth.json GRADLE_USER_HOME/gradle.properties \
    MAVEN_USER_HOME/settings.xml MAVEN_CONFIG/settings.xml PULUMI_HOME/credentials.json \
    VAGRANT_HOME/data MYSQL_TEST_LOGIN_FILE MYSQL_HOME/my.cnf DBT_PROFILES_DIR/profiles.yml \
    HF_HOME/token PASSWORD_STORE_DIR SNOWFLAKE_HOME CURL_HOME/.curlrc JUPYTER_RUNTIME_DIR \
    ANDROID_USER_HOME/adbkey CONAN_HOME/credentials.json HEX_HOME/hex.config STACK_ROOT/upload \
    PUB_CACHE/credentials.json NUGET_CREDENTIALPROVIDER_SESSIONTOKENCACHE_PATH HELM_CONFIG_HOME \
    PGSSLKEY XAUTHORITY";

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

/// The private folder that contains a path; none if it is in none, or is one.
pub fn private_above(path: &str) -> Option<&'static str> {
    let is_above = |folder: &&str| path != *folder && Path::new(path).starts_with(folder);
    PRIVATE.iter().copied().find(is_above)
}

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

/// The files and folders of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentFolders {
    /// The name of its preset.
    pub agent: &'static str,
    /// The files and folders that it writes; those that end in `/` are created if they are missing.
    /// The first one has its settings.
    pub own: &'static [&'static str],
    /// The variables that name another folder for the first one.
    pub named_by: &'static [&'static str],
    /// Its settings, instructions and programs in the first one; folders end in `/`. A change by an
    /// attempt would act outside, when a person starts the same agent.
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
            "~/.claude/projects/*/memory/",
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

/// Returns the files and folders of an agent; none for an unknown agent.
pub fn folders_of(agent: &str) -> Option<&'static AgentFolders> {
    AGENT_FOLDERS.iter().find(|folders| folders.agent == agent)
}

/// Whether a process keeps a variable.
///
/// `allowed` is the list of the settings, if any. The credentials of the agent stay; those of every
/// known agent stay for an unknown agent.
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

/// The variables of an environment that a process does not keep; see [`keeps_variable`].
pub fn removed_variables<'a>(
    environment: &'a BTreeMap<String, String>,
    allowed: Option<&'a [String]>,
    agent: Option<&'a str>,
) -> impl Iterator<Item = String> + 'a {
    let other = environment
        .iter()
        .filter(move |(name, value)| !keeps_variable((name, value), allowed, agent));
    other.map(|(name, _)| name.clone())
}

/// Whether a name matches a pattern, where a `*` at the start or the end is any text.
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
    fn the_home_folder_shows_tools_and_no_credentials() {
        for name in [".ssh", ".aws", ".netrc", ".npmrc", ".kube", ".mozilla", ".bash_history"] {
            assert!(!is_shown(name), "{name}");
        }
        for name in [".cargo", ".rustup", ".config", ".gitconfig", ".claude", "code"] {
            assert!(is_shown(name), "{name}");
        }
        for word in SHOWN.split(' ') {
            assert!(word.starts_with('.') && !word.ends_with('/'), "{word:?}");
        }
    }

    #[test]
    fn files_that_variables_name_as_secret_are_hidden() {
        let hides = |name: &str, path: &str| {
            let environment = [(name.to_owned(), path.to_owned())].into();
            hidden_paths(Path::new("/home/u"), &environment).contains(&PathBuf::from(path))
        };
        let names = "KUBECONFIG TALOSCONFIG SCW_CONFIG_PATH AZURE_FEDERATED_TOKEN_FILE COSIGN_KEY \
            MY_APP_CREDENTIALS_FILE PSQL_HISTORY REDISCLI_HISTFILE HISTFILE NETRC PGPASSFILE CONDARC \
            npm_config_userconfig POETRY_CONFIG_DIR AWS_SHARED_CREDENTIALS_FILE BORG_KEYS_DIR WGETRC";
        for name in names.split_whitespace() {
            assert!(hides(name, "/home/u/x"), "{name}");
        }
        for name in "MAVEN_CONFIG PKG_CONFIG_PATH GIT_CONFIG_GLOBAL SSL_CERT_FILE CARGO_HOME \
            npm_config_cache XDG_CONFIG_HOME VIRTUAL_ENV PYTHONPATH"
            .split_whitespace()
        {
            assert!(!hides(name, "/home/u/x"), "{name}");
        }
        assert!(!hides("OPENSSL_CONFIG", "/etc/ssl/openssl.cnf"));
        assert!(hides("VAULT_TOKEN_FILE", "/etc/vault/token"));
    }

    #[test]
    fn sockets_are_found_in_variables() {
        let environment = [
            ("SSH_AUTH_SOCK", "/a/agent"),
            ("DOCKER_HOST", "unix:///a/docker.sock"),
            ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/a/bus,guid=1;unix:abstract=x"),
            ("CONTAINER_HOST", "tcp://host:1"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = hidden_paths(Path::new("/home/u"), &environment.into());
        for path in ["/a/bus", "/a/docker.sock", "/a/agent"].map(PathBuf::from) {
            assert!(found.contains(&path), "{}", path.display());
        }
        assert!(!found.iter().any(|path| path.ends_with("host:1")));
    }

    #[test]
    fn a_line_with_a_secret_is_left_out() {
        let text = ["[user]\n  name = a\n[github]\n  oauthtoken = ", "aB3xyz9qaB3xyz9q\n"].concat();
        let kept = without_secrets(text.as_bytes(), &BTreeMap::new());
        assert_eq!(kept, b"[user]\n  name = a\n[github]\n");
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
        for name in ["GITHUB_TOKEN", "CARGO_HOME", "PATH", "RALPH_AWAY", "ANTHROPIC_API_KEY"] {
            assert!(kept(name), "{name}");
        }
        assert!(!kept("EDITOR") && !kept("GH_TOKEN"));
    }
}
