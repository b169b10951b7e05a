//! What CEL selectors say about devices, remembered.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use plimsoll_api::Str;
use plimsoll_api::devices::{AttributeValue, Device};
use plimsoll_cel::{
    AttributeValue as CelValue, Attributes, Device as CelDevice, DomainPath, Expression,
};
use plimsoll_devices::{DeviceId, DeviceRef, SelectorError, Selectors};
use rustc_hash::FxBuildHasher;

use super::{DeviceGates, sizes};

/// Beyond this many bytes all is forgotten. A claim made from a template has the expressions of all others, so that there are
/// few.
const MOST_BYTES: usize = 96 << 20;
/// A compiled expression takes about this many bytes for each of its text.
const COMPILED: usize = 48;

type Answer = Result<bool, SelectorError>;

/// The compiled expressions, and what they said about devices.
///
/// Most expressions name the attributes that they read. Devices that are equal in these have one *shape*: one of them is
/// asked for all. So it does no harm that each has its own uuid. Expressions that read the same share the shapes.
#[derive(Debug)]
pub(crate) struct SelectorResults {
    expressions: HashMap<Str, Known, FxBuildHasher>,
    shapes: Vec<Shapes>,
    /// The approximate size in bytes.
    bytes: usize,
    /// Its limit.
    most_bytes: usize,
    /// The device that was asked about last, as expressions see it.
    last: Option<(DeviceId, u64, CelDevice)>,
    rules: Rules,
}

/// What expressions see of a device.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Attributes may be lists. Otherwise every expression fails for a device that has one, and none iterates over one.
    lists: bool,
    /// No device seems to allow multiple allocations.
    is_for_scores: bool,
}

/// An expression with its answers.
#[derive(Debug)]
struct Known {
    /// The error is that of the compiler.
    compiled: Result<Expression, String>,
    /// The place of the shapes for what it reads.
    shapes: usize,
    /// By shape.
    answers: Vec<Option<Answer>>,
}

/// The shapes of devices for expressions that read the same.
#[derive(Debug)]
struct Shapes {
    /// What they read; `None` if they may read anything.
    reads: Option<Vec<DomainPath>>,
    known: HashMap<Shape, usize, FxBuildHasher>,
    /// By device, with the stamp of its slice.
    of: HashMap<DeviceId, (u64, usize), FxBuildHasher>,
}

/// What some expressions read of a device.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shape {
    driver: Str,
    allows_multiple: bool,
    attributes: Vec<(Str, AttributeValue)>,
    capacity: Vec<(Str, Str)>,
}

impl SelectorResults {
    pub(crate) fn new(gates: &DeviceGates) -> Self {
        Self::of(Rules { lists: gates.list_attributes, is_for_scores: false })
    }

    /// Results for scores. As in resource_allocation.go, the field `allowMultipleAllocations` is never set there.
    pub(crate) fn for_scores(gates: &DeviceGates) -> Self {
        Self::of(Rules { lists: gates.list_attributes, is_for_scores: true })
    }

    fn of(rules: Rules) -> Self {
        Self::within(MOST_BYTES, rules)
    }

    /// No results yet. If they take more than `most_bytes`, all are forgotten.
    fn within(most_bytes: usize, rules: Rules) -> Self {
        let (expressions, shapes) = (HashMap::default(), Vec::new());
        SelectorResults { expressions, shapes, bytes: 0, most_bytes, last: None, rules }
    }

    /// The approximate size in bytes, and its limit.
    #[cfg(test)]
    pub(super) fn weight(&self) -> (usize, usize) {
        (self.bytes, self.most_bytes)
    }

    /// Changes the limit, in bytes, and forgets everything.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most_bytes: usize) {
        *self = Self::within(most_bytes, self.rules);
    }

    fn compile(&mut self, source: &str) {
        let attributes = if self.rules.lists { Attributes::Lists } else { Attributes::Single };
        let compiled =
            Expression::compile_with(source, attributes).map_err(|error| error.to_string());
        let reads = compiled.as_ref().ok().and_then(Expression::reads);
        let shapes = self.shapes.iter().position(|one| one.reads.as_deref() == reads);
        let shapes = shapes.unwrap_or_else(|| {
            let reads = reads.map(<[DomainPath]>::to_vec);
            let paths = reads.iter().flatten();
            let paths: usize =
                paths.map(|path| size_of_val(path) + path.domain.len() + path.id.len()).sum();
            self.bytes += size_of::<Shapes>() + paths;
            self.shapes.push(Shapes { reads, known: HashMap::default(), of: HashMap::default() });
            self.shapes.len() - 1
        });
        let error = compiled.as_ref().err().map_or(0, String::len);
        self.bytes += size_of::<(Str, Known)>() + sizes::PLACE + error;
        self.bytes += source.len() * (1 + COMPILED);
        self.expressions.insert(source.into(), Known { compiled, shapes, answers: Vec::new() });
    }
}

impl Selectors for SelectorResults {
    fn matches(&mut self, source: &str, device: DeviceRef<'_>) -> Answer {
        if self.most_bytes < self.bytes {
            *self = Self::within(self.most_bytes, self.rules);
        }
        if !self.expressions.contains_key(source) {
            self.compile(source);
        }
        let SelectorResults { expressions, shapes, bytes, last, rules, .. } = self;
        let Known { compiled, shapes: of, answers } =
            expressions.get_mut(source).expect("it is known now");
        let expression = match compiled {
            Ok(expression) => expression,
            Err(error) => return Err(SelectorError::Compile(error.clone())),
        };
        let allows = device.device.allow_multiple_allocations && !rules.is_for_scores;
        let shape = shapes[*of].of(device, allows, bytes);
        if answers.len() <= shape {
            *bytes += (shape + 1 - answers.len()) * size_of::<Option<Answer>>();
            answers.resize(shape + 1, None);
        }
        if let Some(answer) = &answers[shape] {
            return answer.clone();
        }
        if !matches!(last, Some((id, stamp, _)) if (*id, *stamp) == (device.id, device.stamp)) {
            *last = Some((device.id, device.stamp, prepare(device, allows, rules.lists)));
        }
        let (.., prepared) = last.as_ref().expect("it was just prepared");
        let answer = expression.matches(prepared);
        let answer = answer.map_err(|error| SelectorError::Runtime(error.to_string()));
        *bytes += match &answer {
            Err(SelectorError::Compile(text) | SelectorError::Runtime(text)) => text.len(),
            Ok(_) => 0,
        };
        answers[shape] = Some(answer.clone());
        answer
    }
}

impl Shapes {
    /// The number of the shape of a device.
    fn of(&mut self, device: DeviceRef<'_>, allows_multiple: bool, bytes: &mut usize) -> usize {
        if let Some((stamp, shape)) = self.of.get(&device.id)
            && *stamp == device.stamp
        {
            return *shape;
        }
        let next = self.known.len();
        let shape = Shape::of(device, allows_multiple, self.reads.as_deref());
        let shape = match self.known.entry(shape) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                *bytes += free.key().bytes();
                *free.insert(next)
            }
        };
        if self.of.insert(device.id, (device.stamp, shape)).is_none() {
            *bytes += size_of::<(DeviceId, u64, usize)>() + sizes::PLACE;
        }
        shape
    }
}

impl Shape {
    /// The approximate size in bytes.
    fn bytes(&self) -> usize {
        let attributes =
            self.attributes.iter().map(|(name, value)| sizes::text(name) + sizes::value(value));
        let capacity =
            self.capacity.iter().map(|(name, amount)| sizes::text(name) + sizes::text(amount));
        size_of::<(Shape, usize)>()
            + sizes::PLACE
            + self.driver.len()
            + attributes.sum::<usize>()
            + capacity.sum::<usize>()
    }

    fn of(
        DeviceRef { driver, device, .. }: DeviceRef<'_>,
        allows_multiple: bool,
        reads: Option<&[DomainPath]>,
    ) -> Self {
        let is_read = |is_capacity: bool, name: &str| {
            let (domain, id) = name.split_once('/').unwrap_or((driver, name));
            let is_it = |path: &DomainPath| {
                path.capacity == is_capacity && path.domain == domain && path.id == id
            };
            reads.is_none_or(|reads| reads.iter().any(is_it))
        };
        // A value that cannot be used makes every expression fail, whatever it reads.
        let may_fail = |value: &AttributeValue| {
            use AttributeValue::{Bool, Int, String};
            !matches!(value, Int(_) | Bool(_) | String(_))
        };
        let attributes = device.attributes.iter();
        let attributes = attributes.filter(|(name, value)| may_fail(value) || is_read(false, name));
        let capacity = device.capacity.iter().filter(|(name, _)| is_read(true, name));
        let amounts =
            capacity.map(|(name, amount)| (name.clone(), amount.value.to_string().into()));
        Shape {
            driver: driver.into(),
            allows_multiple,
            attributes: attributes.cloned().collect(),
            capacity: amounts.collect(),
        }
    }
}

/// A device as expressions see it.
fn prepare(
    DeviceRef { driver, device, .. }: DeviceRef<'_>,
    allows_multiple: bool,
    lists: bool,
) -> CelDevice {
    let Device { attributes, capacity, .. } = device;
    let attributes = attributes.iter().map(|(name, value)| (name.as_str(), value_of(value, lists)));
    let capacity = capacity.iter().map(|(name, amount)| (name.as_str(), amount.value.clone()));
    CelDevice::new(driver, allows_multiple, attributes, capacity)
}

fn value_of(value: &AttributeValue, lists: bool) -> CelValue {
    fn list<T>(values: &[T], of: impl Fn(&T) -> CelValue) -> CelValue {
        CelValue::List(values.iter().map(of).collect())
    }
    match value {
        AttributeValue::Ints(_)
        | AttributeValue::Bools(_)
        | AttributeValue::Strings(_)
        | AttributeValue::Versions(_)
            if !lists =>
        {
            CelValue::Unsupported
        }
        AttributeValue::Unknown => CelValue::Unsupported,
        AttributeValue::Int(value) => CelValue::Int(*value),
        AttributeValue::Bool(value) => CelValue::Bool(*value),
        AttributeValue::String(value) => CelValue::String(value.to_string()),
        AttributeValue::Version(value) => CelValue::Version(value.to_string()),
        AttributeValue::Ints(values) => list(values, |value| CelValue::Int(*value)),
        AttributeValue::Bools(values) => list(values, |value| CelValue::Bool(*value)),
        AttributeValue::Strings(values) => {
            list(values, |value| CelValue::String(value.to_string()))
        }
        AttributeValue::Versions(values) => {
            list(values, |value| CelValue::Version(value.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_devices::DeviceIds;

    use super::*;

    const MODEL: &str = r#"device.attributes["gpu.example.com"].model == "a100""#;

    fn device(attributes: &[(&str, AttributeValue)]) -> Device {
        let attributes = attributes.iter().map(|(name, value)| ((*name).into(), value.clone()));
        Device { attributes: attributes.collect(), ..Device::default() }
    }

    fn results() -> SelectorResults {
        SelectorResults::of(Rules { lists: false, is_for_scores: false })
    }

    /// The answer for the device of this number of a pool.
    fn ask(results: &mut SelectorResults, source: &str, number: usize, device: &Device) -> Answer {
        let (driver, pool) = ("gpu.example.com", "pool");
        let mut ids = DeviceIds::default();
        let id = (0..=number).map(|n| ids.take(driver, pool, &n.to_string())).last();
        let id = id.expect("there is one at least");
        results.matches(source, DeviceRef { id, stamp: 1, driver, pool, device })
    }

    fn text(value: &str) -> AttributeValue {
        AttributeValue::String(value.into())
    }

    #[test]
    fn devices_that_differ_only_in_what_is_not_read_are_asked_once() {
        let mut results = results();
        for id in 0..10 {
            let uuid = text(&format!("gpu-{id}"));
            let device = device(&[("model", text("a100")), ("uuid", uuid)]);
            assert!(matches!(ask(&mut results, MODEL, id, &device), Ok(true)));
        }
        assert_eq!(results.shapes[0].known.len(), 1);
        // The name may have the domain of the driver, or not.
        let other = device(&[("gpu.example.com/model", text("h100"))]);
        assert!(matches!(ask(&mut results, MODEL, 10, &other), Ok(false)));
    }

    #[test]
    fn beyond_the_bound_all_is_forgotten() {
        let most = 64 << 10;
        let mut results = results();
        results.limit(most);
        let mut was_forgotten = false;
        for id in 0..500 {
            let device = device(&[("model", text(&format!("model-{id}")))]);
            let source = format!(r#"device.attributes["gpu.example.com"].model == "model-{id}""#);
            for source in [MODEL, &source] {
                let before = results.bytes;
                let answer = ask(&mut results, source, id, &device);
                assert!(matches!(answer, Ok(is_it) if is_it == (source != MODEL)), "{id}");
                was_forgotten |= results.bytes < before;
                assert!(results.bytes <= most + (16 << 10), "{}", results.bytes);
            }
        }
        assert!(was_forgotten);
    }

    #[test]
    fn an_attribute_without_a_usable_value_fails_for_every_expression() {
        let mut results = results();
        let good = device(&[("model", text("a100"))]);
        assert!(matches!(ask(&mut results, MODEL, 0, &good), Ok(true)));
        let list = AttributeValue::Ints([1].into());
        for bad in [AttributeValue::Unknown, AttributeValue::Version("one".into()), list] {
            let device = device(&[("model", text("a100")), ("other", bad)]);
            assert!(matches!(ask(&mut results, MODEL, 1, &device), Err(SelectorError::Runtime(_))));
            results = SelectorResults::of(results.rules);
        }
    }

    #[test]
    fn an_expression_that_may_read_anything_is_asked_about_each_device() {
        let mut results = results();
        let source = r#"device.attributes["gpu.example.com"].exists(key, key == "rare")"#;
        let (with, without) = (device(&[("rare", text("x"))]), device(&[("uuid", text("y"))]));
        assert!(matches!(ask(&mut results, source, 0, &with), Ok(true)));
        assert!(matches!(ask(&mut results, source, 1, &without), Ok(false)));
    }

    #[test]
    fn lists_are_values_where_they_are_enabled() {
        let mut results = SelectorResults::of(Rules { lists: true, is_for_scores: false });
        let model = r#"device.attributes["gpu.example.com"].model"#;
        let list =
            device(&[("model", AttributeValue::Strings(["a100".into(), "h100".into()].into()))]);
        let source = format!(r#"{model}.includes("h100")"#);
        assert!(matches!(ask(&mut results, &source, 0, &list), Ok(true)));
    }
}
