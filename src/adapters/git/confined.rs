//! Calls of git where attempts work in a sandbox: git starts no program outside of it that an attempt
//! could have written.
//!
//! Hooks and monitors are off in every call. Filters, merge drivers and the like are a person's
//! settings, but their programs may lie in the tree, or read files of it: they start inside the
//! sandbox. Programs that see keys or the network are not started from the tree at all.

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use super::lossy;
use crate::core::executor::shell_word;

/// How git is called; only where attempts work in a sandbox.
static CONFINED: OnceLock<Confinement> = OnceLock::new();

struct Confinement {
    /// The top of the repository.
    main: PathBuf,
    /// The words before a shell command that is to run in the sandbox.
    inside: Vec<String>,
    /// The folders of programs, without those in the tree.
    path: OsString,
    /// The settings of each call, unless they must be asked for again.
    known: Mutex<Option<Settings>>,
}

/// Names of settings, and values that replace theirs.
type Settings = Vec<(String, String)>;

/// Filters whose program reads nothing of the tree but its input, and needs a person's keys or the
/// network.
const TRUSTED: &[&str] = &["git-lfs", "git-crypt", "git-annex"];

/// Settings with a shell command for contents of the tree: the section, and the name.
const FILTERS: &[(&str, &str)] = &[
    ("filter", "clean"),
    ("filter", "smudge"),
    ("filter", "process"),
    ("merge", "driver"),
    ("diff", "command"),
    ("diff", "textconv"),
    ("diff", "external"),
];

/// Other settings that name a program.
const PROGRAMS: &[(&str, &str)] = &[
    ("core", "alternaterefscommand"),
    ("core", "askpass"),
    ("core", "gitproxy"),
    ("core", "sshcommand"),
    ("credential", "helper"),
    ("gpg", "defaultkeycommand"),
    ("gpg", "program"),
    ("remote", "receivepack"),
    ("remote", "uploadpack"),
    ("submodule", "update"),
    ("trailer", "cmd"),
    ("trailer", "command"),
];

/// Confines the calls of this process in the repository `main` and its slots. `inside` are the words
/// before a shell command that is to run in the sandbox. Only the first call counts.
pub fn confine(main: &Path, inside: &[String]) {
    let (main, inside) = (main.to_owned(), inside.to_vec());
    let all = env::var_os("PATH").unwrap_or_default();
    let is_inside = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(&main));
    let folders = env::split_paths(&all).filter(|path| path.is_absolute() && !is_inside(path));
    let path = env::join_paths(folders).unwrap_or_default();
    drop(CONFINED.set(Confinement { main, inside, path, known: Mutex::default() }));
}

/// Whether calls are confined. Git must not enter nested repositories then, whose settings are those
/// of an attempt.
pub(super) fn is_on() -> bool {
    CONFINED.get().is_some()
}

/// Removes the file that lets git read the settings of another folder as those of this repository: an
/// attempt can make it, and only worktrees need it.
pub fn remove_redirect(top: &Path) {
    let git = top.join(".git");
    if is_on() && git.is_dir() {
        let _ = fs::remove_file(git.join("commondir"));
    }
}

/// The variables of each call. `list` asks git for its settings: `git config --list --show-origin -z`.
pub(super) fn variables(list: impl FnOnce(&Path) -> Vec<u8>) -> Vec<(String, OsString)> {
    let Some(confinement) = CONFINED.get() else { return Vec::new() };
    let settings = confinement.settings(list);
    let count = env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok());
    let first: usize = count.unwrap_or(0);
    let mut variables = vec![
        ("PATH".to_owned(), confinement.path.clone()),
        ("GIT_CONFIG_COUNT".to_owned(), (first + settings.len()).to_string().into()),
    ];
    for (number, (name, value)) in (first..).zip(settings) {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), name.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.into()));
    }
    variables
}

impl Confinement {
    fn settings(&self, list: impl FnOnce(&Path) -> Vec<u8>) -> Settings {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return known.clone();
        }
        let fields: Vec<String> = list(&self.main).split(|byte| *byte == 0).map(lossy).collect();
        let mut settings = Settings::new();
        let mut may_change = false;
        for entry in fields.chunks_exact(2) {
            let (name, value) = entry[1].split_once('\n').unwrap_or((&entry[1], ""));
            let file = entry[0].strip_prefix("file:").map(|file| self.main.join(file));
            let is_of_tree = file.as_deref().is_some_and(|file| self.is_of_tree(file));
            let replaced = self.replaced(name, value, is_of_tree);
            settings.extend(replaced.map(|value| (name.to_owned(), value)));
            // A file of the tree that the settings include changes when work lands.
            let is_include = name.starts_with("include");
            let folder = file.as_deref().and_then(Path::parent).filter(|_| is_include);
            may_change |= folder.is_some_and(|folder| self.is_of_tree(&folder.join(value)));
        }
        if !may_change {
            *known = Some(settings.clone());
        }
        settings
    }

    /// Whether a file, which may not exist yet, is one of the tree.
    fn is_of_tree(&self, file: &Path) -> bool {
        let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
        folder
            .is_some_and(|it| it.starts_with(&self.main) && !it.starts_with(self.main.join(".git")))
    }

    /// The value in the place of a setting, if it must have another one. An attempt may have written
    /// the setting itself where it is one of the tree.
    fn replaced(&self, name: &str, value: &str, is_of_tree: bool) -> Option<String> {
        let is_in = |table: &[(&str, &str)]| {
            let section = name.split('.').next();
            let key = name.rsplit('.').next();
            table.iter().any(|it| Some(it.0) == section && Some(it.1) == key)
        };
        let first = value.split_whitespace().next().unwrap_or_default();
        if is_in(FILTERS) {
            let own = self.inside.first();
            let is_own = own.is_some_and(|own| value.replace('\'', "").starts_with(own.as_str()));
            let is_plain = !value.contains(['\n', ';', '&', '|', '`', '$', '<', '>', '(']);
            let is_trusted = TRUSTED.contains(&first) || value.starts_with("git lfs ");
            let stays = value.is_empty() || is_own || is_plain && is_trusted;
            let fills = name.starts_with("filter.") || name.starts_with("merge.");
            return (!stays).then(|| inside(&self.inside, value, fills));
        }
        let refused = match name.rsplit('.').next() {
            Some("helper") => "",
            Some("update") => "checkout",
            _ => "false",
        };
        // Git starts a program that signs without a shell, so that its path may have spaces.
        let leads_into_tree = || match name.rsplit('.').next() {
            Some("program") => self.is_word_of_tree(value),
            _ => self.leads_into_tree(value),
        };
        let is_refused = is_in(PROGRAMS) && (is_of_tree || leads_into_tree());
        is_refused.then(|| refused.to_owned())
    }

    /// Whether a word of a command is a file of the tree.
    fn leads_into_tree(&self, command: &str) -> bool {
        let words = command.split(|c: char| c.is_whitespace() || "'\"=;&|()`!".contains(c));
        words
            .filter(|word| !word.is_empty() && !word.starts_with(['-', '~']))
            .any(|word| self.is_word_of_tree(word))
    }

    fn is_word_of_tree(&self, word: &str) -> bool {
        let path = Path::new(word);
        let is_there = self.main.join(path).starts_with(&self.main);
        is_there && (path.is_absolute() || word.contains('/') || self.main.join(path).exists())
    }
}

/// A command that starts another one in the sandbox. Where git fills in places such as `%f`, quoted,
/// they become arguments: they would end the quotes around the command.
fn inside(words: &[String], command: &str, fills: bool) -> String {
    let (mut text, mut places) = (String::new(), Vec::new());
    let mut letters = command.chars().peekable();
    while let Some(letter) = letters.next() {
        match letters.peek().copied().filter(|_| fills && letter == '%') {
            Some(place) if place.is_ascii_alphabetic() => {
                letters.next();
                places.push(format!("%{place}"));
                let _ = write!(text, "\"${{{}}}\"", places.len());
            }
            Some(next) => {
                text.push_str("%%");
                letters.next_if(|_| next == '%');
            }
            None => text.push(letter),
        }
    }
    // Git gives other commands their arguments at the end.
    if places.is_empty() {
        text.push_str(" \"$@\"");
    }
    let words = words.iter().chain([&text]).map(|word| shell_word(word));
    words.chain(places).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_arguments_in_the_sandbox() {
        let words = ["ralph".to_owned(), "__filter".to_owned()];
        let plain = |command: &str, fills| inside(&words, command, fills);
        assert_eq!(plain("./clean.sh", true), r#"ralph __filter './clean.sh "$@"'"#);
        assert_eq!(
            plain("tool 'a b' -- %f 5%%", true),
            r#"ralph __filter 'tool '\''a b'\'' -- "${1}" 5%%' %f"#
        );
        assert_eq!(plain("x %A %P", true), r#"ralph __filter 'x "${1}" "${2}"' %A %P"#);
        assert_eq!(plain("pdf %f", false), r#"ralph __filter 'pdf %f "$@"'"#);
    }

    #[test]
    fn only_programs_that_an_attempt_can_write_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().canonicalize().unwrap();
        std::fs::write(main.join("tool.py"), "").unwrap();
        let absolute = main.join("x").display().to_string();
        let confinement = Confinement {
            main,
            inside: vec!["/opt/ralph".to_owned()],
            path: OsString::new(),
            known: Mutex::default(),
        };
        let is_replaced =
            |name: &str, value: &str| confinement.replaced(name, value, false).is_some();
        for (name, value) in [
            ("filter.x.clean", "./clean.sh"),
            ("filter.x.smudge", "python3 -m nbstripout"),
            ("filter.lfs.clean", "git-lfs clean; ./x"),
            ("merge.x.driver", "tools/merge %A %B"),
            ("diff.external", "differ"),
            ("gpg.program", "./gpg"),
            ("gpg.ssh.program", &absolute),
            ("core.sshcommand", "ssh -F conf/ssh"),
            ("credential.https://x.helper", "!python3 tool.py"),
        ] {
            assert!(is_replaced(name, value), "{name} {value}");
        }
        for (name, value) in [
            ("filter.lfs.clean", "git-lfs clean -- %f"),
            ("filter.x.process", ""),
            ("merge.ralph.driver", "'/opt/ralph' merge-driver %O %A %B"),
            ("merge.x.name", "./a name"),
            ("gpg.program", "gpg2"),
            ("gpg.program", "/opt/with a space/gpg"),
            ("core.sshcommand", "ssh -i ~/.ssh/key"),
            ("credential.helper", "store"),
        ] {
            assert!(!is_replaced(name, value), "{name} {value}");
        }
        assert!(confinement.replaced("core.sshcommand", "curl x", true).is_some());
    }
}
