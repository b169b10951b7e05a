//! The part of OpenAPI v3 that `kubectl create` needs: it says that the server validates fields itself.

use http::Response;
use serde_json::{Map, Value, json};

use super::{ApiHandler, discovery};
use crate::respond::{self, Body};

impl ApiHandler {
    pub(super) fn openapi(&self, path: &[&str]) -> Response<Body> {
        match path {
            [] => {
                let mut paths = Map::new();
                for (group, versions) in discovery::groups(self.options()) {
                    for version in versions {
                        let path = root(group, version);
                        let url = json!({ "serverRelativeURL": format!("/openapi/v3/{path}") });
                        paths.insert(path, url);
                    }
                }
                respond::json(200, &json!({ "paths": paths }))
            }
            ["api", version] => self.schema("", version),
            ["apis", group, version] => self.schema(group, version),
            _ => respond::no_such_path(),
        }
    }

    fn schema(&self, group: &str, version: &str) -> Response<Body> {
        let parameter = |name: &str| {
            let kind = json!({ "type": "string", "uniqueItems": true });
            json!({ "name": name, "in": "query", "description": name, "schema": kind })
        };
        let resources = discovery::resources(self.options(), group, version);
        let paths = resources.iter().filter(|resource| !resource.name.contains('/'));
        let paths = paths.map(|resource| {
            let namespace = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
            let path = format!("/{}/{namespace}{}/{{name}}", root(group, version), resource.name);
            let operation = json!({
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": { "group": group, "version": version, "kind": resource.kind },
                "parameters": [parameter("dryRun"), parameter("fieldValidation")],
                "responses": { "200": { "description": "OK" } },
            });
            (path, json!({ "patch": operation }))
        });
        let paths: Map<String, Value> = paths.collect();
        let document = json!({
            "openapi": "3.0.0", "info": { "title": "Kubernetes", "version": "unversioned" },
            "paths": paths, "components": { "schemas": {} },
        });
        respond::json(200, &document)
    }
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}
