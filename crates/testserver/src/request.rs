//! What a request asks for: its path, query and headers, read once.

use http::Method;
use http::request::Parts;

use crate::failure::FailureStatus;
use crate::kinds::{self, KindId, ServedVersion, StoredForm};
use crate::options::Options;

/// Where a path leads.
#[derive(Debug, Clone)]
pub(crate) enum Path {
    /// Objects of a kind.
    Resource(RequestTarget),
    /// A kind that is never stored, only answered: `subjectaccessreviews`.
    Review { group: String, plural: String },
    /// Anything else, in its parts.
    Other(Vec<String>),
}

/// The objects a path names.
#[derive(Debug, Clone)]
pub(crate) struct RequestTarget {
    pub(crate) id: KindId,
    pub(crate) served: &'static ServedVersion,
    pub(crate) api_version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: String,
}

impl RequestTarget {
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn form(&self) -> StoredForm {
        self.served.form
    }

    /// How objects of this group and version begin on the wire.
    pub(crate) fn head(&self) -> String {
        format!("{{\"kind\":{:?},\"apiVersion\":{:?},", self.id.kind().kind, self.api_version)
    }
}

/// Reads a path; what the options do not serve is [`Path::Other`].
pub(crate) fn path(options: &Options, text: &str) -> Path {
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
    let other = || Path::Other(parts.iter().map(|part| (*part).to_owned()).collect());
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return other(),
    };
    // `namespaces/ns/status` is a subresource of the namespace, `namespaces/ns/pods` are objects in it.
    let (namespace, rest) = match rest {
        ["namespaces", namespace, resource, more @ ..]
            if !(group.is_empty() && ["status", "finalize"].contains(resource)) =>
        {
            let mut rest = vec![*resource];
            rest.extend(more);
            (Some((*namespace).to_owned()), rest)
        }
        rest => (None, rest.to_vec()),
    };
    let (plural, name, subresource) = match rest.as_slice() {
        [plural] => (*plural, None, ""),
        [plural, name] => (*plural, Some((*name).to_owned()), ""),
        [plural, name, subresource] => (*plural, Some((*name).to_owned()), *subresource),
        _ => return other(),
    };
    if ["authentication.k8s.io", "authorization.k8s.io"].contains(&group) && version == "v1" {
        return Path::Review { group: group.to_owned(), plural: plural.to_owned() };
    }
    // The deprecated way to bind: POST to `bindings` of the namespace, with the pod's name in the
    // object.
    let (plural, subresource) = match (group, plural) {
        ("", "bindings") if name.is_none() => ("pods", "binding"),
        _ => (plural, subresource),
    };
    let found = kinds::all().filter(|(_, kind)| kind.plural == plural).find_map(|(id, kind)| {
        let fits = |served: &&ServedVersion| {
            served.group == group
                && served.version == version
                && served.is_served(options.release, &options.also, &options.without)
        };
        kind.served.iter().find(fits).map(|served| (id, served))
    });
    let Some((id, served)) = found.filter(|(id, _)| id.kind().namespaced || namespace.is_none())
    else {
        return other();
    };
    Path::Resource(RequestTarget {
        id,
        served,
        api_version: served.api_version(),
        namespace,
        name,
        subresource: subresource.to_owned(),
    })
}

/// The query parameters that the server knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    pub(crate) labels: String,
    pub(crate) fields: String,
    pub(crate) limit: usize,
    pub(crate) proceed: String,
    pub(crate) version: String,
    pub(crate) version_match: String,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) grace_seconds: Option<i64>,
}

/// Reads a query; unknown parameters are ignored, as in kube-apiserver.
pub(crate) fn query(text: &str) -> Result<Query, FailureStatus> {
    let mut query = Query::default();
    for (key, value) in form_urlencoded::parse(text.as_bytes()) {
        let number = |what: &str| {
            let wrong = || FailureStatus::bad_request(format!("{what}: Invalid value: {value:?}"));
            value.parse::<i64>().map_err(|_| wrong())
        };
        let is_true = matches!(&*value, "true" | "1" | "");
        match &*key {
            "labelSelector" => query.labels = value.into_owned(),
            "fieldSelector" => query.fields = value.into_owned(),
            "limit" => query.limit = usize::try_from(number("limit")?).unwrap_or(0),
            "continue" => query.proceed = value.into_owned(),
            "resourceVersion" => query.version = value.into_owned(),
            "resourceVersionMatch" => query.version_match = value.into_owned(),
            "watch" => query.watch = is_true,
            "allowWatchBookmarks" => query.bookmarks = is_true,
            "sendInitialEvents" => query.initial_events = Some(is_true),
            "timeoutSeconds" => query.timeout_seconds = u64::try_from(number("timeout")?).ok(),
            "dryRun" => query.dry_run = value == "All",
            "gracePeriodSeconds" => query.grace_seconds = Some(number("gracePeriodSeconds")?),
            _ => {}
        }
    }
    Ok(query)
}

/// The verb of a request in the words of RBAC. Bodies and answers are about one object where there is a name.
pub(crate) fn verb(method: &Method, has_name: bool, watch: bool) -> Option<&'static str> {
    Some(match *method {
        Method::GET | Method::HEAD if watch => "watch",
        Method::GET | Method::HEAD if has_name => "get",
        Method::GET | Method::HEAD => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if has_name => "delete",
        Method::DELETE => "deletecollection",
        _ => return None,
    })
}

/// The requested form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseShape {
    Object,
    /// Rows and columns, as `kubectl get` prints them.
    Table,
    /// `PartialObjectMetadata`: nothing but the metadata.
    Metadata,
    /// Discovery of all groups at once.
    Groups,
}

/// The first form the client accepts that the server can give.
pub(crate) fn shape(parts: &Parts) -> Result<ResponseShape, FailureStatus> {
    let Some(accept) = parts.headers.get(http::header::ACCEPT).and_then(|a| a.to_str().ok()) else {
        return Ok(ResponseShape::Object);
    };
    if accept.trim().is_empty() {
        return Ok(ResponseShape::Object);
    }
    let shapes = accept.split(',').filter_map(|range| {
        let mut parameters = range.split(';').map(str::trim);
        if !["application/json", "application/*", "*/*"].contains(&parameters.next()?) {
            return None;
        }
        let parameters: Vec<&str> = parameters.collect();
        let form = parameters.iter().find_map(|parameter| parameter.strip_prefix("as="));
        Some(match form {
            None => ResponseShape::Object,
            Some("Table") => ResponseShape::Table,
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => ResponseShape::Metadata,
            Some("APIGroupDiscoveryList") if parameters.contains(&"v=v2") => ResponseShape::Groups,
            Some(_) => return None,
        })
    });
    shapes.into_iter().next().ok_or_else(FailureStatus::not_acceptable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> RequestTarget {
        match path(&Options::default(), text) {
            Path::Resource(target) => target,
            other => panic!("{text} leads to {other:?}"),
        }
    }

    #[test]
    fn paths_lead_to_objects() {
        let pod = target("/api/v1/namespaces/ns/pods/p/binding");
        assert_eq!((pod.namespace(), pod.name(), &*pod.subresource), ("ns", "p", "binding"));
        assert_eq!(pod.head(), r#"{"kind":"Pod","apiVersion":"v1","#);
        let all = target("/apis/coordination.k8s.io/v1/leases");
        assert_eq!((all.namespace, all.name), (None, None));
        let namespace = target("/api/v1/namespaces/ns/status");
        assert_eq!((namespace.id.kind().kind, namespace.name()), ("Namespace", "ns"));
        assert_eq!(target("/api/v1/namespaces/ns").name(), "ns");
        assert_eq!(target("/api/v1/namespaces/ns/bindings").subresource, "binding");
        assert_eq!(target("/apis/events.k8s.io/v1/events").form(), StoredForm::Event);
    }

    #[test]
    fn what_is_not_served_leads_nowhere() {
        for text in [
            "/api/v1/things",
            "/apis/policy/v1beta1/poddisruptionbudgets",
            "/apis/apps/v1",
            "/api/v1/namespaces/ns/nodes/n",
            "/version",
        ] {
            assert!(matches!(path(&Options::default(), text), Path::Other(_)), "{text}");
        }
    }
}
