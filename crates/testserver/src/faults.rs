//! Faults on demand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::kinds::{self, KindId};
use crate::store::{Break, SharedStore};

/// A rule that makes requests fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFault {
    /// 10 means the tenth, the twentieth, ... of the matching requests.
    pub every: u64,
    /// What happens to them.
    pub kind: FaultKind,
    /// Whether they still take effect.
    pub when: When,
    /// Only these verbs; default: all that write.
    pub verbs: Vec<String>,
    /// Only these resources (`pods/binding`); default: all.
    pub resources: Vec<String>,
    /// How often at most.
    pub times: Option<u64>,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// It is answered with this status.
    Status(u16),
    /// It is answered with 429 and a time after which to retry.
    TooManyRequests {
        /// For `Retry-After`.
        retry_after: u32,
    },
    /// The connection is closed without an answer. All other requests on it fail, too.
    Hangup,
    /// On HTTP/2 only its stream is reset; on HTTP/1.1 the connection is closed.
    Reset,
    /// It is answered correctly but late. It takes effect after the wait, or before it.
    Slow(Duration),
}

/// Whether a request that goes wrong takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// It does not (or only after the wait).
    Before,
    /// It does, but the client cannot know.
    After,
}

impl InjectedFault {
    /// Every `every`th write fails before it takes effect.
    pub fn every(every: u64, kind: FaultKind) -> Self {
        let verbs = ["create", "update", "patch", "delete", "deletecollection"];
        Self {
            every: every.max(1),
            kind,
            when: When::Before,
            verbs: verbs.map(str::to_owned).to_vec(),
            resources: Vec::new(),
            times: None,
        }
    }

    /// The request takes effect before things go wrong.
    pub fn after(self) -> Self {
        Self { when: When::After, ..self }
    }

    /// Only requests of these verbs, reading ones included (`get`, `list`, `watch`).
    pub fn verbs(self, verbs: &[&str]) -> Self {
        Self { verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(), ..self }
    }

    /// Only requests for these resources: `pods`, `pods/binding`.
    pub fn resources(self, resources: &[&str]) -> Self {
        Self { resources: resources.iter().map(|r| (*r).to_owned()).collect(), ..self }
    }

    /// At most this many times.
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }
}

#[derive(Debug)]
struct FaultRule {
    fault: InjectedFault,
    seen: u64,
    done: u64,
}

/// What to do with one request: at most one fault before it takes effect and one after, and the delays
/// of all rules.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct FaultPlan {
    pub(crate) wait_before: Duration,
    pub(crate) before: Option<FaultKind>,
    pub(crate) after: Option<FaultKind>,
    pub(crate) wait_after: Duration,
}

/// Sets and clears what goes wrong. It can be used while the server runs, from any thread.
#[derive(Debug)]
pub struct FaultInjector {
    shared: Arc<SharedStore>,
    rules: Mutex<Vec<FaultRule>>,
    duplicate_every: AtomicU64,
    events: AtomicU64,
}

impl FaultInjector {
    pub(crate) fn new(shared: Arc<SharedStore>) -> Self {
        Self {
            shared,
            rules: Mutex::default(),
            duplicate_every: AtomicU64::new(0),
            events: AtomicU64::new(0),
        }
    }

    /// Adds a rule about requests that go wrong. Several rules may be active at once.
    pub fn add(&self, fault: InjectedFault) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.push(FaultRule { fault, seen: 0, done: 0 });
    }

    /// Removes all rules, holds, delays and duplicates.
    pub fn clear(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.duplicate_events(0);
        let mut state = self.shared.lock();
        for (id, _) in kinds::all() {
            state.release(id);
            state.delay(id, Duration::ZERO);
        }
    }

    /// How many requests have failed because of the present rules.
    pub fn done(&self) -> u64 {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.iter().map(|rule| rule.done).sum()
    }

    /// Ends all watches.
    pub fn break_watches(&self, how: Break) {
        let mut state = self.shared.lock();
        for (id, _) in kinds::all() {
            state.break_watches(id, how);
        }
    }

    /// Ends the watches of one kind (`pods`). `false` if there is no such kind.
    pub fn break_watches_of(&self, resource: &str, how: Break) -> bool {
        self.with(resource, |shared, id| shared.lock().break_watches(id, how))
    }

    /// Forgets all history: watches that start from any version seen so far get 410, and so do
    /// continued lists. Running watches are not affected.
    pub fn compact(&self) {
        self.shared.lock().compact();
    }

    /// From now on watches do not see changes of a kind (`pods`), until [`FaultInjector::release`]. Lists do.
    pub fn hold(&self, resource: &str) -> bool {
        self.with(resource, |shared, id| shared.lock().hold(id))
    }

    /// Lets watches see what was held back.
    pub fn release(&self, resource: &str) -> bool {
        self.with(resource, |shared, id| shared.lock().release(id))
    }

    /// Watches see changes of a kind with this delay.
    pub fn delay(&self, resource: &str, delay: Duration) -> bool {
        self.with(resource, |shared, id| shared.lock().delay(id, delay))
    }

    /// Every `every`th watch event is sent twice; 0: none.
    pub fn duplicate_events(&self, every: u64) {
        self.duplicate_every.store(every, Ordering::Relaxed);
    }

    fn with(&self, resource: &str, act: impl FnOnce(&SharedStore, KindId)) -> bool {
        kinds::named(resource).map(|id| act(&self.shared, id)).is_some()
    }

    /// Whether the next watch event is one to send twice.
    pub(crate) fn duplicates_next(&self) -> bool {
        match self.duplicate_every.load(Ordering::Relaxed) {
            0 => false,
            every => (self.events.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every),
        }
    }

    /// Counts a request, and says what is to happen to it.
    pub(crate) fn plan(&self, verb: &str, resource: &str) -> FaultPlan {
        let mut plan = FaultPlan::default();
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in rules.iter_mut().filter(|rule| rule.is_about(verb, resource)) {
            rule.seen += 1;
            let is_due = rule.seen.is_multiple_of(rule.fault.every);
            if !is_due || rule.fault.times.is_some_and(|times| times <= rule.done) {
                continue;
            }
            rule.done += 1;
            match (rule.fault.when, rule.fault.kind) {
                (When::Before, FaultKind::Slow(wait)) => plan.wait_before += wait,
                (When::After, FaultKind::Slow(wait)) => plan.wait_after += wait,
                (When::Before, kind) => plan.before = Some(kind),
                (When::After, kind) => plan.after = Some(kind),
            }
        }
        plan
    }
}

impl FaultRule {
    fn is_about(&self, verb: &str, resource: &str) -> bool {
        let fault = &self.fault;
        fault.verbs.iter().any(|v| v == verb)
            && (fault.resources.is_empty() || fault.resources.iter().any(|r| r == resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn every_third_binding_goes_wrong_twice_and_nothing_else() {
        let faults = FaultInjector::new(Arc::new(SharedStore::new(Options::default())));
        faults.add(
            InjectedFault::every(3, FaultKind::Hangup)
                .after()
                .resources(&["pods/binding"])
                .times(2),
        );
        let wrong: Vec<u32> = (1..=12)
            .filter(|_| {
                assert_eq!(faults.plan("create", "pods"), FaultPlan::default());
                faults.plan("create", "pods/binding").after == Some(FaultKind::Hangup)
            })
            .collect();
        assert_eq!(wrong, [3, 6]);
        assert_eq!(faults.done(), 2);
    }
}
