//! Recordings, written and replayed.

mod damage;
mod format;
mod kinds;
mod lab;
mod parts;
mod replays;
mod shrinking;
