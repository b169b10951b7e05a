//! PreferredTopology: a group is in the narrowest domain that has room for it.

use plimsoll_api::label_syntax::label_key_faults;
use plimsoll_api::pod_group::PREFERRED_TOPOLOGY;
use plimsoll_framework::prelude::*;

use crate::group_domains::{fixed_domain, must_exist, nested, nodes_in_use, required_domains};

/// The most keys that a group may prefer. Clusters have three or four levels.
const MOST_KEYS: usize = 8;

/// The name of the placement of all nodes, which no label can have as its value.
const ANYWHERE: &str = "*";

/// One placement for each domain of the labels that a group prefers, from the narrowest to the widest; then for each domain of
/// the label that it requires, or for all nodes if it requires none.
///
/// A group says in the annotation `plimsoll.io/preferred-topology` which labels it prefers. It is placed in a wider domain only
/// if no narrower one has room for it. Without the annotation the placements are those of `schedulingConstraints` alone, as
/// in kube-scheduler. Example: with `rack,block` a group is placed in one rack; if none has room, in one block; if none has room
/// either, on any nodes.
#[derive(Clone, Copy, Debug)]
pub struct PreferredTopology {
    gates: GroupGates,
}

impl Plugin for PreferredTopology {
    const NAME: &'static str = "PreferredTopology";
    type Args = NoArgs;
    fn new(_: NoArgs, gates: &FeatureGates) -> Self {
        PreferredTopology { gates: GroupGates::of(gates) }
    }
}

impl PlacementGenerate for PreferredTopology {
    fn placements(
        &self,
        group: &GroupInCycle<'_>,
        all: &[Row],
        view: &View<'_>,
    ) -> Result<Option<Vec<GroupPlacement>>, Reason> {
        if !self.gates.topology_aware {
            return Ok(None);
        }
        must_exist(group)?;
        let Some(text) = group.preferred_topology() else {
            return required_domains(group, all, view);
        };
        let mut keys = preferred_keys(text).map_err(|fault| {
            let kind = match group.composite {
                Some(_) => CompositePodGroup::NAME,
                None => PodGroup::NAME,
            };
            let (group, field) = (group.key, format!("metadata.annotations[{PREFERRED_TOPOLOGY}]"));
            format!("{kind} {group}: {field}: Invalid value: {:?}: {fault}", text.as_str())
        })?;
        let required = group.topology_key();
        let fixed = required.map_or(Ok(None), |key| fixed_domain(group, key, view))?;
        if let Some(required) = required {
            // No domain may be wider than that.
            keys.truncate(keys.iter().position(|key| key == required).unwrap_or(keys.len()));
            keys.push(required.clone());
        }
        let in_use = nodes_in_use(group, view)?;
        let mut placements = Vec::new();
        for (depth, mut domains) in nested(&keys, all, view).into_iter().enumerate() {
            let is_required = required.is_some() && depth == 0;
            // Pods that have nodes fix the domain, on every level where they are in one.
            domains.retain(|domain| {
                if is_required {
                    return fixed.as_ref().is_none_or(|fixed| *fixed == domain.name);
                }
                let rows = domain.rows.iter().filter(|&row| in_use.contains(row));
                rows.count() == in_use.len()
            });
            placements.extend(domains);
        }
        if required.is_none() {
            let name = Str::const_new(ANYWHERE);
            placements.push(GroupPlacement { name, rows: all.to_vec(), level: keys.len() });
        }
        Ok(Some(placements))
    }
}

/// The keys in the annotation, or what is wrong with it and what to do.
fn preferred_keys(text: &str) -> Result<Vec<Str>, String> {
    let mut keys = Vec::<Str>::new();
    for key in text.split(',').map(str::trim) {
        if !label_key_faults(key).is_empty() {
            return Err(format!(
                "list keys of labels of nodes, separated by commas, that of the narrowest domains first; {key:?} is none"
            ));
        }
        if keys.iter().any(|known| known == key) {
            return Err(format!("list each key once; {key:?} is there twice"));
        }
        keys.push(key.into());
    }
    if MOST_KEYS < keys.len() {
        let n = keys.len();
        return Err(format!("list at most {MOST_KEYS} keys of labels of nodes instead of {n}"));
    }
    Ok(keys)
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<PreferredTopology>()
        .reads_if::<Objects<PodGroup>>(|plugin| plugin.gates.topology_aware)
        .placement_generate()
        .done()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Node;

    use super::*;

    /// The placements of a group that prefers and requires these keys, each as `level name: nodes`. Nodes are like
    /// `zone=a,rack=r1`, and named n0, n1 and so on; those in `in_use` have pods of the group.
    fn placements(
        (preferred, required): (&str, Option<&str>),
        nodes: &[&str],
        in_use: &[usize],
    ) -> Result<String, String> {
        let (mut columns, mut stores) = (Columns::default(), Stores::default());
        for (number, labels) in nodes.iter().enumerate() {
            let labels = labels.split(',').filter_map(|label| label.split_once('='));
            let labels = labels.collect();
            columns.add(Node { name: format!("n{number}").into(), labels, ..Node::default() });
        }
        for node in in_use {
            let mut pod = Pod { key: PodKey::new("default", format!("p{node}")), ..Pod::default() };
            pod.scheduling_group = Some("train".into());
            stores.groups.is_placed(&PodInfo::new(pod).placed_on(format!("n{node}").into()));
        }
        let key = ObjectKey::new("default", "train");
        let object = PodGroup {
            topology: required.map(|key| vec![key.into()]),
            preferred_topology: Some(preferred.into()),
            ..PodGroup::default()
        };
        let group = GroupInCycle {
            key: &key,
            object: Some(&object),
            composite: None,
            leaves: std::slice::from_ref(&key),
            members: &[],
        };
        let gates = FeatureGates::default()
            .with("GenericWorkload", true)
            .with("TopologyAwareWorkloadScheduling", true);
        let all: Vec<Row> = columns.rows().collect();
        let view = View { nodes: &columns, stores: &stores };
        let placements = PreferredTopology::new(NoArgs::default(), &gates)
            .placements(&group, &all, &view)
            .map_err(|error| error.to_string())?;
        let mut placements = placements.expect("the gate is on");
        placements.sort_by(|a, b| (a.level, &a.name).cmp(&(b.level, &b.name)));
        let shown = placements.iter().map(|one| {
            let rows = one.rows.iter().map(|row| columns.name_of(*row).as_str());
            format!("{} {}: {}\n", one.level, one.name, rows.collect::<Vec<_>>().join(" "))
        });
        Ok(shown.collect())
    }

    const NODES: &[&str] = &["zone=a,rack=1", "zone=a,rack=2", "zone=b,rack=1", "zone=b", "rack=2"];

    #[test]
    fn narrow_domains_come_before_wide_ones_and_all_nodes_last() {
        let shown = placements(("rack, zone", None), NODES, &[]).expect("it is right");
        assert_eq!(
            shown,
            "0 a/1: n0\n0 a/2: n1\n0 b/1: n2\n1 a: n0 n1\n1 b: n2 n3\n2 *: n0 n1 n2 n3 n4\n"
        );
    }

    #[test]
    fn the_domains_that_are_required_are_the_widest() {
        let expected = "0 a/1: n0\n0 a/2: n1\n0 b/1: n2\n1 a: n0 n1\n1 b: n2 n3\n";
        for preferred in ["rack", "rack,zone", "rack,zone,region"] {
            let shown = placements((preferred, Some("zone")), NODES, &[]).expect("it is right");
            assert_eq!(shown, expected, "{preferred}");
        }
    }

    #[test]
    fn pods_on_nodes_fix_the_domains_that_they_share() {
        let within = |required, in_use: &[usize]| {
            placements(("rack,zone", required), NODES, in_use).expect("it is right")
        };
        assert_eq!(within(None, &[0]), "0 a/1: n0\n1 a: n0 n1\n2 *: n0 n1 n2 n3 n4\n");
        assert_eq!(within(None, &[0, 1]), "1 a: n0 n1\n2 *: n0 n1 n2 n3 n4\n");
        assert_eq!(within(None, &[0, 2]), "2 *: n0 n1 n2 n3 n4\n");
        assert_eq!(within(Some("zone"), &[2]), "0 b/1: n2\n1 b: n2 n3\n");
        assert_eq!(
            placements(("rack", Some("zone")), NODES, &[0, 2]),
            Err(
                "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: a, b"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_wrong_annotation_is_named_with_what_to_do() {
        let error = |preferred| placements((preferred, None), NODES, &[]).expect_err("it is wrong");
        let begin = "PodGroup default/train: metadata.annotations[plimsoll.io/preferred-topology]: Invalid value: ";
        for (text, key) in [("rack,", ""), ("", ""), ("rack;zone", "rack;zone"), ("a/b/c", "a/b/c")]
        {
            let says = "list keys of labels of nodes, separated by commas, that of the narrowest domains first";
            assert_eq!(error(text), format!("{begin}{text:?}: {says}; {key:?} is none"));
        }
        assert_eq!(
            error("rack,zone,rack"),
            format!("{begin}\"rack,zone,rack\": list each key once; \"rack\" is there twice")
        );
        let many = "a,b,c,d,e,f,g,h,i";
        assert_eq!(
            error(many),
            format!("{begin}{many:?}: list at most 8 keys of labels of nodes instead of 9")
        );
    }
}
