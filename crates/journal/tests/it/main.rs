//! Journals are written, killed, read, and refused.

mod documented;
mod killed;
mod made;
mod named;
mod written;
