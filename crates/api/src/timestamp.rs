//! The compact form of a time in a recording: seconds and nanoseconds, where JSON would have a text.

use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a time.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(crate) fn serialize<S: Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let parts = time.map(|time| (time.as_second(), time.subsec_nanosecond()));
    parts.serialize(serializer)
}

/// Reads a time.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let parts = Option::<(i64, i32)>::deserialize(deserializer)?;
    parts.map(|(second, nano)| Timestamp::new(second, nano).map_err(D::Error::custom)).transpose()
}
