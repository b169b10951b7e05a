//! Regular expressions. Their syntax is RE2's; where that of the crate `regex` differs, they are
//! translated.

use std::borrow::Cow;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::Value;

/// The most bytes a compiled regular expression may take.
const MAX_SIZE: usize = 1 << 21;
/// The most times something may be repeated, as in RE2.
const MAX_REPEAT: u32 = 1_000;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "matches" => matches,
        "find" => find,
        "findAll" => find_all,
        _ => return None,
    })
}

/// Whether the second argument of the function is a regular expression.
pub(crate) fn takes_regex(function: &str) -> bool {
    matches!(function, "matches" | "find" | "findAll")
}

/// Compiles a regular expression; the error is like that of Go.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    let mut builder = RegexBuilder::new(&translated);
    builder.size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).nest_limit(200);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => wrong("expression too large", pattern),
        error => wrong(reason(&error.to_string()), pattern),
    })
}

fn wrong(why: &str, part: &str) -> String {
    format!("error parsing regexp: {why}: `{part}`")
}

/// What Go calls an error of the crate.
fn reason(text: &str) -> &'static str {
    let reasons = [
        ("unclosed character class", "missing closing ]"),
        ("unclosed group", "missing closing )"),
        ("unopened group", "unexpected )"),
        ("repetition operator missing expression", "missing argument to repetition operator"),
        ("invalid character class range", "invalid character class range"),
        ("incomplete escape sequence", "trailing backslash at end of expression"),
        ("unrecognized escape sequence", "invalid escape sequence"),
        ("exceeded the maximum number of nested", "expression nests too deeply"),
        ("Unicode property not found", "invalid character class range"),
        ("invalid repetition count range", "invalid repeat count"),
    ];
    let known = reasons.iter().find(|(part, _)| text.contains(part));
    known.map_or("invalid or unsupported Perl syntax", |(_, why)| why)
}

fn with<T>(
    call: &mut Arguments<'_>,
    pattern: &Arc<str>,
    failed: fn(&str) -> String,
    then: impl FnOnce(&Regex) -> T,
) -> Result<T, Fault> {
    let regex = match call.regex {
        Some(regex) => regex,
        None => call.budget.regex(pattern)?.map_err(|why| Fault::text(failed(&why)))?,
    };
    Ok(then(regex))
}

fn illegal(why: &str) -> String {
    format!("Illegal regex: {why}")
}

fn matches(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args {
        [Value::String(text), Value::String(pattern)] => {
            with(call, pattern, str::to_owned, |regex| regex.is_match(text)).map(Value::Bool)
        }
        // Only texts have this operator; cel-go names it for all others.
        [Value::String(_), _] => Err(Fault::overload()),
        _ if call.regex.is_some() => Err(Fault::overload()),
        _ => Err(Fault::text("no such overload: matches")),
    }
}

/// Arguments of other types. Where the regular expression is a constant, cel-go calls another
/// function, which names nothing.
fn mismatch(call: &Arguments<'_>) -> Fault {
    if call.regex.is_some() { Fault::overload() } else { Fault::NoOverload }
}

fn find(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let [Value::String(text), Value::String(pattern)] = call.args else {
        return Err(mismatch(call));
    };
    with(call, pattern, illegal, |regex| {
        Value::string(regex.find(text).map_or("", |found| found.as_str()))
    })
}

fn find_all(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (text, pattern, most) = match call.args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(most)] => (text, pattern, *most),
        _ => return Err(mismatch(call)),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = with(call, pattern, illegal, |regex| {
        let found = regex.find_iter(text).take(most);
        found.map(|found| Value::string(found.as_str())).collect::<Vec<_>>()
    })?;
    call.budget.keep(found.len())?;
    Ok(Value::list(found))
}

/// The pattern in the syntax of the crate.
fn translate(pattern: &str) -> Result<String, String> {
    let mut translator = Translator { pattern, at: 0, out: String::new() };
    while translator.at < pattern.len() {
        translator.next()?;
    }
    Ok(translator.out)
}

struct Translator<'a> {
    pattern: &'a str,
    at: usize,
    out: String,
}

impl Translator<'_> {
    fn rest(&self) -> &str {
        &self.pattern[self.at..]
    }

    fn copy(&mut self, length: usize) {
        let end = self.at + length;
        self.out.push_str(&self.pattern[self.at..end]);
        self.at = end;
    }

    fn next(&mut self) -> Result<(), String> {
        let first = self.rest().chars().next().expect("there is a rest");
        match first {
            '\\' => self.escape(false),
            '[' => self.class(),
            '{' => self.repetition(),
            '(' => self.group(),
            _ => {
                self.copy(first.len_utf8());
                Ok(())
            }
        }
    }

    /// Letters of escapes are about ASCII in RE2.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let mut chars = self.rest().chars();
        chars.next();
        let Some(c) = chars.next() else {
            return Err(wrong("trailing backslash at end of expression", ""));
        };
        let replaced = match c {
            'd' => "0-9",
            'w' => "0-9A-Za-z_",
            's' => "\\t\\n\\x0C\\r ",
            'D' => "^0-9",
            'W' => "^0-9A-Za-z_",
            'S' => "^\\t\\n\\x0C\\r ",
            _ => "",
        };
        if !replaced.is_empty() {
            self.at += 2;
            // A negated class within a class is a class of its own here.
            if in_class && !replaced.starts_with('^') {
                self.out.push_str(replaced);
            } else {
                self.out.push('[');
                self.out.push_str(replaced);
                self.out.push(']');
            }
            return Ok(());
        }
        match c {
            'Q' => {
                let rest = &self.pattern[self.at + 2..];
                let (quoted, length) = match rest.find("\\E") {
                    Some(end) => (&rest[..end], end + 2),
                    None => (rest, rest.len()),
                };
                let quoted = regex::escape(quoted);
                self.out.push_str(&quoted);
                self.at += 2 + length;
            }
            'b' if !in_class => {
                self.at += 2;
                self.out.push_str("(?-u:\\b)");
            }
            'C' | 'u' | 'U' | 'Z' | '<' | '>' => {
                return Err(wrong("invalid escape sequence", &format!("\\{c}")));
            }
            _ => self.copy(1 + c.len_utf8()),
        }
        Ok(())
    }

    /// What is not special within a class of RE2 but is one of the crate's is escaped.
    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.copy(1);
        if self.rest().starts_with('^') {
            self.copy(1);
        }
        if self.rest().starts_with(']') {
            self.at += 1;
            self.out.push_str("\\]");
        }
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return Err(wrong("missing closing ]", &self.pattern[start..]));
            };
            match c {
                ']' => {
                    self.copy(1);
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '[' if rest.starts_with("[:") && rest.contains(":]") => {
                    self.copy(rest.find(":]").expect("just found") + 2);
                }
                '[' | '&' | '~' => {
                    self.out.push('\\');
                    self.copy(1);
                }
                '-' if rest.starts_with("--") => {
                    self.at += 1;
                    self.out.push_str("\\-");
                }
                c => self.copy(c.len_utf8()),
            }
        }
    }

    /// A brace that is no repetition stands for itself in RE2.
    fn repetition(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let end = rest.find('}').map(|end| &rest[..=end]);
        let bounds = end.map(|text| &text[1..text.len() - 1]);
        let (low, high) = bounds
            .and_then(|text| text.split_once(','))
            .unwrap_or((bounds.unwrap_or_default(), ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if low.is_empty() || !digits(low) || !digits(high) {
            self.at += 1;
            self.out.push_str("\\{");
            return Ok(());
        }
        let text = end.unwrap_or_default();
        let low = low.parse().unwrap_or(u32::MAX);
        let high = if high.is_empty() { low } else { high.parse().unwrap_or(u32::MAX) };
        if MAX_REPEAT < low || MAX_REPEAT < high || high < low {
            return Err(wrong("invalid repeat count", text));
        }
        self.copy(text.len());
        Ok(())
    }

    /// Flags that only the crate has are rejected.
    fn group(&mut self) -> Result<(), String> {
        let flags: Cow<'_, str> = match self.rest().strip_prefix("(?") {
            Some(flags) => {
                flags.chars().take_while(|c| c.is_ascii_alphabetic() || *c == '-').collect()
            }
            None => "".into(),
        };
        if flags.contains(['x', 'u', 'R']) && !flags.starts_with('P') {
            let text = format!("(?{flags}");
            return Err(wrong("invalid or unsupported Perl syntax", &text));
        }
        self.copy(1);
        Ok(())
    }
}
