//! Joins small packs.
//!
//! Work comes home and lands as a small pack each time, and whatever opens the repository looks at
//! each of its packs. Git itself would tidy up after its own commands, but `ralph` does not let it:
//! that removes objects, and takes as long as it likes.

use std::fs;

use super::{Repo, program};

/// The number of small packs from which on they are joined. Git does it from 50 packs on
/// (`gc.autoPackLimit` in git-config(1)).
const MANY: usize = 40;

/// The size in bytes up to which a pack is small.
const SMALL: u64 = 8 << 20;

impl Repo {
    /// Joins the small packs when there are many. No object is removed, and larger packs and those
    /// that a person keeps stay as they are. Does nothing in a partial clone, where git knows by its
    /// pack whether an object is also with the server, and in a repository that borrows objects: git
    /// would leave out what it can borrow.
    pub fn join_packs(&self) {
        let objects = self.common_dir.join("objects");
        if objects.join("info/alternates").exists() {
            return;
        }
        let packs = objects.join("pack");
        let entries = fs::read_dir(&packs).into_iter().flatten();
        let (mut small, mut larger) = (0, Vec::new());
        for entry in entries.flatten() {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let path = packs.join(&name);
            if path.extension().is_none_or(|end| end != "pack")
                || path.with_extension("keep").exists()
            {
                continue;
            }
            if entry.metadata().is_ok_and(|found| found.len() <= SMALL) {
                small += 1;
            } else {
                larger.push(format!("--keep-pack={name}"));
            }
        }
        if small < MANY || !matches!(self.backend.is_partial_clone(), Ok(false)) {
            return;
        }
        // With a limit, they would be as many afterwards.
        let mut join = vec!["-c", "pack.packSizeLimit=0", "repack", "-q", "-d", "--geometric=2"];
        join.push("--no-write-bitmap-index");
        join.extend(larger.iter().map(String::as_str));
        // A repository with many packs works, only more slowly.
        let _ = program::run(&self.root, &join);
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write as _, path::Path};

    use super::*;
    use crate::adapters::git::tests::TestRepository;

    #[test]
    fn small_packs_are_joined_and_larger_ones_stay() {
        let place = TestRepository::new();
        let packs = place.top.join(".git/objects/pack");
        let names = || -> Vec<String> {
            let names = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().file_name());
            let names = names.map(|name| name.to_str().unwrap().to_owned());
            names.filter(|name| Path::new(name).extension() == Some("pack".as_ref())).collect()
        };
        let mut noise = String::new();
        for number in 0..2_000_000 {
            let _ = write!(noise, "{:08x}", hash(number));
        }
        place.commit("large", &noise, "Large");
        place.git(&["repack", "-q", "-d"]);
        let large = names();
        let repo = Repo::discover(&place.top).unwrap();
        let mut commits = Vec::new();
        for number in 1..MANY {
            commits.push(place.commit("a", &format!("{number}\n"), "Small"));
            place.git(&["repack", "-q", "-d"]);
        }
        repo.join_packs();
        assert_eq!(names().len(), MANY, "they are few enough");
        // No ref names it.
        let lost = place.commit("a", "lost\n", "Lost");
        place.git(&["repack", "-q", "-d"]);
        place.git(&["reset", "-q", "--hard", "HEAD^"]);
        // libgit2 knows all packs now, and has not opened most of them.
        assert!(repo.commit_of(&commits[0]).unwrap().is_some());
        let alternates = place.top.join(".git/objects/info/alternates");
        fs::write(&alternates, place.top.to_str().unwrap()).unwrap();
        repo.join_packs();
        assert_eq!(names().len(), MANY + 1, "it borrows objects");
        fs::remove_file(alternates).unwrap();
        place.git(&["config", "pack.packSizeLimit", "1m"]);
        repo.join_packs();
        assert!(names().len() < 5 && names().contains(&large[0]), "{:?}", names());
        place.git(&["fsck", "--strict", "--no-dangling"]);
        let fresh = Repo::discover(&place.top).unwrap();
        for commit in commits.iter().chain([&lost]) {
            for repo in [&repo, &fresh] {
                assert!(repo.commit_of(commit).unwrap().is_some());
            }
        }
    }

    /// A number that does not compress.
    fn hash(number: u32) -> u32 {
        let mixed = (number ^ 0x3d ^ (number >> 16)).wrapping_mul(9);
        let mixed = (mixed ^ (mixed >> 4)).wrapping_mul(0x27d4_eb2d);
        mixed ^ (mixed >> 15)
    }
}
