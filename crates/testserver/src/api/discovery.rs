//! Discovery of what the server serves, in both ways that clients use: group by group, or all at once.

use http::Response;
use serde_json::{Value, json};

use super::ApiHandler;
use crate::kinds::{self, ResourceKind, ServedVersion, Trait};
use crate::options::Options;
use crate::request::ResponseShape;
use crate::respond::{self, Body};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Kinds of reviews, which are never stored: group, plural, kind, whether in a namespace.
const REVIEWS: &[(&str, &str, &str, bool)] = &[
    ("authentication.k8s.io", "tokenreviews", "TokenReview", false),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
];

/// One resource or subresource of a version.
#[derive(Debug)]
pub(super) struct Resource {
    /// `pods`, `pods/binding`.
    pub(super) name: String,
    singular: String,
    pub(super) namespaced: bool,
    pub(super) kind: &'static str,
    /// Group and version of the kind, if they are not those of the resource.
    foreign: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
    short: &'static [&'static str],
}

impl ApiHandler {
    pub(super) fn discovery(&self, path: &[&str], shape: ResponseShape) -> Response<Body> {
        let options = self.options();
        let aggregated = shape == ResponseShape::Groups && 30 <= options.release;
        match path {
            ["version"] => respond::json(200, &version(options)),
            [] => {
                respond::json(200, &json!({ "paths": ["/api", "/apis", "/healthz", "/version"] }))
            }
            ["api"] if aggregated => respond::json_as(AGGREGATED, &all_at_once(options, true)),
            ["apis"] if aggregated => respond::json_as(AGGREGATED, &all_at_once(options, false)),
            ["api"] => respond::json(
                200,
                &json!({
                    "kind": "APIVersions", "versions": ["v1"],
                    "serverAddressByClientCIDRs": [],
                }),
            ),
            ["apis"] => {
                let groups = groups(options);
                let groups = groups.iter().filter(|(group, _)| !group.is_empty());
                let groups: Vec<Value> =
                    groups.map(|(group, versions)| group_of(group, versions)).collect();
                let list = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups });
                respond::json(200, &list)
            }
            ["apis", wanted] => {
                let groups = groups(options);
                let found = groups.iter().find(|(group, _)| group == wanted);
                match found {
                    Some((group, versions)) => {
                        let mut group = group_of(group, versions);
                        group["kind"] = "APIGroup".into();
                        group["apiVersion"] = "v1".into();
                        respond::json(200, &group)
                    }
                    None => respond::no_such_path(),
                }
            }
            ["api", version] => resources_of(options, "", version),
            ["apis", group, version] => resources_of(options, group, version),
            _ => respond::no_such_path(),
        }
    }
}

fn version(options: &Options) -> Value {
    let release = options.release;
    json!({
        "major": "1", "minor": release.to_string(), "gitVersion": format!("v1.{release}.0"),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

/// The groups that are served, each with its versions, the preferred one first. The core group comes first.
pub(super) fn groups(options: &Options) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
    let mut add = |group: &'static str, version: &'static str| {
        let at = groups.iter().position(|(name, _)| *name == group).unwrap_or_else(|| {
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        if !groups[at].1.contains(&version) {
            groups[at].1.push(version);
        }
    };
    for (_, kind) in kinds::all() {
        for served in kind.served.iter().filter(|served| is_served(options, served)) {
            add(served.group, served.version);
        }
    }
    for (group, ..) in REVIEWS {
        add(group, "v1");
    }
    // Stable versions before others, newer before older.
    for (_, versions) in &mut groups {
        versions.sort_by_key(|version| (version.contains(['a', 'b']), std::cmp::Reverse(*version)));
    }
    groups
}

fn is_served(options: &Options, served: &ServedVersion) -> bool {
    served.is_served(options.release, &options.also, &options.without)
}

fn group_of(group: &str, versions: &[&str]) -> Value {
    let version =
        |version: &str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let all: Vec<Value> = versions.iter().map(|v| version(v)).collect();
    let preferred = all.first().cloned().unwrap_or_default();
    json!({ "name": group, "versions": all, "preferredVersion": preferred })
}

/// What one group and version has.
pub(super) fn resources(options: &Options, group: &str, version: &str) -> Vec<Resource> {
    let mut all = Vec::new();
    for (_, kind) in kinds::all() {
        let fits = |served: &&ServedVersion| {
            served.group == group && served.version == version && is_served(options, served)
        };
        if kind.served.iter().any(|served| fits(&served)) {
            add_kind(&mut all, kind);
        }
    }
    if version == "v1" {
        for (_, plural, kind, namespaced) in REVIEWS.iter().filter(|(g, ..)| *g == group) {
            all.push(Resource {
                name: (*plural).to_owned(),
                singular: kind.to_ascii_lowercase(),
                namespaced: *namespaced,
                kind,
                foreign: None,
                verbs: &["create"],
                short: &[],
            });
        }
    }
    all
}

fn add_kind(all: &mut Vec<Resource>, kind: &'static ResourceKind) {
    let main = Resource {
        name: kind.plural.to_owned(),
        singular: kind.kind.to_ascii_lowercase(),
        namespaced: kind.namespaced,
        kind: kind.kind,
        foreign: None,
        verbs: ALL_VERBS,
        short: kind.short,
    };
    let sub = |name: &str, kind_name: &'static str, verbs: &'static [&'static str]| Resource {
        name: format!("{}/{name}", kind.plural),
        singular: String::new(),
        namespaced: kind.namespaced,
        kind: kind_name,
        foreign: None,
        verbs,
        short: &[],
    };
    all.push(main);
    if kind.has(Trait::Status) {
        all.push(sub("status", kind.kind, &["get", "patch", "update"]));
    }
    if kind.kind == "Pod" {
        all.push(sub("binding", "Binding", &["create"]));
        let eviction = sub("eviction", "Eviction", &["create"]);
        all.push(Resource { foreign: Some(("policy", "v1")), ..eviction });
        all.push(sub("portforward", "PodPortForwardOptions", &["create", "get"]));
    }
}

fn resources_of(options: &Options, group: &str, version: &str) -> Response<Body> {
    let resources = resources(options, group, version);
    if resources.is_empty() {
        return respond::no_such_path();
    }
    let listed = resources.iter().map(|resource| {
        let mut value = json!({
            "name": resource.name, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs,
        });
        if !resource.short.is_empty() {
            value["shortNames"] = resource.short.into();
        }
        if let Some((group, version)) = resource.foreign {
            value["group"] = group.into();
            value["version"] = version.into();
        }
        value
    });
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let list = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": listed.collect::<Vec<_>>(),
    });
    respond::json(200, &list)
}

/// Aggregated discovery, version 2: of the core group alone, or of all others.
fn all_at_once(options: &Options, core: bool) -> Value {
    let groups = groups(options).into_iter().filter(|(group, _)| group.is_empty() == core);
    let items = groups.map(|(group, versions)| {
        let versions = versions.iter().map(|version| {
            let resources = resources(options, group, version);
            json!({
                "version": version, "freshness": "Current",
                "resources": nested(group, version, &resources),
            })
        });
        json!({ "metadata": { "name": group }, "versions": versions.collect::<Vec<_>>() })
    });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items.collect::<Vec<_>>(),
    })
}

/// Resources with their subresources inside.
fn nested(group: &str, version: &str, resources: &[Resource]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for resource in resources {
        let (kind_group, kind_version) = resource.foreign.unwrap_or((group, version));
        let kind = json!({ "group": kind_group, "version": kind_version, "kind": resource.kind });
        match resource.name.split_once('/') {
            Some((_, subresource)) => {
                let sub = json!({
                    "subresource": subresource, "responseKind": kind, "verbs": resource.verbs,
                });
                if let Some(parent) = all.last_mut() {
                    let mut subs = parent["subresources"].take();
                    if let Some(subs) = subs.as_array_mut() {
                        subs.push(sub);
                    } else {
                        subs = json!([sub]);
                    }
                    parent["subresources"] = subs;
                }
            }
            None => all.push(json!({
                "resource": resource.name, "responseKind": kind,
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular, "verbs": resource.verbs, "shortNames": resource.short,
            })),
        }
    }
    all
}
