//! Questions in JSON, and how they are sent. As in types.go of k8s.io/kube-scheduler/extender/v1.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use plimsoll_api::Pod;
use plimsoll_engine::ExtenderQuestion;
use plimsoll_engine::extenders::{ExtenderCandidate, Victim};
use serde_json::value::RawValue;

use super::fault::CallFault;
use crate::originals::Originals;

/// The largest question: about 10,000 large nodes. In larger clusters, use an extender that caches the
/// nodes itself: it gets only their names.
pub(super) const MOST_SENT: u64 = 256 << 20;

/// The body of a question. Its length is known in advance, and nodes are not copied.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: VecDeque<Bytes>,
    length: u64,
}

impl Pieces {
    /// How many bytes are left.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    fn text(&mut self, text: impl Into<Bytes>) {
        let piece: Bytes = text.into();
        self.length += piece.len() as u64;
        self.pieces.push_back(piece);
    }

    fn raw(&mut self, object: Arc<RawValue>) {
        self.text(Bytes::from_owner(RawBytes(object)));
    }

    /// A text in quotes.
    fn quoted(&mut self, text: &str) {
        self.text(serde_json::Value::from(text).to_string());
    }

    /// Objects or texts with commas between them.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut put: impl FnMut(&mut Self, T)) {
        for (i, item) in items.into_iter().enumerate() {
            if 0 < i {
                self.text(&b","[..]);
            }
            put(self, item);
        }
    }
}

impl Pieces {
    /// Candidate nodes for preemption, with those victims that still exist.
    fn ways<T>(
        &mut self,
        ways: &[ExtenderCandidate],
        find: impl Fn(&Victim) -> Option<T>,
        put: impl Fn(&mut Self, T),
    ) {
        self.list(ways, |out, way| {
            out.quoted(&way.node);
            out.text(&br#":{"Pods":["#[..]);
            out.list(way.victims.iter().filter_map(&find), &put);
            out.text(format!(r#"],"NumPDBViolations":{}}}"#, way.broken_budgets));
        });
    }
}

/// An object that is sent as it is.
struct RawBytes(Arc<RawValue>);

impl AsRef<[u8]> for RawBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.get().as_bytes()
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.pieces.pop_front();
        self.length -= next.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}

/// The JSON of a question about `pod`.
///
/// Nodes and victims that have been deleted meanwhile are left out. It is an error if the pod has been
/// deleted, or if there are too many nodes.
pub(super) fn write(
    question: &ExtenderQuestion,
    pod: &Pod,
    node_cache_capable: bool,
    originals: &dyn Originals,
) -> Result<Pieces, CallFault> {
    let mut out = Pieces::default();
    if let ExtenderQuestion::Bind(node) = question {
        let args = serde_json::json!({
            "PodName": pod.key.name.as_str(),
            "PodNamespace": pod.key.namespace.as_str(),
            "PodUID": pod.uid.as_str(),
            "Node": node.as_str(),
        });
        out.text(args.to_string());
        return Ok(out);
    }
    let original = originals.pod(&pod.key);
    out.text(&br#"{"Pod":"#[..]);
    out.raw(original.ok_or_else(|| CallFault::Gone(pod.key.clone()))?);
    match question {
        ExtenderQuestion::Filter(nodes) | ExtenderQuestion::Prioritize(nodes)
            if node_cache_capable =>
        {
            out.text(&br#","Nodes":null,"NodeNames":["#[..]);
            out.list(nodes.iter(), |out, name| out.quoted(name));
            out.text(&b"]}"[..]);
        }
        ExtenderQuestion::Filter(nodes) | ExtenderQuestion::Prioritize(nodes) => {
            out.text(&br#","Nodes":{"metadata":{},"items":["#[..]);
            let nodes = nodes.iter().filter_map(|name| originals.node(name));
            out.list(nodes, Pieces::raw);
            out.text(&br#"]},"NodeNames":null}"#[..]);
        }
        ExtenderQuestion::Preempt(ways) if node_cache_capable => {
            out.text(&br#","NodeNameToVictims":null,"NodeNameToMetaVictims":{"#[..]);
            out.ways(
                ways,
                |victim| Some(victim.uid.clone()),
                |out, uid| {
                    out.text(&br#"{"UID":"#[..]);
                    out.quoted(&uid);
                    out.text(&b"}"[..]);
                },
            );
            out.text(&b"}}"[..]);
        }
        ExtenderQuestion::Preempt(ways) => {
            out.text(&br#","NodeNameToVictims":{"#[..]);
            out.ways(ways, |victim| originals.pod(&victim.key), Pieces::raw);
            out.text(&br#"},"NodeNameToMetaVictims":null}"#[..]);
        }
        ExtenderQuestion::Bind(_) => {}
    }
    match out.length() {
        length if MOST_SENT < length => Err(CallFault::LongQuestion(length)),
        _ => Ok(out),
    }
}
