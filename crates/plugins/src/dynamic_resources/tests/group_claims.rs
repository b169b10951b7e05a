//! Whose a claim is: a pod's, or that of its group. What upstream's `resourceclaim_test.go` expects of pods in groups, under the
//! names that the cases have there. Left out are those about objects of other namespaces and groups, which the plugin does
//! not look up.

use plimsoll_api::devices::{ClaimConsumer, ClaimSource};
use plimsoll_api::{AnyObject, ObjectStores};

use super::super::claims::ClaimingPod;
use super::*;

/// A pod of the group `podGroupOwner`, with one claim.
struct Member {
    key: PodKey,
    uid: Str,
    claims: Vec<PodResourceClaim>,
    statuses: PodDevices,
    group: Option<Str>,
}

fn claim_of(name: &str, source: ClaimSource) -> PodResourceClaim {
    PodResourceClaim { name: name.into(), source }
}

fn by_name(name: &str) -> ClaimSource {
    ClaimSource::Claim(name.into())
}

fn by_template(name: &str) -> ClaimSource {
    ClaimSource::Template(name.into())
}

impl Member {
    fn of(group: Option<&str>, claim: PodResourceClaim) -> Self {
        let made = [plimsoll_api::devices::PodClaimStatus {
            name: claim.name.clone(),
            claim: Some("made".into()),
        }];
        Member {
            key: PodKey::new("kube-system", "podOwner"),
            uid: "pod".into(),
            claims: vec![claim],
            statuses: PodDevices { claims: made.to_vec(), ..PodDevices::default() },
            group: group.map(Str::from),
        }
    }

    fn claiming(&self) -> ClaimingPod<'_> {
        ClaimingPod {
            key: &self.key,
            uid: &self.uid,
            claims: &self.claims,
            statuses: Some(&self.statuses),
            group: self.group.as_ref(),
        }
    }
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Controller {
    let text = Str::from;
    let (api_version, kind) = (text(api_version), text(kind));
    Controller { api_version, kind, name: text(name), uid: text(uid) }
}

fn stores(controller: Option<Controller>, group: Option<&PodGroup>) -> ObjectStores {
    let mut stores = ObjectStores::default();
    let key = ObjectKey::new("kube-system", "made");
    stores.set(&AnyObject::from(ResourceClaim { key, controller, ..ResourceClaim::default() }));
    if let Some(group) = group {
        stores.set(&AnyObject::from(group.clone()));
    }
    stores
}

#[test]
fn a_claim_that_was_made_is_for_the_pod_or_its_group() {
    const GROUPS: &str = "scheduling.k8s.io/v1alpha3";
    let neither = |group: &str| {
        format!(
            "ResourceClaim kube-system/made was not created for Pod kube-system/podOwner (neither Pod nor PodGroup {group} \
             is the owner)"
        )
    };
    let not_owner = "ResourceClaim kube-system/made was not created for Pod kube-system/podOwner (Pod is not owner)";
    let of_group = || Some(owner(GROUPS, "PodGroup", "podGroupOwner", "group"));
    let of_pod = |uid: &str| Some(owner("v1", "Pod", "podOwner", uid));
    let cases = [
        ("owned", None, of_pod("pod"), Ok(())),
        ("other-pod", None, of_pod("other"), Err(not_owner.to_owned())),
        ("no-owner", None, None, Err(not_owner.to_owned())),
        ("owned-by-podgroup", Some("podGroupOwner"), of_group(), Ok(())),
        (
            "owned-by-podgroup-other-api-version",
            Some("podGroupOwner"),
            Some(owner("scheduling.k8s.io/v1", "PodGroup", "podGroupOwner", "group")),
            Ok(()),
        ),
        ("other-podgroup", Some("podGroupNotOwner"), of_group(), Err(neither("podGroupNotOwner"))),
        ("no-podgroup-owner", Some("podGroupOwner"), None, Err(neither("podGroupOwner"))),
    ];
    for (name, group, controller, expected) in cases {
        let member = Member::of(group, claim_of("c", by_template("t")));
        let found = member.claiming().find(&stores(controller, None)).map(|_| ());
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_claim_is_reserved_for_the_pod_or_its_group() {
    let pod = |uid: &str| ClaimConsumer {
        resource: "pods".into(),
        uid: uid.into(),
        ..ClaimConsumer::default()
    };
    let group = |name: &str| ClaimConsumer {
        api_group: "scheduling.k8s.io".into(),
        resource: "podgroups".into(),
        name: name.into(),
        uid: "group".into(),
    };
    let (mine, other) = (Some("podGroupReserved"), Some("podGroupNotReserved"));
    let cases = [
        ("not-reserved", None, vec![], false),
        ("reserved-for-pod", None, vec![pod("pod")], true),
        ("reserved-for-other-pod", None, vec![pod("x")], false),
        ("multiple-reservations-including-pod", None, vec![pod("pod"), pod("x")], true),
        ("multiple-reservations-excluding-pod", None, vec![pod("x"), pod("y")], false),
        ("reserved-for-podgroup", mine, vec![group("podGroupReserved")], true),
        ("podgroup-disabled", None, vec![group("podGroupReserved")], false),
        ("reserved-for-pod-and-podgroup", mine, vec![pod("pod"), group("podGroupReserved")], true),
        ("reserved-for-other-podgroup", other, vec![pod("x")], false),
        (
            "multiple-reservations-including-podgroup",
            mine,
            vec![group("podGroupReserved"), group("podGroupOtherReserved")],
            true,
        ),
        (
            "multiple-reservations-excluding-podgroup",
            other,
            vec![group("podGroupReserved"), group("podGroupOtherReserved")],
            false,
        ),
    ];
    for (name, group, reserved_for, expected) in cases {
        let member = Member::of(group, claim_of("c", by_name("made")));
        let claim = ResourceClaim { reserved_for, ..ResourceClaim::default() };
        assert_eq!(member.claiming().may_use(&claim), expected, "{name}");
    }
}

#[test]
fn a_claim_that_equals_one_of_the_group_is_reserved_for_the_group() {
    let mine = |source: ClaimSource| claim_of("my-claim", source);
    let named = || by_name("made");
    let cases = [
        ("Pod claim with ResourceClaimName", mine(named()), None, false),
        ("Pod claim with ResourceClaimTemplateName", mine(by_template("t")), None, false),
        (
            "Pod claim with ResourceClaimName matching PodGroup",
            mine(named()),
            Some(vec![mine(named())]),
            true,
        ),
        (
            "Pod claim with ResourceClaimTemplateName matching PodGroup",
            mine(by_template("t")),
            Some(vec![mine(by_template("t"))]),
            true,
        ),
        (
            "No matching claim in PodGroup",
            mine(named()),
            Some(vec![claim_of("not-my-claim", named()), claim_of("nor-my-claim", named())]),
            false,
        ),
        (
            "Find matching claim in PodGroup",
            mine(named()),
            Some(vec![
                claim_of("not-my-claim", named()),
                claim_of("nor-my-claim", named()),
                mine(named()),
            ]),
            true,
        ),
        (
            "Claim name mismatch",
            mine(named()),
            Some(vec![claim_of("not-my-claim", named())]),
            false,
        ),
        (
            "Claim resourceClaimName mismatch",
            mine(named()),
            Some(vec![mine(by_name("not-made"))]),
            false,
        ),
        (
            "Claim resourceClaimTemplateName mismatch",
            mine(by_template("t")),
            Some(vec![mine(by_template("not-t"))]),
            false,
        ),
    ];
    for (name, claim, of_group, is_for_group) in cases {
        let group = of_group.map(|resource_claims| PodGroup {
            key: ObjectKey::new("kube-system", "my-podgroup"),
            uid: "group".into(),
            resource_claims,
            ..PodGroup::default()
        });
        let member = Member::of(group.as_ref().map(|_| "my-podgroup"), claim);
        let consumer = member.claiming().consumer(&"made".into(), &stores(None, group.as_ref()));
        let expected = match group.filter(|_| is_for_group) {
            Some(group) => ClaimConsumer::group(&group),
            None => ClaimConsumer::pod(&member.key, &member.uid),
        };
        assert_eq!(consumer, Ok(expected), "{name}");
    }
}
