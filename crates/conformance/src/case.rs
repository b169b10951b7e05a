//! A case: a cluster, a configuration and the pods to decide.

use std::collections::BTreeMap;

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, PodKey};
use plimsoll_config::GivenGates;
use plimsoll_engine::{Audit, Decision, Detail, Event, Options, Outcome, Scans, Scheduler};
use plimsoll_framework::{FeatureGates, Time};
use plimsoll_sim::InitialCluster;
use serde::Deserialize;
use serde_json::Value;

use crate::claims::Claims;
use crate::profiles::{RECORDED, profiles};

/// When the pods are decided: after all times of the corpus that are past, and before those that are to come.
const NOW: Time = Time::from_millis(1_780_000_000_000);

/// How the pods of a case are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each against the unchanged cluster.
    Decide,
    /// Each is placed on the smallest name in `best` before the next.
    Trace,
    /// The whole queue is run, with groups of pods.
    Group,
}

/// A case of the corpus.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// Its name.
    pub name: String,
    /// How its pods are decided.
    pub mode: Mode,
    /// The configuration, of any form that [`profiles`] takes; without it, the default.
    pub config: Option<Value>,
    /// Feature gates that differ from those of the release.
    #[serde(default, alias = "gates")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Everything in the cluster.
    pub objects: Vec<Value>,
    /// The pods to decide, in order.
    pub pods: Vec<String>,
}

impl Case {
    /// Decides every pod of the case from scratch, and passes each decision to `each`. If it can also
    /// be made from remembered results or by a scan, these decisions are compared with it. Returns the
    /// results of these two audits.
    ///
    /// # Panics
    /// If the case cannot be read: the corpus holds valid objects only.
    pub fn decide(&self, each: impl FnMut(Decision)) -> [Audit; 2] {
        [self.decide_with(Scans::Never, each), self.decide_with(Scans::Always, |_| ())]
    }

    fn decide_with(&self, scans: Scans, mut each: impl FnMut(Decision)) -> Audit {
        let cluster = self.cluster();
        let pods = cluster.pods.clone();
        let options =
            Options { release: RECORDED, detail: Detail::Outcome, scans, ..Options::default() };
        let mut scheduler =
            Scheduler::new(profiles(self.config.as_ref(), &self.gates()), options, 0)
                .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let mut claims = Claims::of(&self.objects);
        for event in cluster.into_events() {
            scheduler.observe(NOW, event);
        }
        for name in &self.pods {
            let (namespace, name) = name.split_once('/').expect("pods are named NAMESPACE/NAME");
            let key = PodKey::new(namespace, name);
            scheduler.audit_pod(&key);
            let decision = scheduler
                .explain(&key)
                .unwrap_or_else(|| panic!("{}: pod {key} is not pending", self.name));
            if let (Mode::Trace, Outcome::Scheduled { node, .. }) = (self.mode, &decision.outcome) {
                let pod = pods.iter().find(|pod| pod.key == key).expect("it was pending").clone();
                let placed = Pod { node_name: Some(node.clone()), ..pod };
                scheduler.observe(NOW, Event::pod(placed));
            }
            if self.mode == Mode::Trace {
                for claim in claims.after(&decision, &self.objects) {
                    let object = wire::object(&claim).expect("it is a claim");
                    scheduler.observe(NOW, Event::is(object).expect("claims are read"));
                }
            }
            each(decision);
        }
        scheduler.audit().clone()
    }

    /// The feature gates of the release, with those of the case.
    ///
    /// # Panics
    /// If one of them is not known.
    pub fn gates(&self) -> FeatureGates {
        let given: Vec<String> =
            self.feature_gates.iter().map(|(name, on)| format!("{name}={on}")).collect();
        let gates = GivenGates::parse(RECORDED, &given, &[]);
        gates.unwrap_or_else(|error| panic!("{}: {error}", self.name)).plugins
    }

    /// The cluster of the case.
    ///
    /// # Panics
    /// If an object cannot be read.
    pub fn cluster(&self) -> InitialCluster {
        let mut cluster = InitialCluster::default();
        for (i, value) in self.objects.iter().enumerate() {
            match wire::object(value) {
                Ok(Object::Pod(pod)) => cluster.pods.push(*pod),
                Ok(Object::Node(node)) => cluster.nodes.push(*node),
                Ok(Object::Other(object)) => cluster.objects.push(object),
                Ok(Object::Unknown { .. }) => {}
                Err(error) => panic!("{}: objects[{i}]: {error}", self.name),
            }
        }
        cluster
    }
}
