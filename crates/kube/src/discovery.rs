//! Which kinds an API server has, and in which version: it is asked, once for each version of an API
//! group.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use plimsoll_api::KindRef;

use crate::place::{Place, group_path};
use crate::request::{Failure, get, whole};

/// How long the server may take to say what it has.
const WITHIN: Duration = Duration::from_secs(30);
/// How much it may say of one version of a group.
const LIMIT: usize = 8 << 20;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Where the kinds are that the server has.
    pub places: Vec<Place>,
    /// The kinds that it has not, in any version that is read.
    pub missing: Vec<KindRef>,
}

/// Why a server did not say what it has, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server does not say which kinds it has at {path}: {why}")]
pub struct DiscoveryError {
    /// What was asked for.
    pub path: String,
    /// Why there is no answer.
    pub why: String,
}

/// `v1 APIResourceList`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceList {
    resources: Option<Vec<Resource>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resource {
    name: String,
    verbs: Option<Vec<String>>,
}

/// Asks the server for `kinds`, each in its best version that the server has.
///
/// An error if it cannot be asked. A server that refuses to say it to us (403) is taken to have the best
/// version of everything; a list will show.
pub async fn discover(client: &kube::Client, kinds: &[KindRef]) -> Result<Found, DiscoveryError> {
    let mut groups = BTreeMap::new();
    let mut found = Found::default();
    for &kind in kinds {
        let mut place = None;
        for &api_version in kind.versions() {
            if !groups.contains_key(api_version) {
                groups.insert(api_version, ask(client, api_version).await?);
            }
            let has = match &groups[api_version] {
                Group::Unknown => true,
                Group::Has(plurals) => plurals.iter().any(|plural| plural == kind.plural()),
            };
            if has {
                place = Some(Place { kind, api_version });
                break;
            }
        }
        match place {
            Some(place) => found.places.push(place),
            None => found.missing.push(kind),
        }
    }
    Ok(found)
}

/// A version of an API group.
enum Group {
    /// It may have anything.
    Unknown,
    /// The plurals of the kinds that can be listed and watched; none where there is no such version.
    Has(Vec<String>),
}

async fn ask(client: &kube::Client, api_version: &str) -> Result<Group, DiscoveryError> {
    let path = group_path(api_version);
    let failed = |why: String| DiscoveryError { path: path.clone(), why };
    let answer = match get(client, &path, WITHIN).await {
        Ok(answer) => answer,
        Err(failure) => {
            return match failure.code() {
                Some(404) => Ok(Group::Has(Vec::new())),
                Some(403) => {
                    tracing::warn!(
                        path,
                        "could not discover the kinds of the API server; trying all of them"
                    );
                    Ok(Group::Unknown)
                }
                _ => Err(failed(failure.to_string())),
            };
        }
    };
    let read = async {
        let body = whole(answer.into_body(), LIMIT).await?;
        let list = serde_json::from_slice::<ResourceList>(&body);
        list.map_err(|error| Failure::Broken(format!("the answer is no APIResourceList: {error}")))
    };
    let list = read.await.map_err(|failure| failed(failure.to_string()))?;
    let can_be_read = |resource: &Resource| match &resource.verbs {
        Some(verbs) => ["list", "watch"].iter().all(|verb| verbs.iter().any(|one| one == verb)),
        None => true,
    };
    let resources = list.resources.unwrap_or_default().into_iter().filter(can_be_read);
    Ok(Group::Has(resources.map(|resource| resource.name).collect()))
}
