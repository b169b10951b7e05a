//! Proxies that send the user in headers. They are trusted if their certificate is that of a proxy.

use std::collections::BTreeMap;

use http::HeaderMap;
use rustls::pki_types::CertificateDer;

use super::user::RequestUserInfo;
use super::x509::{self, X509Error};
use crate::serve::tls::Proxy;

/// The user in the headers of a proxy; none if it does not name one. As in
/// request/headerrequest/requestheader.go and request/x509/verify.go.
pub(super) fn user(
    chain: &[CertificateDer<'_>],
    headers: &HeaderMap,
    proxy: &Proxy,
) -> Result<Option<RequestUserInfo>, X509Error> {
    proxy.authority.verify(chain)?;
    let inputs = &proxy.inputs;
    if !inputs.names.is_empty() {
        let name = x509::name(chain)?.unwrap_or_default();
        if !inputs.names.contains(&name) {
            return Err(X509Error::NotAllowed(name));
        }
    }
    let Some(name) = first(headers, &inputs.username_headers) else { return Ok(None) };
    Ok(Some(RequestUserInfo {
        name,
        uid: first(headers, &inputs.uid_headers).unwrap_or_default(),
        groups: inputs.group_headers.iter().flat_map(|header| values(headers, header)).collect(),
        extra: extra(headers, &inputs.extra_prefixes),
    }))
}

/// The first header that is not empty.
fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    names.iter().find_map(|name| values(headers, name).next())
}

/// The values of all headers of one name.
fn values(headers: &HeaderMap, name: &str) -> impl Iterator<Item = String> {
    let all = headers.get_all(name.trim()).iter().filter_map(|value| value.to_str().ok());
    all.filter(|value| !value.is_empty()).map(str::to_owned)
}

fn extra(headers: &HeaderMap, prefixes: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in prefixes.iter().map(|prefix| prefix.trim().to_ascii_lowercase()) {
        for (name, value) in headers {
            let Some(key) = name.as_str().strip_prefix(prefix.as_str()) else { continue };
            if let Ok(value) = value.to_str() {
                extra.entry(unescaped(key)).or_default().push(value.to_owned());
            }
        }
    }
    extra
}

/// As in net/url, PathUnescape; text that is not escaped correctly is left unchanged.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(decoded) => bytes.push(decoded),
            None => return key.to_owned(),
        }
        rest = &tail[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_headers_lose_their_prefix() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("x-remote-extra-a%2fb", "1"), ("X-Remote-Extra-a%2fb", "2"), ("x-remote-user", "u")]
        {
            let name: http::HeaderName = name.parse().expect("a name");
            headers.append(name, value.parse().expect("a value"));
        }
        let extra = extra(&headers, &["X-Remote-Extra-".to_owned()]);
        let values = vec!["1".to_owned(), "2".to_owned()];
        assert_eq!(extra, BTreeMap::from([("a/b".to_owned(), values)]));
        assert_eq!(unescaped("100%"), "100%");
        assert_eq!(unescaped("%zz"), "%zz");
    }

    #[test]
    fn the_first_header_with_a_value_names_the_user() {
        let mut headers = HeaderMap::new();
        headers.insert("b", "second".parse().expect("a value"));
        headers.insert("a", "".parse().expect("a value"));
        assert_eq!(first(&headers, &["A".to_owned(), "B".to_owned()]), Some("second".to_owned()));
        assert_eq!(first(&headers, &["c".to_owned()]), None);
    }
}
