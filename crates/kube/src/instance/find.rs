//! Looks for the pods of the scheduler.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::InstanceError;
use crate::call::segment;
use crate::client::Connection;
use crate::limit::Rate;
use crate::request::{GetError, get, whole};

/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a response: many pods with long status.
const LIMIT: usize = 16 << 20;
/// The port of kube-scheduler and of this scheduler.
const PORT: u16 = 10259;
/// The name of that port in the manifests of `deploy/`.
const PORT_NAME: &str = "https";

/// Where to look for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The namespace of the scheduler.
    pub namespace: String,
    /// The labels of its pods, as a selector.
    pub selector: String,
    /// A Service whose pods are meant, instead of `selector`.
    pub service: Option<String>,
    /// The name of the pod, instead of both.
    pub pod: Option<String>,
    /// The port; that which the pod calls `https` if `None`, or 10259.
    pub port: Option<u16>,
    /// The leases whose holder is preferred.
    pub leases: Vec<String>,
}

/// An instance of the scheduler.
#[derive(Clone, Debug)]
pub struct Instance {
    pub(super) connection: Connection,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) port: u16,
}

impl Instance {
    /// The instance that leads. If none is known to lead, one that is ready; its answers lack what only the leader knows.
    pub async fn find(connection: &Connection, at: &Whereabouts) -> Result<Self, InstanceError> {
        if let Some(other) = connection.impersonated() {
            return Err(InstanceError::Impersonation(other));
        }
        let api = ApiReader { client: connection.client("kubectl", Rate::UNLIMITED) };
        let found = match &at.pod {
            Some(name) => vec![api.pod(&at.namespace, name).await?],
            None => api.pods(at).await?,
        };
        let pod = match found.as_slice() {
            [one] => one,
            several => match api.leader(at, several).await {
                Some(leader) => leader,
                None => the_only_scheduler(&at.namespace, several)?,
            },
        };
        Ok(Instance {
            connection: connection.clone(),
            namespace: at.namespace.clone(),
            pod: text(pod, "/metadata/name").to_owned(),
            port: at.port.unwrap_or_else(|| port_of(pod)),
        })
    }

    /// The pod, as `namespace/name`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.namespace, self.pod)
    }
}

/// Reads objects of the API server.
struct ApiReader {
    client: kube::Client,
}

impl ApiReader {
    async fn read(&self, path: &str) -> Result<Value, GetError> {
        let response = get(&self.client, path, TIMEOUT).await?;
        let body = whole(response.into_body(), LIMIT).await?;
        serde_json::from_slice(&body).map_err(|error| GetError::Broken(error.to_string()))
    }

    async fn pod(&self, namespace: &str, name: &str) -> Result<Value, InstanceError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", segment(namespace), segment(name));
        let doing = format!("read pod {namespace}/{name}");
        self.read(&path).await.map_err(|error| InstanceError::of_api_server(&doing, &error))
    }

    /// The pods that run, the ready ones first; at least one.
    async fn pods(&self, at: &Whereabouts) -> Result<Vec<Value>, InstanceError> {
        let namespace = &at.namespace;
        let (selector, wanted) = match &at.service {
            None => (at.selector.clone(), format!("the labels {:?}", at.selector)),
            Some(name) => {
                let selector = self.selector_of(namespace, name).await?;
                let wanted = format!("the labels {selector:?} of service {name}");
                (selector, wanted)
            }
        };
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector={}",
            segment(namespace),
            segment(&selector)
        );
        let doing = format!("list the pods of the scheduler in namespace {namespace}");
        let mut list =
            self.read(&path).await.map_err(|error| InstanceError::of_api_server(&doing, &error))?;
        let all = match list["items"].take() {
            Value::Array(pods) => pods,
            _ => Vec::new(),
        };
        let n = all.len();
        let mut pods: Vec<Value> = all.into_iter().filter(is_running).collect();
        pods.sort_by_key(|pod| !is_ready(pod));
        if pods.is_empty() {
            let found = match n {
                0 => "there is none".to_owned(),
                n => format!("none of {n} is running"),
            };
            return Err(InstanceError::NoInstance { namespace: namespace.clone(), wanted, found });
        }
        Ok(pods)
    }

    /// The selector of a Service, as text.
    async fn selector_of(&self, namespace: &str, name: &str) -> Result<String, InstanceError> {
        let path = format!("/api/v1/namespaces/{}/services/{}", segment(namespace), segment(name));
        let doing = format!("read service {namespace}/{name}");
        let service =
            self.read(&path).await.map_err(|error| InstanceError::of_api_server(&doing, &error))?;
        let labels = service["spec"]["selector"].as_object();
        let labels: Vec<String> = labels
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        if labels.is_empty() {
            let why = "it selects no pods".to_owned();
            return Err(InstanceError::ApiServer { doing, why });
        }
        Ok(labels.join(","))
    }

    /// The pod that holds one of the leases. Without the right to read them none is known to.
    async fn leader<'a>(&self, at: &Whereabouts, pods: &'a [Value]) -> Option<&'a Value> {
        let mut leaders = Vec::new();
        for lease in &at.leases {
            let path = format!(
                "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}",
                segment(&at.namespace),
                segment(lease)
            );
            let Ok(lease) = self.read(&path).await else { continue };
            let holder = text(&lease, "/spec/holderIdentity");
            leaders.extend(pods.iter().find(|pod| is_of(holder, pod)));
        }
        // Two schedulers may lead, each with its lease.
        match leaders.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }
}

/// Whether the holder of a lease is in this pod. A holder is the host name and, after `_`, a number of its own; the host name
/// is that of the pod, or with `hostNetwork` that of the node.
fn is_of(holder: &str, pod: &Value) -> bool {
    let host = holder.rsplit_once('_').map_or(holder, |(host, _)| host);
    let is_on_host = pod.pointer("/spec/hostNetwork").and_then(Value::as_bool) == Some(true);
    let name = if is_on_host { "/spec/nodeName" } else { "/metadata/name" };
    !host.is_empty() && text(pod, name) == host
}

/// The first pod, if all are of one scheduler.
fn the_only_scheduler<'a>(namespace: &str, pods: &'a [Value]) -> Result<&'a Value, InstanceError> {
    let names: BTreeSet<&str> = pods.iter().map(|pod| text(pod, "/metadata/labels/app")).collect();
    let labels: Vec<String> = names.into_iter().map(|name| format!("app={name}")).collect();
    match (pods.first(), labels.as_slice()) {
        (Some(pod), [_]) => Ok(pod),
        (_, labels) => Err(InstanceError::Several {
            namespace: namespace.to_owned(),
            names: labels.join(" and "),
            first: labels.first().cloned().unwrap_or_default(),
        }),
    }
}

fn is_running(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Running" && pod.pointer("/metadata/deletionTimestamp").is_none()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True")
}

/// The port that a container of the pod calls `https`.
fn port_of(pod: &Value) -> u16 {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let ports = containers.into_iter().flatten().filter_map(|one| one["ports"].as_array());
    let mut named = ports.flatten().filter(|port| port["name"] == PORT_NAME);
    let port = named.find_map(|port| u16::try_from(port["containerPort"].as_u64()?).ok());
    port.unwrap_or(PORT)
}

fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_holder_of_a_lease_is_found_by_its_host_name() {
        let pod = json!({"metadata": {"name": "plimsoll-5d-x"}, "spec": {"nodeName": "n1"}});
        assert!(is_of("plimsoll-5d-x_0b1c", &pod));
        assert!(!is_of("n1_0b1c", &pod));
        assert!(!is_of("", &pod));
        let on_host = json!({
            "metadata": {"name": "plimsoll-n1"}, "spec": {"nodeName": "n1", "hostNetwork": true},
        });
        assert!(is_of("n1_0b1c", &on_host));
        assert!(!is_of("plimsoll-n1_0b1c", &on_host));
    }

    #[test]
    fn the_port_is_that_of_the_manifest_or_of_kube_scheduler() {
        let pod = json!({"spec": {"containers": [
            {"ports": [{"name": "debug", "containerPort": 1}, {"name": "https", "containerPort": 443}]},
        ]}});
        assert_eq!(port_of(&pod), 443);
        assert_eq!(port_of(&json!({"spec": {"containers": [{}]}})), 10259);
    }

    #[test]
    fn of_two_schedulers_one_must_be_chosen() {
        let pod = |app: &str| json!({"metadata": {"labels": {"app": app}}});
        let same = [pod("plimsoll"), pod("plimsoll")];
        assert!(the_only_scheduler("kube-system", &same).is_ok());
        let both = [pod("plimsoll"), pod("plimsoll-default")];
        let error = the_only_scheduler("kube-system", &both);
        assert_eq!(
            error.expect_err("there are two").to_string(),
            "several schedulers run in namespace kube-system: app=plimsoll and app=plimsoll-default; choose one, such as \
             --scheduler-selector=app=plimsoll"
        );
    }
}
