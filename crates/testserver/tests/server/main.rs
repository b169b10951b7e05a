//! The server as clients see it: kube-rs, which is not ours, kubectl, and plain requests.

mod discovery;
mod kit;
mod objects;
mod watches;
