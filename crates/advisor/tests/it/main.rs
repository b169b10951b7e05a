//! Tests of what is proposed for pods that do not fit.

mod broken;
mod cases;
mod claims;
mod group_claims;
mod groups;
mod waiting;
mod world;
