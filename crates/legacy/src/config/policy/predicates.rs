//! Translates the predicates of a Policy to filters.

use std::collections::BTreeMap;

use plimsoll_config::Faults;
use plimsoll_document::FieldPath;

use super::names::{
    self, DEFAULT_PREDICATES, GONE_PREDICATES, LABEL_PRESENCE, MANDATORY_PREDICATES, PREDICATES,
    SERVICE_AFFINITY,
};
use super::profile::{Asking, Plan};
use super::types::{PredicateArgument, PredicatePolicy};
use super::{Custom, Notes};

/// Enables the filters that replace `predicates`, in the order of evaluation.
///
/// As in legacy_registry.go, ProcessPredicatePolicy and AppendPredicateConfigs.
pub(super) fn apply(
    predicates: Option<&[PredicatePolicy]>,
    plan: &mut Plan,
    custom: &mut Custom,
    notes: &mut Notes,
    faults: &mut Faults<'_>,
) {
    let list = FieldPath::root().key("predicates");
    let mut chosen: BTreeMap<&'static str, Asking> = BTreeMap::new();
    let mut choose = |name: &'static str, what: &str, field: &FieldPath| {
        let asking = || Asking { what: format!("predicate {what}"), field: field.clone() };
        chosen.entry(name).or_insert_with(asking);
    };
    match predicates {
        None => DEFAULT_PREDICATES.iter().for_each(|name| choose(name, name, &list)),
        Some(predicates) => {
            for (index, predicate) in predicates.iter().enumerate() {
                let field = list.index(index);
                for name in keys(predicate, &field, custom, notes, faults) {
                    choose(name, &predicate.name, &field);
                }
            }
        }
    }
    for name in MANDATORY_PREDICATES {
        choose(name, name, &list);
    }
    for predicate in &PREDICATES {
        let Some(asking) = chosen.get(predicate.name) else { continue };
        for (plugin, points) in predicate.plugins {
            points.iter().for_each(|&point| plan.enable(plugin, point, 0, asking));
        }
    }
}

/// The predicates of 1.20 that an entry means. Reports its errors.
fn keys(
    predicate: &PredicatePolicy,
    field: &FieldPath,
    custom: &mut Custom,
    notes: &mut Notes,
    faults: &mut Faults<'_>,
) -> Vec<&'static str> {
    let name = predicate.name.as_str();
    if name.is_empty() {
        faults.required(field.key("name"), "write the name of a predicate");
        return Vec::new();
    }
    if let Some(argument) = &predicate.argument {
        let n_args = [argument.service_affinity.is_some(), argument.labels_presence.is_some()];
        let n_args = n_args.into_iter().filter(|is_there| *is_there).count();
        if n_args != 1 {
            let message = format!(
                "exactly 1 predicate argument is required, numArgs: {n_args}, predicate {name:?}: \
                 keep one of serviceAffinity and labelsPresence, and write the other as an entry of \
                 its own"
            );
            faults.report(field.key("argument"), message);
            return Vec::new();
        }
    }
    if let Some(known) = PREDICATES.iter().find(|one| one.name == names::unaliased(name)) {
        if predicate.argument.is_some() {
            notes.ignored_argument("predicate", name, field);
        }
        return vec![known.name];
    }
    if let Some(gone) = GONE_PREDICATES.iter().find(|gone| gone.name == name) {
        let instead = gone.instead.join(" and ");
        let message = format!(
            "predicate {name:?} {}, so {instead} {} it",
            gone.why,
            if gone.instead.len() == 1 { "replaces" } else { "replace" },
        );
        notes.warn(field.key("name"), message);
        return gone.instead.to_vec();
    }
    if let Some(argument) = &predicate.argument {
        return vec![customised(argument, custom)];
    }
    unknown(name, field, faults);
    Vec::new()
}

fn customised(argument: &PredicateArgument, custom: &mut Custom) -> &'static str {
    if let Some(affinity) = &argument.service_affinity {
        custom.affinity_labels.extend_from_slice(&affinity.labels);
        return SERVICE_AFFINITY;
    }
    if let Some(presence) = &argument.labels_presence {
        let labels =
            if presence.presence { &mut custom.present_labels } else { &mut custom.absent_labels };
        labels.extend_from_slice(&presence.labels);
    }
    LABEL_PRESENCE
}

fn unknown(name: &str, field: &FieldPath, faults: &mut Faults<'_>) {
    let gone = GONE_PREDICATES.iter().map(|gone| gone.name);
    let known = PREDICATES.iter().map(|known| known.name).chain(gone);
    let advice = match names::nearest(name, known) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => {
            "a name of your own needs an argument, serviceAffinity or labelsPresence".to_owned()
        }
    };
    let message = format!("predicate type not found for {name:?}: {advice}");
    faults.report(field.key("name"), message);
}
