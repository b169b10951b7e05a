//! Discovers which kinds an API server has, and in which versions, by one request for each version of an
//! API group.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use plimsoll_api::KindRef;

use crate::api_resource::{ApiResource, group_path};
use crate::request::{GetError, get, whole};

/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a response.
const LIMIT: usize = 8 << 20;

/// The result of discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The kinds that the API server has.
    pub resources: Vec<ApiResource>,
    /// The kinds that it does not have in any supported version.
    pub missing: Vec<KindRef>,
}

/// Discovery failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not discover the kinds at {path}: {why}")]
pub struct DiscoveryError {
    /// The path of the request.
    pub path: String,
    /// Why it failed.
    pub why: String,
}

/// `v1 APIResourceList`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ApiResourceList {
    resources: Option<Vec<DiscoveredResource>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DiscoveredResource {
    name: String,
    verbs: Option<Vec<String>>,
}

/// Finds each of `kinds` in the best version that the API server has.
///
/// If the API server denies access to discovery (403), each kind is assumed to exist in its best version.
pub async fn discover(
    client: &kube::Client,
    kinds: &[KindRef],
) -> Result<Discovered, DiscoveryError> {
    let mut groups = BTreeMap::new();
    let mut discovered = Discovered::default();
    for &kind in kinds {
        let mut resource = None;
        for &api_version in kind.versions() {
            if !groups.contains_key(api_version) {
                groups.insert(api_version, discover_group(client, api_version).await?);
            }
            let has = match &groups[api_version] {
                GroupVersion::Unknown => true,
                GroupVersion::Plurals(plurals) => {
                    plurals.iter().any(|plural| plural == kind.plural())
                }
            };
            if has {
                resource = Some(ApiResource { kind, api_version });
                break;
            }
        }
        match resource {
            Some(resource) => discovered.resources.push(resource),
            None => discovered.missing.push(kind),
        }
    }
    Ok(discovered)
}

/// A version of an API group.
enum GroupVersion {
    /// It may have any kind.
    Unknown,
    /// The plurals of the kinds that can be listed and watched; empty if the version does not exist.
    Plurals(Vec<String>),
}

async fn discover_group(
    client: &kube::Client,
    api_version: &str,
) -> Result<GroupVersion, DiscoveryError> {
    let path = group_path(api_version);
    let failed = |why: String| DiscoveryError { path: path.clone(), why };
    let response = match get(client, &path, TIMEOUT).await {
        Ok(response) => response,
        Err(error) => {
            return match error.code() {
                Some(404) => Ok(GroupVersion::Plurals(Vec::new())),
                Some(403) => {
                    tracing::warn!(
                        path,
                        "no permission to discover the kinds of the API server; trying all of them"
                    );
                    Ok(GroupVersion::Unknown)
                }
                _ => Err(failed(error.to_string())),
            };
        }
    };
    let read = async {
        let body = whole(response.into_body(), LIMIT).await?;
        let list = serde_json::from_slice::<ApiResourceList>(&body);
        list.map_err(|error| {
            GetError::Broken(format!("the response is not an APIResourceList: {error}"))
        })
    };
    let list = read.await.map_err(|error| failed(error.to_string()))?;
    let is_readable = |resource: &DiscoveredResource| match &resource.verbs {
        Some(verbs) => ["list", "watch"].iter().all(|verb| verbs.iter().any(|one| one == verb)),
        None => true,
    };
    let resources = list.resources.unwrap_or_default().into_iter().filter(is_readable);
    Ok(GroupVersion::Plurals(resources.map(|resource| resource.name).collect()))
}
