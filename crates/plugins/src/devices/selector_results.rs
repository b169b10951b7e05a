//! What CEL selectors say about devices, remembered.

use hashbrown::HashMap;
use plimsoll_api::Str;
use plimsoll_api::devices::{AttributeValue, Device};
use plimsoll_cel::{AttributeValue as CelValue, Device as CelDevice, Expression};
use plimsoll_devices::{DeviceId, DeviceRef, SelectorError, Selectors};
use rustc_hash::FxBuildHasher;

/// Beyond this many expressions all are forgotten. A claim made from a template has those of all others.
const MOST_EXPRESSIONS: usize = 4096;
/// Beyond this many results all are forgotten: 64 MiB.
const MOST_RESULTS: usize = 1 << 21;

type Answer = Result<bool, SelectorError>;

/// The compiled expressions, the devices as expressions see them, and what the ones said about the others. An answer
/// depends on nothing else, so it can be used until the slice of the device changes.
#[derive(Debug, Default)]
pub(crate) struct SelectorResults {
    expressions: HashMap<Str, Known, FxBuildHasher>,
    devices: HashMap<DeviceId, (u64, CelDevice), FxBuildHasher>,
    n_results: usize,
    /// Whether no device seems to allow multiple allocations.
    is_for_scores: bool,
}

impl SelectorResults {
    /// Results for scores. As in resource_allocation.go, the field `allowMultipleAllocations` is never set there.
    pub(crate) fn for_scores() -> Self {
        SelectorResults { is_for_scores: true, ..SelectorResults::default() }
    }
}

/// An expression with its answers.
#[derive(Debug)]
struct Known {
    /// The error is that of the compiler.
    compiled: Result<Expression, String>,
    /// By device, with the stamp of its slice.
    answers: HashMap<DeviceId, (u64, Answer), FxBuildHasher>,
}

impl Selectors for SelectorResults {
    fn matches(&mut self, source: &str, device: DeviceRef<'_>) -> Answer {
        if MOST_RESULTS < self.n_results || MOST_EXPRESSIONS < self.expressions.len() {
            let is_for_scores = self.is_for_scores;
            *self = SelectorResults { is_for_scores, ..SelectorResults::default() };
        }
        if !self.expressions.contains_key(source) {
            let compiled = Expression::compile(source).map_err(|error| error.to_string());
            let known = Known { compiled, answers: HashMap::default() };
            self.expressions.insert(source.into(), known);
        }
        let known = self.expressions.get_mut(source).expect("it is known now");
        let expression = match &known.compiled {
            Ok(expression) => expression,
            Err(error) => return Err(SelectorError::Compile(error.clone())),
        };
        if let Some((stamp, answer)) = known.answers.get(&device.id)
            && *stamp == device.stamp
        {
            return answer.clone();
        }
        let allows = device.device.allow_multiple_allocations && !self.is_for_scores;
        let prepare = || (device.stamp, prepare(device, allows));
        let prepared = self.devices.entry(device.id).or_insert_with(prepare);
        if prepared.0 != device.stamp {
            *prepared = prepare();
        }
        let answer = expression.matches(&prepared.1);
        let answer = answer.map_err(|error| SelectorError::Runtime(error.to_string()));
        known.answers.insert(device.id, (device.stamp, answer.clone()));
        self.n_results += 1;
        answer
    }
}

/// A device as expressions see it.
fn prepare(DeviceRef { driver, device, .. }: DeviceRef<'_>, allows_multiple: bool) -> CelDevice {
    let Device { attributes, capacity, .. } = device;
    let attributes = attributes.iter().map(|(name, value)| (name.as_str(), value_of(value)));
    let capacity = capacity.iter().map(|(name, amount)| (name.as_str(), amount.value.clone()));
    CelDevice::new(driver, allows_multiple, attributes, capacity)
}

fn value_of(value: &AttributeValue) -> CelValue {
    fn list<T>(values: &[T], of: impl Fn(&T) -> CelValue) -> CelValue {
        CelValue::List(values.iter().map(of).collect())
    }
    match value {
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
