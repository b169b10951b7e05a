//! Timestamps and durations. The time zone is UTC unless an expression says another.

use std::ops::RangeInclusive;

use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::Value;

/// Nanoseconds in a second.
pub(crate) const SECOND: i128 = 1_000_000_000;
/// The timestamps that there are: the years 1 to 9999.
pub(crate) const VALID: RangeInclusive<i128> =
    -62_135_596_800 * SECOND..=253_402_300_799 * SECOND + 999_999_999;
const DAY: i128 = 86_400 * SECOND;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "getFullYear" => |call| field(call, None, |time| time.year),
        "getMonth" => |call| field(call, None, |time| time.month - 1),
        "getDate" => |call| field(call, None, |time| time.day),
        "getDayOfMonth" => |call| field(call, None, |time| time.day - 1),
        "getDayOfYear" => |call| field(call, None, |time| time.day_of_year),
        "getDayOfWeek" => |call| field(call, None, |time| time.day_of_week),
        "getHours" => |call| field(call, Some(3600 * SECOND), |time| time.second / 3600),
        "getMinutes" => |call| field(call, Some(60 * SECOND), |time| time.second / 60 % 60),
        "getSeconds" => |call| field(call, Some(SECOND), |time| time.second % 60),
        "getMilliseconds" => |call| field(call, Some(1_000_000), |time| time.millisecond),
        _ => return None,
    })
}

/// A time in a time zone.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    /// From 0.
    day_of_year: i64,
    /// From Sunday, which is 0.
    day_of_week: i64,
    /// Of the day.
    second: i64,
    millisecond: i64,
}

/// A field of a time, or how many units a duration has.
fn field(
    call: &mut Arguments<'_>,
    unit: Option<i128>,
    of: fn(&Civil) -> i64,
) -> Result<Value, Fault> {
    match (call.args, unit) {
        ([Value::Timestamp(time)], _) => Ok(Value::Int(of(&civil(*time)))),
        ([Value::Timestamp(time), Value::String(zone)], _) => {
            Ok(Value::Int(of(&civil(time + offset(zone)?))))
        }
        ([Value::Duration(nanoseconds)], Some(unit)) => {
            let units = i128::from(*nanoseconds) / unit;
            Ok(Value::Int(i64::try_from(units).expect("a part of 64 bits")))
        }
        _ => Err(Fault::NoOverload),
    }
}

/// How far a time zone is from UTC: `UTC`, or hours and minutes as `-08:00`.
fn offset(zone: &str) -> Result<i128, Fault> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" => Ok(0),
            _ => Err(Fault::text(format!("unknown time zone {zone}"))),
        };
    };
    let number = |text: &str| {
        let wrong = || Fault::text(format!("strconv.Atoi: parsing \"{text}\": invalid syntax"));
        text.parse::<i32>().map(i128::from).map_err(|_| wrong())
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if zone.starts_with('-') { -minutes } else { minutes };
    Ok((hours * 60 + minutes) * 60 * SECOND)
}

fn civil(nanoseconds: i128) -> Civil {
    let narrow = |value: i128| {
        i64::try_from(value).expect("offsets from the years 1 to 9999 are of 32 bits")
    };
    let days = narrow(nanoseconds.div_euclid(DAY));
    let within = nanoseconds.rem_euclid(DAY);
    let (year, month, day) = date(days);
    Civil {
        year,
        month,
        day,
        day_of_year: days - days_before(year, 1, 1),
        day_of_week: (days + 4).rem_euclid(7),
        second: narrow(within / SECOND),
        millisecond: narrow(within % SECOND / 1_000_000),
    }
}

/// Days since 1970 of a date of the Gregorian calendar. Years are taken to begin in March, so that
/// the leap day is the last.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + day_of_year - 719_468
}

/// The date of a day since 1970. The calendar repeats every 400 years, which have 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Nanoseconds of a text in the form of RFC 3339.
pub(crate) fn timestamp(text: &str) -> Option<i128> {
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() < 20 || separators.iter().any(|(at, byte)| bytes[*at] != *byte) {
        return None;
    }
    let number = |from: usize, to: usize| digits(text.get(from..to)?);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let mut rest = text.get(19..)?;
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix(['.', ',']) {
        let length = after.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return None;
        }
        fraction = format!("{:0<9.9}", &after[..length]).parse().ok()?;
        rest = &after[length..];
    }
    let offset = if rest == "Z" {
        0
    } else {
        let sign = match rest.as_bytes() {
            [b'+', _, _, b':', _, _] => 1,
            [b'-', _, _, b':', _, _] => -1,
            _ => return None,
        };
        let (hours, minutes) = (digits(rest.get(1..3)?)?, digits(rest.get(4..6)?)?);
        if 24 <= hours || 60 <= minutes {
            return None;
        }
        sign * (hours * 3600 + minutes * 60)
    };
    let exists = (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
    if !exists || day < 1 || date(days_before(year, month, day)) != (year, month, day) {
        return None;
    }
    let seconds = days_before(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let nanoseconds = i128::from(seconds - offset) * SECOND + fraction;
    VALID.contains(&nanoseconds).then_some(nanoseconds)
}

fn digits(text: &str) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A timestamp in the form of RFC 3339, with as many digits of the fraction as needed.
pub(super) fn timestamp_text(nanoseconds: i128) -> String {
    let Civil { year, month, day, second, .. } = civil(nanoseconds);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = fraction_text(nanoseconds.rem_euclid(SECOND));
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The digits after the point, with it, without zeros at the end.
fn fraction_text(nanoseconds: i128) -> String {
    if nanoseconds == 0 {
        return String::new();
    }
    format!(".{nanoseconds:09}").trim_end_matches('0').to_owned()
}

/// A duration in seconds.
pub(super) fn duration_text(nanoseconds: i64) -> String {
    let magnitude = i128::from(nanoseconds.unsigned_abs());
    let sign = if nanoseconds < 0 { "-" } else { "" };
    format!("{sign}{}{}s", magnitude / SECOND, fraction_text(magnitude % SECOND))
}

/// Nanoseconds of a duration as Go reads them: numbers with units, such as `1h30m`.
pub(crate) fn duration(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Some(0);
    }
    let mut rest = unsigned;
    let mut total = 0_i128;
    while !rest.is_empty() || unsigned.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (mut number, mut after) = (&rest[..whole], &rest[whole..]);
        let mut fraction = "";
        if let Some(point) = after.strip_prefix('.') {
            let length = point.bytes().take_while(u8::is_ascii_digit).count();
            (fraction, after) = (&point[..length], &point[length..]);
        }
        if number.is_empty() && fraction.is_empty() {
            return None;
        }
        number = if number.is_empty() { "0" } else { number };
        let length = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit: i128 = match &after[..length] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return None,
        };
        rest = &after[length..];
        // More digits than these are below a nanosecond of an hour.
        let fraction = &fraction[..fraction.len().min(18)];
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        let part = fraction.parse::<i128>().unwrap_or(0) * unit / scale;
        total += i128::from(number.parse::<i64>().ok()?) * unit + part;
    }
    let total = if text.starts_with('-') { -total } else { total };
    i64::try_from(total).ok()
}
