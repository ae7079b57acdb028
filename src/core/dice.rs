//! Pseudo-random numbers that are the same on every machine.

/// A sequence of pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns the next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below a bound; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() % bound.max(1) as u64).unwrap_or_default()
    }

    /// Returns true with this probability in percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.roll() % 100 < percent
    }

    /// Returns a number from 0 up to 1.
    pub fn part(&mut self) -> f64 {
        f64::from(u32::try_from(self.roll() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }
}
