//! The server over real TLS, with an API server that is a function.

mod access;
mod api;
mod bounds;
mod certificates;
mod cluster;
mod fixture;
mod inventory;
mod pages;
