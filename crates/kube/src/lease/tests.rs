//! Who leads, and when it is over.

mod candidates;
mod lab;
mod terms;
