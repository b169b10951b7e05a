//! Warns of selectors of devices that the API server would refuse. kube-scheduler reports the first kind, expressions that
//! do not compile, only for pods that need the device, and knows nothing of the second, those that may cost too much.

use std::collections::BTreeSet;

use plimsoll_api::devices::{ClaimSpec, DeviceAsk, RequestKind};
use plimsoll_api::{AnyObject, DeviceClass, ResourceClaim, ResourceClaimTemplate, Str};
use plimsoll_plugins::selector_fault;

/// At most this many warnings are printed.
const MOST: usize = 10;

/// What is wrong with selectors. Objects that are made from one template repeat its expressions, so the first place of
/// each counts.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    seen: BTreeSet<Str>,
    warnings: Vec<String>,
}

impl Selectors {
    /// Looks at the selectors of an object of `source`.
    pub(super) fn add(&mut self, source: &str, object: &AnyObject) {
        let place = format!("{source}: {} {}", object.kind(), object.key());
        if let Some(class) = object.get::<DeviceClass>() {
            self.add_all(&place, "spec", &class.selectors);
        } else if let Some(claim) = object.get::<ResourceClaim>() {
            self.add_spec(&place, "spec", &claim.spec);
        } else if let Some(template) = object.get::<ResourceClaimTemplate>() {
            self.add_spec(&place, "spec.spec", &template.spec);
        }
    }

    /// One warning for each expression, and how many more there are.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let more = self.warnings.len().saturating_sub(MOST);
        let rest = (0 < more).then(|| format!("{more} more selectors are wrong"));
        self.warnings.iter().take(MOST).cloned().chain(rest)
    }

    fn add_spec(&mut self, place: &str, field: &str, spec: &ClaimSpec) {
        for (index, request) in spec.requests.iter().enumerate() {
            let field = format!("{field}.devices.requests[{index}]");
            let mut add = |field: &str, ask: &DeviceAsk| self.add_all(place, field, &ask.selectors);
            match &request.kind {
                RequestKind::Exactly { ask, .. } => add(&format!("{field}.exactly"), ask),
                RequestKind::FirstAvailable(alternatives) => {
                    for (index, one) in alternatives.iter().enumerate() {
                        add(&format!("{field}.firstAvailable[{index}]"), &one.ask);
                    }
                }
                RequestKind::Unknown => {}
            }
        }
    }

    fn add_all(&mut self, place: &str, field: &str, selectors: &[Option<Str>]) {
        for (index, expression) in selectors.iter().enumerate() {
            let Some(expression) = expression else { continue };
            if self.seen.contains(expression) {
                continue;
            }
            self.seen.insert(expression.clone());
            if let Some(fault) = selector_fault(expression) {
                let field = format!("{field}.selectors[{index}].cel.expression");
                self.warnings.push(format!("{place}: {field}: {fault}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(objects: impl IntoIterator<Item = AnyObject>) -> Vec<String> {
        let mut selectors = Selectors::default();
        for object in objects {
            selectors.add("devices.yaml", &object);
        }
        selectors.warnings().collect()
    }

    fn class(name: &str, expression: &str) -> AnyObject {
        let selectors = vec![Some(expression.into())];
        AnyObject::new(DeviceClass { name: name.into(), selectors, ..DeviceClass::default() })
    }

    #[test]
    fn each_expression_that_the_api_server_refuses_is_named_once() {
        let text = r#"device.attributes["a"].b.all(x, device.attributes["a"].c.contains(x))"#;
        assert_eq!(
            warnings([
                class("fine", "device.driver == 'a'"),
                class("broken", "device.foo == 1"),
                class("again", "device.foo == 1"),
                class("costly", &format!("device.attributes.all(d, {text})")),
            ]),
            [
                "devices.yaml: DeviceClass broken: spec.selectors[0].cel.expression: Invalid value: compilation \
                 failed: ERROR: <input>:1:7: undefined field 'foo': the API server refuses it, and pods that need \
                 it are not scheduled",
                "devices.yaml: DeviceClass costly: spec.selectors[0].cel.expression: Forbidden: too complex, \
                 exceeds cost limit: the API server refuses it, since it may cost 18446744073709551615 and at most \
                 1000000 are allowed; loop over less, or compare shorter texts",
            ]
        );
    }

    #[test]
    fn many_warnings_are_cut_short() {
        let many = (0..12).map(|n| class("broken", &format!("device.foo == {n}")));
        let warnings = warnings(many);
        assert_eq!((warnings.len(), warnings[10].as_str()), (11, "2 more selectors are wrong"));
    }
}
