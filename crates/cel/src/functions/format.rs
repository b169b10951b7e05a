//! The named formats of Kubernetes. Messages are those of apimachinery's validation.

use super::{Arguments, Implementation, time, url};
use crate::error::Fault;
use crate::value::Value;

/// A named format of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedFormat {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    Dns1123LabelPrefix,
    Dns1123SubdomainPrefix,
    Dns1035LabelPrefix,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    DateTime,
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start \
and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
'example.com/MyName')";

impl NamedFormat {
    /// How long a regular expression for it would be at most, which counts for the cost.
    pub(crate) fn regex_size(self) -> u64 {
        match self {
            Self::Dns1123Label
            | Self::Dns1035Label
            | Self::Dns1123LabelPrefix
            | Self::Dns1035LabelPrefix => 30,
            Self::Dns1123Subdomain | Self::QualifiedName | Self::Dns1123SubdomainPrefix => 60,
            Self::LabelValue => 40,
            Self::Uri => 1_200,
            Self::Uuid => 94,
            Self::Byte => 97,
            Self::Date | Self::DateTime => 176,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "dns1123Label" => Self::Dns1123Label,
            "dns1123Subdomain" => Self::Dns1123Subdomain,
            "dns1035Label" => Self::Dns1035Label,
            "qualifiedName" => Self::QualifiedName,
            "dns1123LabelPrefix" => Self::Dns1123LabelPrefix,
            "dns1123SubdomainPrefix" => Self::Dns1123SubdomainPrefix,
            "dns1035LabelPrefix" => Self::Dns1035LabelPrefix,
            "labelValue" => Self::LabelValue,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "byte" => Self::Byte,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            _ => return None,
        })
    }

    /// What is wrong with a text.
    fn faults(self, text: &str) -> Vec<String> {
        // Of a prefix the last character does not matter.
        let prefix = text.strip_suffix('-').map(|start| format!("{start}a"));
        let prefix = prefix.as_deref().unwrap_or(text);
        match self {
            Self::Dns1123Label => dns(text, 63, LABEL, is_label),
            Self::Dns1123LabelPrefix => dns(prefix, 63, LABEL, is_label),
            Self::Dns1123Subdomain => dns(text, 253, SUBDOMAIN, is_subdomain),
            Self::Dns1123SubdomainPrefix => dns(prefix, 253, SUBDOMAIN, is_subdomain),
            Self::Dns1035Label => dns(text, 63, LABEL_1035, is_label_1035),
            Self::Dns1035LabelPrefix => dns(prefix, 63, LABEL_1035, is_label_1035),
            Self::QualifiedName => qualified_name(text),
            Self::LabelValue => dns(text, 63, VALUE, |text| text.is_empty() || is_name(text)),
            Self::Uri => url::parse(text).err().into_iter().collect(),
            Self::Uuid => unless(is_uuid(text), "does not match the UUID format"),
            Self::Byte => unless(is_base64(text), "invalid base64"),
            Self::Date => {
                let valid =
                    text.len() == 10 && time::timestamp(&format!("{text}T00:00:00Z")).is_some();
                unless(valid, "invalid date")
            }
            Self::DateTime => {
                unless(time::timestamp(&text.to_ascii_uppercase()).is_some(), "invalid datetime")
            }
        }
    }
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    /// A function without arguments that gives a format.
    macro_rules! constant {
        ($format:ident) => {
            |_| Ok(Value::Format(NamedFormat::$format))
        };
    }
    Some(match name {
        "format.named" => |call| match call.args {
            [Value::String(name)] => Ok(match NamedFormat::named(name) {
                Some(format) => Value::some(Value::Format(format)),
                None => Value::Optional(None),
            }),
            _ => Err(Fault::NoOverload),
        },
        "validate" => validate,
        "format.dns1123Label" => constant!(Dns1123Label),
        "format.dns1123Subdomain" => constant!(Dns1123Subdomain),
        "format.dns1035Label" => constant!(Dns1035Label),
        "format.qualifiedName" => constant!(QualifiedName),
        "format.dns1123LabelPrefix" => constant!(Dns1123LabelPrefix),
        "format.dns1123SubdomainPrefix" => constant!(Dns1123SubdomainPrefix),
        "format.dns1035LabelPrefix" => constant!(Dns1035LabelPrefix),
        "format.labelValue" => constant!(LabelValue),
        "format.uri" => constant!(Uri),
        "format.uuid" => constant!(Uuid),
        "format.byte" => constant!(Byte),
        "format.date" => constant!(Date),
        "format.datetime" => constant!(DateTime),
        _ => return None,
    })
}

fn validate(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let [Value::Format(format), Value::String(text)] = call.args else {
        return Err(Fault::NoOverload);
    };
    let faults = format.faults(text);
    if faults.is_empty() {
        return Ok(Value::Optional(None));
    }
    let faults = faults.iter().map(|fault| Value::string(fault)).collect();
    Ok(Value::some(Value::list(faults)))
}

fn unless(valid: bool, fault: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![fault.to_owned()] }
}

fn dns(text: &str, most: usize, fault: &str, is_valid: fn(&str) -> bool) -> Vec<String> {
    let mut faults = unless(text.len() <= most, &format!("must be no more than {most} bytes"));
    faults.extend(unless(is_valid(text), fault));
    faults
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| inner(*byte))
        && bytes.last().is_some_and(|byte| inner(*byte))
}

fn is_label_1035(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

fn qualified_name(text: &str) -> Vec<String> {
    let parts = text.split('/').collect::<Vec<_>>();
    let (prefix, name) = match parts[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => return vec![QUALIFIED.to_owned()],
    };
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            let wrong = dns(prefix, 253, SUBDOMAIN, is_subdomain);
            faults.extend(wrong.into_iter().map(|fault| format!("prefix part {fault}")));
        }
        None => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if 63 < name.len() {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    faults.extend(unless(is_name(name), NAME_PART));
    faults
}

fn is_uuid(text: &str) -> bool {
    let groups = text.split('-').collect::<Vec<_>>();
    let digits = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    groups.iter().all(digits)
        && match groups[..] {
            [all] => all.len() == 32,
            _ => groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]),
        }
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}
