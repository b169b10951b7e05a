//! What one object that arrives comes to: an event, or none.

use std::sync::Arc;

use plimsoll_api::wire::{Reader, Salvaged, WireError};
use plimsoll_api::{ObjectKey, Str};
use prometheus::IntGauge;

use super::Shared;
use super::counts::Cells;
use super::feed::{Closed, Feed};
use super::frames::{OBJECT_LIMIT, Text};
use super::head::{Bookmark, Head, Word, split, split_beginning};
use super::known::{Known, Sight};
use super::unreadable::{Counts, Unreadable};
use crate::place::Place;
use crate::request::Refusal;

/// So many faults of an object are told in the log.
const MOST_TOLD: usize = 3;

/// All objects of one kind.
#[derive(Debug)]
pub(super) struct Objects {
    place: Place,
    reader: Reader,
    known: Known,
    unreadable: Unreadable,
    n_unreadable: IntGauge,
    shared: Arc<Shared>,
}

/// What a frame of a watch says beside what it says of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing.
    Nothing,
    /// All that was changed up to this version has been told.
    UpTo(Str),
    /// The same, and all objects have been told.
    ListEnds(Option<Str>),
    /// The watch ends.
    Error(Box<Refusal>),
}

/// Which frames are news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// All objects are being told, in any order.
    List,
    /// What is changed is being told in the order of versions; up to this one it has been.
    After(Option<u64>),
}

impl Phase {
    /// What follows `version`, which is opaque unless it is a number.
    pub(super) fn after(version: Option<&str>) -> Self {
        Phase::After(version.and_then(|version| version.parse().ok()))
    }

    /// Whether an object of `version` has been told before: a frame came twice.
    fn is_past(self, version: &str) -> bool {
        match (self, version.parse::<u64>()) {
            (Phase::After(Some(last)), Ok(version)) => version <= last,
            _ => false,
        }
    }
}

impl Objects {
    pub(super) fn new(place: Place, shared: Arc<Shared>) -> Self {
        Objects {
            place,
            reader: reader(place),
            known: Known::default(),
            unreadable: Unreadable::default(),
            n_unreadable: shared.metrics.unreadable(place.kind),
            shared,
        }
    }

    /// From now on objects are of the version of `place`.
    pub(super) fn set_place(&mut self, place: Place) {
        (self.place, self.reader) = (place, reader(place));
    }

    fn counts(&self) -> &Cells {
        self.shared.counts.of(self.place.kind)
    }

    /// All objects will be told.
    pub(super) fn begin_list(&mut self) {
        self.known.begin_list();
    }

    /// All objects have been told: the others are gone.
    pub(super) async fn end_list(&mut self, feed: &mut Feed) -> Result<(), Closed> {
        for key in self.known.end_list() {
            self.counts().gone.add_one();
            self.unreadable.is_gone(&key);
            feed.gone(key);
            if feed.is_full() {
                feed.flush().await?;
            }
        }
        self.flush(feed).await
    }

    /// Hands over what has come together.
    pub(super) async fn flush(&self, feed: &mut Feed) -> Result<(), Closed> {
        self.counts().objects.set(self.known.len());
        self.n_unreadable.set(i64::try_from(self.known.n_unreadable()).unwrap_or(i64::MAX));
        feed.flush().await
    }

    /// Takes an item of a list in.
    pub(super) fn item(&mut self, item: &Text, feed: &mut Feed) {
        match item {
            Text::Whole(bytes) => match std::str::from_utf8(bytes) {
                Ok(json) => {
                    self.is(json, Phase::List, feed);
                }
                Err(error) => self.cannot_be_read(None, &error.to_string(), Counts::Last),
            },
            Text::Beginning(bytes) => {
                self.is_too_large(&String::from_utf8_lossy(bytes), Phase::List);
            }
        }
    }

    /// Takes a frame of a watch in. An error, in words, if it is none.
    pub(super) fn frame(
        &mut self,
        frame: &Text,
        phase: Phase,
        feed: &mut Feed,
    ) -> Result<Said, String> {
        let bytes = match frame {
            Text::Whole(bytes) => bytes,
            Text::Beginning(bytes) => {
                let beginning = String::from_utf8_lossy(bytes);
                let (word, object) = split_beginning(&beginning)
                    .ok_or_else(|| format!("a frame is larger than {OBJECT_LIMIT} bytes"))?;
                return Ok(match word {
                    Word::Gone => self.is_gone(object, phase, feed),
                    _ => self.is_too_large(object, phase),
                });
            }
        };
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let (word, object) = split(text)?;
        Ok(match word {
            Word::Is => self.is(object, phase, feed),
            Word::Gone => self.is_gone(object, phase, feed),
            Word::Bookmark => {
                self.counts().bookmarks.add_one();
                let bookmark = Bookmark::read(object)?;
                match bookmark.version {
                    version if bookmark.ends_list => Said::ListEnds(version),
                    Some(version) => Said::UpTo(version),
                    None => Said::Nothing,
                }
            }
            // The code is in the object.
            Word::Error => Said::Error(Box::new(Refusal::read(500, object.as_bytes()))),
            Word::Unknown => Said::Nothing,
        })
    }

    fn is(&mut self, json: &str, phase: Phase, feed: &mut Feed) -> Said {
        let head = match Head::read(json) {
            Ok(head) => head,
            Err(error) => {
                self.cannot_be_read(None, &error, Counts::Last);
                return Said::Nothing;
            }
        };
        if phase.is_past(&head.version) {
            self.counts().unchanged.add_one();
            return Said::Nothing;
        }
        if self.known.see(&head) == Sight::Same {
            self.counts().unchanged.add_one();
            return up_to(&head);
        }
        match self.reader.read(json) {
            Ok(object) => {
                self.unreadable.remove(&head);
                self.counts().changed.add_one();
                feed.is(object, json);
            }
            Err(error) => self.is_in_part(&head, json, &error, feed),
        }
        up_to(&head)
    }

    /// Takes in what can be read of an object.
    fn is_in_part(&mut self, head: &Head<'_>, json: &str, error: &WireError, feed: &mut Feed) {
        match self.reader.salvage(json) {
            Ok(Salvaged { object, faults }) => {
                let told: Vec<String> =
                    faults.iter().take(MOST_TOLD).map(ToString::to_string).collect();
                self.cannot_be_read(Some(head), &told.join("; "), Counts::Rest);
                self.counts().changed.add_one();
                feed.is(object, json);
            }
            Err(_) => self.cannot_be_read(Some(head), &error.to_string(), Counts::Last),
        }
    }

    fn is_gone(&mut self, json: &str, phase: Phase, feed: &mut Feed) -> Said {
        let head = match Head::read(json) {
            Ok(head) => head,
            Err(error) => {
                self.cannot_be_read(None, &error, Counts::Last);
                return Said::Nothing;
            }
        };
        let is_past = phase.is_past(&head.version);
        // The end of an object may bear the version that the object had last. Any other version from before
        // the last change is that of a frame that came twice, and another object may have the name now.
        if !(is_past && self.known.has_other(&head)) && self.known.remove(&head) {
            self.unreadable.remove(&head);
            self.counts().gone.add_one();
            feed.gone(ObjectKey::new(&*head.namespace, &*head.name));
        }
        if is_past { Said::Nothing } else { up_to(&head) }
    }

    fn is_too_large(&mut self, beginning: &str, phase: Phase) -> Said {
        let why = format!("it is larger than {OBJECT_LIMIT} bytes");
        let Ok(head) = Head::read(beginning) else {
            self.cannot_be_read(None, &why, Counts::Last);
            return Said::Nothing;
        };
        if phase.is_past(&head.version) {
            return Said::Nothing;
        }
        if self.known.see(&head) != Sight::Same {
            self.cannot_be_read(Some(&head), &why, Counts::Last);
        }
        up_to(&head)
    }

    fn cannot_be_read(&mut self, head: Option<&Head<'_>>, why: &str, counts: Counts) {
        self.counts().unreadable.add_one();
        if let Some(head) = head {
            self.known.mark_unreadable(head);
        }
        self.unreadable.add(self.place.kind, head, why, counts);
    }
}

fn up_to(head: &Head<'_>) -> Said {
    if head.version.is_empty() { Said::Nothing } else { Said::UpTo(Str::from(&*head.version)) }
}

fn reader(place: Place) -> Reader {
    let Place { kind, api_version } = place;
    kind.reader(api_version).expect("discovery finds a version that the kind has")
}
