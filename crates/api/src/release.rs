//! Releases of Kubernetes.

use std::fmt;
use std::str::FromStr;

/// A release of Kubernetes whose decisions are implemented. Later ones are greater.
///
/// It is passed as a value at construction: a plugin reads it once, in its constructor, and keeps the
/// rule that follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// 1.36.
    V1_36,
    /// 1.37.
    #[default]
    V1_37,
}

impl Release {
    /// All, the oldest first.
    pub const ALL: [Self; 2] = [Self::V1_36, Self::V1_37];
    /// The oldest.
    pub const OLDEST: Self = Self::V1_36;
    /// The newest, which is the default.
    pub const NEWEST: Self = Self::V1_37;

    /// Its minor number.
    pub const fn minor(self) -> u32 {
        match self {
            Self::V1_36 => 36,
            Self::V1_37 => 37,
        }
    }

    /// The one that is closest to `1.MINOR`.
    pub const fn nearest(minor: u32) -> Self {
        match minor {
            ..=36 => Self::V1_36,
            37.. => Self::V1_37,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor())
    }
}

/// Why a text is not a [`Release`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// It is not a version.
    #[error("could not parse {0:?} as version: write major.minor, such as {newest}", newest = Release::NEWEST)]
    NoVersion(String),
    /// It is a version with a patch.
    #[error("patch version not allowed, got: {0}: write major.minor")]
    Patch(String),
    /// It is another release. The message is that of kube-scheduler.
    #[error(
        "emulation version {0} is not between [{oldest}, {newest}]",
        oldest = Release::OLDEST, newest = Release::NEWEST
    )]
    NotThere(String),
}

impl FromStr for Release {
    type Err = ReleaseError;

    /// Reads `1.36` or `v1.36`.
    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let trimmed = text.trim();
        let version = trimmed.strip_prefix('v').unwrap_or(trimmed);
        let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
        let numbers = numbers.map_err(|_| ReleaseError::NoVersion(text.to_owned()))?;
        match numbers.as_slice() {
            [_, _, patch, ..] if *patch != 0 => Err(ReleaseError::Patch(text.to_owned())),
            [major, minor, ..] => Self::ALL
                .into_iter()
                .find(|release| (*major, *minor) == (1, release.minor()))
                .ok_or_else(|| ReleaseError::NotThere(format!("{major}.{minor}"))),
            _ => Err(ReleaseError::NoVersion(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_as_it_is_written() {
        for release in Release::ALL {
            assert_eq!(release.to_string().parse(), Ok(release));
            assert_eq!(format!("v{release}.0").parse(), Ok(release));
            assert_eq!(Release::nearest(release.minor()), release);
        }
        assert!(Release::V1_36 < Release::V1_37);
        assert_eq!(
            (Release::ALL[0], Release::ALL.last()),
            (Release::OLDEST, Some(&Release::NEWEST))
        );
        assert_eq!(Release::default(), Release::NEWEST);
    }

    #[test]
    fn text_that_is_no_release_is_an_error() {
        for (text, told) in [
            ("1.38", "emulation version 1.38 is not between [1.36, 1.37]"),
            ("1.35", "emulation version 1.35 is not between [1.36, 1.37]"),
            ("2.36", "emulation version 2.36 is not between [1.36, 1.37]"),
            ("1.36.2", "patch version not allowed, got: 1.36.2: write major.minor"),
            ("1", "could not parse \"1\" as version: write major.minor, such as 1.37"),
            ("new", "could not parse \"new\" as version: write major.minor, such as 1.37"),
        ] {
            let read: Result<Release, _> = text.parse();
            assert_eq!(read.expect_err("it is none").to_string(), told);
        }
    }

    #[test]
    fn every_other_release_has_a_nearest_one() {
        assert_eq!(Release::nearest(20), Release::OLDEST);
        assert_eq!(Release::nearest(99), Release::NEWEST);
    }
}
