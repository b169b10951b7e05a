//! The table of kinds: what the server stores, and under which groups and versions each release serves it.

mod rows;

use std::fmt;
use std::sync::{PoisonError, RwLock};

pub(crate) use rows::KINDS;
use serde_json::Value;

use crate::{devices, events};

/// A row of the table: one kind of object that is stored once, whatever groups and versions show it.
#[derive(Debug)]
pub(crate) struct ResourceKind {
    /// `Pod`.
    pub(crate) kind: &'static str,
    /// `pods`.
    pub(crate) plural: &'static str,
    /// What kubectl also takes: `po`.
    pub(crate) short: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub(crate) namespaced: bool,
    /// Where it is served; the first is the group under which errors name it.
    pub(crate) served: &'static [ServedVersion],
    /// How it differs from the plainest kind.
    pub(crate) traits: &'static [Trait],
    /// The fields that field selectors may use besides `metadata.name` and `metadata.namespace`, with
    /// the pointer into the stored object.
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

/// One group and version in which a kind is shown, and the releases that do (minor numbers, both included).
#[derive(Debug)]
pub(crate) struct ServedVersion {
    /// `apps`; empty for the core group.
    pub(crate) group: &'static str,
    /// `v1`.
    pub(crate) version: &'static str,
    /// The first release, 20 for all that are older.
    pub(crate) since: u32,
    /// The last release.
    pub(crate) until: u32,
    /// Alpha versions, and beta versions since 1.24, are served only where the options ask for them.
    pub(crate) by_default: bool,
    /// How the stored form is turned into the one that is shown.
    pub(crate) form: StoredForm,
}

/// How an object looks in one group and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredForm {
    /// As it is stored, except for `apiVersion`.
    Stored,
    /// An Event of `events.k8s.io`, which is stored as one of the core group.
    Event,
    /// An object of `resource.k8s.io/v1beta1`: the fields of a device are under `basic`, and those of an exact request
    /// are in the request itself.
    Flat,
}

impl StoredForm {
    /// A stored object as it is shown.
    pub(crate) fn show(self, object: Value) -> Value {
        match self {
            StoredForm::Stored => object,
            StoredForm::Event => events::to_events_group(object),
            StoredForm::Flat => devices::to_flat(object),
        }
    }

    /// An object of a request as it is stored.
    pub(crate) fn store(self, object: Value) -> Value {
        match self {
            StoredForm::Stored => object,
            StoredForm::Event => events::to_core_group(object),
            StoredForm::Flat => devices::from_flat(object),
        }
    }
}

/// How a kind differs from the plainest one, as the strategies of kube-apiserver say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trait {
    /// Has the subresource `status`; a plain update leaves the status alone.
    Status,
    /// An update of the status leaves the metadata alone.
    BareStatus,
    /// The status of a new object is kept (nodes register themselves with one).
    BornWithStatus,
    /// `metadata.generation` counts the changes of the spec.
    Generation,
    /// A PUT to a name that does not exist creates it.
    CreatedByUpdate,
    /// A PUT must name the resource version it replaces.
    NeedsVersion,
    /// DELETE answers with the object instead of a Status.
    ReturnsDeleted,
}

/// The index of a kind in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KindId(pub(crate) usize);

/// A kind that a server has beside those of Kubernetes, as a CustomResourceDefinition makes one. It has a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomKind {
    /// Its group and version: `example.com/v1`.
    pub api_version: String,
    /// Its name: `TeamQuota`.
    pub kind: String,
    /// How paths name it: `teamquotas`.
    pub plural: String,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
}

/// The most custom kinds that all servers of a process have.
pub(crate) const MOST_CUSTOM: usize = 64;

/// The custom kinds of all servers of this process. A server serves those that its options name.
static CUSTOM: RwLock<Vec<&'static ResourceKind>> = RwLock::new(Vec::new());

fn custom() -> Vec<&'static ResourceKind> {
    CUSTOM.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// From now on the table has this kind, too. It lives as long as the process: tests have few.
///
/// # Panics
/// If there are too many.
pub(crate) fn add(new: &CustomKind) {
    let mut custom = CUSTOM.write().unwrap_or_else(PoisonError::into_inner);
    let is_known = |kind: &&'static ResourceKind| {
        kind.kind == new.kind && kind.served[0].api_version() == new.api_version
    };
    if custom.iter().any(is_known) {
        return;
    }
    assert!(custom.len() < MOST_CUSTOM, "there are more than {MOST_CUSTOM} custom kinds");
    let leak = |text: &str| -> &'static str { text.to_owned().leak() };
    let (group, version) = new.api_version.split_once('/').unwrap_or(("", &new.api_version));
    let served = ServedVersion {
        group: leak(group),
        version: leak(version),
        since: 0,
        until: u32::MAX,
        by_default: false,
        form: StoredForm::Stored,
    };
    custom.push(Box::leak(Box::new(ResourceKind {
        kind: leak(&new.kind),
        plural: leak(&new.plural),
        short: &[],
        namespaced: new.namespaced,
        served: Box::leak(Box::new([served])),
        traits: &[Trait::Status, Trait::Generation],
        fields: &[],
    })));
}

impl KindId {
    pub(crate) fn kind(self) -> &'static ResourceKind {
        match KINDS.get(self.0) {
            Some(kind) => kind,
            None => custom()[self.0 - KINDS.len()],
        }
    }
}

/// All kinds with their places.
pub(crate) fn all() -> impl Iterator<Item = (KindId, &'static ResourceKind)> {
    KINDS.iter().chain(custom()).enumerate().map(|(at, kind)| (KindId(at), kind))
}

/// The kind that clients call `plural`, or `plural.group` where several groups have one of that name.
pub(crate) fn named(name: &str) -> Option<KindId> {
    let (plural, group) = name.split_once('.').map_or((name, None), |(p, g)| (p, Some(g)));
    let fits = |kind: &ResourceKind| {
        kind.plural == plural
            && group.is_none_or(|group| kind.served.iter().any(|served| served.group == group))
    };
    all().find(|(_, kind)| fits(kind)).map(|(id, _)| id)
}

/// The kind of an object that says `api_version` and `kind`, with the form it has there.
pub(crate) fn of_object(api_version: &str, kind: &str) -> Option<(KindId, &'static ServedVersion)> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    all().filter(|(_, row)| row.kind == kind).find_map(|(id, row)| {
        let fits = |served: &&ServedVersion| served.group == group && served.version == version;
        row.served.iter().find(fits).map(|served| (id, served))
    })
}

impl ResourceKind {
    pub(crate) fn has(&self, wanted: Trait) -> bool {
        self.traits.contains(&wanted)
    }

    /// The group under which kube-apiserver names the kind in errors.
    pub(crate) fn group(&self) -> &'static str {
        self.served[0].group
    }

    /// `pods`, `leases.coordination.k8s.io`: as errors call it.
    pub(crate) fn resource(&self) -> Qualified {
        Qualified { name: self.plural, group: self.group() }
    }

    /// `Pod`, `Lease.coordination.k8s.io`: as errors about invalid objects call it.
    pub(crate) fn group_kind(&self) -> Qualified {
        Qualified { name: self.kind, group: self.group() }
    }
}

impl ServedVersion {
    /// Whether a server of `release` serves it, considering its options.
    pub(crate) fn is_served(&self, release: u32, also: &[String], without: &[String]) -> bool {
        let api_version = self.api_version();
        let named = |list: &[String]| list.iter().any(|l| *l == api_version || *l == self.group);
        let in_release = (self.since..=self.until).contains(&release);
        in_release && (self.by_default || named(also)) && !named(without)
    }

    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// A resource or kind with its group, written `name.group`, or `name` alone in the core group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Qualified {
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
}

impl fmt::Display for Qualified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_plural_and_by_what_objects_say() {
        let pods = named("pods").expect("the table has pods");
        assert_eq!(pods.kind().kind, "Pod");
        assert_eq!(named("leases.coordination.k8s.io"), named("leases"));
        assert_eq!(named("leases.apps"), None);
        assert_eq!(of_object("v1", "Pod").map(|(id, _)| id), Some(pods));
        assert!(of_object("apps/v1", "Pod").is_none());
    }

    #[test]
    fn events_of_both_groups_are_the_same_objects() {
        let core = of_object("v1", "Event").expect("core events");
        let new = of_object("events.k8s.io/v1", "Event").expect("new events");
        assert_eq!(core.0, new.0);
        assert_eq!((core.1.form, new.1.form), (StoredForm::Stored, StoredForm::Event));
    }

    #[test]
    fn an_old_release_serves_what_it_had() {
        let pdb = named("poddisruptionbudgets").expect("the table has budgets").kind();
        let at = |release| -> Vec<String> {
            let served = pdb.served.iter().filter(|s| s.is_served(release, &[], &[]));
            served.map(ServedVersion::api_version).collect()
        };
        assert_eq!(at(20), ["policy/v1beta1"]);
        assert_eq!(at(22), ["policy/v1", "policy/v1beta1"]);
        assert_eq!(at(36), ["policy/v1"]);
    }
}
