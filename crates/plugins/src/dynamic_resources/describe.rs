//! What the decision record has for claims: `requests`, `devices`, `allocations`, `reserved`, `deallocated`, `deleted` and
//! `unreserved`.

use std::sync::Arc;

use plimsoll_api::ObjectStores;
use plimsoll_api::devices::Allocation;
use plimsoll_framework::prelude::*;
use serde_json::{Map, Value, json};

use super::account::{self, Holders, Lines};
use super::allocate::{NodeAllocations, PreparedClaims};
use super::claims::ClaimingPod;
use super::extended::IN_MEMORY;
use super::post_filter::Remedy;
use super::{DynamicResources, NodeParts, may_claim};

impl Describe for DynamicResources {
    fn describe(&self, end: &AttemptEnd<'_>, scope: Scope, to: &mut Description) {
        let &AttemptEnd { pod, view, .. } = end;
        if !may_claim(&pod.resource_claims, &pod.container_devices) {
            return;
        }
        if end.outcome == AttemptOutcome::NoNode {
            match self.remedy(pod, end.rejected, &view) {
                Remedy::Deallocate(key) => to.add("deallocated", key.to_string()),
                Remedy::Delete(key) => to.add("deleted", key.to_string()),
                Remedy::Unreserve(key, _) => to.add("unreserved", key.to_string()),
                Remedy::NoClaims | Remedy::Nothing | Remedy::Error(_) => {}
            }
        }
        let (objects, now) = (&view.stores.objects, view.stores.now);
        let Ok(claims) = self.prepare(self.whole(pod), objects, now) else { return };
        if claims.are_none() {
            return;
        }
        let on_row = |row: Row| self.on_node(&claims, NodeParts::at(view.nodes, row)).ok();
        if scope == Scope::Nodes {
            self.account_for_nodes(&claims, end, to);
            for &row in end.feasible {
                let Some(found) = on_row(row) else { continue };
                let lines: Vec<String> = found
                    .allocations
                    .iter()
                    .flat_map(|(claim, allocation)| lines(claim, allocation))
                    .collect();
                if !lines.is_empty() {
                    to.add_to_node(view.nodes.name_of(row), "devices", lines);
                }
            }
        }
        let AttemptOutcome::Node(row) = end.outcome else { return };
        if let Some(found) = on_row(row) {
            let allocations: Vec<Value> = allocations(&found);
            if !allocations.is_empty() {
                to.add("allocations", allocations);
            }
        }
        let reserved = reserved(&claims, self.claiming(pod), objects);
        if !reserved.is_empty() {
            to.add("reserved", reserved);
        }
    }
}

impl DynamicResources {
    /// Says of each node that was asked why its devices were picked or not.
    fn account_for_nodes(
        &self,
        claims: &PreparedClaims,
        end: &AttemptEnd<'_>,
        to: &mut Description,
    ) {
        let rejected = end.rejected.iter().filter(|node| node.plugin == Self::NAME);
        let rows = end.feasible.iter().copied().chain(rejected.map(|node| node.row));
        let holders = Holders::of(&end.view.stores.objects);
        let mut lines = Lines::default();
        for row in rows {
            let Some(account) = self.account(claims, NodeParts::at(end.view.nodes, row)) else {
                continue;
            };
            let name = end.view.nodes.name_of(row);
            to.add_to_node(name, "requests", account::record(&account, &holders));
            lines.add(name, &account, &holders);
        }
        let lines = lines.written();
        if !lines.is_empty() {
            to.lines.push("DEVICES BY REQUEST".to_owned());
            to.lines.extend(lines);
        }
    }
}

/// `CLAIM REQUEST DRIVER/POOL/DEVICE` for each device.
fn lines(claim: &ResourceClaim, allocation: &Allocation) -> impl Iterator<Item = String> {
    let name = name_of(claim);
    allocation.devices.iter().map(move |one| {
        format!("{name} {} {}/{}/{}", one.request, one.driver, one.pool, one.device)
    })
}

/// Its namespace and name; the claim for extended resources has no name yet.
fn name_of(claim: &ResourceClaim) -> String {
    claim.key.to_string()
}

fn allocations(found: &NodeAllocations) -> Vec<Value> {
    let of_claim = |(claim, allocation): &(Arc<ResourceClaim>, Allocation)| {
        let mut record = Map::new();
        record.insert("claim".to_owned(), json!(name_of(claim)));
        let mut allocation = allocation.clone();
        // The record does not have the ids of shares.
        allocation.name_shares(|| Str::const_new("shared"));
        let written = allocation.to_json();
        let devices = &written["devices"];
        let results = devices["results"].as_array().cloned().unwrap_or_default();
        let results = results.into_iter().map(|mut result| {
            if let Some(result) = result.as_object_mut()
                && result.remove("shareID").is_some()
            {
                result.insert("shared".to_owned(), json!(true));
            }
            result
        });
        record.insert("devices".to_owned(), results.collect());
        for (key, value) in
            [("nodeSelector", written.get("nodeSelector")), ("config", devices.get("config"))]
        {
            if let Some(value) = value {
                record.insert(key.to_owned(), value.clone());
            }
        }
        if claim.key.name == IN_MEMORY
            && let Some(extended) = &found.extended
        {
            let spec = extended.claim.spec.to_json("resource.k8s.io/v1");
            if let Some(requests) = spec["devices"].get("requests") {
                record.insert("requests".to_owned(), requests.clone());
            }
            let mappings: Vec<Value> = mappings(&extended.mappings);
            if !mappings.is_empty() {
                record.insert("requestMappings".to_owned(), json!(mappings));
            }
        }
        Value::Object(record)
    };
    found.allocations.iter().map(of_claim).collect()
}

/// `status.extendedResourceClaimStatus.requestMappings` of a pod.
pub(super) fn mappings(of: &[(Str, Str, Str)]) -> Vec<Value> {
    let mapping = |(container, resource, request): &(Str, Str, Str)| json!({ "containerName": container, "resourceName": resource, "requestName": request });
    of.iter().map(mapping).collect()
}

/// The claims that have devices already and are yet to be reserved for the pod or its group.
fn reserved(claims: &PreparedClaims, pod: ClaimingPod<'_>, objects: &ObjectStores) -> Vec<String> {
    let is_new = |claim: &ResourceClaim| claim.allocation.is_some() && !pod.keeps(claim, objects);
    let named = claims.named().iter().filter(|one| is_new(&one.claim));
    let mut reserved: Vec<String> = named.map(|one| one.claim.key.to_string()).collect();
    reserved.sort_unstable();
    reserved.dedup();
    reserved
}
