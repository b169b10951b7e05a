//! The engine's view of the cluster, as text for debugging.

use std::fmt::{self, Write as _};

use plimsoll_api::{Resources, Str};
use plimsoll_framework::{PodInfo, Row, Time};

use crate::queue::{QueuePlace, QueuedPodInfo};
use crate::scheduler::Scheduler;

/// The end of a truncated text.
const CUT: &str = "... the rest is left out\n";

/// A text with a length limit.
struct Bounded {
    text: String,
    most: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.most < self.text.len() + part.len() {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

impl Scheduler {
    /// The nodes with their free resources and pods, and the pods of the queue, all by name. At most
    /// `most` bytes; if that is not enough, a last line says so.
    pub fn dump(&self, now: Time, most: usize) -> String {
        let mut out = Bounded { text: String::new(), most };
        if self.write_dump(now, &mut out).is_err() {
            let whole = out.text.rfind('\n').map_or(0, |end| end + 1);
            out.text.truncate(whole);
            out.text.push_str(CUT);
        }
        out.text
    }

    fn write_dump(&self, now: Time, out: &mut Bounded) -> fmt::Result {
        let [n_nodes, n_pods, n_assumed] = self.cache.sizes();
        writeln!(out, "{n_nodes} nodes, {n_pods} pods on nodes, {n_assumed} of them assumed")?;
        let nodes = self.view().nodes;
        let mut rows: Vec<(&Str, Row)> =
            nodes.rows().map(|row| (nodes.name_of(row), row)).collect();
        rows.sort_unstable();
        for (name, row) in rows {
            let (has, used) = (&nodes.node(row).allocatable, nodes.requested_of(row));
            write!(out, "\nnode {name}: {} pods of {}", nodes.pods_on(row).len(), has.pods)?;
            for (resource, used, has) in amounts(used, has) {
                write!(out, ", {resource} {used} of {has}")?;
            }
            writeln!(out)?;
            let mut pods: Vec<&PodInfo> = nodes.pods_on(row).iter().collect();
            pods.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            for pod in pods {
                let id = self.names.find(&pod.key);
                let assumed = id.and_then(|id| self.cache.assumed(id)).map_or("", |_| ", assumed");
                writeln!(out, "  pod {}, uid {}{assumed}", pod.key, pod.uid)?;
            }
            for pod in self.nominated.on(name) {
                writeln!(out, "  nominated pod {}, uid {}", pod.key, pod.uid)?;
            }
        }
        writeln!(out, "\nqueue")?;
        for info in self.queue.iter() {
            write_pending(now, info, out)?;
        }
        Ok(())
    }
}

fn write_pending(now: Time, info: &QueuedPodInfo, out: &mut Bounded) -> fmt::Result {
    let QueuedPodInfo { pod, attempts, .. } = info;
    write!(out, "  pod {}, uid {}, {attempts} attempts: ", pod.key, pod.uid)?;
    match &info.place {
        QueuePlace::Active => write!(out, "ready")?,
        QueuePlace::InFlight => write!(out, "being scheduled or bound")?,
        QueuePlace::Backoff { until } => write!(out, "backs off for {:?}", until.since(now))?,
        QueuePlace::ErrorBackoff { until } => {
            write!(out, "backs off after an error for {:?}", until.since(now))?;
        }
        QueuePlace::Unschedulable => write!(out, "waits for a change")?,
        QueuePlace::Gated { plugin, why } => write!(out, "kept out by {plugin}: {why}")?,
    }
    let rejectors: Vec<_> = match info.place {
        QueuePlace::Gated { .. } => Vec::new(),
        _ => info.rejectors().filter(|plugin| !plugin.is_empty()).collect(),
    };
    if !rejectors.is_empty() {
        write!(out, ", was rejected by {}", rejectors.join(" "))?;
    }
    writeln!(out)
}

/// The used and the allocatable resources of a node.
fn amounts<'a>(used: &'a Resources, has: &'a Resources) -> Vec<(&'a str, i64, i64)> {
    let mut all = vec![
        ("milli-cpu", used.milli_cpu, has.milli_cpu),
        ("memory", used.memory, has.memory),
        ("ephemeral-storage", used.ephemeral_storage, has.ephemeral_storage),
    ];
    let mut names: Vec<&str> =
        used.scalar.keys().chain(has.scalar.keys()).map(Str::as_str).collect();
    names.sort_unstable();
    names.dedup();
    all.extend(names.into_iter().map(|name| (name, used.get(name), has.get(name))));
    all
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::tests::lab;
    use crate::{Event, Observation, Options};

    fn scheduler() -> Scheduler {
        let profile = lab::profile("lab", None, |_| true);
        let scheduler = Scheduler::new(vec![profile], Options::default(), 0);
        let mut scheduler = scheduler.expect("there is one profile");
        for name in ["b", "a"] {
            let node = lab::node(name, &["cpu=2"]);
            scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
        }
        for (name, what) in [("q", "cpu=9"), ("p", "cpu=1"), ("gated", "gate=g"), ("there", "on=a")]
        {
            scheduler.observe(Time::ZERO, Event::pod(lab::pod(name, &[what])));
        }
        for _ in 0..2 {
            scheduler.step(Time::ZERO, &mut Vec::new());
        }
        scheduler
    }

    #[test]
    fn nodes_pods_and_the_queue_are_told_by_name() {
        expect![[r#"
            2 nodes, 2 pods on nodes, 1 of them assumed

            node a: 2 pods of 0, milli-cpu 1000 of 2000, memory 0 of 0, ephemeral-storage 0 of 0
              pod default/p, uid , assumed
              pod default/there, uid 

            node b: 0 pods of 0, milli-cpu 0 of 2000, memory 0 of 0, ephemeral-storage 0 of 0

            queue
              pod default/gated, uid , 0 attempts: kept out by Gates: gated
              pod default/p, uid , 1 attempts: being scheduled or bound
              pod default/q, uid , 1 attempts: waits for a change, was rejected by Cpu
        "#]]
        .assert_eq(&scheduler().dump(Time::ZERO, usize::MAX));
    }

    #[test]
    fn a_text_that_would_be_too_long_ends_with_a_whole_line_and_says_so() {
        let whole = scheduler().dump(Time::ZERO, usize::MAX);
        let cut = scheduler().dump(Time::ZERO, 100);
        let kept = cut.strip_suffix(CUT).expect("it says that it was cut");
        assert!(kept.len() <= 100 && kept.ends_with('\n') && whole.starts_with(kept), "{cut}");
    }
}
