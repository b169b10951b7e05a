//! From the syntax tree to what is evaluated: names become slots, paths of the device are looked up
//! at once, and calls of constants are made.

use crate::ast::{Access, Call, Comprehension, Expr, Index, Kind, Literal, Select};
use crate::budget::Budget;
use crate::checker::{Checked, Resolution};
use crate::cost::CostRule;
use crate::error::Fault;
use crate::eval::{
    Attribute, CallNode, DomainPath, FoldNode, Node, Qualifier, Root, invoke, qualifier_fault,
};
use crate::functions::{conversions, implementation, regexes};
use crate::types::Type;
use crate::value::{Map, Value};

/// What is evaluated, and for how many variables.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Node,
    pub(crate) slots: usize,
    /// The attributes and capacities that it reads; `None` if it may read any.
    pub(crate) reads: Option<Vec<DomainPath>>,
}

/// The plan of an expression about a device; the error is that of a conversion of a constant.
pub(crate) fn plan(root: &Expr, checked: &Checked) -> Result<Plan, String> {
    plan_with(root, checked, &[])
}

/// The plan of an expression with these variables, whose values are in the first slots.
pub(crate) fn plan_with(
    root: &Expr,
    checked: &Checked,
    variables: &[&str],
) -> Result<Plan, String> {
    let scope = variables.iter().enumerate().map(|(slot, name)| ((*name).to_owned(), slot));
    let (scope, slots) = (scope.collect(), variables.len());
    let mut planner = Planner { checked, scope, slots, reads: Some(Vec::new()) };
    let root = planner.node(root)?;
    let Planner { slots, mut reads, .. } = planner;
    if let Some(reads) = &mut reads {
        reads.sort();
        reads.dedup();
    }
    Ok(Plan { root, slots, reads })
}

struct Planner<'a> {
    checked: &'a Checked,
    /// Variables that are in scope, the innermost last, with their slots.
    scope: Vec<(String, usize)>,
    slots: usize,
    reads: Option<Vec<DomainPath>>,
}

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Node, String> {
        if let Some(name) = self.checked.type_names[expr.id] {
            return Ok(Node::Folded(Box::new((Ok(Value::Type(name.into())), 1))));
        }
        Ok(match &expr.kind {
            Kind::Literal(literal) => Node::Value(constant(literal)),
            Kind::Ident(_) | Kind::Select(_) | Kind::Index(_) => return self.attribute(expr),
            Kind::Call(call) => return self.call(expr, call),
            Kind::And(terms) => Node::And(self.nodes(terms)?),
            Kind::Or(terms) => Node::Or(self.nodes(terms)?),
            Kind::Conditional(parts) => {
                let [condition, first, second] = &**parts;
                let parts = [self.node(condition)?, self.node(first)?, self.node(second)?];
                Node::Conditional(Box::new(parts))
            }
            Kind::List(elements) => {
                let elements = elements
                    .iter()
                    .map(|element| self.node(&element.value).map(|node| (node, element.optional)));
                list(elements.collect::<Result<_, _>>()?)
            }
            Kind::Map(entries) => {
                let mut nodes = Vec::with_capacity(entries.len());
                for entry in entries {
                    let key = self.node(&entry.key)?;
                    nodes.push((key, self.node(&entry.value)?, entry.optional));
                }
                map(nodes)
            }
            Kind::Comprehension(comprehension) => return self.fold(expr, comprehension),
        })
    }

    fn nodes(&mut self, exprs: &[Expr]) -> Result<Vec<Node>, String> {
        exprs.iter().map(|expr| self.node(expr)).collect()
    }

    /// A name, or what is selected from a value.
    fn attribute(&mut self, expr: &Expr) -> Result<Node, String> {
        let attribute = self.qualified(expr)?;
        self.note(&attribute);
        if let Kind::Select(select) = &expr.kind
            && select.access == Access::Test
        {
            return Ok(match domain_path(&attribute) {
                Some(path) => Node::HasDomain(path),
                None => Node::Has(Box::new(attribute)),
            });
        }
        if let Some(path) = domain_path(&attribute) {
            return Ok(Node::Domain(path));
        }
        Ok(match is_field(&attribute, "driver") {
            true => Node::Driver,
            false => Node::Attribute(Box::new(attribute)),
        })
    }

    /// Notes what of the device is read.
    fn note(&mut self, attribute: &Attribute) {
        if !matches!(attribute.root, Root::Device) {
            return;
        }
        if let Some(path) = domain_path(attribute) {
            self.reads.iter_mut().for_each(|reads| reads.push((*path).clone()));
        } else if !is_field(attribute, "driver") && !is_field(attribute, "allowMultipleAllocations")
        {
            self.reads = None;
        }
    }

    fn qualified(&mut self, expr: &Expr) -> Result<Attribute, String> {
        let (operand, key, access) = match &expr.kind {
            Kind::Ident(name) => return Ok(self.variable(name)),
            Kind::Select(select) => {
                let Select { operand, field, access } = &**select;
                (operand, Node::Value(Value::string(field)), *access)
            }
            Kind::Index(index) => {
                let Index { operand, key, access } = &**index;
                let key = self.node(key)?;
                if let Some(why) = constant_value(&key).and_then(qualifier_fault) {
                    return Err(why);
                }
                (operand, key, *access)
            }
            _ => {
                return Ok(Attribute {
                    root: Root::Node(self.node(expr)?),
                    qualifiers: Vec::new(),
                });
            }
        };
        let is_test = matches!(&operand.kind, Kind::Select(inner) if inner.access == Access::Test);
        let is_type = self.checked.type_names[operand.id].is_some();
        let mut attribute = if is_test || is_type {
            Attribute { root: Root::Node(self.node(operand)?), qualifiers: Vec::new() }
        } else {
            self.qualified(operand)?
        };
        attribute.qualifiers.push(Qualifier { key, access });
        Ok(attribute)
    }

    fn variable(&self, name: &str) -> Attribute {
        let slot = self.scope.iter().rev().find(|(known, _)| known == name);
        let root = slot.map_or(Root::Device, |(_, slot)| Root::Slot(*slot));
        Attribute { root, qualifiers: Vec::new() }
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Result<Node, String> {
        let resolution = self.checked.calls[expr.id].as_ref();
        let Resolution { function, overload, receiver } =
            resolution.expect("the checker resolved all calls");
        let target = call.target.iter().filter(|_| *receiver);
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in target.chain(&call.args) {
            args.push(self.node(arg)?);
        }
        Ok(match (function.as_str(), <[Node; 2]>::try_from(args)) {
            ("_==_", Ok(args)) if !is_opaque(self.checked, call) => Node::Equal(Box::new(args)),
            ("_!=_", Ok(args)) => Node::Unequal(Box::new(args)),
            ("or", Ok(args)) => Node::OptionalOr(Box::new(args)),
            ("orValue", Ok(args)) => Node::OptionalOrValue(Box::new(args)),
            // As in decorators.go, maybeOptimizeSetMembership: nothing is in an empty list, not even
            // what fails.
            ("@in", Ok([_, Node::Value(Value::List(constants))]))
                if *overload == Some("in_list") && constants.is_empty() =>
            {
                Node::Value(Value::Bool(false))
            }
            ("@in", Ok([value, Node::Value(constants)]))
                if *overload == Some("in_list") && is_simple(&constants) =>
            {
                Node::InConstants(Box::new((value, constants)))
            }
            (_, Ok(args)) => return call_node(function, *overload, args.into()),
            (_, Err(args)) => return call_node(function, *overload, args),
        })
    }

    fn fold(&mut self, expr: &Expr, comprehension: &Comprehension) -> Result<Node, String> {
        let Comprehension { kind, range, variables, filter, body } = comprehension;
        let range = self.node(range)?;
        let depth = self.scope.len();
        let mut slots = Vec::with_capacity(variables.len());
        for name in variables {
            slots.push(self.slots);
            self.scope.push((name.clone(), self.slots));
            self.slots += 1;
        }
        let filter = match filter {
            Some(filter) => Some(self.node(filter)?),
            None => None,
        };
        let body = self.node(body)?;
        self.scope.truncate(depth);
        let sort = match &self.checked.calls[expr.id] {
            Some(sort) => CostRule::new(&sort.function, sort.overload),
            None => CostRule::One,
        };
        Ok(Node::Fold(Box::new(FoldNode { kind: *kind, range, slots, filter, body, sort })))
    }
}

/// Whether values of a type of Kubernetes are compared, which costs one whatever their size.
fn is_opaque(checked: &Checked, call: &Call) -> bool {
    matches!(checked.types[call.args[0].id], Type::Opaque(_))
}

/// Whether it is a list of values that cel-go looks up in a set.
fn is_simple(list: &Value) -> bool {
    let Value::List(values) = list else { return false };
    let simple = |value: &Value| {
        matches!(
            value,
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
        )
    };
    values.iter().all(simple)
}

fn constant(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(value) => Value::string(value),
        Literal::Bytes(value) => Value::Bytes(value.as_slice().into()),
    }
}

/// The value of a constant, or of the name of a type, which is one to cel-go.
fn constant_value(node: &Node) -> Option<&Value> {
    match node {
        Node::Value(value) => Some(value),
        Node::Folded(folded) => folded.0.as_ref().ok().filter(|of| matches!(of, Value::Type(_))),
        _ => None,
    }
}

/// A list; one of constants is a constant.
fn list(elements: Vec<(Node, bool)>) -> Node {
    let constants = elements.iter().map(|element| match element {
        (Node::Value(value), false) => Some(value.clone()),
        _ => None,
    });
    match constants.collect() {
        Some(values) => Node::Value(Value::list(values)),
        None => Node::List(elements),
    }
}

/// A map; one of constants is a constant.
fn map(entries: Vec<(Node, Node, bool)>) -> Node {
    let constants = entries.iter().map(|entry| match entry {
        (Node::Value(key), Node::Value(value), false) if key.hash_fault().is_none() => {
            Some((key.clone(), Some(value.clone())))
        }
        _ => None,
    });
    match constants.collect() {
        Some(entries) => Node::Value(Value::Map(Map::new(entries).into())),
        None => Node::Map(entries),
    }
}

/// Whether it is this field of the device.
fn is_field(attribute: &Attribute, name: &str) -> bool {
    matches!(
        (&attribute.root, &attribute.qualifiers[..]),
        (Root::Device, [Qualifier { key: Node::Value(Value::String(field)), .. }]) if **field == *name
    )
}

/// The path of an attribute or a capacity of the device, if it consists of constants.
fn domain_path(attribute: &Attribute) -> Option<Box<DomainPath>> {
    if let (Root::Device, [field, domain, id]) = (&attribute.root, &attribute.qualifiers[..])
        && let Some([field, domain, id]) = texts([field, domain, id])
        && matches!(field, "attributes" | "capacity")
    {
        let capacity = field == "capacity";
        let path = DomainPath { capacity, domain: domain.to_owned(), id: id.to_owned() };
        return Some(Box::new(path));
    }
    None
}

fn texts(qualifiers: [&Qualifier; 3]) -> Option<[&str; 3]> {
    let mut texts = [""; 3];
    if qualifiers[..2].iter().any(|qualifier| qualifier.access != Access::Required) {
        return None;
    }
    for (text, qualifier) in texts.iter_mut().zip(qualifiers) {
        match (&qualifier.key, qualifier.access) {
            (Node::Value(Value::String(key)), Access::Required | Access::Test) => *text = key,
            _ => return None,
        }
    }
    Some(texts)
}

fn call_node(
    function: &str,
    overload: Option<&'static str>,
    args: Vec<Node>,
) -> Result<Node, String> {
    let Some(implementation) = implementation(function) else {
        return Err(format!("no such overload: {function}"));
    };
    let regex = match args.get(1) {
        Some(Node::Value(Value::String(pattern))) if regexes::takes_regex(function) => {
            Some(regexes::compile(pattern)?)
        }
        _ => None,
    };
    let constants = args.iter().map(|arg| match arg {
        Node::Value(value) => Some(value.clone()),
        _ => None,
    });
    let constants = constants.collect::<Option<Vec<_>>>();
    // As in planner.go, planCheckedCall: an operator, or the only form of a function that fits, if it
    // is not bound for any number of arguments, as `format` is.
    let is_operator = !function.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_binary = args.len() == 2 && (is_operator || overload.is_some()) && function != "format";
    let call = CallNode {
        name: function.to_owned(),
        function: implementation,
        cost: CostRule::new(function, overload),
        args,
        is_binary,
        regex,
    };
    let Some(constants) = constants else { return Ok(Node::Call(Box::new(call))) };
    let mut budget = Budget::of_constants();
    let arguments = constants.iter().collect::<Vec<_>>();
    let result = invoke(&call, &arguments, &mut budget);
    Ok(match result {
        // Too much to do now, and later.
        Err(Fault::Cancelled(_)) => Node::Call(Box::new(call)),
        // cel-go itself makes these calls when it compiles, and forgets what they cost.
        Ok(value) if conversions::is_conversion(function) && constants.len() == 1 => {
            Node::Value(value)
        }
        Err(fault) if conversions::is_conversion(function) && constants.len() == 1 => {
            return Err(fault.into_text());
        }
        result => Node::Folded(Box::new((result, budget.cost()))),
    })
}
