//! The syntax tree of an expression.

/// A node of the tree.
#[derive(Debug)]
pub(crate) struct Expr {
    /// The number of the node, for what the checker finds out about it.
    pub(crate) id: usize,
    /// Its place in the source, in characters. For an operator or a call that of the operator or
    /// the parenthesis, as in cel-go.
    pub(crate) at: u32,
    /// The number of levels at and below it.
    pub(crate) height: u32,
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    Select(Box<Select>),
    Index(Box<Index>),
    Call(Box<Call>),
    /// Operands of a chain of `&&` or `||`.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// `condition ? first : second`
    Conditional(Box<[Expr; 3]>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    Comprehension(Box<Comprehension>),
}

/// A constant as written.
#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// `operand.field`, `operand.?field` or `has(operand.field)`
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: String,
    pub(crate) access: Access,
}

/// How a field or an element is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It must be there.
    Required,
    /// The result is an optional.
    Optional,
    /// The result is whether it is there.
    Test,
}

/// `operand[index]` or `operand[?index]`
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) operand: Expr,
    pub(crate) key: Expr,
    pub(crate) access: Access,
}

/// A call of a function, of a method, or an operator by its name in cel-go (`_+_`).
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) target: Option<Expr>,
    pub(crate) function: String,
    pub(crate) args: Vec<Expr>,
}

/// An element of a list.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    /// `[?value]`: the value is an optional, and there is no element if it is empty.
    pub(crate) optional: bool,
}

/// An entry of a map.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    /// `{?key: value}`
    pub(crate) optional: bool,
}

/// A macro that binds variables. cel-go expands these into folds; here each keeps its name, and the
/// checker and the cost follow the expansion.
#[derive(Debug)]
pub(crate) struct Comprehension {
    pub(crate) kind: Fold,
    /// What is iterated over, or the value that is bound.
    pub(crate) range: Expr,
    /// One or two variables.
    pub(crate) variables: Vec<String>,
    /// Which elements count, of `map` and the transformations.
    pub(crate) filter: Option<Expr>,
    pub(crate) body: Expr,
}

/// The macros that bind variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    /// `cel.bind`
    Bind,
    SortBy,
    OptMap,
    OptFlatMap,
}
