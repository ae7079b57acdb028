//! The end of an agent as its worker keeps it: how it ended, its output, and where its reports are.
//!
//! The guardian that started the worker may be lost before it has the work. A later one asks for
//! that attempt, and the worker reports this end as if the line had lasted.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read, Seek, SeekFrom},
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
};

use super::{
    Closed, ProcessNews,
    guard::AgentExit,
    line::LineWriter,
    protocol::{ArrivedOutput, CHUNK, Encoded, FromWorker, GuardianNotice, OutputName},
    stream::PART,
    task_files::TaskFolder,
};
use crate::{core::verdict::Outcome, regular_file};

/// The end of the agent of one attempt, in a folder of its worker.
#[derive(Debug)]
pub struct KeptEnd {
    dir: PathBuf,
}

impl KeptEnd {
    /// The end of the agent of the attempt with this token, in the folder of the workers of a slot.
    pub fn of(folder: &Path, token: &str) -> KeptEnd {
        KeptEnd { dir: folder.join("ends").join(token) }
    }

    /// Prepares to keep the end of an agent that is about to start and reports in this folder.
    /// Removes those of earlier agents in the slot.
    pub(super) fn begin(&self, reports: Option<&Path>) -> io::Result<()> {
        match fs::remove_dir_all(self.dir.parent().unwrap_or(&self.dir)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let reports = reports.map(|dir| dir.as_os_str().as_bytes()).unwrap_or_default();
        fs::write(self.dir.join("reports"), reports)
    }

    /// The folder for its output.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file where its guardian notes how it ended.
    pub(super) fn exit(&self) -> PathBuf {
        self.dir.join("exit")
    }

    /// How the agent ended, if it and everything it started ended by themselves. Who has killed it while
    /// its guardian was lost is not known: its machine may have been shut down.
    fn outcome(&self) -> Option<Outcome> {
        let text = regular_file::read(&self.exit()).ok()?;
        let exit: AgentExit = serde_json::from_slice(&text).ok()?;
        let is_killed = exit.cut_off || matches!(exit.outcome, Outcome::Signaled { .. });
        (!is_killed).then_some(exit.outcome)
    }

    /// Sends the reports, the output that has not `arrived` on the other side, and how the agent
    /// ended; nothing if the agent did not end by itself.
    ///
    /// # Errors
    /// I/O errors; the line was cut.
    pub(super) fn tell(&self, line: &LineWriter, arrived: &ArrivedOutput) -> io::Result<()> {
        let Some(outcome) = self.outcome() else { return Ok(()) };
        let reports = regular_file::read(&self.dir.join("reports")).unwrap_or_default();
        if !reports.is_empty() {
            let mut folder = TaskFolder::new(Path::new(OsStr::from_bytes(&reports)));
            folder.news().into_iter().for_each(|file| line.send(&FromWorker::File(file)));
        }
        for stream in [OutputName::Stdout, OutputName::Stderr] {
            self.tell_output(line, stream, arrived.of(stream))?;
        }
        let closed = Closed { outcome: Some(outcome), ..Closed::default() };
        line.send(&FromWorker::Notice(GuardianNotice::News(ProcessNews::Closed(closed))));
        Ok(())
    }

    /// Sends the output of a stream after its first `arrived` bytes. Only the first part of a very
    /// long stream is kept byte for byte.
    fn tell_output(&self, line: &LineWriter, stream: OutputName, arrived: u64) -> io::Result<()> {
        let Ok(mut file) = regular_file::open(&self.dir.join(stream.file_name())) else {
            return Ok(());
        };
        if arrived >= PART {
            return Ok(());
        }
        file.seek(SeekFrom::Start(arrived))?;
        let mut block = vec![0; CHUNK];
        loop {
            let length = file.read(&mut block)?;
            if length == 0 {
                return Ok(());
            }
            let bytes = Encoded::of(&block[..length]);
            let output = GuardianNotice::Output { stream, bytes };
            line.send_bulk(&FromWorker::Notice(output))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::BufReader, thread};

    use super::*;
    use crate::adapters::process::protocol::TaskFileContent;

    /// The messages about an end when these bytes of the standard output have arrived.
    fn told(kept: &KeptEnd, stdout: u64) -> Vec<FromWorker> {
        let (reader, writer) = io::pipe().unwrap();
        let line = LineWriter::start(writer).unwrap();
        let reading = thread::spawn(move || {
            let text = io::read_to_string(BufReader::new(reader)).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        });
        kept.tell(&line, &ArrivedOutput { stdout, stderr: 0 }).unwrap();
        line.finish();
        reading.join().unwrap()
    }

    fn exit(outcome: Outcome, cut_off: bool) -> Vec<u8> {
        serde_json::to_vec(&AgentExit { outcome, cut_off }).unwrap()
    }

    #[test]
    fn only_the_end_of_an_agent_that_ended_by_itself_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let reports = folder.path().join("slot/.ralph/tasks/a");
        fs::create_dir_all(&reports).unwrap();
        fs::write(reports.join("DONE"), "it works\n").unwrap();
        let kept = KeptEnd::of(folder.path(), "r1.a.1");
        assert!(told(&kept, 0).is_empty(), "no agent has started");
        kept.begin(Some(&reports)).unwrap();
        assert!(told(&kept, 0).is_empty(), "it has not ended");
        fs::write(kept.dir().join("stdout"), "one two").unwrap();
        fs::write(kept.exit(), exit(Outcome::Signaled { signal: 9 }, true)).unwrap();
        assert!(told(&kept, 0).is_empty(), "it was cut off");
        fs::write(kept.exit(), exit(Outcome::Signaled { signal: 9 }, false)).unwrap();
        assert!(told(&kept, 0).is_empty(), "it may have been killed with its machine");
        fs::write(kept.exit(), exit(Outcome::Exited { exit_code: 0 }, false)).unwrap();
        let all = told(&kept, 4);
        let [FromWorker::File(file), FromWorker::Notice(output), FromWorker::Notice(closed)] =
            &all[..]
        else {
            panic!("{all:?}")
        };
        assert!(matches!(&file.content, TaskFileContent::Text(text)
            if file.name == "DONE" && text.bytes().unwrap() == b"it works\n"));
        assert!(matches!(output, GuardianNotice::Output { stream: OutputName::Stdout, bytes }
            if bytes.bytes().unwrap() == b"two"));
        assert!(matches!(closed, GuardianNotice::News(ProcessNews::Closed(closed))
            if closed.outcome == Some(Outcome::Exited { exit_code: 0 })));
        // The next attempt in the slot.
        KeptEnd::of(folder.path(), "r2.b.1").begin(None).unwrap();
        assert!(told(&kept, 0).is_empty(), "it is another attempt's turn");
    }
}
