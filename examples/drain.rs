//! An agent that does next to nothing, for `benches/ralph.rs`: reads its prompt to the end, says in
//! `$RALPH_TASK_DIR` that it is done, and exits.
//!
//! What is left of an iteration is the runner's own work. Further words make it a bad neighbour:
//! `sleep SECONDS` before the end, `nap` for the milliseconds that the task's id ends with, or `flood
//! MEGABYTES` of output.

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write},
    path::Path,
    thread,
    time::Duration,
};

/// A line like those that agents print in their JSON mode.
const LINE: &[u8] = b"{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":\
    [{\"type\":\"text\",\"text\":\"Looking at the next file before changing anything.\"}]}}\n";

fn main() -> Result<(), Box<dyn Error>> {
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    let words: Vec<String> = env::args().skip(1).collect();
    match (words.first().map(String::as_str), words.get(1)) {
        (Some("sleep"), Some(seconds)) => {
            thread::sleep(Duration::try_from_secs_f64(seconds.parse()?)?);
        }
        (Some("nap"), None) => {
            let id = env::var("RALPH_TASK_ID")?;
            let ms = id.rsplit('-').next().unwrap_or_default();
            thread::sleep(Duration::from_millis(ms.parse()?));
        }
        (Some("flood"), Some(megabytes)) => flood(megabytes.parse()?)?,
        // Under `make` and `xargs` the first word is the task.
        _ => {}
    }
    if let Some(dir) = env::var_os("RALPH_TASK_DIR") {
        fs::write(Path::new(&dir).join("DONE"), "")?;
    }
    Ok(())
}

fn flood(megabytes: usize) -> io::Result<()> {
    let block = LINE.repeat(64 * 1024 / LINE.len());
    let mut out = io::stdout().lock();
    let mut left = megabytes * 1_000_000;
    while left > 0 {
        let part = &block[..left.min(block.len())];
        out.write_all(part)?;
        left -= part.len();
    }
    out.write_all(b"\n")
}
