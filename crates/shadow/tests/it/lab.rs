//! A cluster as it is seen by a shadow.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_api::PodKey;
use plimsoll_api::wire;
use plimsoll_config::{Catalogue, Configuration, GivenGates};
use plimsoll_engine::{Event, Gates, Observation, Options, Profile, Scheduler};
use plimsoll_framework::{FeatureGates, Release, Time};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_shadow::{Archive, Judge, NoArchive, Report, Settings, Shadow};
use serde_json::{Value, json};

pub(crate) const MOST_KEPT: usize = 10;

pub(crate) struct Lab {
    shadow: Shadow,
    now: Time,
    pods: BTreeMap<String, Value>,
}

pub(crate) fn node(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "100"}},
    })
}

pub(crate) fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

/// The default profile, without the scores of some plugins.
fn judge(name: &str, without: &[&str]) -> Judge {
    let registry = in_tree();
    let configuration = Configuration::default_for(&Catalogue::of(&registry, &default_profile()));
    let mut spec = configuration.profile_specs().swap_remove(0);
    for (point, plugins) in &mut spec.points {
        if point.as_str().contains("Score") || point.as_str().contains("score") {
            plugins.retain(|(plugin, _)| !without.contains(&plugin.as_str()));
        }
    }
    let profile = Profile::new(&spec, &registry, &FeatureGates::default()).expect("it is complete");
    let options = Options { audit_every: 0, ..Options::default() };
    let scheduler = Scheduler::new(vec![profile], options, 0).expect("it is right");
    Judge { name: name.to_owned(), release: "1.37".to_owned(), scheduler }
}

/// The default profile of a release, with its gates of groups.
fn judge_of_groups(release: Release) -> Judge {
    let gates = ["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"];
    let gates = gates.map(|gate| format!("{gate}=true"));
    let gates = GivenGates::parse(release, &gates, &[]).expect("they exist").plugins;
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    let profiles = Profile::all_of(&specs, &registry, &gates).expect("they are right");
    let options =
        Options { release, gates: Gates::of(&gates), audit_every: 0, ..Options::default() };
    let scheduler = Scheduler::new(profiles, options, 0).expect("it is right");
    Judge { name: "first".to_owned(), release: release.to_string(), scheduler }
}

impl Lab {
    /// A lab in which groups are decided by the rules of a release, also in the cluster as our decisions would have made it.
    pub(crate) fn with_groups(release: Release) -> Self {
        let lab = Lab::judged(judge_of_groups(release), None);
        let own = judge_of_groups(release).scheduler;
        Lab { shadow: lab.shadow.with_own_cluster(own), ..lab }
    }

    pub(crate) fn new() -> Self {
        Lab::with(None)
    }

    /// A lab that also keeps the cluster as our decisions would have made it.
    pub(crate) fn with_own_cluster() -> Self {
        let lab = Lab::new();
        let own = judge("own", &[]).scheduler;
        Lab { shadow: lab.shadow.with_own_cluster(own), ..lab }
    }

    pub(crate) fn against(without: &[&str]) -> Self {
        Lab::with(Some(judge("second", without)))
    }

    fn with(second: Option<Judge>) -> Self {
        Lab::judged(judge("first", &[]), second)
    }

    fn judged(first: Judge, second: Option<Judge>) -> Self {
        let window = Duration::from_secs(2);
        let settings = Settings { window, most_kept: MOST_KEPT, limits: Vec::new() };
        Lab {
            shadow: Shadow::new(first, second, settings),
            now: Time::from_millis(1_780_000_000_000),
            pods: BTreeMap::new(),
        }
    }

    pub(crate) fn begin(&mut self) {
        self.shadow.begin(self.now);
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    pub(crate) fn see(&mut self, objects: &[Value]) {
        for object in objects {
            if object["kind"] == "Pod" {
                let name = object["metadata"]["name"].as_str().expect("it has a name");
                self.pods.insert(name.to_owned(), object.clone());
            }
            let event = Event::is(wire::object(object).expect("it is right")).expect("it is read");
            self.shadow.take(self.now, event, Some(object.to_string().into()));
            self.now = self.now + Duration::from_millis(10);
        }
    }

    pub(crate) fn bind(&mut self, pod: &str, node: &str) {
        let mut bound = self.pods[pod].clone();
        bound["spec"]["nodeName"] = json!(node);
        self.see(&[bound]);
    }

    pub(crate) fn delete(&mut self, pod: &PodKey) {
        self.shadow.take(self.now, Event::pod_gone(pod.clone()), None);
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        let gone = Event::Node(Box::new(Observation::Gone(name.into())));
        self.shadow.take(self.now, gone, None);
    }

    pub(crate) fn report(&mut self) -> Report {
        self.report_with(&mut NoArchive)
    }

    pub(crate) fn report_with(&mut self, archive: &mut dyn Archive) -> Report {
        self.shadow.advance(self.now, archive);
        self.shadow.drain(archive);
        self.shadow.report(self.now)
    }
}
