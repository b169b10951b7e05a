//! Extenders of the lab: they answer what the script says, when it says so.
//!
//! `0 extender e filter prioritize preempt bind weight=2 manages=gpu ignorable=yes` adds one, before any
//! pod comes. `5 reply e p ...` answers what `e` was asked about `p`: `pass=a+b no=c:busy+d:full
//! never=e:old` to a filter, `rank=a:3+b:7` to a ranking, `keep=a:UID+UID keep=b:UID` to a preemption, `ok`
//! to a binding, and `fail` to anything.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_api::Str;
use plimsoll_framework::{Code, Rejection};

use super::{Lab, key, pair};
use crate::extenders::{ExtenderVerb, Extenders, Filtered, KeptCandidate};
use crate::{Call, EffectId, Event, Extender, ExtenderError, ExtenderQuestion, ExtenderReply};

impl Lab {
    pub(super) fn add_extender(&mut self, name: &str, what: &[&str]) {
        let mut extender = Extender {
            name: name.into(),
            verbs: BTreeSet::new(),
            weight: 1,
            ignorable: false,
            managed_resources: BTreeSet::new(),
            timeout: Duration::from_secs(5),
        };
        for word in what {
            let verb = match *word {
                "filter" => ExtenderVerb::Filter,
                "prioritize" => ExtenderVerb::Prioritize,
                "preempt" => ExtenderVerb::Preempt,
                "bind" => ExtenderVerb::Bind,
                "ignorable=yes" => {
                    extender.ignorable = true;
                    continue;
                }
                "manages=gpu" => {
                    extender.managed_resources.insert("example.com/gpu".into());
                    continue;
                }
                other => {
                    let weight = other.strip_prefix("weight=").expect("the last that is known");
                    extender.weight = weight.parse().expect("a weight is a number");
                    continue;
                }
            };
            extender.verbs.insert(verb);
        }
        let mut all = self.scheduler.extenders.all().to_vec();
        all.push(extender);
        self.scheduler.extenders = Extenders::new(all);
    }

    /// The scheduler asks.
    pub(super) fn call(&mut self, id: EffectId, pod: &Str, call: &Call) {
        let extender = self.scheduler.extenders.get(call.extender).name.clone();
        let text = match &call.question {
            ExtenderQuestion::Filter(nodes) => format!("filter {}", nodes.join(" ")),
            ExtenderQuestion::Prioritize(nodes) => format!("rank {}", nodes.join(" ")),
            ExtenderQuestion::Bind(node) => format!("bind to {node}"),
            ExtenderQuestion::Preempt(ways) => {
                let way = |way: &crate::extenders::ExtenderCandidate| {
                    let victims: Vec<&str> =
                        way.victims.iter().map(|one| one.uid.as_str()).collect();
                    format!("{} without {}", way.node, victims.join("+"))
                };
                format!("preempt on {}", ways.iter().map(way).collect::<Vec<_>>().join(" or "))
            }
        };
        self.note(&format!("ask {extender} for {pod}: {text}"));
        self.calls.insert((extender, pod.clone()), id);
    }

    /// An extender answers.
    pub(super) fn reply(&mut self, extender: &str, pod: &str, what: &[&str]) {
        let call = self.calls.remove(&(extender.into(), pod.into()));
        let id = call.expect("the extender was asked about the pod");
        let reply = match what {
            ["fail"] => Err(ExtenderError(format!("{extender} is broken"))),
            ["ok"] => Ok(ExtenderReply::Bound),
            [ranks] if ranks.starts_with("rank=") => {
                let ranks = list(ranks).map(|one| {
                    let (node, rank) = one.split_once(':').expect("written as NODE:RANK");
                    (Str::from(node), rank.parse().expect("a rank is a number"))
                });
                Ok(ExtenderReply::Prioritized(ranks.collect()))
            }
            kept if kept.iter().all(|word| word.starts_with("keep=")) => {
                Ok(ExtenderReply::Preempting(kept.iter().map(|word| keep(word)).collect()))
            }
            words => Ok(ExtenderReply::Filtered(filtered(words))),
        };
        self.tell(Event::Extended(id, reply));
        // A pod that was bound is seen on its node.
        if what == ["ok"]
            && let Some(id) = self.scheduler.names.find(&key(pod))
            && let Some(assumed) = self.scheduler.cache.assumed(id).cloned()
            && let Some(pod) = self.pods.get_mut(&key(pod))
        {
            pod.node_name = assumed.node().cloned();
            let pod = pod.clone();
            self.tell(Event::pod(pod));
        }
    }
}

fn list(word: &str) -> impl Iterator<Item = &str> {
    let (_, value) = pair(word);
    value.split('+').filter(|one| !one.is_empty())
}

fn keep(word: &str) -> KeptCandidate {
    let (_, value) = pair(word);
    let (node, uids) = value.split_once(':').expect("written as NODE:UID+UID");
    let victims = uids.split('+').filter(|uid| !uid.is_empty()).map(Str::from).collect();
    KeptCandidate { node: node.into(), victims, broken_budgets: 0 }
}

fn filtered(words: &[&str]) -> Filtered {
    let mut filtered = Filtered::default();
    for word in words {
        let code = match pair(word).0 {
            "pass" => {
                filtered.passed = list(word).map(Str::from).collect();
                continue;
            }
            "no" => Code::Unschedulable,
            "never" => Code::UnschedulableAndUnresolvable,
            other => panic!("{other:?} is no answer of an extender"),
        };
        for one in list(word) {
            let (node, why) = one.split_once(':').expect("written as NODE:WHY");
            filtered.rejected.push((node.into(), Rejection::new(code, why.to_owned())));
        }
    }
    filtered
}
