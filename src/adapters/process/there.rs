//! The process of an attempt as a worker starts it: with the paths that its files have there.

use std::{
    env,
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use super::ProcessSpec;

/// The variable with the folder of the task, where an agent reports.
pub(super) const TASK_DIR: &str = "RALPH_TASK_DIR";

/// The variables whose value is that folder.
const TASK_FOLDER: [&str; 2] = [TASK_DIR, "TASK_FOLDER"];

/// The variables whose value is a file of the repository.
const FILES: [&str; 2] = ["RALPH_GRAPH", "RALPH_CONFIG"];

/// Returns the process to start, with this prompt. `slot` has the files that were sent, if any were.
/// `programs` is a folder that its `PATH` begins with.
pub(super) fn process(
    spec: ProcessSpec,
    slot: Option<&Path>,
    prompt: PathBuf,
    programs: &Path,
) -> ProcessSpec {
    let stderr = if spec.stderr == spec.stdout { "stdout" } else { "stderr" };
    let spec = ProcessSpec {
        stdin: prompt,
        stdout: "stdout".into(),
        stderr: stderr.into(),
        env: with_own_git_settings(spec.env, |name| env::var(name).ok()),
        ..spec
    };
    let spec = with_programs(spec, programs, env::var("PATH").ok());
    match slot {
        None => {
            let slot = spec.dir.clone();
            with_program_of(reporting_in_slot(spec), &slot)
        }
        Some(slot) => moved(spec, slot),
    }
}

/// Returns a process in a slot shared with this machine. It reports in its slot: a lost process may
/// continue, and must not report for the next attempt at its task, which has another slot.
fn reporting_in_slot(mut spec: ProcessSpec) -> ProcessSpec {
    if let Some(folder) = task_folder(&spec, &spec.dir) {
        for (_, value) in spec.env.iter_mut().filter(|(name, _)| TASK_FOLDER.contains(&&**name)) {
            *value = folder.display().to_string();
        }
    }
    spec
}

/// Returns a process whose `PATH` begins with this folder. `own` is the `PATH` of this process.
fn with_programs(mut spec: ProcessSpec, programs: &Path, own: Option<String>) -> ProcessSpec {
    let given = spec.env.iter().position(|(name, _)| name == "PATH");
    let rest = given.map(|at| spec.env.remove(at).1).or(own);
    let rest = rest.map_or_else(String::new, |rest| format!(":{rest}"));
    spec.env.push(("PATH".to_owned(), format!("{}{rest}", programs.display())));
    spec
}

/// Returns a process with the paths in a slot.
fn moved(spec: ProcessSpec, slot: &Path) -> ProcessSpec {
    let folder = task_folder(&spec, slot);
    let text = |path: &Path| path.display().to_string();
    let mut env = Vec::new();
    for (name, value) in spec.env {
        let value = match name.as_str() {
            "RALPH_SLOT" => Some(text(slot)),
            "GIT_CEILING_DIRECTORIES" => slot.parent().map(text),
            name if TASK_FOLDER.contains(&name) => folder.as_deref().map(text),
            name if FILES.contains(&name) => in_slot(&value, slot),
            _ => Some(value),
        };
        env.extend(value.map(|value| (name, value)));
    }
    let spec = ProcessSpec { env, dir: slot.to_owned(), ..spec };
    with_program_of(spec, slot)
}

/// Returns a process whose program is that of the slot if it is one of the repository, and the
/// repository is not here.
fn with_program_of(mut spec: ProcessSpec, slot: &Path) -> ProcessSpec {
    if let Some(program) = spec.argv.first_mut()
        && Path::new(program).is_absolute()
        && !Path::new(program).exists()
        && let Some(found) = in_slot(program, slot)
    {
        *program = found;
    }
    spec
}

/// The folder of the task in a slot. It has the place that an agent finds by the relative path in
/// its prompt.
pub(super) fn task_folder(spec: &ProcessSpec, slot: &Path) -> Option<PathBuf> {
    let named = |(name, _): &&(String, String)| name == TASK_FOLDER[0];
    let (_, folder) = spec.env.iter().find(named)?;
    let parts: Vec<Component<'_>> = Path::new(folder).components().collect();
    let start = parts.iter().rposition(|part| part.as_os_str() == OsStr::new(".ralph"))?;
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let rest = &parts[start..];
    rest.iter().all(is_name).then(|| slot.join(rest.iter().collect::<PathBuf>()))
}

/// The file of a slot that a path with another root means: the one that shares the most names with
/// it.
fn in_slot(path: &str, slot: &Path) -> Option<String> {
    let names = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_)));
    let names: Vec<Component<'_>> = names.collect();
    let ends = (0..names.len()).map(|start| slot.join(names[start..].iter().collect::<PathBuf>()));
    ends.into_iter().find(|end| end.is_file()).map(|end| end.display().to_string())
}

/// Gives the settings of git in variables the numbers that follow those of this machine.
fn with_own_git_settings(
    env: Vec<(String, String)>,
    own: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    const COUNT: &str = "GIT_CONFIG_COUNT";
    let (mut keys, mut values, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value) in env {
        match name.strip_prefix("GIT_CONFIG_") {
            Some(part) if part.starts_with("KEY_") => keys.push((part[4..].to_owned(), value)),
            Some(part) if part.starts_with("VALUE_") => values.push((part[6..].to_owned(), value)),
            Some("COUNT") => {}
            _ => rest.push((name, value)),
        }
    }
    let mut count: usize = own(COUNT).and_then(|count| count.parse().ok()).unwrap_or(0);
    let first = count;
    for (number, key) in keys {
        if let Some((_, value)) = values.iter().find(|(other, _)| *other == number) {
            rest.push((format!("GIT_CONFIG_KEY_{count}"), key));
            rest.push((format!("GIT_CONFIG_VALUE_{count}"), value.clone()));
            count += 1;
        }
    }
    if count > first {
        rest.push((COUNT.to_owned(), count.to_string()));
    }
    rest
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn spec(argv: &[&str], pairs: &[(&str, &str)]) -> ProcessSpec {
        ProcessSpec {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            dir: "/home/tess/.cache/slots/1".into(),
            env: env(pairs),
            env_remove: Vec::new(),
            stdin: "/home/tess/prompt.md".into(),
            stdout: "/home/tess/log".into(),
            stderr: "/home/tess/log".into(),
        }
    }

    #[test]
    fn paths_are_those_of_the_slot_if_files_were_sent() {
        let folder = tempfile::tempdir().unwrap();
        let slot = folder.path().join("slots/1");
        fs::create_dir_all(slot.join("plans")).unwrap();
        fs::write(slot.join("plans/graph.yaml"), "").unwrap();
        fs::write(slot.join("agent.sh"), "").unwrap();
        let pairs = [
            ("RALPH_TASK_ID", "a"),
            ("RALPH_TASK_DIR", "/home/tess/repo/.ralph/tasks/a"),
            ("TASK_FOLDER", "/home/tess/repo/.ralph/tasks/a"),
            ("RALPH_SLOT", "/home/tess/.cache/slots/1"),
            ("GIT_CEILING_DIRECTORIES", "/home/tess/.cache/slots"),
            ("RALPH_GRAPH", "/home/tess/repo/plans/graph.yaml"),
            ("RALPH_CONFIG", "/home/tess/elsewhere.yaml"),
        ];
        let given = spec(&["/home/tess/repo/agent.sh", "/home/tess/x"], &pairs);
        let made = process(given.clone(), Some(&slot), "/tmp/prompt".into(), Path::new("/own"));
        let found: BTreeMap<String, String> = made.env.into_iter().collect();
        let path = |path: &str| folder.path().join(path).display().to_string();
        assert_eq!(found["RALPH_TASK_ID"], "a");
        assert_eq!(found["RALPH_TASK_DIR"], path("slots/1/.ralph/tasks/a"));
        assert_eq!(found["TASK_FOLDER"], found["RALPH_TASK_DIR"]);
        assert_eq!(found["RALPH_SLOT"], path("slots/1"));
        assert_eq!(found["GIT_CEILING_DIRECTORIES"], path("slots"));
        assert_eq!(found["RALPH_GRAPH"], path("slots/1/plans/graph.yaml"));
        assert!(!found.contains_key("RALPH_CONFIG"), "that file is not there");
        assert_eq!(made.argv, [path("slots/1/agent.sh"), "/home/tess/x".to_owned()]);
        assert_eq!((made.dir, made.stdin), (slot, "/tmp/prompt".into()));
    }

    #[test]
    fn a_process_in_a_shared_slot_reports_there_and_all_else_stays() {
        let reports = "/home/tess/repo/.ralph/tasks/a";
        let pairs = [
            ("RALPH_TASK_DIR", reports),
            ("TASK_FOLDER", reports),
            ("RALPH_SLOT", "/home/tess/.cache/slots/1"),
            ("RALPH_GRAPH", "/home/tess/repo/plans/graph.yaml"),
        ];
        let given = spec(&["/home/tess/repo/agent.sh"], &pairs);
        let mut shared = process(given.clone(), None, "/tmp/prompt".into(), Path::new("/own"));
        let (_, path) = shared.env.pop().unwrap();
        assert!(path.starts_with("/own:"), "{path}");
        let slot = "/home/tess/.cache/slots/1/.ralph/tasks/a";
        assert_eq!(shared.env[..2], env(&[("RALPH_TASK_DIR", slot), ("TASK_FOLDER", slot)]));
        assert_eq!((&shared.argv, &shared.env[2..]), (&given.argv, &given.env[2..]));
        assert_eq!(shared.dir, given.dir);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("agent.sh"), "").unwrap();
        let given = ProcessSpec { dir: folder.path().to_owned(), ..given };
        let shared = process(given, None, "/tmp/prompt".into(), Path::new("/own"));
        let own = folder.path().join("agent.sh").display().to_string();
        assert_eq!(shared.argv, [own], "a container does not see the checkout");
    }

    #[test]
    fn a_program_that_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let slot = folder.path();
        fs::create_dir_all(slot.join("bin")).unwrap();
        fs::write(slot.join("bin/sh"), "").unwrap();
        for program in ["/bin/sh", "sh", "./bin/sh"] {
            let made = process(spec(&[program], &[]), Some(slot), "p".into(), Path::new("/own"));
            assert_eq!(made.argv, [program]);
        }
    }

    #[test]
    fn a_task_folder_stays_in_the_slot() {
        let slot = Path::new("/slot");
        let of = |dir: &str| task_folder(&spec(&[], &[("RALPH_TASK_DIR", dir)]), slot);
        assert_eq!(of("/r/.ralph/loops/x"), Some("/slot/.ralph/loops/x".into()));
        assert_eq!(of("/r/.ralph/../.."), None);
        assert_eq!(of("/r/tasks/x"), None);
    }

    #[test]
    fn settings_of_git_follow_those_of_the_machine() {
        let sent = env(&[
            ("GIT_CONFIG_COUNT", "3"),
            ("GIT_CONFIG_KEY_1", "gc.auto"),
            ("GIT_CONFIG_VALUE_1", "0"),
            ("GIT_CONFIG_KEY_2", "a.b"),
            ("GIT_CONFIG_VALUE_2", "c"),
        ]);
        let made = with_own_git_settings(sent.clone(), |_| None);
        let made: BTreeMap<String, String> = made.into_iter().collect();
        assert_eq!(made["GIT_CONFIG_COUNT"], "2");
        assert_eq!(made["GIT_CONFIG_KEY_0"], "gc.auto");
        assert_eq!(made["GIT_CONFIG_VALUE_1"], "c");
        let made = with_own_git_settings(sent, |_| Some("2".to_owned()));
        let made: BTreeMap<String, String> = made.into_iter().collect();
        assert_eq!(
            (made["GIT_CONFIG_COUNT"].as_str(), made["GIT_CONFIG_KEY_2"].as_str()),
            ("4", "gc.auto")
        );
        assert!(!made.contains_key("GIT_CONFIG_KEY_0"));
    }
}
