//! Every in-tree plugin keeps the laws of the framework, whatever the cluster.

use plimsoll_plugins::in_tree;
use plimsoll_testkit::{laws, random_scenarios};

#[test]
fn every_plugin_keeps_the_laws_in_random_clusters() {
    for entry in in_tree().iter() {
        laws(entry, random_scenarios(0..200));
    }
}
