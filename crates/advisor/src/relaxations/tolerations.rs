//! Tolerations.

use plimsoll_api::Taint;
use serde_json::{Value, json};

/// Makes the pod tolerate taints.
pub(super) fn add(manifest: &mut Value, taints: &[Taint]) {
    let tolerations = &mut manifest["spec"]["tolerations"];
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    tolerations.extend(taints.iter().map(toleration));
}

/// The toleration of exactly this taint.
fn toleration(taint: &Taint) -> Value {
    let Taint { key, value, effect } = taint;
    let effect = effect.as_str();
    match value.as_str() {
        "" => json!({"key": key, "operator": "Exists", "effect": effect}),
        value => json!({"key": key, "operator": "Equal", "value": value, "effect": effect}),
    }
}

pub(super) fn text(taints: &[Taint]) -> String {
    let taints: Vec<_> = taints.iter().map(taint_text).collect();
    format!("tolerate {}", taints.join(" and "))
}

/// A taint as `kubectl taint` writes it.
pub(crate) fn taint_text(taint: &Taint) -> String {
    let Taint { key, value, effect } = taint;
    let equals = if value.is_empty() { "" } else { "=" };
    format!("{key}{equals}{value}:{}", effect.as_str())
}
