//! How nodes are ranked: `--scale` and `--release`.

use clap::ValueEnum;
use plimsoll_legacy::priorities::OldRelease;

/// How feasible nodes are ranked.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Ranking {
    /// The highest score that a plugin or priority gives a node, before its weight
    ///
    /// On the scale of 10, priorities rank nodes as in releases before 1.17: those of the Policy, or those that the
    /// score plugins of the configuration replaced, or without a configuration the default ones. Which nodes a pod fits
    /// is the same on both scales.
    #[arg(long, value_name = "MOST", value_enum, default_value_t)]
    scale: Scale,

    /// The release whose formulas are used on the scale of 10, where releases differ
    ///
    /// By default those of 1.16, except for images and balance, which have those of 1.5.
    #[arg(long, value_name = "RELEASE", value_enum, requires = "scale")]
    release: Option<Release>,
}

impl Ranking {
    /// The release whose priorities rank nodes; none on the scale of 100.
    pub(crate) fn by_priorities(self) -> Option<OldRelease> {
        let release = match self.release {
            None => OldRelease::Described,
            Some(Release::V1_5) => OldRelease::V1_5,
            Some(Release::V1_16) => OldRelease::V1_16,
        };
        (self.scale == Scale::Ten).then_some(release)
    }

    /// The flags as they can be typed again, followed by a space; empty for the defaults.
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
    /// Whole points from 0 to 10, as before 1.17
    #[value(name = "10")]
    Ten,
    /// 0 to 100, as since 1.17
    #[default]
    #[value(name = "100")]
    Hundred,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Release {
    /// A pod counts if any selector matches it; 32-bit numbers
    #[value(name = "1.5")]
    V1_5,
    /// The last release on this scale
    #[value(name = "1.16")]
    V1_16,
}
