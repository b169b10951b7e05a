//! Extenders over real connections.

mod calls;
mod failures;
mod fake;
mod tls;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{Pod, PodKey};
use plimsoll_config::{Extender, GoDuration};
use plimsoll_engine::extenders::{ExtenderCandidate, Victim};
use plimsoll_engine::{Call, Effect, EffectId, ExtenderId, ExtenderQuestion, ExtenderReply, Write};
use serde_json::value::RawValue;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{ExtenderAnswer, HttpExtenders};
use crate::originals::Originals;
use crate::write::{MayWrite, always};

/// Longer than anything in these tests takes, even on a busy machine.
const LONG: Duration = Duration::from_mins(1);

/// Pods and nodes by name.
#[derive(Default)]
struct StoredOriginals(BTreeMap<String, &'static str>);

impl Originals for StoredOriginals {
    fn pod(&self, key: &PodKey) -> Option<Arc<RawValue>> {
        self.node(&key.name)
    }
    fn node(&self, name: &str) -> Option<Arc<RawValue>> {
        let text = *self.0.get(name)?;
        Some(RawValue::from_string(text.to_owned()).expect("it is JSON").into())
    }
}

/// The pods `p` and `v`, and the nodes `a` and `b`.
fn originals() -> Arc<dyn Originals> {
    let all = [
        ("p", r#"{"metadata":{"name":"p"},"spec":{"odd":  1.50}}"#),
        ("v", r#"{"metadata":{"name":"v"}}"#),
        ("a", r#"{"metadata":{"name":"a"},"status":{"x":"ü"}}"#),
        ("b", r#"{"metadata":{"name":"b"}}"#),
    ];
    Arc::new(StoredOriginals(all.map(|(name, text)| (name.to_owned(), text)).into()))
}

fn extender(url_prefix: &str) -> Extender {
    Extender {
        url_prefix: url_prefix.to_owned(),
        filter_verb: "filter".to_owned(),
        prioritize_verb: "rank".to_owned(),
        preempt_verb: "preempt".to_owned(),
        bind_verb: "bind".to_owned(),
        http_timeout: GoDuration::from_seconds(60),
        ..Extender::default()
    }
}

fn pod(name: &str) -> Arc<Pod> {
    let (key, uid) = (PodKey::new("team", name), "uid-1".into());
    Arc::new(Pod { key, uid, ..Pod::default() })
}

/// Questions to one extender, and its answers.
struct ExtenderFixture {
    extenders: HttpExtenders,
    answers: UnboundedReceiver<ExtenderAnswer>,
}

impl ExtenderFixture {
    fn to(extender: &Extender) -> Self {
        ExtenderFixture::led_by(extender, always())
    }

    fn led_by(extender: &Extender, may_write: MayWrite) -> Self {
        let (sender, answers) = unbounded_channel();
        let extenders = HttpExtenders::new([extender], originals(), may_write, sender);
        ExtenderFixture { extenders: extenders.expect("it can be called"), answers }
    }

    fn send(&self, id: u64, pod: Arc<Pod>, question: ExtenderQuestion) {
        let call = Call { extender: ExtenderId(0), question };
        let effect = Effect { id: EffectId(id), pod, write: Write::Extender(call) };
        assert!(self.extenders.perform(vec![effect]).is_empty());
    }

    async fn next(&mut self) -> (u64, Result<ExtenderReply, String>) {
        let answer = tokio::time::timeout(LONG, self.answers.recv()).await;
        let (id, reply) = answer.expect("an answer comes in time").expect("somebody answers");
        (id.0, reply.map_err(|error| error.0))
    }
}

/// What an extender answers about the pod `p`.
async fn ask(extender: &Extender, question: ExtenderQuestion) -> Result<ExtenderReply, String> {
    let mut fixture = ExtenderFixture::to(extender);
    fixture.send(7, pod("p"), question);
    let (id, reply) = fixture.next().await;
    assert_eq!(id, 7);
    reply
}

fn filter() -> ExtenderQuestion {
    ExtenderQuestion::Filter(["a".into(), "b".into()].into())
}

fn rank() -> ExtenderQuestion {
    ExtenderQuestion::Prioritize(["a".into(), "b".into()].into())
}

/// May `v`, or a pod that is gone, be evicted from `a`?
fn preempt() -> ExtenderQuestion {
    let victim = |name: &str, uid: &str| Victim { key: PodKey::new("x", name), uid: uid.into() };
    let victims = vec![victim("v", "uid-v"), victim("gone", "uid-g")];
    ExtenderQuestion::Preempt(
        [ExtenderCandidate { node: "a".into(), victims, broken_budgets: 1 }].into(),
    )
}
