//! Addresses in text, as Go's net/netip reads them, and what it says of those that are none.

use std::net::{IpAddr, Ipv6Addr};

use super::strings::go_quoted;

/// An address as written.
pub(super) enum Written {
    Plain(IpAddr),
    /// An IPv6 address with the name of a network interface after `%`.
    WithZone,
}

/// What is wrong with an address, and the rest of the text from where it is.
type Flaw<'a> = (&'static str, &'a str);

/// As in netip.go, ParseAddr.
pub(super) fn parse(text: &str) -> Result<Written, String> {
    if let Ok(address) = text.parse() {
        return Ok(Written::Plain(address));
    }
    let flaw = match text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]) {
        None => ("unable to parse IP", ""),
        Some(b'%') => ("missing IPv6 address", ""),
        Some(b'.') => in_ipv4(text),
        Some(_) => match text.split_once('%') {
            Some((_, "")) => ("zone must be a non-empty string", ""),
            Some((address, _)) if address.parse::<Ipv6Addr>().is_ok() => {
                return Ok(Written::WithZone);
            }
            Some((address, _)) => in_ipv6(address),
            None => in_ipv6(text),
        },
    };
    Err(match flaw {
        (why, "") => format!("ParseAddr({}): {why}", go_quoted(text)),
        (why, at) => format!("ParseAddr({}): {why} (at {})", go_quoted(text), go_quoted(at)),
    })
}

fn in_ipv4(text: &str) -> Flaw<'_> {
    let (mut value, mut digits, mut fields) = (0, 0, 0);
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        match c {
            '0'..='9' if digits == 1 && value == 0 => {
                return ("IPv4 field has octet with leading zero", "");
            }
            '0'..='9' => {
                value = value * 10 + u32::from(c) - u32::from('0');
                digits += 1;
                if 255 < value {
                    return ("IPv4 field has value >255", "");
                }
            }
            '.' if digits == 0 || rest.len() == 1 => {
                return ("IPv4 field must have at least one digit", rest);
            }
            '.' if fields == 3 => return ("IPv4 address too long", ""),
            '.' => (value, digits, fields) = (0, 0, fields + 1),
            _ => return ("unexpected character", rest),
        }
    }
    ("IPv4 address too short", "")
}

fn in_ipv6(address: &str) -> Flaw<'_> {
    let (mut rest, mut fields) = (address, 0);
    let mut shortened = rest.starts_with("::");
    if shortened {
        rest = &rest[2..];
    }
    while fields < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let after = &rest[digits..];
        match () {
            () if 4 < digits => return ("each group must have 4 or less digits", rest),
            () if digits == 0 => {
                return ("each colon-separated field must have at least one digit", rest);
            }
            () if after.starts_with('.') => return in_embedded_ipv4(rest, fields, shortened),
            () if after.is_empty() => {
                rest = after;
                break;
            }
            () if !after.starts_with(':') => return ("unexpected character, want colon", after),
            () if after.len() == 1 => return ("colon must be followed by more characters", after),
            () => (rest, fields) = (&after[1..], fields + 1),
        }
        if rest.starts_with(':') {
            if shortened {
                return ("multiple :: in address", rest);
            }
            (rest, shortened) = (&rest[1..], true);
            if rest.is_empty() {
                break;
            }
        }
    }
    match () {
        () if !rest.is_empty() => ("trailing garbage after address", rest),
        () if shortened => ("the :: must expand to at least one field of zeros", ""),
        () => ("address string too short", ""),
    }
}

/// What is wrong with an IPv4 address after that many fields of an IPv6 address.
fn in_embedded_ipv4(rest: &str, fields: usize, shortened: bool) -> Flaw<'_> {
    if !shortened && fields != 6 {
        return ("embedded IPv4 address must replace the final 2 fields of the address", rest);
    }
    match fields {
        0..6 => in_ipv4(rest),
        6 if rest.parse::<std::net::Ipv4Addr>().is_err() => in_ipv4(rest),
        6 => ("the :: must expand to at least one field of zeros", ""),
        _ => ("too many hex fields to fit an embedded IPv4 at the end of the address", rest),
    }
}
