//! From text to tokens.

use crate::ast::Literal;
use crate::source::Issue;

/// A token and its place.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) at: u32,
    pub(crate) text: String,
    pub(crate) kind: TokenKind,
}

/// The kinds of tokens.
#[derive(Debug, Clone)]
pub(crate) enum TokenKind {
    Ident,
    Literal(Literal),
    /// An integer, unsigned by the sign before it: 2^63 is only right after a minus.
    Integer(u64),
    Symbol,
    End,
}

/// Longer symbols come first.
const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "<", ">", "=", "`",
];

/// All tokens of a text; the last is [`TokenKind::End`].
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, Issue> {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = matches!(token.kind, TokenKind::End);
        tokens.push(token);
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

impl Lexer {
    fn next(&mut self) -> Result<Token, Issue> {
        self.skip_space();
        let start = self.at;
        let Some(first) = self.peek(0) else {
            let text = "<EOF>".to_owned();
            return Ok(Token { at: place(start), text, kind: TokenKind::End });
        };
        if let Some((prefix, raw, bytes)) = self.quote_prefix() {
            self.at += prefix;
            let literal = self.quoted(start, raw, bytes)?;
            return Ok(self.token(start, TokenKind::Literal(literal)));
        }
        if first == '_' || first.is_ascii_alphabetic() {
            while self.peek(0).is_some_and(|c| c == '_' || c.is_ascii_alphanumeric()) {
                self.at += 1;
            }
            let kind = match self.text(start).as_str() {
                "true" => TokenKind::Literal(Literal::Bool(true)),
                "false" => TokenKind::Literal(Literal::Bool(false)),
                "null" => TokenKind::Literal(Literal::Null),
                "in" => TokenKind::Symbol,
                _ => TokenKind::Ident,
            };
            return Ok(self.token(start, kind));
        }
        let digit_follows = self.peek(1).is_some_and(|c| c.is_ascii_digit());
        if first.is_ascii_digit() || (first == '.' && digit_follows) {
            let kind = self.number(start)?;
            return Ok(self.token(start, kind));
        }
        for symbol in SYMBOLS {
            if symbol.chars().enumerate().all(|(i, c)| self.peek(i) == Some(c)) && symbol != "=" {
                self.at += symbol.len();
                return Ok(self.token(start, TokenKind::Symbol));
            }
        }
        let mut wrong = first.to_string();
        // A lone `&`, `|` or `=` may have been meant to be two.
        if matches!(first, '&' | '|' | '=') {
            wrong.extend(self.peek(1));
        }
        Err(Issue::new(
            place(start),
            format!("Syntax error: token recognition error at: '{wrong}'"),
        ))
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn text(&self, start: usize) -> String {
        self.chars[start..self.at].iter().collect()
    }

    fn token(&self, start: usize, kind: TokenKind) -> Token {
        Token { at: place(start), text: self.text(start), kind }
    }

    fn skip_space(&mut self) {
        loop {
            match self.peek(0) {
                Some(' ' | '\t' | '\r' | '\n' | '\u{c}') => self.at += 1,
                Some('/') if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn digits(&mut self, radix: u32) {
        while self.peek(0).is_some_and(|c| c.is_digit(radix)) {
            self.at += 1;
        }
    }

    fn number(&mut self, start: usize) -> Result<TokenKind, Issue> {
        let hexadecimal = self.peek(0) == Some('0')
            && matches!(self.peek(1), Some('x' | 'X'))
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit());
        if hexadecimal {
            self.at += 2;
            self.digits(16);
        } else {
            self.digits(10);
            if self.fraction_and_exponent() {
                let value = self.text(start).parse();
                return match value {
                    Ok(value) => Ok(TokenKind::Literal(Literal::Double(value))),
                    Err(_) => Err(Issue::new(place(start), "invalid double literal")),
                };
            }
        }
        let (from, radix) = if hexadecimal { (start + 2, 16) } else { (start, 10) };
        let value = u64::from_str_radix(&self.text(from), radix);
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return match value {
                Ok(value) => Ok(TokenKind::Literal(Literal::Uint(value))),
                Err(_) => Err(Issue::new(place(start), "invalid uint literal")),
            };
        }
        value.map(TokenKind::Integer).map_err(|_| Issue::new(place(start), "invalid int literal"))
    }

    /// Reads what makes a number a floating-point one, if it is there.
    fn fraction_and_exponent(&mut self) -> bool {
        let start = self.at;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            self.digits(10);
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                self.at += 1 + sign;
                self.digits(10);
            }
        }
        start < self.at
    }

    /// The length of the prefix before a quote, whether it is raw, whether it is bytes.
    fn quote_prefix(&self) -> Option<(usize, bool, bool)> {
        let (mut raw, mut bytes) = (false, false);
        for length in 0..3 {
            match self.peek(length)? {
                '"' | '\'' => return Some((length, raw, bytes)),
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes && !raw => bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn quoted(&mut self, start: usize, raw: bool, bytes: bool) -> Result<Literal, Issue> {
        let quote = self.chars[self.at];
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let length = if triple { 3 } else { 1 };
        self.at += length;
        let unfinished = |lexer: &Self| {
            let text: String = lexer.chars[start..].iter().take(20).collect();
            let message = format!("Syntax error: token recognition error at: '{text}'");
            Issue::new(place(start), message)
        };
        let mut text = Vec::new();
        loop {
            let c = self.peek(0).ok_or_else(|| unfinished(self))?;
            if (0..length).all(|i| self.peek(i) == Some(quote)) {
                self.at += length;
                break;
            }
            self.at += 1;
            match c {
                '\\' if !raw => self.escape(start, bytes, &mut text)?,
                '\\' => {
                    // A raw backslash keeps the quote after it from ending the literal.
                    push(&mut text, c);
                    let next = self.peek(0).ok_or_else(|| unfinished(self))?;
                    if next == quote || next == '\\' {
                        self.at += 1;
                        push(&mut text, next);
                    }
                }
                '\n' | '\r' if !triple => return Err(unfinished(self)),
                '\r' => {
                    // Line ends are written in one way.
                    if self.peek(0) == Some('\n') {
                        self.at += 1;
                    }
                    text.push(b'\n');
                }
                _ => push(&mut text, c),
            }
        }
        if bytes {
            return Ok(Literal::Bytes(text));
        }
        let text = String::from_utf8(text).expect("only bytes literals take single bytes");
        Ok(Literal::String(text))
    }

    fn escape(&mut self, start: usize, bytes: bool, text: &mut Vec<u8>) -> Result<(), Issue> {
        let wrong = || Issue::new(place(start), "Syntax error: invalid escape sequence");
        let single = |text: &mut Vec<u8>, byte| {
            text.push(byte);
            Ok(())
        };
        let c = self.peek(0).ok_or_else(wrong)?;
        self.at += 1;
        let (digits, radix) = match c {
            'a' => return single(text, 7),
            'b' => return single(text, 8),
            'f' => return single(text, 12),
            'n' => return single(text, b'\n'),
            'r' => return single(text, b'\r'),
            't' => return single(text, b'\t'),
            'v' => return single(text, 11),
            '\\' | '\'' | '"' | '`' | '?' => {
                push(text, c);
                return Ok(());
            }
            'x' | 'X' => (2, 16),
            'u' if !bytes => (4, 16),
            'U' if !bytes => (8, 16),
            '0'..='3' => {
                self.at -= 1;
                (3, 8)
            }
            _ => return Err(wrong()),
        };
        let mut code = 0_u32;
        for _ in 0..digits {
            let digit = self.peek(0).and_then(|c| c.to_digit(radix)).ok_or_else(wrong)?;
            code = code.wrapping_mul(radix).wrapping_add(digit);
            self.at += 1;
        }
        if bytes {
            text.push(u8::try_from(code).map_err(|_| wrong())?);
        } else {
            push(text, char::from_u32(code).ok_or_else(wrong)?);
        }
        Ok(())
    }
}

fn push(text: &mut Vec<u8>, c: char) {
    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// A place in the source. Expressions are far shorter than 4 GiB.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
