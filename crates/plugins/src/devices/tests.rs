//! What is remembered about devices stays in its limits, whatever devices and claims come.

use plimsoll_api::devices::{Allocation, ClaimSpec, DeviceResult, RequestKind};
use plimsoll_api::devices::{AttributeValue, Device, DeviceAsk, DeviceNodes, DeviceRequest};
use plimsoll_api::{AnyVersions, Versions};
use plimsoll_devices::{NodeRef, Selectors};

use super::*;

const ROUNDS: usize = 600;
/// The limit of each part in the test, in bytes.
const FEW: usize = 48 << 10;
/// By how much a part may exceed its limit: what one question adds.
const MARGIN: usize = 16 << 10;
/// So many slices are there at a time.
const SLICES: usize = 5;
const DRIVER: &str = "gpu.example.com";

impl Devices {
    /// What each part takes that is remembered, and what it may take, in bytes. Every field is named, so that a new one is not
    /// forgotten.
    fn weights(&self) -> [(&'static str, usize, usize); 5] {
        let Devices {
            gates: _,
            // These are as large as the objects that they are derived from. The pools and counters that they remember have
            // limits in `plimsoll_devices`.
            ids: _,
            inventory: _,
            allocated: _,
            extended: _,
            rules: _,
            versions,
            attempts,
            selectors,
            sound,
            score_selectors,
        } = self;
        let named = |name, (bytes, most)| (name, bytes, most);
        [
            named("versions", (versions.bytes(), attempts::MOST_VERSION_BYTES)),
            named("attempts", attempts.open().weight()),
            named("selectors", selectors.open().weight()),
            named("sound selectors", sound.open().weight()),
            named("selectors for scores", score_selectors.open().weight()),
        ]
    }

    fn limit(&self, most: usize) {
        self.attempts.open().limit(most);
        self.selectors.open().limit(most);
        self.sound.open().limit(most);
        self.score_selectors.open().limit(most);
    }
}

/// A slice of a node with a device like no other.
fn slice(number: usize) -> ResourceSlice {
    let attributes = [("model", format!("m{number}")), ("uuid", format!("{number:0>64}"))];
    let attributes =
        attributes.map(|(name, value)| (Str::from(name), AttributeValue::String(value.into())));
    let name = Str::from(format!("n{number}"));
    ResourceSlice {
        name: name.clone(),
        driver: DRIVER.into(),
        pool: name.clone(),
        generation: 1,
        slice_count: 1,
        nodes: DeviceNodes::Node(name),
        devices: vec![Device {
            name: "gpu".into(),
            attributes: attributes.to_vec(),
            ..Device::default()
        }],
        ..ResourceSlice::default()
    }
}

fn changed(before: Option<ResourceSlice>, after: Option<ResourceSlice>) -> AnyVersions {
    let (before, after) = (before.map(Arc::new), after.map(Arc::new));
    AnyVersions::from(Versions { before, after, dropped: None })
}

/// Asks about devices like no other, and returns the largest size of each part with its limit.
fn largest(most: Option<usize>) -> [(&'static str, usize, usize); 5] {
    let gates = DeviceGates::of(&FeatureGates::default());
    let mut devices = Devices::of(gates, &ObjectStores::default());
    if let Some(most) = most {
        devices.limit(most);
    }
    let mut largest = devices.weights();
    for number in 0..ROUNDS {
        devices.change(&changed(None, Some(slice(number))));
        if let Some(old) = number.checked_sub(SLICES) {
            devices.change(&changed(Some(slice(old)), None));
        }
        let expression: Str =
            format!(r#"device.attributes["{DRIVER}"].model == "m{number}""#).into();
        let ask = DeviceAsk { selectors: vec![Some(expression.clone())], ..DeviceAsk::default() };
        {
            let (class, inventory) = (DeviceClass::default(), &devices.inventory);
            let (mut sound, mut selectors) = (devices.sound.open(), devices.selectors.open());
            assert!(sound.may_be_found(&class, &ask, inventory, &mut selectors));
        }
        for device in devices.inventory.slices().flat_map(|(_, devices)| devices) {
            let mut selectors = devices.score_selectors.open();
            let is_it = *device.pool == format!("n{number}");
            assert!(matches!(selectors.matches(&expression, device), Ok(is) if is == is_it));
        }
        let kind = RequestKind::Exactly { ask, admin_access: None };
        let requests = vec![DeviceRequest { name: "r".into(), kind }];
        let spec = ClaimSpec { requests, ..ClaimSpec::default() };
        let mut attempts = devices.attempts.open();
        let list = attempts.list([&spec].into_iter(), None);
        for node in number.saturating_sub(SLICES)..=number {
            let (name, labels) = (format!("n{node}"), Labels::default());
            let node = NodeRef { name: &name, labels: &labels };
            let reach = devices.inventory.reach(node).expect("it can be told");
            attempts.note(list, reach, devices.versions.of(reach), Outcome::TooFew);
        }
        drop(attempts);
        assert!(devices.ids.len() <= SLICES + 1, "there are {} devices", devices.ids.len());
        for (most, now) in largest.iter_mut().zip(devices.weights()) {
            most.1 = now.1.max(most.1);
        }
    }
    largest
}

#[test]
fn everything_that_is_remembered_about_devices_stays_in_its_limit() {
    for (name, bytes, most) in largest(Some(FEW)) {
        assert!(0 < bytes, "{name} is not reached");
        assert!(bytes <= most + MARGIN, "{name} takes {bytes} bytes of {most}");
    }
    // Without small limits they would exceed these. The limit of the versions is not changed.
    for (name, bytes, _) in largest(None) {
        assert!(FEW + MARGIN < bytes || name == "versions", "{name} takes only {bytes} bytes");
    }
}

/// Of two classes that stand for one resource, the one that changed last may have lost it. Undone, it has it again.
#[test]
fn classes_stand_for_the_same_resources_after_a_change_was_undone() {
    let mut stores = ObjectStores::default();
    let gates = DeviceGates::of(&FeatureGates::default());
    let class = |name: &str, resource: Option<&str>| DeviceClass {
        name: name.into(),
        extended_resource: resource.map(Str::from),
        ..DeviceClass::default()
    };
    let (kind, gpu) = (KindRef::of::<DeviceClass>(), Some("example.com/gpu"));
    stores.set(&AnyObject::from(class("a", gpu)));
    gates.devices(&stores);
    stores.set(&AnyObject::from(class("b", gpu)));
    let stands = |stores: &ObjectStores| {
        let devices = gates.devices(stores);
        let mut all = Vec::new();
        for resource in devices.extended.resources() {
            let class = devices.extended.class_of(resource).expect("it is one of them");
            all.push((resource.clone(), class.name.clone()));
        }
        all
    };
    let before = stands(&stores);
    for (name, changed) in
        [("a", None), ("a", Some(class("a", None))), ("b", Some(class("b", None)))]
    {
        let key = ObjectKey::new("", name);
        let (entry, histories) = (stores.entry(kind, &key), stores.histories(kind));
        match changed {
            None => _ = stores.remove(kind, &key),
            Some(class) => _ = stores.set(&AnyObject::from(class)),
        }
        assert_ne!(stands(&stores), before, "{name}");
        stores.put_back(kind, &key, entry.as_ref());
        stores.put_back_histories(kind, &histories);
        assert_eq!(stands(&stores), before, "{name}");
    }
}

/// As what is undone in a transaction: the device of the claim is in no slice, and others come meanwhile.
#[test]
fn a_device_that_was_free_for_a_while_is_held_again_and_no_other_is() {
    let mut stores = ObjectStores::default();
    let gates = DeviceGates::of(&FeatureGates::default());
    let result = DeviceResult {
        driver: DRIVER.into(),
        pool: "gone".into(),
        device: "gpu".into(),
        ..DeviceResult::default()
    };
    let claim = |allocation| {
        let key = ObjectKey::new("default", "a");
        AnyObject::from(ResourceClaim { key, allocation, ..ResourceClaim::default() })
    };
    let allocation = Allocation { devices: vec![result], ..Allocation::default() };
    stores.set(&claim(Some(allocation)));
    gates.devices(&stores);
    let (kind, key) = (KindRef::of::<ResourceClaim>(), ObjectKey::new("default", "a"));
    let (entry, histories) = (stores.entry(kind, &key), stores.histories(kind));
    stores.set(&claim(None));
    stores.set(&AnyObject::from(slice(0)));
    stores.put_back(kind, &key, entry.as_ref());
    stores.put_back_histories(kind, &histories);
    drop(histories);
    stores.set(&AnyObject::from(slice(1)));
    let devices = gates.devices(&stores);
    let is_held = |pool: &str| {
        devices.allocated.is_exclusive(devices.ids.get(DRIVER, pool, "gpu").expect("it is known"))
    };
    assert_eq!(["gone", "n0", "n1"].map(is_held), [true, false, false]);
}

/// If two claims hold a device and one of them goes, the device counts as free. Not if that claim was only there on trial.
#[test]
fn a_device_is_held_after_a_second_claim_with_it_was_undone() {
    let mut stores = ObjectStores::default();
    let gates = DeviceGates::of(&FeatureGates::default());
    let held = DeviceResult {
        driver: DRIVER.into(),
        pool: "pool".into(),
        device: "gpu".into(),
        ..DeviceResult::default()
    };
    let claim = |name: &str| {
        let allocation = Allocation { devices: vec![held.clone()], ..Allocation::default() };
        AnyObject::from(ResourceClaim {
            key: ObjectKey::new("default", name),
            allocation: Some(allocation),
            ..ResourceClaim::default()
        })
    };
    stores.set(&claim("a"));
    let is_held = |stores: &ObjectStores| {
        let devices = gates.devices(stores);
        let id = devices.ids.get(DRIVER, "pool", "gpu");
        id.is_some_and(|id| devices.allocated.is_exclusive(id))
    };
    assert!(is_held(&stores));
    let (kind, key) = (KindRef::of::<ResourceClaim>(), ObjectKey::new("default", "b"));
    let (entry, histories) = (stores.entry(kind, &key), stores.histories(kind));
    stores.set(&claim("b"));
    stores.put_back(kind, &key, entry.as_ref());
    assert!(!is_held(&stores), "as in allocateddevices.go");
    stores.put_back_histories(kind, &histories);
    assert!(is_held(&stores));
}
