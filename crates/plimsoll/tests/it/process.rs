//! Processes of the program, and waiting for what they do.

use std::net::TcpListener;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use plimsoll_testserver::HttpsClient;

/// Far longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// Waits until it is so.
#[track_caller]
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that is ended with the test.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound").port()
}

/// A client of a process that serves on this port, once it has made its certificate in this folder (`--cert-dir`).
#[track_caller]
pub(crate) fn client_of(folder: &Path, port: u16) -> HttpsClient {
    let read = || std::fs::read_to_string(folder.join("kube-scheduler.crt")).unwrap_or_default();
    eventually("there is a certificate", || read().ends_with("-----\n"));
    HttpsClient::new(([127, 0, 0, 1], port).into(), &read()).expect("the certificate is right")
}
