//! The browser of the person, started to show an address.

use std::process::{Command, Stdio};

/// The programs that open an address, in the order in which they are tried.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Opens an address; the browser outlives this process. Returns whether a program was started.
pub fn open(address: &str) -> bool {
    OPENERS.iter().any(|opener| {
        Command::new(opener)
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .is_ok()
    })
}
