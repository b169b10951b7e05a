//! The manifests that an answer is based on: those that the user may read in the API server, too.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_api::{KindRef, Kinds, ObjectKey, ResourceClaimTemplate};
use serde_json::Value;
use tokio::runtime::Handle;

use super::asker::Asker;
use crate::serve::ManifestError;
use crate::serve::advisor::ManifestSource;
use crate::serve::auth::{Access, AuthorizationResult, RequestUserInfo};
use crate::serve::server_state::ServerState;

/// At most so many objects are read for one question: the pods of a group, claims, and what belongs to a few nodes.
const MOST: usize = 2000;

type Found = Result<Option<Value>, ManifestError>;

/// Reads manifests for one question.
pub(super) struct AskedManifests {
    runtime: Handle,
    state: Arc<ServerState>,
    user: Arc<RequestUserInfo>,
    /// What was read already.
    found: Mutex<BTreeMap<(KindRef, ObjectKey), Found>>,
}

impl fmt::Debug for AskedManifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskedManifests").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl AskedManifests {
    /// Those that this user may read.
    pub(super) fn new(asker: &Asker) -> Self {
        AskedManifests {
            runtime: Handle::current(),
            state: asker.state.clone(),
            user: asker.user.clone(),
            found: Mutex::default(),
        }
    }

    async fn ask(&self, kind: KindRef, key: &ObjectKey) -> Found {
        // Most users may read all objects of a kind, or none.
        if !self.may_get(kind, &key.namespace, "").await?
            && !self.may_get(kind, &key.namespace, &key.name).await?
        {
            let (user, plural) = (&self.user.name, kind.plural());
            return Err(ManifestError(format!("user {user:?} may not get {plural} {key}")));
        }
        self.state.scheduler.manifest(kind, key.clone()).await
    }

    async fn may_get(
        &self,
        kind: KindRef,
        namespace: &str,
        name: &str,
    ) -> Result<bool, ManifestError> {
        let (group, resource) = (kind.group(), kind.plural());
        let access = Access::Resource { namespace, verb: "get", group, resource, name };
        match self.state.authorizer.may(&self.user, access).await {
            AuthorizationResult::Allowed => Ok(true),
            AuthorizationResult::Forbidden(_) => Ok(false),
            AuthorizationResult::Unknown(why) => Err(ManifestError(why)),
        }
    }
}

impl ManifestSource for AskedManifests {
    fn read(&self, kind: &str, key: &ObjectKey) -> Found {
        let kinds = Kinds::built_in().with(KindRef::of::<ResourceClaimTemplate>());
        let named = kinds.iter().find(|known| known.as_str() == kind);
        let named = named.ok_or_else(|| ManifestError(format!("{kind} is no known kind")))?;
        let place = (named, key.clone());
        let mut known = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&place) {
            return found.clone();
        }
        if MOST <= known.len() {
            return Err(ManifestError(format!("more than {MOST} objects would be read")));
        }
        let found = self.runtime.block_on(self.ask(named, key));
        known.insert(place, found.clone());
        found
    }
}
