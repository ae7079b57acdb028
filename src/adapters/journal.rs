//! The journal file `logs/ralph.jsonl`: lines are appended under a lock and read from any offset.
//!
//! This module handles records and not their meaning. The file is opened for every line, so that
//! rotation and `rm -rf logs` cost nothing but the lines in it. A plain `O_APPEND` is not enough:
//! one kill in forty tears a line, and a torn line swallows the next one. Hence the lock, the
//! single write and the repair of the tail.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    core::event::record::{Record, Unread},
    crash, regular_file,
};

/// The size of the tail of the file searched for the last complete record; records are a few
/// hundred bytes long.
const TAIL: u64 = 256 * 1024;

/// The journal of one repository.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
    /// The length of the file after our last line, and the `seq` of that line: while no other
    /// process writes, the tail need not be read again.
    last: Option<(u64, u64)>,
}

/// The position up to which a journal has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPosition {
    /// The file that was read.
    inode: u64,
    /// The offset after the last line that was read.
    offset: u64,
    /// The `seq` of that line; shows whether the line is still there.
    seq: u64,
}

/// The lines that are not known records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Lines that are not records.
    pub damaged: u64,
    /// Records with actions that only a newer version knows.
    pub unknown: u64,
}

impl Journal {
    /// Opens the journal at `path`; nothing is created yet.
    pub fn new(path: PathBuf) -> Journal {
        Journal { path, last: None }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the records that `make` builds from the next `seq` on, in one write; with `sync`, they
    /// survive a power cut. Returns them, and whether they directly follow `mark`, so that nothing
    /// has to be read; then `mark` is moved past them.
    ///
    /// # Errors
    /// I/O errors; the file is unchanged then.
    pub fn append(
        &mut self,
        mark: &mut JournalPosition,
        sync: bool,
        make: impl FnOnce(u64) -> Vec<Record>,
    ) -> io::Result<(Vec<Record>, bool)> {
        let mut file = match self.open_to_append() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
                self.open_to_append()?
            }
            opened => opened?,
        };
        regular_file::lock(&file, &self.path)?;
        let metadata = file.metadata()?;
        let length = metadata.len();
        let (seq, torn) = match self.last {
            Some((ours, seq))
                if ours == length || crate::core::known_bug::is_on("count-lines-from-memory") =>
            {
                (seq + 1, false)
            }
            _ => last_seq(&file, length)?,
        };
        crash::point("journal.locked");
        let records = make(seq);
        let Some(newest) = records.last().map(|record| record.seq) else {
            return Ok((records, false));
        };
        let lines: String = records.iter().map(Record::to_line).collect();
        let line = format!(
            "{}{lines}",
            if torn && !crate::core::known_bug::is_on("leave-a-torn-tail") { "\n" } else { "" }
        );
        let written = file.write(line.as_bytes());
        if !matches!(written, Ok(bytes) if bytes == line.len()) {
            file.set_len(length)?;
            return Err(written.err().unwrap_or_else(|| io::ErrorKind::StorageFull.into()));
        }
        crash::point("journal.written");
        if sync && regular_file::syncs() {
            file.sync_data()?;
        }
        let end = length + line.len() as u64;
        self.last = Some((end, newest));
        let is_read = mark.inode == metadata.ino() && mark.offset == length;
        let follows = is_read && !torn && mark.seq + 1 == seq;
        if follows {
            (mark.offset, mark.seq) = (end, newest);
        }
        Ok((records, follows))
    }

    fn open_to_append(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // An attempt put something else here; the file is a new one then.
        regular_file::open_instead(&self.path, &mut options)
    }

    /// Whether there is anything after `mark`, or a new file; does not read the file.
    pub fn has_more(&self, mark: &JournalPosition) -> bool {
        fs::metadata(&self.path)
            .is_ok_and(|found| found.ino() != mark.inode || found.len() != mark.offset)
    }

    /// Passes on every record after `mark` in order, and moves `mark`. If the file was rotated,
    /// truncated or edited, reading starts over: `each` first gets `None`.
    ///
    /// # Errors
    /// I/O errors; a missing journal counts as empty.
    pub fn read(
        &self,
        mark: &mut JournalPosition,
        mut each: impl FnMut(Option<&Record>),
    ) -> io::Result<SkippedLines> {
        let mut skipped = SkippedLines::default();
        let Some(file) = self.open_at(mark, || each(None))? else {
            return Ok(skipped);
        };
        let mut take = |read: &Result<Record, Unread>| match read {
            Ok(record) => each(Some(record)),
            Err(Unread::Unknown) => skipped.unknown += 1,
            Err(Unread::Damaged) => skipped.damaged += 1,
        };
        lines(file, mark, |_, read| take(&read))?;
        Ok(skipped)
    }

    /// Like [`Journal::read`], with the raw bytes of every line, also of lines that are not
    /// records.
    ///
    /// # Errors
    /// As [`Journal::read`].
    pub fn read_lines(
        &self,
        mark: &mut JournalPosition,
        mut each: impl FnMut(Option<(&[u8], Result<Record, Unread>)>),
    ) -> io::Result<()> {
        let Some(file) = self.open_at(mark, || each(None))? else {
            return Ok(());
        };
        lines(file, mark, |line, read| each(Some((line, read))))
    }

    /// Opens the file at `mark`, or at its start after calling `again` if the line before `mark` is no
    /// longer there. Returns none if there is nothing after `mark`.
    fn open_at(
        &self,
        mark: &mut JournalPosition,
        again: impl FnOnce(),
    ) -> io::Result<Option<File>> {
        let mut file = match regular_file::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The next record is written to a new file.
            Err(_) if regular_file::is_special(&self.path) => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !mark.holds(&file, metadata.ino(), metadata.len())? {
            if mark.offset > 0 {
                again();
            }
            *mark = JournalPosition { inode: metadata.ino(), ..JournalPosition::default() };
        }
        if metadata.len() == mark.offset {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(mark.offset))?;
        Ok(Some(file))
    }
}

/// Reads the complete lines of a file that are not blank, and moves `mark` past them.
fn lines(
    file: File,
    mark: &mut JournalPosition,
    mut each: impl FnMut(&[u8], Result<Record, Unread>),
) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(64 * 1024, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = lines.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            // The end, or an incomplete line: another process may still write it.
            return Ok(());
        }
        mark.offset += bytes as u64;
        if !line.trim_ascii().is_empty() {
            let read = Record::from_line(&line);
            mark.pass(&read);
            each(&line, read);
        }
    }
}

/// Some lines of a journal, read backwards from an offset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalPage {
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// The offset at which the first of these lines begins; 0 at the beginning of the journal.
    pub start: u64,
}

impl Journal {
    /// The position after the last complete line, without reading the lines before it. A journal
    /// that cannot be read counts as empty.
    pub fn end(&self) -> JournalPosition {
        let end = || {
            let file = regular_file::open(&self.path)?;
            let metadata = file.metadata()?;
            let mut before = tail_before(&file, metadata.len())?;
            let whole = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let torn = before.split_off(whole).len() as u64;
            let (offset, seq) = (metadata.len() - torn, newest(&before).unwrap_or(0));
            io::Result::Ok(JournalPosition { inode: metadata.ino(), offset, seq })
        };
        end().unwrap_or_default()
    }

    /// Reads the last complete lines before `end` (by default the end of the file), at most `bytes`
    /// of them. A line that is longer than that is skipped.
    ///
    /// # Errors
    /// I/O errors; a missing journal counts as empty.
    pub fn page_before(&self, end: Option<u64>, bytes: u64) -> io::Result<JournalPage> {
        let file = match regular_file::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(JournalPage::default());
            }
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let end = end.map_or(length, |end| end.min(length));
        let mut start = end.saturating_sub(bytes);
        let mut block = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(&mut block, start)?;
        if start > 0 {
            // The first line may have begun earlier.
            let first =
                block.iter().position(|byte| *byte == b'\n').map_or(block.len(), |at| at + 1);
            block.drain(..first);
            // Without a line end, the next page is before the block.
            start += if block.is_empty() { 0 } else { first as u64 };
        }
        let lines = block.split_inclusive(|byte| *byte == b'\n');
        let whole = lines.filter(|line| line.ends_with(b"\n"));
        let records = whole.filter_map(|line| Record::from_line(line).ok()).collect();
        Ok(JournalPage { records, start })
    }
}

impl JournalPosition {
    /// Whether the line before the mark is unchanged.
    fn holds(&self, file: &File, inode: u64, length: u64) -> io::Result<bool> {
        if self.offset == 0 || self.inode != inode || length < self.offset {
            return Ok(false);
        }
        let before = tail_before(file, self.offset)?;
        Ok(before.last() == Some(&b'\n') && newest(&before).unwrap_or(0) == self.seq)
    }

    /// Notes a line that was read.
    fn pass(&mut self, read: &Result<Record, Unread>) {
        if let Ok(record) = read {
            self.seq = record.seq;
        }
    }

    /// The number of bytes that have been read.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// The next `seq` of a file of this length, and whether its last line is torn.
fn last_seq(file: &File, length: u64) -> io::Result<(u64, bool)> {
    let tail = tail_before(file, length)?;
    let torn = tail.last().is_some_and(|last| *last != b'\n');
    Ok((newest(&tail).map_or(0, |seq| seq + 1), torn))
}

/// The bytes before `end`, a few at first: the last line is nearly always within them.
fn tail_before(file: &File, end: u64) -> io::Result<Vec<u8>> {
    for reach in [4 * 1024, TAIL] {
        let from = end.saturating_sub(reach);
        let mut tail = vec![0; usize::try_from(end - from).expect("a tail fits in memory")];
        file.read_exact_at(&mut tail, from)?;
        if from == 0 || newest(&tail).is_some() || reach == TAIL {
            return Ok(tail);
        }
    }
    unreachable!("the last reach returns")
}

/// The `seq` of the last line that is a record.
fn newest(tail: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Seq {
        seq: u64,
    }
    tail.split(|byte| *byte == b'\n')
        .rev()
        .find_map(|line| serde_json::from_slice::<Seq>(line).ok())
        .map(|line| line.seq)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    use crate::core::event::RequestEvent;

    fn at(dir: &Path) -> Journal {
        Journal::new(dir.join("logs/ralph.jsonl"))
    }

    fn made(seq: u64) -> Record {
        Record {
            timestamp: chrono::DateTime::UNIX_EPOCH,
            run_id: "r".to_owned(),
            seq,
            iteration: None,
            task_id: None,
            event: RequestEvent::Reset {}.into(),
        }
    }

    fn append(journal: &mut Journal, make: impl FnOnce(u64) -> Record) -> io::Result<Record> {
        let mut mark = JournalPosition::default();
        let (mut records, _) = journal.append(&mut mark, true, |seq| vec![make(seq)])?;
        Ok(records.remove(0))
    }

    fn write(journal: &mut Journal, count: usize) {
        for _ in 0..count {
            append(journal, made).unwrap();
        }
    }

    fn read(journal: &Journal, mark: &mut JournalPosition) -> (Vec<u64>, bool, SkippedLines) {
        let (mut seqs, mut again) = (Vec::new(), false);
        let skipped = journal
            .read(mark, |record| match record {
                Some(record) => seqs.push(record.seq),
                None => again = true,
            })
            .unwrap();
        (seqs, again, skipped)
    }

    #[test]
    fn the_end_is_where_reading_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = at(dir.path());
        assert_eq!(journal.end(), JournalPosition::default());
        for _ in 0..3 {
            append(&mut journal, made).unwrap();
        }
        let mut read = JournalPosition::default();
        journal.read(&mut read, |_| {}).unwrap();
        assert_eq!(journal.end(), read);
        let mut file = OpenOptions::new().append(true).open(journal.path()).unwrap();
        file.write_all(b"{\"timestamp\": \"torn").unwrap();
        assert_eq!(journal.end(), read, "a torn line is not read");
    }

    #[test]
    fn pages_go_back_to_the_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = at(dir.path());
        assert_eq!(journal.page_before(None, 100).unwrap(), JournalPage::default());
        for _ in 0..50 {
            append(&mut journal, made).unwrap();
        }
        let (mut seen, mut end) = (Vec::new(), None);
        loop {
            let page = journal.page_before(end, 700).unwrap();
            seen.splice(0..0, page.records.iter().map(|record| record.seq));
            end = Some(page.start);
            if page.start == 0 {
                break;
            }
        }
        assert_eq!(seen, (0..50).collect::<Vec<u64>>());
    }

    #[test]
    fn a_page_smaller_than_a_line_skips_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = at(dir.path());
        write(&mut journal, 2);
        let length = fs::metadata(journal.path()).unwrap().len();
        let page = journal.page_before(None, 10).unwrap();
        assert_eq!(page, JournalPage { records: Vec::new(), start: length - 10 });
        let page = journal.page_before(Some(page.start), 10).unwrap();
        assert_eq!(page.start, length - 20);
    }

    #[test]
    fn lines_are_counted_across_writers_and_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (at(dir.path()), at(dir.path()));
        let mut mark = JournalPosition::default();
        write(&mut one, 2);
        write(&mut two, 1);
        write(&mut one, 1);
        assert_eq!(read(&one, &mut mark).0, [0, 1, 2, 3]);
        write(&mut two, 1);
        assert!(one.has_more(&mark));
        assert_eq!(read(&one, &mut mark), (vec![4], false, SkippedLines::default()));
        assert!(!one.has_more(&mark));
        assert_eq!(read(&one, &mut mark).0, [0; 0]);
    }

    #[test]
    fn a_tail_torn_at_any_byte_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        write(&mut at(dir.path()), 3);
        let whole = fs::read(at(dir.path()).path()).unwrap();
        let lines: Vec<usize> =
            (0..whole.len()).filter(|at| whole[*at] == b'\n').map(|at| at + 1).collect();
        for cut in 0..=whole.len() {
            fs::write(at(dir.path()).path(), &whole[..cut]).unwrap();
            let kept = lines.iter().filter(|end| **end <= cut).count() as u64;
            // A record that lost only its newline is whole again once the tail is mended.
            let mended = kept + u64::from(lines.iter().any(|end| *end == cut + 1));
            write(&mut at(dir.path()), 1);
            let (seqs, _, skipped) = read(&at(dir.path()), &mut JournalPosition::default());
            let want: Vec<u64> = (0..=mended).collect();
            assert_eq!(seqs, want, "cut at {cut}");
            let torn = u64::from(!lines.contains(&cut) && cut > 0 && mended == kept);
            assert_eq!(skipped.damaged, torn, "cut at {cut}");
        }
    }

    #[test]
    fn a_rotated_journal_is_read_from_its_start() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = at(dir.path());
        let mut mark = JournalPosition::default();
        write(&mut journal, 3);
        read(&journal, &mut mark);
        fs::rename(journal.path(), dir.path().join("old")).unwrap();
        write(&mut journal, 1);
        assert_eq!(read(&journal, &mut mark), (vec![0], true, SkippedLines::default()));
        fs::remove_dir_all(dir.path().join("logs")).unwrap();
        assert_eq!(read(&journal, &mut mark).0, [0; 0]);
    }

    #[test]
    fn foreign_lines_are_skipped_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = at(dir.path());
        write(&mut journal, 1);
        let mut text = fs::read_to_string(journal.path()).unwrap();
        text += "\n{\"ts\":1}\nnot json\n";
        text += &text.lines().next().unwrap().replace("reset", "from_the_future");
        text.push('\n');
        fs::write(journal.path(), text).unwrap();
        write(&mut journal, 1);
        let (seqs, _, skipped) = read(&journal, &mut JournalPosition::default());
        assert_eq!(seqs, [0, 1]);
        assert_eq!(skipped, SkippedLines { damaged: 2, unknown: 1 });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn damage_costs_the_lines_it_is_in(
            hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let dir = tempfile::tempdir().unwrap();
            write(&mut at(dir.path()), 6);
            let path = at(dir.path()).path().to_owned();
            let whole = fs::read(&path).unwrap();
            let mut bytes = whole.clone();
            for (place, byte) in hits {
                bytes[place.index(whole.len())] = byte;
            }
            fs::write(&path, &bytes).unwrap();
            // A line is unchanged if its bytes and the line end before it are.
            let mut start = 0;
            let mut untouched = Vec::new();
            for (seq, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
                let from = start - usize::from(start > 0);
                start += line.len();
                if bytes[from..start] == whole[from..start] {
                    untouched.push(seq as u64);
                }
            }
            let told = append(&mut at(dir.path()), |seq| Record { run_id: "new".to_owned(), ..made(seq) });
            prop_assert!(fs::read(&path).unwrap().ends_with(b"\n"));
            let mut records = Vec::new();
            at(dir.path()).read(&mut JournalPosition::default(), |record| records.extend(record.cloned())).unwrap();
            prop_assert_eq!(records.last(), Some(&told.unwrap()));
            for seq in untouched {
                prop_assert!(records.iter().any(|record| record.seq == seq), "{} is lost", seq);
            }
        }
    }
}
