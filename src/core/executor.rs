//! The executors of attempts: this machine directly, or another place.
//!
//! Only the settings; the adapters start the processes. Tasks, settings and flags name an executor
//! with `run_on`.

mod carrier_command;
mod container_fault;
mod slurm_job;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{diagnostic::nearest, task_id::TaskId};
pub use carrier_command::{
    CarrierFacts, ContainerEngine, ContainerUser, HostAnswer, JOB_PREFIX, ProgramBuild, SharedPath,
    carrier_command, container_name, job_name, shell_word, ssh_command, ssh_trial,
};
pub use container_fault::ContainerFault;
pub use slurm_job::{JobEnd, JobState, JobTracking, slurm_refusal};

/// The name of the executor that starts processes as they are.
pub const LOCAL: &str = "local";
/// The name of the sandbox that needs no settings.
pub const SANDBOX: &str = "sandbox";

/// An executor with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executor {
    /// The name in `run_on`.
    pub name: String,
    /// Its kind.
    pub kind: ExecutorKind,
}

/// Why an executor has not taken a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorFault {
    /// A message for a person.
    pub why: String,
    /// Whether it lasts until a person fixes it: the executor is not tried again in a run.
    pub lasts: bool,
}

impl From<String> for ExecutorFault {
    fn from(why: String) -> ExecutorFault {
        ExecutorFault::lasting(why)
    }
}

impl ExecutorFault {
    /// A fault that may pass by itself.
    pub fn passing(why: String) -> ExecutorFault {
        ExecutorFault { why, lasts: false }
    }

    /// A fault that only a person can fix.
    pub fn lasting(why: String) -> ExecutorFault {
        ExecutorFault { why, lasts: true }
    }
}

/// How the reason begins why an executor is out whose `setup` fails.
pub const SETUP_FAULT: &str = "its `setup` fails";

/// Says that an executor is out, and why. On this machine, the fault is in the setup.
pub fn fault_text(name: &str, lasts: bool, why: &str) -> String {
    if name == LOCAL && why.starts_with(SETUP_FAULT) {
        return why.replacen("its ", "", 1);
    }
    format!("executor `{name}` {}: {why}", fault_words(lasts))
}

/// The state of a faulty executor, in words that its reason follows.
pub fn fault_words(lasts: bool) -> &'static str {
    if lasts { "cannot be used" } else { "is out" }
}

/// Where an attempt really runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The name of the executor.
    pub run_on: String,
    /// Its enclosure there, such as `bubblewrap 0.8.0`, `job 12` or a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// The name of the machine, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Placement {
    /// The same on this machine.
    #[must_use]
    pub fn at(self, host: String) -> Placement {
        // A container has a meaningless host name of its own.
        let host = Some(host).filter(|host| !host.is_empty() && self.within.is_none());
        Placement { host, ..self }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details: Vec<&str> = self.within.iter().chain(&self.host).map(String::as_str).collect();
        match details.join(", ") {
            details if details.is_empty() => f.write_str(&self.run_on),
            details => write!(f, "{} ({details})", self.run_on),
        }
    }
}

/// Where an attempt runs, in words: the requested executor until the placement is known.
pub fn runs_on(run_on: Option<&str>, placement: Option<&Placement>) -> Option<String> {
    placement.map(Placement::to_string).or_else(|| run_on.map(str::to_owned))
}

/// A kind of executor with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorKind {
    /// This machine, with all rights of the user.
    Local,
    /// This machine, with access to as little as possible.
    Sandbox(SandboxSettings),
    /// A container on this machine.
    Container(ContainerSettings),
    /// A Slurm cluster.
    Slurm(SlurmSettings),
    /// Another machine that `ssh` reaches.
    Ssh(SshSettings),
    /// Whatever a command reaches that carries standard input, standard output and an exit code.
    Command(CommandSettings),
}

/// The permissions of a sandbox in addition to the slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSettings {
    /// Its engine; by default the strongest that works.
    pub engine: SandboxEngine,
    /// The network.
    pub network: Network,
    /// Further files and folders that may be changed; `~` is the home folder.
    pub write: Vec<String>,
    /// Files and folders that are visible although they are hidden by default.
    pub show: Vec<String>,
    /// Further files and folders that are hidden.
    pub hide: Vec<String>,
    /// The environment variables that it gets; all if absent. A name may end in `*`.
    pub env: Option<Vec<String>>,
}

/// The engine of a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxEngine {
    /// Bubblewrap, or else Landlock.
    #[default]
    Auto,
    /// The program `bwrap`, which makes namespaces.
    Bubblewrap,
    /// Landlock, a part of the Linux kernel.
    Landlock,
}

/// The network of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// All of it.
    #[default]
    On,
    /// None; the loopback interface only reaches the sandbox itself.
    Off,
    /// A command that is put before that of the agent, such as a proxy's.
    #[serde(untagged)]
    Wrapper(Vec<String>),
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSettings {
    /// The image.
    pub image: String,
    /// The program that runs containers; by default `podman`, or else `docker`.
    pub engine: Option<String>,
    /// Further arguments of its `run`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Further files and folders to mount, as `FROM:TO` or `FROM:TO:ro`; `~` is the home folder.
    #[serde(default)]
    pub mounts: Vec<String>,
    /// The variables of this environment that it gets.
    #[serde(default)]
    pub env: Vec<String>,
}

impl ContainerSettings {
    /// Says for people why a container of these settings did not start, with the remedy.
    pub fn describe(&self, fault: &ContainerFault) -> String {
        fault.describe(self.engine.as_deref().unwrap_or("podman"), &self.image)
    }
}

/// A Slurm cluster that shares the file system of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlurmSettings {
    /// The partition.
    pub partition: Option<String>,
    /// The request of every job; a task's own `resources` override it.
    pub resources: Resources,
    /// Further arguments of `srun`.
    pub args: Vec<String>,
    /// How files get there and back.
    pub files: FileTravel,
    /// The folder for repositories there, if files are sent.
    pub dir: Option<String>,
    /// The variables of this environment that attempts get.
    pub env: Vec<String>,
    /// The path of `ralph` there.
    pub ralph: Option<String>,
}

/// Another machine that `ssh` reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshSettings {
    /// The host as `ssh` takes it: a name, an alias or `user@host`.
    pub host: String,
    /// Further arguments of `ssh`.
    #[serde(default)]
    pub args: Vec<String>,
    /// The folder for repositories there. The default is `.cache/ralph` in the home folder.
    pub dir: Option<String>,
    /// The variables of this environment that attempts get.
    #[serde(default)]
    pub env: Vec<String>,
    /// The path of `ralph` there.
    pub ralph: Option<String>,
    /// Whether this program is sent to a host without a `ralph` of this version.
    #[serde(default)]
    pub send_binary: bool,
}

/// A command that carries standard input, standard output and an exit code to another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// The command and its arguments; the command line of `ralph` there is appended.
    pub argv: Vec<String>,
    /// How files get there and back.
    #[serde(default = "FileTravel::sent")]
    pub files: FileTravel,
    /// The folder for repositories there, if files are sent.
    pub dir: Option<String>,
    /// The variables of this environment that attempts get.
    #[serde(default)]
    pub env: Vec<String>,
    /// The path of `ralph` there.
    pub ralph: Option<String>,
}

/// How the files of an attempt get to an executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileTravel {
    /// They are there under the same path.
    #[default]
    Shared,
    /// Commits and uncommitted changes are sent there and back.
    Sent,
}

impl FileTravel {
    /// The default for a command, which may reach any place.
    fn sent() -> FileTravel {
        FileTravel::Sent
    }
}

/// The needs of an attempt on a cluster: arguments of its queue, such as `{cpus-per-task: 8}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(pub BTreeMap<String, Value>);

/// Returns the name in `run_on` of an executor, which may be a host of a pool: `big` of `big@a`.
pub fn pool_of(name: &str) -> &str {
    name.split_once('@').map_or(name, |(pool, _)| pool)
}

/// Reads executors from the settings, by name. `ssh` may be a host, `container` an image, `command` a
/// command line, and `sandbox` may be empty. One with `hosts` becomes one for each, such as `big@a`.
///
/// # Errors
/// The first that is invalid, with its name.
pub fn read_executors(
    written: &Map<String, Value>,
) -> Result<BTreeMap<String, ExecutorKind>, String> {
    let read = |(name, value): (&String, &Value)| {
        TaskId::new(name).map_err(|why| format!("executor `{}`: {why}", name.escape_debug()))?;
        if name == LOCAL {
            return Err(format!("executor `{LOCAL}` is this machine as it is; use another name"));
        }
        let hosts = on_hosts(name, in_full(value.clone()));
        let hosts = hosts.map_err(|why| format!("executor `{name}`: {why}"))?;
        let kind = |(at, value)| match serde_json::from_value(value) {
            Ok(kind) => Ok((at, kind)),
            Err(why) => Err(format!("executor `{name}`: {why}")),
        };
        hosts.into_iter().map(kind).collect::<Result<Vec<_>, String>>()
    };
    let read: Vec<Vec<(String, ExecutorKind)>> =
        written.iter().map(read).collect::<Result<_, _>>()?;
    Ok(read.into_iter().flatten().collect())
}

/// The executors of an executor with `hosts`, each with its name; itself if it has none.
fn on_hosts(name: &str, mut value: Value) -> Result<Vec<(String, Value)>, String> {
    let mut kinds = value.as_object_mut().into_iter().flat_map(Map::iter_mut);
    let Some((kind, hosts)) = kinds.find_map(|(kind, settings)| {
        Some((kind.clone(), settings.as_object_mut()?.remove("hosts")?))
    }) else {
        return Ok(vec![(name.to_owned(), value)]);
    };
    let hosts: Vec<String> = serde_json::from_value(hosts)
        .map_err(|_| "`hosts` must be a list such as `[a, b]`".to_owned())?;
    let text = value.to_string();
    match kind.as_str() {
        _ if hosts.is_empty() => return Err("`hosts` is empty".to_owned()),
        "ssh" if value["ssh"].get("host").is_none() => {}
        "command" if text.contains("{host}") => {}
        "ssh" => return Err("it has `host` and `hosts`".to_owned()),
        "command" => return Err("`hosts` needs `{host}` in `argv`".to_owned()),
        other => return Err(format!("`hosts` is for `ssh` and `command`, not for `{other}`")),
    }
    let at = |host: String| {
        let mut value = value.clone();
        match kind.as_str() {
            "ssh" => value["ssh"]["host"] = Value::String(host.clone()),
            _ => each_text(&mut value, &|text| text.replace("{host}", &host)),
        }
        (format!("{name}@{host}"), value)
    };
    Ok(hosts.into_iter().map(at).collect())
}

/// Changes each text in a value.
fn each_text(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| each_text(value, change)),
        Value::Object(values) => values.values_mut().for_each(|value| each_text(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// An executor without the short forms of its settings.
fn in_full(mut value: Value) -> Value {
    if let Some((kind, settings)) = value.as_object_mut().and_then(|kinds| kinds.iter_mut().next())
    {
        let short = settings.take();
        *settings = match (kind.as_str(), short) {
            (_, Value::Null) => json!({}),
            ("ssh", Value::String(host)) => json!({ "host": host }),
            ("container", Value::String(image)) => json!({ "image": image }),
            ("command", Value::Array(argv)) => json!({ "argv": argv }),
            (_, whole) => whole,
        };
    }
    value
}

impl Executor {
    /// This machine, with all rights of the user.
    pub fn local() -> Executor {
        Executor { name: LOCAL.to_owned(), kind: ExecutorKind::Local }
    }

    /// Returns the executors of this name: each host of a pool, or one.
    ///
    /// # Errors
    /// As for [`Executor::find`].
    pub fn all(
        name: &str,
        known: &BTreeMap<String, ExecutorKind>,
    ) -> Result<Vec<Executor>, String> {
        let hosts = known.iter().filter(|(host, _)| *host != name && pool_of(host) == name);
        let executor = |(name, kind): (&String, &ExecutorKind)| Executor {
            name: name.clone(),
            kind: kind.clone(),
        };
        let hosts: Vec<Executor> = hosts.map(executor).collect();
        if hosts.is_empty() { Ok(vec![Executor::find(name, known)?]) } else { Ok(hosts) }
    }

    /// Returns the executor of this name, from the settings or built in; the first host of a pool.
    ///
    /// # Errors
    /// A message with the names there are.
    pub fn find(name: &str, known: &BTreeMap<String, ExecutorKind>) -> Result<Executor, String> {
        if !known.contains_key(name)
            && let Some((host, kind)) = known.iter().find(|(host, _)| pool_of(host) == name)
        {
            return Ok(Executor { name: host.clone(), kind: kind.clone() });
        }
        let kind = known.get(name).cloned().or_else(|| match name {
            LOCAL => Some(ExecutorKind::Local),
            SANDBOX => Some(ExecutorKind::Sandbox(SandboxSettings::default())),
            _ => None,
        });
        if let Some(kind) = kind {
            return Ok(Executor { name: name.to_owned(), kind });
        }
        let mut names: Vec<&str> = known.keys().map(|name| pool_of(name)).collect();
        names.dedup();
        names.extend([LOCAL, SANDBOX].into_iter().filter(|name| !known.contains_key(*name)));
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are `{}`", names.join("`, `")),
        };
        Err(format!("there is no executor `{}`; {hint}", name.escape_debug()))
    }

    /// Whether it is a sandbox of this machine.
    pub fn is_sandbox(&self) -> bool {
        matches!(self.kind, ExecutorKind::Sandbox(_))
    }

    /// Whether its processes are on this machine and see its files.
    pub fn is_here(&self) -> bool {
        match self.kind {
            ExecutorKind::Local | ExecutorKind::Sandbox(_) => true,
            ExecutorKind::Container(_)
            | ExecutorKind::Slurm(_)
            | ExecutorKind::Ssh(_)
            | ExecutorKind::Command(_) => false,
        }
    }

    /// The names of the variables of this environment that its processes get.
    pub fn variables(&self) -> &[String] {
        match &self.kind {
            ExecutorKind::Local | ExecutorKind::Sandbox(_) => &[],
            ExecutorKind::Container(container) => &container.env,
            ExecutorKind::Slurm(slurm) => &slurm.env,
            ExecutorKind::Ssh(ssh) => &ssh.env,
            ExecutorKind::Command(command) => &command.env,
        }
    }

    /// The folder for repositories there, if the settings name one.
    pub fn dir(&self) -> Option<&str> {
        match &self.kind {
            ExecutorKind::Local | ExecutorKind::Sandbox(_) | ExecutorKind::Container(_) => None,
            ExecutorKind::Slurm(slurm) => slurm.dir.as_deref(),
            ExecutorKind::Ssh(ssh) => ssh.dir.as_deref(),
            ExecutorKind::Command(command) => command.dir.as_deref(),
        }
    }

    /// How files get there; none if its processes are started here.
    pub fn files(&self) -> Option<FileTravel> {
        match &self.kind {
            ExecutorKind::Local | ExecutorKind::Sandbox(_) => None,
            ExecutorKind::Container(_) => Some(FileTravel::Shared),
            ExecutorKind::Slurm(slurm) => Some(slurm.files),
            ExecutorKind::Ssh(_) => Some(FileTravel::Sent),
            ExecutorKind::Command(command) => Some(command.files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &Value) -> Result<BTreeMap<String, ExecutorKind>, String> {
        read_executors(written.as_object().unwrap())
    }

    #[test]
    fn short_forms_are_the_whole_ones() {
        let short = json!({
            "a": {"ssh": "near"},
            "b": {"container": "image"},
            "c": {"command": ["env", "-i"]},
            "d": {"sandbox": null},
            "e": {"slurm": {}},
        });
        let whole = json!({
            "a": {"ssh": {"host": "near"}},
            "b": {"container": {"image": "image"}},
            "c": {"command": {"argv": ["env", "-i"], "files": "sent"}},
            "d": {"sandbox": {"engine": "auto", "network": "on", "write": []}},
            "e": {"slurm": {"files": "shared"}},
        });
        assert_eq!(read(&short), read(&whole));
        assert_eq!(read(&short).unwrap().len(), 5);
    }

    #[test]
    fn a_pool_is_an_executor_on_each_host() {
        let pool = json!({
            "big": {"ssh": {"hosts": ["a", "me@b"], "dir": "/d"}},
            "pods": {"command": {"argv": ["kubectl", "--context={host}"], "hosts": ["x"]}},
        });
        let found = read(&pool).unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["big@a", "big@me@b", "pods@x"]);
        let b = read(&json!({"b": {"ssh": {"host": "me@b", "dir": "/d"}}})).unwrap();
        assert_eq!(found["big@me@b"], b["b"]);
        let x = read(&json!({"x": {"command": ["kubectl", "--context=x"]}})).unwrap();
        assert_eq!(found["pods@x"], x["x"]);
        assert_eq!(Executor::find("big", &found).unwrap().name, "big@a");
        assert_eq!(Executor::all("big", &found).unwrap().len(), 2);
        assert_eq!(Executor::all("big@a", &found).unwrap().len(), 1);
        for wrong in [
            json!({"big": {"ssh": {"hosts": []}}}),
            json!({"big": {"ssh": {"hosts": ["a"], "host": "b"}}}),
            json!({"big": {"command": {"hosts": ["a"], "argv": ["x"]}}}),
            json!({"big": {"slurm": {"hosts": ["a"]}}}),
        ] {
            let why = read(&wrong).unwrap_err();
            assert!(why.contains("executor `big`") && why.contains("host"), "{why}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let executors = read(&json!({
            "a": {"sandbox": {"network": ["proxy", "--"], "env": ["AWS_*"]}},
            "b": {"slurm": {"resources": {"mem": "8G"}, "files": "sent"}},
        }))
        .unwrap();
        let written = serde_json::to_value(&executors).unwrap();
        assert_eq!(read(&written), Ok(executors));
    }

    #[test]
    fn errors_name_the_executor() {
        for (written, part) in [
            (json!({"a": {"ssh": {"hots": "x"}}}), "executor `a`: unknown field `hots`"),
            (json!({"a": {"lambda": {}}}), "executor `a`: unknown variant `lambda`"),
            (json!({"a b": {"ssh": "x"}}), "executor `a b`: "),
            (json!({"local": {"ssh": "x"}}), "use another name"),
            (json!({"a": "ssh"}), "executor `a`: "),
        ] {
            let why = read(&written).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        let why = Executor::find("sandbx", &BTreeMap::new()).unwrap_err();
        assert_eq!(why, "there is no executor `sandbx`; did you mean `sandbox`?");
    }
}
