//! Answers questions about a journal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plimsoll_api::{ObjectKey, PodKey};
use rusqlite::{Connection, Row, params};
use serde::Serialize;

use crate::names::bucket;
use crate::questions;
use crate::store::{JournalError, Store};

/// An open journal. It may be written meanwhile.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
    path: PathBuf,
}

/// An attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalAttempt {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// The number of the attempt.
    pub number: i64,
    /// The profile.
    pub profile: String,
    /// `scheduled`, `unschedulable` or `error`.
    pub result: String,
    /// The chosen node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The node on which preemption makes room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated: Option<String>,
    /// What moved the pod to where it could be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<String>,
    /// When the pod was first ready to be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<i64>,
    /// When it was queued for this attempt.
    pub queued_at: i64,
    /// How many nodes were judged.
    pub judged: i64,
    /// How many were feasible, if that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feasible: Option<i64>,
    /// By how much the chosen node was better, if that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<i64>,
    /// When the binding cycle ended, mostly with the answer to the binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<i64>,
    /// Why the pod was not bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The plugins that rejected it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<JournalRejection>,
    /// The best nodes, if their scores were recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub best: Vec<JournalScore>,
    /// The pods that it chose to evict, as `namespace/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
}

/// A node with its scores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalScore {
    /// The node.
    pub node: String,
    /// Its total.
    pub total: i64,
    /// By plugin, the normalized score times its weight.
    pub by_plugin: BTreeMap<String, i64>,
}

/// A plugin that rejected nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JournalRejection {
    /// The plugin.
    pub plugin: String,
    /// The reason, if it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many nodes, if it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
}

/// An attempt to schedule a group of pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalGroupAttempt {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// `PodGroup` or `CompositePodGroup`.
    pub kind: String,
    /// The group, as `namespace/name`.
    pub group: String,
    /// The number of the attempt.
    pub number: i64,
    /// `scheduled`, `preempting`, `unschedulable` or `error`.
    pub result: String,
    /// Why it is not scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The placement that was chosen, if it has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// How many members were tried.
    pub pods: i64,
    /// How many of them have a node now.
    pub scheduled: i64,
    /// The pods that were chosen to be evicted, as `namespace/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
}

/// A pod with its history in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalPod {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// How often it was tried.
    pub attempts: i64,
    /// When it was first ready to be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<i64>,
    /// When its binding succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_at: Option<i64>,
    /// From the one to the other, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<i64>,
    /// When it was last chosen to be evicted for another pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evicted_at: Option<i64>,
}

/// A pod that was evicted for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JournalPreemption {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The pod that was evicted.
    pub victim: String,
    /// The pod, or the group, for which it was.
    pub preemptor: String,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The plugins because of which the other pod fitted no node; none for a group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// Entries that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The time of the last attempt before, in milliseconds since 1970.
    pub at: i64,
    /// How many.
    pub entries: i64,
}

/// An hour of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hour {
    /// When it began, in milliseconds since 1970.
    pub hour: i64,
    /// How many attempts found a node.
    pub scheduled: i64,
    /// How many attempts each plugin rejected.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected: BTreeMap<String, i64>,
}

impl Reader {
    /// Opens a journal.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Ok(Reader { connection: Store::open_to_read(path)?, path: path.to_owned() })
    }

    /// The last attempts of a pod, oldest first.
    pub fn history(&self, pod: &PodKey, limit: usize) -> Result<Vec<JournalAttempt>, JournalError> {
        let (namespace, name) = (pod.namespace.as_str(), pod.name.as_str());
        let values = params![bucket(name), name, namespace, number(limit)];
        let found: Vec<(i64, JournalAttempt)> =
            self.rows(questions::HISTORY, values, |row| Ok((row.get("id")?, attempt(row)?)))?;
        let attempts = found.into_iter().map(|(id, mut attempt)| {
            attempt.rejections = self.rows(questions::REJECTIONS, [id], |row| {
                Ok(JournalRejection {
                    plugin: row.get(0)?,
                    reason: row.get(1)?,
                    nodes: row.get(2)?,
                })
            })?;
            attempt.best = self.rows(questions::SCORES, [id], |row| {
                let by_plugin: String = row.get(2)?;
                Ok(JournalScore {
                    node: row.get(0)?,
                    total: row.get(1)?,
                    by_plugin: serde_json::from_str(&by_plugin).unwrap_or_default(),
                })
            })?;
            attempt.victims = self.rows(questions::VICTIMS, [id], |row| row.get(0))?;
            Ok(attempt)
        });
        attempts.collect()
    }

    /// The history of a pod in short; `None` if it was tried at most once, unless it waited a second or longer until it was bound or
    /// was evicted. The [attempt](Self::history) of such a pod says all.
    pub fn pod(&self, key: &PodKey, uid: &str) -> Result<Option<JournalPod>, JournalError> {
        let values = params![key.namespace.as_str(), key.name.as_str(), uid];
        Ok(self.rows(questions::POD, values, pod)?.pop())
    }

    /// The pods with this name in whatever namespace, as `namespace/name`.
    pub fn namesakes(&self, name: &str, limit: usize) -> Result<Vec<String>, JournalError> {
        let values = params![bucket(name), name, number(limit)];
        self.rows(questions::NAMESAKES, values, |row| row.get(0))
    }

    /// The last attempts to schedule a group, oldest first.
    pub fn group_history(
        &self,
        group: &ObjectKey,
        limit: usize,
    ) -> Result<Vec<JournalGroupAttempt>, JournalError> {
        if !self.has_groups()? {
            return Ok(Vec::new());
        }
        let values = params![group.namespace.as_str(), group.name.as_str(), number(limit)];
        let found: Vec<(i64, JournalGroupAttempt)> =
            self.rows(questions::GROUP_HISTORY, values, |row| {
                Ok((row.get("id")?, group_attempt(row)?))
            })?;
        let attempts = found.into_iter().map(|(id, mut attempt)| {
            attempt.victims = self.rows(questions::GROUP_VICTIMS, [id], |row| row.get(0))?;
            Ok(attempt)
        });
        attempts.collect()
    }

    /// Whether this version, or one that knows groups, has opened the journal to write it.
    fn has_groups(&self) -> Result<bool, JournalError> {
        let found: Vec<i64> = self.rows(questions::HAS_GROUPS, [], |row| row.get(0))?;
        Ok(!found.is_empty())
    }

    /// The last preemptions, newest first: all, or those of which a pod, or a group of this name, was the victim or the preemptor.
    pub fn preemptions(
        &self,
        pod: Option<&PodKey>,
        limit: usize,
    ) -> Result<Vec<JournalPreemption>, JournalError> {
        let mut all = self.preemptions_for_pods(pod, limit)?;
        // What a member of a group evicts is told of its group, too.
        let of_pods: BTreeSet<(i64, String)> =
            all.iter().map(|one| (one.at, one.victim.clone())).collect();
        let for_groups = self.preemptions_for_groups(pod, limit)?.into_iter();
        all.extend(for_groups.filter(|one| !of_pods.contains(&(one.at, one.victim.clone()))));
        all.sort_by_key(|one| Reverse(one.at));
        all.truncate(limit);
        Ok(all)
    }

    fn preemptions_for_groups(
        &self,
        pod: Option<&PodKey>,
        limit: usize,
    ) -> Result<Vec<JournalPreemption>, JournalError> {
        if !self.has_groups()? {
            return Ok(Vec::new());
        }
        let read = |row: &Row<'_>| {
            Ok(JournalPreemption {
                at: row.get("at")?,
                victim: row.get("victim")?,
                preemptor: row.get("preemptor")?,
                node: None,
                because: Vec::new(),
            })
        };
        match pod {
            None => self.rows(questions::GROUP_PREEMPTIONS, [number(limit)], read),
            Some(pod) => {
                let (namespace, name) = (pod.namespace.as_str(), pod.name.as_str());
                let values = params![pod.to_string(), namespace, name, number(limit)];
                self.rows(questions::GROUP_PREEMPTIONS_OF, values, read)
            }
        }
    }

    fn preemptions_for_pods(
        &self,
        pod: Option<&PodKey>,
        limit: usize,
    ) -> Result<Vec<JournalPreemption>, JournalError> {
        let read = |row: &Row<'_>| {
            let preemption = JournalPreemption {
                at: row.get("at")?,
                victim: row.get("victim")?,
                preemptor: row.get("preemptor")?,
                node: row.get("node")?,
                because: Vec::new(),
            };
            Ok((row.get::<_, i64>("attempt")?, preemption))
        };
        let found = match pod {
            None => self.rows(questions::PREEMPTIONS, [number(limit)], read)?,
            Some(pod) => {
                let (namespace, name) = (pod.namespace.as_str(), pod.name.as_str());
                let values = params![bucket(name), name, namespace, pod.to_string(), number(limit)];
                self.rows(questions::PREEMPTIONS_OF_POD, values, read)?
            }
        };
        let preemptions = found.into_iter().map(|(attempt, mut preemption)| {
            preemption.because = self.rows(questions::REJECTIONS, [attempt], |row| row.get(0))?;
            preemption.because.sort();
            preemption.because.dedup();
            Ok(preemption)
        });
        preemptions.collect()
    }

    /// The pods that waited longest until they were bound, the slowest first. Those that were bound within a second at their
    /// first attempt are left out, and beyond the first two hundred some others that were bound at their first attempt.
    pub fn slowest(&self, limit: usize) -> Result<Vec<JournalPod>, JournalError> {
        self.rows(questions::SLOWEST, [number(limit)], pod)
    }

    /// The pods that were tried most often.
    pub fn most_retried(&self, limit: usize) -> Result<Vec<JournalPod>, JournalError> {
        self.rows(questions::MOST_RETRIED, [number(limit)], pod)
    }

    /// Attempts by hour, the last hours, oldest first.
    pub fn hours(&self, limit: usize) -> Result<Vec<Hour>, JournalError> {
        let rows: Vec<(i64, String, i64)> =
            self.rows(questions::HOURS, [number(limit)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let mut hours: Vec<Hour> = Vec::new();
        for (hour, plugin, n) in rows {
            if hours.last().is_none_or(|last| last.hour != hour) {
                hours.push(Hour { hour, scheduled: 0, rejected: BTreeMap::new() });
            }
            let Some(last) = hours.last_mut() else { continue };
            if plugin.is_empty() {
                last.scheduled = n;
            } else {
                last.rejected.insert(plugin, n);
            }
        }
        Ok(hours)
    }

    /// When entries were lost, the last times, newest first. A row stands for the losses of up to a minute.
    pub fn losses(&self, limit: usize) -> Result<Vec<Loss>, JournalError> {
        let read = |row: &Row<'_>| Ok(Loss { at: row.get(0)?, entries: row.get(1)? });
        self.rows(questions::LOSSES, [number(limit)], read)
    }

    /// How many entries were lost because they came faster than they could be written.
    pub fn lost(&self) -> Result<i64, JournalError> {
        let sums: Vec<i64> = self.rows(questions::LOST, [], |row| row.get(0))?;
        Ok(sums.into_iter().sum())
    }

    fn rows<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, JournalError> {
        let failed = |error| JournalError::Sqlite { path: self.path.clone(), error };
        let mut query = self.connection.prepare_cached(sql).map_err(failed)?;
        let rows = query.query_map(values, |row| read(row)).map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<JournalAttempt> {
    let (namespace, name): (String, String) = (row.get("namespace")?, row.get("name")?);
    Ok(JournalAttempt {
        at: row.get("at")?,
        pod: format!("{namespace}/{name}"),
        uid: row.get("uid")?,
        number: row.get("number")?,
        profile: row.get("profile")?,
        result: row.get("result")?,
        node: row.get("node")?,
        message: row.get("message")?,
        nominated: row.get("nominated")?,
        woken_by: row.get("woken_by")?,
        ready_at: row.get("ready_at")?,
        queued_at: row.get("queued_at")?,
        judged: row.get("judged")?,
        feasible: row.get("feasible")?,
        margin: row.get("margin")?,
        answered_at: row.get("answered_at")?,
        error: row.get("error")?,
        rejections: Vec::new(),
        best: Vec::new(),
        victims: Vec::new(),
    })
}

fn group_attempt(row: &Row<'_>) -> rusqlite::Result<JournalGroupAttempt> {
    let (namespace, name): (String, String) = (row.get("namespace")?, row.get("name")?);
    Ok(JournalGroupAttempt {
        at: row.get("at")?,
        kind: row.get("kind")?,
        group: format!("{namespace}/{name}"),
        number: row.get("number")?,
        result: row.get("result")?,
        message: row.get("why")?,
        placement: row.get("placed")?,
        pods: row.get("pods")?,
        scheduled: row.get("scheduled")?,
        victims: Vec::new(),
    })
}

fn pod(row: &Row<'_>) -> rusqlite::Result<JournalPod> {
    let (namespace, name): (String, String) = (row.get("namespace")?, row.get("name")?);
    Ok(JournalPod {
        pod: format!("{namespace}/{name}"),
        attempts: row.get("attempts")?,
        ready_at: row.get("ready_at")?,
        bound_at: row.get("bound_at")?,
        waited: row.get("waited")?,
        evicted_at: row.get("evicted_at")?,
    })
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
