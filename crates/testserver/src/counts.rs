//! What the server has received and done, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::access::What;
use crate::kinds::ResourceKind;
use crate::store::SharedStore;

/// One write that took effect, in the order of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The resource version it made.
    pub version: u64,
    /// `create`, `update`, `patch`, `delete`; `apply` for what a test put there itself.
    pub verb: &'static str,
    /// `pods`, `pods/binding`, `leases`.
    pub resource: String,
    /// Empty for kinds of the cluster.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The object's uid.
    pub uid: String,
    /// Of a binding: the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Where a write comes from.
#[derive(Debug, Clone)]
pub(crate) struct RequestOrigin {
    pub(crate) verb: &'static str,
    pub(crate) subresource: &'static str,
    pub(crate) node: Option<String>,
}

impl RequestOrigin {
    pub(crate) fn new(verb: &'static str) -> Self {
        Self { verb, subresource: "", node: None }
    }

    pub(crate) fn at(verb: &'static str, subresource: &'static str) -> Self {
        Self { verb, subresource, node: None }
    }

    /// A write that a test makes directly.
    pub(crate) const DIRECT: Self = Self { verb: "apply", subresource: "", node: None };

    pub(crate) fn resource_of(&self, kind: &ResourceKind) -> String {
        with_subresource(kind.plural, self.subresource)
    }
}

/// `pods`, `pods/status`.
pub(crate) fn with_subresource(plural: &str, subresource: &str) -> String {
    match subresource {
        "" => plural.to_owned(),
        subresource => format!("{plural}/{subresource}"),
    }
}

/// What is written down under the lock of the store, so that it is in order.
#[derive(Debug)]
pub(crate) struct Ledger {
    applied: Vec<Applied>,
    /// How many are kept; later ones are only counted.
    limit: usize,
    beyond: u64,
    bindings: BTreeMap<String, Vec<String>>,
}

impl Ledger {
    pub(crate) fn new(limit: usize) -> Self {
        Self { applied: Vec::new(), limit, beyond: 0, bindings: BTreeMap::new() }
    }

    pub(crate) fn applied(&mut self, write: Applied) {
        if let Some(node) = &write.node {
            let pod = format!("{}/{}/{}", write.namespace, write.name, write.uid);
            self.bindings.entry(pod).or_default().push(node.clone());
        }
        if self.applied.len() < self.limit {
            self.applied.push(write);
        } else {
            self.beyond += 1;
        }
    }
}

/// What a request asked for, in terms of RBAC.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// `get`, `list`, `create`; for a path the method in lower case.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// `pods`, `pods/binding`; empty for a path.
    pub resource: String,
    /// Empty for all namespaces, and for kinds of the cluster.
    pub namespace: String,
    /// Empty if the request names no object.
    pub name: String,
    /// A non-resource path: `/apis`.
    pub path: String,
}

/// The most different requests that are remembered.
const REMEMBERED: usize = 100_000;

/// What was asked, by verb and resource, whether or not it was granted.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    counts: Mutex<BTreeMap<(&'static str, String), u64>>,
    /// `None` if they are not to be remembered.
    different: Option<Mutex<BTreeSet<Request>>>,
}

impl RequestLog {
    pub(crate) fn new(remember: bool) -> Self {
        Self { counts: Mutex::default(), different: remember.then(Mutex::default) }
    }

    pub(crate) fn count(&self, verb: &'static str, resource: String) {
        let mut requests = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((verb, resource)).or_default() += 1;
    }

    /// Remembers a request, if that is enabled.
    pub(crate) fn remember(&self, verb: &str, what: What<'_>) {
        let Some(different) = &self.different else { return };
        let mut request = Request { verb: verb.to_owned(), ..Request::default() };
        match what {
            What::Path(path) => path.clone_into(&mut request.path),
            What::Resource { group, resource, namespace, name } => {
                group.clone_into(&mut request.group);
                resource.clone_into(&mut request.resource);
                namespace.clone_into(&mut request.namespace);
                name.clone_into(&mut request.name);
            }
        }
        let mut different = different.lock().unwrap_or_else(PoisonError::into_inner);
        if different.len() < REMEMBERED {
            different.insert(request);
        }
    }
}

/// A look at the counters.
#[derive(Debug, Clone)]
pub struct RequestCounts {
    pub(crate) shared: Arc<SharedStore>,
    pub(crate) requests: Arc<RequestLog>,
}

impl RequestCounts {
    /// How often `verb` (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`) was requested for `resource` (`pods`, `pods/binding`), whatever the answer.
    pub fn requests(&self, verb: &str, resource: &str) -> u64 {
        let all = self.all_requests();
        all.into_iter().find(|(v, r, _)| *v == verb && r == resource).map_or(0, |(.., n)| n)
    }

    /// All requests: verb, resource, how many.
    pub fn all_requests(&self) -> Vec<(&'static str, String, u64)> {
        let requests = self.requests.counts.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().map(|((verb, resource), n)| (*verb, resource.clone(), *n)).collect()
    }

    /// Every different request, granted or not, up to a bound; none without
    /// [`Options::remember_requests`](crate::Options::remember_requests).
    pub fn different_requests(&self) -> Vec<Request> {
        let different = self.requests.different.as_ref();
        let different = different.map(|all| all.lock().unwrap_or_else(PoisonError::into_inner));
        different.into_iter().flat_map(|all| all.iter().cloned().collect::<Vec<_>>()).collect()
    }

    /// Every pod that was bound, as `namespace/name/uid`, with the nodes it was bound to, in order.
    /// There cannot be more than one node, since the server refuses that, but tests may want to check
    /// it.
    pub fn bindings(&self) -> BTreeMap<String, Vec<String>> {
        self.shared.lock().ledger.bindings.clone()
    }

    /// Every write that took effect, in order, up to the bound of the options.
    pub fn log(&self) -> Vec<Applied> {
        self.shared.lock().ledger.applied.clone()
    }

    /// How many writes came after the log was full.
    pub fn beyond_log(&self) -> u64 {
        self.shared.lock().ledger.beyond
    }
}
