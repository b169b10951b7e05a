//! The priorities that were there unless a policy said otherwise.

use crate::Weighted;
use crate::balanced_resource_allocation::BalancedResourceAllocation;
use crate::image_locality::ImageLocality;
use crate::inter_pod_affinity::InterPodAffinity;
use crate::least_requested::LeastRequested;
use crate::node_affinity::NodeAffinity;
use crate::node_prefer_avoid_pods::NodePreferAvoidPods;
use crate::selector_spread::SelectorSpread;
use crate::taint_toleration::TaintToleration;

/// What a required affinity term of another pod weighs unless it is said
/// (`hardPodAffinitySymmetricWeight`).
pub(crate) const HARD_WEIGHT: i32 = 1;

/// The default priorities of 1.16 with their weights. As in register_priorities.go. 1.5 to 1.11 had all of
/// them but ImageLocalityPriority; EvenPodsSpreadPriority was behind a gate that was off.
pub fn defaults() -> Vec<Weighted> {
    vec![
        Weighted::new("SelectorSpreadPriority", 1, SelectorSpread::by_all()),
        Weighted::new("InterPodAffinityPriority", 1, InterPodAffinity { hard_weight: HARD_WEIGHT }),
        Weighted::new("LeastRequestedPriority", 1, LeastRequested),
        Weighted::new("BalancedResourceAllocation", 1, BalancedResourceAllocation),
        Weighted::new("NodePreferAvoidPodsPriority", 10_000, NodePreferAvoidPods),
        Weighted::new("NodeAffinityPriority", 1, NodeAffinity),
        Weighted::new("TaintTolerationPriority", 1, TaintToleration),
        Weighted::new("ImageLocalityPriority", 1, ImageLocality),
    ]
}
