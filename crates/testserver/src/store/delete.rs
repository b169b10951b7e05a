//! Deleting objects: preconditions, grace periods of pods, finalizers (as in `registry/rest/delete.go`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::update::has_finalizers;
use super::{State, Stored, after, key_of, metadata, text};
use crate::counts::RequestOrigin;
use crate::failure::FailureStatus;
use crate::kinds::{KindId, Qualified, ResourceKind};
use crate::options::Terminating;

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

/// The outcome of a deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is gone.
    Gone(Arc<Stored>),
    /// It stays for a while: it terminates, or has finalizers.
    Ending(Arc<Stored>),
}

/// Something that a kubelet or the namespace controller would have removed by now.
#[derive(Debug)]
pub(super) struct Dying {
    at: Instant,
    id: KindId,
    key: Arc<str>,
    uid: String,
}

impl State {
    pub(crate) fn delete(
        &mut self,
        id: KindId,
        (namespace, name): (&str, &str),
        options: &DeleteOptions,
        origin: &RequestOrigin,
    ) -> Result<Deleted, FailureStatus> {
        let kind = id.kind();
        let present = self.check_delete(id, (namespace, name), options)?;
        if options.dry_run {
            return Ok(Deleted::Gone(present));
        }
        let mut object = present.value();
        let grace = if kind.kind == "Pod" { grace_of_pod(&object, options) } else { 0 };
        if grace == 0 && !has_finalizers(&object) {
            let last = self.remove(id, &present.key, origin).unwrap_or(present);
            return Ok(Deleted::Gone(last));
        }
        if !mark(&mut object, grace) {
            return Ok(Deleted::Ending(present));
        }
        let ending = self.put(id, object, origin);
        self.let_it_end(id, &ending, self.terminating, origin);
        Ok(Deleted::Ending(ending))
    }

    /// A namespace that was marked as terminating and is empty now ends as the options say.
    pub(crate) fn end_namespace(
        &mut self,
        id: KindId,
        name: &str,
        origin: &RequestOrigin,
    ) -> Option<Arc<Stored>> {
        let namespace = self.get(id, &key_of("", name)).cloned()?;
        self.let_it_end(id, &namespace, self.terminating_namespaces, origin);
        Some(namespace)
    }

    /// The object, if it exists and meets the preconditions.
    pub(crate) fn check_delete(
        &self,
        id: KindId,
        (namespace, name): (&str, &str),
        options: &DeleteOptions,
    ) -> Result<Arc<Stored>, FailureStatus> {
        let present = self.get(id, &key_of(namespace, name)).cloned();
        let present =
            present.ok_or_else(|| FailureStatus::not_found(id.kind().resource(), name))?;
        check_preconditions(id.kind(), &present, options)?;
        Ok(present)
    }

    /// Does what the kubelet would do with a terminating pod, or a controller with a namespace, now or
    /// later.
    fn let_it_end(
        &mut self,
        id: KindId,
        ending: &Arc<Stored>,
        how: Terminating,
        origin: &RequestOrigin,
    ) {
        match how {
            Terminating::Kept => {}
            Terminating::GoneAfter(Duration::ZERO) => {
                self.finish(id, &ending.key, &ending.uid, origin);
            }
            Terminating::GoneAfter(wait) => self.dying.push(Dying {
                at: Instant::now() + wait,
                id,
                key: Arc::clone(&ending.key),
                uid: ending.uid.clone(),
            }),
        }
    }

    /// Removes what should be gone by now, and says when to look again.
    pub(crate) fn reap(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.dying).into_iter().partition(|d| d.at <= now);
        self.dying = later;
        let due: Vec<Dying> = due;
        for dying in due {
            self.finish(dying.id, &dying.key, &dying.uid, &RequestOrigin::new("delete"));
        }
        self.dying.iter().map(|dying| dying.at).min()
    }

    fn finish(&mut self, id: KindId, key: &str, uid: &str, origin: &RequestOrigin) {
        let Some(present) = self.get(id, key).filter(|present| present.uid == uid) else { return };
        let mut object = present.value();
        if has_finalizers(&object) {
            // Only its finalizers keep it now.
            metadata(&mut object).insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            self.put(id, object, origin);
        } else {
            self.remove(id, key, origin);
        }
    }
}

fn check_preconditions(
    kind: &ResourceKind,
    present: &Stored,
    options: &DeleteOptions,
) -> Result<(), FailureStatus> {
    // As in delete.go, the kind takes the place of the resource.
    let what = Qualified { name: kind.kind, group: kind.group() };
    if let Some(uid) = options.uid.as_ref().filter(|uid| **uid != present.uid) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            present.uid
        );
        return Err(FailureStatus::conflict(what, &present.name, why));
    }
    let version = present.version.to_string();
    if let Some(wanted) = options.version.as_ref().filter(|wanted| **wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(FailureStatus::conflict(what, &present.name, why));
    }
    Ok(())
}

/// The grace period in seconds: that of the request or of the pod, and 0 if no kubelet runs it (as in
/// `pod/strategy.go`, `CheckGracefulDelete`).
fn grace_of_pod(pod: &Value, options: &DeleteOptions) -> i64 {
    let has_no_node = text(pod, "/spec/nodeName").is_empty();
    let has_ended = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
    if has_no_node || has_ended {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let grace = options.grace_seconds.or(own).unwrap_or(30);
    if grace < 0 { 1 } else { grace }
}

/// Marks the object as terminating. `false` if it already is, and ends no later than `grace` says.
fn mark(object: &mut Value, grace: i64) -> bool {
    let present = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    let is_marked = object.pointer("/metadata/deletionTimestamp").is_some();
    if is_marked && present.unwrap_or(0) <= grace {
        return false;
    }
    let wait = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
    let meta = metadata(object);
    meta.insert("deletionTimestamp".to_owned(), after(wait).into());
    meta.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    true
}
