//! Random numbers that cannot be guessed, from the operating system (owns getrandom).

use std::{fmt::Write as _, io};

/// Returns 256 random bits as hexadecimal digits.
///
/// # Errors
/// The operating system has none to give, which Linux and macOS rule out after the machine has started.
pub fn token() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
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
