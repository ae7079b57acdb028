//! A long journal, read in blocks of whole lines on all cores.
//!
//! The first reading of a journal is the reading of JSON, nearly all of it. Other threads read the
//! lines of a block; the blocks come back in order. It must not know what the records mean.

use std::{
    io::{self, Read},
    mem,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::core::event::record::{Record, Unread};

/// From so many bytes on, the threads are worth their start.
pub(super) const MANY: u64 = 2 * 1024 * 1024;

/// The size of a block. Small, because all blocks that are on their way are in memory.
const BLOCK: usize = 128 * 1024;

/// The most threads: one more gains little, because the records are taken in one after the other.
const THREADS: usize = 4;

/// A block of complete lines, and what they are; blank ones are left out. A thread gets its blocks
/// back, because memory is freed much faster by the thread that allocated it.
#[derive(Default)]
struct Block {
    text: Vec<u8>,
    lines: Vec<Result<Record, Unread>>,
}

/// A thread that reads lines, with at most one block on its way to it and one back.
struct BlockReader {
    to: SyncSender<Block>,
    from: Receiver<Block>,
}

/// Reads the complete lines of a file from its position on. Calls `each` with the length of a block
/// in bytes and its lines, in order.
///
/// # Errors
/// I/O errors.
pub(super) fn read(
    file: &mut impl Read,
    mut each: impl FnMut(u64, &[Result<Record, Unread>]),
) -> io::Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    thread::scope(|scope| {
        let readers: Vec<BlockReader> = (0..threads)
            .map(|_| {
                let (to, texts) = sync_channel(1);
                let (read, from) = sync_channel(1);
                scope.spawn(move || {
                    texts.into_iter().map(Block::read).try_for_each(|block| read.send(block))
                });
                BlockReader { to, from }
            })
            .collect();
        let mut take = |turn: usize| {
            let block: Block = readers[turn % threads].from.recv().expect("a thread is alive");
            each(block.text.len() as u64, &block.lines);
            block
        };
        let (ahead, mut rest) = (2 * threads, Vec::new());
        let mut turn = 0_usize;
        loop {
            let mut block = turn.checked_sub(ahead).map_or_else(Block::default, &mut take);
            block.text.clear();
            block.text.append(&mut rest);
            if !fill(file, &mut block.text, &mut rest)? {
                break;
            }
            readers[turn % threads].to.send(block).expect("a thread is alive");
            turn += 1;
        }
        // The block of the turn that found the end was taken before it looked.
        ((turn + 1).saturating_sub(ahead)..turn).for_each(|turn| drop(take(turn)));
        Ok(())
    })
}

/// Fills a block up to its last complete line, and puts what follows into `rest`. Returns false if
/// there is none.
fn fill(file: &mut impl Read, text: &mut Vec<u8>, rest: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let read = file.by_ref().take(BLOCK as u64).read_to_end(text)?;
        // A line may be longer than a block.
        if let Some(end) = memchr::memrchr(b'\n', text) {
            rest.extend_from_slice(&text[end + 1..]);
            text.truncate(end + 1);
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
    }
}

impl Block {
    /// Reads the lines of the text.
    fn read(mut self) -> Block {
        self.lines.clear();
        let ends = memchr::memchr_iter(b'\n', &self.text);
        let lines = ends.scan(0, |start, end| Some(&self.text[mem::replace(start, end + 1)..end]));
        let lines = lines.filter(|line| !line.trim_ascii().is_empty());
        self.lines.extend(lines.map(Record::from_line));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64, size: usize) -> String {
        let id = "x".repeat(size);
        format!(
            "{{\"timestamp\":\"2026-11-20T22:44:03.125Z\",\"run_id\":\"{id}\",\"seq\":{seq},\
             \"action\":\"reset\"}}\n"
        )
    }

    /// The numbers of the lines that are read, and the bytes.
    fn read_all(text: &str) -> (Vec<Option<u64>>, u64) {
        let (mut seqs, mut bytes) = (Vec::new(), 0);
        let each = |length, lines: &[Result<Record, Unread>]| {
            bytes += length;
            seqs.extend(lines.iter().map(|line| line.as_ref().ok().map(|record| record.seq)));
        };
        read(&mut text.as_bytes(), each).unwrap();
        (seqs, bytes)
    }

    #[test]
    fn all_complete_lines_come_in_order_whatever_their_length() {
        for count in [0, 1, 7, 40_000] {
            let mut text: String = (0..count).map(|seq| line(seq, 10)).collect();
            let whole = text.len() as u64;
            text += "{\"torn\": ";
            assert_eq!(read_all(&text), ((0..count).map(Some).collect(), whole), "{count} lines");
        }
        let sizes = [1, 3 * BLOCK, 5, BLOCK, 2 * BLOCK - 7, 9];
        let text: String = (0..).zip(sizes).map(|(seq, size)| line(seq, size)).collect();
        assert_eq!(read_all(&text), ((0..6).map(Some).collect(), text.len() as u64));
    }

    #[test]
    fn blank_lines_are_left_out_and_others_are_told() {
        let text = format!("\n{}  \nnot json\n{}\n", line(1, 1), line(2, 1));
        assert_eq!(read_all(&text), (vec![Some(1), None, Some(2)], text.len() as u64));
    }
}
