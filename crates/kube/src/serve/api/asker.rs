//! Who asks a question, and what may be told to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::extract::rejection::ExtensionRejection;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};
use plimsoll_api::{KindRef, Pod, Timestamp};
use plimsoll_engine::ClusterSnapshot;
use plimsoll_framework::Time;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::withhold::{named_namespaces, withhold};
use crate::serve::advisor::{AdviceError, Advisor};
use crate::serve::auth::{Access, AuthorizationResult, RequestUserInfo};
use crate::serve::reply;
use crate::serve::server_state::ServerState;

/// Who asks, and how: what all questions take from their requests.
pub(in crate::serve) struct Asker {
    pub(super) state: Arc<ServerState>,
    pub(super) user: Arc<RequestUserInfo>,
    headers: HeaderMap,
    pub(super) uri: Uri,
}

/// A user who may not list all pods is asked about in at most so many namespaces if these are not known beforehand. Each is a
/// review.
const NAMESPACES: usize = 50;

/// The permit to make a copy of the cluster.
pub(super) struct Permitted(OwnedSemaphorePermit);

/// What has to be known of a snapshot when the question is answered.
pub(super) struct Picture {
    taken: Time,
    /// The namespaces that have pods.
    namespaces: BTreeSet<String>,
}

impl Picture {
    pub(super) fn of(snapshot: &ClusterSnapshot) -> Self {
        let namespaces = snapshot.pods.iter().map(|pod| pod.key.namespace.as_str());
        let namespaces: BTreeSet<&str> = namespaces.collect();
        let namespaces = namespaces.into_iter().map(str::to_owned).collect();
        Picture { taken: snapshot.taken, namespaces }
    }

    pub(super) fn namespaces(&self) -> &BTreeSet<String> {
        &self.namespaces
    }
}

impl FromRequestParts<Arc<ServerState>> for Asker {
    type Rejection = ExtensionRejection;

    /// The gate has found out who the user is.
    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<ServerState>,
    ) -> Result<Self, Self::Rejection> {
        let Extension(user) = Extension::from_request_parts(parts, state).await?;
        let (headers, uri) = (parts.headers.clone(), parts.uri.clone());
        Ok(Asker { state: state.clone(), user, headers, uri })
    }
}

impl Asker {
    pub(super) fn error(&self, code: StatusCode, reason: &str, message: &str) -> Response {
        reply::status(&self.headers, &self.uri, code, reason, message)
    }

    pub(super) fn not_found(&self, why: &str) -> Response {
        self.error(StatusCode::NOT_FOUND, "NotFound", why)
    }

    pub(super) fn wrong(&self, why: &str) -> Response {
        self.error(StatusCode::BAD_REQUEST, "BadRequest", why)
    }

    pub(super) fn failed(&self, why: &str) -> Response {
        self.error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", why)
    }

    /// Takes the permit to make a copy of the cluster. There is one copy at a time.
    pub(super) fn permitted(&self) -> Result<Permitted, Box<Response>> {
        let permit = self.state.advice.clone().try_acquire_owned();
        permit.map(Permitted).map_err(|_| {
            let why = "another question is being answered, please try again later";
            Box::new(reply::busy(StatusCode::TOO_MANY_REQUESTS, why, 1))
        })
    }

    /// Lets the advisor answer on a thread of its own. The answer is without the names of pods that the user may not list,
    /// except for `about`, and says when the picture is from. The permit is given back when the advisor is done, even if the
    /// client is gone before.
    pub(super) async fn answer(
        &self,
        Permitted(permit): Permitted,
        Picture { taken, namespaces }: Picture,
        about: &str,
        answer: impl FnOnce(&dyn Advisor) -> Result<Value, AdviceError> + Send + 'static,
    ) -> Result<Value, Response> {
        let advisor = self.state.scheduler.advisor();
        let answered = tokio::task::spawn_blocking(move || {
            let answer = answer(&*advisor);
            drop(permit);
            answer
        });
        let mut answer = match answered.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                // An error may name pods, too.
                let mut why = Value::from(error.to_string());
                let hidden = self.hidden(named_namespaces(&why, &namespaces)).await?;
                withhold(&mut why, &hidden, about);
                let why = why.as_str().unwrap_or_default();
                return Err(match error {
                    AdviceError::Unknown(_) => self.not_found(why),
                    AdviceError::Wrong(_) => self.wrong(why),
                    AdviceError::Failed(_) => self.failed(why),
                });
            }
            Err(error) => return Err(self.failed(&error.to_string())),
        };
        let hidden = self.hidden(named_namespaces(&answer, &namespaces)).await?;
        withhold(&mut answer, &hidden, about);
        add_time(&mut answer, taken);
        Ok(answer)
    }

    /// Whether the API server would let the user do this with pods.
    pub(super) async fn may(
        &self,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Result<bool, Response> {
        self.may_with(KindRef::of::<Pod>(), verb, namespace, name).await
    }

    /// Whether the API server would let the user do this with objects of a kind.
    pub(super) async fn may_with(
        &self,
        kind: KindRef,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Result<bool, Response> {
        let (group, resource) = (kind.group(), kind.plural());
        let access = Access::Resource { namespace, verb, group, resource, name };
        match self.state.authorizer.may(&self.user, access).await {
            AuthorizationResult::Allowed => Ok(true),
            AuthorizationResult::Forbidden(_) => Ok(false),
            AuthorizationResult::Unknown(why) => {
                let user = &self.user.name;
                tracing::warn!(%user, verb, resource, namespace, %why, "could not authorize access");
                Err(reply::internal(&self.uri, &why))
            }
        }
    }

    /// The answer is an error if the user may not do this with pods.
    pub(super) async fn must(
        &self,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Response> {
        self.must_with(KindRef::of::<Pod>(), verb, namespace, name).await
    }

    /// The answer is an error if the user may not do this with objects of a kind. As in responsewriters/errors.go,
    /// forbiddenMessage.
    pub(super) async fn must_with(
        &self,
        kind: KindRef,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Response> {
        if self.may_with(kind, verb, namespace, name).await? {
            return Ok(());
        }
        let (user, group, plural) = (&self.user.name, kind.group(), kind.plural());
        let dot = if group.is_empty() { "" } else { "." };
        let which = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let scope = match namespace {
            "" => "at the cluster scope".to_owned(),
            _ => format!("in the namespace {namespace:?}"),
        };
        let message = format!(
            "{plural}{dot}{group}{which} is forbidden: User {user:?} cannot {verb} resource {plural:?} in API group \
             {group:?} {scope}"
        );
        Err(self.error(StatusCode::FORBIDDEN, "Forbidden", &message))
    }

    /// Those of the namespaces whose pods the user may not list.
    pub(super) async fn hidden(
        &self,
        mut namespaces: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Response> {
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

    /// The same; `None` if the user may not list the pods of all namespaces, and these are too many to ask about each.
    pub(super) async fn hidden_of_few(
        &self,
        namespaces: BTreeSet<String>,
    ) -> Result<Option<BTreeSet<String>>, Response> {
        if NAMESPACES < namespaces.len() && !self.may("list", "", "").await? {
            return Ok(None);
        }
        self.hidden(namespaces).await.map(Some)
    }
}

/// Says when the picture is from.
fn add_time(answer: &mut Value, taken: Time) {
    let taken = Timestamp::from_millisecond(taken.millis());
    if let (Some(fields), Ok(taken)) = (answer.as_object_mut(), taken) {
        fields.insert("asOf".to_owned(), json!(taken.to_string()));
    }
}

/// The answer as JSON, or why there is none.
pub(super) fn told(answered: Result<Value, Response>) -> Response {
    match answered {
        Ok(answer) => reply::json(StatusCode::OK, format!("{answer}\n")),
        Err(refusal) => refusal,
    }
}
