//! Random scenarios.

use std::ops::Range;

use serde_json::{Value, json};

use crate::manifest::Fields;

mod volumes;

const ZONES: [&str; 3] = ["z1", "z2", "z3"];
const APPS: [&str; 3] = ["web", "db", "cache"];
const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];
const IMAGES: [(&str, u32); 3] =
    [("nginx:1", 180_000_000), ("redis:7", 40_000_000), ("huge:v1", 2_500_000_000)];
const TAINTS: [(&str, &str, &str); 4] = [
    ("gpu", "yes", "NoSchedule"),
    ("spot", "", "PreferNoSchedule"),
    ("old", "", "NoExecute"),
    ("gpu", "no", "PreferNoSchedule"),
];
/// Zero, and amounts around the largest that can be counted.
const EXTREMES: [&str; 7] =
    ["0", "9223372036854775", "9223372036854775807", "9223372036854775808", "8Ei", "1e30", "4Ei"];
const TOPOLOGY_KEYS: [&str; 3] = ["zone", "kubernetes.io/hostname", "rack"];
const FEATURES: [&str; 2] = ["GuaranteedQoSPodCPUResize", "UserNamespacesHostNetworkSupport"];

/// Random scenarios, one for each seed. The same seed gives the same scenario. The first line names the
/// seed.
///
/// They have up to 7 nodes and 15 pods, with labels and domains, taints and tolerations, affinity and
/// anti-affinity to nodes and pods, spread constraints, absent and empty selectors, host ports,
/// images, resources up to the largest quantities, namespaces, owners, Services and ReplicaSets,
/// gates, volumes of all kinds, and terminating pods.
pub fn random_scenarios(seeds: Range<u64>) -> impl Iterator<Item = String> {
    seeds.map(|seed| {
        let mut lines = vec![format!("# seed {seed}")];
        Random(seed).scenario(&mut lines);
        lines.join("\n")
    })
}

/// SplitMix64 (Steele, Lea and Flood, 2014), which is small and random enough for scenarios.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = self.below(u64::try_from(from.len()).expect("lists are short"));
        from[usize::try_from(at).expect("it is less than the length")]
    }

    fn scenario(&mut self, lines: &mut Vec<String>) {
        for namespace in &NAMESPACES[1..] {
            lines.push(format!("namespace {namespace} team={}", self.pick(&["a", "b"])));
        }
        for kind in ["service", "rc", "rs", "sts"] {
            if self.one_in(2) {
                let (namespace, app) = (self.pick(&NAMESPACES), self.pick(&APPS));
                lines.push(format!("{kind} {namespace}/{app} app={app}"));
            }
        }
        let nodes = 2 + self.below(6);
        for node in 0..nodes {
            lines.push(self.node(node));
        }
        self.storage(nodes, lines);
        for pod in 0..3 + self.below(9) {
            let on = format!(" on n{}", self.below(nodes));
            lines.push(self.pod(pod, &on));
        }
        for pod in 20..22 + self.below(3) {
            lines.push(self.pod(pod, ""));
        }
    }

    fn node(&mut self, number: u64) -> String {
        let mut line = vec![format!("node n{number} kubernetes.io/hostname=n{number}")];
        if !self.one_in(6) {
            let zone = self.pick(&ZONES);
            line.push(format!("zone={zone} topology.kubernetes.io/zone={zone}"));
        }
        if self.one_in(3) {
            line.push(format!("rack=r{}", self.below(2)));
        }
        if self.one_in(2) {
            line.push(format!("disk={}", self.pick(&["ssd", "hdd"])));
        }
        if self.one_in(3) {
            line.push(format!("size={}", self.below(5)));
        }
        let mut fields = Fields::new();
        fields.insert("allocatable".into(), self.allocatable());
        let mut taints = TAINTS.to_vec();
        taints.retain(|_| self.one_in(8));
        if !taints.is_empty() {
            let manifest =
                |(key, value, effect)| json!({"key": key, "value": value, "effect": effect});
            fields.insert("taints".into(), taints.into_iter().map(manifest).collect());
        }
        if self.one_in(8) {
            fields.insert("unschedulable".into(), json!(true));
        }
        let mut images = IMAGES.to_vec();
        images.retain(|_| self.one_in(3));
        if !images.is_empty() {
            let manifest = |(name, size)| json!({ "names": [name], "sizeBytes": size });
            fields.insert("images".into(), images.into_iter().map(manifest).collect());
        }
        let mut features = FEATURES.to_vec();
        features.retain(|_| self.one_in(2));
        fields.insert("features".into(), json!(features));
        line.push(Value::Object(fields).to_string());
        line.join(" ")
    }

    fn allocatable(&mut self) -> Value {
        let mut allocatable = json!({
            "cpu": format!("{}m", 1000 + 500 * self.below(8)),
            "memory": format!("{}Mi", 1024 + 512 * self.below(8)),
            "pods": (3 + self.below(5)).to_string(),
        });
        if self.one_in(3) {
            allocatable["example.com/gpu"] = json!(self.below(3).to_string());
        }
        for name in ["cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu"] {
            if self.one_in(16) {
                allocatable[name] = json!(self.pick(&EXTREMES));
            }
        }
        allocatable
    }

    fn pod(&mut self, number: u64, on: &str) -> String {
        let (namespace, app) = (self.pick(&NAMESPACES), self.pick(&APPS));
        let tier = self.pick(&["front", "back"]);
        let mut fields = Fields::new();
        if !self.one_in(4) {
            fields.insert("requests".into(), self.requests());
        }
        if self.one_in(2) {
            fields.insert("image".into(), json!(self.pick(&IMAGES).0));
        }
        if self.one_in(3) {
            fields.insert("ports".into(), json!([self.port()]));
        }
        if self.one_in(3) {
            fields.insert("tolerations".into(), json!([self.toleration()]));
        }
        if self.one_in(6) {
            fields.insert("nodeSelector".into(), json!({ "disk": self.pick(&["ssd", "hdd"]) }));
        }
        fields.insert("affinity".into(), self.affinity());
        fields.insert("topologySpreadConstraints".into(), self.constraints());
        if self.one_in(3) {
            fields.insert(
                "owner".into(),
                json!(format!("{}/{app}", self.pick(&["rc", "rs", "sts"]))),
            );
        }
        if on.is_empty() && self.one_in(8) {
            fields.insert("nodeName".into(), json!(format!("n{}", self.below(7))));
        }
        if on.is_empty() && self.one_in(8) {
            fields.insert("schedulingGates".into(), json!([{ "name": "example.com/wait" }]));
        }
        if !on.is_empty() && self.one_in(10) {
            let deletion = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
            fields.insert("metadata".into(), deletion);
        }
        fields.insert("priority".into(), json!(self.below(3)));
        let volumes = self.volumes();
        if !volumes.is_empty() {
            fields.insert("volumes".into(), json!(volumes));
        }
        format!("pod {namespace}/p{number} app={app} tier={tier}{on} {}", Value::Object(fields))
    }

    fn requests(&mut self) -> Value {
        let mut requests = json!({
            "cpu": format!("{}m", 100 * self.below(12)),
            "memory": format!("{}Mi", 128 * self.below(8)),
        });
        if self.one_in(6) {
            requests["example.com/gpu"] = json!("1");
        }
        if self.one_in(24) {
            requests[self.pick(&["cpu", "memory"])] = json!(self.pick(&EXTREMES));
        }
        requests
    }

    fn port(&mut self) -> Value {
        let port = 8000 + self.below(2);
        let protocol = self.pick(&["TCP", "UDP"]);
        let ip = self.pick(&["0.0.0.0", "127.0.0.1", "10.0.0.1"]);
        json!({ "containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": ip })
    }

    fn toleration(&mut self) -> Value {
        let (key, value, effect) = self.pick(&TAINTS);
        match self.below(4) {
            0 => json!({ "operator": "Exists" }),
            1 => json!({ "key": key, "operator": "Exists", "effect": effect }),
            2 => json!({ "key": key, "operator": "Exists" }),
            _ => json!({ "key": key, "value": value, "effect": effect }),
        }
    }

    fn affinity(&mut self) -> Value {
        let mut affinity = json!({});
        if self.one_in(4) {
            let terms: Vec<Value> = (0..=self.below(2)).map(|_| self.node_term()).collect();
            affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({ "nodeSelectorTerms": terms });
        }
        if self.one_in(4) {
            let preferred =
                json!({ "weight": 1 + self.below(100), "preference": self.node_term() });
            affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([preferred]);
        }
        for kind in ["podAffinity", "podAntiAffinity"] {
            if self.one_in(4) {
                affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([self.pod_term()]);
            }
            if self.one_in(4) {
                let preferred =
                    json!({ "weight": 1 + self.below(100), "podAffinityTerm": self.pod_term() });
                affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"] =
                    json!([preferred]);
            }
        }
        affinity
    }

    fn node_term(&mut self) -> Value {
        let zone = self.pick(&ZONES);
        let expression = match self.below(7) {
            0 => json!({ "key": "zone", "operator": "In", "values": [zone, "z1"] }),
            1 => json!({ "key": "zone", "operator": "NotIn", "values": [zone] }),
            2 => json!({ "key": "rack", "operator": "Exists" }),
            3 => json!({ "key": "rack", "operator": "DoesNotExist" }),
            4 => json!({ "key": "size", "operator": "Gt", "values": [self.below(4).to_string()] }),
            // The API server accepts it, but the scheduler's parser does not.
            5 => json!({ "key": "size", "operator": "Lt", "values": ["many"] }),
            _ => {
                let name = format!("n{}", self.below(7));
                let field = json!({ "key": "metadata.name", "operator": "In", "values": [name] });
                return json!({ "matchFields": [field] });
            }
        };
        json!({ "matchExpressions": [expression] })
    }

    fn pod_term(&mut self) -> Value {
        let mut term = json!({
            "topologyKey": self.pick(&TOPOLOGY_KEYS),
            "labelSelector": self.pod_selector(),
        });
        match self.below(4) {
            0 => term["namespaces"] = json!([self.pick(&NAMESPACES)]),
            1 => {
                let labels = json!({ "team": self.pick(&["a", "b"]) });
                term["namespaceSelector"] = json!({ "matchLabels": labels });
            }
            2 => term["namespaceSelector"] = json!({}),
            _ => (),
        }
        term
    }

    fn pod_selector(&mut self) -> Value {
        let app = self.pick(&APPS);
        match self.below(6) {
            0 => json!({ "matchLabels": { "tier": self.pick(&["front", "back"]) } }),
            1 => {
                json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": [app] }] })
            }
            2 => json!({}),
            3 => Value::Null,
            _ => json!({ "matchLabels": { "app": app } }),
        }
    }

    /// At most one for each topology key: the API server rejects constraints with the same key and `whenUnsatisfiable`.
    fn constraints(&mut self) -> Value {
        let mut keys = TOPOLOGY_KEYS.to_vec();
        keys.retain(|_| self.one_in(3));
        keys.into_iter().map(|key| self.constraint(key)).collect()
    }

    fn constraint(&mut self, topology_key: &str) -> Value {
        let when = self.pick(&["DoNotSchedule", "ScheduleAnyway"]);
        let mut constraint = json!({
            "maxSkew": 1 + self.below(2),
            "topologyKey": topology_key,
            "whenUnsatisfiable": when,
            "labelSelector": self.pod_selector(),
        });
        if when == "DoNotSchedule" && self.one_in(3) {
            constraint["minDomains"] = json!(1 + self.below(4));
        }
        if self.one_in(3) {
            constraint["nodeAffinityPolicy"] = json!(self.pick(&["Honor", "Ignore"]));
        }
        if self.one_in(3) {
            constraint["nodeTaintsPolicy"] = json!(self.pick(&["Honor", "Ignore"]));
        }
        if self.one_in(4) {
            constraint["matchLabelKeys"] = json!(["tier"]);
        }
        constraint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn a_seed_always_gives_the_same_scenario() {
        let twice: Vec<String> = random_scenarios(7..8).chain(random_scenarios(7..8)).collect();
        assert_eq!(twice[0], twice[1]);
        assert_ne!(twice[0], random_scenarios(8..9).next().expect("there is a seed"));
    }

    #[test]
    fn every_random_scenario_can_be_parsed() {
        for text in random_scenarios(0..200) {
            if let Err(error) = Scenario::parse(&text) {
                panic!("{error}");
            }
        }
    }
}
