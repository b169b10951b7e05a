//! `/api/v1/why`: the least that would have to change so that a pod fits, or why it is on its node.

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use http::{HeaderMap, Uri};
use plimsoll_api::PodKey;
use serde_json::Value;

use super::asker::{Asker, Picture, User, told};
use crate::serve::advisor::WhyQuestion;
use crate::serve::query::pod_key;
use crate::serve::routes::{AppState, Pairs, unavailable};

const USAGE: &str = "ask for one pod: /api/v1/why?pod=NAMESPACE/NAME, with remedies=N, nearest=N and text=true if you like";

/// The most changes, and the most nodes, that can be asked for.
const MOST: usize = 1000;

/// Answers for one pod.
pub(in crate::serve) async fn why(
    State(state): AppState,
    Extension(user): User,
    Query(query): Pairs,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let asker = Asker { state: &state, user: &user, headers: &headers, uri: &uri };
    told(match WhyQuery::parse(&query) {
        Ok(wanted) => answer(&asker, wanted).await,
        Err(error) => Err(asker.wrong(&error.to_string())),
    })
}

async fn answer(asker: &Asker<'_>, wanted: WhyQuery) -> Result<Value, Response> {
    let WhyQuery { pod, remedies, nearest, with_text } = wanted;
    asker.must("get", &pod.namespace, &pod.name).await?;
    let permitted = asker.permitted().map_err(|refusal| *refusal)?;
    let scheduler = &asker.state.scheduler;
    let manifest = match scheduler.manifest(pod.clone()).await {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return Err(asker.not_found(&format!("pods {:?} not found", pod.name))),
        Err(error) => return Err(asker.failed(&error.to_string())),
    };
    let taken = scheduler.snapshot(Some(pod.clone())).await;
    let (snapshot, pending) = taken.map_err(unavailable)?;
    let (name, picture) = (pod.to_string(), Picture::of(&snapshot));
    let question = WhyQuestion { pod, manifest, snapshot, pending, remedies, nearest, with_text };
    asker.answer(permitted, picture, &name, move |advisor| advisor.why(question)).await
}

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
struct WhyQuery {
    pod: PodKey,
    remedies: Option<usize>,
    nearest: Option<usize>,
    with_text: bool,
}

/// An invalid query.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum QueryError {
    #[error("{USAGE}")]
    NoPod,
    #[error("parameter {0:?} is given twice; {USAGE}")]
    Repeated(String),
    #[error("unknown parameter {0:?}; {USAGE}")]
    Unknown(String),
    #[error("pod {0:?} is no NAMESPACE/NAME; {USAGE}")]
    NoPodKey(String),
    #[error("text {0:?} is neither true nor false; {USAGE}")]
    NoBool(String),
    #[error("{0} {1:?} is no number from 0 to {MOST}; {USAGE}")]
    NoNumber(&'static str, String),
}

impl WhyQuery {
    fn parse(query: &[(String, String)]) -> Result<Self, QueryError> {
        let (mut pod, mut remedies, mut nearest, mut with_text) = (None, None, None, false);
        for (at, (key, value)) in query.iter().enumerate() {
            if query[..at].iter().any(|(other, _)| other == key) {
                return Err(QueryError::Repeated(key.clone()));
            }
            let number = |name| {
                let number = value.parse().ok().filter(|number| *number <= MOST);
                number.ok_or_else(|| QueryError::NoNumber(name, value.clone()))
            };
            match key.as_str() {
                "pod" => {
                    let key = pod_key(value);
                    pod = Some(key.ok_or_else(|| QueryError::NoPodKey(value.clone()))?);
                }
                "remedies" => remedies = Some(number("remedies")?),
                "nearest" => nearest = Some(number("nearest")?),
                "text" => {
                    with_text = value.parse().map_err(|_| QueryError::NoBool(value.clone()))?;
                }
                _ => return Err(QueryError::Unknown(key.clone())),
            }
        }
        Ok(WhyQuery { pod: pod.ok_or(QueryError::NoPod)?, remedies, nearest, with_text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<WhyQuery, QueryError> {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        WhyQuery::parse(&pairs.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_pod_is_asked_for_by_namespace_and_name() {
        let pod = PodKey::new("team", "web-0");
        let wanted = WhyQuery { pod, remedies: Some(3), nearest: None, with_text: false };
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
}
