//! Registers plugins. Each builder method requires its trait, so a plugin cannot be registered at a point that it does
//! not implement.

mod builder;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plimsoll_api::{KindRef, Kinds};
use serde_json::Value;

use crate::args::ArgsForm;
use crate::metrics::Descriptor;
use crate::parts::Reads;
use crate::plugin::{FeatureGates, Plugin};
use crate::points::{Point, Points};
use crate::writes::WriteVerbs;

pub use self::builder::Builder;

/// A plugin could not be made from its args.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgsError {
    /// The plugin.
    pub plugin: &'static str,
    /// The path of the field within the args; empty for the args as a whole.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ArgsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.field.is_empty() { "" } else { "." };
        write!(f, "args{dot}{} of plugin {}: {}", self.field, self.plugin, self.message)
    }
}

impl std::error::Error for ArgsError {}

type Make = dyn Fn(Option<&Value>, &FeatureGates, Speed) -> Result<Points, ArgsError> + Send + Sync;

/// Whether a plugin is made with its [acceleration](crate::accelerate).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speed {
    Accelerated,
    Plain,
}

/// A plugin in a registry: its name, its extension points, and how to make it.
pub struct Entry {
    name: &'static str,
    points: BTreeSet<Point>,
    reads: Reads,
    kinds: BTreeSet<KindRef>,
    writes: BTreeMap<KindRef, WriteVerbs>,
    metrics: Vec<&'static Descriptor>,
    args: ArgsForm,
    make: Box<Make>,
    speed: Speed,
}

impl Entry {
    /// Begins the entry of plugin `P`.
    pub fn of<P: Plugin>() -> Builder<P> {
        Builder::new()
    }

    /// The name of the plugin.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its extension points.
    pub fn points(&self) -> &BTreeSet<Point> {
        &self.points
    }

    /// What it reads as a filter and as a score.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// The kinds of objects that it reads, and those that it says it [uses](Builder::kind).
    pub fn kinds(&self) -> &BTreeSet<KindRef> {
        &self.kinds
    }

    /// What it says that it writes ([`Builder::writes`]).
    pub fn writes(&self) -> &BTreeMap<KindRef, WriteVerbs> {
        &self.writes
    }

    /// The metrics of its own.
    pub fn metrics(&self) -> &[&'static Descriptor] {
        &self.metrics
    }

    /// What it reads, in words: `pod: tolerations · node: taints`.
    pub fn describe_reads(&self) -> String {
        let kinds: Vec<KindRef> = self.kinds.iter().copied().collect();
        self.reads.describe(&kinds)
    }

    /// Its args, without their type.
    pub fn args(&self) -> ArgsForm {
        self.args
    }

    /// Makes the plugin of one profile from its args.
    pub fn make(&self, args: Option<&Value>, gates: &FeatureGates) -> Result<Points, ArgsError> {
        (self.make)(args, gates, self.speed)
    }

    /// The same plugin without its [acceleration](crate::accelerate). Its decisions are the same, as tests can check.
    #[must_use]
    pub fn plain(self) -> Self {
        Entry { speed: Speed::Plain, ..self }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("points", &self.points)
            .finish_non_exhaustive()
    }
}

/// The plugins that configurations may name, in the order of the default profile.
#[derive(Debug, Default)]
pub struct Registry(Vec<Entry>);

impl Registry {
    /// A registry of these plugins.
    ///
    /// # Panics
    /// If two have the same name, or metrics of the same name.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut registry = Registry::default();
        for entry in entries {
            registry.add(entry);
        }
        registry
    }

    /// Adds a plugin.
    ///
    /// # Panics
    /// If there is one of the same name, or with a metric of the same name.
    pub fn add(&mut self, entry: Entry) {
        let known = self.get(entry.name()).is_some();
        assert!(!known, "a plugin named {:?} already exists", entry.name());
        for metric in entry.metrics() {
            let name = metric.name;
            let mut others = self.0.iter().flat_map(Entry::metrics);
            let is_new = others.all(|other| other.name != name);
            assert!(is_new, "plugin {:?}: another plugin has a metric named {name}", entry.name());
        }
        self.0.push(entry);
    }

    /// The same plugins without their acceleration: see [`Entry::plain`].
    #[must_use]
    pub fn plain(self) -> Self {
        Registry(self.0.into_iter().map(Entry::plain).collect())
    }

    /// The plugin named `name`.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.name() == name)
    }

    /// The kinds of objects that are read: those of Kubernetes, and those that plugins add.
    ///
    /// # Panics
    /// If two plugins add different kinds with the same name and version.
    pub fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::built_in();
        for &kind in self.0.iter().flat_map(Entry::kinds) {
            kinds.add(kind);
        }
        kinds
    }

    /// All plugins in order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }
}
