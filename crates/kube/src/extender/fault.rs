//! What can go wrong with an extender.

use plimsoll_api::PodKey;

use super::endpoint::MOST_RECEIVED;
use super::request::MOST_SENT;

/// Why an extender cannot be called as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    /// The URL cannot be parsed.
    #[error("urlPrefix: {0}")]
    Url(String),
    /// The URL holds a secret. It names the extender in messages, which everybody may read.
    #[error("urlPrefix must not hold a user or password")]
    Secret,
    /// The URL has another scheme.
    #[error("urlPrefix must begin with http:// or https://")]
    Scheme,
    /// The name to check the certificate against is none.
    #[error("tlsConfig.serverName: {0}")]
    ServerName(String),
    /// The TLS settings contradict each other, or what they name cannot be read.
    #[error("tlsConfig: {0}")]
    Tls(String),
}

/// Why a question has no answer. The text is for events and conditions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallFault {
    #[error("the extender is not configured")]
    NotConfigured,
    #[error("the scheduler has stopped asking extenders")]
    Stopped,
    #[error("this scheduler does not hold the lease")]
    NotLeading,
    #[error("too many calls to extender {0:?} are under way")]
    TooMany(String),
    #[error("pod {0} is gone")]
    Gone(PodKey),
    #[error(
        "the question has {0} bytes, more than {MOST_SENT}: let the extender keep nodes itself (nodeCacheCapable)"
    )]
    LongQuestion(u64),
    #[error("parse {url:?}: {why}")]
    Url { url: String, why: String },
    #[error("Post {url:?}: {why}")]
    NotSent { url: String, why: String },
    // These are the words of Go's net/http; the next but one alike.
    #[error(
        "Post {0:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    )]
    LateHeaders(String),
    #[error("failed {verb} with extender at URL {url}, code {code}")]
    Refused { verb: String, url: String, code: u16 },
    #[error(
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    )]
    LateBody,
    #[error("the answer from {0} has more than {MOST_RECEIVED} bytes")]
    LongAnswer(String),
    #[error("unexpected EOF")]
    CutOff,
    #[error("reading the answer from {url}: {why}")]
    NotReceived { url: String, why: String },
    // As Go's Decoder says it.
    #[error("EOF")]
    Empty,
    #[error("{0}")]
    Unreadable(String),
    /// What the extender says itself.
    #[error("{0}")]
    Told(String),
    #[error(
        "extender {extender:?} claims a filtered node {node:?} which is not found in the input node list"
    )]
    Stranger { extender: String, node: String },
}
