//! The identity of this process.

use std::fmt::Write as _;

/// The name of this machine; `localhost` if it cannot be read.
pub fn hostname() -> String {
    let name = hostname::get().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// A random UUID (version 4), as text.
pub(crate) fn uuid() -> String {
    let mut bytes: [u8; 16] = rand::random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("text can grow");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_random_and_says_so() {
        let (one, other) = (uuid(), uuid());
        assert_ne!(one, other);
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(matches!(one.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{one}");
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(!hostname().is_empty());
    }
}
