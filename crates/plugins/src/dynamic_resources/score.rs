//! Prefers nodes on which the first alternatives of requests are available.

use std::collections::BTreeSet;

use plimsoll_api::ObjectStores;
use plimsoll_api::devices::{Allocation, DeviceRequest, RequestKind, SubRequest};
use plimsoll_framework::prelude::*;

use super::allocate::PreparedClaims;
use super::{ClaimKinds, ClaimingParts, DynamicResources, NodeParts};

/// How many alternatives a request can have. The score of the first one. As in types.go,
/// FirstAvailableDeviceRequestMaxSize.
const MOST_ALTERNATIVES: i64 = 8;

/// The claims of a pod, if their alternatives can differ from node to node.
#[derive(Clone, Debug)]
pub struct Alternatives(Option<PreparedClaims>);

impl PreScore for DynamicResources {
    type Pod = ClaimingParts;
    type Node = NodeParts;
    type Cluster = (ObjectsOf<ClaimKinds>, Now);
    type State = Alternatives;

    /// Unless a request without devices has alternatives, all nodes get the same: 0, or what claims with devices got if there are
    /// others without.
    fn is_constant(
        &self,
        pod: Ref<'_, ClaimingParts>,
        (objects, _): (&ObjectStores, Time),
    ) -> bool {
        let pod = self.whole_of(pod).claiming;
        if pod.claims.is_empty() || !self.gates.features.prioritized_list {
            return true;
        }
        let found = pod.find(objects);
        found.is_ok_and(|claims| {
            let mut wanting = claims.iter().filter(|one| one.allocation().is_none());
            !wanting.any(|one| has_alternatives(&one.claim))
        })
    }

    fn pre_score(
        &self,
        pod: Ref<'_, ClaimingParts>,
        _: Feasible<'_, <Self as PreScore>::Node>,
        cluster: (&ObjectStores, Time),
    ) -> Option<Alternatives> {
        self.state(pod, cluster)
    }

    fn score(&self, Alternatives(claims): &Alternatives, _: Row, node: Ref<'_, NodeParts>) -> i64 {
        let Some(claims) = claims else { return 0 };
        let Ok(new) = self.points_on(claims, node) else { return 0 };
        new + claims.points_before()
    }

    fn normalize(&self, _: &Alternatives, scores: &mut [Scored]) {
        <Self as ScoreOnDemand>::NORMALIZE.apply(scores);
    }
}

/// What a node offers is remembered (`Attempts`), but the claims are those of the pod alone.
impl ScoreOnDemand for DynamicResources {
    const NORMALIZE: Normalize = Normalize::Max { reverse: false };

    fn state(
        &self,
        pod: Ref<'_, ClaimingParts>,
        (objects, now): (&ObjectStores, Time),
    ) -> Option<Alternatives> {
        let pod = self.whole_of(pod);
        if pod.claiming.claims.is_empty() || !self.gates.features.prioritized_list {
            return Some(Alternatives(None));
        }
        let prepared = self.prepare(pod, objects, now).ok();
        Some(Alternatives(prepared.filter(|prepared| {
            prepared.look_for_devices()
                && prepared.named().iter().any(|one| has_alternatives(&one.claim))
        })))
    }

    fn highest(&self, Alternatives(claims): &Alternatives) -> i64 {
        claims.as_ref().map_or(0, |claims| claims.points_before() + claims.most_points())
    }
}

impl PreparedClaims {
    /// Whether devices are looked for. If not, no node has a result, and all get 0: as in dynamicresources.go, Score.
    fn look_for_devices(&self) -> bool {
        self.wanting().next().is_some() || self.extended().is_some()
    }

    /// How early the alternatives are of the claims that have devices, or share those of another pod of the group.
    fn points_before(&self) -> i64 {
        let named = self.named().iter();
        let before = named.filter_map(|one| Some(points(&one.claim, one.allocation()?)));
        before.sum()
    }

    /// The most points for the claims without devices, on any node. An alternative for which the cluster has too few
    /// devices, even if none was in use, is never chosen.
    fn most_points(&self) -> i64 {
        self.wanting().map(|claim| most_points(claim, |one| self.may_be_chosen(one))).sum()
    }
}

fn most_points(claim: &ResourceClaim, mut may_be_chosen: impl FnMut(&SubRequest) -> bool) -> i64 {
    let requests = claim.spec.requests.iter();
    let alternatives = requests.filter_map(|request| match &request.kind {
        RequestKind::FirstAvailable(alternatives) => Some(alternatives),
        RequestKind::Exactly { .. } | RequestKind::Unknown => None,
    });
    let is_clear = names_are_clear(&claim.spec.requests);
    let most = alternatives.map(|alternatives| {
        let mut points =
            (0i64..).zip(alternatives).map(|(index, one)| (MOST_ALTERNATIVES - index, one));
        match is_clear {
            true => points.find(|(_, one)| may_be_chosen(one)).map_or(0, |(points, _)| points),
            false => points.map(|(points, _)| points.max(0)).sum(),
        }
    });
    most.map(|points| points.max(0)).sum()
}

/// Whether the devices of an alternative can be told from all others by its name. The API server sees to it.
fn names_are_clear(requests: &[DeviceRequest]) -> bool {
    are_clear(requests.iter().map(|request| &request.name))
        && requests.iter().all(|request| match &request.kind {
            RequestKind::FirstAvailable(all) => are_clear(all.iter().map(|one| &one.name)),
            RequestKind::Exactly { .. } | RequestKind::Unknown => true,
        })
}

fn are_clear<'a>(mut names: impl Iterator<Item = &'a Str>) -> bool {
    let mut seen = BTreeSet::new();
    names.all(|name| !name.contains('/') && seen.insert(name))
}

/// Whether a request has alternatives.
fn has_alternatives(claim: &ResourceClaim) -> bool {
    claim.spec.requests.iter().any(|one| matches!(one.kind, RequestKind::FirstAvailable(_)))
}

/// As in dynamicresources.go, computeScore: the earlier the alternative that was chosen, the more.
pub(super) fn points(claim: &ResourceClaim, allocation: &Allocation) -> i64 {
    let mut sum = 0;
    for request in &claim.spec.requests {
        let RequestKind::FirstAvailable(alternatives) = &request.kind else { continue };
        for (index, one) in (0i64..).zip(alternatives) {
            let full = format!("{}/{}", request.name, one.name);
            if allocation.devices.iter().any(|device| device.request == full) {
                sum += MOST_ALTERNATIVES - index;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use plimsoll_api::devices::{AllocationMode, ClaimSpec, DeviceAsk};

    use super::*;

    /// A request whose alternatives have these names; the class of an alternative says whether it may be chosen.
    fn request(name: &str, alternatives: &[(&str, &str)]) -> DeviceRequest {
        let alternatives = alternatives.iter().map(|(name, class)| SubRequest {
            name: (*name).into(),
            ask: DeviceAsk {
                class: (*class).into(),
                mode: AllocationMode::ExactCount(1),
                ..DeviceAsk::default()
            },
        });
        let kind = RequestKind::FirstAvailable(alternatives.collect());
        DeviceRequest { name: name.into(), kind }
    }

    fn most(requests: Vec<DeviceRequest>) -> i64 {
        let spec = ClaimSpec { requests, ..ClaimSpec::default() };
        let claim = ResourceClaim { spec, ..ResourceClaim::default() };
        most_points(&claim, |one| one.ask.class == "there")
    }

    #[test]
    fn the_first_alternative_that_may_be_chosen_bounds_the_points() {
        let (none, there) = (("a", "none"), ("b", "there"));
        assert_eq!(most(vec![]), 0);
        assert_eq!(most(vec![request("r", &[none])]), 0);
        assert_eq!(most(vec![request("r", &[none, there])]), 7);
        assert_eq!(most(vec![request("r", &[none, there]), request("q", &[there, none])]), 15);
    }

    #[test]
    fn names_that_cannot_be_told_apart_allow_all_points() {
        let both = [("a", "there"), ("b", "there")];
        assert_eq!(most(vec![request("r", &both), request("r", &both)]), 30);
        assert_eq!(most(vec![request("r", &[("a", "there"), ("a", "none")])]), 15);
        assert_eq!(most(vec![request("r/a", &[("a", "there")])]), 8);
    }
}
