//! The proof that the checks of a task notice its work: a check that would also pass without the work,
//! or that never runs it, shows nothing.

pub mod source_code;
pub mod tripwire;
