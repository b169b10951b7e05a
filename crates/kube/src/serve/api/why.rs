//! `/api/v1/why`: the least that would have to change so that a pod fits, or why it is on its node.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri};
use plimsoll_api::{PodKey, Timestamp};
use serde_json::{Value, json};

use super::withhold::{named_namespaces, withhold};
use crate::serve::advisor::{AdviceError, WhyQuestion};
use crate::serve::auth::{Access, AuthorizationResult, RequestUserInfo};
use crate::serve::query::pod_key;
use crate::serve::reply;
use crate::serve::routes::{AppState, Pairs, unavailable};
use crate::serve::server_state::ServerState;

const USAGE: &str =
    "ask for one pod: /api/v1/why?pod=NAMESPACE/NAME, with remedies=N and nearest=N if you like";

/// The most changes, and the most nodes, that can be asked for.
const MOST: usize = 1000;

/// Answers for one pod.
pub(in crate::serve) async fn why(
    State(state): AppState,
    Extension(user): Extension<Arc<RequestUserInfo>>,
    Query(query): Pairs,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let asker = Asker { state: &state, user: &user, headers: &headers, uri: &uri };
    let answered = match WhyQuery::parse(&query) {
        Ok(wanted) => answer(&asker, wanted).await,
        Err(error) => Err(asker.error(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string())),
    };
    match answered {
        Ok(answer) => reply::json(StatusCode::OK, format!("{answer}\n")),
        Err(refusal) => refusal,
    }
}

async fn answer(asker: &Asker<'_>, wanted: WhyQuery) -> Result<Value, Response> {
    let WhyQuery { pod, remedies, nearest } = wanted;
    let (state, name) = (asker.state, pod.to_string());
    asker.must("get", &pod.namespace, &pod.name).await?;
    let Ok(_permit) = state.advice.try_acquire() else {
        let why = "another question is being answered, please try again later";
        return Err(reply::busy(StatusCode::TOO_MANY_REQUESTS, why, 1));
    };
    let not_found = |why: &str| asker.error(StatusCode::NOT_FOUND, "NotFound", why);
    let failed = |why: &str| asker.error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", why);
    let manifest = match state.scheduler.manifest(pod.clone()).await {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return Err(not_found(&format!("pods {:?} not found", pod.name))),
        Err(error) => return Err(failed(&error.to_string())),
    };
    let snapshot = state.scheduler.snapshot(Some(pod.clone())).await;
    let (snapshot, pending) = snapshot.map_err(unavailable)?;
    let taken = Timestamp::from_millisecond(snapshot.taken.millis());
    let namespaces: BTreeSet<String> =
        snapshot.pods.iter().map(|pod| pod.key.namespace.to_string()).collect();
    let question = WhyQuestion { pod, manifest, snapshot, pending, remedies, nearest };
    let advisor = state.scheduler.advisor();
    let answered = tokio::task::spawn_blocking(move || advisor.why(question)).await;
    let mut answer = match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(AdviceError::Unknown(why))) => return Err(not_found(&why)),
        Ok(Err(AdviceError::Failed(why))) => return Err(failed(&why)),
        Err(error) => return Err(failed(&error.to_string())),
    };
    let hidden = asker.hidden(named_namespaces(&answer, &namespaces)).await?;
    withhold(&mut answer, &hidden, &name);
    if let (Some(fields), Ok(taken)) = (answer.as_object_mut(), taken) {
        fields.insert("asOf".to_owned(), json!(taken.to_string()));
    }
    Ok(answer)
}

/// Who asks, and how.
struct Asker<'a> {
    state: &'a ServerState,
    user: &'a RequestUserInfo,
    headers: &'a HeaderMap,
    uri: &'a Uri,
}

impl Asker<'_> {
    fn error(&self, code: StatusCode, reason: &str, message: &str) -> Response {
        reply::status(self.headers, self.uri, code, reason, message)
    }

    /// Whether the API server would let the user do this with pods.
    async fn may(&self, verb: &str, namespace: &str, name: &str) -> Result<bool, Response> {
        let access = Access::Resource { namespace, verb, resource: "pods", name };
        match self.state.authorizer.may(self.user, access).await {
            AuthorizationResult::Allowed => Ok(true),
            AuthorizationResult::Forbidden(_) => Ok(false),
            AuthorizationResult::Unknown(why) => {
                tracing::warn!(user = %self.user.name, verb, namespace, %why, "could not authorize access to pods");
                Err(reply::internal(self.uri, &why))
            }
        }
    }

    /// The answer is an error if the user may not do this. As in responsewriters/errors.go, forbiddenMessage.
    async fn must(&self, verb: &str, namespace: &str, name: &str) -> Result<(), Response> {
        if self.may(verb, namespace, name).await? {
            return Ok(());
        }
        let user = &self.user.name;
        let message = format!(
            "pods {name:?} is forbidden: User {user:?} cannot {verb} resource \"pods\" in API group \"\" in the \
             namespace {namespace:?}"
        );
        Err(self.error(StatusCode::FORBIDDEN, "Forbidden", &message))
    }

    /// Those of the namespaces whose pods the user may not list.
    async fn hidden(&self, mut namespaces: BTreeSet<String>) -> Result<BTreeSet<String>, Response> {
        if namespaces.is_empty() || self.may("list", "", "").await? {
            return Ok(BTreeSet::new());
        }
        for namespace in namespaces.clone() {
            if self.may("list", &namespace, "").await? {
                namespaces.remove(&namespace);
            }
        }
        Ok(namespaces)
    }
}

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
struct WhyQuery {
    pod: PodKey,
    remedies: Option<usize>,
    nearest: Option<usize>,
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
    #[error("{0} {1:?} is no number from 0 to {MOST}; {USAGE}")]
    NoNumber(&'static str, String),
}

impl WhyQuery {
    fn parse(query: &[(String, String)]) -> Result<Self, QueryError> {
        let (mut pod, mut remedies, mut nearest) = (None, None, None);
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
                _ => return Err(QueryError::Unknown(key.clone())),
            }
        }
        Ok(WhyQuery { pod: pod.ok_or(QueryError::NoPod)?, remedies, nearest })
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
        let wanted = WhyQuery { pod, remedies: Some(3), nearest: None };
        assert_eq!(parse(&[("remedies", "3"), ("pod", "team/web-0")]), Ok(wanted));
        for wrong in [
            &[][..],
            &[("pod", "web-0")],
            &[("pod", "a/b/c")],
            &[("node", "a/b")],
            &[("pod", "a/b"), ("pod", "a/c")],
            &[("pod", "a/b"), ("nearest", "-1")],
            &[("pod", "a/b"), ("remedies", "1001")],
        ] {
            let why = parse(wrong).expect_err("it is wrong").to_string();
            assert!(why.contains("/api/v1/why?pod=NAMESPACE/NAME"), "{why}");
        }
    }
}
