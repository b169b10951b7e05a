//! Records an hour of a busy cluster in virtual time: 5,000 nodes, and 20 pods a second that run for 20 minutes each.
//! Every ten seconds a node comes or goes, and one changes its labels or its taints.
//!
//! `cargo run --release -p plimsoll-recording --example hour -- FILE`, then `plimsoll replay FILE --engine both`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plimsoll_api::taints::Effect;
use plimsoll_api::{
    Asks, Controller, Labels, Node, NonZero, Pod, PodKey, PodTemplate, Resources, Selector, Str,
    Taint, Timestamp,
};
use plimsoll_config::{Catalogue, Configuration, GivenGates};
use plimsoll_engine::{Event, Observation, Options, TieBreak};
use plimsoll_framework::{Release, Time};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_recording::{Destination, Header, Limits, Recording, Summary, WhenFull};
use plimsoll_sim::{
    Happening, InitialCluster, Lifecycle, RequestFaults, SimulatedCluster, Simulation,
};

const NODES: u64 = 5_000;
const PODS_PER_SECOND: u64 = 20;
const DEPLOYMENTS: u64 = 200;
const HOUR: u64 = 3_600;
const RUNS_FOR: Duration = Duration::from_mins(20);
/// 2026-01-01T00:00:00Z, in seconds.
const BEGINNING: i64 = 1_767_225_600;

fn main() -> Result<()> {
    let path: PathBuf = std::env::args_os().nth(1).context("give a file to write")?.into();
    let (registry, gates) = (in_tree(), GivenGates::of(Release::NEWEST));
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.plugins.clone());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    let options = Options { tie_break: TieBreak::Random, ..Options::default() };
    let header = Header::new(("example", "hour"), &specs, &gates.plugins, &options, 7);
    let mut scheduler = header.scheduler(&registry, options)?;
    let is_recorded = path.as_os_str() != "-";
    let recording = is_recorded.then(|| {
        let destination = Destination { path, limits: Limits::NONE };
        Recording::start(destination, header, WhenFull::Wait, |_| {})
    });
    let recording = recording.transpose()?;
    if let Some(recording) = &recording {
        scheduler.record_to(recording.recorder());
    }
    let lifecycle = Lifecycle { completion_after: Some(RUNS_FOR), ..Lifecycle::default() };
    let mut world = SimulatedCluster::new(lifecycle, RequestFaults::default());
    plan(&mut world);
    let nodes = (0..NODES).map(node).collect();
    let cluster = InitialCluster { nodes, ..InitialCluster::default() };
    let began = Instant::now();
    let mut simulation = Simulation::within(world, scheduler, cluster);
    while simulation.advance_until(Some(at(HOUR))).is_some() {}
    let simulated = began.elapsed();
    let summary = recording.map(Recording::finish).transpose()?.unwrap_or_default();
    let Summary { events, bytes, .. } = summary;
    let pods = HOUR * PODS_PER_SECOND;
    #[expect(clippy::print_stdout, reason = "it is the answer of a program")]
    {
        println!("{events} events, {bytes} bytes, {} for each of {pods} pods", bytes / pods);
        println!("simulated and recorded in {simulated:.1?}");
    }
    Ok(())
}

fn at(second: u64) -> Time {
    Time::from_millis(BEGINNING * 1_000) + Duration::from_secs(second)
}

fn timestamp(second: u64) -> Option<Timestamp> {
    Timestamp::from_second(BEGINNING + i64::try_from(second).ok()?).ok()
}

/// A number that looks random.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A unique identity as the API server gives it.
fn uid(seed: u64) -> Str {
    let (one, other) = (mixed(seed), mixed(!seed));
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        one >> 32,
        (one >> 16) & 0xffff,
        one & 0xffff,
        other >> 48,
        other & 0xffff_ffff_ffff
    )
    .into()
}

fn node(number: u64) -> Node {
    let labels = [
        ("kubernetes.io/hostname", format!("node-{number}")),
        ("kubernetes.io/arch", "amd64".to_owned()),
        ("topology.kubernetes.io/zone", format!("zone-{}", number % 5)),
        ("node.kubernetes.io/instance-type", format!("m{}.large", number % 3)),
    ];
    let allocatable = Resources {
        milli_cpu: 8_000,
        memory: 32 << 30,
        pods: 110,
        ephemeral_storage: 100 << 30,
        ..Resources::default()
    };
    Node {
        name: format!("node-{number}").into(),
        labels: labels.into_iter().collect(),
        allocatable,
        created: timestamp(0),
        ..Node::default()
    }
}

fn template(deployment: u64) -> PodTemplate {
    let cpu = [100, 250, 500, 1_000][usize::try_from(deployment % 4).unwrap_or(0)];
    let requests = Resources { milli_cpu: cpu, memory: 512 << 20, ..Resources::default() };
    let non_zero = NonZero { milli_cpu: requests.milli_cpu, memory: requests.memory };
    let app = format!("app-{deployment}");
    let labels = Labels::from_iter([("app", app.as_str()), ("pod-template-hash", "6d4cf56db6")]);
    let mut template = PodTemplate {
        labels: labels.clone(),
        controller: Some(Controller {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: format!("{app}-6d4cf56db6").into(),
            uid: uid(1 << 40 | deployment),
        }),
        scheduler_name: "default-scheduler".into(),
        asks: Asks {
            fit: requests.clone(),
            balance: requests.clone(),
            room: requests.clone(),
            room_non_zero: non_zero,
            ..Asks::default()
        },
        requests,
        non_zero_requests: non_zero,
        ..PodTemplate::default()
    };
    if deployment.is_multiple_of(5) {
        let selector = plimsoll_api::Requirement::equals("app", app.as_str());
        template.spread.push(plimsoll_api::SpreadConstraint {
            max_skew: 1,
            topology_key: "topology.kubernetes.io/zone".into(),
            when_unsatisfiable: plimsoll_api::WhenUnsatisfiable::ScheduleAnyway,
            selector: Selector::All(vec![selector]),
            without_label_keys: None,
            min_domains: 1,
            honor_node_affinity: true,
            honor_node_taints: false,
        });
    }
    template
}

fn plan(world: &mut SimulatedCluster) {
    let templates: Vec<_> =
        (0..DEPLOYMENTS).map(|deployment| std::sync::Arc::new(template(deployment))).collect();
    for second in 1..HOUR {
        for number in second * PODS_PER_SECOND..(second + 1) * PODS_PER_SECOND {
            let deployment = mixed(number) % DEPLOYMENTS;
            let suffix = format!("{:05x}", mixed(number ^ 0xabcd) & 0xf_ffff);
            let key = PodKey::new("team", format!("app-{deployment}-6d4cf56db6-{suffix}"));
            let template = templates[usize::try_from(deployment).unwrap_or(0)].clone();
            let pod =
                Pod { uid: uid(number), created: timestamp(second), ..Pod::new(key, template) };
            world.plan(at(second), Happening::Arrives(Box::new(pod)));
        }
        if second.is_multiple_of(10) {
            let number = mixed(second) % NODES;
            let changed = node(number);
            let event = match second / 10 % 4 {
                0 => Observation::Gone(changed.name),
                1 => Observation::Is(node(NODES + second)),
                2 => {
                    let mut labels: Vec<(Str, Str)> =
                        changed.labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
                    labels.push(("generation".into(), format!("{second}").into()));
                    Observation::Is(Node { labels: labels.into_iter().collect(), ..changed })
                }
                _ => {
                    let taint =
                        Taint { key: "drain".into(), value: "".into(), effect: Effect::NoSchedule };
                    Observation::Is(Node { taints: vec![taint], ..changed })
                }
            };
            world.plan(at(second), Happening::Other(Event::Node(Box::new(event))));
        }
    }
}
