//! The loose objects of a slot, read and checked without libgit2.
//!
//! An attempt may leave anything in its slot, and libgit2 waits without end for the rest of a
//! truncated object and panics at a mode that it does not know. So every object of a slot is read
//! here first, each as a whole and with a limit, and is handed to libgit2 only if all of them are
//! what git writes: a complete stream, the right header and length, and the id that its name says.
//! Everything else is for the `git` program.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, Metadata},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use flate2::{Decompress, FlushDecompress, Status};
use git2::{ObjectType, Oid};

use crate::regular_file;

/// Limits on the objects of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectLimits {
    /// The largest number of objects.
    pub(super) count: usize,
    /// The largest number of bytes in all of them together.
    pub(super) bytes: usize,
}

/// The limits up to which libgit2 reads a slot.
const READABLE: ObjectLimits = ObjectLimits { count: 4_000, bytes: 64 << 20 };

/// An object of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LooseObject {
    pub(super) kind: ObjectType,
    pub(super) content: Vec<u8>,
}

/// The objects of a slot, by id.
pub(super) type LooseObjects = BTreeMap<Oid, LooseObject>;

/// What tells a file from a changed or another one: inode, length, and the time of the last change.
type FileStamp = (u64, u64, i64, i64);

/// The objects that were found to be readable, by folder.
static CHECKED: Mutex<Option<HashMap<PathBuf, HashSet<FileStamp>>>> = Mutex::new(None);

/// Reads the loose objects in a folder of objects. None if there is a pack, if they exceed the
/// limits, or if one of them is damaged.
pub(super) fn read(objects: &Path, limits: ObjectLimits) -> Option<LooseObjects> {
    let mut rest = limits.bytes;
    let mut found = LooseObjects::new();
    for (path, id, _) in files(objects, limits.count)? {
        let object = read_object(&path, id, rest)?;
        rest -= object.content.len();
        found.insert(id, object);
    }
    Some(found)
}

/// Whether libgit2 can read all objects that this folder has itself. Objects that were checked by
/// this process are not read again while their files are unchanged.
pub(super) fn are_readable(objects: &Path) -> bool {
    let Some(files) = files(objects, READABLE.count) else { return false };
    let take = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = take().as_ref().and_then(|all| all.get(objects).cloned()).unwrap_or_default();
    let mut rest = READABLE.bytes;
    let mut stamps = HashSet::with_capacity(files.len());
    for (path, id, stamp) in files {
        if !known.contains(&stamp) {
            let Some(object) = read_object(&path, id, rest) else { return false };
            if object.kind == ObjectType::Tree && tree_entries(&object.content).is_none() {
                return false;
            }
            rest -= object.content.len();
        }
        stamps.insert(stamp);
    }
    take().get_or_insert_default().insert(objects.to_owned(), stamps);
    true
}

/// The files of the objects in a folder; none if there are more than `most` of them, or a pack.
fn files(objects: &Path, most: usize) -> Option<Vec<(PathBuf, Oid, FileStamp)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(objects).ok()? {
        let folder = entry.ok()?;
        let name = folder.file_name();
        let name = name.to_str()?;
        let is_pack = name == "pack";
        if !is_pack && name.len() != 2 {
            continue;
        }
        if !folder.file_type().ok()?.is_dir() {
            return None;
        }
        for entry in fs::read_dir(folder.path()).ok()? {
            let entry = entry.ok()?;
            if is_pack {
                return None;
            }
            let rest = entry.file_name();
            // The temporary files of a killed git have other names.
            let id = rest.to_str().filter(|rest| rest.len() == 38);
            let Some(id) = id.and_then(|rest| Oid::from_str(&format!("{name}{rest}")).ok()) else {
                continue;
            };
            if found.len() == most {
                return None;
            }
            let file = entry.metadata().ok().filter(Metadata::is_file)?;
            found.push((entry.path(), id, stamp(&file)));
        }
    }
    Some(found)
}

fn stamp(found: &Metadata) -> FileStamp {
    (found.ino(), found.len(), found.ctime(), found.ctime_nsec())
}

/// Reads an object of at most `most` bytes; none if it is larger or damaged.
fn read_object(path: &Path, id: Oid, most: usize) -> Option<LooseObject> {
    /// The longest header, and what compression adds to content that cannot be compressed.
    const MORE: usize = 1024;
    let limit = u64::try_from(most + most / 1000 + MORE).ok()?;
    let mut packed = Vec::new();
    regular_file::open(path).ok()?.take(limit).read_to_end(&mut packed).ok()?;
    let mut content = inflate(&packed, most + 64)?;
    let end = content.iter().take(64).position(|byte| *byte == 0)?;
    let header = std::str::from_utf8(&content[..end]).ok()?;
    let (kind, length) = header.split_once(' ')?;
    let is_long = length == (content.len() - end - 1).to_string();
    let kind = match kind {
        "blob" => ObjectType::Blob,
        "tree" => ObjectType::Tree,
        "commit" => ObjectType::Commit,
        "tag" => ObjectType::Tag,
        _ => return None,
    };
    content.drain(..=end);
    let is_it = is_long
        && content.len() <= most
        && Oid::hash_object(kind, &content).is_ok_and(|found| found == id);
    is_it.then_some(LooseObject { kind, content })
}

/// The content of a zlib stream of at most `most` bytes; none if it is longer, damaged, not complete
/// or followed by anything.
fn inflate(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    const STEP: usize = 64 << 10;
    let mut stream = Decompress::new(true);
    let mut content = Vec::new();
    loop {
        content.reserve(STEP);
        let (read, had) = (usize::try_from(stream.total_in()).ok()?, content.len());
        let status = stream.decompress_vec(&packed[read..], &mut content, FlushDecompress::None);
        let status = status.ok()?;
        let now = usize::try_from(stream.total_in()).ok()?;
        if content.len() > most {
            return None;
        }
        match status {
            Status::StreamEnd => return (now == packed.len()).then_some(content),
            Status::Ok | Status::BufError if now == read && content.len() == had => return None,
            Status::Ok | Status::BufError => {}
        }
    }
}

/// An entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry<'a> {
    pub(super) mode: u32,
    pub(super) name: &'a [u8],
    pub(super) id: Oid,
}

/// The mode of a folder in a tree (git-ls-tree(1)).
pub(super) const FOLDER: u32 = 0o040_000;
/// The mode of a link to a commit.
pub(super) const LINK: u32 = 0o160_000;

/// The entries of a tree in their order; none if one of them has a mode that git does not write.
pub(super) fn tree_entries(content: &[u8]) -> Option<Vec<TreeEntry<'_>>> {
    let mut entries = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let blank = rest.iter().take(8).position(|byte| *byte == b' ')?;
        let mode = match &rest[..blank] {
            b"100644" => 0o100_644,
            b"100755" => 0o100_755,
            b"120000" => 0o120_000,
            b"40000" => FOLDER,
            b"160000" => LINK,
            _ => return None,
        };
        let end = blank + 1 + rest[blank + 1..].iter().position(|byte| *byte == 0)?;
        let id = Oid::from_bytes(rest.get(end + 1..end + 21)?).ok()?;
        entries.push(TreeEntry { mode, name: &rest[blank + 1..end], id });
        rest = &rest[end + 21..];
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::tests::TestRepository;

    const FEW: ObjectLimits = ObjectLimits { count: 100, bytes: 1 << 20 };

    /// A repository with a blob of 100,000 bytes, its folder of objects and the file of the blob.
    fn with_blob() -> (TestRepository, PathBuf, PathBuf) {
        let place = TestRepository::new();
        let lines: Vec<String> = (0..12_500).map(|number| format!("{number:07}\n")).collect();
        let text = lines.concat();
        place.commit("file", &text, "First");
        let id = place.git(&["rev-parse", "HEAD:file"]);
        let objects = place.top.join(".git/objects");
        let file = objects.join(&id[..2]).join(&id[2..]);
        (place, objects, file)
    }

    #[test]
    fn all_objects_of_a_repository_are_read() {
        let (place, objects, _) = with_blob();
        let found = read(&objects, FEW).unwrap();
        let kinds: Vec<ObjectType> = found.values().map(|object| object.kind).collect();
        assert_eq!(kinds.len(), 3);
        for (id, object) in &found {
            let kind = object.kind.str();
            let output = place.try_git(&place.top, &["cat-file", kind, &id.to_string()]);
            assert_eq!(object.content, output.stdout);
        }
        assert!(are_readable(&objects));
        assert_eq!(read(&objects, ObjectLimits { count: 2, ..FEW }), None);
        assert_eq!(read(&objects, ObjectLimits { bytes: 99_999, ..FEW }), None);
        place.git(&["repack", "-q", "-a", "-d"]);
        assert!(read(&objects, FEW).is_none() && !are_readable(&objects));
    }

    #[test]
    fn a_damaged_object_is_found_wherever_it_ends() {
        let (_place, objects, file) = with_blob();
        assert!(are_readable(&objects));
        let whole = fs::read(&file).unwrap();
        let replace = |bytes: &[u8]| {
            fs::remove_file(&file).unwrap();
            fs::write(&file, bytes).unwrap();
        };
        let ends = (0..64).chain(whole.len() - 8..whole.len());
        for end in ends.chain((64..whole.len() - 8).step_by(997)) {
            replace(&whole[..end]);
            assert!(!are_readable(&objects), "cut at {end} of {}", whole.len());
            assert_eq!(read(&objects, FEW), None);
        }
        replace(&[&whole[..], b"more"].concat());
        assert!(!are_readable(&objects));
        let mut wrong = whole.clone();
        let middle = wrong.len() / 2;
        wrong[middle] ^= 1;
        replace(&wrong);
        assert!(!are_readable(&objects));
        replace(&whole);
        assert!(are_readable(&objects));
        // A link in its place.
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert!(!are_readable(&objects));
    }

    #[test]
    fn trees_with_strange_modes_are_found() {
        let tree = |mode: &str| [mode.as_bytes(), b" name\0", &[7; 20]].concat();
        let entries = |content: &[u8]| tree_entries(content).map(|entries| entries.len());
        assert_eq!(entries(&tree("100644")), Some(1));
        assert_eq!(entries(&[tree("40000"), tree("160000")].concat()), Some(2));
        for mode in ["100664", "040000", "0", "777777777777", ""] {
            assert_eq!(entries(&tree(mode)), None, "{mode}");
        }
        let whole = tree("100644");
        assert!((1..whole.len()).all(|end| entries(&whole[..end]).is_none()));
    }
}
