//! Random numbers that cannot be guessed, from the kernel. The only user of rustix's `rand`.

use std::{fmt::Write as _, io};

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 256 random bits as hexadecimal digits.
///
/// # Errors
/// The kernel has none to give, which Linux and macOS rule out after the machine has started.
pub fn token() -> io::Result<String> {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_different() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }
}
