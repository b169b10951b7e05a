//! Releases with different formulas of priorities.

/// The release whose formulas are used where releases differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldRelease {
    /// 1.5, before most priorities had a map and a reduce step.
    V1_5,
    /// The scale of 10 as it is most often described: as in 1.16, except that images and balance use
    /// the formulas of 1.5.
    #[default]
    Described,
    /// 1.16, the last one with whole points of 0 to 10.
    V1_16,
}
