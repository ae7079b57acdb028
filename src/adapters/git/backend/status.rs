//! What differs between HEAD, the index and the files.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::Path,
    time::Duration,
};

use anyhow::Result;
use git2::{Config, Repository, Status, StatusOptions};

use super::{
    super::{Codes, bounded, program},
    Backend, open_at_rest,
};
use crate::regular_file;

/// From this number of index entries on, `git status` is about twice as fast as libgit2.
const LARGE: u32 = 5_000;

impl Backend {
    /// What `git status` lists. With `refresh`, the index gets the times of the files whose contents had
    /// to be compared, so that they are not compared again.
    pub(in crate::adapters::git) fn status(&self, refresh: bool) -> Result<Codes> {
        /// libgit2 waits without a limit for a FIFO in place of a file such as `.gitignore`. The
        /// program, which answers then, has the limit of every call.
        const LIMIT: Duration = Duration::from_secs(20);
        if !self.suits_library() {
            return program::status(&self.root);
        }
        let root = self.root.clone();
        // A thread that waits does not give it back: then the program answers everything.
        let own = self.library.try_borrow_mut().ok().filter(|_| self.is_at_rest);
        let own = own.and_then(|mut library| library.take());
        let is_own = own.is_some();
        let status = move || {
            let repo = own.map_or_else(|| open_at_rest(&root), Ok)?;
            Ok::<_, git2::Error>((library_status(&repo, refresh), repo))
        };
        let Some(Ok((status, repo))) = bounded::answer(status, LIMIT) else {
            return program::status(&self.root);
        };
        if is_own {
            self.library.replace(Some(repo));
        }
        status.or_else(|_| program::status(&self.root))
    }

    /// Whether libgit2 reads the status correctly and fast: not where a clean filter is configured (LFS
    /// and the like), which libgit2 does not run, not where the checkout is sparse, which it does not
    /// know, and not where the index is large.
    fn suits_library(&self) -> bool {
        let index = self.library().map(|repo| repo.path().join("index"));
        let is_large = |index: &Path| index_entries(index).unwrap_or(0) >= LARGE;
        if index.is_none_or(|index| is_large(&index)) {
            return false;
        }
        let is_plain = || {
            let config = self.config()?;
            let is_filtered = has_filter(&config, r"^filter\..*\.(clean|process)$").ok()?;
            let is_sparse = config.get_bool("core.sparseCheckout").unwrap_or(false);
            Some(!is_filtered && !is_sparse)
        };
        let is_plain = || is_plain().unwrap_or(false);
        if self.is_at_rest { *self.is_plain.get_or_init(is_plain) } else { is_plain() }
    }
}

fn library_status(repo: &Repository, refresh: bool) -> Result<Codes, git2::Error> {
    // Git may be told to write no checksum, from which libgit2 sees that an index has changed.
    repo.index()?.read(true)?;
    let mut options = StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(true).update_index(refresh);
    let statuses = repo.statuses(Some(&mut options))?;
    let changed =
        statuses.iter().map(|entry| (entry.path_bytes().to_owned(), letters(entry.status())));
    Ok(changed.collect::<BTreeMap<_, _>>())
}

/// Whether any of these settings of filters names a command. An empty one is none.
pub(in crate::adapters::git) fn has_filter(
    config: &Config,
    names: &str,
) -> Result<bool, git2::Error> {
    let (mut filters, mut has_any) = (config.entries(Some(names))?, false);
    while let Some(filter) = filters.next() {
        // The last one with the name counts.
        has_any |= !config.get_string(filter?.name()?)?.is_empty();
    }
    Ok(has_any)
}

/// The number of entries in the index: the third number of its header (gitformat-index(5)).
fn index_entries(index: &Path) -> io::Result<u32> {
    let mut header = [0; 12];
    regular_file::open(index)?.read_exact(&mut header)?;
    let [.., a, b, c, d] = header;
    Ok(u32::from_be_bytes([a, b, c, d]))
}

/// The two letters of `git status`: the index against HEAD, the worktree against the index.
fn letters(status: Status) -> String {
    let one = |pairs: &[(Status, char)]| {
        let found = pairs.iter().find(|(flag, _)| status.contains(*flag));
        found.map_or('.', |(_, letter)| *letter)
    };
    if status.contains(Status::CONFLICTED) {
        return "UU".to_owned();
    }
    if status == Status::WT_NEW {
        return "??".to_owned();
    }
    let index = one(&[
        (Status::INDEX_NEW, 'A'),
        (Status::INDEX_DELETED, 'D'),
        (Status::INDEX_TYPECHANGE, 'T'),
        (Status::INDEX_MODIFIED, 'M'),
    ]);
    let worktree = one(&[
        (Status::WT_NEW, '?'),
        (Status::WT_DELETED, 'D'),
        (Status::WT_TYPECHANGE, 'T'),
        (Status::WT_MODIFIED, 'M'),
    ]);
    [index, worktree].into_iter().collect()
}
