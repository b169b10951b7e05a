//! Random devices, and claims on them.

use std::time::Duration;

use plimsoll_api::devices::{
    AllocationMode, AttributeValue, CapacityPolicy, ClaimSource, ClaimSpec, Constraint,
    ConstraintKind, ContainerDevices, ContainerRun, CounterConsumption, CounterSet, Device,
    DeviceAsk, DeviceCapacity, DeviceNodes, DeviceRequest, DeviceTaint, DeviceTaintRule,
    DeviceToleration, ExtendedRequest, RequestKind, SubRequest, TolerationOperator,
};
use plimsoll_api::quantity::Format;
use plimsoll_api::{
    AnyObject, DeviceClass, KindRef, ObjectKey, Pod, PodResourceClaim, PodTemplate, Quantity,
    ResourceClaim, ResourceClaimTemplate, ResourceSlice, Str,
};
use plimsoll_engine::Event;
use plimsoll_framework::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::{Maker, NAMESPACES, Percent, RandomWorkload};
use crate::happening::Happening;
use crate::simulated_cluster::DeviceDelays;

const GPUS: &str = "gpu.example.com";
const NICS: &str = "nic.example.com";
/// The resource for which the devices of a class may stand.
const RESOURCE: &str = "example.com/dev";
/// The condition of devices that are prepared before a pod is bound.
const PREPARED: &str = "example.com/prepared";
const NOT_PREPARED: &str = "example.com/not-prepared";
/// The number of claims and of templates in each namespace.
const CLAIMS: u32 = 3;
const GIB: i64 = 1 << 30;

/// What the devices of a workload are like.
#[derive(Clone, Copy, Debug)]
struct DeviceTraits {
    /// How many pods claim devices.
    claimed: Percent,
    tainted: Percent,
    conditions: Percent,
    counters: Percent,
}

impl RandomWorkload {
    /// Adds devices and claims on them to every other workload. They have random numbers of their own, so all else is as
    /// it would be without them.
    pub(super) fn with_devices(self, seed: u64, maker: &mut Maker) -> Self {
        maker.rng = Pcg64::seed_from_u64(!seed);
        if maker.once_in(2) {
            return self;
        }
        maker.add_devices(self)
    }
}

impl Maker {
    fn add_devices(&mut self, mut workload: RandomWorkload) -> RandomWorkload {
        let mut percent = || Percent(self.pick(&[0, 20, 80]));
        let traits = DeviceTraits {
            claimed: Percent(60),
            tainted: percent(),
            conditions: percent(),
            counters: percent(),
        };
        let classes = self.device_classes();
        let slices = self.slices(traits);
        let objects = &mut workload.cluster.objects;
        objects.extend(classes.iter().cloned().map(AnyObject::new));
        objects.extend(slices.iter().flatten().cloned().map(AnyObject::new));
        for (namespace, _) in NAMESPACES {
            for number in 0..CLAIMS {
                let key = ObjectKey::new(namespace, format!("d{number}"));
                objects.push(AnyObject::new(ResourceClaim {
                    uid: format!("{namespace}-d{number}").into(),
                    resource_version: "1".into(),
                    key,
                    spec: self.claim_spec(),
                    ..ResourceClaim::default()
                }));
                let key = ObjectKey::new(namespace, format!("t{number}"));
                let spec = self.claim_spec();
                objects.push(AnyObject::new(ResourceClaimTemplate { key, spec }));
            }
        }
        for pod in &mut workload.cluster.pods {
            self.claim_devices(traits, pod);
        }
        for (_, happening) in &mut workload.happenings {
            if let Happening::Arrives(pod) = happening {
                self.claim_devices(traits, pod);
            }
        }
        for node in &mut workload.cluster.nodes {
            // A device plugin offers the same resource.
            if self.once_in(5) {
                node.allocatable.scalar.insert(RESOURCE.into(), 1);
            }
        }
        for generation in 2..self.rng.random_range(2..12) {
            let at = self.some_time();
            let happenings = self.device_happening(generation, &slices, &classes);
            workload.happenings.extend(happenings.into_iter().map(|one| (at, one)));
        }
        workload.happenings.sort_by_key(|(at, _): &(Time, Happening)| *at);
        let [claims_after, conditions_after] =
            [5, 20].map(|limit| Duration::from_secs(self.rng.random_range(0..=limit)));
        workload.devices = DeviceDelays { claims_after, conditions_after };
        // Last, so that everything else is as it would be without them.
        let rules = self.taint_rules();
        workload.happenings.extend(rules);
        workload.happenings.sort_by_key(|(at, _): &(Time, Happening)| *at);
        workload
    }

    /// Rules by which an administrator taints devices, and takes the taint away again. They matter where the gate
    /// `DRADeviceTaintRules` is on.
    fn taint_rules(&mut self) -> Vec<(Time, Happening)> {
        let mut happenings = Vec::new();
        for number in 0..self.rng.random_range(0..3) {
            let of_node = format!("n{}", self.rng.random_range(0..self.n_nodes)).into();
            let rule = DeviceTaintRule {
                name: format!("rule-{number}").into(),
                driver: self.once_in(2).then(|| GPUS.into()),
                pool: self.once_in(2).then_some(of_node),
                device: self.once_in(2).then(|| "gpu-0".into()),
                taint: self.device_taint(),
            };
            let key = ObjectKey::new("", rule.name.clone());
            let set = Happening::Other(Event::object(AnyObject::new(rule)));
            happenings.push((self.some_time(), set));
            if self.once_in(2) {
                let gone = Happening::Other(Event::gone(KindRef::of::<DeviceTaintRule>(), key));
                happenings.push((self.some_time(), gone));
            }
        }
        happenings
    }

    fn device_classes(&mut self) -> Vec<DeviceClass> {
        let class = |name: &str, selector: String| DeviceClass {
            name: name.into(),
            selectors: vec![Some(selector.into())],
            ..DeviceClass::default()
        };
        let mut gpu = class("gpu", format!("device.driver == {GPUS:?}"));
        gpu.extended_resource = (!self.once_in(3)).then(|| RESOURCE.into());
        let big = format!(
            "device.driver == {GPUS:?} && \
             device.capacity[{GPUS:?}].memory.compareTo(quantity(\"40Gi\")) >= 0"
        );
        vec![gpu, class("big", big), class("nic", format!("device.driver == {NICS:?}"))]
    }

    /// The slices of each pool: one pool for each node, and one that nodes share.
    fn slices(&mut self, traits: DeviceTraits) -> Vec<Vec<ResourceSlice>> {
        let mut pools: Vec<Vec<ResourceSlice>> = Vec::new();
        for number in 0..self.n_nodes {
            let name = Str::from(format!("n{number}"));
            let has_counters = self.has(traits.counters);
            let n_devices = self.rng.random_range(1..=3);
            let devices = (0..n_devices).map(|number| self.gpu(number, traits, has_counters));
            let slice = ResourceSlice {
                name: format!("{name}-gpus").into(),
                driver: GPUS.into(),
                pool: name.clone(),
                generation: 1,
                slice_count: if has_counters { 2 } else { 1 },
                nodes: DeviceNodes::Node(name.clone()),
                devices: devices.collect(),
                ..ResourceSlice::default()
            };
            let counters = has_counters.then(|| ResourceSlice {
                name: format!("{name}-counters").into(),
                devices: Vec::new(),
                shared_counters: vec![CounterSet {
                    name: "all".into(),
                    counters: vec![("slots".into(), count(self.rng.random_range(1..=3)))],
                }],
                ..slice.clone()
            });
            pools.push(std::iter::once(slice).chain(counters).collect());
        }
        let devices = (0..2).map(|number| self.nic(number, traits)).collect();
        pools.push(vec![ResourceSlice {
            name: "fabric".into(),
            driver: NICS.into(),
            pool: "fabric".into(),
            generation: 1,
            slice_count: 1,
            nodes: DeviceNodes::All,
            devices,
            ..ResourceSlice::default()
        }]);
        pools
    }

    fn gpu(&mut self, number: u32, traits: DeviceTraits, has_counters: bool) -> Device {
        let memory = DeviceCapacity { value: gib(self.pick(&[20, 40, 80])), policy: None };
        let model = AttributeValue::String(self.pick(&["a", "b"]).into());
        let conditions = self.has(traits.conditions);
        let named = |name: &str| conditions.then(|| name.into()).into_iter().collect();
        let consumption = |slots| CounterConsumption {
            counter_set: "all".into(),
            counters: vec![("slots".into(), count(slots))],
        };
        let slots = self.rng.random_range(1..=2);
        Device {
            name: format!("gpu-{number}").into(),
            attributes: vec![("model".into(), model)],
            capacity: vec![("memory".into(), memory)],
            consumes_counters: has_counters.then(|| consumption(slots)).into_iter().collect(),
            taints: self.device_taints(traits),
            binding_conditions: named(PREPARED),
            binding_failure_conditions: named(NOT_PREPARED),
            ..Device::default()
        }
    }

    fn nic(&mut self, number: u32, traits: DeviceTraits) -> Device {
        let policy = self.once_in(2).then(|| {
            let default = Some(gib(1));
            Box::new(CapacityPolicy { default, ..CapacityPolicy::default() })
        });
        let bandwidth = DeviceCapacity { value: gib(self.pick(&[2, 4])), policy };
        Device {
            name: format!("nic-{number}").into(),
            capacity: vec![("bandwidth".into(), bandwidth)],
            taints: self.device_taints(traits),
            allow_multiple_allocations: true,
            ..Device::default()
        }
    }

    fn device_taints(&mut self, traits: DeviceTraits) -> Vec<DeviceTaint> {
        let tainted = self.has(traits.tainted) && self.once_in(2);
        let taint = self.device_taint();
        tainted.then_some(taint).into_iter().collect()
    }

    fn device_taint(&mut self) -> DeviceTaint {
        let effect = self.pick(&["NoSchedule", "NoExecute", "None"]).into();
        DeviceTaint { key: "hot".into(), value: Str::default(), effect }
    }

    fn claim_spec(&mut self) -> ClaimSpec {
        let mut requests = vec![self.device_request("r0")];
        if self.once_in(4) {
            requests.push(self.device_request("r1"));
        }
        let attribute = Str::from(format!("{GPUS}/model"));
        let same = Constraint {
            requests: Vec::new(),
            kind: match self.once_in(2) {
                true => ConstraintKind::MatchAttribute(attribute),
                false => ConstraintKind::DistinctAttribute(attribute),
            },
        };
        let constraints = self.once_in(6).then_some(same).into_iter().collect();
        ClaimSpec { requests, constraints, config: Vec::new() }
    }

    fn device_request(&mut self, name: &str) -> DeviceRequest {
        let kind = if self.once_in(4) {
            let subrequest = |maker: &mut Self, number: u32| SubRequest {
                name: format!("s{number}").into(),
                ask: maker.device_ask(),
            };
            RequestKind::FirstAvailable(vec![subrequest(self, 0), subrequest(self, 1)])
        } else {
            let admin_access = self.once_in(12).then_some(true);
            RequestKind::Exactly { ask: self.device_ask(), admin_access }
        };
        DeviceRequest { name: name.into(), kind }
    }

    fn device_ask(&mut self) -> DeviceAsk {
        let class = self.pick(&["gpu", "gpu", "gpu", "big", "nic"]);
        let toleration = DeviceToleration {
            key: "hot".into(),
            operator: TolerationOperator::Exists,
            ..DeviceToleration::default()
        };
        let selector = format!("device.attributes[{GPUS:?}].model == \"a\"");
        let model = (class != "nic" && self.once_in(5)).then(|| Some(selector.into()));
        let amount = gib(self.rng.random_range(1..=2));
        let capacity =
            (class == "nic" && self.once_in(2)).then(|| vec![("bandwidth".into(), amount)]);
        DeviceAsk {
            class: class.into(),
            selectors: model.into_iter().collect(),
            mode: match self.rng.random_range(0..8) {
                0 => AllocationMode::All,
                1 => AllocationMode::ExactCount(2),
                _ => AllocationMode::ExactCount(1),
            },
            tolerations: self.once_in(3).then_some(toleration).into_iter().collect(),
            capacity,
        }
    }

    /// Lets a pod claim devices: by the names of claims or templates, or by a resource.
    fn claim_devices(&mut self, traits: DeviceTraits, pod: &mut Pod) {
        if !self.has(traits.claimed) {
            return;
        }
        let mut template = PodTemplate::clone(&pod.template);
        if self.once_in(4) {
            let amount = self.rng.random_range(1..=2);
            let resource = Str::from(RESOURCE);
            for requests in [
                &mut template.requests,
                &mut template.asks.fit,
                &mut template.asks.balance,
                &mut template.asks.room,
            ] {
                requests.scalar.insert(resource.clone(), amount);
            }
            template.container_devices.push(ContainerDevices {
                container: "main".into(),
                index: 0,
                runs: ContainerRun::Main,
                claims: Vec::new(),
                extended: vec![ExtendedRequest { resource, amount, index: 0 }],
            });
        } else {
            let named = |maker: &mut Self, name: &str| {
                let number = maker.rng.random_range(0..CLAIMS);
                let source = match maker.once_in(2) {
                    true => ClaimSource::Claim(format!("d{number}").into()),
                    false => ClaimSource::Template(format!("t{number}").into()),
                };
                PodResourceClaim { name: name.into(), source }
            };
            template.resource_claims.push(named(self, "one"));
            if self.once_in(5) {
                template.resource_claims.push(named(self, "two"));
            }
        }
        pod.template = template.into();
    }

    /// A change of devices or claims: what happens at once.
    fn device_happening(
        &mut self,
        generation: i64,
        pools: &[Vec<ResourceSlice>],
        classes: &[DeviceClass],
    ) -> Vec<Happening> {
        let pool = pools[self.rng.random_range(0..pools.len())].clone();
        let is = |object: AnyObject| Happening::Other(Event::object(object));
        let (namespace, _) = self.pick(&NAMESPACES);
        let claim = ObjectKey::new(namespace, format!("d{}", self.rng.random_range(0..CLAIMS)));
        match self.rng.random_range(0..8) {
            0 | 1 => {
                // The pool in a new generation, with other taints.
                let traits = DeviceTraits {
                    claimed: Percent(0),
                    tainted: Percent(60),
                    conditions: Percent(0),
                    counters: Percent(0),
                };
                let mut happenings = Vec::new();
                for mut slice in pool {
                    slice.generation = generation;
                    for device in &mut slice.devices {
                        device.taints = self.device_taints(traits);
                    }
                    happenings.push(is(AnyObject::new(slice)));
                }
                happenings
            }
            2 => {
                // Only one slice of it, so it may be incomplete.
                let slice = ResourceSlice { generation, ..pool[0].clone() };
                vec![is(AnyObject::new(slice))]
            }
            3 => {
                let key = ObjectKey::new("", pool[0].name.clone());
                vec![Happening::Other(Event::gone(KindRef::of::<ResourceSlice>(), key))]
            }
            4 => {
                let class = classes[self.rng.random_range(0..classes.len())].clone();
                vec![is(AnyObject::new(class))]
            }
            5 => {
                let class = &classes[self.rng.random_range(0..classes.len())];
                let key = ObjectKey::new("", class.name.clone());
                vec![Happening::Other(Event::gone(KindRef::of::<DeviceClass>(), key))]
            }
            6 => vec![Happening::ClaimIsDeleted(claim)],
            _ => vec![Happening::ClaimIsTouched(claim)],
        }
    }
}

fn gib(n: i64) -> Quantity {
    Quantity::new(n * GIB, Format::BinarySi)
}

fn count(n: i64) -> Quantity {
    Quantity::new(n, Format::DecimalSi)
}
