//! Warns about objects that are ignored, and why.

use std::collections::BTreeMap;

use plimsoll_api::Str;

/// Kinds for which controllers create pods.
const MAKE_PODS: [&str; 4] = ["Deployment", "DaemonSet", "Job", "CronJob"];

/// Counts objects of kinds that are not read.
#[derive(Debug, Default)]
pub(crate) struct Ignored(BTreeMap<(Str, Str), Count>);

#[derive(Debug, Default)]
struct Count {
    objects: usize,
    /// The files that contain them, in order.
    sources: Vec<String>,
}

impl Ignored {
    /// Counts an object.
    pub(crate) fn add(&mut self, source: &str, kind: Str, api_version: Str) {
        let count = self.0.entry((kind, api_version)).or_default();
        count.objects += 1;
        // The objects of one file are consecutive.
        if count.sources.last().is_none_or(|last| last != source) {
            count.sources.push(source.to_owned());
        }
    }

    /// One warning for each kind.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|((kind, api_version), count)| {
            let place = match count.sources.as_slice() {
                [one] => one.clone(),
                all => format!("{} and {} more", all[0], all.len() - 1),
            };
            let what = match count.objects {
                1 => format!("1 object of kind {kind} ({api_version})"),
                n => format!("{n} objects of kind {kind} ({api_version})"),
            };
            format!("{place}: {what} {}", effect(kind, count.objects))
        })
    }
}

fn effect(kind: &str, objects: usize) -> &'static str {
    let one = objects == 1;
    match kind {
        // Those in versions that are read do not get here.
        "PodGroup" if one => {
            "was ignored: this API version is not read; write it in scheduling.k8s.io/v1beta1, or in v1alpha2 for release 1.36"
        }
        "PodGroup" => {
            "were ignored: this API version is not read; write them in scheduling.k8s.io/v1beta1, or in v1alpha2 for release 1.36"
        }
        "CompositePodGroup" if one => {
            "was ignored: this API version is not read; write it in scheduling.k8s.io/v1alpha3"
        }
        "CompositePodGroup" => {
            "were ignored: this API version is not read; write them in scheduling.k8s.io/v1alpha3"
        }
        _ if MAKE_PODS.contains(&kind) && one => "was ignored: add the pods that it makes",
        _ if MAKE_PODS.contains(&kind) => "were ignored: add the pods that they make",
        "PriorityClass" if one => "was ignored: a pod's spec.priority counts",
        "PriorityClass" => "were ignored: a pod's spec.priority counts",
        _ if one => "does not affect scheduling and was ignored",
        _ => "do not affect scheduling and were ignored",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_warning_for_each_kind() {
        let mut ignored = Ignored::default();
        for (source, kind, api_version) in [
            ("a.yaml", "ConfigMap", "v1"),
            ("a.yaml", "PodGroup", "scheduling.volcano.sh/v1beta1"),
            ("b.yaml", "ConfigMap", "v1"),
            ("c.yaml", "ConfigMap", "v1"),
            ("c.yaml", "Deployment", "apps/v1"),
        ] {
            ignored.add(source, kind.into(), api_version.into());
        }
        let warnings: Vec<_> = ignored.warnings().collect();
        assert_eq!(
            warnings,
            [
                "a.yaml and 2 more: 3 objects of kind ConfigMap (v1) do not affect scheduling and \
                 were ignored",
                "c.yaml: 1 object of kind Deployment (apps/v1) was ignored: add the pods that it \
                 makes",
                "a.yaml: 1 object of kind PodGroup (scheduling.volcano.sh/v1beta1) was ignored: this API \
                 version is not read; write it in scheduling.k8s.io/v1beta1, or in v1alpha2 for release 1.36",
            ]
        );
    }
}
