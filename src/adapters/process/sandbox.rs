//! A sandbox on this machine: bubblewrap, or else Landlock.
//!
//! It belongs to the processes, and is no adapter of its own, because it rewrites a [`ProcessSpec`]
//! and both ends of it are processes of this program: `confined` puts a command line before that of
//! the agent, and [`enter`] is its last step inside.
//!
//! ```text
//! bubblewrap: guardian -> sh (ignores TERM) -> bwrap -> bwrap (PID 1) -> ralph __confine -> agent
//! Landlock:   guardian -> ralph __confine -> agent
//! ```
//!
//! An open file is a way around every mount: `/proc/self/fd/0` leads to the file as the process that
//! opened it saw it, and there it can be opened again to be written. So nothing outside is open in
//! a sandbox except pipes: the standard input is opened by [`enter`], and everything else is closed.

mod access;
mod agent_settings;
mod bubblewrap;
mod landlock;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fmt, fs, io,
    os::unix::{fs::FileTypeExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde::{Deserialize, Serialize};

use super::{ProcessSpec, program, sign};
use crate::core::{
    environment::AWAY,
    executor::{Network, SandboxEngine, SandboxSettings},
    sandbox::{CACHES, FILTERED, at_home, private_above, removed_variables, without_secrets},
};
use crate::regular_file;
use access::{AccessRules, PathAccess};
use agent_settings::AgentSettings;

/// The standard input of a process that keeps its parent's pipe.
pub const INHERITED: &str = "/dev/stdin";

/// The words of [`enter`] before the reason why it found no program.
const MISSING: &str = "cannot start in the sandbox: ";

/// The files and folders of an attempt, with absolute paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxPaths {
    /// The top of the main checkout.
    pub main: PathBuf,
    /// Git's common directory of the repository, from which slots borrow objects.
    pub git: PathBuf,
    /// The top of the worktree that may be changed: a slot, or the main checkout.
    pub worktree: PathBuf,
    /// The folder of all slots.
    pub pool: PathBuf,
    /// The folder of the task, which has the reports of the attempt.
    pub task: PathBuf,
    /// The record of the attempt.
    pub record: PathBuf,
    /// Files and folders in the main checkout that only `ralph` and people change, relative to it:
    /// the graph, the logs, the prompts, the settings.
    pub guarded: Vec<PathBuf>,
    /// Further files that must be readable, such as a graph or settings elsewhere.
    pub read: Vec<PathBuf>,
    /// Whether the agent has a terminal, whose server takes commands.
    pub has_terminal: bool,
    /// This program, as processes inside start it.
    pub ralph: PathBuf,
    /// The name of the agent's preset, if it has one.
    pub agent: Option<String>,
    /// The home folder.
    pub home: PathBuf,
    /// The environment from which that of the process is made.
    pub environment: BTreeMap<String, String>,
}

impl SandboxPaths {
    /// The home folder and the environment of this process, and no paths yet.
    pub fn of_environment() -> SandboxPaths {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        SandboxPaths {
            home: env::var_os("HOME").map(PathBuf::from).unwrap_or_default(),
            environment: env::vars_os().filter_map(text).collect(),
            ..SandboxPaths::default()
        }
    }
}

/// The machine's sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSupport {
    /// Bubblewrap or Landlock.
    pub engine: SandboxEngine,
    /// Its version.
    pub version: String,
    /// Its gaps, one sentence each.
    pub gaps: Vec<String>,
    /// The program, if it is one.
    program: PathBuf,
    /// Whether it can forbid further user namespaces.
    closes_namespaces: bool,
    /// Whether the kernel has Landlock with scopes.
    has_scopes: bool,
}

impl SandboxSupport {
    /// Its gaps in one sentence, for each start of a run; `gaps` has all.
    pub fn warning(&self) -> Option<String> {
        (self.engine == SandboxEngine::Landlock).then(|| {
            format!("the sandbox of {self} does not hold everything: {}", landlock::AGENT_SETTINGS)
        })
    }
}

impl fmt::Display for SandboxSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match self.engine {
            SandboxEngine::Bubblewrap => "bubblewrap",
            SandboxEngine::Landlock | SandboxEngine::Auto => "Landlock",
        };
        write!(f, "{engine} {}", self.version)
    }
}

/// The orders of [`enter`].
#[derive(Debug, Serialize, Deserialize)]
struct EntrySpec {
    /// The standard input.
    stdin: PathBuf,
    /// The record of the attempt, which every process of the attempt has open.
    record: PathBuf,
    /// The Landlock rules; none if mounts do that.
    rules: Option<AccessRules>,
    /// Whether signals and abstract sockets stay inside.
    scopes: bool,
}

/// Returns the sandbox support of this machine: tries it, once per process.
///
/// # Errors
/// A missing part, and how to get it.
pub fn support(engine: SandboxEngine) -> Result<SandboxSupport, String> {
    static BUBBLEWRAP: OnceLock<Result<SandboxSupport, String>> = OnceLock::new();
    static LANDLOCK: OnceLock<Result<SandboxSupport, String>> = OnceLock::new();
    let bubblewrap = || BUBBLEWRAP.get_or_init(bubblewrap::probe).clone();
    let landlock = || LANDLOCK.get_or_init(landlock::probe).clone();
    match engine {
        SandboxEngine::Bubblewrap => bubblewrap(),
        SandboxEngine::Landlock => landlock(),
        SandboxEngine::Auto => bubblewrap().or_else(|why| {
            landlock().map_err(|other| format!("no sandbox works here: {why}; {other}"))
        }),
    }
}

/// Checks that this machine supports a sandbox with these settings, whatever runs in it.
///
/// # Errors
/// A missing part, and how to get it.
pub fn check(settings: &SandboxSettings) -> Result<(), String> {
    match support(settings.engine)?.engine {
        SandboxEngine::Landlock => landlock::must_close(settings),
        SandboxEngine::Bubblewrap | SandboxEngine::Auto => Ok(()),
    }
}

/// Checks that the settings of an agent can be protected from its attempts.
///
/// # Errors
/// One of them is a link; the fix.
pub fn check_agent(settings: &SandboxSettings, agent: Option<&str>) -> Result<(), String> {
    if support(settings.engine)?.engine == SandboxEngine::Landlock {
        return Ok(());
    }
    let paths = SandboxPaths::of_environment();
    let found = AgentSettings::of(agent, &paths.home, &paths.environment);
    check_links(&found, settings, &paths)
}

fn check_links(
    found: &AgentSettings,
    settings: &SandboxSettings,
    paths: &SandboxPaths,
) -> Result<(), String> {
    let link = found.links().find(|link| !access::is_listed(&settings.write, link, &paths.home));
    link.map_or(Ok(()), |link| {
        let link = link.display();
        Err(format!(
            "`{link}` is a link, which a sandbox cannot protect from the agent; replace it with \
             what it leads to, or accept that attempts change it with `write: [{link}]` of the \
             executor"
        ))
    })
}

/// Returns the process inside a sandbox with these settings.
///
/// # Errors
/// The unenforceable part, and the fix.
pub fn confined(
    spec: ProcessSpec,
    settings: &SandboxSettings,
    paths: &SandboxPaths,
) -> Result<ProcessSpec, String> {
    super::check(&spec)?;
    let mut environment = paths.environment.clone();
    environment.extend(spec.env.iter().cloned());
    let support = support(settings.engine)?;
    let is_landlock = support.engine == SandboxEngine::Landlock;
    let own = AgentSettings::of(paths.agent.as_deref(), &paths.home, &environment);
    if !is_landlock {
        check_links(&own, settings, paths)?;
        own.provide()?;
    }
    let mut rules = AccessRules::of(settings, paths, &environment)?;
    if is_landlock {
        landlock::must_hold(settings, paths, &rules)?;
    }
    // Before the sandbox begins: its first process shows its environment to all others.
    let mut env_remove = spec.env_remove.clone();
    let allowed = settings.env.as_deref();
    env_remove.extend(removed_variables(&paths.environment, allowed, paths.agent.as_deref()));
    let mut env = spec.env.clone();
    env.push((AWAY.to_owned(), "1".to_owned()));
    rules.must_show(&paths.ralph);
    if is_landlock {
        let scratch = landlock::make_scratch(&paths.record)?;
        rules.must_write(&scratch);
        env.push(("TMPDIR".to_owned(), scratch.display().to_string()));
    } else if let Some(folder) = environment.get("TMPDIR").and_then(|it| private_above(it)) {
        // The temporary folder of the attempt is empty, and has no folder of a person's in it.
        env.push(("TMPDIR".to_owned(), folder.to_owned()));
    }
    env.extend(caches(&mut rules, paths, &environment)?);
    let entry = EntrySpec {
        stdin: spec.stdin.clone(),
        record: paths.record.clone(),
        rules: is_landlock.then(|| rules.clone()),
        scopes: support.has_scopes,
    };
    let mut inside =
        vec![paths.ralph.display().to_string(), "__confine".to_owned(), entry.to_word()];
    inside.push("--".to_owned());
    inside.extend(spec.argv.iter().cloned());
    let mut argv = match &settings.network {
        Network::Wrapper(wrapper) => wrapper.clone(),
        Network::On | Network::Off => Vec::new(),
    };
    let is_off = settings.network == Network::Off;
    if is_landlock {
        argv.extend(inside);
    } else {
        let folder = paths.record.with_extension("tmpdir");
        let mut copies = own.copy_into(&folder)?;
        copies.retain(|(_, original)| {
            rules.of_path(original) == PathAccess::Anchored
                && !access::is_listed(&settings.write, original, &paths.home)
        });
        copies.extend(filtered(&rules, paths, &environment, &folder)?);
        let masks = ["empty", "empty.json"].map(|name| folder.join(name).display().to_string());
        write(masks[0].as_ref(), b"")?;
        write(masks[1].as_ref(), b"{}\n")?;
        argv.extend(bubblewrap::command_line(&support, &rules, &copies, &masks, &spec.dir, is_off));
        argv.extend(inside);
        argv = bubblewrap::outlasting_signals(argv);
    }
    Ok(ProcessSpec { argv, env, env_remove, stdin: "/dev/null".into(), ..spec })
}

fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| regular_file::write(path, content))
        .map_err(|error| format!("write `{}`: {error}", path.display()))
}

/// Copies the shown files with a secret in one of their lines, without such lines. Returns each copy with
/// its original.
fn filtered(
    rules: &AccessRules,
    paths: &SandboxPaths,
    environment: &BTreeMap<String, String>,
    folder: &Path,
) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let mut copies = Vec::new();
    for name in FILTERED.split(' ') {
        let original = paths.home.join(name);
        let Ok(content) = regular_file::read(&original) else { continue };
        let kept = without_secrets(&content, environment);
        if rules.of_path(&original) == PathAccess::ReadOnly && kept != content {
            let copy = folder.join(format!("filtered-{}", copies.len()));
            write(&copy, &kept)?;
            copies.push((copy, original));
        }
    }
    Ok(copies)
}

/// Makes the caches of an attempt for package managers that cannot write their usual one. Returns the
/// variables that name them.
fn caches(
    rules: &mut AccessRules,
    paths: &SandboxPaths,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    let parent = paths.record.with_extension("tmpdir").join("caches");
    let mut variables = Vec::new();
    for (variable, name, usual) in CACHES {
        let usual = at_home(usual, &paths.home);
        if environment.contains_key(*variable) || rules.writes_in(&usual) {
            continue;
        }
        let folder = parent.join(name);
        fs::create_dir_all(&folder)
            .map_err(|error| format!("create `{}`: {error}", folder.display()))?;
        variables.push(((*variable).to_owned(), folder.display().to_string()));
    }
    rules.must_write(&parent);
    Ok(variables)
}

impl EntrySpec {
    fn to_word(&self) -> String {
        serde_json::to_string(self).expect("paths and names only")
    }
}

/// Takes the orders of `confined`, and runs the command in this process. Returns only if that fails.
///
/// The handlers of signals of this process are gone then, and so is that a signal was ignored.
///
/// # Errors
/// The command is missing; Landlock cannot be set up.
pub fn enter(orders: &str, argv: &[String]) -> Result<(), String> {
    let entry: EntrySpec =
        serde_json::from_str(orders).map_err(|error| format!("the orders are invalid: {error}"))?;
    let (name, arguments) = argv.split_first().ok_or("the command is empty")?;
    close_inherited().map_err(|error| format!("close what was inherited: {error}"))?;
    let is_pipe = || fs::metadata(INHERITED).is_ok_and(|found| found.file_type().is_fifo());
    if entry.stdin != Path::new(INHERITED) || !is_pipe() {
        let open = |error: io::Error| format!("open `{}`: {error}", entry.stdin.display());
        let stdin = regular_file::open_input(&entry.stdin);
        rustix::stdio::dup2_stdin(&stdin.map_err(open)?).map_err(|error| open(error.into()))?;
    }
    // Stays open in the agent and in all that it starts.
    let record =
        sign(&entry.record).map_err(|error| format!("open the record of the attempt: {error}"))?;
    let dir = env::current_dir().map_err(|error| format!("the working directory: {error}"))?;
    let search = env::var_os("PATH");
    let program =
        program::find(name, &dir, search.as_deref()).map_err(|why| format!("{MISSING}{why}"))?;
    landlock::restrict(entry.rules.as_ref(), entry.scopes)?;
    let error = Command::new(&program).arg0(name).args(arguments).exec();
    drop(record);
    Err(format!("cannot start `{}` in the sandbox: {error}", program.display()))
}

/// Returns why [`enter`] found no program, if the last line of a process that ended so says that.
pub fn missing_program(last_line: &str) -> Option<String> {
    last_line.split_once(MISSING).map(|(_, why)| format!("in the sandbox, {why}"))
}

/// Closes inherited files, except standard input, output and error: all that stays open when it
/// becomes another program.
#[cfg(target_os = "linux")]
fn close_inherited() -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let open = open.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in open.filter(|number| *number > 2 && is_inherited(*number)).collect::<Vec<_>>() {
        nix::unistd::close(number)?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_inherited(number: i32) -> bool {
    const CLOSES: u32 = rustix::fs::OFlags::CLOEXEC.bits();
    let Ok(text) = fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else {
        return false;
    };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & CLOSES == 0)
}

#[cfg(not(target_os = "linux"))]
fn close_inherited() -> io::Result<()> {
    Ok(())
}
