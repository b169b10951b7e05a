//! Answers to failed requests: a `Status` with the messages, reasons and codes of kube-apiserver (as in
//! apimachinery's `api/errors`).

use std::fmt::Display;

use serde_json::{Map, Value, json};

use crate::kinds::Qualified;

/// The message for a PUT with an old resource version.
pub(crate) const OBJECT_MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// An answer other than success.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct FailureStatus {
    /// The HTTP status.
    pub code: u16,
    /// `NotFound`, `Conflict`, ... ; empty where kube-apiserver gives none.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// `group`, `kind`, `name`, `uid`, `causes`, `retryAfterSeconds`.
    pub details: Map<String, Value>,
    /// The token to continue with, in the answer to an expired one.
    pub(crate) proceed: Option<String>,
}

impl FailureStatus {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Map::new(), proceed: None }
    }

    fn about(mut self, what: Qualified, name: &str) -> Self {
        let parts = [("group", what.group), ("kind", what.name), ("name", name)];
        for (key, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
            self.details.insert(key.to_owned(), value.into());
        }
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        if seconds != 0 {
            self.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        self
    }

    pub(crate) fn cause(mut self, reason: &str, message: impl Into<String>) -> Self {
        let mut cause = Map::new();
        if !reason.is_empty() {
            cause.insert("reason".to_owned(), reason.into());
        }
        cause.insert("message".to_owned(), message.into().into());
        self.push_cause(cause);
        self
    }

    fn push_cause(&mut self, cause: Map<String, Value>) {
        let causes = self.details.entry("causes").or_insert_with(|| json!([]));
        if let Value::Array(causes) = causes {
            causes.push(Value::Object(cause));
        }
    }

    /// Seconds after which the client may try again, for the header `Retry-After`.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The `Status` object that goes over the wire.
    pub fn to_status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.proceed {
            metadata.insert("continue".to_owned(), token.clone().into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }
}

/// One constructor for each of kube-apiserver's reasons.
impl FailureStatus {
    pub(crate) fn not_found(what: Qualified, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{what} {name:?} not found")).about(what, name)
    }

    pub(crate) fn already_exists(what: Qualified, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{what} {name:?} already exists")).about(what, name)
    }

    pub(crate) fn conflict(what: Qualified, name: &str, why: impl Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(what, name)
    }

    pub(crate) fn forbidden(what: Qualified, name: &str, why: impl Display) -> Self {
        let message = match name {
            "" => format!("{what} is forbidden: {why}"),
            name => format!("{what} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(what, name)
    }

    /// `what` is the kind; `errors` are field, type (`FieldValueInvalid`, ...) and body.
    pub(crate) fn invalid(what: Qualified, name: &str, errors: &[FieldError]) -> Self {
        let text = |error: &FieldError| format!("{}: {}", error.field, error.body);
        let all = match errors {
            [one] => text(one),
            many => format!("[{}]", many.iter().map(text).collect::<Vec<_>>().join(", ")),
        };
        let message = format!("{what} {name:?} is invalid: {all}");
        let mut failure = Self::new(422, "Invalid", message).about(what, name);
        for error in errors {
            let cause =
                json!({ "reason": error.reason, "message": error.body, "field": error.field });
            if let Value::Object(cause) = cause {
                failure.push_cause(cause);
            }
        }
        failure
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// As kube-apiserver refuses a request for which the user has no right; `message` is the whole
    /// message.
    pub(crate) fn no_right(what: Option<Qualified>, name: &str, message: String) -> Self {
        let failure = Self::new(403, "Forbidden", message);
        match what {
            Some(what) => failure.about(what, name),
            None => failure,
        }
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn timeout(message: &str, retry_after: u32) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {message}")).retry_after(retry_after)
    }

    pub(crate) fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::new(429, "TooManyRequests", message).retry_after(retry_after)
    }

    /// A code that the test chooses.
    pub(crate) fn chosen(code: u16, message: &str) -> Self {
        let reason = match code {
            503 => "ServiceUnavailable",
            504 => "Timeout",
            500 => "InternalError",
            _ => "",
        };
        Self::new(code, reason, message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// `limit` in bytes.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// A JSON patch that does not apply.
    pub(crate) fn patch_refused() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message)
    }

    /// A failure without a reason, such as that of evicting a pod that two budgets cover.
    pub(crate) fn plain(code: u16, message: &str) -> Self {
        Self::new(code, "", message)
    }
}

/// What is wrong with one field.
#[derive(Debug, Clone)]
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) reason: &'static str,
    pub(crate) body: String,
}

impl FieldError {
    pub(crate) fn required(field: &str, detail: &str) -> Self {
        let body = match detail {
            "" => "Required value".to_owned(),
            detail => format!("Required value: {detail}"),
        };
        Self { field: field.to_owned(), reason: "FieldValueRequired", body }
    }

    /// `value` as Go prints it: quoted if it is text.
    pub(crate) fn invalid(field: &str, value: impl Display, detail: &str) -> Self {
        let body = format!("Invalid value: {value}: {detail}");
        Self { field: field.to_owned(), reason: "FieldValueInvalid", body }
    }

    pub(crate) fn forbidden(field: &str, detail: &str) -> Self {
        let body = format!("Forbidden: {detail}");
        Self { field: field.to_owned(), reason: "FieldValueForbidden", body }
    }

    pub(crate) fn too_many(field: &str, n: usize, most: usize) -> Self {
        let body = format!("Too many: {n}: must have at most {most} items");
        Self { field: field.to_owned(), reason: "FieldValueTooMany", body }
    }

    pub(crate) fn duplicate(field: &str, value: &str) -> Self {
        let body = format!("Duplicate value: {value:?}");
        Self { field: field.to_owned(), reason: "FieldValueDuplicate", body }
    }

    pub(crate) fn not_supported(field: &str, value: &str, supported: &str) -> Self {
        let body = format!("Unsupported value: {value:?}: supported values: {supported}");
        Self { field: field.to_owned(), reason: "FieldValueNotSupported", body }
    }
}
