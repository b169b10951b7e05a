//! A case: a cluster, a configuration and the pods to decide.

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, PodKey};
use plimsoll_engine::{Audit, Decision, Detail, Event, Options, Outcome, Scans, Scheduler};
use plimsoll_framework::Time;
use plimsoll_sim::InitialCluster;
use serde::Deserialize;
use serde_json::Value;

use crate::profiles::{RECORDED, profiles};

/// How the pods of a case are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each against the unchanged cluster.
    Decide,
    /// Each is placed on the smallest name in `best` before the next.
    Trace,
}

/// A case of the corpus.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// How its pods are decided.
    pub mode: Mode,
    /// The configuration, of any form that [`profiles`] takes; without it, the default.
    pub config: Option<Value>,
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
        let mut scheduler = Scheduler::new(profiles(self.config.as_ref()), options, 0)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        for event in cluster.into_events() {
            scheduler.observe(Time::ZERO, event);
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
                scheduler.observe(Time::ZERO, Event::pod(placed));
            }
            each(decision);
        }
        scheduler.audit().clone()
    }

    fn cluster(&self) -> InitialCluster {
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
