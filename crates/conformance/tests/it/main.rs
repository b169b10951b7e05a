//! Our decisions beside those of kube-scheduler, as recorded and as upstream's tests expect them; and what holds of the whole
//! workspace.

mod architecture;
mod corpus;
mod devices;
mod groups;
mod groups_1_37;
mod migration;
mod openb;
mod reduced;
