//! Attaches a pod to a network before it is bound: a plugin in a separate crate that writes objects.
//!
//! PreBind creates a `NetworkAttachment` for the pod and its node, and waits until a network controller sets its status
//! to ready. If the pod is then not bound, Unreserve deletes it.

use std::time::Duration;

use plimsoll::prelude::*;
use serde::Deserialize;
use serde_json::json;

/// The label that names the network of a pod.
pub const NETWORK: &str = "example.com/network";

/// The attachment of a pod to a network, made by this plugin and served by a network controller.
///
/// ```yaml
/// apiVersion: example.com/v1
/// kind: NetworkAttachment
/// metadata: {name: web, namespace: default}
/// spec: {podUid: 1b7e…, node: a, network: blue}
/// status: {ready: true}
/// ```
#[derive(Debug, PartialEq, Deserialize)]
pub struct NetworkAttachment {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    pod_uid: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    ready: bool,
    error: String,
}

impl Kind for NetworkAttachment {
    const NAME: &'static str = "NetworkAttachment";
    const PLURAL: &'static str = "networkattachments";
    const VERSIONS: &'static [&'static str] = &["example.com/v1"];
    const WITHOUT: Option<&'static str> = Some("pods with a network are not bound");

    fn read(manifest: Manifest<'_>) -> Result<Self, WireError> {
        manifest.parse()
    }
    fn key(&self) -> ObjectKey {
        self.metadata.key()
    }
}

/// Counted by result: `ready` or `failed`.
static ATTACHMENTS: Counter<1> = Counter::new(
    "network_attach_attachments_total",
    &["result"],
    "Number of attachments of pods to networks, by result.",
);

/// Binds pods with the label `example.com/network` once they are attached to that network on their node.
pub struct NetworkAttach(NetworkAttachArgs);

/// How long an attachment may take.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkAttachArgs {
    timeout_seconds: u32,
}

impl Default for NetworkAttachArgs {
    /// One minute.
    fn default() -> Self {
        NetworkAttachArgs { timeout_seconds: 60 }
    }
}

impl Plugin for NetworkAttach {
    const NAME: &'static str = "NetworkAttach";
    type Args = NetworkAttachArgs;
    fn new(args: NetworkAttachArgs, _: &FeatureGates) -> Self {
        NetworkAttach(args)
    }
}

fn attachment<'a>(at: &Placement<'a>) -> Option<&'a NetworkAttachment> {
    at.view.stores.of::<NetworkAttachment>().get(&at.pod.key).map(|one| &**one)
}

/// Whether an attachment was made for this very pod.
fn is_of(attachment: &NetworkAttachment, pod: &PodInfo) -> bool {
    attachment.spec.pod_uid == pod.uid
}

impl Reserve for NetworkAttach {
    type Reservation = ();

    fn applies(&self, pod: &PodInfo) -> bool {
        pod.labels.contains_key(NETWORK)
    }

    fn reserve(&self, _: &Placement<'_>, _: &mut Handle<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    /// The attachment may not have been observed yet, so the uid is given only if it is known.
    fn unreserve(&self, (): (), at: &Placement<'_>, handle: &mut Handle<'_>) {
        let uid = match attachment(at) {
            Some(other) if !is_of(other, at.pod) => return,
            Some(own) => own.metadata.uid.clone(),
            None => Str::default(),
        };
        handle.writes.delete::<NetworkAttachment>(at.pod.key.clone(), uid);
    }
}

impl PreBind for NetworkAttach {
    type Held = ();

    fn pre_bind(&self, (): &(), at: &Placement<'_>, handle: &mut Handle<'_>) {
        if attachment(at).is_some_and(|own| is_of(own, at.pod)) {
            return;
        }
        let network = at.pod.labels.get(NETWORK);
        let spec = json!({ "podUid": at.pod.uid, "node": at.node, "network": network });
        handle.writes.create::<NetworkAttachment>(at.pod.key.clone(), json!({ "spec": spec }));
    }

    fn ready(&self, (): &(), at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness {
        match attachment(at).filter(|own| is_of(own, at.pod)).map(|own| &own.status) {
            None => Readiness::Waiting,
            Some(status) if !status.error.is_empty() => {
                handle.metrics.add(&ATTACHMENTS, ["failed"], 1);
                let why = format!("the network is not attached: {}", status.error);
                Readiness::Failed(Rejection::unschedulable(why))
            }
            Some(status) if status.ready => {
                handle.metrics.add(&ATTACHMENTS, ["ready"], 1);
                Readiness::Ready
            }
            Some(_) => Readiness::Waiting,
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.0.timeout_seconds.into())
    }

    fn timed_out(&self, (): &()) -> Rejection {
        let seconds = self.0.timeout_seconds;
        Rejection::unschedulable(format!("the network was not attached within {seconds} s"))
    }
}

impl Answered for NetworkAttach {
    fn answered(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        let Err(error) = answer else { return Ok(()) };
        match (&write.verb, error.cause) {
            // An earlier attempt created it, and its answer was lost.
            (WriteVerb::Create(_), WriteCause::AlreadyExists)
                if attachment(at).is_some_and(|own| is_of(own, at.pod)) =>
            {
                Ok(())
            }
            (WriteVerb::Delete { .. }, WriteCause::NotFound) => Ok(()),
            // Either the controller has written the status meanwhile, or it is unknown whether the deletion succeeded.
            (WriteVerb::Delete { .. }, WriteCause::Conflict | WriteCause::TimedOut) => {
                handle.writes.again(write);
                Ok(())
            }
            _ => Err(Rejection::error(format!("NetworkAttachment {}: {error}", write.key))),
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NetworkAttach>()
        .reserve()
        .pre_bind()
        .answered()
        .writes::<NetworkAttachment>(WriteVerbs::CREATE | WriteVerbs::DELETE)
        .metric(&ATTACHMENTS)
        .done()
}
