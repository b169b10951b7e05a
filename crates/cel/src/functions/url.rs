//! Functions of URLs, which are read as Go's net/url reads them.

use std::fmt::Write as _;

use super::quantity::text;
use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::{Map, Value};

/// A URL in parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Url {
    scheme: String,
    user: String,
    host: String,
    /// As written.
    path: String,
    query: String,
    fragment: String,
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "url" => |call| {
            let url = parse(text(call.args)?).map_err(|why| {
                Fault::text(format!("URL parse error during conversion from string: {why}"))
            })?;
            Ok(Value::Url(url.into()))
        },
        "isURL" => |call| Ok(Value::Bool(parse(text(call.args)?).is_ok())),
        "getScheme" => |call| part(call, |url| url.scheme.clone()),
        "getHost" => |call| part(call, |url| url.host.clone()),
        "getHostname" => |call| part(call, |url| host_and_port(&url.host).0.to_owned()),
        "getPort" => |call| part(call, |url| host_and_port(&url.host).1.to_owned()),
        "getEscapedPath" => |call| part(call, |url| escape_path(&url.path)),
        "getQuery" => |call| match call.args {
            [Value::Url(url)] => Ok(query(&url.query)),
            _ => Err(Fault::NoOverload),
        },
        _ => return None,
    })
}

fn part(call: &mut Arguments<'_>, of: fn(&Url) -> String) -> Result<Value, Fault> {
    match call.args {
        [Value::Url(url)] => Ok(Value::String(of(url).into())),
        _ => Err(Fault::NoOverload),
    }
}

/// Reads an absolute URL or an absolute path. As in url.go, ParseRequestURI and Parse.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| format!("parse {text:?}: {why}");
    if text.contains(|c: char| c < ' ' || c == '\u{7f}') {
        return Err(wrong("net/url: invalid control character in URL"));
    }
    if text.is_empty() {
        return Err(wrong("empty url"));
    }
    let mut url = Url::default();
    if text == "*" {
        url.path.push('*');
        return Ok(url);
    }
    let mut rest = text;
    if let Some((before, fragment)) = rest.split_once('#') {
        fragment.clone_into(&mut url.fragment);
        rest = before;
    }
    (url.scheme, rest) = scheme(rest).map_err(wrong)?;
    if let Some((before, query)) = rest.split_once('?') {
        query.clone_into(&mut url.query);
        rest = before;
    }
    if !rest.starts_with('/') {
        if url.scheme.is_empty() {
            return Err(wrong("invalid URI for request"));
        }
        // An opaque URL, such as mailto:somebody.
        return Ok(url);
    }
    if let Some(authority) = rest.strip_prefix("//")
        && (!url.scheme.is_empty() || !rest.starts_with("///"))
    {
        let end = authority.find('/').unwrap_or(authority.len());
        let (authority, path) = authority.split_at(end);
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                user.clone_into(&mut url.user);
                host
            }
            None => authority,
        };
        check_host(host).map_err(|why| wrong(&why))?;
        host.clone_into(&mut url.host);
        rest = path;
    }
    check_escapes(rest).map_err(|why| wrong(&why))?;
    rest.clone_into(&mut url.path);
    Ok(url)
}

/// The scheme in lower case, and what follows it.
fn scheme(text: &str) -> Result<(String, &str), &'static str> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at != 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => {
            let (_, port) = rest.rsplit_once(']').ok_or("missing ']' in host")?;
            port
        }
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if (!port.is_empty() && !port.starts_with(':'))
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(format!("invalid port {port:?} after host"));
    }
    let name = &host[..host.len() - port.len()];
    if !name.starts_with('[') && name.contains(':') {
        return Err(format!("invalid port {:?} after host", &name[name.find(':').unwrap_or(0)..]));
    }
    if let Some(wrong) = name.chars().find(|c| " <>\"{}|\\^`".contains(*c)) {
        return Err(format!("invalid character {:?} in host name", wrong.to_string()));
    }
    check_escapes(name)
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let digits = text.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let escape: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {escape:?}"));
        }
    }
    Ok(())
}

/// The host without brackets, and the port.
fn host_and_port(host: &str) -> (&str, &str) {
    if let Some((name, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (name, rest.strip_prefix(':').unwrap_or_default());
    }
    host.rsplit_once(':').unwrap_or((host, ""))
}

/// A path in which what may not stand there is escaped; escapes stay.
fn escape_path(path: &str) -> String {
    let mut escaped = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a string takes all text");
        }
    }
    escaped
}

/// All values of all keys. A part that cannot be read is left out.
fn query(text: &str) -> Value {
    let mut all: Vec<(String, Vec<Value>)> = Vec::new();
    for part in text.split('&').filter(|part| !part.is_empty() && !part.contains(';')) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (Some(key), Some(value)) = (unescape(key), unescape(value)) else { continue };
        let value = Value::String(value.into());
        match all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => all.push((key, vec![value])),
        }
    }
    let entries = all.into_iter().map(|(key, values)| (Value::string(&key), Value::list(values)));
    Value::Map(Map::of_texts(entries.collect()).into())
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
