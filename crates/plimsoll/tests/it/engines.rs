//! `--engine` and `--audit`: both engines make the same decisions.

use std::fmt::Write;

use crate::run::{Answer, run};

/// The example cluster of the repository.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cluster");

/// A random number generator that gives the same numbers on every machine.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        // The constants of Knuth's MMIX. The low bits are hardly random.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let n = from.len() as u64;
        from[usize::try_from(self.below(n)).expect("it is below a length")]
    }
}

/// A random cluster in which pods must be spread, keep apart, need volumes and evict others. It has too many host names
/// to look at one by one.
fn cluster(seed: u64) -> String {
    let mut chance = Chance(seed);
    let mut text = "\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: example.com/disks
volumeBindingMode: WaitForFirstConsumer
---
"
    .to_owned();
    for number in 0..90 {
        let (zone, cpu) = (chance.pick(&["a", "b", "c"]), chance.pick(&["1", "2", "3"]));
        let taints = chance.pick(&["", "", "", "{key: old, effect: PreferNoSchedule}"]);
        writeln!(
            text,
            "apiVersion: v1\nkind: Node\nmetadata: {{name: n{number}, labels: \
             {{topology.kubernetes.io/zone: {zone}, kubernetes.io/hostname: n{number}}}}}\n\
             spec: {{taints: [{taints}]}}\n\
             status: {{allocatable: {{cpu: '{cpu}', memory: 8Gi, pods: '20'}}}}\n---"
        )
        .expect("a string takes all");
    }
    for number in 0..320 {
        pod(&mut text, number, &mut chance);
    }
    text
}

fn pod(text: &mut String, number: u32, chance: &mut Chance) {
    let (app, cpu) =
        (chance.pick(&["web", "db", "job"]), chance.pick(&["100m", "700m", "1", "1500m"]));
    let is_running = number < 160;
    let priority = if is_running { "0" } else { chance.pick(&["0", "10", "100"]) };
    let selector = format!("labelSelector: {{matchLabels: {{app: {app}}}}}");
    let key = chance.pick(&["topology.kubernetes.io/zone", "kubernetes.io/hostname"]);
    let mut spec = match chance.below(7) {
        0 | 1 => {
            let otherwise = chance.pick(&["DoNotSchedule", "ScheduleAnyway"]);
            format!(
                "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {key}, \
                 whenUnsatisfiable: {otherwise}, {selector}}}], "
            )
        }
        2 => format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             [{{topologyKey: kubernetes.io/hostname, {selector}}}]}}}}, "
        ),
        3 => format!(
            "affinity: {{podAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: \
             [{{weight: 7, podAffinityTerm: {{topologyKey: {key}, {selector}}}}}]}}}}, "
        ),
        4 => format!("volumes: [{{name: v, persistentVolumeClaim: {{claimName: c{number}}}}}], "),
        _ => String::new(),
    };
    if spec.starts_with("volumes") {
        writeln!(
            text,
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c{number}}}\n\
             spec: {{storageClassName: late, accessModes: [ReadWriteOnce], \
             resources: {{requests: {{storage: 1Gi}}}}}}\n---"
        )
        .expect("a string takes all");
    }
    if is_running {
        write!(spec, "nodeName: n{}, ", chance.below(90)).expect("a string takes all");
    }
    writeln!(
        text,
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}, labels: {{app: {app}}}}}\n\
         spec: {{{spec}priority: {priority}, \
         containers: [{{name: c, resources: {{requests: {{cpu: {cpu}, memory: 100Mi}}}}}}]}}\n---"
    )
    .expect("a string takes all");
}

/// Checks that both engines print the same, and returns it.
#[track_caller]
fn check_alike(files: &[(&str, &str)], line: &str) -> String {
    let reference = run(files, &format!("{line} --engine reference"));
    for more in ["", "--engine fast --audit 0", "--audit 1", "--audit 7"] {
        let fast = run(files, &format!("{line} {more}"));
        assert_eq!(fast, reference, "{line} {more}");
    }
    let Answer { status, out, err } = reference;
    assert_eq!(status, 0, "{err}");
    out
}

#[test]
fn both_engines_print_the_same_about_the_example() {
    for more in ["", "-o json", "--explain", "-o json --tie-break random --seed 3"] {
        check_alike(&[], &format!("simulate -f {EXAMPLE} {more}"));
    }
}

#[test]
fn both_engines_print_the_same_about_random_clusters() {
    for seed in 0..2 {
        let text = cluster(seed);
        let files: &[(&str, &str)] = &[("c.yaml", &text)];
        let table = check_alike(files, "simulate -f c.yaml");
        assert!(table.contains("preempted by"), "pods are evicted: {table}");
        let records = check_alike(files, "simulate -f c.yaml -o json --completion-after 10m");
        assert!(records.contains("\"volumes\""), "volumes are provisioned");
        let rather = text.replace("DoNotSchedule", "ScheduleAnyway");
        assert_ne!(run(&[("c.yaml", &rather)], "simulate -f c.yaml").out, table, "pods are spread");
        check_alike(files, "simulate -f c.yaml -o json --tie-break random --seed 5");
    }
}
