//! Why devices of a node were not picked, for people and for the decision record.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{ObjectKey, ObjectStores, ResourceClaim};
use plimsoll_devices::{Account, Refusal, RequestAccount};
use plimsoll_framework::prelude::*;
use serde_json::{Value, json};

/// How many nodes or claims are named in a line.
const MOST_NAMED: usize = 5;

/// Which claims hold devices.
#[derive(Debug)]
pub(super) struct Holders<'a>(BTreeMap<[&'a str; 3], Vec<&'a ObjectKey>>);

impl<'a> Holders<'a> {
    /// The holders of all devices.
    pub(super) fn of(objects: &'a ObjectStores) -> Self {
        let mut holders: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for claim in objects.of::<ResourceClaim>().iter() {
            let devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
            for device in devices.filter(|device| !device.is_admin()) {
                let name = [&*device.driver, &*device.pool, &*device.device];
                holders.entry(name).or_default().push(&claim.key);
            }
        }
        Holders(holders)
    }

    /// Those of the devices that are in the way of a request. One that another request of the pod has picked has none.
    fn in_the_way_of(&self, request: &RequestAccount) -> BTreeSet<&'a ObjectKey> {
        let devices = request.in_use.iter();
        let holders =
            devices.filter_map(|(driver, pool, device)| self.0.get(&[&**driver, pool, device]));
        holders.flatten().copied().collect()
    }
}

/// Key `requests` of a node in the record: request by request how many devices were picked, and why the others were not.
pub(super) fn record(account: &Account, holders: &Holders<'_>) -> Vec<Value> {
    let of_request = |one: &RequestAccount| {
        let refused = |(why, n): (&Refusal, &usize)| {
            let mut refused = json!({ "reason": text(why), "devices": n });
            let by = holders.in_the_way_of(one);
            if *why == Refusal::InUse && !by.is_empty() {
                refused["by"] = by.iter().map(ToString::to_string).collect();
            }
            refused
        };
        let all: Vec<Value> = one.refused.iter().map(refused).collect();
        let mut request = json!({
            "claim": one.claim.to_string(), "request": one.request, "devices": account.devices,
            "picked": one.picked, "refused": all,
        });
        if !one.also_refused.is_empty() {
            request["alsoRefused"] = one.also_refused.iter().map(refused).collect();
        }
        request
    };
    account.requests.iter().map(of_request).collect()
}

/// Lines for people: what nodes say alike is said once.
#[derive(Debug, Default)]
pub(super) struct Lines<'a> {
    by_request: BTreeMap<(String, String), Vec<Str>>,
    holders: BTreeSet<&'a ObjectKey>,
}

impl<'a> Lines<'a> {
    /// Adds what a node says.
    pub(super) fn add(&mut self, node: &Str, account: &Account, holders: &Holders<'a>) {
        for (pools, why) in
            [(&account.incomplete, "is being updated"), (&account.invalid, "is invalid")]
        {
            for pool in pools {
                let line = (String::new(), format!("pool {pool} {why}"));
                self.by_request.entry(line).or_default().push(node.clone());
            }
        }
        for one in &account.requests {
            let line = (format!("{} {}", one.claim, one.request), summary(account, one));
            self.by_request.entry(line).or_default().push(node.clone());
            self.holders.extend(holders.in_the_way_of(one));
        }
    }

    /// The lines, those of a request together.
    pub(super) fn written(self) -> Vec<String> {
        let line = |((request, summary), nodes): ((String, String), Vec<Str>)| {
            let request = if request.is_empty() { String::new() } else { format!("{request}: ") };
            format!("{request}{summary} ({})", some_of(&nodes))
        };
        let mut lines: Vec<String> = self.by_request.into_iter().map(line).collect();
        if !self.holders.is_empty() {
            let holders: Vec<String> = self.holders.iter().map(ToString::to_string).collect();
            let claims = if holders.len() == 1 { "claim" } else { "claims" };
            lines.push(format!("in use by the {claims} {}", some_of(&holders)));
        }
        lines
    }
}

/// The first of several names, and how many more there are.
fn some_of(names: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = names.iter().take(MOST_NAMED).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(MOST_NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
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
        let also = request.also_refused.iter();
        let also = also.map(|(why, n)| format!(" ({n} of them also {})", text(why)));
        let also = also.collect::<Vec<_>>().concat();
        parts.insert(0, format!("{} picked{also}", request.picked));
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
