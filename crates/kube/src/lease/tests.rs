//! Which instance leads, and until when.

mod candidates;
mod fixture;
mod terms;
