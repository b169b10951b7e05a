//! The release for which the groups of pods in files were written.

use std::fmt;

use plimsoll_framework::Release;

use super::fault::Fault;
use super::objects;
use super::source::Source;
use crate::faults::Faults;
use crate::notices;

const KINDS: [&str; 2] = ["PodGroup", "CompositePodGroup"];
/// The API versions of groups, and the release whose API server serves them.
const VERSIONS: [(&str, Release); 3] = [
    ("scheduling.k8s.io/v1alpha2", Release::V1_36),
    ("scheduling.k8s.io/v1alpha3", Release::V1_37),
    ("scheduling.k8s.io/v1beta1", Release::V1_37),
];

/// The first group in an API version that a release serves.
#[derive(Debug)]
struct Served {
    release: Release,
    version: String,
    source_name: String,
    line: Option<usize>,
    object: String,
}

/// `FILE:LINE: KIND NAMESPACE/NAME`
impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Served { source_name, line, object, .. } = self;
        match line {
            Some(line) => write!(f, "{source_name}:{line}: {object}"),
            None => write!(f, "{source_name}: {object}"),
        }
    }
}

/// The release that decides: the given one, or else the one that serves the API versions of the groups in the files; `None` if
/// there is no group. Says so if the files choose another release than the newest, and warns if the given one does not serve
/// their groups.
///
/// Without a given release it is an error if no release serves all groups.
pub(crate) fn deciding<'s>(
    given: Option<Release>,
    sources: impl IntoIterator<Item = &'s Source>,
) -> anyhow::Result<Option<Release>> {
    let served = first_of_each(sources);
    if let Some(given) = given {
        for one in served.iter().filter(|one| one.release != given) {
            notices::warning(format_args!(
                "{one}: apiVersion: {} is of release {}, and --emulated-version {given} decides: groups of pods are decided by \
                 the rules of {given}",
                one.version, one.release
            ));
        }
        return Ok(Some(given));
    }
    match served.as_slice() {
        [] => Ok(None),
        [one] => {
            if one.release != Release::NEWEST {
                notices::note(format_args!(
                    "release {} decides: {one} has the apiVersion {}; --emulated-version chooses another one",
                    one.release, one.version
                ));
            }
            Ok(Some(one.release))
        }
        [one, other, ..] => Err(Faults::from(vec![contradiction(one, other)]).into()),
    }
}

fn contradiction(one: &Served, other: &Served) -> Fault {
    let message = format!(
        "{} is of release {}, and {one} has {}, which is of {}: write all groups in versions of one release, or choose the \
         release that decides with --emulated-version",
        other.version, other.release, one.version, one.release
    );
    Fault {
        source_name: other.source_name.clone(),
        line: other.line,
        object: Some(other.object.clone()),
        field: Some("apiVersion".to_owned()),
        message,
    }
}

/// For each release the first group in a version that it serves, in the order of the files.
fn first_of_each<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Vec<Served> {
    let mut served: Vec<Served> = Vec::new();
    for source in sources {
        // Most files have no groups, and are read once.
        let may_have = VERSIONS.iter().any(|(version, _)| source.text.contains(version));
        if !may_have || !source.text.contains(KINDS[0]) {
            continue;
        }
        // Errors in a file are reported when the cluster is read.
        for document in objects::documents(source).unwrap_or_default() {
            for (at, manifest) in objects::typed_manifests(&document) {
                let text = |field: &str| manifest[field].as_str().unwrap_or_default();
                let (version, kind) = (text("apiVersion"), text("kind"));
                let known = VERSIONS.iter().find(|(known, _)| *known == version);
                let Some((_, release)) = known.filter(|_| KINDS.contains(&kind)) else { continue };
                if served.iter().any(|one| one.release == *release) {
                    continue;
                }
                let metadata = &manifest["metadata"];
                let name = metadata["name"].as_str().unwrap_or_default();
                let namespace = metadata["namespace"].as_str().unwrap_or("default");
                served.push(Served {
                    release: *release,
                    version: version.to_owned(),
                    source_name: source.name.clone(),
                    line: document.line_of(&at.key("apiVersion")).or_else(|| document.line_of(&at)),
                    object: format!("{kind} {namespace}/{name}"),
                });
            }
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, groups: &[(&str, &str)]) -> Source {
        let group = |(kind, version): &(&str, &str)| {
            format!(
                "---\napiVersion: scheduling.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: g}}\n"
            )
        };
        Source { name: name.to_owned(), text: groups.iter().map(group).collect() }
    }

    fn chosen(given: Option<Release>, sources: &[Source]) -> Result<Option<Release>, String> {
        deciding(given, sources).map_err(|error| error.to_string())
    }

    #[test]
    fn the_release_that_serves_all_groups_decides() {
        let old = source("a.yaml", &[("PodGroup", "v1alpha2")]);
        let new = [("PodGroup", "v1beta1"), ("CompositePodGroup", "v1alpha3")];
        let new = source("b.yaml", &new);
        assert_eq!(chosen(None, &[]), Ok(None));
        assert_eq!(chosen(None, std::slice::from_ref(&old)), Ok(Some(Release::V1_36)));
        assert_eq!(chosen(None, std::slice::from_ref(&new)), Ok(Some(Release::V1_37)));
        let both = [old, new];
        assert_eq!(chosen(Some(Release::V1_36), &both), Ok(Some(Release::V1_36)));
        let why = "b.yaml:2: PodGroup default/g: apiVersion: scheduling.k8s.io/v1beta1 is of release 1.37, and a.yaml:2: \
                   PodGroup default/g has scheduling.k8s.io/v1alpha2, which is of 1.36: write all groups in versions of one \
                   release, or choose the release that decides with --emulated-version";
        assert_eq!(chosen(None, &both), Err(why.to_owned()));
    }

    #[test]
    fn other_kinds_choose_no_release() {
        let text =
            "apiVersion: scheduling.k8s.io/v1alpha2\nkind: Workload\nmetadata: {name: PodGroup}\n";
        let workload = Source { name: "a.yaml".to_owned(), text: text.to_owned() };
        assert_eq!(chosen(None, &[workload]), Ok(None));
    }

    #[test]
    fn the_groups_of_a_list_need_no_version_of_their_own() {
        let text = r#"{"kind": "PodGroupList", "apiVersion": "scheduling.k8s.io/v1alpha2", "items": [{"metadata": {"name": "g"}}]}"#;
        let list = Source { name: "a.json".to_owned(), text: text.to_owned() };
        assert_eq!(chosen(None, &[list]), Ok(Some(Release::V1_36)));
    }
}
