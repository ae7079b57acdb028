//! The steps of `ralph __work`.

/// What happens to the work in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WorkStep {
    /// Pack the work: read the commits of the other side, and write a pack
    Pack,
    /// Unpack the work: read a pack, and print the result
    Unpack,
}
