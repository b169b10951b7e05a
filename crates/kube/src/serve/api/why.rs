//! `/api/v1/why`: the least that would have to change so that a pod fits, or why it is on its node. `/api/v1/why-group`: the
//! same for a group of pods.

use std::sync::Arc;

use axum::extract::Query;
use axum::response::Response;
use plimsoll_api::{CompositePodGroup, KindRef, ObjectKey, Pod, PodGroup};
use serde_json::Value;

use super::asker::{Asker, Picture, told};
use super::manifests::AskedManifests;
use crate::serve::advisor::{WhyGroupQuestion, WhyQuestion};
use crate::serve::query::pod_key;
use crate::serve::routes::{Pairs, unavailable};

/// How a question about a pod, or one about a group, is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Pod,
    Group,
}

impl Form {
    /// The parameter that names what is asked about.
    fn subject(self) -> &'static str {
        match self {
            Form::Pod => "pod",
            Form::Group => "group",
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Form::Pod => {
                "ask for one pod: /api/v1/why?pod=NAMESPACE/NAME, with remedies=N, nearest=N and text=true if you like"
            }
            Form::Group => {
                "ask for one group: /api/v1/why-group?group=NAMESPACE/NAME, with remedies=N and text=true if you like"
            }
        }
    }
}

/// The most changes, and the most nodes, that can be asked for.
const MOST: usize = 1000;

/// Answers for one pod.
pub(in crate::serve) async fn why(asker: Asker, Query(query): Pairs) -> Response {
    told(match WhyQuery::parse(Form::Pod, &query) {
        Ok(wanted) => answer(&asker, wanted).await,
        Err(error) => Err(asker.wrong(&error.to_string())),
    })
}

/// Answers for one group.
pub(in crate::serve) async fn why_group(asker: Asker, Query(query): Pairs) -> Response {
    told(match WhyQuery::parse(Form::Group, &query) {
        Ok(wanted) => answer_about_group(&asker, wanted).await,
        Err(error) => Err(asker.wrong(&error.to_string())),
    })
}

async fn answer(asker: &Asker, wanted: WhyQuery) -> Result<Value, Response> {
    let WhyQuery { subject: pod, remedies, nearest, with_text } = wanted;
    asker.must("get", &pod.namespace, &pod.name).await?;
    let permitted = asker.permitted().map_err(|refusal| *refusal)?;
    let scheduler = &asker.state.scheduler;
    let manifest = match scheduler.manifest(KindRef::of::<Pod>(), pod.clone()).await {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return Err(asker.not_found(&format!("pods {:?} not found", pod.name))),
        Err(error) => return Err(asker.failed(&error.to_string())),
    };
    let taken = scheduler.snapshot(Some(pod.clone())).await;
    let (snapshot, pending) = taken.map_err(unavailable)?;
    let (name, picture) = (pod.to_string(), Picture::of(&snapshot));
    let manifests = Arc::new(AskedManifests::new(asker));
    let question =
        WhyQuestion { pod, manifest, manifests, snapshot, pending, remedies, nearest, with_text };
    asker.answer(permitted, picture, &name, move |advisor| advisor.why(question)).await
}

/// The answer names the pods of the group and is based on their manifests and that of its PodGroup or CompositePodGroup, so the
/// user must be allowed to read these.
async fn answer_about_group(asker: &Asker, wanted: WhyQuery) -> Result<Value, Response> {
    let WhyQuery { subject: group, remedies, with_text, .. } = wanted;
    asker.must("list", &group.namespace, "").await?;
    asker.must("get", &group.namespace, "").await?;
    let (namespace, name) = (group.namespace.clone(), group.name.clone());
    let (of_pods, of_groups) = (KindRef::of::<PodGroup>(), KindRef::of::<CompositePodGroup>());
    // Which of the two it is, only the snapshot says. Whoever may read neither is told nothing about it.
    if !asker.may_with(of_pods, "get", &namespace, &name).await?
        && !asker.may_with(of_groups, "get", &namespace, &name).await?
    {
        asker.must_with(of_pods, "get", &namespace, &name).await?;
    }
    let permitted = asker.permitted().map_err(|refusal| *refusal)?;
    let taken = asker.state.scheduler.snapshot_of_group(group.clone()).await;
    let (snapshot, pending) = taken.map_err(unavailable)?;
    let (about, picture) = (group.to_string(), Picture::of(&snapshot));
    let manifests = Arc::new(AskedManifests::new(asker));
    let question = WhyGroupQuestion { group, manifests, snapshot, pending, remedies, with_text };
    asker.must_with(question.kind(), "get", &namespace, &name).await?;
    asker.answer(permitted, picture, &about, move |advisor| advisor.why_group(question)).await
}

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
struct WhyQuery {
    /// The pod or the group.
    subject: ObjectKey,
    remedies: Option<usize>,
    nearest: Option<usize>,
    with_text: bool,
}

/// An invalid query.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct QueryError(String);

impl WhyQuery {
    fn parse(form: Form, query: &[(String, String)]) -> Result<Self, QueryError> {
        let wrong = |what: String| QueryError(format!("{what}; {}", form.usage()));
        let (mut subject, mut remedies, mut nearest, mut with_text) = (None, None, None, false);
        for (at, (key, value)) in query.iter().enumerate() {
            if query[..at].iter().any(|(other, _)| other == key) {
                return Err(wrong(format!("parameter {key:?} is given twice")));
            }
            let number = || {
                let number = value.parse().ok().filter(|number| *number <= MOST);
                let why = || wrong(format!("{key} {value:?} is no number from 0 to {MOST}"));
                number.ok_or_else(why)
            };
            match key.as_str() {
                name if name == form.subject() => {
                    let found = pod_key(value);
                    let why = || wrong(format!("{name} {value:?} is no NAMESPACE/NAME"));
                    subject = Some(found.ok_or_else(why)?);
                }
                "remedies" => remedies = Some(number()?),
                "nearest" if form == Form::Pod => nearest = Some(number()?),
                "text" => {
                    let why = |_| wrong(format!("text {value:?} is neither true nor false"));
                    with_text = value.parse().map_err(why)?;
                }
                _ => return Err(wrong(format!("unknown parameter {key:?}"))),
            }
        }
        let subject = subject.ok_or_else(|| QueryError(form.usage().to_owned()))?;
        Ok(WhyQuery { subject, remedies, nearest, with_text })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::PodKey;

    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<WhyQuery, QueryError> {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        WhyQuery::parse(Form::Pod, &pairs.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_pod_is_asked_for_by_namespace_and_name() {
        let subject = PodKey::new("team", "web-0");
        let wanted = WhyQuery { subject, remedies: Some(3), nearest: None, with_text: false };
        assert_eq!(parse(&[("remedies", "3"), ("pod", "team/web-0")]), Ok(wanted));
        let asked = parse(&[("pod", "a/b"), ("text", "true")]).map(|wanted| wanted.with_text);
        assert_eq!(asked, Ok(true));
        for wrong in [
            &[][..],
            &[("pod", "web-0")],
            &[("pod", "a/b/c")],
            &[("node", "a/b")],
            &[("pod", "a/b"), ("pod", "a/c")],
            &[("pod", "a/b"), ("nearest", "-1")],
            &[("pod", "a/b"), ("remedies", "1001")],
            &[("pod", "a/b"), ("text", "yes")],
        ] {
            let why = parse(wrong).expect_err("it is wrong").to_string();
            assert!(why.contains("/api/v1/why?pod=NAMESPACE/NAME"), "{why}");
        }
    }

    #[test]
    fn a_group_is_asked_for_by_namespace_and_name() {
        let parse = |pairs: &[(&str, &str)]| {
            let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            WhyQuery::parse(Form::Group, &pairs.iter().map(owned).collect::<Vec<_>>())
        };
        let subject = ObjectKey::new("team", "train");
        let wanted = WhyQuery { subject, remedies: Some(3), nearest: None, with_text: false };
        assert_eq!(parse(&[("remedies", "3"), ("group", "team/train")]), Ok(wanted));
        for (wrong, why) in [
            (&[][..], "ask for one group"),
            (&[("group", "train")], "group \"train\" is no NAMESPACE/NAME; "),
            (&[("pod", "a/b")], "unknown parameter \"pod\"; "),
            (&[("group", "a/b"), ("nearest", "1")], "unknown parameter \"nearest\"; "),
            (
                &[("group", "a/b"), ("remedies", "x")],
                "remedies \"x\" is no number from 0 to 1000; ",
            ),
        ] {
            let told = parse(wrong).expect_err("it is wrong").to_string();
            assert!(told.starts_with(why), "{told}");
            assert!(told.contains("/api/v1/why-group?group=NAMESPACE/NAME"), "{told}");
        }
    }
}
