//! NodePorts: host ports that other pods already use.

use std::collections::BTreeMap;

use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

const NO_FREE_PORTS: &str = "node(s) didn't have free ports for the requested pod ports";

/// Rejects nodes on which a host port of the pod is taken.
///
/// Of two pods with the same host port only one can listen; the other would never start. Ports conflict
/// if protocol and number are equal, and the addresses are equal or one of them is `0.0.0.0`.
///
/// As in kube-scheduler, the used ports of a node are a set: if something else has placed two pods with
/// the same port, it becomes free when the first of them is deleted.
///
/// ```yaml
/// containers: [{name: web, ports: [{containerPort: 80, hostPort: 8080}]}]
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NodePorts;

impl Plugin for NodePorts {
    const NAME: &'static str = "NodePorts";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        NodePorts
    }
}

impl Filter for NodePorts {
    type Pod = HostPorts;
    type Node = UsedPorts;
    fn applies(&self, wanted: &[HostPort]) -> bool {
        !wanted.is_empty()
    }
    fn filter(&self, wanted: &[HostPort], used: &[HostPort]) -> Verdict {
        if conflict(wanted, used) { Verdict::unschedulable(NO_FREE_PORTS) } else { Verdict::Pass }
    }
}

/// Up to this many ports a linear search is fastest. A pod may have tens of thousands.
const FEW: usize = 16;

fn conflict(wanted: &[HostPort], used: &[HostPort]) -> bool {
    if FEW < wanted.len() && FEW < used.len() {
        let mut by_number: BTreeMap<i32, Vec<&HostPort>> = BTreeMap::new();
        for taken in used {
            by_number.entry(taken.port).or_default().push(taken);
        }
        return wanted.iter().any(|port| {
            let taken = by_number.get(&port.port);
            taken.into_iter().flatten().any(|taken| port.conflicts_with(taken))
        });
    }
    wanted.iter().any(|port| used.iter().any(|taken| port.conflicts_with(taken)))
}

/// As in node_ports.go, isSchedulableAfterPodDeleted: a deleted pod helps if it used a requested port.
/// Any new node may help.
impl Requeue for NodePorts {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::of::<Pod>(Action::DELETE), ClusterEvent::of::<Node>(Action::ADD)]
    }
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        match change.object {
            Object::Assigned { before: Some(gone), .. } => {
                if conflict(&pod.host_ports, &gone.host_ports) { Hint::Queue } else { Hint::Skip }
            }
            Object::Assigned { before: None, .. } | Object::Itself { .. } => Hint::Skip,
            Object::Node { .. } | Object::Other(_) => Hint::Queue,
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NodePorts>().filter().at(Point::PreFilter).requeue().done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_change::tests::hint_after_pod;

    fn port(protocol: &str, ip: &str, port: i32) -> HostPort {
        HostPort { protocol: protocol.into(), ip: ip.into(), port }
    }

    fn pod(host_ports: Vec<HostPort>) -> PodInfo {
        PodInfo::new(PodTemplate { host_ports, ..PodTemplate::default() })
    }

    #[test]
    fn a_pod_without_host_ports_may_run_on_any_node() {
        assert!(!NodePorts.applies(&[]));
        assert!(NodePorts.applies(&[port("TCP", "0.0.0.0", 80)]));
    }

    #[test]
    fn one_taken_port_is_enough_to_reject_a_node() {
        let used = [port("UDP", "127.0.0.1", 8080), port("TCP", "0.0.0.0", 443)];
        let filter = |wanted: &[HostPort]| NodePorts.filter(wanted, &used);
        assert!(filter(&[port("TCP", "127.0.0.1", 8080)]).passes());
        assert!(filter(&[port("UDP", "127.0.0.2", 8080)]).passes());
        let reason = "node(s) didn't have free ports for the requested pod ports";
        let wanted = [port("TCP", "10.0.0.1", 80), port("TCP", "10.0.0.1", 443)];
        assert_eq!(filter(&wanted), Verdict::unschedulable(reason));
        assert!(!filter(&[port("UDP", "0.0.0.0", 8080)]).passes());
    }

    #[test]
    fn only_the_end_of_a_pod_with_a_wanted_port_is_worth_another_attempt() {
        let waiting = pod(vec![port("TCP", "0.0.0.0", 8080)]);
        let hint = |host_ports| {
            let gone = pod(host_ports);
            let object = Object::Assigned { before: Some(&gone), after: None, row: None };
            hint_after_pod(&NodePorts, &waiting, object)
        };
        assert_eq!(hint(vec![]), Hint::Skip);
        assert_eq!(hint(vec![port("TCP", "0.0.0.0", 8081)]), Hint::Skip);
        assert_eq!(hint(vec![port("TCP", "10.0.0.1", 8080)]), Hint::Queue);
    }
}
