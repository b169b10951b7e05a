//! Metrics: what they are called, and how plugins count in metrics of their own.
//!
//! ```
//! use plimsoll_framework::metrics::Counter;
//!
//! static ATTACHED: Counter<1> =
//!     Counter::new("network_attach_attachments_total", &["result"], "Number of attachments, by result.");
//! ```
//!
//! The plugin lists it in its entry ([`Builder::metric`](crate::Builder::metric)), and counts where it has a
//! [`Handle`](crate::Handle): `handle.metrics.add(&ATTACHED, ["ready"], 1)`. There is no handle up to Score: a decision
//! may be remembered, so a number of calls would mean nothing.

use plimsoll_api::Str;

/// The description of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descriptor {
    /// Its name, with prefix and unit.
    pub name: &'static str,
    /// Its help text.
    pub help: &'static str,
    /// Its stability level.
    pub stability: Stability,
    /// Its type.
    pub metric_type: MetricType,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricType {
    /// A value that only grows.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution of values.
    Histogram(Buckets),
}

/// The stability levels of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// It may change or be removed at any time.
    Alpha,
    /// Labels may be added.
    Beta,
    /// It does not change.
    Stable,
}

impl Stability {
    /// The word before the help text, such as `STABLE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Stability::Alpha => "ALPHA",
            Stability::Beta => "BETA",
            Stability::Stable => "STABLE",
        }
    }
}

/// The upper bounds of a histogram: `start`, and then each bound is `factor` times the previous one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buckets {
    /// The first bound.
    pub start: f64,
    /// The factor between bounds.
    pub factor: f64,
    /// The number of bounds; greater values are counted, too.
    pub count: usize,
}

impl Buckets {
    /// The bounds, ascending. They are multiplied one after the other, as in client_golang, so that all
    /// digits are the same.
    pub fn bounds(self) -> impl Iterator<Item = f64> {
        std::iter::successors(Some(self.start), move |bound| Some(bound * self.factor))
            .take(self.count)
    }
}

/// A counter of a plugin, with `N` labels.
#[derive(Debug)]
pub struct Counter<const N: usize>(Descriptor);

/// A gauge of a plugin, with `N` labels.
#[derive(Debug)]
pub struct Gauge<const N: usize>(Descriptor);

/// A histogram of a plugin, with `N` labels.
#[derive(Debug)]
pub struct Histogram<const N: usize>(Descriptor);

impl<const N: usize> Counter<N> {
    /// A counter. Its name should end in `_total`.
    ///
    /// # Panics
    /// If the name is not one for a plugin ([`RESERVED_PREFIXES`]), or a name is not valid. In a `static` the compiler
    /// says so.
    pub const fn new(
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
    ) -> Self {
        Counter(of_plugin(name, labels, help, MetricType::Counter))
    }
}

impl<const N: usize> Counter<N> {
    /// A counter that kube-scheduler has, with its name, for the plugin of the same name.
    ///
    /// # Panics
    /// If a name is not valid. In a `static` the compiler says so.
    pub const fn upstream(
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
    ) -> Self {
        Counter(described(name, labels, help, MetricType::Counter))
    }
}

impl<const N: usize> Gauge<N> {
    /// A gauge.
    ///
    /// # Panics
    /// As [`Counter::new`].
    pub const fn new(
        name: &'static str,
        labels: &'static [&'static str; N],
        help: &'static str,
    ) -> Self {
        Gauge(of_plugin(name, labels, help, MetricType::Gauge))
    }
}

impl<const N: usize> Histogram<N> {
    /// A histogram. The name should end in the unit, such as `_seconds`.
    ///
    /// # Panics
    /// As [`Counter::new`].
    pub const fn new(
        name: &'static str,
        labels: &'static [&'static str; N],
        buckets: Buckets,
        help: &'static str,
    ) -> Self {
        Histogram(of_plugin(name, labels, help, MetricType::Histogram(buckets)))
    }
}

impl<const N: usize> Histogram<N> {
    /// A histogram that kube-scheduler has, with its name, for the plugin of the same name.
    ///
    /// # Panics
    /// If a name is not valid. In a `static` the compiler says so.
    pub const fn upstream(
        name: &'static str,
        labels: &'static [&'static str; N],
        buckets: Buckets,
        help: &'static str,
    ) -> Self {
        Histogram(described(name, labels, help, MetricType::Histogram(buckets)))
    }
}

impl<const N: usize> AsRef<Descriptor> for Counter<N> {
    fn as_ref(&self) -> &Descriptor {
        &self.0
    }
}

impl<const N: usize> AsRef<Descriptor> for Gauge<N> {
    fn as_ref(&self) -> &Descriptor {
        &self.0
    }
}

impl<const N: usize> AsRef<Descriptor> for Histogram<N> {
    fn as_ref(&self) -> &Descriptor {
        &self.0
    }
}

/// The names of the scheduler's own metrics begin so, and those of plugins must not: a metric that stands twice in a
/// response makes Prometheus refuse all of it.
pub const RESERVED_PREFIXES: [&str; 14] = [
    "scheduler_",
    "plimsoll_",
    "kube_",
    "kubernetes_",
    "rest_client_",
    "leader_election_",
    "workqueue_",
    "apiserver_",
    "authentication_",
    "authorization_",
    "aggregator_",
    "reflector_",
    "process_",
    "go_",
];

const fn of_plugin(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    metric_type: MetricType,
) -> Descriptor {
    let mut i = 0;
    while i < RESERVED_PREFIXES.len() {
        assert!(!begins_with(name, RESERVED_PREFIXES[i]), "the scheduler's own metrics begin so");
        i += 1;
    }
    described(name, labels, help, metric_type)
}

const fn described(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    metric_type: MetricType,
) -> Descriptor {
    assert!(is_identifier(name), "the name of a metric has small letters, digits and underscores");
    let mut i = 0;
    while i < labels.len() {
        assert!(
            is_identifier(labels[i]),
            "the name of a label has small letters, digits and underscores"
        );
        i += 1;
    }
    Descriptor { name, help, stability: Stability::Alpha, metric_type, labels }
}

const fn is_identifier(name: &str) -> bool {
    let name = name.as_bytes();
    let mut i = 0;
    while i < name.len() {
        let valid = matches!(name[i], b'a'..=b'z' | b'_') || (0 < i && name[i].is_ascii_digit());
        if !valid {
            return false;
        }
        i += 1;
    }
    !name.is_empty()
}

const fn begins_with(name: &str, prefix: &str) -> bool {
    let (name, prefix) = (name.as_bytes(), prefix.as_bytes());
    let mut i = 0;
    while i < prefix.len() {
        if i == name.len() || name[i] != prefix[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// What a plugin has measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The metric.
    pub metric: &'static Descriptor,
    /// The values of its labels, in order.
    pub labels: Vec<Str>,
    /// What was measured.
    pub change: MetricChange,
}

/// How a metric changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricChange {
    /// A counter grows by this.
    Add(u64),
    /// A gauge has this value from now on.
    Set(f64),
    /// A histogram has one more value.
    Observe(f64),
}

/// Where a plugin says what it has measured. It counts even if the call then fails.
#[derive(Debug)]
pub struct Metrics<'a>(&'a mut Vec<Measurement>);

impl<'a> Metrics<'a> {
    /// Measurements are added to `measured`, in order.
    pub fn new(measured: &'a mut Vec<Measurement>) -> Self {
        Metrics(measured)
    }

    /// Adds to a counter.
    pub fn add<const N: usize>(
        &mut self,
        counter: &'static Counter<N>,
        labels: [&str; N],
        by: u64,
    ) {
        self.measure(counter.as_ref(), labels, MetricChange::Add(by));
    }

    /// Sets a gauge.
    pub fn set<const N: usize>(&mut self, gauge: &'static Gauge<N>, labels: [&str; N], to: f64) {
        self.measure(gauge.as_ref(), labels, MetricChange::Set(to));
    }

    /// Adds a value to a histogram.
    pub fn observe<const N: usize>(
        &mut self,
        histogram: &'static Histogram<N>,
        labels: [&str; N],
        value: f64,
    ) {
        self.measure(histogram.as_ref(), labels, MetricChange::Observe(value));
    }

    fn measure<const N: usize>(
        &mut self,
        metric: &'static Descriptor,
        labels: [&str; N],
        change: MetricChange,
    ) {
        let labels = labels.into_iter().map(Str::from).collect();
        self.0.push(Measurement { metric, labels, change });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ATTACHED: Counter<1> = Counter::new("attached_total", &["result"], "Attached.");
    static SPEED: Gauge<0> = Gauge::new("speed", &[], "Speed.");

    #[test]
    fn measurements_name_their_metric_and_labels() {
        let mut measured = Vec::new();
        let mut metrics = Metrics::new(&mut measured);
        metrics.add(&ATTACHED, ["ready"], 2);
        metrics.set(&SPEED, [], 0.5);
        let attached = ATTACHED.as_ref();
        assert_eq!(
            measured[0],
            Measurement {
                metric: attached,
                labels: vec!["ready".into()],
                change: MetricChange::Add(2)
            }
        );
        assert_eq!(
            (measured[1].metric.name, measured[1].change),
            ("speed", MetricChange::Set(0.5))
        );
    }

    #[test]
    #[should_panic(expected = "the scheduler's own metrics begin so")]
    fn the_names_of_the_schedulers_own_metrics_are_not_for_plugins() {
        let _ = Counter::<0>::new("scheduler_pods_total", &[], "");
    }

    #[test]
    fn names_are_those_that_prometheus_takes() {
        for name in ["a", "_a1", "attached_total"] {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["", "1a", "a-b", "A", "a:b"] {
            assert!(!is_identifier(name), "{name}");
        }
    }
}
