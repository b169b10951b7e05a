//! The permissions that plugins need in the cluster: they follow from the kinds of objects that they read and write.

use std::collections::BTreeMap;
use std::io::{self, Write};

use plimsoll_api::{KindRef, Kinds, ResourceClaim};
use plimsoll_framework::{Entry, WriteVerbs};

/// Begins the manifests. `deploy/rbac.yaml` has the same ServiceAccount.
const HEAD: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: plimsoll-plugins
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: plimsoll-plugins
subjects:
- kind: ServiceAccount
  name: plimsoll
  namespace: kube-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: plimsoll-plugins
";

/// The verbs of a rule that reading takes.
const READ: [&str; 3] = ["get", "list", "watch"];

/// Prints a ClusterRole with a rule for each kind that these plugins bring or write, and its binding.
pub(super) fn print(out: &mut impl Write, plugins: &[&Entry]) -> io::Result<()> {
    let rules = rules(plugins);
    write!(out, "{HEAD}")?;
    if rules.is_empty() {
        return writeln!(out, "rules: []");
    }
    writeln!(out, "rules:")?;
    for ((group, resource), verbs) in rules {
        let verbs: Vec<_> = verbs.iter().map(|verb| format!("{verb:?}")).collect();
        writeln!(out, "- apiGroups: [{group:?}]\n  resources: [{resource:?}]")?;
        writeln!(out, "  verbs: [{}]", verbs.join(", "))?;
    }
    Ok(())
}

/// Verbs by group and resource. The kinds of Kubernetes may be read already.
fn rules(plugins: &[&Entry]) -> BTreeMap<(&'static str, String), Vec<&'static str>> {
    let mut rules = BTreeMap::<_, Vec<&str>>::new();
    let built_in: Vec<KindRef> = Kinds::built_in().iter().collect();
    let kinds = plugins.iter().flat_map(|entry| entry.kinds());
    for kind in kinds.filter(|kind| !built_in.contains(kind)) {
        rules.insert((kind.group(), kind.plural().to_owned()), READ.to_vec());
    }
    for (kind, verbs) in plugins.iter().flat_map(|entry| entry.writes()) {
        let (group, plural) = (kind.group(), kind.plural());
        for (written, resource, verb) in [
            (WriteVerbs::CREATE, plural.to_owned(), "create"),
            (WriteVerbs::UPDATE, plural.to_owned(), "update"),
            (WriteVerbs::PATCH, plural.to_owned(), "patch"),
            (WriteVerbs::PATCH_STATUS, format!("{plural}/status"), "patch"),
            (WriteVerbs::DELETE, plural.to_owned(), "delete"),
            // As in resourceclaim/strategy.go: since 1.36 whoever writes the allocation or the consumers of a claim
            // needs this, too. It is no path.
            (on_claims(*kind, WriteVerbs::PATCH_STATUS), format!("{plural}/binding"), "patch"),
        ] {
            if !written.is_empty() && verbs.contains(written) {
                let all = rules.entry((group, resource)).or_default();
                if !all.contains(&verb) {
                    all.push(verb);
                }
            }
        }
    }
    rules
}

/// These ways to write, if the kind is ResourceClaim.
fn on_claims(kind: KindRef, verbs: WriteVerbs) -> WriteVerbs {
    if kind.is::<ResourceClaim>() { verbs } else { WriteVerbs::empty() }
}
