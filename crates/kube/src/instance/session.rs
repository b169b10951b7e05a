//! Asks an instance through a forwarded port.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::Portforwarder;
use kube::client::Body;
use serde_json::Value;

use super::{Instance, InstanceError};
use crate::client::{DelegatedSession, explain};

/// How long it may take to reach the instance.
const REACHED_WITHIN: Duration = Duration::from_secs(40);
/// How long an answer may take: what would happen if a large cluster changed takes seconds.
const ANSWERED_WITHIN: Duration = Duration::from_mins(10);
/// The largest answer: a plan for half a million pods.
const ANSWER_BYTES: usize = 256 << 20;
/// How often a question is asked that the instance puts off because it is busy. It says how long to wait in between.
const TRIES: u32 = 60;
/// The longest time between two of these.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A connection to an instance.
pub struct InstanceSession {
    instance: Instance,
    session: DelegatedSession,
    /// Carries the bytes as long as it is there.
    _forwarder: Portforwarder,
}

impl fmt::Debug for InstanceSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceSession").field("instance", &self.instance).finish_non_exhaustive()
    }
}

/// What an instance answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceAnswer {
    /// The status.
    pub code: StatusCode,
    /// The body.
    pub body: Bytes,
}

impl InstanceAnswer {
    /// The message of an answer that is an error: that of a `Status`, or the whole text.
    pub fn message(&self) -> String {
        let status: Option<Value> = serde_json::from_slice(&self.body).ok();
        let message = status.as_ref().and_then(|status| status["message"].as_str());
        match message {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(&self.body).trim().to_owned(),
        }
    }
}

impl Instance {
    /// Connects to the instance.
    pub async fn open(&self) -> Result<InstanceSession, InstanceError> {
        let late = |_| self.unreachable(format!("no connection within {REACHED_WITHIN:?}"));
        tokio::time::timeout(REACHED_WITHIN, self.connect()).await.map_err(late)?
    }

    async fn connect(&self) -> Result<InstanceSession, InstanceError> {
        let client = self.connection.upgrading_client("kubectl");
        let pods: Api<Pod> = Api::namespaced(client, &self.namespace);
        let begun = pods.portforward(&self.pod, &[self.port]).await;
        let mut forwarder = begun.map_err(|error| self.not_forwarded(&error))?;
        let (stream, failed) = (forwarder.take_stream(self.port), forwarder.take_error(self.port));
        let (Some(stream), Some(failed)) = (stream, failed) else {
            return Err(self.unreachable("the port was not forwarded".to_owned()));
        };
        let failed = failed.fuse();
        tokio::pin!(failed);
        let session = tokio::select! {
            biased;
            Some(why) = &mut failed => return Err(self.unreachable(why.trim().to_owned())),
            session = self.connection.delegate(stream) => session,
        };
        match session {
            Ok(session) => {
                Ok(InstanceSession { instance: self.clone(), session, _forwarder: forwarder })
            }
            Err(error) => {
                // The node says why on a stream of its own, which may arrive later.
                let said = tokio::time::timeout(Duration::from_secs(1), failed).await;
                let why = said.ok().flatten().unwrap_or_else(|| explain(&*error));
                Err(self.unreachable(why.trim().to_owned()))
            }
        }
    }

    fn not_forwarded(&self, error: &kube::Error) -> InstanceError {
        let doing = format!("forward port {} of pod {}", self.port, self.name());
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                InstanceError::Forbidden { doing, why: status.message.clone() }
            }
            kube::Error::Api(status) => {
                InstanceError::ApiServer { doing, why: status.message.clone() }
            }
            other => InstanceError::ApiServer { doing, why: explain(other) },
        }
    }

    fn unreachable(&self, why: String) -> InstanceError {
        InstanceError::Unreachable { pod: self.name(), port: self.port, why }
    }
}

impl InstanceSession {
    /// Asks by `GET`. A busy instance is asked again.
    pub async fn get(&self, path: &str) -> Result<InstanceAnswer, InstanceError> {
        self.ask(&Method::GET, path, Vec::new()).await
    }

    /// Asks by `POST`, with a body in JSON. A busy instance is asked again.
    pub async fn post(&self, path: &str, body: &Value) -> Result<InstanceAnswer, InstanceError> {
        self.ask(&Method::POST, path, body.to_string().into_bytes()).await
    }

    /// The pod of the instance, as `namespace/name`.
    pub fn pod(&self) -> String {
        self.instance.name()
    }

    async fn ask(
        &self,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<InstanceAnswer, InstanceError> {
        let mut tries = 1;
        loop {
            let late =
                |_| self.instance.unreachable(format!("no answer within {ANSWERED_WITHIN:?}"));
            let asked = self.ask_once(method, path, body.clone());
            let (answer, wait) =
                tokio::time::timeout(ANSWERED_WITHIN, asked).await.map_err(late)??;
            let is_busy = answer.code == StatusCode::TOO_MANY_REQUESTS;
            match wait.filter(|_| is_busy && tries < TRIES) {
                Some(wait) => tokio::time::sleep(wait.min(LONGEST_WAIT)).await,
                None => return Ok(answer),
            }
            tries += 1;
        }
    }

    async fn ask_once(
        &self,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(InstanceAnswer, Option<Duration>), InstanceError> {
        let broken = |why: String| self.instance.unreachable(why);
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request =
            request.body(Body::from(body)).map_err(|error| broken(format!("{path}: {error}")))?;
        let response =
            self.session.send(request).await.map_err(|error| broken(explain(&*error)))?;
        let (code, headers) = (response.status(), response.headers().clone());
        let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => broken(format!("the answer is larger than {ANSWER_BYTES} bytes")),
            false => broken(explain(&*error)),
        })?;
        let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let answer = InstanceAnswer { code, body: body.to_bytes() };
        Ok((answer, seconds.map(Duration::from_secs)))
    }
}
