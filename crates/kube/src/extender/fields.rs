//! Reads JSON objects as Go's encoding/json does, since extenders are tested with it.

/// Defines a type that is read from a JSON object. Field names are not case-sensitive, `null` counts as
/// missing, unknown fields are ignored, and the last of duplicate fields counts.
macro_rules! go_object {
    ($(
        $(#[$doc:meta])*
        struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal),+ $(,)? }
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name { $($(#[$field_doc])* pub(super) $field: $type),+ }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Object;
                impl<'de> serde::de::Visitor<'de> for Object {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object with ", $($key, " "),+))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<$name, A::Error> {
                        let mut object = $name::default();
                        while let Some(key) = map.next_key::<String>()? {
                            $(if key.eq_ignore_ascii_case($key) {
                                let value = map.next_value::<Option<$type>>()?;
                                object.$field = value.unwrap_or_default();
                                continue;
                            })+
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                        Ok(object)
                    }
                }
                from.deserialize_map(Object)
            }
        }
    )+};
}
pub(super) use go_object;

/// Reads the first JSON value in `text`; the rest is ignored, as by Go's Decoder.
pub(super) fn first<'de, T: serde::Deserialize<'de>>(text: &'de [u8]) -> serde_json::Result<T> {
    T::deserialize(&mut serde_json::Deserializer::from_slice(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    go_object! {
        struct Thing { name: String = "Name", sizes: Option<Vec<i64>> = "Sizes" }
    }

    #[test]
    fn objects_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("{}", ("", None)),
            (r#"{"NAME":"a","other":{"x":[1]},"sizes":[1,2]}"#, ("a", Some(vec![1, 2]))),
            (r#"{"name":"a","Name":"b","Sizes":null}"#, ("b", None)),
            ("{\"Name\":null}\nand more", ("", None)),
        ] {
            let thing: Thing = first(text.as_bytes()).expect(text);
            assert_eq!((thing.name.as_str(), thing.sizes), expected, "{text}");
        }
        for text in ["", "[]", r#"{"Name":1}"#, r#"{"Sizes":[1.5]}"#, r#"{"Name":"a""#] {
            assert!(first::<Thing>(text.as_bytes()).is_err(), "{text}");
        }
    }
}
