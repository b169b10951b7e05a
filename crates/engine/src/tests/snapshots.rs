//! A snapshot that is taken in parts is of the moment at which it was begun, whatever happens meanwhile.

use std::collections::BTreeMap;

use plimsoll_api::{AnyObject, KindRef, Namespace, ObjectKey, PersistentVolume, PodKey};
use plimsoll_framework::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::lab;
use crate::{ClusterSnapshot, Effect, Event, Observation, Options, Scheduler, Write, WriteError};

/// What a snapshot has, in an order.
fn contents(snapshot: &ClusterSnapshot) -> (Time, BTreeMap<String, String>, Vec<String>) {
    let mut all = BTreeMap::new();
    let mut add = |kind: &str, name: String, what: String| {
        assert_eq!(all.insert(format!("{kind} {name}"), what), None, "{kind} {name} is there once");
    };
    for node in &snapshot.nodes {
        add("node", node.name.to_string(), format!("{node:?}"));
    }
    for pod in &snapshot.pods {
        add("pod", pod.key.to_string(), format!("{:?} {:?}", pod.node(), pod.seen()));
    }
    for object in &snapshot.objects {
        add(object.kind().as_str(), object.key().to_string(), format!("{object:?}"));
    }
    let mut nominated: Vec<String> =
        snapshot.nominated.iter().map(|(pod, node)| format!("{pod} {node}")).collect();
    nominated.sort();
    (snapshot.taken, all, nominated)
}

/// A cluster in which random things happen.
struct World {
    scheduler: Scheduler,
    now: Time,
    rng: Pcg64,
}

impl World {
    fn new(seed: u64) -> Self {
        let profile = lab::profile("lab", None, |_| true);
        let scheduler = Scheduler::new(vec![profile], Options::default(), seed);
        let scheduler = scheduler.expect("there is a profile");
        World { scheduler, now: Time::ZERO, rng: Pcg64::seed_from_u64(seed) }
    }

    fn name(&mut self, kind: &str, most: u32) -> String {
        format!("{kind}{}", self.rng.random_range(0..most))
    }

    fn tell(&mut self, event: Event) {
        self.scheduler.observe(self.now, event);
    }

    /// Something of the cluster changes, or the scheduler makes a step.
    fn happens(&mut self) {
        let (pod, node) = (self.name("p", 40), self.name("n", 12));
        let team = self.name("team=", 3);
        match self.rng.random_range(0..12) {
            0 => self.tell(Event::Node(Box::new(Observation::Gone(node.as_str().into())))),
            1 | 2 => {
                let node = lab::node(&node, &["cpu=8", &team]);
                self.tell(Event::Node(Box::new(Observation::Is(node))));
            }
            3 | 4 => self.tell(Event::pod(lab::pod(&pod, &["cpu=1", &team]))),
            5 => self.tell(Event::pod(lab::pod(&pod, &["cpu=1", &team, &format!("on={node}")]))),
            6 => self.tell(Event::pod_gone(PodKey::new("default", pod.as_str()))),
            7 => self.object_changes(),
            8 => self.try_something(&pod, &node),
            _ => self.step(),
        }
    }

    fn object_changes(&mut self) {
        let name = self.name("o", 9);
        let key = ObjectKey::new("", name.as_str());
        let phase = self.rng.random_range(0..3);
        let event = match self.rng.random_range(0..4) {
            0 => Event::gone(KindRef::of::<PersistentVolume>(), key),
            1 => Event::gone(KindRef::of::<Namespace>(), key),
            2 => {
                let labels = [("phase", phase.to_string().as_str())].into_iter().collect();
                Event::object(Namespace { name: name.as_str().into(), labels })
            }
            _ => {
                let name = name.as_str().into();
                let class = phase.to_string().as_str().into();
                Event::object(PersistentVolume { name, class, ..PersistentVolume::default() })
            }
        };
        self.tell(event);
    }

    /// A transaction changes much, and is rolled back.
    fn try_something(&mut self, pod: &str, node: &str) {
        let placed = lab::pod("tried", &["cpu=1"]);
        self.scheduler.transaction(self.now, |transaction| {
            // A pod or a node need not be there.
            let _ = transaction.evict(&PodKey::new("default", pod));
            let _ = transaction.place(placed, node);
            let _ = transaction.remove_node(node);
            transaction.set_node(lab::node("new", &["cpu=8"]));
            let volume = PersistentVolume { name: "tried".into(), ..PersistentVolume::default() };
            transaction.set_object(AnyObject::from(volume));
        });
    }

    fn step(&mut self) {
        self.now = self.now + std::time::Duration::from_millis(300);
        let mut effects: Vec<Effect> = Vec::new();
        self.scheduler.step(self.now, &mut effects);
        for effect in effects {
            let works = self.rng.random_range(0..3) != 0;
            if let Write::Bind(binding) = &effect.write
                && works
            {
                let mut pod = (*effect.pod).clone();
                pod.node_name = Some(binding.node.clone());
                self.tell(Event::pod(pod));
            }
            let result = if works { Ok(()) } else { Err(WriteError::other("no")) };
            self.tell(Event::Done(effect.id, result));
        }
    }
}

#[test]
fn a_snapshot_in_parts_is_of_the_moment_at_which_it_was_begun() {
    let (mut n_snapshots, mut n_assumed) = (0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed);
        (0..150).for_each(|_| world.happens());
        for most in [1, 3, 7] {
            world.scheduler.begin_snapshot(world.now);
            let expected = world.scheduler.snapshot(world.now);
            n_assumed += world.scheduler.cache.sizes()[2];
            let taken = loop {
                if let Some(taken) = world.scheduler.go_on_with_snapshot(most) {
                    break taken;
                }
                (0..3).for_each(|_| world.happens());
            };
            assert_eq!(contents(&taken), contents(&expected), "seed {seed}, parts of {most}");
            n_snapshots += usize::from(!taken.pods.is_empty() && !taken.objects.is_empty());
            assert!(world.scheduler.go_on_with_snapshot(most).is_none(), "it was the last part");
        }
    }
    assert!(100 < n_snapshots && 10 < n_assumed, "{n_snapshots}, {n_assumed}");
}

#[test]
fn a_part_reads_no_more_than_it_is_told_to() {
    let mut world = World::new(1);
    for name in 0..50 {
        world.tell(Event::Node(Box::new(Observation::Is(lab::node(&format!("n{name}"), &[])))));
        world.tell(Event::pod(lab::pod(&format!("p{name}"), &["on=n1"])));
        let name = format!("o{name}").as_str().into();
        world.tell(Event::object(PersistentVolume { name, ..PersistentVolume::default() }));
    }
    world.scheduler.begin_snapshot(world.now);
    let (mut before, mut n_parts) = (0, 1);
    while world.scheduler.go_on_with_snapshot(8).is_none() {
        let parts = world.scheduler.snapshot_in_parts.as_ref().expect("it goes on");
        let read = parts.n_read();
        assert!(read - before <= 8, "{read} after {before}");
        (before, n_parts) = (read, n_parts + 1);
    }
    assert_eq!(n_parts, 150_usize.div_ceil(8));
    // What has come or gone since is looked at, too.
    for number in 0..50 {
        let name = format!("x{number}").as_str().into();
        world.tell(Event::object(PersistentVolume { name, ..PersistentVolume::default() }));
    }
    world.scheduler.begin_snapshot(world.now);
    for number in 0..50 {
        let key = ObjectKey::new("", format!("x{number}"));
        world.tell(Event::gone(KindRef::of::<PersistentVolume>(), key));
    }
    for number in 0..45 {
        let name = format!("y{number}").as_str().into();
        world.tell(Event::object(PersistentVolume { name, ..PersistentVolume::default() }));
    }
    let mut n_parts = 1;
    let taken = loop {
        match world.scheduler.go_on_with_snapshot(8) {
            Some(taken) => break taken,
            None => n_parts += 1,
        }
    };
    assert_eq!(taken.objects.len(), 100);
    // 100 pods and nodes, and 100 objects that were there. The 45 new ones are looked at, some together with those that are gone.
    assert!((200_usize.div_ceil(8) + 1..=245_usize.div_ceil(8)).contains(&n_parts), "{n_parts}");
}

#[test]
fn nothing_is_kept_for_a_snapshot_that_is_given_up() {
    let mut world = World::new(3);
    for number in 0..500 {
        world.tell(Event::Node(Box::new(Observation::Is(lab::node(&format!("n{number}"), &[])))));
    }
    world.scheduler.begin_snapshot(world.now);
    assert!(world.scheduler.go_on_with_snapshot(1).is_none());
    let kept = |scheduler: &Scheduler| scheduler.cache.n_kept() + scheduler.queue.n_kept();
    (0..100).for_each(|_| world.happens());
    assert_ne!(kept(&world.scheduler), 0);
    world.scheduler.give_up_snapshot();
    for number in 0..10_000 {
        let name = format!("o{number}").as_str().into();
        world.tell(Event::object(PersistentVolume { name, ..PersistentVolume::default() }));
        world.happens();
    }
    assert_eq!(kept(&world.scheduler), 0);
    assert!(world.scheduler.snapshot_in_parts.is_none());
    // No list of objects is under way.
    let mut objects = Vec::new();
    assert_eq!(world.scheduler.cache.read_objects(1, &mut objects), None);
    assert!(objects.is_empty());
}

#[test]
fn a_snapshot_that_is_begun_again_is_of_the_later_moment() {
    let mut world = World::new(2);
    (0..100).for_each(|_| world.happens());
    world.scheduler.begin_snapshot(world.now);
    assert!(world.scheduler.go_on_with_snapshot(1).is_none());
    (0..50).for_each(|_| world.happens());
    world.scheduler.begin_snapshot(world.now);
    let expected = world.scheduler.snapshot(world.now);
    (0..50).for_each(|_| world.happens());
    let taken = world.scheduler.go_on_with_snapshot(10_000).expect("it is all in one part");
    assert_eq!(contents(&taken), contents(&expected));
}
