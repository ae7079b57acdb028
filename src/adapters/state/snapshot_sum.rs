//! The checksum of a history snapshot.

use std::io::{self, Write};

/// The checksum and the length of a snapshot that is written to it.
#[derive(Default)]
pub(super) struct SnapshotSum {
    hasher: crc32fast::Hasher,
    length: usize,
}

impl SnapshotSum {
    /// The first line of a snapshot, which shows that nothing of the rest has changed.
    pub(super) fn seal(&self) -> String {
        let sum = self.hasher.clone().finalize();
        format!("ralph {} {sum:08x} {}\n", env!("CARGO_PKG_VERSION"), self.length)
    }
}

impl Write for SnapshotSum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        self.length += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
