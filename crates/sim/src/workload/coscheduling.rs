//! Random gangs of Coscheduling: the groups of a workload, found by a label.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::wire::Object;
use plimsoll_api::{AnyObject, KindRef, Kinds, Labels, ObjectKey, Pod, PodGroup, Str};
use plimsoll_engine::{Event, Observation};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::{GroupFeatures, Maker, RandomWorkload};
use crate::happening::Happening;
use crate::lifecycle;

/// The label that names the group of a pod.
pub(crate) const LABEL: &str = "scheduling.x-k8s.io/pod-group";
/// The version of the groups.
const VERSION: &str = "scheduling.x-k8s.io/v1alpha1";
/// What makes the random numbers of these groups others than those of the rest.
const STREAM: u64 = 0xd1b5_4a32_d192_ed03;

/// The PodGroups of scheduler-plugins, which a plugin defines.
#[derive(Clone, Copy, Debug)]
pub struct GangKind {
    /// Their kind.
    pub kind: KindRef,
    /// What an object of this kind says; `None` if it is of another.
    pub read: fn(&AnyObject) -> Option<GangSpec>,
}

/// What such a group says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangSpec {
    /// How many of its pods must have a node before any is bound.
    pub min_member: u32,
    /// How many seconds its pods wait for each other.
    pub timeout_seconds: Option<i32>,
    /// Whether it says what its pods need together.
    pub has_min_resources: bool,
}

/// How gangs are decided in the simulation of a seed: the args of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangArgs {
    /// How many seconds pods wait if their group does not say it; 0 for the default.
    pub permit_waiting_time_seconds: i64,
    /// How many seconds a group is not tried after it was given up.
    pub pod_group_backoff_seconds: i64,
    /// What share of the pods may lack a node without the group being given up.
    pub pod_group_reject_percentage: i32,
}

impl GangArgs {
    /// The args in the simulation of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(!seed ^ STREAM);
        let mut pick = |from: [i32; 5]| from[rng.random_range(0..from.len())];
        GangArgs {
            permit_waiting_time_seconds: pick([0, 5, 20, 60, 60]).into(),
            pod_group_backoff_seconds: pick([0, 0, 0, 0, 10]).into(),
            pod_group_reject_percentage: pick([0, 10, 10, 50, 100]),
        }
    }

    /// The default profile with Coscheduling at all its points, with these args.
    pub fn configuration(self) -> String {
        let GangArgs {
            permit_waiting_time_seconds: wait,
            pod_group_backoff_seconds: backoff,
            pod_group_reject_percentage: percentage,
        } = self;
        format!(
            "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{{name: Coscheduling}}]
    queueSort:
      enabled: [{{name: Coscheduling}}]
      disabled: [{{name: '*'}}]
  pluginConfig:
  - name: Coscheduling
    args:
      permitWaitingTimeSeconds: {wait}
      podGroupBackoffSeconds: {backoff}
      podGroupRejectPercentage: {percentage}
"
        )
    }
}

/// What becomes of the groups of a workload.
struct Gangs {
    kinds: Kinds,
    kind: KindRef,
    /// For each group that Coscheduling decides, its manifest without the number of its pods.
    manifests: BTreeMap<ObjectKey, Value>,
}

impl RandomWorkload {
    /// The workload of a seed with gangs of Coscheduling. If the PodGroup API is on, about half of the groups stay there.
    pub(crate) fn coscheduled(seed: u64, features: GroupFeatures, kind: GangKind) -> Self {
        let (mut workload, mut maker) = Self::made_by(seed, None, Some(features));
        maker.rng = Pcg64::seed_from_u64(seed ^ STREAM);
        let gangs = Gangs::of(&workload, features, kind, &mut maker);
        for object in &mut workload.cluster.objects {
            gangs.take(object);
        }
        for pod in &mut workload.cluster.pods {
            gangs.join(pod);
        }
        for (_, what) in &mut workload.happenings {
            gangs.take_from(what);
        }
        workload
    }
}

impl Gangs {
    fn of(
        workload: &RandomWorkload,
        features: GroupFeatures,
        kind: GangKind,
        maker: &mut Maker,
    ) -> Self {
        let mut keys = BTreeSet::new();
        let arrives = workload.happenings.iter().filter_map(|(_, what)| match what {
            Happening::Arrives(pod) => Some(&**pod),
            _ => None,
        });
        for pod in workload.cluster.pods.iter().chain(arrives) {
            if let Some(group) = &pod.scheduling_group {
                keys.insert(ObjectKey::new(pod.key.namespace.clone(), group.clone()));
            }
        }
        if features.gates.generic_workload {
            keys.retain(|_| maker.once_in(2));
        }
        let manifests = keys.into_iter().map(|key| (key.clone(), maker.gang(&key))).collect();
        Gangs { kinds: Kinds::built_in().with(kind.kind), kind: kind.kind, manifests }
    }

    /// Replaces a group of the API.
    fn take(&self, object: &mut AnyObject) {
        let group = object.get::<PodGroup>();
        let Some(group) = group.filter(|group| self.manifests.contains_key(&group.key)) else {
            return;
        };
        *object = self.object(&group.key, group.min_count());
    }

    fn take_from(&self, what: &mut Happening) {
        match what {
            Happening::Arrives(pod) => self.join(pod),
            Happening::Other(Event::Object(Observation::Is(object))) => self.take(object),
            Happening::Other(Event::Object(Observation::Gone((kind, key))))
                if kind.is::<PodGroup>() && self.manifests.contains_key(key) =>
            {
                *kind = self.kind;
            }
            Happening::GroupNeeds(key, n) if self.manifests.contains_key(key) => {
                *what = Happening::Other(Event::object(self.object(key, Some(*n))));
            }
            _ => {}
        }
    }

    /// Gives a pod the label in place of its group in the API.
    fn join(&self, pod: &mut Pod) {
        let Some(group) = pod.scheduling_group.clone() else { return };
        if self.manifests.contains_key(&ObjectKey::new(pod.key.namespace.clone(), group.clone())) {
            let labels = pod.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
            let labels: Labels = labels.chain([(Str::from(LABEL), group)]).collect();
            pod.scheduling_group = None;
            pod.labels = labels;
        }
    }

    fn object(&self, key: &ObjectKey, min_member: Option<u32>) -> AnyObject {
        let mut manifest = self.manifests[key].clone();
        if let Some(min_member) = min_member {
            manifest["spec"]["minMember"] = min_member.into();
        }
        match self.kinds.object(&manifest).expect("the kind reads its own version") {
            Object::Other(object) => object,
            other => panic!("{other:?} is not of a kind that a plugin defines"),
        }
    }
}

impl Maker {
    /// The manifest of a gang without the number of its pods.
    fn gang(&mut self, key: &ObjectKey) -> Value {
        let mut spec = json!({});
        if self.once_in(2) {
            spec["scheduleTimeoutSeconds"] = self.pick(&[1, 5, 30]).into();
        }
        if self.once_in(6) {
            let cpu = self.rng.random_range(1..=8).to_string();
            spec["minResources"] = json!({"cpu": cpu, "memory": "1Gi"});
        }
        let created = lifecycle::timestamp(self.some_time()).map(|time| time.to_string());
        json!({
            "apiVersion": VERSION, "kind": "PodGroup", "spec": spec,
            "metadata": {
                "namespace": &*key.namespace, "name": &*key.name, "creationTimestamp": created,
            },
        })
    }
}
