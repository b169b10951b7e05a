//! Why devices of a node were not picked, for people and for the decision record.

use std::collections::BTreeMap;

use plimsoll_devices::{Account, Refusal, RequestAccount};
use plimsoll_framework::prelude::*;
use serde_json::{Value, json};

/// How many nodes are named in a line.
const MOST_NAMED: usize = 5;

/// Key `requests` of a node in the record: request by request how many devices were picked, and why the others were not.
pub(super) fn record(account: &Account) -> Vec<Value> {
    let of_request = |one: &RequestAccount| {
        let refused =
            one.refused.iter().map(|(why, n)| json!({ "reason": text(why), "devices": n }));
        let refused: Vec<Value> = refused.collect();
        json!({
            "claim": one.claim.to_string(), "request": one.request, "devices": account.devices,
            "picked": one.picked, "refused": refused,
        })
    };
    account.requests.iter().map(of_request).collect()
}

/// Lines for people: what nodes say alike is said once.
#[derive(Debug, Default)]
pub(super) struct Lines(BTreeMap<(String, String), Vec<Str>>);

impl Lines {
    /// Adds what a node says.
    pub(super) fn add(&mut self, node: &Str, account: &Account) {
        for (pools, why) in
            [(&account.incomplete, "is being updated"), (&account.invalid, "is invalid")]
        {
            for pool in pools {
                let line = (String::new(), format!("pool {pool} {why}"));
                self.0.entry(line).or_default().push(node.clone());
            }
        }
        for one in &account.requests {
            let request = format!("{} {}", one.claim, one.request);
            self.0.entry((request, summary(account, one))).or_default().push(node.clone());
        }
    }

    /// The lines, those of a request together.
    pub(super) fn written(self) -> Vec<String> {
        let line = |((request, summary), nodes): ((String, String), Vec<Str>)| {
            let named =
                nodes.iter().take(MOST_NAMED).map(Str::as_str).collect::<Vec<_>>().join(", ");
            let more = match nodes.len().saturating_sub(MOST_NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let request = if request.is_empty() { String::new() } else { format!("{request}: ") };
            format!("{request}{summary} ({named}{more})")
        };
        self.0.into_iter().map(line).collect()
    }
}

fn summary(account: &Account, request: &RequestAccount) -> String {
    let devices = match account.devices {
        0 => return "no devices".to_owned(),
        1 => "1 device".to_owned(),
        n => format!("{n} devices"),
    };
    let mut parts: Vec<String> =
        request.refused.iter().map(|(why, n)| format!("{n} {}", text(why))).collect();
    if 0 < request.picked {
        parts.insert(0, format!("{} picked", request.picked));
    }
    match parts.is_empty() {
        true => format!("{devices}, none of which was looked at"),
        false => format!("{devices}: {}", parts.join(", ")),
    }
}

fn text(why: &Refusal) -> String {
    match why {
        Refusal::InUse => "in use".to_owned(),
        Refusal::BindingConditions => "with binding conditions, which are switched off".to_owned(),
        Refusal::ClassSelector(index) => format!("rejected by selector #{index} of the class"),
        Refusal::Selector(index) => format!("rejected by selector #{index} of the request"),
        Refusal::OtherNode => "out of reach".to_owned(),
        Refusal::Capacity => "without enough capacity".to_owned(),
        Refusal::Counters => "without enough left of the pool's counters".to_owned(),
        Refusal::Tainted(key) => format!("tainted by {key}"),
        Refusal::Constraint(index) => format!("against constraint #{index}"),
    }
}
