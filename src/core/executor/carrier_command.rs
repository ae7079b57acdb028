//! The command that starts `ralph __worker` at an executor; and this program on its way to an ssh
//! host: the script that receives it there, and its answers.
//!
//! Its standard input and output are those of the worker. No variable of an attempt and no text of
//! a task is in it: other users of both machines can read command lines.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use super::{
    CommandSettings, ContainerSettings, Executor, ExecutorKind, FileTravel, Resources,
    SlurmSettings, SshSettings,
};

/// The command of the program that guards an agent at an executor.
const WORKER: &str = "__worker";
/// Where a container has this program, so that an agent in it finds it.
const IN_CONTAINER: &str = "/usr/local/bin/ralph";
/// The variables that a job on a cluster gets with the worker; all others are sent to the worker.
const JOB_VARIABLES: &str = "PATH,HOME,USER,LOGNAME,SHELL,LANG,LC_ALL";
/// The time that a job may outlive its process, for its start and its files.
const JOB_SLACK: Duration = Duration::from_secs(5 * 60);
/// The arguments of `srun` that other arguments or settings determine.
const OWN_ARGUMENTS: [&str; 14] = [
    "chdir", "comment", "error", "export", "help", "input", "job-name", "jobid", "label", "nodes",
    "ntasks", "output", "pty", "version",
];

/// The parts of the command besides the settings of the executor.
#[derive(Clone, Copy, Debug)]
pub struct CarrierFacts<'a> {
    /// This program, an absolute path without links.
    pub ralph: &'a Path,
    /// The path of the program there, if it was sent.
    pub sent_ralph: Option<&'a str>,
    /// The mark of the attempt, which no other attempt has.
    pub mark: &'a str,
    /// The home folder, for `~` in settings.
    pub home: &'a Path,
    /// The folder that the processes work in.
    pub slot: &'a Path,
    /// The other paths that they must see under the same path.
    pub mounts: &'a [SharedPath],
    /// The resources of the task; they override the settings.
    pub resources: &'a Resources,
    /// The time limit of the process.
    pub time_limit: Option<Duration>,
    /// The container engine, for an executor that is a container.
    pub container: Option<&'a ContainerEngine>,
    /// The names of the variables of this process that `srun` would read as arguments: it has them
    /// if it runs in a job itself.
    pub slurm_variables: &'a [String],
}

/// A file or folder that is mounted under the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPath {
    /// The file or folder.
    pub path: PathBuf,
    /// Whether it may not be changed.
    pub read_only: bool,
}

/// The program that runs containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEngine {
    /// The program.
    pub program: String,
    /// The user in a container.
    pub user: ContainerUser,
}

/// The user in a container, chosen so that files belong to the user of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerUser {
    /// The root of the container is the user of this process, or both are root.
    Root,
    /// The user has the same id inside, as `--userns=keep-id` of a podman without root makes it.
    KeepId,
    /// The ids, for an engine that runs as root.
    Ids {
        /// The user.
        user: u32,
        /// The group.
        group: u32,
    },
}

/// Returns the name of an attempt's container.
pub fn container_name(mark: &str) -> String {
    format!("ralph-{mark}")
}

/// The prefix of the names of jobs on a cluster, before the mark of their attempt.
pub const JOB_PREFIX: &str = "ralph:";

/// Returns the name of an attempt's jobs on a cluster.
pub fn job_name(mark: &str) -> String {
    format!("{JOB_PREFIX}{mark}")
}

/// Returns the command that starts a worker at this executor.
///
/// # Errors
/// The setting that cannot be used, and why.
pub fn carrier_command(
    executor: &Executor,
    facts: &CarrierFacts<'_>,
) -> Result<Vec<String>, String> {
    let command = match &executor.kind {
        ExecutorKind::Local | ExecutorKind::Sandbox(_) => {
            Err("its processes are started without a worker".to_owned())
        }
        ExecutorKind::Container(settings) => container(settings, facts),
        ExecutorKind::Slurm(settings) => slurm(settings, facts),
        ExecutorKind::Ssh(settings) => {
            let ralph = facts.sent_ralph.or(settings.ralph.as_deref()).unwrap_or("ralph");
            worker_by_shell(ralph).and_then(|script| ssh_command(settings, &script))
        }
        ExecutorKind::Command(settings) => by_command(settings, facts),
    };
    command.map_err(|why| format!("executor `{}`: {why}", executor.name))
}

/// Returns the command with which a person tries whether `ssh` reaches the host, for a shell.
pub fn ssh_trial(settings: &SshSettings) -> String {
    let is_plain =
        |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@%=:,".contains(c));
    let shown = |word: &String| {
        if is_plain(word) && !word.is_empty() { word.clone() } else { quoted(word) }
    };
    let mut command = words(["ssh"]);
    command.extend(settings.args.iter().map(shown));
    command.extend(words(["-o", "BatchMode=yes"]));
    command.extend([shown(&settings.host), "true".to_owned()]);
    command.join(" ")
}

/// Returns the `ssh` that runs a script of a POSIX shell on the host, whatever the login shell of
/// the user there is.
///
/// # Errors
/// The setting that cannot be used, and why.
pub fn ssh_command(settings: &SshSettings, script: &str) -> Result<Vec<String>, String> {
    let host = &settings.host;
    if host.is_empty() || host.starts_with('-') || host.contains(char::is_whitespace) {
        return Err(format!("`host: {}` is no host of ssh", host.escape_debug()));
    }
    // The first value of an option counts: the user's arguments override these.
    let mut command = words(["ssh"]);
    command.extend(settings.args.iter().cloned());
    command.push("-T".to_owned());
    for option in [
        "BatchMode=yes",
        "ConnectTimeout=30",
        "ServerAliveInterval=15",
        "ServerAliveCountMax=4",
        "RemoteCommand=none",
        // A connection that others share would end with this process.
        "ControlMaster=no",
    ] {
        command.extend(words(["-o", option]));
    }
    let script = format!("exec sh -c {}", quoted_for_any_shell(script)?);
    command.extend(["--".to_owned(), host.clone(), script]);
    Ok(command)
}

/// Returns the script that becomes a worker. Logins without a terminal rarely have the user's
/// folders of programs in `PATH`.
fn worker_by_shell(ralph: &str) -> Result<String, String> {
    Ok(format!(
        "PATH=\"$PATH:$HOME/.local/bin:$HOME/.cargo/bin\"; exec {} {WORKER}",
        shell_path(ralph)?
    ))
}

/// Returns a path as a word of a POSIX shell, with `~` as its home folder.
pub(super) fn shell_path(path: &str) -> Result<String, String> {
    if path.is_empty() || path.starts_with('-') {
        return Err(format!("`{}` is no path", path.escape_debug()));
    }
    Ok(match path.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", quoted(rest)),
        None => quoted(path),
    })
}

fn container(
    settings: &ContainerSettings,
    facts: &CarrierFacts<'_>,
) -> Result<Vec<String>, String> {
    let engine = facts.container.ok_or("it is not known what runs containers here")?;
    if settings.image.is_empty() || settings.image.starts_with('-') {
        let image = settings.image.escape_debug();
        return Err(format!("`image: {image}` is no name of an image"));
    }
    let mut command = vec![engine.program.clone(), "run".to_owned()];
    command.extend(settings.args.iter().cloned());
    // The engine must not keep the output of an agent: secrets are removed from it only here.
    command.extend(words(["--interactive", "--rm", "--log-driver=none"]));
    command.push(format!("--name={}", container_name(facts.mark)));
    command.push(format!("--label=ralph={}", facts.mark));
    // Files of the user must not be relabeled, and are not readable with their own labels.
    command.push("--security-opt=label=disable".to_owned());
    match engine.user {
        ContainerUser::Root => {}
        ContainerUser::KeepId => command.push("--userns=keep-id".to_owned()),
        ContainerUser::Ids { user, group } => command.push(format!("--user={user}:{group}")),
    }
    command.push(mount(facts.ralph, Path::new(IN_CONTAINER), true)?);
    command.push(mount(facts.slot, facts.slot, false)?);
    for shared in facts.mounts {
        command.push(mount(&shared.path, &shared.path, shared.read_only)?);
    }
    for text in &settings.mounts {
        let (from, to, read_only) = mount_setting(text, facts.home)?;
        command.push(mount(&from, &to, read_only)?);
    }
    command.push(format!("--workdir={}", text(facts.slot)?));
    command.push(format!("--entrypoint={IN_CONTAINER}"));
    command.extend([settings.image.clone(), WORKER.to_owned()]);
    Ok(command)
}

/// Reads an entry of `mounts`: from, to, and whether it may not be changed.
fn mount_setting(text: &str, home: &Path) -> Result<(PathBuf, PathBuf, bool), String> {
    let wrong = || format!("`mounts: {}` is not `FROM:TO` or `FROM:TO:ro`", text.escape_debug());
    let parts: Vec<&str> = text.split(':').collect();
    let (from, to, read_only) = match parts[..] {
        [from, to] | [from, to, "rw"] => (from, to, false),
        [from, to, "ro"] => (from, to, true),
        _ => return Err(wrong()),
    };
    let expand = |path: &str| match path.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(path),
    };
    let (from, to) = (expand(from), expand(to));
    if !from.is_absolute() || !to.is_absolute() {
        return Err(format!("{}; both must be absolute paths", wrong()));
    }
    Ok((from, to, read_only))
}

fn mount(from: &Path, to: &Path, read_only: bool) -> Result<String, String> {
    let (from, to) = (text(from)?, text(to)?);
    for path in [&from, &to] {
        // The engines read the argument as a row of comma-separated values.
        if path.contains([',', '"', '\n']) {
            let path = path.escape_debug();
            return Err(format!("`{path}` cannot be mounted: it contains a comma or a quote"));
        }
    }
    let end = if read_only { ",readonly" } else { "" };
    Ok(format!("--mount=type=bind,source={from},target={to}{end}"))
}

fn slurm(settings: &SlurmSettings, facts: &CarrierFacts<'_>) -> Result<Vec<String>, String> {
    let mut command = Vec::new();
    if !facts.slurm_variables.is_empty() {
        command.push("env".to_owned());
        for name in facts.slurm_variables {
            command.extend(["-u".to_owned(), name.clone()]);
        }
    }
    command.push("srun".to_owned());
    command.extend(settings.partition.iter().map(|name| format!("--partition={name}")));
    let mut resources = settings.resources.0.clone();
    resources.extend(facts.resources.0.clone());
    if let Some(limit) = facts.time_limit.filter(|_| !resources.contains_key("time")) {
        let minutes = (limit + JOB_SLACK).as_secs().div_ceil(60);
        command.push(format!("--time={minutes}"));
    }
    for (name, value) in &resources {
        command.extend(resource(name, value)?);
    }
    command.extend(settings.args.iter().cloned());
    command.extend(words(["--nodes=1", "--ntasks=1", "--unbuffered", "--quiet"]));
    command.extend(words(["--kill-on-bad-exit=1", "--chdir=/"]));
    command.push(format!("--export={JOB_VARIABLES}"));
    command.push(format!("--job-name={}", job_name(facts.mark)));
    command.push(format!("--comment={}", job_name(facts.mark)));
    let ralph = there(settings.ralph.as_deref(), settings.files, facts)?;
    command.extend([ralph, WORKER.to_owned()]);
    Ok(command)
}

/// Returns the argument of `srun` for an entry of `resources`.
fn resource(name: &str, value: &Value) -> Result<Option<String>, String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_name) {
        let name = name.escape_debug();
        return Err(format!("`resources: {name}` is no argument of srun, such as `cpus-per-task`"));
    }
    if OWN_ARGUMENTS.contains(&name) {
        return Err(format!("`resources: {name}` cannot be set: ralph needs its own"));
    }
    Ok(match value {
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some(format!("--{name}")),
        Value::Number(number) => Some(format!("--{name}={number}")),
        Value::String(text) => Some(format!("--{name}={text}")),
        Value::Array(_) | Value::Object(_) => {
            return Err(format!("`resources: {name}` must be a number, a text, or true or false"));
        }
    })
}

fn by_command(settings: &CommandSettings, facts: &CarrierFacts<'_>) -> Result<Vec<String>, String> {
    if settings.argv.first().is_none_or(String::is_empty) {
        return Err("`argv` is empty".to_owned());
    }
    let ralph = there(settings.ralph.as_deref(), settings.files, facts)?;
    let argv = settings.argv.iter().map(|word| with_names(word, facts.mark));
    Ok(argv.chain([ralph, WORKER.to_owned()]).collect())
}

/// Returns a word of a command with the names of the run, the task and the attempt, in letters that
/// may stand in the name of a machine.
fn with_names(word: &str, mark: &str) -> String {
    let (run, rest) = mark.split_once('.').unwrap_or((mark, ""));
    let (task, attempt) = rest.rsplit_once('.').unwrap_or((rest, ""));
    let name = |text: &str| -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        text.chars().map(plain).collect()
    };
    [("{run}", run), ("{task}", task), ("{attempt}", attempt)]
        .iter()
        .fold(word.to_owned(), |word, (mark, text)| word.replace(mark, &name(text)))
}

/// Returns the path of the program at the executor.
fn there(
    setting: Option<&str>,
    files: FileTravel,
    facts: &CarrierFacts<'_>,
) -> Result<String, String> {
    match (facts.sent_ralph.or(setting), files) {
        (Some(path), _) => Ok(path.to_owned()),
        (None, FileTravel::Shared) => text(facts.ralph),
        (None, FileTravel::Sent) => Ok("ralph".to_owned()),
    }
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("`{}` is not valid UTF-8", path.display()))
}

/// Returns a text as one word of a shell command.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:".contains(c);
    let is_plain = !text.is_empty() && text.chars().all(plain);
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Quotes a word for a POSIX shell, without a backslash.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

/// Quotes a word for POSIX shells, fish and csh alike. A quote in it is put between double quotes:
/// fish reads a backslash between single quotes, and csh reads a `!` everywhere.
fn quoted_for_any_shell(word: &str) -> Result<String, String> {
    match word.chars().find(|c| "\\!".contains(*c) || c.is_control()) {
        None => Ok(quoted(word)),
        Some(odd) => {
            let odd = odd.escape_debug();
            Err(format!("a path on the host contains `{odd}`, which shells read differently"))
        }
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// The folder on a host if the settings name none.
const DIR: &str = "~/.cache/ralph";

/// A build of this program.
#[derive(Clone, Debug)]
pub struct ProgramBuild {
    /// Its version.
    pub version: String,
    /// The system and processor that it was built for, as `uname -sm` prints them.
    pub system: String,
    /// Its hash, which differs in other builds of this version.
    pub hash: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The first answer of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// It has the program, at this path.
    Has(String),
    /// It waits for the program, and will have it at this path.
    Wants(String),
}

impl ProgramBuild {
    /// Returns the script of a POSIX shell that receives the program on its standard input and
    /// keeps it below `dir`. A program that was not received as a whole, or does not run there, is
    /// removed.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn script(&self, dir: Option<&str>) -> Result<String, String> {
        let dir = shell_path(dir.unwrap_or(DIR))?;
        let ProgramBuild { version, hash, size, .. } = self;
        let name = quoted(&format!("ralph-{version}-{hash}"));
        Ok(format!(
            "m=; for c in uname wc mkdir cat chmod mv rm; do command -v $c >/dev/null || m=\"$m $c\"; \
             done; if [ -n \"$m\" ]; then echo \"it lacks the programs$m\" >&2; exit 1; fi; \
             trap \"\" HUP PIPE; d={dir}/bin; f=$d/{name}; echo ralph-host $(uname -sm); \
             whole() {{ [ -f \"$1\" ] && [ $(wc -c < \"$1\") -eq {size} ]; }}; \
             if whole \"$f\" && \"$f\" --version >/dev/null 2>&1; \
             then echo \"has $f\"; exit 0; fi; \
             umask 077; mkdir -p \"$d\" || exit 1; t=$f.$$; trap 'rm -f \"$t\"' EXIT; \
             : > \"$t\" || exit 1; echo \"wants $f\"; cat > \"$t\" || exit 1; \
             if whole \"$t\"; then :; else echo it arrived incomplete >&2; exit 1; fi; \
             chmod 700 \"$t\" && \"$t\" --version >/dev/null && mv \"$t\" \"$f\" && echo received"
        ))
    }

    /// Reads the first lines of the host; none if more must be read. A greeting of the host before
    /// them is skipped.
    ///
    /// # Errors
    /// The host is of another kind.
    pub fn answer(&self, lines: &str) -> Result<Option<HostAnswer>, String> {
        let mut ours = lines.lines().skip_while(|line| !line.starts_with("ralph-host "));
        let (Some(host), Some(answer)) = (ours.next(), ours.next()) else { return Ok(None) };
        let system = host.trim_start_matches("ralph-host ").trim();
        if system != self.system {
            return Err(format!(
                "it is {system}, and this program is for {}; install ralph {} there and set \
                 `ralph` to its path",
                self.system, self.version
            ));
        }
        Ok(match answer.split_once(' ') {
            Some(("has", path)) => Some(HostAnswer::Has(path.to_owned())),
            Some(("wants", path)) => Some(HostAnswer::Wants(path.to_owned())),
            _ => return Err(format!("its answer cannot be read: {}", answer.escape_debug())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(resources: &Resources) -> CarrierFacts<'_> {
        CarrierFacts {
            ralph: Path::new("/opt/ralph"),
            sent_ralph: None,
            mark: "r1.a.2",
            home: Path::new("/home/tess"),
            slot: Path::new("/data/p.slots/1"),
            mounts: &[],
            resources,
            time_limit: None,
            container: None,
            slurm_variables: &[],
        }
    }

    fn command(kind: &str, facts: &CarrierFacts<'_>) -> Result<Vec<String>, String> {
        let kind = serde_json::from_str(kind).unwrap();
        carrier_command(&Executor { name: "far".to_owned(), kind }, facts)
    }

    #[test]
    fn ssh_gets_the_alias_and_one_word_for_any_shell() {
        let resources = Resources::default();
        let kind = r#"{"ssh": {"host": "big", "args": ["-p", "2222"], "ralph": "~/my bin/ralph"}}"#;
        let command = command(kind, &facts(&resources)).unwrap();
        assert_eq!(command[..4], ["ssh", "-p", "2222", "-T"]);
        assert_eq!(
            command[command.len() - 3..],
            [
                "--",
                "big",
                "exec sh -c 'PATH=\"$PATH:$HOME/.local/bin:$HOME/.cargo/bin\"; \
                 exec \"$HOME\"/'\"'\"'my bin/ralph'\"'\"' __worker'"
            ]
        );
    }

    #[test]
    fn ssh_gets_no_option_for_a_host_and_no_word_that_shells_read_differently() {
        let resources = Resources::default();
        for (host, ralph) in [
            ("-oProxyCommand=date", "ralph"),
            ("", "ralph"),
            ("a b", "ralph"),
            ("big", "-x"),
            ("big", ""),
            ("big", "a\\\\b"),
            ("big", "a!b"),
            ("big", "a\\nb"),
        ] {
            let kind = format!(r#"{{"ssh": {{"host": "{host}", "ralph": "{ralph}"}}}}"#);
            let error = command(&kind, &facts(&resources)).unwrap_err();
            assert!(error.starts_with("executor `far`: "), "{error}");
        }
    }

    #[test]
    fn a_container_sees_what_is_mounted_under_the_same_path() {
        let resources = Resources::default();
        let mounts = [SharedPath { path: "/data/p/.git".into(), read_only: true }];
        let engine = ContainerEngine { program: "podman".to_owned(), user: ContainerUser::KeepId };
        let facts = CarrierFacts { mounts: &mounts, container: Some(&engine), ..facts(&resources) };
        let kind = r#"{"container": {"image": "box", "args": ["--network=none"],
                       "mounts": ["~/.cache:/cache:ro", "/a:/b"]}}"#;
        let command = command(kind, &facts).unwrap();
        assert_eq!(command[..3], ["podman", "run", "--network=none"]);
        for word in [
            "--name=ralph-r1.a.2",
            "--userns=keep-id",
            "--mount=type=bind,source=/opt/ralph,target=/usr/local/bin/ralph,readonly",
            "--mount=type=bind,source=/data/p.slots/1,target=/data/p.slots/1",
            "--mount=type=bind,source=/data/p/.git,target=/data/p/.git,readonly",
            "--mount=type=bind,source=/home/tess/.cache,target=/cache,readonly",
            "--mount=type=bind,source=/a,target=/b",
        ] {
            assert!(command.iter().any(|it| it == word), "{word}: {command:?}");
        }
        assert_eq!(command[command.len() - 2..], ["box", "__worker"]);
    }

    #[test]
    fn a_container_gets_no_mount_that_means_something_else() {
        let resources = Resources::default();
        let ids = ContainerUser::Ids { user: 1000, group: 100 };
        let engine = ContainerEngine { program: "docker".to_owned(), user: ids };
        let facts = CarrierFacts { container: Some(&engine), ..facts(&resources) };
        let good = command(r#"{"container": {"image": "box"}}"#, &facts).unwrap();
        assert!(good.iter().any(|it| it == "--user=1000:100"), "{good:?}");
        for mount in ["/a", "/a:/b:rx", "a:/b", "/a:b", "/a,readonly:/b", "~root/a:/b"] {
            let kind = format!(r#"{{"container": {{"image": "box", "mounts": ["{mount}"]}}}}"#);
            command(&kind, &facts).unwrap_err();
        }
        command(r#"{"container": {"image": "--privileged"}}"#, &facts).unwrap_err();
    }

    #[test]
    fn a_job_has_the_resources_of_its_task() {
        let of_task = Resources(
            [("mem".to_owned(), "8G".into()), ("exclusive".to_owned(), true.into())].into(),
        );
        let variables = ["SLURM_JOB_ID".to_owned()];
        let facts = CarrierFacts {
            time_limit: Some(Duration::from_secs(601)),
            slurm_variables: &variables,
            ..facts(&of_task)
        };
        let kind = r#"{"slurm": {"partition": "long", "args": ["--nice"],
                       "resources": {"mem": "1G", "cpus-per-task": 8, "contiguous": false}}}"#;
        let command = command(kind, &facts).unwrap();
        assert_eq!(
            command[..9],
            [
                "env",
                "-u",
                "SLURM_JOB_ID",
                "srun",
                "--partition=long",
                "--time=16",
                "--cpus-per-task=8",
                "--exclusive",
                "--mem=8G",
            ]
        );
        assert!(command.iter().any(|it| it == "--job-name=ralph:r1.a.2"), "{command:?}");
        assert_eq!(command[command.len() - 2..], ["/opt/ralph", "__worker"]);
    }

    #[test]
    fn a_job_gets_no_resource_that_ralph_sets_itself() {
        for name in ["nodes", "output", "pty", "-x", "a b", "", "mem=1 --pty"] {
            let resources = Resources([(name.to_owned(), 1.into())].into());
            command(r#"{"slurm": {}}"#, &facts(&resources)).unwrap_err();
        }
        let list = Resources([("mem".to_owned(), Value::Array(Vec::new()))].into());
        command(r#"{"slurm": {}}"#, &facts(&list)).unwrap_err();
    }

    #[test]
    fn a_command_is_followed_by_the_program_there() {
        let resources = Resources::default();
        for (settings, ralph) in [
            (r#"{"argv": ["nsenter", "-t", "7"]}"#, "ralph"),
            (r#"{"argv": ["nsenter", "-t", "7"], "files": "shared"}"#, "/opt/ralph"),
            (r#"{"argv": ["nsenter", "-t", "7"], "ralph": "/r"}"#, "/r"),
        ] {
            let kind = format!(r#"{{"command": {settings}}}"#);
            let command = command(&kind, &facts(&resources)).unwrap();
            assert_eq!(command, ["nsenter", "-t", "7", ralph, "__worker"]);
        }
        let kind = r#"{"command": ["kubectl", "run", "{run}-{task}-{attempt}", "--"]}"#;
        let kind = crate::executor::in_full(serde_json::from_str(kind).unwrap()).to_string();
        let facts_of = CarrierFacts { mark: "20261126T0842Z-e41f.A_b.2", ..facts(&resources) };
        let named = command(&kind, &facts_of).unwrap();
        assert_eq!(named[2], "20261126t0842z-e41f-a-b-2");
        command(r#"{"command": {"argv": []}}"#, &facts(&resources)).unwrap_err();
        command(r#""local""#, &facts(&resources)).unwrap_err();
    }

    fn build() -> ProgramBuild {
        let text = str::to_owned;
        let (version, system, hash) = (text("0.1.0"), text("Linux x86_64"), text("abc"));
        ProgramBuild { version, system, hash, size: 7 }
    }

    #[test]
    fn a_greeting_of_the_host_is_skipped() {
        let told = |text: &str| build().answer(text);
        assert_eq!(told("Welcome\nto it\n"), Ok(None));
        assert_eq!(told("Welcome\nralph-host Linux x86_64\n"), Ok(None));
        let has = HostAnswer::Has("/home/t/.cache/ralph/bin/x".to_owned());
        let text = "Welcome\nralph-host Linux x86_64\nhas /home/t/.cache/ralph/bin/x\n";
        assert_eq!(told(text), Ok(Some(has)));
    }

    #[test]
    fn a_host_of_another_kind_is_named() {
        let error = build().answer("ralph-host Linux aarch64\nwants /x\n").unwrap_err();
        assert!(error.contains("Linux aarch64") && error.contains("Linux x86_64"), "{error}");
    }
}
