//! The release whose priorities rank.

/// Whose formulas are used where releases differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldRelease {
    /// 1.5, before most priorities had a map and a reduce step.
    V1_5,
    /// The scale of 10 as it is described most often: as 1.16, but for images and balance, which go by
    /// the formulas that 1.5 had first.
    #[default]
    Described,
    /// 1.16, the last one with whole points of 0 to 10.
    V1_16,
}
