//! Recordings, written and replayed.

mod damage;
mod kinds;
mod lab;
mod parts;
mod replays;
mod shrinking;
