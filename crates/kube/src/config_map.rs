//! A ConfigMap of the cluster, for a configuration that stands in one.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::ObjectKey;

use crate::client::{Access, AccessError, RestMetrics, connect};
use crate::limit::Rate;
use crate::request::{Failure, get, whole};

/// How long the API server may take.
const WITHIN: Duration = Duration::from_secs(30);
/// An object is no larger than this in any API server.
const LIMIT: usize = 8 << 20;

/// Why a ConfigMap cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ConfigMapError {
    /// The API server cannot be reached that way.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// It does not give it.
    #[error("ConfigMap {key}: cannot be read: {why}")]
    Unread {
        /// Its name.
        key: ObjectKey,
        /// Why.
        why: String,
    },
}

/// Reads the ConfigMap `key`, as JSON.
pub async fn config_map(access: Access, key: &ObjectKey) -> Result<String, ConfigMapError> {
    let connection = connect(access, Arc::new(RestMetrics::default())).await?;
    let client = connection.client("config", Rate::default());
    let ObjectKey { namespace, name } = key;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let read = async {
        let answer = get(&client, &path, WITHIN).await?;
        let body = whole(answer.into_body(), LIMIT).await?;
        let text = String::from_utf8(body.to_vec());
        text.map_err(|_| Failure::Broken("the answer is no text".to_owned()))
    };
    read.await.map_err(|why| ConfigMapError::Unread { key: key.clone(), why: why.to_string() })
}
