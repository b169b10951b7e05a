//! How nodes are ranked: the scale and the release.

use clap::ValueEnum;
use plimsoll_priorities::OldRelease;

/// How feasible nodes are ranked.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Ranking {
    /// Up to how many points a node gets from one score, before its weight
    ///
    /// On the scale of 10 priorities decide, as in releases before 1.17: those of the Policy, else those
    /// that the score plugins of the configuration were then, and without one the default priorities of
    /// the release. Which nodes a pod fits is the same on both scales.
    #[arg(long, value_name = "MOST", value_enum, default_value_t)]
    scale: Scale,

    /// Whose formulas count on the scale of 10 where releases differ
    ///
    /// If not given: those of 1.16, but for images and balance, where it is those of 1.5.
    #[arg(long, value_name = "RELEASE", value_enum, requires = "scale")]
    release: Option<Release>,
}

impl Ranking {
    /// The release whose priorities rank; none on the scale of 100.
    pub(crate) fn by_priorities(self) -> Option<OldRelease> {
        let release = match self.release {
            None => OldRelease::Described,
            Some(Release::V1_5) => OldRelease::V1_5,
            Some(Release::V1_16) => OldRelease::V1_16,
        };
        (self.scale == Scale::Ten).then_some(release)
    }

    /// What was typed, with a space behind it; nothing for what is there by default.
    pub(crate) fn typed(self) -> String {
        let release = self.release.and_then(|release| release.to_possible_value());
        match (self.scale, release) {
            (Scale::Hundred, _) => String::new(),
            (Scale::Ten, None) => "--scale 10 ".to_owned(),
            (Scale::Ten, Some(release)) => format!("--scale 10 --release {} ", release.get_name()),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Scale {
    /// Whole points of 0 to 10, as releases before 1.17
    #[value(name = "10")]
    Ten,
    /// 0 to 100, as 1.17 and later
    #[default]
    #[value(name = "100")]
    Hundred,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Release {
    /// Pods count that any selector of the pod matches; 32 bits
    #[value(name = "1.5")]
    V1_5,
    /// The last release on this scale
    #[value(name = "1.16")]
    V1_16,
}
