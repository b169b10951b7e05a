//! The commands of a person or a script to a server that runs as a program, under `/testserver/`:
//! `GET counts`, `GET log`, `POST faults`.

use std::time::Duration;

use http::{Method, Response};
use serde::Deserialize;
use serde_json::json;

use super::ApiHandler;
use crate::counts::RequestCounts;
use crate::failure::FailureStatus;
use crate::faults::{FaultKind, InjectedFault, When};
use crate::respond::{self, Body};
use crate::store::Break;

/// The body of `POST /testserver/faults`. It may contain several orders.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Orders {
    /// Cancels all previous orders.
    clear: bool,
    /// Adds a rule about requests.
    fault: Option<FaultOrder>,
    /// Ends watches.
    break_watches: Option<BreakOrder>,
    /// Forgets the history.
    compact: bool,
    /// Holds the events of a kind back.
    hold: Option<String>,
    /// Releases the events of a kind.
    release: Option<String>,
    /// Delays the events of a kind.
    delay: Option<DelayOrder>,
    /// Every n-th event is sent twice, where n is this number.
    duplicate_events: Option<u64>,
    /// The server is down for this many milliseconds.
    down_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FaultOrder {
    #[serde(default = "one")]
    every: u64,
    #[serde(rename = "trouble")]
    kind: FaultKindOrder,
    /// Whether the request still takes effect.
    #[serde(default)]
    after: bool,
    verbs: Option<Vec<String>>,
    #[serde(default)]
    resources: Vec<String>,
    times: Option<u64>,
}

fn one() -> u64 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FaultKindOrder {
    Status(u16),
    RetryAfter(u32),
    Hangup,
    Reset,
    SlowMs(u64),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BreakOrder {
    /// Of this kind; of all if it is missing.
    resource: Option<String>,
    #[serde(default)]
    how: BreakHow,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum BreakHow {
    #[default]
    Clean,
    Torn,
    Expired,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DelayOrder {
    resource: String,
    ms: u64,
}

impl ApiHandler {
    pub(super) fn control(
        &self,
        method: &Method,
        what: &str,
        body: &[u8],
    ) -> Result<Response<Body>, FailureStatus> {
        let counts = RequestCounts { shared: self.shared.clone(), requests: self.requests.clone() };
        match (method, what) {
            (&Method::GET, "counts") => {
                let requests = counts.all_requests().into_iter();
                let requests = requests.map(|(verb, resource, count)| {
                    json!({ "verb": verb, "resource": resource, "count": count })
                });
                let value = json!({
                    "requests": requests.collect::<Vec<_>>(), "bindings": counts.bindings(),
                    "faults": self.faults.done(),
                });
                Ok(respond::json(200, &value))
            }
            (&Method::GET, "log") => {
                let log = serde_json::to_vec(&counts.log()).unwrap_or_default();
                Ok(respond::bytes(200, log))
            }
            (&Method::POST, "faults") => {
                let orders = serde_json::from_slice(body).map_err(|error| {
                    FailureStatus::bad_request(format!("reading the faults to set: {error}"))
                })?;
                self.obey(orders)?;
                Ok(respond::json(200, &json!({})))
            }
            _ => Ok(respond::no_such_path()),
        }
    }

    fn obey(&self, orders: Orders) -> Result<(), FailureStatus> {
        let faults = &self.faults;
        let known = |resource: &str, is_known: bool| match is_known {
            true => Ok(()),
            false => Err(FailureStatus::bad_request(format!("no kind is called {resource:?}"))),
        };
        if orders.clear {
            faults.clear();
        }
        if let Some(fault) = orders.fault {
            faults.add(fault.into());
        }
        if let Some(BreakOrder { resource, how }) = orders.break_watches {
            let how = match how {
                BreakHow::Clean => Break::Clean,
                BreakHow::Torn => Break::Torn,
                BreakHow::Expired => Break::Expired,
            };
            match resource {
                None => faults.break_watches(how),
                Some(resource) => known(&resource, faults.break_watches_of(&resource, how))?,
            }
        }
        if orders.compact {
            faults.compact();
        }
        if let Some(resource) = orders.hold {
            known(&resource, faults.hold(&resource))?;
        }
        if let Some(resource) = orders.release {
            known(&resource, faults.release(&resource))?;
        }
        if let Some(DelayOrder { resource, ms }) = orders.delay {
            known(&resource, faults.delay(&resource, Duration::from_millis(ms)))?;
        }
        if let Some(every) = orders.duplicate_events {
            faults.duplicate_events(every);
        }
        if let Some(ms) = orders.down_ms {
            // The receiver is gone only while the server shuts down, and then it is already down.
            let _ = self.downtime.send(Duration::from_millis(ms));
        }
        Ok(())
    }
}

impl From<FaultOrder> for InjectedFault {
    fn from(order: FaultOrder) -> Self {
        let kind = match order.kind {
            FaultKindOrder::Status(code) => FaultKind::Status(code),
            FaultKindOrder::RetryAfter(retry_after) => FaultKind::TooManyRequests { retry_after },
            FaultKindOrder::Hangup => FaultKind::Hangup,
            FaultKindOrder::Reset => FaultKind::Reset,
            FaultKindOrder::SlowMs(ms) => FaultKind::Slow(Duration::from_millis(ms)),
        };
        let plain = InjectedFault::every(order.every, kind);
        InjectedFault {
            when: if order.after { When::After } else { When::Before },
            verbs: order.verbs.unwrap_or_else(|| plain.verbs.clone()),
            resources: order.resources,
            times: order.times,
            ..plain
        }
    }
}
