//! What extenders are to the engine.

use plimsoll_config::Extender;
use plimsoll_engine::extenders::ExtenderVerb;

/// What the engine knows of an extender.
pub fn for_engine(extender: &Extender) -> plimsoll_engine::Extender {
    let verbs = [
        (ExtenderVerb::Filter, &extender.filter_verb),
        (ExtenderVerb::Prioritize, &extender.prioritize_verb),
        (ExtenderVerb::Preempt, &extender.preempt_verb),
        (ExtenderVerb::Bind, &extender.bind_verb),
    ];
    let verbs = verbs.into_iter().filter(|(_, name)| !name.is_empty());
    let managed = extender.managed_resources.iter().map(|resource| resource.name.as_str().into());
    plimsoll_engine::Extender {
        name: extender.url_prefix.as_str().into(),
        verbs: verbs.map(|(verb, _)| verb).collect(),
        weight: extender.weight,
        ignorable: extender.ignorable,
        managed_resources: managed.collect(),
        timeout: extender.timeout(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use plimsoll_config::ManagedResource;

    use super::*;

    #[test]
    fn an_extender_does_what_it_has_verbs_for() {
        let extender = Extender {
            url_prefix: "http://e".to_owned(),
            filter_verb: "f".to_owned(),
            bind_verb: "b".to_owned(),
            weight: 7,
            managed_resources: vec![ManagedResource {
                name: "x/y".to_owned(),
                ignored_by_scheduler: false,
            }],
            ..Extender::default()
        };
        let expected = plimsoll_engine::Extender {
            name: "http://e".into(),
            verbs: BTreeSet::from([ExtenderVerb::Filter, ExtenderVerb::Bind]),
            weight: 7,
            ignorable: false,
            managed_resources: BTreeSet::from(["x/y".into()]),
            timeout: Duration::from_secs(5),
        };
        assert_eq!(for_engine(&extender), expected);
    }
}
