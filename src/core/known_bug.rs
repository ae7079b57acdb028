//! Known bugs: plausible mistakes that a test switches on, to see that other tests notice them.
//!
//! `RALPH_KNOWN_BUG=close-twice` switches one on, in builds with debug assertions only, which is what
//! tests run. In a release build there are none. `tests/it/bugs.rs` has the table.

/// Whether this bug is switched on.
#[cfg(debug_assertions)]
pub fn is_on(name: &'static str) -> bool {
    use std::sync::LazyLock;

    static ON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("RALPH_KNOWN_BUG").ok());
    ON.as_deref() == Some(name)
}

/// Whether this bug is switched on: never in a build without debug assertions.
#[cfg(not(debug_assertions))]
pub fn is_on(_: &'static str) -> bool {
    false
}
