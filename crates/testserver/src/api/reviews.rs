//! TokenReview, SubjectAccessReview and SelfSubjectAccessReview, answered from the table of users.

use serde_json::{Value, json};

use super::ApiHandler;
use crate::access::{RequestUser, What};
use crate::counts::with_subresource;
use crate::failure::FailureStatus;
use crate::store::text;

impl ApiHandler {
    /// The review with its status filled in.
    pub(super) fn review(
        &self,
        plural: &str,
        caller: &RequestUser,
        mut review: Value,
    ) -> Result<Value, FailureStatus> {
        let status = match plural {
            "tokenreviews" => self.token_status(&review),
            "selfsubjectaccessreviews" => self.access_status(caller, &review),
            "subjectaccessreviews" | "localsubjectaccessreviews" => {
                self.access_status(&asked_about(&review), &review)
            }
            other => {
                return Err(FailureStatus::bad_request(format!("no review is called {other:?}")));
            }
        };
        review["status"] = status;
        // The answer does not repeat the token.
        if let Some(spec) = review.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("token");
        }
        Ok(review)
    }

    fn token_status(&self, review: &Value) -> Value {
        match self.access.user_of(text(review, "/spec/token")) {
            Some(user) => json!({
                "authenticated": true,
                "user": { "username": user.name, "uid": format!("uid-of-{}", user.name), "groups": user.groups },
            }),
            None => json!({ "user": {}, "error": "invalid bearer token" }),
        }
    }

    fn access_status(&self, user: &RequestUser, review: &Value) -> Value {
        let path = text(review, "/spec/nonResourceAttributes/path");
        let attribute = |name: &str| text(review, &format!("/spec/resourceAttributes/{name}"));
        let resource = with_subresource(attribute("resource"), attribute("subresource"));
        let (verb, what) = if path.is_empty() {
            let what = What::Resource {
                group: attribute("group"),
                resource: &resource,
                namespace: attribute("namespace"),
                name: attribute("name"),
            };
            (attribute("verb"), what)
        } else {
            (text(review, "/spec/nonResourceAttributes/verb"), What::Path(path))
        };
        json!({ "allowed": self.access.allows(user, verb, what) })
    }
}

/// The user that a review asks about.
fn asked_about(review: &Value) -> RequestUser {
    let groups = review.pointer("/spec/groups").and_then(Value::as_array);
    let groups = groups.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    RequestUser { name: text(review, "/spec/user").to_owned(), groups: groups.collect() }
}
