//! `ralph replay`: an agent that replays a recorded attempt, for testing settings, templates and verify
//! commands without an account.

use std::{
    collections::VecDeque,
    env, fs,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;

use super::{Invocation, demo::git, inside::AttemptContext};
use crate::{
    cli::ReplayArgs,
    core::exit::{Exit, Failure},
};

/// A recorded attempt.
#[derive(Debug, PartialEq)]
struct Recording {
    pieces: Vec<RecordedLine>,
    exit: Exit,
}

/// A recorded line of output.
#[derive(Debug, PartialEq)]
struct RecordedLine {
    /// The time since the line before it.
    after: Duration,
    stream: RecordedStream,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum RecordedStream {
    #[serde(rename = "out")]
    Out,
    #[serde(rename = "err")]
    Err,
}

/// Reads the prompt, replays the recording and exits with the recorded code.
///
/// # Errors
/// An invalid recording; errors of the disk and of git.
pub fn run(invocation: &Invocation, options: &ReplayArgs) -> Result<Exit> {
    let dir = invocation.directory()?;
    let recording = read(&recording_path(&dir, &options.transcript))?;
    let task = env::var("RALPH_TASK_ID").ok();
    if task.is_none() && (options.commit || options.report) {
        let message = "`--commit` and `--report` work only inside an attempt; start one with \
                       `ralph run -- ralph replay …`";
        return Err(Failure::new(Exit::Usage, message).into());
    }
    if !io::stdin().is_terminal() {
        io::copy(&mut io::stdin().lock(), &mut io::sink()).context("read the prompt")?;
    }
    let Recording { pieces, exit } = recording;
    for RecordedLine { after, stream, bytes } in pieces {
        thread::sleep(pause(after, options.speed));
        let written = match stream {
            RecordedStream::Out => put(&mut io::stdout().lock(), &bytes),
            RecordedStream::Err => put(&mut io::stderr().lock(), &bytes),
        };
        match written {
            // The reader is gone.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.context("print the recording")?,
        }
    }
    if let Some(task) = task {
        if options.commit {
            commit(&dir, &task)?;
        }
        if options.report {
            report(&dir, &task)?;
        }
    }
    Ok(options.exit_code.map_or(exit, Exit::Child))
}

fn put(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

/// The wait before a line that came `after` the one before it. A `speed` of 0 means no wait; without
/// `speed`, waits are original but short.
fn pause(after: Duration, speed: Option<f64>) -> Duration {
    const LONGEST: Duration = Duration::from_secs(1);
    match speed {
        None => after.min(LONGEST),
        Some(0.0) => Duration::ZERO,
        Some(speed) => {
            Duration::try_from_secs_f64(after.as_secs_f64() / speed).unwrap_or(Duration::MAX)
        }
    }
}

/// Returns the path of a recording. Its path is relative to the folder `dir`, or to the repository of
/// the run: the logs of earlier attempts are not in the slot of an attempt.
fn recording_path(dir: &Path, transcript: &Path) -> PathBuf {
    let path = dir.join(transcript);
    if path.exists() {
        return path;
    }
    let attempt = AttemptContext::of_environment("replay", "").ok();
    let workspace = attempt.and_then(|attempt| attempt.workspace().ok());
    let there = workspace.map(|workspace| workspace.root().join(transcript));
    there.filter(|there| there.exists()).unwrap_or(path)
}

/// Creates a file with the number of the attempt, and commits only that file.
fn commit(dir: &Path, task: &str) -> Result<()> {
    let path = PathBuf::from("replayed").join(format!("{task}.txt"));
    let attempt = env::var("RALPH_ATTEMPT").unwrap_or_default();
    fs::create_dir_all(dir.join("replayed")).context("create `replayed`")?;
    fs::write(dir.join(&path), format!("attempt {attempt}\n"))
        .with_context(|| format!("write `{}`", path.display()))?;
    let path = path.display().to_string();
    git(dir, &["add", "--force", "--", &path])?;
    git(dir, &["commit", "--quiet", "-m", &format!("Replay {task}"), "--", &path])?;
    Ok(())
}

/// Reports completion, without output: the recording has the last line on standard output.
fn report(dir: &Path, task: &str) -> Result<()> {
    let program = env::current_exe().context("find this program")?;
    let mut command = Command::new(program);
    command.current_dir(dir).args(["task-complete", task]).stdout(Stdio::null());
    let status = command.status().context("run `ralph task-complete`")?;
    ensure!(status.success(), "`ralph task-complete {task}` failed");
    Ok(())
}

/// Reads a file with standard output, or a folder with `stdout` and optionally `stderr`, `timed.jsonl`
/// and `meta.json`.
fn read(path: &Path) -> Result<Recording> {
    if path.is_file() {
        return Ok(Recording {
            pieces: untimed(RecordedStream::Out, lines(&bytes(path)?)).collect(),
            exit: Exit::Success,
        });
    }
    let optional = |name: &str| {
        let path = path.join(name);
        if path.exists() { bytes(&path).map(Some) } else { Ok(None) }
    };
    let (stdout, timed) = (optional("stdout")?, optional("timed.jsonl")?);
    if stdout.is_none() && timed.is_none() {
        bail!(
            "`{}` is not a recording; name a file, or a folder with `stdout` or `timed.jsonl`, such \
             as logs/attempts/ID/N",
            path.display()
        );
    }
    let lines = |bytes: Option<Vec<u8>>| lines(&bytes.unwrap_or_default());
    let (out, err) = (lines(stdout), lines(optional("stderr")?));
    let pieces = merge(&timed.unwrap_or_default(), out, err)?;
    let exit = optional("meta.json")?.map_or(Ok(Exit::Success), |meta| recorded(&meta))?;
    Ok(Recording { pieces, exit })
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = fs::File::open(path).with_context(|| format!("open `{}`", path.display()))?;
    file.read_to_end(&mut bytes).with_context(|| format!("read `{}`", path.display()))?;
    Ok(bytes)
}

fn lines(bytes: &[u8]) -> VecDeque<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn untimed(stream: RecordedStream, lines: VecDeque<Vec<u8>>) -> impl Iterator<Item = RecordedLine> {
    lines.into_iter().map(move |bytes| RecordedLine { after: Duration::ZERO, stream, bytes })
}

/// Orders lines by the entries of `timed`, each `[seconds, "out" or "err", text]`. The text, which may
/// be cut, is used only for lines missing in the streams. Lines without a time come last.
fn merge(
    timed: &[u8],
    mut out: VecDeque<Vec<u8>>,
    mut err: VecDeque<Vec<u8>>,
) -> Result<Vec<RecordedLine>> {
    let mut pieces = Vec::new();
    let mut last = Duration::ZERO;
    for (at, line) in lines(timed).iter().enumerate() {
        let (seconds, stream, text) = serde_json::from_slice::<(f64, RecordedStream, String)>(line)
            .map_err(|_| anyhow!("timed.jsonl:{}: not [seconds, \"out\", text]", at + 1))?;
        let bytes = match stream {
            RecordedStream::Out => out.pop_front(),
            RecordedStream::Err => err.pop_front(),
        };
        let now = Duration::try_from_secs_f64(seconds).unwrap_or(last);
        pieces.push(RecordedLine {
            after: now.saturating_sub(last),
            stream,
            bytes: bytes.unwrap_or_else(|| format!("{text}\n").into_bytes()),
        });
        last = last.max(now);
    }
    pieces.extend(untimed(RecordedStream::Err, err));
    pieces.extend(untimed(RecordedStream::Out, out));
    Ok(pieces)
}

/// The recorded result: `rc` is an exit code, or a negated signal.
fn recorded(meta: &[u8]) -> Result<Exit> {
    #[derive(Deserialize)]
    struct Meta {
        rc: i32,
    }
    let Meta { rc } = serde_json::from_slice(meta).context("`rc` of meta.json")?;
    match u8::try_from(rc) {
        Ok(code) => Ok(Exit::Child(code)),
        Err(_) if (-64..0).contains(&rc) => Ok(Exit::Signal(-rc)),
        Err(_) => bail!("`rc` of meta.json is {rc}, not an exit code"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_the_order_and_the_times_of_the_recording() {
        let timed = b"[0.5, \"out\", \"on\"]\n[2, \"err\", \"odd\"]\n[2.25, \"out\", \"cut\"]\n\
                      [1, \"out\", \"lost\"]\n";
        let merged = merge(timed, lines(b"one\ncut off\n"), lines(b"odd\nmore\n")).unwrap();
        let piece = |ms, stream, bytes: &str| RecordedLine {
            after: Duration::from_millis(ms),
            stream,
            bytes: bytes.as_bytes().to_vec(),
        };
        let want = [
            piece(500, RecordedStream::Out, "one\n"),
            piece(1500, RecordedStream::Err, "odd\n"),
            piece(250, RecordedStream::Out, "cut off\n"),
            piece(0, RecordedStream::Out, "lost\n"),
            piece(0, RecordedStream::Err, "more\n"),
        ];
        assert_eq!(merged, want);
        let plain = merge(b"", lines(b"a\nb"), lines(b"e\n")).unwrap();
        let want = [
            piece(0, RecordedStream::Err, "e\n"),
            piece(0, RecordedStream::Out, "a\n"),
            piece(0, RecordedStream::Out, "b"),
        ];
        assert_eq!(plain, want);
        let error = merge(b"[0, \"out\", \"\"]\n[1]\n", lines(b""), lines(b"")).unwrap_err();
        assert_eq!(error.to_string(), "timed.jsonl:2: not [seconds, \"out\", text]");
    }

    #[test]
    fn waits_are_scaled_or_short() {
        let long = Duration::from_secs(30);
        assert_eq!(pause(long, None), Duration::from_secs(1));
        assert_eq!(pause(Duration::from_millis(5), None), Duration::from_millis(5));
        assert_eq!(pause(long, Some(1.0)), long);
        assert_eq!(pause(long, Some(10.0)), Duration::from_secs(3));
        assert_eq!(pause(long, Some(0.0)), Duration::ZERO);
    }

    #[test]
    fn the_exit_code_comes_from_the_recording() {
        let end = |rc: i32| recorded(format!("{{\"rc\": {rc}, \"x\": 1}}").as_bytes());
        assert_eq!(end(3).unwrap().code(), 3);
        assert_eq!(end(-9).unwrap().code(), 137);
        assert!(end(256).is_err() && end(-300).is_err() && recorded(b"{}").is_err());
    }
}
