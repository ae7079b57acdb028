//! What git reads as settings in a slot: those of the repository, without what must not apply there.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsStr,
    fs::{self, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Slots, lossy, program};
use crate::regular_file;

/// The files of the git directory that say which files and commits the repository has.
const COPIED: &[&str] = &["info/exclude", "info/attributes", SPARSE, "shallow"];

const SPARSE: &str = "info/sparse-checkout";

/// The folders of the git directory whose files are copied: hooks, and what git-crypt and transcrypt
/// keep there for their filters, without which no file that they encrypt can be checked out.
pub(super) const FOLDERS: [&str; 3] = ["hooks", "git-crypt", "crypt"];

/// The settings of a repository that must not apply in its slots.
const NOT_TAKEN: &[&str] = &[
    "include.",
    "includeif.",
    "core.bare",
    "core.fsmonitor",
    "core.repositoryformatversion",
    "core.splitindex",
    "core.worktree",
    "extensions.preciousobjects",
    "extensions.refstorage",
    "extensions.relativeworktrees",
    "extensions.worktreeconfig",
    "index.sparse",
    "gc.auto",
    "maintenance.",
];

/// The repository in the git directory of a slot that takes the pushes of its agent in place of the
/// remotes, and refuses them.
const PUSHES: &str = "ralph-pushes";

/// The file in it with the refs that were to be pushed, one a line.
const TRIED: &str = "tried";

/// Its `pre-receive`, and the `pre-push` of a slot and its submodules, for addresses that an agent sets. The
/// name is the third word for both. A hook that cannot start refuses nothing: what goes to the repository
/// stays in the slot all the same.
const REFUSES: &str = "#!/bin/sh
to=${0%/*}/..
for up in 1 2 3 4 5 6 7 8; do [ -d \"$to/ralph-pushes\" ] && break; to=$to/..; done
while read -r one two name more; do echo \"$name\" >> \"$to/ralph-pushes/tried\"; done
echo 'refused: no pushes from here; commit, and the run verifies and lands the work' >&2
exit 1
";

/// The hook of a git directory that refuses pushes, whatever their address is.
const PRE_PUSH: &str = "hooks/pre-push";

/// Whether an agent may push from its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PushRule {
    /// A push reaches no remote.
    #[default]
    Refuse,
    /// The remotes are those of the repository.
    Allow,
}

/// What git reads as settings in every slot of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSettings {
    /// The top of the repository.
    pub(super) main: PathBuf,
    config: Vec<u8>,
    /// The git directory of the repository.
    pub(super) common_dir: PathBuf,
    copied: Vec<(&'static str, Vec<u8>)>,
    /// The files of [`FOLDERS`], relative to the git directory.
    files: Vec<PathBuf>,
    /// The settings of the repository that refuses pushes; none if they are allowed.
    refusal: Option<Vec<u8>>,
    /// Whether the checkout is sparse.
    pub(super) is_sparse: bool,
    /// The folder of objects of a partial clone, to which missing ones are downloaded.
    pub(super) objects: Option<PathBuf>,
}

/// A setting of a repository.
struct ConfigEntry {
    /// Whether it is a setting of the repository or of its worktree, not of a person or machine.
    is_local: bool,
    file: Option<PathBuf>,
    /// With the section and the subsection in lower and original case, as git prints it.
    name: String,
    value: Option<Vec<u8>>,
}

impl ConfigEntry {
    fn is(&self, name: &str, value: &[u8]) -> bool {
        self.name == name && self.value.as_deref() == Some(value)
    }

    /// The remote whose address it is.
    fn remote(&self) -> Option<&str> {
        self.name.strip_prefix("remote.")?.strip_suffix(".url")
    }

    /// Whether it says where pushes go.
    fn is_push_address(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        name.ends_with(".pushurl") || name.ends_with(".pushinsteadof")
    }

    /// Its lines in a settings file. A relative address of a remote becomes absolute.
    fn line(&self, root: &Path) -> Vec<u8> {
        let value = self.value.as_deref().map(|value| {
            let is_url =
                self.name.starts_with("remote.") && self.name.rsplit('.').next() == Some("url");
            let is_relative = value.starts_with(b"../") || value.starts_with(b"./");
            if is_url && is_relative {
                quoted(root.join(OsStr::from_bytes(value)).as_os_str().as_bytes())
            } else {
                quoted(value)
            }
        });
        setting_line(&self.name, value.as_deref())
    }
}

/// The lines of a setting in a file of settings, with a quoted value.
pub(super) fn setting_line(name: &str, value: Option<&[u8]>) -> Vec<u8> {
    let (section, key) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut text = match section.split_once('.') {
        None => format!("[{section}]\n\t{key}").into_bytes(),
        Some((section, part)) => {
            let part = quoted(part.as_bytes());
            [b"[", section.as_bytes(), b" ", &*part, b"]\n\t", key.as_bytes()].concat()
        }
    };
    if let Some(value) = value {
        text.extend([b" = ", value].concat());
    }
    text.push(b'\n');
    text
}

/// What git said about the settings of repositories, by their tops.
static KNOWN: Mutex<BTreeMap<PathBuf, ConfigList>> = Mutex::new(BTreeMap::new());

/// Git's answer about the settings, and the contents of the files that it may have read.
#[derive(Debug)]
struct ConfigList {
    contents: Vec<Option<Vec<u8>>>,
    list: Vec<u8>,
}

/// The content of a file; none if it does not exist.
fn content_of(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match regular_file::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // `/dev/null` is a common name for no settings.
        Err(_) if file == Path::new("/dev/null") => Ok(None),
        other => other.map(Some),
    }
}

/// Whether git reads this file of settings in every repository.
fn is_read_everywhere(file: &Path) -> bool {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let xdg = env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    let named = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].map(env::var_os);
    file.starts_with("/etc")
        || file == home.join(".gitconfig")
        || file == xdg.join("git/config")
        || named.into_iter().flatten().any(|name| file == Path::new(&name))
}

impl Slots<'_> {
    /// The settings of this repository's slots: those of the repository, its hooks, its list of
    /// ignored files and its sparse checkout.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn settings(&self, pushes: PushRule) -> Result<SlotSettings> {
        // Each worktree has its own sparse checkout and shares the rest.
        let folder = |name: &str| if name == SPARSE { &self.git_dir } else { &self.common_dir };
        let read =
            |name: &&'static str| Some((*name, regular_file::read(&folder(name).join(name)).ok()?));
        let copied = COPIED.iter().filter_map(read).collect();
        let entries = self.config_entries()?;
        let is_sparse = entries.iter().any(|it| it.is("core.sparsecheckout", b"true"));
        let is_partial = entries.iter().any(|it| it.name == "extensions.partialclone");
        let objects = self.common_dir.join("objects");
        Ok(SlotSettings {
            main: self.root.clone(),
            config: self.slot_config(&entries, pushes),
            common_dir: self.common_dir.clone(),
            copied,
            files: files_in(&self.common_dir),
            refusal: (pushes == PushRule::Refuse).then(|| refusal_config(&entries)),
            is_sparse,
            objects: is_partial.then_some(objects),
        })
    }

    /// The settings file of a slot: the minimum to open it, the settings of this repository, and
    /// the differences.
    fn slot_config(&self, entries: &[ConfigEntry], pushes: PushRule) -> Vec<u8> {
        let mut text = b"[core]\n\trepositoryformatversion = 1\n".to_vec();
        let lfs = quoted(self.common_dir.join("lfs").as_os_str().as_bytes());
        text.extend([b"[lfs]\n\tstorage = ", &*lfs, b"\n"].concat());
        let mut files: Vec<&Path> = Vec::new();
        for entry in entries {
            let is_refused = pushes == PushRule::Refuse && entry.is_push_address();
            if is_refused && entry.is_local {
                continue;
            }
            if entry.is_local && !NOT_TAKEN.iter().any(|name| entry.name.starts_with(name)) {
                text.extend(entry.line(&self.root));
            } else if !entry.is_local
                && let Some(file) = entry.file.as_deref().filter(|file| !files.contains(file))
            {
                files.push(file);
            }
        }
        // Files that apply here because of the folder of the repository may not apply in a slot.
        for file in files.into_iter().filter(|file| !is_read_everywhere(file)) {
            let file = quoted(file.as_os_str().as_bytes());
            text.extend([b"[include]\n\tpath = ", &*file, b"\n"].concat());
        }
        // A monitor would outlive the attempt, and maintenance works on objects that others need.
        // An index in two files would lose one of them when its settings are written again.
        text.extend(b"[core]\n\tbare = false\n\tfsmonitor = false\n\tsplitIndex = false\n");
        text.extend(b"[index]\n\tsparse = false\n");
        text.extend(b"[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
        if pushes == PushRule::Refuse {
            let to = format!(".git/{PUSHES}");
            let remotes = entries.iter().filter_map(|entry| entry.remote());
            for remote in remotes.collect::<BTreeSet<_>>() {
                text.extend(setting_line(&format!("remote.{remote}.pushurl"), Some(to.as_bytes())));
            }
            // The address of a push that names no remote.
            text.extend(setting_line(&format!("url.{to}/.pushInsteadOf"), Some(b"\"\"")));
        }
        text
    }

    /// The output of `git config --list`. Asks again only after a change of a file that it read.
    pub(super) fn config_list(&self) -> Result<Vec<u8>> {
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let files = self.config_files();
        // Read before git reads them: a later change differs from this.
        let contents: io::Result<Vec<_>> = files.iter().map(|file| content_of(file)).collect();
        let contents = contents.ok();
        if let (Some(known), Some(contents)) = (known().get(&self.root), &contents)
            && known.contents == *contents
        {
            return Ok(known.list.clone());
        }
        let list = ["config", "--list", "--show-scope", "--show-origin", "-z"];
        let list = program::run(&self.root, &list)?;
        let mut origins = list.split(|byte| *byte == 0).skip(1).step_by(3);
        let is_one = |origin: &[u8]| match origin.strip_prefix(b"file:") {
            Some(file) => files.contains(&self.root.join(OsStr::from_bytes(file))),
            None => true,
        };
        if let Some(contents) = contents.filter(|_| origins.all(is_one)) {
            known().insert(self.root.clone(), ConfigList { contents, list: list.clone() });
        }
        Ok(list)
    }

    /// The value of a setting, unless a variable or an option of a command gives it.
    pub(super) fn setting(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let last = self.config_entries()?.into_iter().rfind(|entry| entry.name == name);
        Ok(last.and_then(|entry| entry.value))
    }

    /// The files of settings that git reads here if nothing includes others.
    pub(super) fn config_files(&self) -> Vec<PathBuf> {
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let xdg = env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
        let xdg = xdg.map_or_else(|| home.join(".config"), PathBuf::from);
        let named = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].map(env::var_os);
        let mut files = vec![
            self.common_dir.join("config"),
            self.git_dir.join("config.worktree"),
            home.join(".gitconfig"),
            xdg.join("git/config"),
            PathBuf::from("/etc/gitconfig"),
            PathBuf::from("/usr/local/etc/gitconfig"),
        ];
        files.extend(named.into_iter().flatten().map(PathBuf::from));
        files
    }

    /// The settings that apply in this repository, without those of the command line.
    fn config_entries(&self) -> Result<Vec<ConfigEntry>> {
        let list = self.config_list()?;
        let fields: Vec<&[u8]> = list.split(|byte| *byte == 0).collect();
        let entry = |entry: &[&[u8]]| {
            let &[scope, origin, setting] = entry else { return None };
            let (name, value) = match split_at(setting, b'\n') {
                Some((name, value)) => (name, Some(value.to_vec())),
                // A name alone is true.
                None => (setting, None),
            };
            let file = origin.strip_prefix(b"file:");
            let file = file.map(|file| self.root.join(OsStr::from_bytes(file)));
            let is_local = [&b"local"[..], b"worktree"].contains(&scope);
            (scope != b"command").then(|| ConfigEntry { is_local, file, name: lossy(name), value })
        };
        Ok(fields.chunks_exact(3).filter_map(entry).collect())
    }
}

/// The settings of the repository that refuses pushes.
fn refusal_config(entries: &[ConfigEntry]) -> Vec<u8> {
    let mut text = b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n".to_vec();
    // Above those of the person, whose hooks are not for it.
    text.extend(b"\thooksPath = hooks\n");
    let format = entries.iter().rfind(|entry| entry.name == "extensions.objectformat");
    text.extend(
        format.map(|entry| setting_line(&entry.name, entry.value.as_deref())).unwrap_or_default(),
    );
    text
}

/// Whether nothing can be pushed from a slot.
pub(super) fn refuses_pushes(git_dir: &Path) -> bool {
    git_dir.join(PUSHES).is_dir()
}

/// Returns the refs that the agent of a slot tried to push, each once.
pub(super) fn tried_pushes(git_dir: &Path) -> Vec<String> {
    /// More is no list of refs.
    const MOST: usize = 20;
    let tried = regular_file::read(&git_dir.join(PUSHES).join(TRIED)).unwrap_or_default();
    let names: BTreeSet<String> = tried.split(|byte| *byte == b'\n').map(lossy).collect();
    names.into_iter().filter(|name| name.starts_with("refs/")).take(MOST).collect()
}

/// The files of [`FOLDERS`] in a git directory.
fn files_in(git_dir: &Path) -> Vec<PathBuf> {
    let mut open: Vec<PathBuf> = FOLDERS.map(PathBuf::from).to_vec();
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(git_dir.join(&folder)).into_iter().flatten().flatten() {
            let path = folder.join(entry.file_name());
            let is_sample = path.extension().is_some_and(|end| end == "sample");
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else if !is_sample && git_dir.join(&path).is_file() {
                files.push(path);
            }
        }
    }
    files
}

impl SlotSettings {
    /// The content of `objects/info/alternates`. A path that begins with a quote or a `#` is quoted.
    fn alternates(&self) -> Vec<u8> {
        let objects = self.common_dir.join("objects");
        let bytes = objects.as_os_str().as_bytes();
        let line = if bytes.contains(&b'\n') { quoted(bytes) } else { bytes.to_vec() };
        [&line[..], b"\n"].concat()
    }

    /// Adds patterns of files that git ignores in the slots.
    pub fn ignore(&mut self, patterns: &[&str]) {
        const NAME: &str = "info/exclude";
        if !self.copied.iter().any(|(name, _)| *name == NAME) {
            self.copied.push((NAME, Vec::new()));
        }
        for (_, content) in self.copied.iter_mut().filter(|(name, _)| *name == NAME) {
            for pattern in patterns {
                content.extend([b"\n", pattern.as_bytes(), b"\n"].concat());
            }
        }
    }

    /// Sets the identity of commits in the slots.
    pub(super) fn commit_as(&mut self, name: &str, email: &str) {
        let [name, email] = [name, email].map(|text| quoted(text.as_bytes()));
        let lines = [b"[user]\n\tname = ", &*name, b"\n\temail = ", &*email, b"\n"];
        self.config.extend(lines.concat());
    }

    /// Whether a git directory has exactly these settings, and nothing else at the paths of `places`.
    /// Files of [`FOLDERS`] are not compared: they are written again each time.
    pub(super) fn are_all_in(&self, git_dir: &Path, places: &[&str]) -> bool {
        let copied = self.copied.iter().map(|(name, content)| (*name, content));
        let alternates = self.alternates();
        let own = [("objects/info/alternates", &alternates), ("config", &self.config)];
        let hook = REFUSES.as_bytes().to_vec();
        let hook = self.refusal.is_some().then_some((PRE_PUSH, &hook));
        let wanted: BTreeMap<PathBuf, &Vec<u8>> = copied
            .chain(own)
            .chain(hook)
            .map(|(name, content)| (git_dir.join(name), content))
            .collect();
        let mut open: Vec<PathBuf> = places.iter().map(|place| git_dir.join(place)).collect();
        open.push(git_dir.join("config"));
        let mut found = 0;
        while let Some(path) = open.pop() {
            match fs::symlink_metadata(&path) {
                Ok(it) if it.is_dir() && wanted.keys().any(|it| it.parent() == Some(&path)) => {
                    let Ok(entries) = fs::read_dir(&path) else { return false };
                    for entry in entries {
                        let Ok(entry) = entry else { return false };
                        open.push(entry.path());
                    }
                }
                // A file with another hard link can be changed through it.
                Ok(it) if it.is_file() && it.nlink() == 1 => {
                    let text = wanted.get(&path);
                    if text.is_none_or(|text| regular_file::read(&path).ok().as_ref() != Some(text))
                    {
                        return false;
                    }
                    found += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(_) | Err(_) => return false,
            }
        }
        self.files.is_empty() && found == wanted.len()
    }

    /// Writes them to a git directory.
    pub(super) fn write(&self, git_dir: &Path) -> io::Result<()> {
        for folder in ["objects/info", "refs/heads", "info"] {
            fs::create_dir_all(git_dir.join(folder))?;
        }
        for (name, content) in &self.copied {
            replace(&git_dir.join(name), content)?;
        }
        for file in &self.files {
            let copy = git_dir.join(file);
            fs::create_dir_all(copy.parent().unwrap_or(git_dir))?;
            remove_all(&copy)?;
            regular_file::copy(&self.common_dir.join(file), &copy)?;
        }
        replace(&git_dir.join("objects/info/alternates"), &self.alternates())?;
        if let Some(config) = &self.refusal {
            self.write_refusal(&git_dir.join(PUSHES), config)?;
            write_pre_push(git_dir)?;
        }
        replace(&git_dir.join("config"), &self.config)
    }

    /// Makes the repository that refuses pushes again, with those that were tried.
    fn write_refusal(&self, git_dir: &Path, config: &[u8]) -> io::Result<()> {
        let tried = regular_file::read(&git_dir.join(TRIED));
        remove_all(git_dir)?;
        for folder in ["objects/info", "refs/heads", "hooks"] {
            fs::create_dir_all(git_dir.join(folder))?;
        }
        tried.map_or(Ok(()), |tried| fs::write(git_dir.join(TRIED), tried))?;
        // Git sends only objects that the repository has not.
        fs::write(git_dir.join("objects/info/alternates"), self.alternates())?;
        fs::write(git_dir.join("config"), config)?;
        write_hook(&git_dir.join("hooks/pre-receive"))?;
        // Git takes a folder for a repository once it has a HEAD.
        fs::write(git_dir.join("HEAD"), "ref: refs/heads/none\n")
    }
}

/// Lets a git directory refuse pushes, below that of a slot which does.
pub(super) fn write_pre_push(git_dir: &Path) -> io::Result<()> {
    fs::create_dir_all(git_dir.join("hooks"))?;
    write_hook(&git_dir.join(PRE_PUSH))
}

fn write_hook(hook: &Path) -> io::Result<()> {
    replace(hook, REFUSES.as_bytes())?;
    fs::set_permissions(hook, Permissions::from_mode(0o755))
}

/// A value as git reads it in a settings file.
pub(super) fn quoted(value: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in value {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            b'\n' => text.extend(b"\\n"),
            byte => text.push(*byte),
        }
    }
    text.push(b'"');
    text
}

/// Replaces a file, also where a folder or link stands.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    remove_all(path)?;
    fs::write(path, content)
}

/// Removes a file, a link, or a folder with all it contains.
pub(super) fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

pub(super) fn split_at(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}
