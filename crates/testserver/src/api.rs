//! One request, one answer.

mod admission;
mod control;
mod create;
mod discovery;
mod forward;
mod list;
mod openapi;
mod patch;
mod pods;
mod remove;
mod reviews;
mod strategic;
mod table;
mod watch;
mod write;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use crate::access::{AccessRules, RequestUser, What};
use crate::counts::{RequestLog, with_subresource};
use crate::failure::FailureStatus;
use crate::faults::{FaultInjector, FaultKind};
use crate::options::Options;
use crate::protobuf;
use crate::request::{self, Path, Query, RequestTarget, ResponseShape};
use crate::respond::{self, Body, RequestOutcome};
use crate::store::SharedStore;

/// The largest body that is read, as in kube-apiserver.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The first release that authorizes writes of the status of claims by field.
const GRANULAR_SINCE: u32 = 36;

/// The first release in which whoever forwards a port by a WebSocket needs the verb `create`, too: the feature gate
/// `AuthorizePodWebsocketUpgradeCreatePermission`.
const FORWARDING_CREATES_SINCE: u32 = 35;

/// What answers requests. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct ApiHandler {
    pub(crate) shared: Arc<SharedStore>,
    pub(crate) requests: Arc<RequestLog>,
    pub(crate) faults: Arc<FaultInjector>,
    pub(crate) access: Arc<AccessRules>,
    pub(crate) downtime: tokio::sync::mpsc::UnboundedSender<Duration>,
}

/// A request for objects, parsed.
#[derive(Debug)]
pub(crate) struct ObjectRequest {
    target: RequestTarget,
    query: Query,
    shape: ResponseShape,
    verb: &'static str,
    content_type: String,
}

impl ApiHandler {
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        certificate: Option<&RequestUser>,
    ) -> RequestOutcome {
        let (parts, body) = request.into_parts();
        match self.try_answer(&parts, body, certificate).await {
            Ok(answer) => answer,
            Err(failure) => respond::failure(&failure).into(),
        }
    }

    async fn try_answer(
        &self,
        parts: &Parts,
        body: Incoming,
        certificate: Option<&RequestUser>,
    ) -> Result<RequestOutcome, FailureStatus> {
        let authorization = parts.headers.get(header::AUTHORIZATION);
        let authorization = authorization.map(|value| value.to_str().unwrap_or_default());
        let caller = self.access.caller(authorization, certificate)?;
        match request::path(self.options(), parts.uri.path()) {
            Path::Other(path) => {
                let what = What::Path(parts.uri.path());
                let verb = parts.method.as_str().to_ascii_lowercase();
                self.requests.remember(&verb, what);
                self.access.check(&caller, &verb, what, None)?;
                self.other(parts, &path, body).await.map(RequestOutcome::from)
            }
            Path::Review { group, plural } => {
                let name = "";
                let what = What::Resource { group: &group, resource: &plural, namespace: "", name };
                self.requests.remember("create", what);
                self.access.check(&caller, "create", what, None)?;
                self.requests.count("create", plural.clone());
                self.with_faults("create", &plural, async {
                    if parts.method != Method::POST {
                        return Err(FailureStatus::method_not_allowed());
                    }
                    let review = object_of(&read_object(parts, body).await?)?;
                    self.review(&plural, &caller, review).map(|review| respond::json(201, &review))
                })
                .await
            }
            Path::Resource(target) => self.resource(parts, target, body, &caller).await,
        }
    }

    fn options(&self) -> &Options {
        &self.shared.options
    }

    /// A request for objects: counted, checked against the rights of the caller and the faults.
    async fn resource(
        &self,
        parts: &Parts,
        target: RequestTarget,
        body: Incoming,
        caller: &RequestUser,
    ) -> Result<RequestOutcome, FailureStatus> {
        let mut query = request::query(parts.uri.query().unwrap_or_default())?;
        let reads = [Method::GET, Method::HEAD].contains(&parts.method);
        query.watch &= reads;
        let verb = request::verb(&parts.method, target.name.is_some(), query.watch)
            .ok_or_else(FailureStatus::method_not_allowed)?;
        let kind = target.id.kind();
        let resource = with_subresource(kind.plural, &target.subresource);
        let what = What::Resource {
            group: target.served.group,
            resource: &resource,
            namespace: target.namespace(),
            name: target.name(),
        };
        self.requests.remember(verb, what);
        self.access.check(caller, verb, what, Some(kind.resource()))?;
        if let Some(synthetic) = self.also_needed(&target) {
            let what = What::Resource {
                group: target.served.group,
                resource: synthetic,
                namespace: target.namespace(),
                name: target.name(),
            };
            self.requests.remember(verb, what);
            self.access.check(caller, verb, what, Some(kind.resource()))?;
        }
        self.requests.count(verb, resource.clone());
        if resource == "pods/portforward" && verb == "get" {
            if FORWARDING_CREATES_SINCE <= self.options().release {
                self.access.check(caller, "create", what, Some(kind.resource()))?;
            }
            let forwarded = async { self.forward(parts, &target) };
            return self.with_faults(verb, &resource, forwarded).await;
        }
        let shape = request::shape(parts)?;
        let content_type = content_type_of(parts).to_owned();
        let asked = ObjectRequest { target, query, shape, verb, content_type };
        let answer = async {
            match verb {
                "watch" => self.watch(asked),
                "get" => self.get(&asked),
                "list" => self.list(&asked),
                _ => self.write(&asked, &read_object(parts, body).await?),
            }
        };
        self.with_faults(verb, &resource, answer).await
    }

    /// The resource for which the caller needs the same verb, too. As in resourceclaim/strategy.go of 1.36
    /// (`DRAResourceClaimGranularStatusAuthorization`). There it depends on the changed fields; here every write of the
    /// status counts as one of the allocation or the consumers, which are what a scheduler writes.
    fn also_needed(&self, target: &RequestTarget) -> Option<&'static str> {
        let is_status = target.id.kind().kind == "ResourceClaim" && target.subresource == "status";
        (is_status && GRANULAR_SINCE <= self.options().release).then_some("resourceclaims/binding")
    }

    /// Runs `request` with the faults that apply to it.
    async fn with_faults(
        &self,
        verb: &str,
        resource: &str,
        request: impl Future<Output = Result<Response<Body>, FailureStatus>>,
    ) -> Result<RequestOutcome, FailureStatus> {
        let plan = self.faults.plan(verb, resource);
        wait(plan.wait_before).await;
        if let Some(kind) = plan.before {
            return Ok(answer_of(kind));
        }
        let answer = request.await;
        wait(plan.wait_after).await;
        match plan.after {
            Some(kind) => Ok(answer_of(kind)),
            None => answer.map(RequestOutcome::from),
        }
    }

    /// Paths that are not objects: health, discovery, and the commands of tests to the server itself.
    async fn other(
        &self,
        parts: &Parts,
        path: &[String],
        body: Incoming,
    ) -> Result<Response<Body>, FailureStatus> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => Ok(respond::text(200, "ok")),
            ["testserver", what] => self.control(&parts.method, what, &read(body).await?),
            ["openapi", "v3", rest @ ..] => Ok(self.openapi(rest)),
            path => Ok(self.discovery(path, request::shape(parts)?)),
        }
    }
}

/// Waits. A wait of zero returns at once, not at the next tick of the timer.
async fn wait(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

fn answer_of(kind: FaultKind) -> RequestOutcome {
    let failure = match kind {
        FaultKind::Hangup => return RequestOutcome::Hangup,
        FaultKind::Reset => return RequestOutcome::Reset,
        FaultKind::Status(code) => FailureStatus::chosen(code, "a fault on demand"),
        FaultKind::TooManyRequests { retry_after } => FailureStatus::too_many_requests(
            "too many requests, please try again later",
            retry_after,
        ),
        // A delay is not an answer; it is already over.
        FaultKind::Slow(_) => FailureStatus::chosen(500, "a fault on demand"),
    };
    respond::failure(&failure).into()
}

/// Reads a body up to the limit.
async fn read(body: Incoming) -> Result<Bytes, FailureStatus> {
    let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(|error| {
        if error.downcast_ref::<LengthLimitError>().is_some() {
            FailureStatus::too_large(BODY_LIMIT)
        } else {
            FailureStatus::bad_request(format!("the body could not be read: {error}"))
        }
    })?;
    Ok(body.to_bytes())
}

fn content_type_of(parts: &Parts) -> &str {
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Reads a body and converts protobuf to JSON.
async fn read_object(parts: &Parts, body: Incoming) -> Result<Bytes, FailureStatus> {
    let body = read(body).await?;
    if content_type_of(parts) != protobuf::CONTENT_TYPE || body.is_empty() {
        return Ok(body);
    }
    let object = protobuf::to_json(&body);
    let object =
        object.map_err(|_| FailureStatus::unsupported_media_type(&["application/json"]))?;
    Ok(object.to_string().into())
}

/// A body that must be a JSON object.
fn object_of(body: &[u8]) -> Result<Value, FailureStatus> {
    let object: Value = serde_json::from_slice(body).map_err(|error| {
        FailureStatus::bad_request(format!("the object provided is unrecognized: {error}"))
    })?;
    match object {
        Value::Object(_) => Ok(object),
        _ => Err(FailureStatus::bad_request(
            "the object provided is unrecognized: it is no JSON object",
        )),
    }
}
