//! Which instance leads, and until when.

mod candidates;
mod lab;
mod terms;
