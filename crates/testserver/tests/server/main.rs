//! The server as clients see it: kube-rs, an independent client, kubectl, and plain requests.

mod access;
mod binary;
mod discovery;
mod faults;
mod http2;
mod kit;
mod kubectl;
mod load;
mod objects;
mod removal;
mod watches;
