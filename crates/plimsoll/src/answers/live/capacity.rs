//! How many more pods fit into a running cluster.

use std::borrow::Cow;
use std::collections::BTreeSet;

use plimsoll_advisor::Reference;
use plimsoll_api::devices::ClaimSource;
use plimsoll_api::wire::Object;
use plimsoll_api::{AnyObject, KindRef, Kinds, ObjectKey, PodKey, ResourceClaimTemplate};
use plimsoll_engine::ClusterSnapshot;
use plimsoll_kube::serve::{AdviceError, CapacityRequest, CapacitySubject};
use plimsoll_sim::InitialCluster;
use serde_json::Value;

use super::{Answers, GROUPS_ARE_OFF, MOST_DECISIONS, Present, decided_by, failed, is_routed};
use crate::answers::all_shapes::{self, Limits, TooMany};
use crate::answers::capacity::{choose_profile, choose_profiles, of_given};
use crate::answers::rebalance::after_pending;
use crate::answers::request::described;
use crate::answers::shapes::{self, Given};
use crate::canary::CanaryChoice;
use crate::render;
use crate::render::style::plain;
use crate::report::CapacityAnswer;

/// How many changes are returned if nothing is said.
const REMEDIES: usize = 3;

/// At most so many templates of claims are read for one question.
const MOST_TEMPLATES: usize = 32;

/// At most so many shapes are counted for one question. One that fits nowhere takes some milliseconds in a cluster of 5,000
/// nodes, since nodes that could be added are tried.
const MOST_SHAPES: usize = 10_000;

/// Knows the manifests of objects.
type Find<'a> = &'a dyn Fn(&Reference) -> Option<Value>;

/// The cluster that is asked about.
struct Asked {
    cluster: InitialCluster,
    /// The pods that have the profile that decides them already.
    routed: BTreeSet<PodKey>,
}

impl Answers {
    /// Answers on a copy. `find` knows the manifests of a group and of its pods; shapes of the namespaces `hidden` are counted
    /// without their names.
    pub(crate) fn capacity_of(
        &self,
        request: &CapacityRequest,
        (snapshot, find): (ClusterSnapshot, Find<'_>),
        hidden: &BTreeSet<String>,
    ) -> Result<Value, AdviceError> {
        let present = self.present();
        let limit = request.limit.unwrap_or(MOST_DECISIONS).min(MOST_DECISIONS);
        let limits = (limit, request.remedies.unwrap_or(REMEDIES));
        let mut asked = Asked::from(snapshot);
        if request.after_pending {
            let scheduler = present.deciders().scheduler().map_err(failed)?;
            let after = after_pending(scheduler, asked.cluster, MOST_DECISIONS);
            asked.cluster = after.map_err(|error| wrong("afterPending", &error))?;
        }
        let answer = match &request.subject {
            CapacitySubject::Manifests(manifests) => {
                present.of_manifests(manifests, (&mut asked, find), limits)?
            }
            CapacitySubject::Group(group) => present.of_group(group, (&asked, find), limits)?,
            CapacitySubject::AllShapes { namespace } => {
                present.of_all_shapes(namespace.as_deref(), &asked, limit)?.without(hidden)
            }
        };
        let mut told = serde_json::to_value(&answer).map_err(failed)?;
        if request.with_text {
            let text = plain(|out, screen| render::capacity::answer(out, &answer, screen));
            told["text"] = text.into();
        }
        Ok(told)
    }
}

/// The templates of the claims of pods, as far as whoever asks may read them. A scheduler does not keep them.
fn claim_templates(given: &[Given], find: Find<'_>) -> Vec<AnyObject> {
    let pods = given.iter().flat_map(Given::pods);
    let named = pods.flat_map(|pod| {
        pod.resource_claims.iter().filter_map(|claim| match &claim.source {
            ClaimSource::Template(name) => {
                Some(ObjectKey::new(pod.key.namespace.clone(), name.clone()))
            }
            ClaimSource::Claim(_) | ClaimSource::Unknown => None,
        })
    });
    let named: BTreeSet<ObjectKey> = named.collect();
    let kind = KindRef::of::<ResourceClaimTemplate>();
    let kinds = Kinds::built_in().with(kind);
    let templates = named.iter().take(MOST_TEMPLATES).filter_map(|key| {
        let manifest = find(&Reference::of(kind.as_str(), key))?;
        match kinds.object(&manifest).ok()? {
            Object::Other(template) => Some(template),
            _ => None,
        }
    });
    templates.collect()
}

impl Present {
    /// The pods and groups that manifests describe.
    fn of_manifests(
        &self,
        manifests: &[Value],
        (Asked { cluster, .. }, find): (&mut Asked, Find<'_>),
        limits: (usize, usize),
    ) -> Result<CapacityAnswer, AdviceError> {
        let described = described(manifests).map_err(AdviceError::Wrong)?;
        let given = shapes::given(described, &self.options, cluster);
        let mut given = given.map_err(|error| AdviceError::Wrong(format!("{error:#}")))?;
        let chosen = choose_profiles(self.canaries.as_ref(), &mut given);
        cluster.objects.extend(claim_templates(&given, find));
        let counted = of_given(self.deciders(), cluster, &given, limits);
        Ok(counted.map_err(|error| wrong("pods", &error))?.with(chosen))
    }

    /// A group of the cluster.
    fn of_group(
        &self,
        group: &ObjectKey,
        (Asked { cluster, .. }, find): (&Asked, Find<'_>),
        limits: (usize, usize),
    ) -> Result<CapacityAnswer, AdviceError> {
        if !self.options.gates.groups.generic_workload {
            return Err(AdviceError::Wrong(GROUPS_ARE_OFF.to_owned()));
        }
        if shapes::group_in(cluster, group).is_none() {
            return Err(AdviceError::Unknown(format!("there is no PodGroup {group}")));
        }
        // Without changes that are asked for, no manifest is needed.
        let needed = |object: &Reference| if limits.1 == 0 { None } else { find(object) };
        let given = shapes::group_of_cluster(group, &self.options, cluster, &needed);
        let mut given = given.map_err(|error| wrong("group", &error))?;
        // One profile decides all pods of a group.
        let canary = self.canaries.as_ref().and_then(|_| {
            let (pod, _) = given.pods.first()?;
            let choice = self.choice(&find(&Reference::pod(&pod.key))?)?;
            (choice.profile == pod.scheduler_name).then_some(choice)
        });
        for (pod, manifest) in &mut given.pods {
            if let Cow::Owned(decided) = decided_by(manifest, Some(&pod.scheduler_name)) {
                *manifest = decided;
            }
        }
        let counted = of_given(self.deciders(), cluster, &[Given::Group(given)], limits);
        Ok(counted.map_err(failed)?.with(vec![canary]))
    }

    /// One pod of each controller of the cluster, and each of its groups.
    fn of_all_shapes(
        &self,
        namespace: Option<&str>,
        asked: &Asked,
        limit: usize,
    ) -> Result<CapacityAnswer, AdviceError> {
        let given = all_shapes::of_cluster(self.deciders(), &asked.cluster, namespace, MOST_SHAPES);
        let given = given.map_err(|TooMany(n)| {
            AdviceError::Wrong(format!(
                "allShapes: there are {n} shapes, and at most {MOST_SHAPES} are counted for one question: name a namespace \
                 (namespace), or ask about files (plimsoll capacity -f FILE --all-shapes)"
            ))
        })?;
        let n = given.len();
        let given = given.into_iter().map(|mut given| {
            let canary = self.choice_of_shape(&mut given, &asked.routed);
            (given, canary)
        });
        let limits = Limits { each: limit, all: MOST_DECISIONS };
        let counted = all_shapes::count(self.deciders(), &asked.cluster, given.collect(), limits);
        counted.map_err(failed)?.ok_or_else(|| {
            AdviceError::Wrong(format!(
                "allShapes: there would be more than {MOST_DECISIONS} copies of all {n} shapes together: ask for at most so \
                 many of each that they are fewer (limit), or name a namespace (namespace)"
            ))
        })
    }

    /// Gives a shape of the cluster the profile that decides it. Which rule has chosen that of a routed pod, is not known.
    fn choice_of_shape(
        &self,
        given: &mut Given,
        routed: &BTreeSet<PodKey>,
    ) -> Option<CanaryChoice> {
        let canaries = self.canaries.as_ref()?;
        let is_routed = given.pods().any(|pod| routed.contains(&pod.key));
        if is_routed { None } else { choose_profile(canaries, given) }
    }
}

impl From<ClusterSnapshot> for Asked {
    fn from(snapshot: ClusterSnapshot) -> Self {
        let routed = snapshot.pods.iter().filter(|info| is_routed(info.seen()));
        let routed = routed.map(|info| info.key.clone()).collect();
        Asked { cluster: InitialCluster::from(snapshot), routed }
    }
}

fn wrong(field: &str, error: &anyhow::Error) -> AdviceError {
    AdviceError::Wrong(format!("{field}: {error:#}"))
}
