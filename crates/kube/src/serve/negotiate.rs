//! Content negotiation by `Accept`, as in the API machinery.
//!
//! As in apiserver's endpoints/handlers/negotiation and server/statusz: a client that sends no
//! `Accept`, `text/plain` or `*/*` gets text. JSON and YAML require that it also names group, version
//! and kind of the object (`application/json;v=v1beta1;g=config.k8s.io;as=Statusz`). Of several media types
//! the first available one is used.

use std::collections::BTreeMap;

use http::header::ACCEPT;
use http::{HeaderMap, Uri};

use super::reply;

/// The group of the objects.
const GROUP: &str = "config.k8s.io";

/// The number of clauses of a header that are read: clients name a handful.
const CLAUSES: usize = 32;

/// All media types of a page. `*/*` stands for them in this order.
const MEDIA_TYPES: [MediaType; 3] = [MediaType::Json, MediaType::Yaml, MediaType::Text];

/// A media type of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaType {
    Json,
    Yaml,
    Text,
}

impl MediaType {
    /// Its media type.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            MediaType::Json => "application/json",
            MediaType::Yaml => "application/yaml",
            MediaType::Text => "text/plain",
        }
    }
}

/// A version of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiVersion {
    V1Alpha1,
    V1Beta1,
}

impl ApiVersion {
    fn named(name: &str) -> Option<Self> {
        [ApiVersion::V1Alpha1, ApiVersion::V1Beta1]
            .into_iter()
            .find(|version| version.as_str() == name)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            ApiVersion::V1Alpha1 => "v1alpha1",
            ApiVersion::V1Beta1 => "v1beta1",
        }
    }

    /// For the field `apiVersion`.
    pub(super) fn api_version(self) -> String {
        format!("{GROUP}/{}", self.as_str())
    }
}

/// The negotiated media type of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Negotiated {
    Text,
    /// An object of this version. `pretty` indents JSON.
    Object {
        media_type: MediaType,
        version: ApiVersion,
        pretty: bool,
    },
}

impl Negotiated {
    /// The type of the answer. As in responsewriters/writers.go, generateMediaTypeWithGVK.
    pub(super) fn content_type(media_type: MediaType, version: ApiVersion, kind: &str) -> String {
        format!("{};g={GROUP};v={};as={kind}", media_type.as_str(), version.as_str())
    }
}

/// No media type that the client accepts is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAcceptable {
    /// The media type of the error; indented JSON if the client accepts none of ours.
    pub(super) media_type: Option<MediaType>,
    pub(super) pretty: bool,
}

impl NotAcceptable {
    /// As in negotiation/errors.go, errNotAcceptable.
    pub(super) fn message() -> String {
        let media_types = MEDIA_TYPES.map(MediaType::as_str).join(", ");
        format!("only the following media types are accepted: {media_types}")
    }
}

/// Negotiates the media type of a page of `kind`.
pub(super) fn negotiate(
    headers: &HeaderMap,
    uri: &Uri,
    kind: &str,
) -> Result<Negotiated, NotAcceptable> {
    let accept = headers.get(ACCEPT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let accept = accept.unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok(Negotiated::Text);
    }
    let clauses = parse(&accept);
    let for_people = reply::is_for_people(headers, uri);
    for clause in &clauses {
        for media_type in MEDIA_TYPES.into_iter().filter(|media_type| clause.names(*media_type)) {
            let pretty = for_people || clause.is("pretty", "1");
            match (media_type, clause.version_of(kind)) {
                (_, RequestedObject::Never) => {}
                (MediaType::Text, RequestedObject::Plain) => return Ok(Negotiated::Text),
                (MediaType::Text, RequestedObject::Object(_)) | (_, RequestedObject::Plain) => {}
                (media_type, RequestedObject::Object(version)) => {
                    return Ok(Negotiated::Object { media_type, version, pretty });
                }
            }
        }
    }
    // An error is sent in a media type that the client accepts without naming a kind.
    let plain = clauses.iter().find_map(|clause| {
        let media_type = MEDIA_TYPES.into_iter().find(|media_type| clause.names(*media_type))?;
        let is_plain = clause.names_no_object() && !clause.is_given("sv");
        let streams = clause.is_given("stream")
            && (media_type != MediaType::Json || !clause.is("stream", "watch"));
        (is_plain && !streams).then(|| (media_type, for_people || clause.is("pretty", "1")))
    });
    let (media_type, pretty) =
        plain.map_or((None, true), |(media_type, pretty)| (Some(media_type), pretty));
    Err(NotAcceptable { media_type, pretty })
}

/// One of the media types that a client accepts.
#[derive(Debug)]
struct Clause<'a> {
    kind: &'a str,
    subkind: &'a str,
    quality: f32,
    parameters: BTreeMap<&'a str, &'a str>,
}

/// Which object a clause requests.
enum RequestedObject {
    /// None.
    Plain,
    Object(ApiVersion),
    /// One that does not exist, or something else that is not available.
    Never,
}

impl Clause<'_> {
    /// Whether it stands for this media type.
    fn names(&self, media_type: MediaType) -> bool {
        let (kind, subkind) = media_type.as_str().split_once('/').unwrap_or_default();
        match (self.kind, self.subkind) {
            ("*", "*") => true,
            (own, "*") => own == kind,
            (own, other) => own == kind && other == subkind,
        }
    }

    fn is(&self, parameter: &str, value: &str) -> bool {
        self.parameters.get(parameter) == Some(&value)
    }

    fn is_given(&self, parameter: &str) -> bool {
        self.parameters.get(parameter).is_some_and(|value| !value.is_empty())
    }

    fn names_no_object(&self) -> bool {
        ["as", "g", "v"].iter().all(|parameter| !self.parameters.contains_key(parameter))
    }

    fn version_of(&self, kind: &str) -> RequestedObject {
        if self.is_given("stream") || self.is_given("sv") {
            return RequestedObject::Never;
        }
        if self.names_no_object() {
            return RequestedObject::Plain;
        }
        let version = self.parameters.get("v").and_then(|version| ApiVersion::named(version));
        match version.filter(|_| self.is("g", GROUP) && self.is("as", kind)) {
            Some(version) => RequestedObject::Object(version),
            None => RequestedObject::Never,
        }
    }

    /// As in goautoneg, acceptSlice.Less.
    fn comes_before(&self, other: &Self) -> bool {
        other.quality < self.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subkind != "*" && other.subkind == "*")
    }
}

/// The clauses of a header, the best first. As in goautoneg, ParseAccept.
fn parse(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header.split(',').take(CLAUSES).filter_map(clause).collect();
    // This comparison is not a total order: a clause that is better in one respect may be worse in
    // another. Go uses insertion sort for so few elements, which determines the result.
    for end in 1..clauses.len() {
        let mut at = end;
        while 0 < at && clauses[at].comes_before(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';');
    let name = parts.next().unwrap_or_default().trim_matches(' ');
    let (kind, subkind) = match name.split_once('/') {
        Some((kind, subkind)) if !subkind.is_empty() => (kind.trim_matches(' '), subkind),
        _ if name.trim_end_matches('/') == "*" => ("*", "*"),
        _ => return None,
    };
    // An additional slash is an error, unless nothing follows it.
    let subkind = match subkind.split_once('/') {
        Some((subkind, "")) => subkind,
        Some(_) => return None,
        None => subkind,
    };
    let mut clause = Clause {
        kind,
        subkind: subkind.trim_matches(' '),
        quality: 1.0,
        parameters: BTreeMap::new(),
    };
    for part in parts {
        let Some((name, value)) = part.split_once('=') else { continue };
        let value = value.strip_suffix('=').unwrap_or(value);
        if value.is_empty() || value.contains('=') {
            continue;
        }
        match name.trim_matches(' ') {
            "q" => clause.quality = value.parse().unwrap_or(0.0),
            name => {
                clause.parameters.insert(name, value.trim_matches(' '));
            }
        }
    }
    Some(clause)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BETA: Negotiated = Negotiated::Object {
        media_type: MediaType::Json,
        version: ApiVersion::V1Beta1,
        pretty: false,
    };

    fn negotiated(accept: Option<&str>) -> Result<Negotiated, NotAcceptable> {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, accept.parse().expect("a header"));
        }
        negotiate(&headers, &Uri::from_static("/statusz"), "Statusz")
    }

    #[test]
    fn who_names_nothing_or_text_gets_text() {
        for accept in [
            None,
            Some(""),
            Some("  "),
            Some("text/plain"),
            Some("text/plain;q=0.1"),
            Some("*/*"),
            Some("*"),
            Some("text/*"),
            Some("application/json, */*"),
            Some("application/json;v=foo;g=config.k8s.io;as=Statusz,*/*"),
            Some("application/json;v=v1beta1;g=config.k8s.io;as=Flagz,text/plain"),
        ] {
            assert_eq!(negotiated(accept), Ok(Negotiated::Text), "{accept:?}");
        }
    }

    #[test]
    fn who_names_an_object_gets_it_in_the_version_that_comes_first() {
        let (beta, alpha) =
            ("v=v1beta1;g=config.k8s.io;as=Statusz", "as=Statusz;g=config.k8s.io;v=v1alpha1");
        let object =
            |media_type, version| Ok(Negotiated::Object { media_type, version, pretty: false });
        for (accept, expected) in [
            (format!("application/json;{beta}"), Ok(BETA)),
            (format!("application/json; {beta} , application/json;{alpha}"), Ok(BETA)),
            (
                format!("application/json;{alpha},application/json;{beta}"),
                object(MediaType::Json, ApiVersion::V1Alpha1),
            ),
            (format!("application/yaml;{beta}"), object(MediaType::Yaml, ApiVersion::V1Beta1)),
            (format!("application/*;{beta}"), Ok(BETA)),
            (format!("*/*;{beta}"), Ok(BETA)),
            (
                format!("application/json;q=0.5;{beta},application/yaml;{beta}"),
                object(MediaType::Yaml, ApiVersion::V1Beta1),
            ),
            (format!("application/json;{beta},text/plain"), Ok(BETA)),
        ] {
            assert_eq!(negotiated(Some(&accept)), expected, "{accept}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused_in_a_form_that_the_client_takes() {
        let refused = |media_type, pretty| Err(NotAcceptable { media_type, pretty });
        for (accept, expected) in [
            ("application/xml", refused(None, true)),
            ("application/json", refused(Some(MediaType::Json), false)),
            ("application/json;pretty=1", refused(Some(MediaType::Json), true)),
            ("application/yaml", refused(Some(MediaType::Yaml), false)),
            ("application/json;v=v1beta1;g=config.k8s.io", refused(None, true)),
            ("application/json;v=v1;g=config.k8s.io;as=Statusz", refused(None, true)),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz;sv=v1", refused(None, true)),
            ("text/plain;v=v1beta1;g=config.k8s.io;as=Statusz", refused(None, true)),
            ("application/cbor;v=v1beta1;g=config.k8s.io;as=Statusz", refused(None, true)),
            ("application/vnd.kubernetes.protobuf", refused(None, true)),
            ("json", refused(None, true)),
        ] {
            assert_eq!(negotiated(Some(accept)), expected, "{accept}");
        }
    }

    #[test]
    fn a_header_of_any_length_is_read_in_little_time() {
        let long = "text/plain;q=0,".repeat(4000) + "*/*";
        assert_eq!(parse(&long).len(), CLAUSES);
    }
}
