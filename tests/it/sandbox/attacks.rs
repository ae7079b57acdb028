//! The attacks: each a script, and what shows that it passed through.

use std::path::PathBuf;

use ralph::adapters::process;

use super::stage::{CREDENTIALS, Stage};

/// What shows that an attack passed through.
pub enum Proof {
    /// The script prints `passed`.
    Says,
    /// The script prints the secret.
    Reads,
    /// The file is another one.
    Changes(PathBuf),
    /// The file contains what the script wrote.
    Plants(PathBuf),
    /// A process with this word in its command line lives afterwards.
    Lives(String),
}

pub struct Attack {
    pub name: &'static str,
    pub script: String,
    pub proof: Proof,
    pub without_network: bool,
    /// The agent whose folder can be changed.
    pub agent: Option<&'static str>,
    /// Whether it works without a sandbox, and without harm.
    pub works_outside: bool,
}

impl Attack {
    fn new(name: &'static str, script: impl Into<String>, proof: Proof) -> Attack {
        let script = script.into();
        Attack { name, script, proof, without_network: false, agent: None, works_outside: true }
    }

    fn only_inside(self) -> Attack {
        Attack { works_outside: false, ..self }
    }

    fn for_root(self) -> Attack {
        Attack { works_outside: process::is_root(), ..self }
    }

    fn offline(self) -> Attack {
        Attack { without_network: true, ..self }
    }
}

/// Prints `passed` if the command succeeds.
fn says(command: &str) -> String {
    format!("if {command}; then echo passed; fi")
}

/// A Python program that prints `passed` at its end.
fn python(lines: &str) -> String {
    format!(
        "/usr/bin/python3 - <<'END'\nimport ctypes, os, socket, json, struct, sys\n{lines}\n\
         print('passed')\nEND"
    )
}

pub fn attacks(stage: &Stage) -> Vec<Attack> {
    let mut all = writes(stage);
    all.extend(git_and_links(stage));
    all.extend(open_files(stage));
    all.extend(reads(stage));
    all.extend(processes(stage));
    all.extend(sockets(stage));
    all.extend(kernel(stage));
    all.extend(commands(stage));
    all.extend(survivors());
    all.extend(settings_of_agents(stage));
    all
}

/// What governs later starts of an agent, outside of every sandbox.
fn settings_of_agents(stage: &Stage) -> Vec<Attack> {
    let planted = [
        ("create the settings of claude", "claude", ".claude/settings.json"),
        ("create the local settings of claude", "claude", ".claude/settings.local.json"),
        ("create instructions of claude", "claude", ".claude/CLAUDE.md"),
        ("create a hook of claude", "claude", ".claude/hooks/evil.sh"),
        ("create a skill of claude", "claude", ".claude/skills/evil/SKILL.md"),
        ("create a command of claude", "claude", ".claude/commands/evil.md"),
        ("create a plugin of claude", "claude", ".claude/plugins/evil/plugin.json"),
        ("create a claude program", "claude", ".claude/local/claude"),
        ("add an MCP server to claude", "claude", ".claude.json"),
        ("write the status line of claude", "claude", ".claude/statusline.sh"),
        ("create the settings of codex", "codex", ".codex/config.toml"),
        ("create instructions of codex", "codex", ".codex/AGENTS.md"),
        ("create overriding instructions of codex", "codex", ".codex/AGENTS.override.md"),
        ("create hooks of codex", "codex", ".codex/hooks.json"),
        ("create a skill of codex", "codex", ".codex/skills/evil/SKILL.md"),
        ("create a prompt of codex", "codex", ".codex/prompts/evil.md"),
        ("create the settings of gemini", "gemini", ".gemini/settings.json"),
        ("create variables of gemini", "gemini", ".gemini/.env"),
        ("create an extension of gemini", "gemini", ".gemini/extensions/evil/x.json"),
        ("create the settings of opencode", "opencode", ".config/opencode/opencode.json"),
        ("create a plugin of opencode", "opencode", ".config/opencode/plugin/evil.js"),
        ("create an MCP server of copilot", "copilot", ".copilot/mcp-config.json"),
    ];
    let plant = |(name, agent, path): (&'static str, &'static str, &str)| {
        let folder = path.split('/').next().unwrap();
        let script = format!(
            "cd; mkdir -p \"$(dirname {path})\"; echo evil > {path}
            echo evil > \"$TASK_FOLDER/evil\"; mv -f \"$TASK_FOLDER/evil\" {path}
            [ -e {path}.old ] || mv {path} {path}.old; echo evil > {path}
            [ ! -d {folder} ] || {{ mv {folder} {folder}2 && cp -r {folder}2 {folder}; }}
            mkdir -p \"$(dirname {path})\"; echo evil > {path}"
        );
        let proof = Proof::Plants(stage.trial.dir().join(path));
        Attack { agent: Some(agent), ..Attack::new(name, script, proof) }
    };
    planted.map(plant).into()
}

fn writes(stage: &Stage) -> Vec<Attack> {
    let (root, home) = (stage.trial.root(), stage.trial.dir());
    let git = root.join(".git");
    let marker = format!("/etc/ralph-sandbox-test-{}", std::process::id());
    let mut all = Vec::new();
    let mut write = |name, path: PathBuf| {
        let script = format!("echo evil >> '{}'", path.display());
        all.push(Attack::new(name, script, Proof::Changes(path)).only_inside());
    };
    write("write next to the slot", stage.slot.parent().unwrap().join("evil"));
    write("write into the home folder", home.join("evil"));
    write("write a profile", home.join(".profile"));
    write("write into another slot", stage.other.join("evil"));
    write("write into the main checkout", root.join("evil"));
    write("write a prompt", root.join("prompts/task.md"));
    write("write the graph", root.join("task-graph.yaml"));
    write("write the journal", root.join("logs/ralph.jsonl"));
    write("write into the logs of the attempt", root.join("logs/attempts/a/1/prompt.md"));
    write("write the settings", root.join(".ralph/config.yaml"));
    write("write into the folder of another task", root.join(".ralph/tasks/evil"));
    write("write the record of the attempt", git.join("ralph/attempts/b.1.json"));
    write("write into the state", git.join("ralph/evil"));
    write("write a hook of the repository", git.join("hooks/post-checkout"));
    write("write the settings of the repository", git.join("config"));
    write("write a ref of the repository", git.join("refs/heads/evil"));
    write("write an object of the repository", git.join("objects/evil"));
    let etc = format!("echo evil > {marker} && rm -f {marker} && echo passed");
    all.push(Attack::new("write into /etc", etc, Proof::Says).for_root());
    let open = says(": >> \"$RALPH\"");
    all.push(Attack::new("open this program for writing", open, Proof::Says).only_inside());
    let remove = format!("rm -rf '{}'", stage.other.join("file.txt").display());
    let gone = Proof::Changes(stage.other.join("file.txt"));
    all.push(Attack::new("remove a file of another slot", remove, gone).only_inside());
    all
}

fn git_and_links(stage: &Stage) -> Vec<Attack> {
    let (root, home, slot) = (stage.trial.root(), stage.trial.dir(), &stage.slot);
    let git = slot.join(".git");
    let profile = home.join(".profile");
    let (profile, graph) = (profile.display(), root.join("task-graph.yaml"));
    let changes = |path: &str| Proof::Changes(home.join(path));
    vec![
        Attack::new(
            "write a hook of the slot",
            "mkdir -p .git/hooks; echo evil > .git/hooks/post-checkout",
            Proof::Changes(git.join("hooks/post-checkout")),
        )
        .only_inside(),
        Attack::new(
            "write the settings of the slot",
            "git config core.fsmonitor 'touch evil'; echo '# evil' >> .git/config",
            Proof::Changes(git.join("config")),
        )
        .only_inside(),
        Attack::new(
            "write the attributes of the slot",
            "mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes",
            Proof::Changes(git.join("info/attributes")),
        )
        .only_inside(),
        Attack::new(
            "rename the git directory of the slot",
            "mv .git .git2 && { echo passed; cp -a .git2 .git; rm -rf .git2; }",
            Proof::Says,
        )
        .only_inside(),
        Attack::new(
            "write through a symbolic link",
            format!("ln -sf '{profile}' link; echo evil >> link"),
            changes(".profile"),
        )
        .only_inside(),
        Attack::new(
            "write through a hard link",
            format!("ln '{profile}' hard && echo evil >> hard"),
            changes(".profile"),
        )
        .only_inside(),
        Attack::new(
            "rename over a file",
            format!("echo evil > mine; mv -f mine '{}'", graph.display()),
            Proof::Changes(graph.clone()),
        )
        .only_inside(),
        Attack::new(
            "rename the task folder away",
            says("mv \"$TASK_FOLDER\" \"$TASK_FOLDER.old\" 2>/dev/null"),
            Proof::Says,
        )
        .only_inside(),
        Attack::new("mount over a folder", says("mount --bind /etc /opt"), Proof::Says)
            .only_inside(),
        Attack::new("make / writable", says("mount -o remount,rw /"), Proof::Says).only_inside(),
        Attack::new(
            "take the cover of a hidden folder away",
            format!("umount -l '{0}/.ssh'; cat '{0}/.ssh/id_ed25519'", home.display()),
            Proof::Reads,
        ),
        Attack::new(
            "mount in a user namespace of its own",
            format!(
                "unshare -Urm sh -c \"umount -l '{0}/.ssh'; cat '{0}/.ssh/id_ed25519'\"",
                home.display()
            ),
            Proof::Reads,
        ),
    ]
}

fn open_files(stage: &Stage) -> Vec<Attack> {
    let evil = stage.trial.dir().join("evil-by-descriptor");
    let (run, guardian) = (stage.run.id(), stage.guardian);
    let by = |name, script: String| {
        Attack::new(name, script, Proof::Changes(evil.clone())).only_inside()
    };
    let path = evil.display();
    vec![
        by("leave by the root of the runner", format!("echo evil > /proc/{run}/root{path}")),
        by("leave by the root of process 1", format!("echo evil > /proc/1/root{path}")),
        by(
            "leave by the working directory of the runner",
            format!("echo evil > /proc/{run}/cwd/../evil-by-descriptor"),
        ),
        by(
            "leave by an open folder of the guardian",
            format!("echo evil > /proc/{guardian}/fd/1/../../../../evil-by-descriptor"),
        ),
        by(
            "leave by an inherited folder",
            format!("for fd in /proc/self/fd/*; do echo evil > \"$fd{path}\"; done 2>/dev/null"),
        ),
        Attack::new(
            "write through an inherited file",
            "for fd in /proc/self/fd/* /proc/1/fd/*; do case $(readlink \"$fd\") in /dev/*|*:*) ;; \
             *) (echo evil > \"$fd\") 2>/dev/null && echo passed \"$fd\" && echo passed ;; esac; done",
            Proof::Says,
        )
        .only_inside(),
        Attack::new(
            "write the prompt by the standard input",
            says("(echo evil > /proc/self/fd/0) 2>/dev/null && [ \"$(cat)\" = evil ]"),
            Proof::Says,
        )
        .only_inside(),
    ]
}

fn reads(stage: &Stage) -> Vec<Attack> {
    const NAMES: &[&str] = &[
        "read an ssh key",
        "read keys of AWS",
        "read keys of GnuPG",
        "read .netrc",
        "read the token of gh",
        "read the credentials of gcloud",
        "read the settings of kubectl",
        "read the settings of docker",
        "read .npmrc",
        "read .pypirc",
        "read the token of cargo",
        "read .git-credentials",
        "read a keyring",
        "read the passwords of Firefox",
        "read the cookies of Chrome",
        "read the history of a shell",
        "read what the settings hide",
    ];
    assert_eq!(NAMES.len(), CREDENTIALS.len());
    let home = stage.trial.dir();
    let mut all: Vec<Attack> = NAMES
        .iter()
        .zip(CREDENTIALS)
        .map(|(name, path)| {
            let script = format!("cat '{}'", home.join(path).display());
            Attack::new(name, script, Proof::Reads)
        })
        .collect();
    let (run, guardian) = (stage.run.id(), stage.guardian);
    let other = stage.other.join("secret.txt");
    let key = home.join(".ssh/id_ed25519");
    let read = |name, script: String| Attack::new(name, script, Proof::Reads);
    all.extend([
        read("read another slot", format!("cat '{}'", other.display())),
        read("read variables of this process", "env; cat /proc/self/environ".to_owned()),
        read("read variables of process 1", "cat /proc/1/environ".to_owned()).only_inside(),
        read("read variables of the runner", format!("cat /proc/{run}/environ")),
        read("read variables of the guardian", format!("cat /proc/{guardian}/environ")),
        read(
            "copy a hidden file by a link in the slot",
            format!("ln -sf '{}' key; cat key", key.display()),
        ),
        read(
            "have git read a hidden file",
            format!("git hash-object -w --path x '{}' | xargs git cat-file blob", key.display()),
        ),
        read(
            "read a hidden file by the root of the runner",
            format!("cat /proc/{run}/root'{}'", key.display()),
        ),
    ]);
    let disk = "for disk in /dev/vda /dev/sda /dev/nvme0n1; do head -c 512 $disk | wc -c | \
                grep -q 512 && echo passed; done";
    all.push(Attack::new("read a disk", disk, Proof::Says).only_inside());
    all
}

fn processes(stage: &Stage) -> Vec<Attack> {
    let (run, guardian, other) = (stage.run.id(), stage.guardian, stage.other_agent);
    let attach = |pid: i64| {
        python(&format!(
            "libc = ctypes.CDLL(None, use_errno=True)\n\
             if libc.ptrace(16, {pid}, 0, 0) != 0: sys.exit(1)\n\
             os.waitpid({pid}, 0x40000000)\nlibc.ptrace(17, {pid}, 0, 0)"
        ))
    };
    let open_memory = python(&format!("os.open('/proc/{run}/mem', os.O_RDWR)"));
    let vm = python(&format!(
        "libc = ctypes.CDLL(None, use_errno=True)\n\
         maps = open('/proc/{run}/maps').readline().split('-')[0]\nint(maps, 16)"
    ));
    let signal = |pid: i64| says(&format!("kill -CONT {pid}"));
    let says = |name, script: String| Attack::new(name, script, Proof::Says);
    vec![
        says("trace the runner", attach(run.into())).only_inside(),
        says("trace the guardian", attach(guardian.into())).only_inside(),
        says("open the memory of the runner", open_memory),
        says("see the memory map of the runner", vm),
        says("signal the runner", signal(run.into())),
        says("signal the guardian", signal(guardian.into())),
        says("signal a process of another slot", signal(other.into())),
        // The program succeeds even if no process may be signalled.
        Attack::new("signal everything", "kill -CONT -1", Proof::Changes(stage.victim_stat()))
            .only_inside(),
        says(
            "enter the namespaces of the runner",
            self::says(&format!("nsenter -t {run} -m -p true")),
        )
        .for_root(),
        says("change the limits of the runner", self::says(&format!("prlimit --pid {run} --core"))),
        says("renice the runner", self::says(&format!("renice -n 0 -p {run}"))).only_inside(),
    ]
}

fn sockets(stage: &Stage) -> Vec<Attack> {
    let home = stage.trial.dir();
    let connect = |path: PathBuf| {
        python(&format!(
            "s = socket.socket(socket.AF_UNIX)\ns.settimeout(5)\n\
             os.chdir('{}')\ns.connect('{}')",
            path.parent().unwrap().display(),
            path.file_name().unwrap().to_str().unwrap()
        ))
    };
    let port = stage.tcp.local_addr().unwrap().port();
    let tcp =
        python(&format!("s = socket.socket()\ns.settimeout(5)\ns.connect(('127.0.0.1', {port}))"));
    let udp = python(&format!(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('127.0.0.1', {port}))\n\
         s.send(b'x')\ns.close()\n\
         if open('/proc/net/dev').read().count('eth') + open('/proc/net/route').read().count('\\n') < 2: sys.exit(1)"
    ));
    let names = python("socket.getaddrinfo('example.com', 80)");
    let of_abstract = python(&format!(
        "s = socket.socket(socket.AF_UNIX)\ns.connect('\\0{}')",
        stage.abstract_name
    ));
    let says = |name, script: String| Attack::new(name, script, Proof::Says);
    let mut all = vec![
        says("connect to the ssh agent", connect(home.join("agent.sock"))),
        says("connect to docker", connect(home.join(".docker/run/docker.sock"))),
        says("connect to an abstract socket", of_abstract),
        says("connect by TCP without a network", tcp).offline(),
        says("send by UDP without a network", udp).offline().only_inside(),
        says("resolve a name without a network", names).offline().only_inside(),
    ];
    for (name, path) in [
        ("connect to the bus of the system", "/run/dbus/system_bus_socket"),
        ("connect to the docker of the machine", "/var/run/docker.sock"),
        ("connect to the service manager", "/run/systemd/private"),
    ] {
        all.push(says(name, connect(PathBuf::from(path))).only_inside());
    }
    all
}

fn kernel(stage: &Stage) -> Vec<Attack> {
    let says =
        |name, command: &str| Attack::new(name, self::says(command), Proof::Says).only_inside();
    let type_in =
        python("import fcntl\nt = os.open('/dev/tty', os.O_RDWR)\nfcntl.ioctl(t, 0x5412, b'x')");
    let no_new = "grep -q 'NoNewPrivs:.*0' /proc/self/status";
    let rights = "! grep -q 'CapEff:.*0000000000000000' /proc/self/status";
    let shown = stage.trial.dir();
    vec![
        says("make a user namespace", "unshare -Ur true"),
        says("make a mount namespace", "unshare -m true"),
        says(
            "change where cores go",
            "(cat /proc/sys/kernel/core_pattern > /tmp/c; cat /tmp/c > /proc/sys/kernel/core_pattern) 2>/dev/null",
        ),
        says("use the magic keys", "(echo h > /proc/sysrq-trigger) 2>/dev/null"),
        says("gain rights by a setuid program", no_new),
        says("have the rights of root", rights),
        says("make a device", "mknod dev c 1 1 && head -c 1 dev > /dev/null"),
        says("read the memory of the kernel", "head -c 1 /dev/mem > /dev/null"),
        says("read the log of the kernel", "head -c 1 /dev/kmsg > /dev/null"),
        says(
            "make a control group",
            "mkdir /sys/fs/cgroup/evil /sys/fs/cgroup/unified/evil 2>/dev/null",
        ),
        says(
            "leave the control group",
            "(for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do echo $$ > $f && exit 0; done; exit 1) 2>/dev/null",
        ),
        says(
            "write into /sys",
            "(echo 0 > /sys/kernel/profiling || echo mem > /sys/power/pm_test) 2>/dev/null",
        ),
        says(
            "change the host name",
            "hostname \"$(hostname)\" 2>/dev/null && [ \"$(readlink /proc/1/ns/uts)\" = \"x\" ]",
        ),
        says("leave by chroot", &format!("chroot '{}' true", shown.display())),
        Attack::new("type into a terminal", type_in, Proof::Says).only_inside(),
    ]
}

/// Commands of `ralph` itself.
fn commands(stage: &Stage) -> Vec<Attack> {
    let (root, home) = (stage.trial.root(), stage.trial.dir());
    let main = root.display();
    let says = |name, script: String| Attack::new(name, script, Proof::Says).only_inside();
    let command = |name, command: &str| says(name, self::says(command));
    let profile = |name, script: String| {
        Attack::new(name, script, Proof::Changes(home.join(".profile"))).only_inside()
    };
    let link = home.join(".profile");
    let link = link.display();
    vec![
        command("pause the run", "\"$RALPH\" -C \"$MAIN\" pause".replace("$MAIN", &main.to_string()).as_str()),
        command("stop the run", &format!("\"$RALPH\" -C '{main}' stop --now")),
        command("add a task", &format!("\"$RALPH\" -C '{main}' task-add Evil")),
        command("reset a task", "\"$RALPH\" task-reset b"),
        command("complete another task", "\"$RALPH\" task-complete b"),
        command("answer a question", "\"$RALPH\" answer a yes"),
        command("start a run", &format!("cd '{main}' && timeout 20 \"$RALPH\" run --once -- true")),
        command("remove slots", "\"$RALPH\" slots remove --force"),
        profile(
            "have a note written through a link",
            format!("rm -f \"$TASK_FOLDER/notes.md\"; ln -s '{link}' \"$TASK_FOLDER/notes.md\"; \"$RALPH\" note evil; rm -f \"$TASK_FOLDER/notes.md\""),
        ),
        profile(
            "have a question written through a link",
            format!("q=\"$TASK_FOLDER/WAIT_WITHOUT_RESTART\"; rm -f \"$q\"; ln -s '{link}' \"$q\"; \"$RALPH\" ask evil; rm -f \"$q\""),
        ),
        profile(
            "have learnings written through a link",
            format!("rm -rf docs; mkdir docs; for n in learnings.md LEARNINGS.md; do ln -s '{link}' docs/$n; ln -s '{link}' $n; done; \"$RALPH\" note --for-all evil; rm -rf docs *.md"),
        ),
        Attack::new(
            "have a hidden file shown as a note",
            format!("n=\"$TASK_FOLDER/notes.md\"; rm -f \"$n\"; ln -s '{}' \"$n\"; \"$RALPH\" note more; cat \"$n\"; rm -f \"$n\"", home.join(".ssh/id_ed25519").display()),
            Proof::Reads,
        )
        .only_inside(),
        Attack::new(
            "have commands run in a repository of its own",
            format!("cd \"$TASK_FOLDER\" && git init -q . && mkdir -p .ralph && echo 'verify: [\"touch {0}\"]' > .ralph/config.yaml; \"$RALPH\" status; \"$RALPH\" ask x; rm -rf .git .ralph", home.join("evil-repository").display()),
            Proof::Changes(home.join("evil-repository")),
        )
        .only_inside(),
        says(
            "hold a lock that the run needs",
            self::says(&format!("flock -n '{main}/.git/ralph/graph.lock' true")),
        ),
    ]
}

fn survivors() -> Vec<Attack> {
    let lives = |name, marker: &str, script: String| {
        Attack::new(name, script, Proof::Lives(marker.to_owned())).only_inside()
    };
    let daemon = format!("{}4242", std::process::id());
    let bomb = format!("{}4343", std::process::id());
    let double = format!("{}4444", std::process::id());
    vec![
        lives(
            "leave a daemon running",
            &daemon,
            format!("setsid sleep {daemon} < /dev/null > /dev/null 2>&1 & sleep 0.1"),
        ),
        lives(
            "leave many processes running",
            &bomb,
            format!(
                "for i in $(seq 60); do (trap '' TERM HUP; setsid sleep {bomb} > /dev/null 2>&1 &) ; done"
            ),
        ),
        lives(
            "leave an orphan without variables running",
            &double,
            format!("(env -i setsid sh -c 'sleep {double} & exit' > /dev/null 2>&1 &); sleep 0.1"),
        ),
    ]
}
