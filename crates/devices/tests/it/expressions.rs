//! A few CEL expressions, as tests need them.

use plimsoll_api::Quantity;
use plimsoll_api::devices::AttributeValue;
use plimsoll_devices::{DeviceRef, SelectorError, Selectors};

/// Evaluates conjunctions of simple comparisons.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    /// How often an expression was evaluated.
    pub(crate) evaluated: usize,
}

impl Selectors for Expressions {
    fn matches(&mut self, expression: &str, device: DeviceRef<'_>) -> Result<bool, SelectorError> {
        self.evaluated += 1;
        let mut attributes = device.device.attributes.iter();
        if let Some((name, _)) = attributes.find(|(_, value)| *value == AttributeValue::Unknown) {
            let why = format!("attribute {name}: unsupported attribute value");
            return Err(SelectorError::Runtime(why));
        }
        for condition in expression.split(" && ") {
            if !holds(condition, device)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn holds(condition: &str, device: DeviceRef<'_>) -> Result<bool, SelectorError> {
    match condition {
        "true" => return Ok(true),
        "false" => return Ok(false),
        "dedicated" => return Ok(!device.device.allow_multiple_allocations),
        "device.allowMultipleAllocations" => return Ok(device.device.allow_multiple_allocations),
        _ => {}
    }
    if let Some(model) = condition.strip_prefix("model ") {
        let found = device.device.attribute(device.driver, &format!("{}/m", device.driver));
        return Ok(found == Some(&AttributeValue::String(model.into())));
    }
    if let Some(rest) = condition.strip_prefix("device.driver == ") {
        return Ok(unquoted(rest) == device.driver);
    }
    if let Some(rest) = condition.strip_prefix("device.driver in ") {
        return Ok(list(rest).any(|one| one == device.driver));
    }
    if let Some(rest) = condition.strip_prefix("device.attributes[") {
        return of_attribute(rest, device);
    }
    if let Some(rest) = condition.strip_prefix("device.capacity[") {
        return of_capacity(rest, device);
    }
    Err(SelectorError::Compile(format!("compilation failed: {condition}")))
}

/// `"DOMAIN"].NAME OPERATOR VALUE`
fn of_attribute(rest: &str, device: DeviceRef<'_>) -> Result<bool, SelectorError> {
    let (domain, rest) = rest.split_once("].").expect("a domain");
    let domain = unquoted(domain);
    let find = |name: &str| device.device.attribute(device.driver, &format!("{domain}/{name}"));
    if let Some(name) = rest.strip_prefix('?') {
        let name = name.strip_suffix(".orValue(false)").expect("a default");
        return Ok(find(name) == Some(&AttributeValue::Bool(true)));
    }
    let end = rest.find(['.', ' ']).expect("a test");
    let (name, test) = rest.split_at(end);
    let Some(value) = find(name) else {
        return Err(SelectorError::Runtime(format!("no such key: {name}")));
    };
    if let Some(test) = test.strip_prefix(".compareTo(semver(") {
        let (other, test) = test.split_once("))").expect("a version");
        assert_eq!(test, " >= 0");
        let AttributeValue::Version(version) = value else { panic!("{value:?} is no version") };
        let numbers = |text: &str| {
            let release = text.split(['-', '+']).next().unwrap_or_default();
            release.split('.').map(|one| one.parse().expect("a number")).collect::<Vec<u64>>()
        };
        return Ok(numbers(unquoted(other)) <= numbers(version));
    }
    let (operator, wanted) = test.trim().split_once(' ').expect("a value");
    let order = |value: i64| value.cmp(&wanted.parse().expect("a number"));
    Ok(match (operator, value) {
        ("in", AttributeValue::String(word)) => list(wanted).any(|one| one == word),
        ("==", AttributeValue::String(word)) => unquoted(wanted) == word,
        ("==", AttributeValue::Bool(value)) => wanted == value.to_string(),
        ("==", AttributeValue::Int(value)) => order(*value).is_eq(),
        (">=", AttributeValue::Int(value)) => order(*value).is_ge(),
        ("<=", AttributeValue::Int(value)) => order(*value).is_le(),
        ("<", AttributeValue::Int(value)) => order(*value).is_lt(),
        _ => return Err(SelectorError::Runtime("no such overload".to_owned())),
    })
}

/// `"DOMAIN"].NAME.compareTo(quantity("Q")) >= 0`
fn of_capacity(rest: &str, device: DeviceRef<'_>) -> Result<bool, SelectorError> {
    let (domain, rest) = rest.split_once("].").expect("a domain");
    let (name, test) = rest.split_once('.').expect("a test");
    let full = format!("{}/{name}", unquoted(domain));
    let is_own = unquoted(domain) == device.driver;
    let mut all = device.device.capacity.iter();
    let found = all.find(|(known, _)| *known == full || is_own && known == name);
    let Some((_, capacity)) = found else {
        return Err(SelectorError::Runtime(format!("no such key: {name}")));
    };
    let (test, amount) = test.split_once("(quantity(").expect("a quantity");
    let amount = Quantity::parse(unquoted(amount.split_once(')').expect("an end").0));
    let amount = amount.expect("a quantity");
    Ok(match test {
        "compareTo" => amount <= capacity.value,
        "isGreaterThan" => amount < capacity.value,
        other => panic!("unknown test {other}"),
    })
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.trim_matches(['[', ']']).split(", ").map(unquoted)
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}
