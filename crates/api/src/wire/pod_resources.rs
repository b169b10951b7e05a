//! What a pod requests, on the wire.

use serde::Deserialize;

use super::amount::Amounts;
use super::container::Container;
use super::devices::WireContainerClaim;
use super::error::{Result, Within, each};
use super::pod::{Spec, Status};
use super::primitive::List;
use crate::devices::ExtendedRequest;
use crate::requests::{
    self, ContainerResources, PodLevelResources, PodResourcesInput, PodStatusResources,
    RequestGates, RequestOptions, Resize, is_pod_level_resource, pod_requests,
};
use crate::resources::{HUGE_PAGES_PREFIX, ResourceList, is_for_devices};
use crate::{Quantity, Str, Unscheduled};

/// `resources` of a container or a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirements {
    requests: Amounts,
    limits: Amounts,
    pub(super) claims: List<WireContainerClaim>,
}

impl Requirements {
    /// The requests that are not zero for resources for which devices can stand. What is limited is requested, too,
    /// unless the requests say otherwise.
    pub(super) fn extended_requests(&self) -> Vec<ExtendedRequest> {
        let (Ok(mut all), Ok(limits)) =
            (self.requests.take("requests"), self.limits.take("limits"))
        else {
            return Vec::new();
        };
        for (name, limit) in limits {
            all.entry(name).or_insert(limit);
        }
        let requests = all.iter().enumerate().map(|(index, (name, amount))| ExtendedRequest {
            resource: name.clone(),
            amount: amount.value(),
            index: u32::try_from(index).unwrap_or(u32::MAX),
        });
        requests.filter(|one| one.amount != 0 && is_for_devices(&one.resource)).collect()
    }
}

/// An item of `status.containerStatuses` and `status.initContainerStatuses`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    name: Option<Str>,
    resources: Option<Requirements>,
    allocated_resources: Option<Amounts>,
}

/// An item of `status.conditions`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition {
    r#type: Option<Str>,
    status: Option<Str>,
    reason: Option<Str>,
    message: Option<Str>,
    observed_generation: Option<i64>,
}

impl Condition {
    /// Whether it is of this type, true, and for this reason.
    pub(super) fn says(&self, r#type: &str, reason: &str) -> bool {
        self.r#type.as_deref() == Some(r#type)
            && self.status.as_deref() == Some("True")
            && self.reason.as_deref() == Some(reason)
    }

    /// Its content, if it is `PodScheduled=False`.
    pub(super) fn unscheduled(&self) -> Option<Unscheduled> {
        let text = |field: &Option<Str>| field.clone().unwrap_or_default();
        let is = self.r#type.as_deref() == Some("PodScheduled")
            && self.status.as_deref() == Some("False");
        is.then(|| {
            let observed_generation = self.observed_generation.unwrap_or_default();
            Unscheduled::new(observed_generation, &text(&self.reason), &text(&self.message))
        })
    }
}

/// Requests and limits.
#[derive(Debug, Default)]
struct Lists {
    requests: ResourceList,
    limits: ResourceList,
}

impl Requirements {
    fn take(&self) -> Result<Lists> {
        let requests = self.requests.take("requests").within("resources")?;
        let limits = self.limits.take("limits").within("resources")?;
        Ok(Lists { requests, limits })
    }
}

/// Everything about a pod on which its requests depend, with the defaults of the API server. Errors
/// name the path from the pod.
pub(super) fn resources(spec: &Spec, status: &Status) -> Result<PodResourcesInput> {
    let statuses = [
        ("initContainerStatuses", &status.init_container_statuses),
        ("containerStatuses", &status.container_statuses),
    ];
    let mut granted = Vec::new();
    for (field, list) in statuses {
        granted.extend(each(field, &list.0, Granted::of).within("status")?);
    }
    let taken = |field, list: &[Container]| {
        each(field, list, |container| container_resources(container, &granted)).within("spec")
    };
    let mut input = PodResourcesInput {
        containers: taken("containers", &spec.containers.0)?,
        init_containers: taken("initContainers", &spec.init_containers.0)?,
        overhead: spec.overhead.take("overhead").within("spec")?,
        pod_level: None,
        status: pod_status(status)?,
        resize: resize(status),
    };
    input.pod_level = pod_level(spec)?.map(|given| with_defaults(given, &input));
    Ok(input)
}

/// The resources of one container in the status.
struct Granted {
    name: Str,
    allocated: Option<ResourceList>,
    actual: Option<ResourceList>,
}

impl Granted {
    fn of(status: &ContainerStatus) -> Result<Self> {
        let allocated = status.allocated_resources.as_ref();
        let actual = status.resources.as_ref().map(Requirements::take).transpose()?;
        Ok(Granted {
            name: status.name.clone().unwrap_or_default(),
            allocated: allocated.map(|list| list.take("allocatedResources")).transpose()?,
            actual: actual.map(|lists| lists.requests),
        })
    }
}

/// As in defaults.go, SetDefaults_Pod: a limit without a request is also the request.
fn container_resources(container: &Container, granted: &[Granted]) -> Result<ContainerResources> {
    let given = container.resources.as_ref().map(Requirements::take).transpose()?;
    let Lists { mut requests, limits } = given.unwrap_or_default();
    add_missing(&mut requests, limits.iter());
    let name = container.name.as_deref().unwrap_or_default();
    let granted = granted.iter().find(|granted| granted.name == name);
    Ok(ContainerResources {
        requests,
        limits,
        restart_always: container.restarts_always(),
        allocated: granted.and_then(|granted| granted.allocated.clone()),
        actual: granted.and_then(|granted| granted.actual.clone()),
    })
}

fn pod_level(spec: &Spec) -> Result<Option<PodLevelResources>> {
    let Some(given) = &spec.resources else { return Ok(None) };
    let Lists { requests, limits } = given.take().within("spec")?;
    Ok(Some(PodLevelResources { requests, limits }))
}

fn pod_status(status: &Status) -> Result<PodStatusResources> {
    let allocated = status.allocated_resources.as_ref();
    let allocated = allocated.map(|list| list.take("allocatedResources")).transpose();
    let actual = status.resources.as_ref().map(Requirements::take).transpose();
    Ok(PodStatusResources {
        allocated: allocated.within("status")?,
        actual: actual.within("status")?.map(|lists| lists.requests),
    })
}

/// As in defaults.go, defaultHugePagePodLimits and defaultPodRequests: a pod with resources at pod
/// level gets limits for the huge pages that its containers may use. If it has limits, it gets the requests of
/// its containers, and its limit as request for resources that they do not request.
fn with_defaults(mut pod: PodLevelResources, input: &PodResourcesInput) -> PodLevelResources {
    if pod.requests.is_empty() && pod.limits.is_empty() {
        return pod;
    }
    let huge = |name: &Str| name.starts_with(HUGE_PAGES_PREFIX);
    let limits = of_containers(input, |container| &container.limits);
    let pages = limits.iter().filter(|(name, _)| huge(name) && !pod.requests.contains_key(*name));
    add_missing(&mut pod.limits, pages);
    if pod.limits.is_empty() {
        return pod;
    }
    let requested = of_containers(input, |container| &container.requests);
    let requested = requested.iter().filter(|(name, _)| is_pod_level_resource(name) && !huge(name));
    add_missing(&mut pod.requests, requested);
    let limits = pod.limits.iter().filter(|(name, _)| is_pod_level_resource(name));
    add_missing(&mut pod.requests, limits);
    pod
}

/// What the containers need together of what each `has`.
fn of_containers(
    input: &PodResourcesInput,
    has: impl Fn(&ContainerResources) -> &ResourceList,
) -> ResourceList {
    let only = |containers: &[ContainerResources]| {
        let one = |container: &ContainerResources| ContainerResources {
            requests: has(container).clone(),
            restart_always: container.restart_always,
            ..ContainerResources::default()
        };
        containers.iter().map(one).collect()
    };
    let only = PodResourcesInput {
        containers: only(&input.containers),
        init_containers: only(&input.init_containers),
        ..PodResourcesInput::default()
    };
    let options = RequestOptions {
        gates: RequestGates::default(),
        status: requests::Status::Ignored,
        missing: None,
    };
    pod_requests(&only, &options)
}

fn add_missing<'a>(list: &mut ResourceList, more: impl Iterator<Item = (&'a Str, &'a Quantity)>) {
    for (name, quantity) in more {
        list.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}

fn resize(status: &Status) -> Resize {
    let mut conditions = status.conditions.0.iter();
    let pending = conditions.find(|one| one.r#type.as_deref() == Some("PodResizePending"));
    Resize::from_pending_reason(pending.and_then(|condition| condition.reason.as_deref()))
}

#[cfg(test)]
mod tests {
    use crate::wire::testing::pods;

    const MI: i64 = 1 << 20;

    /// The requested milli-CPU and MiB, the same as counted in scores, and all other resources.
    fn check(cases: &[(&str, &str)]) {
        pods(cases, |pod| {
            let (all, scored) = (&pod.requests, &pod.non_zero_requests);
            let others = all.scalar.iter().map(|(name, amount)| format!(" {name}={amount}"));
            let (memory, disk) = (all.memory / MI, all.ephemeral_storage / MI);
            let others = others.collect::<String>();
            format!(
                "{} {memory} {disk}{others} scored {} {}",
                all.milli_cpu,
                scored.milli_cpu,
                scored.memory / MI
            )
        });
    }

    #[test]
    fn a_limit_of_a_container_without_a_request_is_its_request() {
        check(&[
            (
                r#""spec":{"containers":[
                    {"resources":{"limits":{"cpu":"2","memory":"8Mi","a.com/b":1},"requests":{"cpu":1}}},
                    {"resources":{"requests":null,"limits":{"cpu":"500m"}}}]}"#,
                "1500 8 0 a.com/b=1 scored 1500 208",
            ),
            (r#""spec":{"containers":[{},{"resources":null}]}"#, "0 0 0 scored 200 400"),
            (
                r#""spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}],
                    "initContainers":[
                    {"restartPolicy":"Always","resources":{"limits":{"cpu":"1"}}},
                    {"resources":{"limits":{"cpu":"4","ephemeral-storage":"3Mi"}}}],
                    "overhead":{"cpu":"10m"}}"#,
                "5010 0 3 scored 5010 400",
            ),
        ]);
    }

    #[test]
    fn requests_at_pod_level_default_to_those_of_the_containers_and_then_to_limits() {
        check(&[
            (
                r#""spec":{"resources":{"limits":{"cpu":"4","memory":"64Mi"}},
                    "containers":[{"resources":{"requests":{"cpu":"1"}}},{}]}"#,
                "1000 64 0 scored 1000 64",
            ),
            (
                r#""spec":{"resources":{"requests":{"cpu":"3"},"limits":{"cpu":"4","memory":"64Mi"}},
                    "containers":[{"resources":{"requests":{"cpu":"1"}}}]}"#,
                "3000 64 0 scored 3000 64",
            ),
            // Without a limit at pod level the requests of the containers are not added.
            (
                r#""spec":{"resources":{"requests":{"cpu":"3"}},
                    "containers":[{"resources":{"requests":{"memory":"1Mi"}}},{}]}"#,
                "3000 1 0 scored 3000 1",
            ),
            // Limits of huge pages are the sum of those of the containers.
            (
                r#""spec":{"resources":{"requests":{"cpu":"3"}},"containers":[
                    {"resources":{"limits":{"hugepages-2Mi":"4Mi"},"requests":{"hugepages-2Mi":"2Mi"}}},
                    {"resources":{"limits":{"hugepages-2Mi":"4Mi"}}}]}"#,
                "3000 0 0 hugepages-2Mi=8388608 scored 3000 400",
            ),
        ]);
    }

    #[test]
    fn a_resize_in_progress_counts_the_largest_of_requested_allocated_and_actual() {
        let resizing = |conditions: &str| {
            format!(
                r#""spec":{{"nodeName":"n","containers":[{{"name":"a","resources":{{"requests":{{"cpu":"4"}}}}}}]}},
                "status":{{"conditions":{conditions},"containerStatuses":[{{"name":"a",
                "allocatedResources":{{"cpu":"2"}},"resources":{{"requests":{{"cpu":"1"}}}}}}]}}"#
            )
        };
        check(&[
            (&resizing("[]"), "4000 0 0 scored 4000 200"),
            (
                &resizing(r#"[{"type":"PodResizePending","reason":"Deferred"}]"#),
                "4000 0 0 scored 4000 200",
            ),
            (
                &resizing(
                    r#"[{"type":"Ready"},{"type":"PodResizePending","reason":"Infeasible"}]"#,
                ),
                "2000 0 0 scored 2000 200",
            ),
            (
                r#""spec":{"resources":{"requests":{"cpu":"1"}}},"status":{"resources":{},
                    "allocatedResources":{"cpu":"2"}}"#,
                "2000 0 0 scored 2000 0",
            ),
        ]);
    }

    #[test]
    fn limits_are_summed_like_requests_and_overhead_is_added_to_existing_limits() {
        let cases: &[(&str, &str)] = &[
            (r#""spec":{"containers":[{}],"overhead":{"cpu":"1"}}"#, "0 0 0"),
            (
                r#""spec":{"containers":[
                    {"resources":{"limits":{"cpu":"1","ephemeral-storage":"4Mi"}}},
                    {"resources":{"limits":{"cpu":"500m"},"requests":{"memory":"1Mi"}}}],
                    "initContainers":[
                    {"restartPolicy":"Always","resources":{"limits":{"cpu":"1","a.com/b":2}}},
                    {"resources":{"limits":{"cpu":"4"}}}],
                    "overhead":{"cpu":"10m","memory":"8Mi"}}"#,
                "5010 0 4 a.com/b=2",
            ),
            (
                r#""spec":{"resources":{"limits":{"cpu":"4","memory":"64Mi"}},
                    "containers":[{"resources":{"limits":{"cpu":"1"}}}],"overhead":{"cpu":"1"}}"#,
                "5000 64 0",
            ),
        ];
        pods(cases, |pod| {
            let all = &pod.limits;
            let others = all.scalar.iter().map(|(name, amount)| format!(" {name}={amount}"));
            let others = others.collect::<String>();
            let (memory, disk) = (all.memory / MI, all.ephemeral_storage / MI);
            format!("{} {memory} {disk}{others}", all.milli_cpu)
        });
    }

    #[test]
    fn an_error_names_the_quantity_that_is_wrong() {
        let negative = r#"Invalid value: "-1": must be greater than or equal to 0"#;
        for (inside, field) in [
            (
                r#""spec":{"containers":[{},{"resources":{"requests":{"cpu":-1}}}]}"#,
                "spec.containers[1].resources.requests[cpu]",
            ),
            (
                r#""spec":{"initContainers":[{"resources":{"limits":{"memory":"-1"}}}]}"#,
                "spec.initContainers[0].resources.limits[memory]",
            ),
            (r#""spec":{"overhead":{"cpu":"-1"}}"#, "spec.overhead[cpu]"),
            (r#""spec":{"resources":{"limits":{"cpu":"-1"}}}"#, "spec.resources.limits[cpu]"),
            (
                r#""status":{"containerStatuses":[{"allocatedResources":{"cpu":"-1"}}]}"#,
                "status.containerStatuses[0].allocatedResources[cpu]",
            ),
            (
                r#""status":{"initContainerStatuses":[{"resources":{"requests":{"cpu":"-1"}}}]}"#,
                "status.initContainerStatuses[0].resources.requests[cpu]",
            ),
        ] {
            check(&[(inside, &format!("{field}: {negative}"))]);
        }
    }
}
