//! Functions of semantic versions. They are read as the library blang/semver v4 reads them, whose
//! messages users see.

use semver::Version;

use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::Value;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "semver" => |call| {
            let version = read(call.args)?.map_err(Fault::text)?;
            Ok(Value::Semver(version.into()))
        },
        "isSemver" => |call| Ok(Value::Bool(read(call.args)?.is_ok())),
        "major" => |call| part(call, |version| version.major),
        "minor" => |call| part(call, |version| version.minor),
        "patch" => |call| part(call, |version| version.patch),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_wrap, reason = "the conversion in Go wraps, too")]
fn part(call: &mut Arguments<'_>, of: fn(&Version) -> u64) -> Result<Value, Fault> {
    match call.args {
        [Value::Semver(version)] => Ok(Value::Int(of(version) as i64)),
        _ => Err(Fault::NoOverload),
    }
}

fn read(args: &[&Value]) -> Result<Result<Version, String>, Fault> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(parse(text)),
        [Value::String(text), Value::Bool(true)] => {
            Ok(normalized(text).and_then(|text| parse(&text)))
        }
        _ => Err(Fault::NoOverload),
    }
}

/// The text without a `v` before it and zeros before numbers, and with all three numbers. As in
/// semverlib.go, normalizeAndParse.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts = text.splitn(3, '.').map(|part| {
        if part.len() <= 1 {
            return part.to_owned();
        }
        let rest = part.trim_start_matches('0');
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            rest.to_owned()
        } else {
            format!("0{rest}")
        }
    });
    let mut parts = parts.by_ref().collect::<Vec<_>>();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

/// Reads a version; the error is that of blang/semver.
pub(crate) fn parse(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let mut parts = text.splitn(3, '.');
    let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    number(major, "major", "Major")?;
    number(minor, "minor", "Minor")?;
    let (rest, build) = match rest.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (rest, None),
    };
    let (patch, prerelease) = match rest.split_once('-') {
        Some((patch, prerelease)) => (patch, Some(prerelease)),
        None => (rest, None),
    };
    number(patch, "patch", "Patch")?;
    for part in prerelease.into_iter().flat_map(|all| all.split('.')) {
        identifier(part, "Prerelease is empty", "prerelease")?;
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        if digits && 1 < part.len() && part.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {part:?}"
            ));
        }
    }
    for part in build.into_iter().flat_map(|all| all.split('.')) {
        identifier(part, "Build meta data is empty", "build meta data")?;
    }
    Version::parse(text).map_err(|error| error.to_string())
}

fn number(text: &str, name: &str, title: &str) -> Result<(), String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if 1 < text.len() && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {text:?}"));
    }
    let why = match text.parse::<u64>() {
        Ok(_) => return Ok(()),
        Err(_) if text.is_empty() => "invalid syntax",
        Err(_) => "value out of range",
    };
    Err(format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

fn identifier(text: &str, empty: &str, name: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(empty.to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(format!("Invalid character(s) found in {name} {text:?}"));
    }
    Ok(())
}
