//! The Lease at the API server. As in resourcelock's leaselock.go.

use std::time::Duration;

use kube::Client;
use plimsoll_api::Str;
use serde::Deserialize;
use serde_json::{Value, json};

use super::record::LeaseRecord;
use crate::call::{self, ApiError, ApiRequest, segment};
use crate::client::Caller;
use crate::events::EventObject;
use crate::write;

/// The Lease.
pub(super) struct Lock {
    caller: Caller,
    namespace: String,
    name: String,
    timeout: Duration,
    /// The whole object as last received from the API server. Fields that others have set are kept.
    lease: Option<Value>,
}

impl Lock {
    pub(super) fn new(client: Client, namespace: &str, name: &str, timeout: Duration) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let caller = client.into();
        Lock { caller, namespace, name, timeout, lease: None }
    }

    /// Reads the Lease.
    pub(super) async fn get(&mut self) -> Result<LeaseRecord, ApiError> {
        let path = format!("{}/{}", self.collection(), segment(&self.name));
        self.send(&ApiRequest::get(path)).await
    }

    /// Creates the Lease.
    pub(super) async fn create(&mut self, record: &LeaseRecord) -> Result<(), ApiError> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "namespace": self.namespace, "name": self.name },
            "spec": record,
        });
        let request = ApiRequest::post(self.collection(), write::json(&lease));
        self.send(&request).await.map(|_| ())
    }

    /// Updates the Lease, if it has not changed since it was read.
    pub(super) async fn update(&mut self, record: &LeaseRecord) -> Result<(), ApiError> {
        let Some(lease) = &self.lease else {
            let text = "lease not initialized, call get or create first";
            return Err(ApiError::NotSent(text.to_owned()));
        };
        let mut lease = lease.clone();
        lease["spec"] = json!(record);
        let path = format!("{}/{}", self.collection(), segment(&self.name));
        let request = ApiRequest::put(path, write::json(&lease));
        self.send(&request).await.map(|_| ())
    }

    /// The Lease for events.
    pub(super) fn subject(&self) -> Option<EventObject> {
        let metadata = self.lease.as_ref()?.get("metadata")?;
        let text = |field: &str| Str::from(metadata[field].as_str().unwrap_or_default());
        Some(EventObject::Lease {
            namespace: Str::from(self.namespace.as_str()),
            name: Str::from(self.name.as_str()),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        })
    }

    async fn send(&mut self, request: &ApiRequest) -> Result<LeaseRecord, ApiError> {
        let body = call::send_and_read(&self.caller, request, self.timeout).await?;
        let unreadable = |why: serde_json::Error| ApiError::NoResponse(format!("{self}: {why}"));
        let lease: Value = serde_json::from_slice(&body).map_err(unreadable)?;
        let record = match lease.get("spec") {
            None | Some(Value::Null) => LeaseRecord::default(),
            Some(spec) => LeaseRecord::deserialize(spec).map_err(unreadable)?,
        };
        self.lease = Some(lease);
        Ok(record)
    }

    fn collection(&self) -> String {
        let namespace = segment(&self.namespace);
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
    }
}

impl std::fmt::Display for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
