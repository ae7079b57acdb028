//! A journal of any lines: each is read or skipped, a record is written as it was read, and the history
//! takes them in any order.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::{event::record::Record, history::History};

fuzz_target!(|bytes: &[u8]| {
    let mut history = History::default();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Ok(record) = Record::from_line(line) else { continue };
        let written = record.to_line();
        let again = Record::from_line(written.as_bytes()).expect("what was written is read");
        assert_eq!(again.to_line(), written);
        history.apply(&record);
    }
});
