//! From tokens to the syntax tree.

use crate::ast::{Access, Call, Element, Entry, Expr, Index, Kind, Literal, Select};
use crate::lexer::{Token, TokenKind, tokens};
use crate::macros;
use crate::source::Issue;

/// How deep expressions may nest, in parentheses, calls, operands of `?:` and signs, as in cel-go.
const MAX_NESTING: u32 = 250;
/// The height of the syntax tree. Chains of operators and fields are as high as they are long
/// without nesting; evaluation recurses as deep as the tree is high.
const MAX_HEIGHT: u32 = 400;
/// Words that are no identifiers.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];
/// What can begin an operand, as ANTLR prints it.
const OPERANDS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
                        NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// A syntax tree and the number of its nodes.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    pub(crate) nodes: usize,
}

/// Parses an expression. The first error ends it.
pub(crate) fn parse(source: &str) -> Result<Parsed, Issue> {
    let mut parser = Parser { tokens: tokens(source)?, next: 0, nodes: 0, nesting: 0 };
    let root = parser.expression()?;
    let rest = parser.peek();
    if !matches!(rest.kind, TokenKind::End) {
        let message = format!("Syntax error: extraneous input '{}' expecting <EOF>", rest.text);
        return Err(Issue::new(rest.at, message));
    }
    Ok(Parsed { root, nodes: parser.nodes })
}

/// The parser of one expression.
pub(crate) struct Parser {
    tokens: Vec<Token>,
    next: usize,
    nodes: usize,
    nesting: u32,
}

impl Parser {
    /// A new node above `parts`.
    pub(crate) fn node(&mut self, at: u32, below: u32, kind: Kind) -> Result<Expr, Issue> {
        let height = below + 1;
        if MAX_HEIGHT < height {
            return Err(Issue::new(at, format!("expression has more than {MAX_HEIGHT} levels")));
        }
        let id = self.nodes;
        self.nodes += 1;
        Ok(Expr { id, at, height, kind })
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.next]
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
        token
    }

    fn at_symbol(&self, symbol: &str) -> bool {
        let token = self.peek();
        matches!(token.kind, TokenKind::Symbol) && token.text == symbol
    }

    fn take(&mut self, symbol: &str) -> Option<u32> {
        self.at_symbol(symbol).then(|| self.advance().at)
    }

    fn expect(&mut self, symbol: &str) -> Result<u32, Issue> {
        match self.take(symbol) {
            Some(at) => Ok(at),
            None => Err(self.unexpected(&format!("'{symbol}'"))),
        }
    }

    fn unexpected(&self, expected: &str) -> Issue {
        let Token { at, text, .. } = self.peek();
        Issue::new(*at, format!("Syntax error: mismatched input '{text}' expecting {expected}"))
    }

    fn nested<T>(&mut self, parse: fn(&mut Self) -> Result<T, Issue>) -> Result<T, Issue> {
        if self.nesting == MAX_NESTING {
            let message = format!("expression recursion limit exceeded: {MAX_NESTING}");
            return Err(Issue::new(self.peek().at, message));
        }
        self.nesting += 1;
        let result = parse(self);
        self.nesting -= 1;
        result
    }

    fn expression(&mut self) -> Result<Expr, Issue> {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> Result<Expr, Issue> {
        let condition = self.logical("||")?;
        let Some(at) = self.take("?") else { return Ok(condition) };
        let first = self.logical("||")?;
        self.expect(":")?;
        let second = self.expression()?;
        let below = condition.height.max(first.height).max(second.height);
        self.node(at, below, Kind::Conditional(Box::new([condition, first, second])))
    }

    fn logical(&mut self, operator: &'static str) -> Result<Expr, Issue> {
        let operand = |parser: &mut Self| match operator {
            "||" => parser.logical("&&"),
            _ => parser.binary(0),
        };
        let first = operand(self)?;
        if !self.at_symbol(operator) {
            return Ok(first);
        }
        let mut below = first.height;
        let (mut terms, mut places) = (vec![first], Vec::new());
        while let Some(at) = self.take(operator) {
            places.push(at);
            let term = operand(self)?;
            below = below.max(term.height);
            terms.push(term);
        }
        // cel-go makes a balanced tree of the operators.
        let at = places[places.len() / 2];
        let kind = if operator == "||" { Kind::Or(terms) } else { Kind::And(terms) };
        self.node(at, below, kind)
    }

    /// Operators that bind at least as strong as `strength`, from the left.
    fn binary(&mut self, strength: u8) -> Result<Expr, Issue> {
        let mut left = self.unary()?;
        while let Some((function, strong)) = self.operator()
            && strength <= strong
        {
            let at = self.advance().at;
            let right = self.binary(strong + 1)?;
            let below = left.height.max(right.height);
            left = self.call(at, below, function, None, vec![left, right])?;
        }
        Ok(left)
    }

    /// The operator that comes next: its name in cel-go, and how strong it binds.
    fn operator(&self) -> Option<(&'static str, u8)> {
        let token = self.peek();
        if !matches!(token.kind, TokenKind::Symbol) {
            return None;
        }
        Some(match token.text.as_str() {
            "==" => ("_==_", 0),
            "!=" => ("_!=_", 0),
            "<" => ("_<_", 0),
            "<=" => ("_<=_", 0),
            ">" => ("_>_", 0),
            ">=" => ("_>=_", 0),
            "in" => ("@in", 0),
            "+" => ("_+_", 1),
            "-" => ("_-_", 1),
            "*" => ("_*_", 2),
            "/" => ("_/_", 2),
            "%" => ("_%_", 2),
            _ => return None,
        })
    }

    fn unary(&mut self) -> Result<Expr, Issue> {
        let negated_number = self.at_symbol("-")
            && matches!(
                self.tokens[self.next + 1].kind,
                TokenKind::Integer(_) | TokenKind::Literal(Literal::Double(_))
            );
        let function = match () {
            () if negated_number => return self.member(),
            () if self.at_symbol("!") => "!_",
            () if self.at_symbol("-") => "-_",
            () => return self.member(),
        };
        let at = self.advance().at;
        let operand = self.nested(Self::unary)?;
        let below = operand.height;
        self.call(at, below, function, None, vec![operand])
    }

    fn call(
        &mut self,
        at: u32,
        below: u32,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Result<Expr, Issue> {
        let call = Call { target, function: function.to_owned(), args };
        self.node(at, below, Kind::Call(Box::new(call)))
    }

    fn member(&mut self) -> Result<Expr, Issue> {
        let mut operand = self.primary()?;
        loop {
            let below = operand.height;
            if let Some(at) = self.take(".") {
                let optional = self.take("?").is_some();
                let name = self.identifier()?;
                if let (false, true) = (optional, self.at_symbol("(")) {
                    let at = self.advance().at;
                    let args = self.arguments()?;
                    operand = macros::call(self, at, Some(operand), &name.text, args)?;
                    continue;
                }
                let access = if optional { Access::Optional } else { Access::Required };
                let select = Select { operand, field: name.text, access };
                operand = self.node(at, below, Kind::Select(Box::new(select)))?;
            } else if let Some(at) = self.take("[") {
                let optional = self.take("?").is_some();
                let index = self.expression()?;
                self.expect("]")?;
                let below = below.max(index.height);
                let access = if optional { Access::Optional } else { Access::Required };
                let index = Index { operand, key: index, access };
                operand = self.node(at, below, Kind::Index(Box::new(index)))?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn identifier(&mut self) -> Result<Token, Issue> {
        if self.at_symbol("`") {
            return Err(Issue::new(self.peek().at, "unsupported syntax: '`'"));
        }
        if matches!(self.peek().kind, TokenKind::Ident) {
            return Ok(self.advance());
        }
        Err(self.unexpected("IDENTIFIER"))
    }

    fn primary(&mut self) -> Result<Expr, Issue> {
        let token = self.peek().clone();
        match token.kind {
            TokenKind::Ident => {
                self.advance();
                self.named(&token.text, token.at)
            }
            TokenKind::Literal(literal) => {
                self.advance();
                self.node(token.at, 0, Kind::Literal(literal))
            }
            TokenKind::Integer(value) => {
                self.advance();
                let value = i64::try_from(value)
                    .map_err(|_| Issue::new(token.at, "invalid int literal"))?;
                self.node(token.at, 0, Kind::Literal(Literal::Int(value)))
            }
            TokenKind::Symbol => match token.text.as_str() {
                "-" => self.negated_number(),
                "(" => {
                    self.advance();
                    let inner = self.expression()?;
                    self.expect(")")?;
                    Ok(inner)
                }
                "[" => self.list(),
                "{" => self.map(),
                "." => {
                    self.advance();
                    let name = self.identifier()?;
                    self.named(&name.text, name.at)
                }
                _ => Err(self.unexpected(OPERANDS)),
            },
            TokenKind::End => Err(self.unexpected(OPERANDS)),
        }
    }

    fn named(&mut self, name: &str, at: u32) -> Result<Expr, Issue> {
        if RESERVED.contains(&name) {
            return Err(Issue::new(at, format!("reserved identifier: {name}")));
        }
        if self.at_symbol("(") {
            let at = self.advance().at;
            let args = self.arguments()?;
            return macros::call(self, at, None, name, args);
        }
        self.node(at, 0, Kind::Ident(name.to_owned()))
    }

    fn negated_number(&mut self) -> Result<Expr, Issue> {
        let at = self.advance().at;
        let number = self.advance();
        let literal = match number.kind {
            TokenKind::Integer(value) => {
                let value = 0_i64
                    .checked_sub_unsigned(value)
                    .ok_or_else(|| Issue::new(at, "invalid int literal"))?;
                Literal::Int(value)
            }
            TokenKind::Literal(Literal::Double(value)) => Literal::Double(-value),
            _ => return Err(self.unexpected(OPERANDS)),
        };
        self.node(at, 0, Kind::Literal(literal))
    }

    /// Arguments up to and with the closing parenthesis.
    fn arguments(&mut self) -> Result<Vec<Expr>, Issue> {
        let mut args = Vec::new();
        while !self.at_symbol(")") {
            args.push(self.expression()?);
            if self.take(",").is_none() {
                break;
            }
            if self.at_symbol(")") {
                return Err(self.unexpected(OPERANDS));
            }
        }
        self.expect(")")?;
        Ok(args)
    }

    fn list(&mut self) -> Result<Expr, Issue> {
        let at = self.advance().at;
        let (mut elements, mut below) = (Vec::new(), 0);
        while !self.at_symbol("]") {
            let optional = self.take("?").is_some();
            let value = self.expression()?;
            below = below.max(value.height);
            elements.push(Element { value, optional });
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("]")?;
        self.node(at, below, Kind::List(elements))
    }

    fn map(&mut self) -> Result<Expr, Issue> {
        let at = self.advance().at;
        let (mut entries, mut below) = (Vec::new(), 0);
        while !self.at_symbol("}") {
            let optional = self.take("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            below = below.max(key.height).max(value.height);
            entries.push(Entry { key, value, optional });
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        self.node(at, below, Kind::Map(entries))
    }
}
