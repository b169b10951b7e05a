//! Groups whose pods have volumes and claims on devices, broken in a way that is known.

use plimsoll_advisor::size;
use plimsoll_framework::Release;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::broken::nodes;
use crate::claims::{
    GPU, ZONE, bind_elsewhere, claim, devices, hold_all, object, of_devices, storage, taint_devices,
};
use crate::groups::{self, GROUP, check_all, check_undone, find, member, texts};
use crate::world::World;

/// A way to break the claims of all pods, or what these need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimBreak {
    VolumeZone,
    MissingClaims,
    StorageCapacity,
    MissingClass,
    DeviceCount,
    DeviceSelector,
    DeviceTaint,
    DeviceClass,
}

const BREAKS: [ClaimBreak; 8] = [
    ClaimBreak::VolumeZone,
    ClaimBreak::MissingClaims,
    ClaimBreak::StorageCapacity,
    ClaimBreak::MissingClass,
    ClaimBreak::DeviceCount,
    ClaimBreak::DeviceSelector,
    ClaimBreak::DeviceTaint,
    ClaimBreak::DeviceClass,
];

const CLAIM: &str = "PersistentVolumeClaim";
const TEMPLATE: &str = "ResourceClaimTemplate";

/// A group that has room, each pod with a claim of its own on a volume, and with a device from a template.
fn cluster(seed: u64) -> (World, usize) {
    let (mut world, n_pods) = groups::cluster(&mut Pcg64::seed_from_u64(seed));
    for (at, node) in nodes(&world).into_iter().enumerate() {
        world.get_mut("Node", &node)["metadata"]["labels"][ZONE] = json!((at % 3).to_string());
    }
    storage(&mut world);
    devices(&mut world);
    let spec = json!({"spec": {"spec": of_devices(1)}});
    world.add(object("resource.k8s.io/v1", TEMPLATE, "gpu", spec));
    for number in 0..n_pods {
        let claim_name = claim_of(number);
        world.add(claim(&claim_name));
        let pod = &mut world.get_mut("Pod", &member(number))["spec"];
        pod["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]);
        pod["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
        pod["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    }
    (world, n_pods)
}

fn claim_of(number: usize) -> String {
    format!("data-of-{}", member(number))
}

/// The request for devices in the template.
fn request(world: &mut World) -> &mut Value {
    let spec = &mut world.get_mut(TEMPLATE, "gpu")["spec"]["spec"];
    &mut spec["devices"]["requests"][0]["exactly"]
}

/// Breaks the claims of all pods, and returns the size of undoing that at most.
fn break_it(world: &mut World, n_pods: usize, how: ClaimBreak) -> u32 {
    let mut of_claims = |change: &dyn Fn(&mut Value)| {
        for number in 0..n_pods {
            change(&mut world.get_mut(CLAIM, &claim_of(number))["spec"]);
        }
    };
    match how {
        ClaimBreak::VolumeZone => {
            (0..n_pods).for_each(|number| bind_elsewhere(world, &claim_of(number)));
            size::EMPTY_CLAIM
        }
        ClaimBreak::MissingClaims => {
            (0..n_pods).for_each(|number| world.remove(CLAIM, &claim_of(number)));
            size::NEW_CLAIM
        }
        ClaimBreak::StorageCapacity => {
            of_claims(&|claim| claim["resources"]["requests"]["storage"] = json!("500Gi"));
            // From 500 to 100.
            size::REQUEST + size::WHOLE_REQUEST * 4 / 5
        }
        ClaimBreak::MissingClass => {
            of_claims(&|claim| claim["storageClassName"] = json!("lost"));
            size::OTHER_CLASS
        }
        ClaimBreak::DeviceCount => {
            request(world)["count"] = json!(3);
            size::REQUEST + size::WHOLE_REQUEST * 2 / 3
        }
        ClaimBreak::DeviceSelector => {
            let expression = format!("device.attributes[\"{GPU}\"].model == \"b\"");
            request(world)["selectors"] = json!([{"cel": {"expression": expression}}]);
            size::SELECTOR
        }
        ClaimBreak::DeviceTaint => {
            taint_devices(world);
            size::TOLERATION
        }
        ClaimBreak::DeviceClass => {
            request(world)["deviceClassName"] = json!("lost");
            size::DEVICE_CLASS
        }
    }
}

#[test]
fn a_group_whose_claims_are_broken_has_a_remedy_that_is_as_small() {
    for (seed, how) in (0..).zip(BREAKS.into_iter().cycle().take(3 * BREAKS.len())) {
        let release = if seed % 2 == 0 { Release::V1_36 } else { Release::V1_37 };
        // The first cluster from here on in which the group has room.
        let has_room = |seed: u64| {
            let (world, n_pods) = cluster(seed);
            (world.group_placed_under(release, GROUP) == Some(n_pods)).then_some((world, n_pods))
        };
        let (mut world, n_pods) = (100 * seed..).find_map(has_room).expect("there are many");
        let undone = break_it(&mut world, n_pods, how);
        let of = format!("{release}, seed {seed}: {how:?}");
        check_undone(&world, release, undone, &of);
    }
}

/// Three pods with one claim, which is bound to a volume that no node reaches, and another one beside it.
fn shared() -> World {
    let mut rng = Pcg64::seed_from_u64(0);
    let (mut world, n_pods) = loop {
        let (world, n_pods) = groups::cluster(&mut rng);
        if n_pods == 3 && world.group_placed(GROUP) == Some(3) {
            break (world, n_pods);
        }
        rng.random::<u64>();
    };
    for node in nodes(&world) {
        world.get_mut("Node", &node)["metadata"]["labels"][ZONE] = json!("0");
    }
    storage(&mut world);
    for name in ["models", "copies"] {
        world.add(claim(name));
        bind_elsewhere(&mut world, name);
    }
    let volume = &mut world.get_mut("PersistentVolume", "disk-of-copies")["spec"];
    volume["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] =
        json!(["0"]);
    for number in 0..n_pods {
        let pod = &mut world.get_mut("Pod", &member(number))["spec"];
        pod["volumes"] = json!([
            {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
            {"name": "scratch", "emptyDir": {}},
        ]);
    }
    world
}

#[test]
fn pods_that_share_a_claim_are_told_of_one_in_another_zone() {
    let world = shared();
    let why = world.ask_group(GROUP);
    let other = find(&why, "mount the claim copies instead of models in 3 pods");
    assert_eq!((other.placed, other.changes.len()), (3, 3), "each pod is changed: {other:#?}");
    find(&why, "mount an empty directory in place of the claim models (emptyDir) in 3 pods");
    let scratch = texts(&why).into_iter().filter(|(_, text)| text.contains("scratch"));
    assert_eq!(scratch.count(), 0, "an empty directory keeps nobody from a node");
    check_all(&world, (Release::V1_36, GROUP), &why, "one claim");
    // The pod is told the same.
    let of_pod = world.ask_member(Release::V1_36, &member(0), "");
    let group = of_pod.group.expect("it has one");
    assert!(group.remedies.iter().any(|remedy| remedy.text == other.text), "{group:#?}");
}

#[test]
fn what_all_claims_of_a_template_ask_for_is_changed_once() {
    let (mut world, n_pods) = cluster(0);
    request(&mut world)["count"] = json!(3);
    let why = world.ask_group(GROUP);
    let fewer = texts(&why).into_iter().find(|(_, text)| text.starts_with("ask for "));
    let (_, fewer) = fewer.unwrap_or_else(|| panic!("none of {n_pods}: {:#?}", texts(&why)));
    assert!(fewer.ends_with("instead of 3 devices in request gpu of the claim template gpu"));
    assert_eq!(find(&why, fewer).changes.len(), 1, "no pod is changed");
}

#[test]
fn pods_that_hold_the_devices_of_a_group_are_named_and_their_claims_go_with_them() {
    for release in [Release::V1_36, Release::V1_37] {
        let has_room = |seed: u64| {
            let (world, n_pods) = cluster(seed);
            (world.group_placed_under(release, GROUP) == Some(n_pods)).then_some((world, n_pods))
        };
        let (mut world, n_pods) = (0..).find_map(has_room).expect("there are many");
        hold_all(&mut world);
        let why = world.ask_group_under(release, GROUP);
        let is_eviction =
            |text: &str| text.starts_with("evict ") && text.contains("devices are then free");
        let remedy = why.remedies.iter().find(|one| is_eviction(&one.text));
        let remedy = remedy.unwrap_or_else(|| panic!("{release}: {:#?}", texts(&why)));
        assert_eq!(remedy.changes.len(), 2 * n_pods, "each pod and its claim: {remedy:#?}");
        check_all(&world, (release, GROUP), &why, "devices that others hold");
    }
}
