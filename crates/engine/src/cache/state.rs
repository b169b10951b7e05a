//! The cluster as text, so that tests can compare two states.

use super::Cache;
use crate::state::unordered;

impl Cache {
    /// All that the cache holds, in lines of text. What is derived from the rest is left out, and so are numbers that only tell
    /// whether something has changed.
    pub(crate) fn state(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in self.columns.rows() {
            let (node, pods) = (self.columns.node(row), self.columns.row_pods(row));
            let ids = &self.on_rows[row.index()];
            lines.push(format!("node {} in {row:?}: {node:?}", node.name));
            lines.push(format!("pods on {} with ids {ids:?}: {pods:?}", node.name));
        }
        let rows = self.rows.iter();
        lines.extend(rows.map(|(name, row)| format!("node {name} is found in {row:?}")));
        lines.push(format!("zones: {:?}", self.zones));
        lines.push(format!("nodes by zone: {:?}", self.rows_by_zone()));
        lines.push(format!("pods without a node: {:?}", self.homeless));
        lines.extend(self.pods.iter().map(|(id, pod)| format!("pod {id:?}: {pod:?}")));
        let objects = self.stores.objects.all();
        lines.extend(objects.map(|object| {
            let (kind, key) = (object.kind(), object.key());
            format!("object {kind:?} {key:?}: {:?}", self.stores.objects.entry(kind, &key))
        }));
        lines.push(format!("images: {:?}", self.stores.images));
        lines.push(format!("refused evictions: {:?}", self.stores.refused));
        lines.push(format!("labelled pods: {}", unordered(&self.stores.labelled)));
        lines.push(format!("groups of pods: {}", unordered(&self.stores.groups)));
        lines.push(format!("cycle of a group: {}", self.stores.objects.cycle()));
        lines
    }
}
