//! Label selectors, compared with the definition of what they match.

use plimsoll_api::{Labels, PodDisruptionBudget, Selector, Test, wire};
use serde_json::{Value, json};

/// A label selector in JSON, with labels made from its own keys and values.
pub(crate) fn selectors(input: &[u8]) {
    let Ok(selector) = serde_json::from_slice::<Value>(input) else { return };
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": selector},
    });
    let Ok(object) = wire::object(&budget) else { return };
    let Some(budget) = object.get::<PodDisruptionBudget>() else { return };
    let selector = &budget.selector;
    let Selector::All(requirements) = selector else { return };
    let wanted: Labels = requirements
        .iter()
        .filter_map(|one| match &one.test {
            Test::In(values) | Test::NotIn(values) => {
                Some((one.key.clone(), values.first()?.clone()))
            }
            Test::Exists => Some((one.key.clone(), "".into())),
            _ => None,
        })
        .collect();
    for labels in [Labels::empty(), wanted] {
        let expected = requirements.iter().all(|one| {
            let value = labels.get(&one.key);
            match &one.test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => !value.is_some_and(|value| values.contains(value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
                Test::Gt(_) | Test::Lt(_) => {
                    panic!("label selectors of objects have no {:?}", one.test)
                }
            }
        });
        assert_eq!(selector.matches(&labels), expected, "{selector:?} on {labels:?}");
    }
}
