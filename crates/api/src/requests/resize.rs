//! What a pod requests during a resize.
//!
//! The desired resources may then differ from those that the node has allocated and from the actual
//! ones. Each of the three may be the largest, and room must be kept for that.

use super::input::{ContainerResources, PodLevelResources, PodResourcesInput, Resize};
use super::{RequestOptions, Role, Status, is_pod_level_resource, raise_list, sum_of_containers};
use crate::Release;
use crate::resources::ResourceList;

/// How desired, allocated and actual resources count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Footprint {
    /// Up to 1.36: the largest of the three for each container. Of init containers only sidecars are
    /// resized.
    ByContainer,
    /// Since 1.37: the largest of the three sums over the pod, which is less where some containers grow and
    /// others shrink.
    BySum,
}

impl Footprint {
    /// The rule of a release.
    pub fn of(release: Release) -> Self {
        match release {
            Release::V1_36 => Footprint::ByContainer,
            Release::V1_37 => Footprint::BySum,
        }
    }
}

/// What the containers of a pod request together. As in helpers.go, AggregateContainerRequests.
pub(super) fn container_requests(
    pod: &PodResourcesInput,
    options: &RequestOptions<'_>,
) -> ResourceList {
    let missing = options.missing;
    match (options.status, options.gates.footprint) {
        (Status::Ignored, _) => {
            sum_of_containers(pod, missing, |container, _| container.requests.clone())
        }
        (Status::Counted, Footprint::ByContainer) => {
            sum_of_containers(pod, missing, |container, role| match role {
                Role::Runs => largest_of(container, pod.resize),
                // Only containers that keep running are resized.
                Role::Starts => container.requests.clone(),
            })
        }
        (Status::Counted, Footprint::BySum) => largest_sum(pod, options),
    }
}

/// The largest of the sums of desired, allocated and actual resources. The pod-level status already
/// contains such sums.
fn largest_sum(pod: &PodResourcesInput, options: &RequestOptions<'_>) -> ResourceList {
    // An infeasible request does not count, not even if the status has no resources.
    let asked = |container: &ContainerResources| match pod.resize {
        Resize::Infeasible => ResourceList::new(),
        Resize::None | Resize::Deferred => container.requests.clone(),
    };
    let sum = |of: &dyn Fn(&ContainerResources) -> ResourceList| {
        sum_of_containers(pod, options.missing, |container, _| of(container))
    };
    let mut largest = match pod.resize {
        Resize::Infeasible => ResourceList::new(),
        Resize::None | Resize::Deferred => sum(&asked),
    };
    let of_pod = [&pod.status.allocated, &pod.status.actual].map(|list| present(list.as_ref()));
    if let ([Some(allocated), Some(actual)], true) = (of_pod, options.gates.pod_level_resize) {
        raise_list(&mut largest, allocated);
        raise_list(&mut largest, actual);
        return largest;
    }
    let allocated = |one: &ContainerResources| present(one.allocated.as_ref()).cloned();
    let actual =
        |one: &ContainerResources| present(one.actual.as_ref()).cloned().or_else(|| allocated(one));
    raise_list(&mut largest, &sum(&|one| allocated(one).unwrap_or_else(|| asked(one))));
    raise_list(&mut largest, &sum(&|one| actual(one).unwrap_or_else(|| asked(one))));
    largest
}

/// An empty list counts as missing, since it is not sent.
fn present(list: Option<&ResourceList>) -> Option<&ResourceList> {
    list.filter(|list| !list.is_empty())
}

/// The largest of the three for one container. As in helpers.go of 1.36, determineEffectiveRequests.
fn largest_of(container: &ContainerResources, resize: Resize) -> ResourceList {
    match &container.actual {
        Some(actual) => {
            largest(&container.requests, Some(actual), container.allocated.as_ref(), resize)
        }
        None => container.requests.clone(),
    }
}

/// For each resource the largest of the desired, actual and allocated amounts. The desired amount does
/// not count if the resize is infeasible.
fn largest(
    asked: &ResourceList,
    actual: Option<&ResourceList>,
    allocated: Option<&ResourceList>,
    resize: Resize,
) -> ResourceList {
    let mut largest = match resize {
        Resize::Infeasible => ResourceList::new(),
        Resize::None | Resize::Deferred => asked.clone(),
    };
    for other in [actual, allocated].into_iter().flatten() {
        raise_list(&mut largest, other);
    }
    largest
}

/// Replaces the total of the containers with the pod-level requests: up to 1.36 for the resources that
/// the spec names, since 1.37 for all that count. As in helpers.go, PodRequests.
pub(super) fn replace_by_pod_level(
    total: &mut ResourceList,
    pod: &PodResourcesInput,
    pod_level: &PodLevelResources,
    options: &RequestOptions<'_>,
) {
    let asked = &pod_level.requests;
    if !asked.keys().any(|name| is_pod_level_resource(name)) {
        return;
    }
    let counted = options.gates.pod_level_resize && options.status == Status::Counted;
    let status = &pod.status;
    let changing = status.actual.as_ref().filter(|_| counted);
    let effective = match changing {
        Some(actual) => largest(asked, Some(actual), status.allocated.as_ref(), pod.resize),
        None => asked.clone(),
    };
    match options.gates.footprint {
        Footprint::ByContainer => {
            for name in asked.keys().filter(|name| is_pod_level_resource(name)) {
                total.insert(name.clone(), effective.get(name).cloned().unwrap_or_default());
            }
        }
        Footprint::BySum => {
            total.extend(effective.into_iter().filter(|(name, _)| is_pod_level_resource(name)));
        }
    }
}
