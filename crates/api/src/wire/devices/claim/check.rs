//! What the API server refuses of claims. As in validation.go of resource.k8s.io, validateDeviceClaim and
//! validateResourceClaimStatusUpdate.
//!
//! What a newer API server may know is kept: another kind of request, of constraint or of selector, another mode. It
//! concerns only the pods that need it, and kube-scheduler has messages for it.

use super::super::super::error::{Result, WireError, Within};
use super::super::super::primitive::List;
use super::super::{WireToleration, limits};
use super::{Devices, Status, WireConfig, WireConstraint, WireRequest};
use crate::Str;

const ONE_OF: &str = "exactly one of `exactly` or `firstAvailable` is required, but multiple \
                      fields are set: ask for one device after the other in `firstAvailable`";
const NO_REQUEST: &str = "must be the name of a request in the claim or the name of a request \
                          and a subrequest separated by '/'";
const ONE_ATTRIBUTE: &str = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is \
                             required, but multiple fields are set";

/// The name of a request, with those of its alternatives.
type Named<'a> = Vec<(&'a str, Vec<&'a str>)>;

impl Devices {
    pub(super) fn check(&self) -> Result<()> {
        let Devices { requests, constraints, config } = self;
        limits::at_most("requests", requests.0.len(), limits::REQUESTS)?;
        for (index, request) in requests.0.iter().enumerate() {
            request.check().within_item("requests", index)?;
        }
        limits::unique("requests", names(requests))?;
        let named = requests.0.iter().map(|request| {
            let name = request.name.as_deref().unwrap_or_default();
            (name, names(&request.first_available).collect())
        });
        let named: Named<'_> = named.collect();
        limits::at_most("constraints", constraints.0.len(), limits::CONSTRAINTS)?;
        for (index, constraint) in constraints.0.iter().enumerate() {
            constraint.check(&named).within_item("constraints", index)?;
        }
        limits::at_most("config", config.0.len(), limits::CONFIGS)?;
        for (index, one) in config.0.iter().enumerate() {
            one.check(&named).within_item("config", index)?;
        }
        Ok(())
    }
}

fn names(requests: &List<WireRequest>) -> impl Iterator<Item = &str> {
    requests.0.iter().map(|request| request.name.as_deref().unwrap_or_default())
}

impl WireRequest {
    fn check(&self) -> Result<()> {
        limits::label("name", self.name.as_ref())?;
        let alternatives = &self.first_available;
        if self.exactly.is_some() && !alternatives.0.is_empty() {
            return Err(WireError::new("", format!("Invalid value: null: {ONE_OF}")));
        }
        limits::at_most("firstAvailable", alternatives.0.len(), limits::ALTERNATIVES)?;
        for (index, one) in alternatives.0.iter().enumerate() {
            limits::label("name", one.name.as_ref())
                .and_then(|()| one.check_ask())
                .within_item("firstAvailable", index)?;
        }
        limits::unique("firstAvailable", names(alternatives))?;
        match &self.exactly {
            Some(exactly) => exactly.check_ask().within("exactly"),
            None => self.check_ask(),
        }
    }

    /// The fields of an exact request or an alternative.
    fn check_ask(&self) -> Result<()> {
        limits::selectors(&self.selectors)?;
        match (self.allocation_mode.as_deref(), self.count) {
            (Some("All"), Some(count)) if count != 0 => {
                let why = "must not be specified when allocationMode is 'All'";
                return Err(WireError::invalid("count", count, why));
            }
            (None | Some("" | "ExactCount"), Some(count)) if count < 0 => {
                return Err(WireError::invalid("count", count, "must be greater than zero"));
            }
            _ => {}
        }
        limits::at_most("tolerations", self.tolerations.0.len(), limits::TOLERATIONS)?;
        for (index, one) in self.tolerations.0.iter().enumerate() {
            check_toleration(one).within_item("tolerations", index)?;
        }
        Ok(())
    }
}

fn check_toleration(one: &WireToleration) -> Result<()> {
    let value = one.value.as_deref().unwrap_or_default();
    if one.operator.as_deref() == Some("Exists") && !value.is_empty() {
        return Err(WireError::invalid("value", value, "must be empty for operator `Exists`"));
    }
    Ok(())
}

impl WireConstraint {
    fn check(&self, named: &Named<'_>) -> Result<()> {
        check_references(&self.requests, named)?;
        match (&self.match_attribute, &self.distinct_attribute) {
            (Some(_), Some(_)) => {
                Err(WireError::new("", format!("Invalid value: null: {ONE_ATTRIBUTE}")))
            }
            (Some(name), None) => limits::fully_qualified("matchAttribute", name),
            (None, Some(name)) => limits::fully_qualified("distinctAttribute", name),
            (None, None) => Ok(()),
        }
    }
}

impl WireConfig {
    fn check(&self, named: &Named<'_>) -> Result<()> {
        check_references(&self.requests, named)
    }
}

/// Names of requests, in a constraint or a configuration.
fn check_references(requests: &List<Str>, named: &Named<'_>) -> Result<()> {
    limits::at_most("requests", requests.0.len(), limits::REQUESTS)?;
    for (index, name) in requests.0.iter().enumerate() {
        let (request, alternative) = match name.split_once('/') {
            Some((request, alternative)) => (request, Some(alternative)),
            None => (name.as_str(), None),
        };
        let is_known = named.iter().any(|(known, alternatives)| {
            *known == request && alternative.is_none_or(|one| alternatives.contains(&one))
        });
        if !is_known {
            let field = format!("requests[{index}]");
            return Err(WireError::invalid(&field, name.as_str(), NO_REQUEST));
        }
    }
    limits::unique("requests", requests.0.iter().map(Str::as_str))
}

impl Status {
    pub(super) fn check(&self) -> Result<()> {
        limits::at_most("reservedFor", self.reserved_for.0.len(), limits::CONSUMERS)?;
        let uids = self.reserved_for.0.iter();
        limits::unique("reservedFor", uids.map(|one| one.uid.as_deref().unwrap_or_default()))?;
        let devices = self.allocation.as_ref().and_then(|allocation| allocation.devices.as_ref());
        let n_results = devices.map_or(0, |devices| devices.results.0.len());
        limits::at_most("allocation.devices.results", n_results, limits::RESULTS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Spec, WireResourceClaim};
    use super::*;
    use crate::wire::Wire;
    use crate::wire::testing::table;

    /// Checks the error for each list of requests, with other fields after it; `""` if there is none.
    #[track_caller]
    fn refused(cases: &[(&str, &str)]) {
        for (devices, expected) in cases {
            let json = format!(r#"{{"devices":{{"requests":{devices}}}}}"#);
            table(Spec::take, &[(&json, expected)], |_| String::new());
        }
    }

    /// So many times this, numbered, with commas.
    fn times(n: usize, item: &str) -> String {
        let all: Vec<String> = (0..n).map(|n| item.replace('#', &n.to_string())).collect();
        all.join(",")
    }

    #[test]
    fn a_list_that_is_too_long_is_refused() {
        let requests = |n| format!("[{}]", times(n, r#"{"name":"r#","deviceClassName":"c"}"#));
        let alternatives = |n| {
            let all = times(n, r#"{"name":"s#","deviceClassName":"c"}"#);
            format!(r#"[{{"name":"r","firstAvailable":[{all}]}}]"#)
        };
        let selectors = |n| {
            let all = times(n, r#"{"cel":{"expression":"true"}}"#);
            format!(r#"[{{"name":"r","exactly":{{"deviceClassName":"c","selectors":[{all}]}}}}]"#)
        };
        let constraints =
            |n| format!(r#"[],"constraints":[{}]"#, times(n, r#"{"matchAttribute":"a.io/b"}"#));
        refused(&[
            (&requests(32), ""),
            (&requests(33), "devices.requests: Too many: 33: must have at most 32 items"),
            (&alternatives(8), ""),
            (
                &alternatives(9),
                "devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items",
            ),
            (&selectors(32), ""),
            (
                &selectors(33),
                "devices.requests[0].exactly.selectors: Too many: 33: must have at most 32 items",
            ),
            (&constraints(32), ""),
            (&constraints(33), "devices.constraints: Too many: 33: must have at most 32 items"),
        ]);
        let long = "x".repeat(10_241);
        let long = format!(r#"[{{"name":"r","selectors":[{{"cel":{{"expression":"{long}"}}}}]}}]"#);
        let why = "devices.requests[0].selectors[0].cel.expression: Too long: may not be more than 10240 bytes";
        refused(&[(&long, why)]);
    }

    #[test]
    fn each_request_and_alternative_has_a_name_of_its_own() {
        const RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
            characters or '-', and must start and end with an alphanumeric character (e.g. \
            'my-name',  or '123-abc', regex used for validation is \
            '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let wrong = format!(r#"devices.requests[0].name: Invalid value: "R 1": {RULE}"#);
        refused(&[
            (
                r#"[{"name":"r","exactly":{}},{"name":"r","exactly":{}}]"#,
                r#"devices.requests[1]: Duplicate value: "r": it must occur once"#,
            ),
            (
                r#"[{"name":"r","firstAvailable":[{"name":"s"},{"name":"s"}]}]"#,
                r#"devices.requests[0].firstAvailable[1]: Duplicate value: "s": it must occur once"#,
            ),
            (
                r#"[{"deviceClassName":"c"}]"#,
                "devices.requests[0].name: Required value: give it a name",
            ),
            (r#"[{"name":"R 1","deviceClassName":"c"}]"#, &wrong),
        ]);
    }

    #[test]
    fn a_count_does_not_contradict_the_mode() {
        let asks = |ask: &str| format!(r#"[{{"name":"r","exactly":{{{ask}}}}}]"#);
        refused(&[
            (&asks(r#""allocationMode":"All","count":0"#), ""),
            (
                &asks(r#""allocationMode":"All","count":2"#),
                "devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
            ),
            (
                &asks(r#""count":-1"#),
                "devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
            ),
            (
                &asks(r#""tolerations":[{"operator":"Exists","value":"v"}]"#),
                r#"devices.requests[0].exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`"#,
            ),
            (
                r#"[{"name":"r","exactly":{},"firstAvailable":[{"name":"s"}]}]"#,
                &format!("devices.requests[0]: Invalid value: null: {ONE_OF}"),
            ),
        ]);
    }

    #[test]
    fn constraints_and_configurations_name_requests_of_the_claim() {
        let with = |rest: &str| {
            format!(
                r#"[{{"name":"r","firstAvailable":[{{"name":"s"}}]}},{{"name":"t","exactly":{{}}}}],{rest}"#
            )
        };
        let known = r#""constraints":[{"requests":["r","r/s","t"],"matchAttribute":"a.io/b"}]"#;
        let both = r#""constraints":[{"matchAttribute":"a.io/b","distinctAttribute":"a.io/c"}]"#;
        let unknown = |field: &str, name: &str| {
            format!("devices.{field}.requests[0]: Invalid value: {name:?}: {NO_REQUEST}")
        };
        refused(&[
            (&with(known), ""),
            (
                &with(r#""constraints":[{"requests":["x"],"matchAttribute":"a.io/b"}]"#),
                &unknown("constraints[0]", "x"),
            ),
            (
                &with(r#""constraints":[{"requests":["t/s"],"matchAttribute":"a.io/b"}]"#),
                &unknown("constraints[0]", "t/s"),
            ),
            (&with(r#""config":[{"requests":["r/x"]}]"#), &unknown("config[0]", "r/x")),
            (
                &with(r#""config":[{"requests":["r","r"]}]"#),
                r#"devices.config[0].requests[1]: Duplicate value: "r": it must occur once"#,
            ),
            (&with(both), &format!("devices.constraints[0]: Invalid value: null: {ONE_ATTRIBUTE}")),
            (
                &with(r#""constraints":[{"matchAttribute":"model"}]"#),
                r#"devices.constraints[0].matchAttribute: Invalid value: "model": a fully qualified name must be a domain and a name separated by a slash"#,
            ),
        ]);
    }

    #[test]
    fn a_claim_has_at_most_256_consumers_and_32_devices() {
        let claim =
            |status: &str| format!(r#"{{"metadata":{{"name":"c"}},"status":{{{status}}}}}"#);
        let reserved = |n| {
            let all = times(n, r##"{"resource":"pods","name":"p#","uid":"u#"}"##);
            claim(&format!(r#""allocation":{{}},"reservedFor":[{all}]"#))
        };
        let allocated = |n| {
            let all = times(n, r##"{"request":"r","driver":"d","pool":"p","device":"x#"}"##);
            claim(&format!(r#""allocation":{{"devices":{{"results":[{all}]}}}}"#))
        };
        let twice = claim(r#""reservedFor":[{"uid":"u"},{"uid":"u"}]"#);
        for (json, expected) in [
            (reserved(256), ""),
            (reserved(257), "status.reservedFor: Too many: 257: must have at most 256 items"),
            (allocated(32), ""),
            (
                allocated(33),
                "status.allocation.devices.results: Too many: 33: must have at most 32 items",
            ),
            (twice, r#"status.reservedFor[1]: Duplicate value: "u": it must occur once"#),
        ] {
            table(WireResourceClaim::take, &[(&json, expected)], |_| String::new());
        }
    }
}
