//! The evaluator.

use std::borrow::Cow;

use regex::Regex;
use smallvec::SmallVec;

use crate::ast::{Access, Fold};
use crate::budget::Budget;
use crate::cost::CostRule;
use crate::device::Device;
use crate::error::Fault;
use crate::functions::{Arguments, Implementation};
use crate::value::{Map, Value};

/// A part of an expression that can be evaluated.
#[derive(Debug)]
pub(crate) enum Node {
    Value(Value),
    /// A call whose arguments are constants: what it gave, and what it costs.
    Folded(Box<(Result<Value, Fault>, u64)>),
    /// `device.attributes[domain].id`, or the same of the capacity.
    Domain(Box<DomainPath>),
    /// `has(device.attributes[domain].id)`
    HasDomain(Box<DomainPath>),
    /// `device.driver`
    Driver,
    Attribute(Box<Attribute>),
    /// `has(...)`
    Has(Box<Attribute>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Conditional(Box<[Node; 3]>),
    Equal(Box<[Node; 2]>),
    Unequal(Box<[Node; 2]>),
    /// `in` a list of constants, which costs nothing.
    InConstants(Box<(Node, Value)>),
    Call(Box<CallNode>),
    /// `or` and `orValue`, which evaluate the second only if they need it.
    OptionalOr(Box<[Node; 2]>),
    OptionalOrValue(Box<[Node; 2]>),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Fold(Box<FoldNode>),
}

/// The path to an attribute or a capacity of a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainPath {
    /// Whether it is a capacity.
    pub capacity: bool,
    /// The domain of its name.
    pub domain: String,
    /// The rest of its name.
    pub id: String,
}

/// A value with what is selected from it, one after the other.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
}

/// Where a path of qualifiers begins.
#[derive(Debug)]
pub(crate) enum Root {
    Device,
    /// A variable that a macro binds.
    Slot(usize),
    Node(Node),
}

/// A field, a key or an index.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: Node,
    pub(crate) access: Access,
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct CallNode {
    pub(crate) name: String,
    pub(crate) function: Implementation,
    pub(crate) cost: CostRule,
    pub(crate) args: Vec<Node>,
    /// Whether the second argument is evaluated although the first failed.
    pub(crate) is_binary: bool,
    /// The second argument, if it is a regular expression that is a constant.
    pub(crate) regex: Option<Regex>,
}

/// A macro that binds variables.
#[derive(Debug)]
pub(crate) struct FoldNode {
    pub(crate) kind: Fold,
    pub(crate) range: Node,
    /// The slots of the variables.
    pub(crate) slots: Vec<usize>,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
    /// Of `sortBy`: what the sort costs.
    pub(crate) sort: CostRule,
}

/// What a variable holds.
#[derive(Debug, Clone)]
pub(crate) enum Slot<'e> {
    Value(Result<Value, Fault>),
    /// Evaluated when it is first read.
    Lazy(&'e Node),
}

/// One evaluation for one device.
pub(crate) struct Evaluation<'e> {
    device: &'e Device,
    pub(crate) slots: Vec<Slot<'e>>,
    pub(crate) budget: Budget,
}

impl<'e> Evaluation<'e> {
    /// An evaluation of an expression with that many variables.
    pub(crate) fn new(device: &'e Device, slots: usize) -> Self {
        let slots = vec![Slot::Value(Ok(Value::Null)); slots];
        Self { device, slots, budget: Budget::default() }
    }

    /// The value of a node.
    pub(crate) fn evaluate(&mut self, node: &'e Node) -> Result<Value, Fault> {
        match node {
            Node::Value(value) => Ok(value.clone()),
            Node::Folded(folded) => {
                self.budget.charge(folded.1)?;
                folded.0.clone()
            }
            // The variable and three qualifiers.
            Node::Domain(path) => self.domain(path, 4).cloned(),
            Node::HasDomain(path) => {
                // The test itself is free.
                self.budget.charge(2)?;
                let found = self.device.value(path.capacity, &path.domain, &path.id);
                Ok(Value::Bool(found.is_some()))
            }
            Node::Driver => self.driver().cloned(),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Has(attribute) => self.has(attribute),
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Conditional(parts) => self.conditional(parts),
            Node::Equal(operands) => self.equal(operands)?.map(Value::Bool),
            Node::Unequal(operands) => self.unequal(operands).map(Value::Bool),
            Node::InConstants(parts) => self.in_constants(&parts.0, &parts.1),
            Node::Call(call) => self.call(call),
            Node::OptionalOr(parts) | Node::OptionalOrValue(parts) => {
                let first = self.evaluate(&parts[0])?;
                match first {
                    Value::Optional(None) => self.evaluate(&parts[1]),
                    Value::Optional(Some(ref value)) => match node {
                        Node::OptionalOr(_) => Ok(first),
                        _ => Ok((**value).clone()),
                    },
                    // What is no optional needs no alternative.
                    other => Ok(other),
                }
            }
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn domain(&mut self, path: &DomainPath, cost: u64) -> Result<&'e Value, Fault> {
        self.budget.charge(cost)?;
        let found = self.device.value(path.capacity, &path.domain, &path.id);
        found.ok_or_else(|| missing_key(&path.id))
    }

    fn driver(&mut self) -> Result<&'e Value, Fault> {
        // The variable and the field.
        self.budget.charge(2)?;
        Ok(self.device.driver())
    }

    /// The value of a node, borrowed where it lies somewhere.
    fn operand(&mut self, node: &'e Node) -> Result<Cow<'e, Value>, Fault> {
        match node {
            Node::Value(value) => Ok(Cow::Borrowed(value)),
            Node::Folded(folded) => {
                self.budget.charge(folded.1)?;
                folded.0.as_ref().map(Cow::Borrowed).map_err(Fault::clone)
            }
            Node::Domain(path) => self.domain(path, 4).map(Cow::Borrowed),
            Node::Driver => self.driver().map(Cow::Borrowed),
            other => self.evaluate(other).map(Cow::Owned),
        }
    }

    fn attribute(&mut self, attribute: &'e Attribute) -> Result<Value, Fault> {
        self.budget.charge(1)?;
        self.path(attribute)
    }

    /// The value of an attribute, without the cost of the attribute itself: where it is the key or
    /// a branch of another, cel-go does not count it.
    fn path(&mut self, attribute: &'e Attribute) -> Result<Value, Fault> {
        let mut value = self.root(&attribute.root)?;
        let mut optional = false;
        if let Value::Optional(inner) = &value
            && !attribute.qualifiers.is_empty()
        {
            match inner {
                None => return Ok(value),
                Some(inner) => value = (**inner).clone(),
            }
            optional = true;
        }
        for qualifier in &attribute.qualifiers {
            let key = self.qualifier(&qualifier.key)?;
            self.budget.charge(1)?;
            optional |= qualifier.access == Access::Optional;
            value = match self.qualify(&value, &key)? {
                Some(found) => found,
                None if optional => return Ok(Value::Optional(None)),
                None => return Err(missing(&value, &key)),
            };
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    fn root(&mut self, root: &'e Root) -> Result<Value, Fault> {
        match root {
            Root::Device => Ok(Value::Device),
            Root::Slot(slot) => self.slot(*slot),
            Root::Node(node) => self.evaluate(node),
        }
    }

    fn slot(&mut self, slot: usize) -> Result<Value, Fault> {
        let node = match &self.slots[slot] {
            Slot::Value(value) => return value.clone(),
            Slot::Lazy(node) => *node,
        };
        let value = self.evaluate(node);
        if let Err(Fault::Cancelled(_)) = value {
            return value;
        }
        self.slots[slot] = Slot::Value(value.clone());
        value
    }

    /// The value of a field, a key or an index, which must be of one of some types.
    fn qualifier(&mut self, key: &'e Node) -> Result<Value, Fault> {
        let key = self.key(key)?;
        match qualifier_fault(&key) {
            Some(why) => Err(Fault::text(why)),
            None => Ok(key),
        }
    }

    fn key(&mut self, key: &'e Node) -> Result<Value, Fault> {
        match key {
            Node::Value(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.path(attribute),
            Node::Domain(path) => self.domain(path, 3).cloned(),
            other => self.evaluate(other),
        }
    }

    fn has(&mut self, attribute: &'e Attribute) -> Result<Value, Fault> {
        let (last, before) = attribute.qualifiers.split_last().expect("has() selects a field");
        let mut value = self.root(&attribute.root)?;
        for qualifier in before {
            let key = self.qualifier(&qualifier.key)?;
            self.budget.charge(1)?;
            if let Value::Optional(inner) = &value {
                match inner {
                    None => return Ok(Value::Bool(false)),
                    Some(inner) => value = (**inner).clone(),
                }
            }
            let found = self.qualify(&value, &key)?;
            value = match (found, qualifier.access) {
                (Some(found), Access::Optional) => Value::some(found),
                (Some(found), _) => found,
                (None, Access::Optional) => return Ok(Value::Bool(false)),
                (None, _) => return Err(missing(&value, &key)),
            };
        }
        if let Value::Optional(inner) = &value {
            match inner {
                None => return Ok(Value::Bool(false)),
                Some(inner) => value = (**inner).clone(),
            }
        }
        let key = self.qualifier(&last.key)?;
        self.qualify(&value, &key).map(|found| Value::Bool(found.is_some()))
    }

    /// What a key selects, if it is there.
    fn qualify(&self, value: &Value, key: &Value) -> Result<Option<Value>, Fault> {
        Ok(match value {
            Value::Device => match key {
                Value::String(field) => self.device.field(field),
                _ => None,
            },
            Value::Map(map) => match key {
                Value::String(key) => map.find_text(key),
                _ => map.find(key),
            }
            .cloned(),
            Value::List(values) => {
                let index = index(key)?;
                usize::try_from(index).ok().and_then(|index| values.get(index)).cloned()
            }
            _ => None,
        })
    }

    /// The first term that decides, wherever others fail; else the first failure.
    fn logical(&mut self, terms: &'e [Node], decides: bool) -> Result<Value, Fault> {
        let mut fault = None;
        for term in terms {
            match self.evaluate(term) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(value)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    fault.get_or_insert_with(Fault::overload);
                }
                Err(cancelled @ Fault::Cancelled(_)) => return Err(cancelled),
                Err(other) => {
                    fault.get_or_insert(other);
                }
            }
        }
        fault.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn conditional(&mut self, [condition, first, second]: &'e [Node; 3]) -> Result<Value, Fault> {
        match self.evaluate(condition)? {
            Value::Bool(true) => self.key(first),
            Value::Bool(false) => self.key(second),
            _ => Err(Fault::overload()),
        }
    }

    /// What the comparison gives; the outer error is that of an operand.
    fn equal(&mut self, [first, second]: &'e [Node; 2]) -> Result<Result<bool, Fault>, Fault> {
        let first = self.operand(first);
        if let Err(Fault::Cancelled(_)) = first {
            return first.map(|_| Ok(false));
        }
        let second = self.operand(second);
        if let Err(Fault::Cancelled(_)) = second {
            return second.map(|_| Ok(false));
        }
        let (first, second) = (first?, second?);
        self.budget.read(&[&first, &second])?;
        self.budget.charge(crate::cost::equality(&first, &second))?;
        Ok(first.equals(&second, &mut self.budget))
    }

    /// As in interpretable.go, evalNe: whatever is not equal, also what cannot be compared.
    fn unequal(&mut self, operands: &'e [Node; 2]) -> Result<bool, Fault> {
        match self.equal(operands)? {
            Err(Fault::Error(_)) => Ok(true),
            result => result.map(|equal| !equal),
        }
    }

    fn in_constants(&mut self, node: &'e Node, constants: &Value) -> Result<Value, Fault> {
        let value = self.operand(node)?;
        let Value::List(constants) = constants else { return Err(Fault::overload()) };
        if let Some(fault) = value.hash_fault() {
            return Err(fault);
        }
        value.is_among(constants, &mut self.budget).map(Value::Bool)
    }

    fn call(&mut self, call: &'e CallNode) -> Result<Value, Fault> {
        let mut operands = SmallVec::<[Cow<'e, Value>; 3]>::new();
        let mut fault = None;
        for (i, arg) in call.args.iter().enumerate() {
            match self.operand(arg).map_err(|fault| call.cost.failed(i, fault)) {
                Ok(operand) => operands.push(operand),
                Err(Fault::Error(why)) if call.is_binary => {
                    fault.get_or_insert(Fault::Error(why));
                }
                Err(fault) => return Err(fault),
            }
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        let args = operands.iter().map(|operand| &**operand).collect::<SmallVec<[&Value; 3]>>();
        invoke(call, &args, &mut self.budget)
    }

    fn list(&mut self, elements: &'e [(Node, bool)]) -> Result<Value, Fault> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let value = self.evaluate(element)?;
            values.extend(if *optional { unwrapped(value)? } else { Some(value) });
        }
        self.budget.charge(10)?;
        self.budget.keep(values.len())?;
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'e [(Node, Node, bool)]) -> Result<Value, Fault> {
        let mut values = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = self.evaluate(key)?;
            let value = self.evaluate(value)?;
            let value = if *optional { unwrapped(value)? } else { Some(value) };
            if let Some(fault) = key.hash_fault() {
                return Err(fault);
            }
            values.push((key, value));
        }
        self.budget.charge(30)?;
        self.budget.keep(values.len())?;
        Ok(Value::Map(Map::new(values).into()))
    }
}

/// Calls a function and counts what that costs.
pub(crate) fn invoke(
    call: &CallNode,
    args: &[&Value],
    budget: &mut Budget,
) -> Result<Value, Fault> {
    budget.read(args)?;
    let regex = call.regex.as_ref();
    let result = match (call.function)(&mut Arguments { args, budget, regex }) {
        Err(Fault::NoOverload) => Err(no_overload(&call.name, args)),
        Err(cancelled @ Fault::Cancelled(_)) => return Err(cancelled),
        other => other,
    };
    budget.charge(call.cost.of(args, result.as_ref().ok())?)?;
    result
}

/// The error of cel-go's guards: the function with the types of all arguments.
pub(crate) fn no_overload(function: &str, args: &[&Value]) -> Fault {
    let names = args.iter().map(|arg| arg.type_name()).collect::<Vec<_>>();
    Fault::text(format!("no such overload: {function}({})", names.join(", ")))
}

/// What an optional element of a list or a map adds.
fn unwrapped(value: Value) -> Result<Option<Value>, Fault> {
    match value {
        Value::Optional(inner) => Ok(inner.map(|inner| (*inner).clone())),
        other => {
            let name = other.type_name();
            Err(Fault::text(format!(
                "cannot initialize optional list element from non-optional value {name}"
            )))
        }
    }
}

/// An index into a list: an integer, whatever its type.
pub(crate) fn index(key: &Value) -> Result<i64, Fault> {
    match key {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => Ok(i64::try_from(*index).unwrap_or(i64::MAX)),
        #[expect(clippy::cast_possible_truncation, reason = "whole, and `as` saturates")]
        Value::Double(index) if index.fract() == 0.0 => Ok(*index as i64),
        Value::Double(_) => Err(Fault::text("unsupported index value in list")),
        other => {
            Err(Fault::text(format!("unsupported index type '{}' in list", other.type_name())))
        }
    }
}

/// As in attributes.go, newQualifier: why it cannot be a key or an index, whatever it is looked up in.
pub(crate) fn qualifier_fault(key: &Value) -> Option<String> {
    use Value::{Bool, Double, Int, String, Uint};
    match key {
        String(_) | Int(_) | Uint(_) | Bool(_) | Double(_) => None,
        other => Some(format!("invalid qualifier type: {}", other.go_type())),
    }
}

fn missing(value: &Value, key: &Value) -> Fault {
    match (value, key) {
        (Value::List(_), key) => Fault::text(format!("index out of bounds: {}", key_text(key))),
        (_, Value::String(key)) => missing_key(key),
        (_, key) => missing_key(&key_text(key)),
    }
}

fn missing_key(key: &str) -> Fault {
    Fault::text(format!("no such key: {key}"))
}

pub(crate) fn key_text(key: &Value) -> String {
    match key {
        Value::Bool(key) => key.to_string(),
        Value::Int(key) => key.to_string(),
        Value::Uint(key) => key.to_string(),
        Value::Double(key) => crate::functions::conversions::double_text(*key),
        Value::String(key) => key.to_string(),
        other => other.type_name().to_owned(),
    }
}
