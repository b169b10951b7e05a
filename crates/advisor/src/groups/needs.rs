//! What the pods of a group need of other objects, and what could be given up of that: their volumes, and their claims on devices.
//!
//! Pods that are alike have volumes of the same names, each with a claim of its own or all with one. So what is given up of a
//! volume is given up in all pods that have one of this name.

use std::sync::Arc;

use plimsoll_api::{Pod, PodVolume, Str};
use plimsoll_engine::GroupDecision;
use plimsoll_framework::Row;
use serde_json::Value;

use super::plan::Changed;
use super::search::GroupSearch;
use super::survey::scopes;
use super::ways::{Field, Way, What};
use crate::draft::{Draft, Objects};
use crate::nearest::by_distance;
use crate::relaxations::volumes::{self, Storage};
use crate::relaxations::{self, Relaxation, Steps, devices, list};

/// Of at most so many volumes and claims of different names something is given up.
const MOST_NEEDS: usize = 16;

/// A volume or a claim on devices, by the name that the pods call it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Need {
    Volume(String),
    Devices(String),
}

/// The pods that have it, and the places in their lists.
type Having = Vec<(usize, usize)>;

/// What one pod could give up, from a little to all of it.
type Grades = Vec<Steps>;

/// What each of several pods could give up.
type OfPods = Vec<(usize, Grades)>;

impl GroupSearch<'_> {
    /// What could be given up of the volumes and devices of the pods. `as_it_is` is what is decided without that.
    pub(super) fn needs(&mut self, as_it_is: Option<&GroupDecision>) -> Vec<Way> {
        let mut all = Vec::new();
        for (need, having) in needs_of(&self.base).into_iter().take(MOST_NEEDS) {
            let without: Vec<_> =
                having.iter().filter_map(|one| self.without(&need, *one)).collect();
            let without = self.alike(&need, without);
            // Another volume changes nothing if none changes nothing.
            let changes_nothing = |way: &Way| {
                let decision = self.decide(&[(way, way.grades)]);
                as_it_is.is_some_and(|before| {
                    decision.is_none_or(|decision| !is_other(before, &decision))
                })
            };
            if without.last().is_none_or(changes_nothing) {
                continue;
            }
            all.extend(without);
            let changes = self.changes_of(&need, &having);
            all.extend(self.alike(&need, changes));
        }
        all
    }

    /// A pod without it.
    fn without(&self, need: &Need, (member, place): (usize, usize)) -> Option<(usize, Grades)> {
        let manifest = self.base.members[member].manifest.as_deref()?;
        let given_up = match need {
            Need::Volume(_) => volumes::emptied(manifest, place),
            Need::Devices(_) => {
                devices::dropped(manifest, &list(manifest, "/spec/resourceClaims")[place])
            }
        };
        Some((member, grades(given_up)?))
    }

    /// What else could be done about it, for each pod that has it. The manifests of the objects are then known to the search.
    fn changes_of(&mut self, need: &Need, having: &Having) -> OfPods {
        let taken = mounted(&self.base);
        let first = having.first().map(|(member, _)| self.base.members[*member].pod.clone());
        let near = match need {
            Need::Volume(_) => first.map(|pod| self.near(&pod)).unwrap_or_default(),
            Need::Devices(_) => Vec::new(),
        };
        let mut objects = Objects::clone(&self.base.known);
        let (view, manifests) = (self.scheduler.view(), self.manifests);
        let mut all = Vec::new();
        for (at, place) in having {
            let member = &self.base.members[*at];
            let Some(manifest) = member.manifest.as_deref() else { continue };
            let mut draft = Draft { pod: manifest.clone(), objects: std::mem::take(&mut objects) };
            let pod: &Pod = &member.pod;
            let changes = match need {
                Need::Volume(_) => {
                    let storage = Storage { pod, taken: &taken, view, manifests, near: &near };
                    storage.changes(&mut draft, *place)
                }
                Need::Devices(name) => devices::changes(pod, view, manifests, &mut draft, name),
            };
            all.extend(changes.into_iter().filter_map(|one| Some((*at, grades(one)?))));
            objects = draft.objects;
        }
        self.base.known = Arc::new(objects);
        all
    }

    /// The nodes that reject a pod, those first that miss by least.
    fn near(&mut self, pod: &Arc<Pod>) -> Vec<Row> {
        let judged = self.scheduler.transaction(self.now, |transaction| {
            let mut judge = transaction.judge(pod.clone()).ok()?;
            let verdicts = judge.verdicts();
            Some(by_distance(judge.view(), pod, &verdicts))
        });
        judged.unwrap_or_default()
    }

    /// One way for what is the same in several pods, except that each has a claim of its own.
    fn alike(&self, need: &Need, of: OfPods) -> Vec<Way> {
        let mut known: Vec<(Vec<String>, OfPods)> = Vec::new();
        for (at, grades) in of {
            let own = self.own_claim(need, at).unwrap_or_default();
            let without_name = |steps: &Steps| match own.is_empty() {
                true => steps.text.clone(),
                false => steps.text.replace(&own, ""),
            };
            let texts: Vec<String> = grades.iter().map(without_name).collect();
            match known.iter_mut().find(|(known, _)| *known == texts) {
                Some((_, of)) => of.push((at, grades)),
                None => known.push((texts, vec![(at, grades)])),
            }
        }
        known.into_iter().flat_map(|(_, of)| in_scopes(&self.base, need, &of)).collect()
    }

    /// The claim of a pod behind a volume, or on devices.
    fn own_claim(&self, need: &Need, at: usize) -> Option<String> {
        let manifest = self.base.members[at].manifest.as_deref()?;
        let place = places(manifest).into_iter().find(|(known, _)| known == need)?.1;
        match need {
            Need::Volume(_) => volumes::claim_name(manifest, place),
            Need::Devices(_) => {
                let claim = &list(manifest, "/spec/resourceClaims")[place];
                claim["resourceClaimName"].as_str().map(ToOwned::to_owned)
            }
        }
    }
}

/// Whether something else is said about a group.
pub(super) fn is_other(before: &GroupDecision, after: &GroupDecision) -> bool {
    (before.result, &before.message, &before.pods) != (after.result, &after.message, &after.pods)
}

/// The volumes and claims of a pod, with their places in its lists.
fn places(manifest: &Value) -> Vec<(Need, usize)> {
    let name = |one: &Value| one["name"].as_str().unwrap_or_default().to_owned();
    let of_volume = |at: usize| (Need::Volume(name(&manifest["spec"]["volumes"][at])), at);
    let claims = list(manifest, "/spec/resourceClaims").iter().enumerate();
    let of_claim = |(at, claim): (usize, &Value)| (Need::Devices(name(claim)), at);
    let volumes = volumes::storage_of(manifest).into_iter().map(of_volume);
    volumes.chain(claims.map(of_claim)).collect()
}

/// All volumes and claims of the pods.
fn needs_of(base: &Changed) -> Vec<(Need, Having)> {
    let mut all: Vec<(Need, Having)> = Vec::new();
    for (member, one) in base.members.iter().enumerate() {
        for (need, place) in one.manifest.as_deref().map(places).unwrap_or_default() {
            match all.iter_mut().find(|(known, _)| *known == need) {
                Some((_, having)) => having.push((member, place)),
                None => all.push((need, vec![(member, place)])),
            }
        }
    }
    all
}

/// The claims that are mounted by pods of the group.
fn mounted(base: &Changed) -> Vec<Str> {
    let volumes = base.members.iter().flat_map(|member| &member.pod.volumes);
    let mut claims: Vec<Str> = volumes.filter_map(PodVolume::claim).cloned().collect();
    claims.sort_unstable();
    claims.dedup();
    claims
}

fn grades(relaxation: Relaxation) -> Option<Grades> {
    match relaxation {
        Relaxation::Steps(steps) => Some(vec![steps]),
        Relaxation::Graded(grades) => Some(grades),
        _ => None,
    }
}

/// A way for the pods of each group of a tree, and one for all. An object that is changed is the same for all.
fn in_scopes(base: &Changed, need: &Need, of: &[(usize, Grades)]) -> Vec<Way> {
    let field = match need {
        Need::Volume(_) => relaxations::Field::Volumes,
        Need::Devices(_) => relaxations::Field::Devices,
    };
    let grades = of.iter().map(|(_, grades)| grades.len()).min().unwrap_or(0);
    let way = |of: OfPods, pods: Option<String>, extra: u32| {
        let what = What::Steps { of, pods, extra };
        Way { field: Field::Members(field), grades, what }
    };
    if !of.iter().any(|(_, grades)| grades.iter().any(Steps::changes_pod)) {
        return vec![way(of.to_vec(), None, 0)];
    }
    let at: Vec<usize> = of.iter().map(|(at, _)| *at).collect();
    let scopes = scopes(base, &at).into_iter().map(|(scope, pods, extra)| {
        let chosen = of.iter().filter(|(at, _)| scope.contains(at));
        way(chosen.cloned().collect(), Some(pods), extra)
    });
    scopes.collect()
}
