//! Numbers as Go prints them.

/// A number as Go's `strconv.FormatFloat(f, 'g', -1, 64)` prints it, which is the format of metrics:
/// `0.001`, `1e-05`, `1e+06`, `+Inf`. The bounds of buckets are labels, so every digit counts.
pub(super) fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value.is_sign_positive() { "+Inf" } else { "-Inf" }.to_owned();
    }
    // Rust finds the same shortest digits, but formats them differently.
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // As in strconv/ftoa.go, formatDigits.
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        for (value, printed) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.500_000_000_000_000_2e-05, "1.5000000000000002e-05"),
            (16.384, "16.384"),
            (5242.88, "5242.88"),
            (123_456.0, "123456"),
            (123_456.789, "123456.789"),
            (1_000_000.0, "1e+06"),
            (41_492_480.0, "4.149248e+07"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(go_float(value), printed);
        }
    }
}
