//! The cluster as it was at some time of a recording, for questions about it.

use std::path::Path;

use anyhow::{Result, bail};
use plimsoll_api::Timestamp;
use plimsoll_config::GoDuration;
use plimsoll_engine::{Options, Scheduler, TieBreak};
use plimsoll_framework::{Registry, Time};
use plimsoll_recording::{Entry, Header, ReadError, Reader, RecordedState};
use plimsoll_sim::InitialCluster;

use crate::notices;
use crate::recordings::next_part;

/// A time of a recording, as it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// At this time.
    Clock(Time),
    /// So long after the beginning.
    After(std::time::Duration),
}

impl At {
    /// Reads `2026-11-25T15:00:00Z`, or a duration such as `90s` or `1h30m`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let wrong = "write a time such as 2026-11-25T15:00:00Z, or a duration after the beginning such as 1h30m";
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(At::Clock(Time::from_millis(time.as_millisecond())));
        }
        let span: GoDuration = text.parse().map_err(|_| wrong)?;
        span.to_std().map(At::After).ok_or(wrong)
    }
}

/// A cluster of a recording, and how its scheduler was made.
pub(crate) struct Recorded {
    header: Header,
    pub(crate) cluster: InitialCluster,
}

impl Recorded {
    /// Reads the recording that begins with `path`, up to a time, or to its end.
    pub(crate) fn read(path: &Path, at: Option<At>, registry: &Registry) -> Result<Self> {
        let mut reader = Reader::open(path, registry.kinds())?;
        let header = reader.header().clone();
        let mut state = RecordedState::default();
        let mut span: Option<(Time, Time)> = None;
        let (mut in_picture, mut is_first_part) = (false, true);
        'parts: loop {
            while let Some(entry) = reader.next()? {
                match &entry {
                    Entry::PictureBegins => in_picture = true,
                    Entry::PictureEnds => in_picture = false,
                    // Later parts begin with what is known already.
                    _ if in_picture && !is_first_part => continue,
                    _ => {}
                }
                if let Some(now) = entry.time() {
                    let first = span.map_or(now, |(first, _)| first);
                    let end = at.map(|at| match at {
                        At::Clock(time) => time,
                        At::After(after) => first + after,
                    });
                    if end.is_some_and(|end| end < first) {
                        bail!("{}: begins at {}: give a later time", path.display(), shown(first));
                    }
                    span = Some((first, now));
                    if end.is_some_and(|end| end < now) {
                        break 'parts;
                    }
                }
                state.take(entry);
            }
            let Some(next) = next_part(path, &reader, registry)? else {
                // A time after the end of what is there would be answered by guessing.
                if let (Some(at), Some((first, last))) = (at, span)
                    && last
                        < (match at {
                            At::Clock(time) => time,
                            At::After(after) => first + after,
                        })
                {
                    bail!(
                        "{}: ends at {}, and begins at {}: give a time between",
                        path.display(),
                        shown(last),
                        shown(first)
                    );
                }
                break;
            };
            (reader, is_first_part) = (next, false);
        }
        let cluster = InitialCluster {
            nodes: state.nodes().cloned().collect(),
            pods: state.pods().collect(),
            objects: state.objects().cloned().collect(),
            manifests: Vec::new(),
        };
        if cluster.nodes.is_empty() {
            notices::warning(format_args!("{}: no node is known at that time", path.display()));
        }
        Ok(Recorded { header, cluster })
    }

    /// A scheduler as the recorded one, but without extenders and with these options.
    pub(crate) fn scheduler(
        &self,
        path: &Path,
        registry: &Registry,
        options: impl Fn(Options) -> Options,
    ) -> Result<Scheduler> {
        if !self.header.extenders.is_empty() {
            notices::warning(format_args!(
                "{}: only `plimsoll run` calls extenders: here they have no effect",
                path.display()
            ));
        }
        let header = self.header.clone().with_extenders(&[]);
        let recorded = Options { audit_every: 0, tie_break: TieBreak::First, ..header.options() };
        let made = header.scheduler(registry, options(recorded));
        Ok(made.map_err(|error| ReadError::Profile { path: path.to_owned(), error })?)
    }
}

/// A time as in RFC 3339.
fn shown(time: Time) -> String {
    Timestamp::from_millisecond(time.millis())
        .map_or_else(|_| time.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_one_of_the_clock_or_one_after_the_beginning() {
        assert_eq!(At::parse("1970-01-01T00:00:01.5Z"), Ok(At::Clock(Time::from_millis(1500))));
        assert_eq!(At::parse("1m30s"), Ok(At::After(Duration::from_secs(90))));
        for wrong in ["", "yesterday", "-5s", "12:00"] {
            assert!(At::parse(wrong).is_err(), "{wrong}");
        }
    }
}
