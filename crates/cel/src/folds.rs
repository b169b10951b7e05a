//! The macros that bind variables. Costs and errors are those of cel-go's expansions.

use smallvec::SmallVec;

use crate::ast::Fold;
use crate::error::Fault;
use crate::eval::{Evaluation, FoldNode, Node, Slot, key_text, no_overload};
use crate::value::{Map, Value};

impl<'e> Evaluation<'e> {
    /// The value of a macro.
    pub(crate) fn fold(&mut self, fold: &'e FoldNode) -> Result<Value, Fault> {
        match fold.kind {
            Fold::Bind => {
                self.slots[fold.slots[0]] = Slot::Lazy(&fold.range);
                return self.evaluate(&fold.body);
            }
            Fold::OptMap | Fold::OptFlatMap => return self.map_optional(fold),
            _ => {}
        }
        let (range, items) = match self.range(fold) {
            Ok(range) => range,
            // The list is the second argument of the sort, made from the first.
            Err(fault) => return Err(fold.sort.failed(1, fault)),
        };
        match fold.kind {
            Fold::All => self.quantify(fold, items, false),
            Fold::Exists => self.quantify(fold, items, true),
            Fold::ExistsOne => self.exists_one(fold, items),
            Fold::Map => self.collect(fold, items),
            Fold::Filter => self.select(fold, items),
            Fold::TransformMap | Fold::TransformMapEntry => self.transform(fold, items),
            _ => self.sort_by(fold, &range, items),
        }
    }

    /// What is iterated over, and the steps.
    fn range(&mut self, fold: &'e FoldNode) -> Result<(Value, Items), Fault> {
        let range = self.evaluate(&fold.range)?;
        let items = Items::new(range.clone(), fold.slots.len())?;
        Ok((range, items))
    }

    fn map_optional(&mut self, fold: &'e FoldNode) -> Result<Value, Fault> {
        let before = self.budget.cost();
        let value = self.evaluate(&fold.range)?;
        // cel-go writes the operand twice: once for hasValue(), once for value().
        let again = self.budget.cost() - before;
        self.budget.charge(1)?;
        let inner = match value {
            Value::Optional(Some(inner)) => inner,
            Value::Optional(None) => {
                self.budget.charge(1)?;
                return Ok(Value::Optional(None));
            }
            other => return Err(no_overload("hasValue", &[&other])),
        };
        self.budget.charge(again + 1)?;
        self.slots[fold.slots[0]] = Slot::Value(Ok((*inner).clone()));
        let value = self.evaluate(&fold.body)?;
        if fold.kind == Fold::OptFlatMap {
            return Ok(value);
        }
        self.budget.charge(1)?;
        Ok(Value::some(value))
    }

    fn bind(&mut self, fold: &FoldNode, item: Item) {
        for (slot, value) in fold.slots.iter().zip(item) {
            self.slots[*slot] = Slot::Value(Ok(value));
        }
    }

    /// `all` and `exists`: like a chain of `&&` or `||`.
    fn quantify(
        &mut self,
        fold: &'e FoldNode,
        items: Items,
        decides: bool,
    ) -> Result<Value, Fault> {
        // In the expansion a condition is evaluated before each step.
        let condition = if decides { 3 } else { 2 };
        let mut result = Ok(!decides);
        for item in items {
            self.budget.charge(condition)?;
            if matches!(result, Ok(value) if value == decides) {
                break;
            }
            self.budget.charge(1)?;
            self.bind(fold, item);
            match self.evaluate(&fold.body) {
                Ok(Value::Bool(value)) if value == decides => result = Ok(decides),
                Ok(Value::Bool(_)) => {}
                Err(cancelled @ Fault::Cancelled(_)) => return Err(cancelled),
                other => {
                    let fault = other.err().unwrap_or_else(Fault::overload);
                    if result.is_ok() {
                        result = Err(fault);
                    }
                }
            }
        }
        self.budget.charge(1)?;
        result.map(Value::Bool)
    }

    /// A condition of the expression: what is not a truth value is a failure.
    fn condition(&mut self, node: &'e Node) -> Result<Result<bool, Fault>, Fault> {
        match self.evaluate(node) {
            Ok(Value::Bool(value)) => Ok(Ok(value)),
            Ok(_) => Ok(Err(Fault::overload())),
            Err(cancelled @ Fault::Cancelled(_)) => Err(cancelled),
            Err(fault) => Ok(Err(fault)),
        }
    }

    fn exists_one(&mut self, fold: &'e FoldNode, items: Items) -> Result<Value, Fault> {
        let mut count = Ok(0_u64);
        for item in items {
            self.bind(fold, item);
            match self.condition(&fold.body)? {
                Ok(true) => {
                    self.budget.charge(2)?;
                    count = count.map(|count| count + 1);
                }
                Ok(false) => {}
                Err(fault) => count = Err(fault),
            }
        }
        self.budget.charge(2)?;
        count.map(|count| Value::Bool(count == 1))
    }

    /// Whether the filter lets the element through; a failure becomes that of the result.
    fn filtered<T>(
        &mut self,
        fold: &'e FoldNode,
        result: &mut Result<T, Fault>,
    ) -> Result<bool, Fault> {
        let Some(filter) = &fold.filter else { return Ok(true) };
        match self.condition(filter)? {
            Ok(passes) => Ok(passes),
            Err(fault) => {
                *result = Err(fault);
                Ok(false)
            }
        }
    }

    fn collect(&mut self, fold: &'e FoldNode, items: Items) -> Result<Value, Fault> {
        let mut result = Ok(Vec::new());
        for item in items {
            self.bind(fold, item);
            if !self.filtered(fold, &mut result)? {
                continue;
            }
            let value = self.evaluate(&fold.body);
            self.budget.charge(12)?;
            match (&mut result, value) {
                (_, Err(cancelled @ Fault::Cancelled(_))) => return Err(cancelled),
                (Ok(values), Ok(value)) => {
                    self.budget.keep(1)?;
                    values.push(value);
                }
                (Ok(_), Err(fault)) => result = Err(fault),
                (Err(_), _) => {}
            }
        }
        self.budget.charge(1)?;
        result.map(Value::list)
    }

    fn select(&mut self, fold: &'e FoldNode, items: Items) -> Result<Value, Fault> {
        let mut result = Ok(Vec::new());
        for item in items {
            let element = item.first().cloned();
            self.bind(fold, item);
            match self.condition(&fold.body)? {
                Ok(true) => {
                    self.budget.charge(13)?;
                    self.budget.keep(1)?;
                    if let Ok(values) = &mut result {
                        values.extend(element);
                    }
                }
                Ok(false) => {}
                Err(fault) => result = Err(fault),
            }
        }
        self.budget.charge(1)?;
        result.map(Value::list)
    }

    fn transform(&mut self, fold: &'e FoldNode, items: Items) -> Result<Value, Fault> {
        let mut result = Ok(Vec::new());
        for item in items {
            let key = item[0].clone();
            self.bind(fold, item);
            if !self.filtered(fold, &mut result)? {
                continue;
            }
            let value = self.evaluate(&fold.body);
            self.budget.charge(3)?;
            let entries = match value {
                Err(cancelled @ Fault::Cancelled(_)) => return Err(cancelled),
                Ok(value) if fold.kind == Fold::TransformMap => Ok(vec![(key, value)]),
                Ok(Value::Map(map)) => Ok(map.entries().to_vec()),
                Ok(_) => Err(Fault::overload()),
                Err(fault) => Err(fault),
            };
            match (&mut result, entries) {
                (Ok(all), Ok(entries)) => {
                    self.budget.keep(entries.len())?;
                    all.extend(entries);
                }
                (Ok(_), Err(fault)) => result = Err(fault),
                (Err(_), _) => {}
            }
        }
        self.budget.charge(1)?;
        let map = Map::of_inserted(result?).map_err(|key| {
            Fault::text(format!("insert failed: key {} already exists", key_text(&key)))
        })?;
        Ok(Value::Map(map.into()))
    }

    fn sort_by(&mut self, fold: &'e FoldNode, range: &Value, items: Items) -> Result<Value, Fault> {
        // The variable that holds the list, read twice.
        self.budget.charge(2)?;
        let keys = self.collect(fold, items).map_err(|fault| fold.sort.failed(1, fault))?;
        self.budget.charge(fold.sort.of(&[range, &keys], None)?)?;
        crate::functions::lists::sort_by_keys(range, &keys, &mut self.budget)
    }
}

/// The values of the variables of one step.
type Item = SmallVec<[Value; 2]>;
/// The steps over a list or a map.
struct Items {
    range: Value,
    variables: usize,
    next: usize,
}

impl Items {
    fn new(range: Value, variables: usize) -> Result<Self, Fault> {
        if matches!(range, Value::List(_) | Value::Map(_)) {
            return Ok(Self { range, variables, next: 0 });
        }
        let of = range.go_type();
        Err(Fault::text(match variables {
            1 => format!("got '{of}', expected iterable type"),
            _ => format!("unsupported comprehension range type: {of}"),
        }))
    }
}

impl Iterator for Items {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let i = self.next;
        self.next += 1;
        match &self.range {
            Value::List(values) => {
                let value = values.get(i)?.clone();
                let index = Value::Int(i64::try_from(i).unwrap_or(i64::MAX));
                Some(if self.variables == 1 {
                    [value].into_iter().collect()
                } else {
                    [index, value].into()
                })
            }
            Value::Map(map) => {
                let (key, value) = map.entries().get(i)?;
                let both = [key, value].into_iter().take(self.variables);
                Some(both.cloned().collect())
            }
            _ => None,
        }
    }
}
