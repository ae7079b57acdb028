//! Why a container did not start, from the output of its engine.

/// The reason why a container did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerFault {
    /// There is no such program; none if no engine is named in the settings.
    NoEngine(Option<String>),
    /// The program cannot reach its service.
    NoDaemon,
    /// The image is not there and cannot be fetched.
    NoImage,
    /// A container of this name is there already.
    NameTaken,
    /// A path to mount is missing.
    NoMount(String),
    /// The image cannot run this program.
    NoProgram(String),
    /// The user may not use the engine.
    Forbidden,
    /// Another reason, in the words of the engine.
    Other(String),
}

impl ContainerFault {
    /// Reads how `run` of an engine failed; none if the container was started, and the exit code is
    /// that of the process in it.
    pub fn of(code: Option<i32>, errors: &str) -> Option<ContainerFault> {
        let has = |words: &[&str]| words.iter().any(|word| errors.contains(word));
        let line = || {
            // The last lines of docker only name its manual.
            let is_manual = |line: &str| line.starts_with("See '") || line.starts_with("Run '");
            let lines = errors.lines().map(str::trim);
            let mut lines = lines.filter(|line| !line.is_empty() && !is_manual(line));
            let last = lines.next_back().unwrap_or("the engine does not say why");
            last.trim_start_matches("Error: ").trim_start_matches("docker: ").to_owned()
        };
        // The container was started, but this program was not.
        let is_unloadable =
            code == Some(127) && has(&["error while loading shared libraries", "version `GLIBC"]);
        if is_unloadable || has(&["exec container process", "exec /usr/local/bin/ralph: "]) {
            return Some(ContainerFault::NoProgram(line()));
        }
        if !matches!(code, Some(125..=127)) {
            return None;
        }
        Some(if has(&["permission denied while trying to connect"]) {
            ContainerFault::Forbidden
        } else if has(&["Cannot connect to the Docker daemon", "unable to connect to Podman"]) {
            ContainerFault::NoDaemon
        } else if has(&["already in use by"]) {
            ContainerFault::NameTaken
        } else if has(&["statfs ", "bind source path does not exist"]) {
            ContainerFault::NoMount(line())
        } else if has(&[
            "image not known",
            "initializing source",
            "did not resolve to an alias",
            "pull access denied",
            "manifest unknown",
            "Unable to find image",
            "unable to copy from source",
        ]) {
            ContainerFault::NoImage
        } else if code == Some(127) || has(&["exec format error", "no such file or directory"]) {
            ContainerFault::NoProgram(line())
        } else {
            ContainerFault::Other(line())
        })
    }

    /// Whether the engine may answer later: nothing needs to be installed or corrected.
    pub fn is_passing(&self) -> bool {
        match self {
            // An unknown fault may pass, and blames no task until then.
            ContainerFault::NoDaemon | ContainerFault::NameTaken | ContainerFault::Other(_) => true,
            ContainerFault::NoEngine(_)
            | ContainerFault::NoImage
            | ContainerFault::NoMount(_)
            | ContainerFault::NoProgram(_)
            | ContainerFault::Forbidden => false,
        }
    }

    /// Says it for people, with the remedy.
    pub fn describe(&self, engine: &str, image: &str) -> String {
        match self {
            ContainerFault::NoEngine(None) => {
                "neither `podman` nor `docker` is installed; install one of them".to_owned()
            }
            ContainerFault::NoEngine(Some(name)) => {
                format!("there is no program `{name}`; install it or change `engine`")
            }
            ContainerFault::NoDaemon => {
                format!(
                    "`{engine}` cannot reach its service; start it, such as with `systemctl start {engine}`"
                )
            }
            ContainerFault::NoImage => format!(
                "there is no image `{image}`, and it cannot be fetched; \
                 `{engine} pull {image}` shows why"
            ),
            ContainerFault::NameTaken => {
                "a container of this attempt is still there; it is removed before the next attempt"
                    .to_owned()
            }
            ContainerFault::NoMount(why) => {
                format!("a file or folder in `mounts` is missing: {why}")
            }
            ContainerFault::NoProgram(why) => format!(
                "the image `{image}` cannot run ralph: {why}; it needs the C library of this \
                 machine or a newer one, or a ralph that is linked statically"
            ),
            ContainerFault::Forbidden => format!(
                "you may not use the service of `{engine}`; add yourself to its group, or use podman"
            ),
            ContainerFault::Other(why) => format!("`{engine} run` failed: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_engines_say_is_told_apart() {
        for (code, said, fault) in [
            (
                125,
                "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n",
                ContainerFault::NoDaemon,
            ),
            (
                125,
                "Error: initializing source docker://localhost/nope:1: pinging container registry",
                ContainerFault::NoImage,
            ),
            (125, "Error: nope: image not known\n", ContainerFault::NoImage),
            (
                125,
                "Unable to find image 'x:latest' locally\ndocker: Error response from daemon: pull \
                 access denied for x, repository does not exist\n",
                ContainerFault::NoImage,
            ),
            (
                125,
                "Error: the container name \"y\" is already in use by f16bc. You have to remove it",
                ContainerFault::NameTaken,
            ),
            (
                125,
                "Error: statfs /nope: no such file or directory",
                ContainerFault::NoMount("statfs /nope: no such file or directory".to_owned()),
            ),
            (126, "Error: crun: odd", ContainerFault::Other("crun: odd".to_owned())),
            (
                125,
                "docker: invalid reference format.\nSee 'docker run --help'.\n",
                ContainerFault::Other("invalid reference format.".to_owned()),
            ),
        ] {
            assert_eq!(ContainerFault::of(Some(code), said), Some(fault), "{said}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_loaded_is_no_end_of_an_agent() {
        for (code, said) in [
            (127, "ralph: error while loading shared libraries: libgcc_s.so.1: cannot open"),
            (1, "{\"msg\":\"exec container process (missing dynamic library?) `/usr/local\"}"),
            (1, "exec /usr/local/bin/ralph: no such file or directory"),
            (255, "exec /usr/local/bin/ralph: exec format error"),
        ] {
            let fault = ContainerFault::of(Some(code), said);
            assert!(matches!(fault, Some(ContainerFault::NoProgram(_))), "{fault:?}");
        }
    }

    #[test]
    fn the_end_of_the_process_inside_is_no_fault_of_the_engine() {
        for code in [Some(0), Some(1), Some(137), None] {
            assert_eq!(ContainerFault::of(code, "Error: statfs /nope"), None);
        }
    }
}
