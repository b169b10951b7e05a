//! The devices, and who has them.

use std::collections::BTreeMap;

use plimsoll_api::devices::DeviceNodes;
use plimsoll_api::{ObjectKey, Str};
use serde::Serialize;

use crate::picture::Picture;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceList {
    as_of: String,
    devices: Vec<DeviceRow>,
    claims: Vec<ClaimRow>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceRow {
    driver: Str,
    pool: Str,
    device: Str,
    /// The node from which it can be reached; left out if it is not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Str>,
    /// How many claims have it.
    claims: usize,
    /// Those of them that may be named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claimed_by: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClaimRow {
    claim: String,
    is_allocated: bool,
    /// The pods that may use it.
    reserved_for: Vec<String>,
}

/// The devices of a cluster.
pub(crate) fn devices(picture: &Picture, shows: &dyn Fn(&str) -> bool) -> DeviceList {
    let mut holders = BTreeMap::<(&Str, &Str, &Str), Vec<&ObjectKey>>::new();
    for claim in &picture.claims {
        for device in claim.allocation.iter().flat_map(|allocation| &allocation.devices) {
            let place = (&device.driver, &device.pool, &device.device);
            holders.entry(place).or_default().push(&claim.key);
        }
    }
    let devices = picture.slices.iter().flat_map(|slice| {
        let holders = &holders;
        slice.devices.iter().map(move |device| {
            let place = (&slice.driver, &slice.pool, &device.name);
            let holders = holders.get(&place).map(Vec::as_slice).unwrap_or_default();
            let named = holders.iter().filter(|key| shows(&key.namespace));
            DeviceRow {
                driver: slice.driver.clone(),
                pool: slice.pool.clone(),
                device: device.name.clone(),
                node: [&device.nodes, &slice.nodes].into_iter().find_map(|nodes| match nodes {
                    DeviceNodes::Node(name) => Some(name.clone()),
                    _ => None,
                }),
                claims: holders.len(),
                claimed_by: named.map(ToString::to_string).collect(),
            }
        })
    });
    let claims = picture.claims.iter().filter(|claim| shows(&claim.key.namespace));
    let claims = claims.map(|claim| ClaimRow {
        claim: claim.key.to_string(),
        is_allocated: claim.allocation.is_some(),
        reserved_for: claim.reserved_for.iter().map(|one| one.name.to_string()).collect(),
    });
    DeviceList { as_of: picture.as_of(), devices: devices.collect(), claims: claims.collect() }
}
