//! Lists all objects of some kinds once, as the API server writes them.

use plimsoll_api::KindRef;

use crate::api_resource::ApiResource;
use crate::client::ReadOnlyConnection;
use crate::discovery::{Discovered, DiscoveryError, discover};
use crate::limit::Rate;
use crate::watch::list_texts;

/// The objects of one kind.
#[derive(Debug)]
pub struct KindListing {
    /// The kind.
    pub kind: KindRef,
    /// The API version of the objects.
    pub api_version: &'static str,
    /// Each object as JSON, or why they could not be listed.
    pub objects: Result<Vec<Box<str>>, Unlisted>,
}

/// Why the objects of a kind could not be listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unlisted {
    /// The message, with that of the API server.
    pub message: String,
    /// Whether the right to list them is missing.
    pub is_forbidden: bool,
}

/// All objects of some kinds.
#[derive(Debug)]
pub struct Listing {
    /// By kind, in the order in which the kinds were given.
    pub kinds: Vec<KindListing>,
    /// The kinds that the API server does not have.
    pub missing: Vec<KindRef>,
}

/// Lists all objects of `kinds`, one kind after another: objects of different kinds are not of exactly the same moment.
/// Pods that have ended are left out.
pub async fn list_all(
    connection: &ReadOnlyConnection,
    kinds: &[KindRef],
) -> Result<Listing, DiscoveryError> {
    let client = connection.client("snapshot", Rate::default());
    let Discovered { resources, missing } = discover(&client, kinds).await?;
    let mut listing = Listing { kinds: Vec::new(), missing };
    for resource in resources {
        let ApiResource { kind, api_version } = resource;
        let objects = list_texts(&client, resource).await.map_err(|error| Unlisted {
            is_forbidden: error.code() == Some(403),
            message: error.to_string(),
        });
        listing.kinds.push(KindListing { kind, api_version, objects });
    }
    Ok(listing)
}
