//! Times as Kubernetes writes them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `metav1.Time`: whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    text(time, "%Y-%m-%dT%H:%M:%SZ")
}

/// `metav1.MicroTime`: microseconds, with all digits.
pub(crate) fn micros(time: Timestamp) -> String {
    text(time, "%Y-%m-%dT%H:%M:%S.%6fZ")
}

fn text(time: Timestamp, format: &str) -> String {
    time.to_zoned(TimeZone::UTC).strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_as_many_digits_as_kubernetes_gives_them() {
        let time = Timestamp::new(1_700_000_000, 45_000_999).expect("it is in range");
        assert_eq!(seconds(time), "2023-11-14T22:13:20Z");
        assert_eq!(micros(time), "2023-11-14T22:13:20.045000Z");
    }
}
