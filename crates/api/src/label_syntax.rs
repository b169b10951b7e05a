//! The rules for keys and values of labels, and the messages of Kubernetes for those that are not valid.
//!
//! As in apimachinery's api/validate/content: kube.go, dns.go and errors.go.

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character";
const NAME_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_MAX_LENGTH: usize = 63;
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN_PATTERN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MAX_LENGTH: usize = 253;
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character";
const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// What is wrong with `key` as the key of a label or the name of a resource; nothing if it is valid.
pub fn label_key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some(("", name)) if !name.contains('/') => {
            faults.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) if !name.contains('/') => {
            faults.extend(subdomain_faults(prefix).map(|fault| format!("prefix part {fault}")));
            name
        }
        Some(_) => {
            let rule = example_rule(NAME_RULE, NAME_PATTERN, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if NAME_MAX_LENGTH < name.len() {
        faults.push(format!("name part must be no more than {NAME_MAX_LENGTH} bytes"));
    }
    if !is_name(name) {
        let rule = example_rule(NAME_RULE, NAME_PATTERN, &["MyName", "my.name", "123-abc"]);
        faults.push(format!("name part {rule}"));
    }
    faults
}

/// What is wrong with `value` as the value of a label; nothing if it is valid.
pub fn label_value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if NAME_MAX_LENGTH < value.len() {
        faults.push(format!("must be no more than {NAME_MAX_LENGTH} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        let pattern = format!("({NAME_PATTERN})?");
        faults.push(example_rule(VALUE_RULE, &pattern, &["MyValue", "my_value", "12345"]));
    }
    faults
}

/// What is wrong with a name that must be a label of DNS, such as that of a request for devices.
pub(crate) fn dns_label_faults(name: &str) -> impl Iterator<Item = String> + use<> {
    let length = (NAME_MAX_LENGTH < name.len())
        .then(|| format!("must be no more than {NAME_MAX_LENGTH} bytes"));
    let form = (!is_dns_label(name))
        .then(|| example_rule(LABEL_RULE, LABEL_PATTERN, &["my-name", "123-abc"]));
    length.into_iter().chain(form)
}

/// What is wrong with a name that must be a subdomain of DNS.
pub(crate) fn subdomain_faults(name: &str) -> impl Iterator<Item = String> + use<> {
    let is_valid = name.split('.').all(is_dns_label);
    let length = (SUBDOMAIN_MAX_LENGTH < name.len())
        .then(|| format!("must be no more than {SUBDOMAIN_MAX_LENGTH} bytes"));
    let form =
        (!is_valid).then(|| example_rule(SUBDOMAIN_RULE, SUBDOMAIN_PATTERN, &["example.com"]));
    length.into_iter().chain(form)
}

fn is_dns_label(label: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !label.is_empty()
        && label.chars().all(is_inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().all(is_inner)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn example_rule(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_may_have_a_domain() {
        for key in ["a", "A-b_c.9", "example.com/a", "x-1.io/B", &"n".repeat(63)] {
            assert!(label_key_faults(key).is_empty(), "{key}");
        }
    }

    #[test]
    fn a_bad_label_key_is_explained_in_the_words_of_kubernetes() {
        let rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and \
                    end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                    '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        assert_eq!(label_key_faults("-a"), [format!("name part {rule}")]);
        assert_eq!(
            label_key_faults(""),
            ["name part must be non-empty".to_owned(), format!("name part {rule}")]
        );
        assert_eq!(label_key_faults("/a"), ["prefix part must be non-empty"]);
        let long = "n".repeat(64);
        assert_eq!(label_key_faults(&long), ["name part must be no more than 63 bytes"]);
        let slashes = label_key_faults("a/b/c");
        assert_eq!(
            slashes,
            [format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )]
        );
        assert!(label_key_faults("Ex.com/a")[0].starts_with("prefix part a lowercase RFC 1123"));
        let prefix = format!("{}/a", "p".repeat(254));
        assert_eq!(label_key_faults(&prefix), ["prefix part must be no more than 253 bytes"]);
    }

    #[test]
    fn label_values_may_be_empty() {
        assert!(label_value_faults("").is_empty());
        assert!(label_value_faults("a.B_c-1").is_empty());
        assert!(label_value_faults("a/b")[0].starts_with("a valid label must be an empty string"));
        assert_eq!(label_value_faults(&"v".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
