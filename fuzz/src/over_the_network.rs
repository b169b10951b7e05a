//! What other programs send: watches, lists, answers of extenders and requests; and kubeconfigs.

use std::fs;

use plimsoll_kube::{client, extender, serve, watch};

/// The body of a watch.
pub(crate) fn watches(input: &[u8]) {
    watch::fuzzing::watch(input);
}

/// The body of a list.
pub(crate) fn lists(input: &[u8]) {
    watch::fuzzing::list(input);
}

/// The answer of an extender.
pub(crate) fn extenders(input: &[u8]) {
    extender::fuzzing::answer(input);
}

/// A kubeconfig.
pub(crate) fn kubeconfigs(input: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("kubeconfig");
    fs::write(&path, input).expect("room for a small file");
    client::fuzzing::kubeconfig(&path);
}

/// The bytes of a connection, in HTTP/1.1 and in HTTP/2.
pub(crate) fn requests(input: &[u8]) {
    serve::fuzzing::connection(input);
}
