//! What could be changed so that a group is scheduled, each thing from a little to as far as it goes.

use plimsoll_api::pod_group::PREFERRED_TOPOLOGY;
use plimsoll_api::{Pod, Str};
use plimsoll_framework::{GroupRef, Row, View};
use serde_json::{Value, json};

use super::evictions::{self, Unit};
use super::plan::Changed;
use crate::cluster::{NodeChange, names};
use crate::draft::{Draft, Manifests};
use crate::new_nodes;
use crate::relaxations::{self, Relaxation, Steps, remove_key, requests, spread};
use crate::remedy::{RemedyKind, size};

/// Requests are lowered in steps of this part.
pub(super) const STEPS: usize = 20;
pub(super) const TOPOLOGY: &str = "/spec/schedulingConstraints/topology/0/key";

/// One thing that could be changed.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) field: Field,
    /// How far it goes: 1 is the least, and this the most.
    pub(super) grades: usize,
    pub(super) what: What,
}

/// What a way changes. Two ways that change the same thing are not tried together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// The count of the group at this place.
    Count(usize),
    /// Its topology.
    Topology(usize),
    /// A field of its pods.
    Members(relaxations::Field),
    /// The same, where more is allowed and nothing is given up.
    Wider,
    /// New pods of a group.
    NewPods,
    /// What closes nodes.
    Nodes,
    NewNodes,
    /// Pods that run.
    Others,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// The count of a gang becomes `most` with the first grade, and one less with each further one.
    Count { object: usize, text: String, before: i64, most: i64 },
    /// Another label must be the same; `None` if none must.
    Topology { object: usize, key: Option<Str>, is_preferred: bool, text: String, size: u32 },
    /// Pods give something up, or put up with it.
    Members { of: Vec<(usize, Vec<Relaxation>)>, text: String, size: u32 },
    /// Pods give up volumes or devices, or the objects behind these change, as far as the grade says. `pods` says which they are,
    /// if they change themselves.
    Steps { of: Vec<(usize, Vec<Steps>)>, pods: Option<String>, extra: u32 },
    /// The skew of a spread constraint of these pods grows with each grade; with the last one it is a preference.
    Spread { of: Vec<usize>, at: usize, pods: String, extra: u32 },
    /// Pods request less of a resource, by as many steps as the grade.
    Request { of: Vec<usize>, name: Str, pods: String, extra: u32 },
    /// There are so many more pods like the one at this place.
    NewPods { like: usize, n: usize, text: String },
    /// As many nodes are opened as the grade says.
    Open(Vec<NodeChange>),
    /// There are so many more nodes like this one.
    NewNodes(Row),
    /// As many of these are gone.
    Gone { units: Vec<Unit>, priority: i32 },
}

/// What a way comes to.
pub(super) struct Taken {
    pub(super) text: String,
    pub(super) size: u32,
    pub(super) kind: RemedyKind,
}

/// Where new nodes come from.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) view: View<'a>,
    pub(super) manifests: Manifests<'a>,
}

impl Field {
    /// Whether it makes sense to change both.
    pub(super) fn goes_with(self, other: Field) -> bool {
        let of_nodes = Field::Members(relaxations::Field::Nodes);
        match (self, other) {
            // What is dropped from a list of expressions moves the others to other places.
            (Field::Wider, other) if other == of_nodes => false,
            (other, Field::Wider) if other == of_nodes => false,
            (Field::Members(_), Field::Members(_)) | (Field::Wider, Field::Wider) => true,
            (one, other) => one != other,
        }
    }
}

impl Way {
    /// Changes the group, and says what that comes to; `None` if it is not possible.
    pub(super) fn take(
        &self,
        changed: &mut Changed,
        grade: usize,
        sources: Sources<'_>,
    ) -> Option<Taken> {
        let pod = |text: String, size: u32| Taken { text, size, kind: RemedyKind::Pod };
        Some(match &self.what {
            What::Count { object, text, before, most } => {
                let count = most - (i64::try_from(grade).ok()? - 1);
                let policy = changed.objects[*object].change()?.pointer_mut(POLICY)?;
                *policy.get_mut(count_field(policy)?)? = json!(count);
                let part = (before - count) * i64::from(size::WHOLE_REQUEST) / before;
                let size = size::REQUEST + u32::try_from(part).unwrap_or(size::WHOLE_REQUEST);
                pod(format!("set {text} to {count} instead of {before}"), size)
            }
            What::Topology { object, key, is_preferred, text, size } => {
                let manifest = changed.objects[*object].change()?;
                take_topology(manifest, key.as_ref(), *is_preferred)?;
                pod(text.clone(), *size)
            }
            What::Members { of, text, size } => {
                for (at, relaxations) in of {
                    let loosen = |manifest: &mut Value| {
                        let mut draft = Draft { pod: manifest.take(), ..Draft::default() };
                        relaxations.iter().rev().for_each(|one| one.loosen(&mut draft));
                        *manifest = draft.pod;
                    };
                    changed.members[*at].change(loosen)?;
                }
                pod(text.clone(), *size)
            }
            What::Steps { of, pods, extra } => {
                let mut all = Taken { text: String::new(), size: 0, kind: RemedyKind::Pod };
                let mut texts: Vec<String> = Vec::new();
                for (at, grades) in of {
                    let steps = grades.get(grade.checked_sub(1)?)?;
                    changed.give_up(*at, steps, sources.view)?;
                    if !texts.contains(&steps.text) {
                        texts.push(steps.text.clone());
                    }
                    (all.size, all.kind) = (all.size.max(steps.size), all.kind.max(steps.kind));
                }
                let text = joined(texts);
                let text = pods.iter().fold(text, |text, pods| format!("{text} in {pods}"));
                Taken { text, size: all.size + extra, ..all }
            }
            What::Spread { of, at, pods, extra } => {
                let first = changed.members[*of.first()?].manifest.clone()?;
                let more = i64::try_from(grade).ok()?;
                let is_soft = grade == self.grades;
                for member in of {
                    let change = |manifest: &mut Value| {
                        if is_soft {
                            spread::make_soft(manifest, *at);
                        } else {
                            spread::allow_skew(manifest, *at, spread::skew(manifest, *at) + more);
                        }
                    };
                    changed.members[*member].change(change)?;
                }
                let (text, size) = if is_soft {
                    (Relaxation::Spread(*at).text(&first), size::NO_SPREAD)
                } else {
                    let skew = spread::skew(&first, *at) + more;
                    let steps = size::ONE_SKEW.saturating_mul(u32::try_from(more).ok()?);
                    let size = size::SPREAD.saturating_add(steps).min(size::NO_SPREAD);
                    (spread::skew_text(&first, *at, skew), size)
                };
                pod(format!("{text} in {pods}"), size + extra)
            }
            What::Request { of, name, pods, extra } => {
                let text = lower(changed, of, name, grade)?;
                let part =
                    size::WHOLE_REQUEST * u32::try_from(grade).ok()? / u32::try_from(STEPS).ok()?;
                pod(format!("{text} in {pods}"), size::REQUEST + part + extra)
            }
            What::NewPods { like, n, text } => {
                add_pods(changed, *like, *n)?;
                pod(text.clone(), size::NEW_CLAIM + size::ONE_EVICTION.saturating_mul(count(*n)))
            }
            What::Open(nodes) => cluster(changed, NodeChange::together(nodes.get(..grade)?)),
            What::NewNodes(row) => {
                let Sources { view, manifests } = sources;
                cluster(changed, new_nodes::like(view, manifests, *row, grade))
            }
            What::Gone { units, priority } => {
                cluster(changed, evictions::change(units.get(..grade)?, *priority))
            }
        })
    }

    /// The same without one of the things of which it consists, of the first `grade` ones.
    pub(super) fn without(&self, at: usize, grade: usize) -> Option<Way> {
        let what = match &self.what {
            What::Open(changes) => What::Open(left_out(&changes[..grade], at)),
            What::Gone { units, priority } => {
                What::Gone { units: left_out(&units[..grade], at), priority: *priority }
            }
            _ => return None,
        };
        Some(Way { field: self.field, grades: grade - 1, what })
    }
}

/// `1 pod`, or so many, of this group if others could be meant.
pub(super) fn pods(n: usize, of: Option<&str>) -> String {
    let pods = if n == 1 { "1 pod".to_owned() } else { format!("{n} pods") };
    match of {
        Some(group) => format!("{pods} of {group}"),
        None => pods,
    }
}

pub(super) const POLICY: &str = "/spec/schedulingPolicy/gang";

/// The field of a gang's policy that is its count.
pub(super) fn count_field(policy: &Value) -> Option<&'static str> {
    ["minCount", "minGroupCount"].into_iter().find(|field| policy[*field].is_i64())
}

/// The count of a gang, and the name of its field.
pub(super) fn count_of(manifest: &Value) -> Option<(i64, &'static str)> {
    let policy = manifest.pointer(POLICY)?;
    let field = count_field(policy)?;
    Some((policy[field].as_i64()?, field))
}

/// The group in words, as one of several or the only one.
pub(super) fn named(group: &GroupRef, is_only: bool) -> String {
    match group {
        GroupRef::Pods(_) if is_only => "the group".to_owned(),
        GroupRef::Pods(key) => format!("the group {}", key.name),
        GroupRef::Composite(key) => format!("all groups of {}", key.name),
    }
}

fn take_topology(manifest: &mut Value, key: Option<&Str>, is_preferred: bool) -> Option<()> {
    let before = manifest.pointer(TOPOLOGY)?.as_str()?.to_owned();
    match key {
        Some(key) => *manifest.pointer_mut(TOPOLOGY)? = json!(key),
        None => remove_key(manifest, "/spec", "schedulingConstraints"),
    }
    if is_preferred {
        let preferred = manifest["metadata"]["annotations"].get_mut(PREFERRED_TOPOLOGY)?;
        let keys = preferred.as_str()?;
        if !keys.split(',').any(|key| key.trim() == before) {
            let all = if keys.trim().is_empty() { before } else { format!("{before},{keys}") };
            *preferred = json!(all);
        }
    }
    Some(())
}

/// Pods request less of a resource by so many steps. Returns what that is in words.
fn lower(changed: &mut Changed, of: &[usize], name: &str, steps: usize) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for at in of {
        let member = &mut changed.members[*at];
        let asked = i128::from(member.pod.requests.get(name));
        let left = i128::try_from(STEPS.checked_sub(steps)?).ok()?;
        let total = i64::try_from(asked * left / i128::try_from(STEPS).ok()?).ok()?;
        let mut text = None;
        member.change(|manifest| text = requests::lower(manifest, name, total))?;
        let text = text?;
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("request {} % less {name}", steps * 100 / STEPS)),
    }
}

/// Adds pods like one that there is.
fn add_pods(changed: &mut Changed, like: usize, n: usize) -> Option<()> {
    let model = changed.members[like].manifest.clone()?;
    let name = model["metadata"]["name"].as_str()?.to_owned();
    for number in 1..=n {
        let mut new = (*model).clone();
        new["metadata"]["name"] = json!(format!("{name}-new{number}"));
        new["metadata"]["uid"] = json!(format!("{name}-new{number}"));
        let pod: Pod = crate::change::pod_of(&new).ok()?;
        changed.new.push((new, pod.into()));
    }
    Some(())
}

fn cluster(changed: &mut Changed, change: crate::cluster::ClusterChange) -> Taken {
    let (text, size) = (change.text.clone(), change.size);
    changed.cluster.push(change);
    Taken { text, size, kind: RemedyKind::Cluster }
}

fn left_out<T: Clone>(all: &[T], at: usize) -> Vec<T> {
    let others = all.iter().enumerate().filter(|(other, _)| *other != at);
    others.map(|(_, one)| one.clone()).collect()
}

/// What several pods give up, in words: each text once.
pub(super) fn joined(mut texts: Vec<String>) -> String {
    const MOST: usize = 3;
    let n_more = texts.len().saturating_sub(MOST);
    texts.truncate(MOST);
    let text = names(&texts);
    if n_more == 0 { text } else { format!("{text}, and {n_more} alike") }
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
