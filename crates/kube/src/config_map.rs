//! Reads a ConfigMap that contains a configuration.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::ObjectKey;

use crate::client::{Access, AccessError, RestMetrics, connect_read_only};
use crate::limit::Rate;
use crate::request::{GetError, get, whole};

/// The timeout of the request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of the response. No API server stores larger objects.
const LIMIT: usize = 8 << 20;

/// A ConfigMap that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigMapError {
    /// The access to the API server is invalid.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The request failed.
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
    let connection = connect_read_only(access, Arc::new(RestMetrics::default())).await?;
    let client = connection.client("config", Rate::default());
    let ObjectKey { namespace, name } = key;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let read = async {
        let response = get(&client, &path, TIMEOUT).await?;
        let body = whole(response.into_body(), LIMIT).await?;
        let text = String::from_utf8(body.to_vec());
        text.map_err(|_| GetError::Broken("the response is not text".to_owned()))
    };
    read.await.map_err(|why| ConfigMapError::Unread { key: key.clone(), why: why.to_string() })
}
