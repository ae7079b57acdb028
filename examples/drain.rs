//! An agent that does next to nothing, for `benches/ralph.rs`: reads its prompt to the end, says in
//! `$RALPH_TASK_DIR` that it is done, and exits.
//!
//! What is left of an iteration is the runner's own work. Further words make it a bad neighbour:
//! `sleep SECONDS` before the end, `nap` for the milliseconds that the task's id ends with, `flood
//! MEGABYTES` of output, or `again GRAPH REPORT`, which puts
//! the graph back every 100th time and notes the runner's size now and then.

use std::{
    env,
    error::Error,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::process::parent_id,
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
        (Some("again"), Some(graph)) => again(graph, words.get(2).ok_or("no report")?)?,
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

/// The times are counted in a file, because nobody else counts across runs of this program.
fn again(pristine: &str, report: &str) -> Result<(), Box<dyn Error>> {
    const OFTEN: u64 = 100;
    let append = |path: &str, text: &str| {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(text.as_bytes())?;
        file.metadata().map(|metadata| metadata.len())
    };
    let time = append(&format!("{report}.count"), ".")?;
    if [100, 2_000, 10_000].contains(&time) {
        let status = fs::read_to_string(format!("/proc/{}/status", parent_id()))?;
        let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = size.and_then(|size| size.split_whitespace().next()).ok_or("no size")?;
        append(report, &format!("{time} {kib}\n"))?;
    }
    if time.is_multiple_of(OFTEN) {
        fs::copy(pristine, "fresh.yaml")?;
        fs::rename("fresh.yaml", "task-graph.yaml")?;
    }
    Ok(())
}
