//! DefaultBinder: binds pods.

use plimsoll_framework::prelude::*;

/// Binds every pod to its chosen node, with `pods/binding` of the API server.
///
/// It comes last, so that an earlier Bind plugin can bind some pods itself.
#[derive(Clone, Copy, Debug)]
pub struct DefaultBinder;

impl Plugin for DefaultBinder {
    const NAME: &'static str = "DefaultBinder";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        DefaultBinder
    }
}

impl Bind for DefaultBinder {
    fn bind(&self, at: &Placement<'_>, _: &mut Handle<'_>) -> Option<Binding> {
        Some(Binding { node: at.node.clone() })
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<DefaultBinder>().bind().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::HandleParts;

    use super::*;

    #[test]
    fn a_pod_is_bound_to_the_node_that_was_chosen() {
        let (pod, node) = (PodInfo::new(Pod::default()), Str::from("n1"));
        let (nodes, stores) = (Columns::default(), Stores::default());
        let view = View { nodes: &nodes, stores: &stores };
        let at = Placement { pod: &pod, node: &node, row: None, view };
        let mut parts = HandleParts::default();
        let binding = DefaultBinder.bind(&at, &mut parts.handle(DefaultBinder::NAME));
        assert_eq!(binding, Some(Binding { node: "n1".into() }));
    }
}
