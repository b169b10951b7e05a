//! `/healthz`, `/livez` and `/readyz`, with exactly the text of the API server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use axum::response::Response;
use http::StatusCode;

use super::process_info::{CheckError, HealthCheck, HealthChecks};
use super::reply;

/// All health checks, by endpoint, and their results so far.
#[derive(Debug)]
pub(super) struct Health {
    endpoints: BTreeMap<&'static str, Vec<HealthCheck>>,
    results: Mutex<BTreeMap<(String, &'static str), Results>>,
}

/// The results of one check at one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    /// Whether it succeeded the last time.
    pub(super) well: bool,
    pub(super) successes: u64,
    pub(super) errors: u64,
}

impl Health {
    /// Endpoints without checks are always healthy.
    pub(super) fn new(checks: HealthChecks) -> Self {
        let some = |checks: Vec<HealthCheck>| match checks.is_empty() {
            true => vec![HealthCheck::ping()],
            false => checks,
        };
        let endpoints = BTreeMap::from([
            ("healthz", some(checks.healthz)),
            ("livez", some(checks.livez)),
            ("readyz", some(checks.readyz)),
        ]);
        Health { endpoints, results: Mutex::default() }
    }

    /// The names of the endpoints with their checks.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = (&'static str, &[HealthCheck])> {
        self.endpoints.iter().map(|(name, checks)| (*name, checks.as_slice()))
    }

    /// All checks of an endpoint together. As in healthz.go, handleRootHealth: the reason of a failure
    /// is logged, and not shown to everybody.
    pub(super) fn all(&self, endpoint: &'static str, query: &[(String, String)]) -> Response {
        let values = query.iter().filter(|(key, _)| key == "exclude");
        let mut excluded: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
        excluded.sort_unstable();
        excluded.dedup();
        let (mut text, mut failed) = (String::new(), Vec::new());
        for check in self.endpoints.get(endpoint).into_iter().flatten() {
            let name = &check.name;
            let line = match excluded.iter().position(|other| other == name) {
                Some(at) => {
                    excluded.remove(at);
                    format!("[+]{name} excluded: ok\n")
                }
                None => match self.run_check(endpoint, check) {
                    Ok(()) => format!("[+]{name} ok\n"),
                    Err(why) => {
                        tracing::info!(endpoint, check = %name, %why, "health check failed");
                        failed.push(name);
                        format!("[-]{name} failed: reason withheld\n")
                    }
                },
            };
            text.push_str(&line);
        }
        if !excluded.is_empty() {
            let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            writeln!(text, "warn: some health checks cannot be excluded: no matches for {names}")
                .expect("a text takes everything");
        }
        if !failed.is_empty() {
            let text = format!("{text}{endpoint} check failed");
            return reply::error(StatusCode::INTERNAL_SERVER_ERROR, &text);
        }
        if !query.iter().any(|(key, _)| key == "verbose") {
            return reply::text(StatusCode::OK, "ok");
        }
        reply::text(StatusCode::OK, format!("{text}{endpoint} check passed\n"))
    }

    /// One check by itself. As in healthz.go, adaptCheckToHandler.
    pub(super) fn one(&self, endpoint: &'static str, name: &str) -> Response {
        let mut checks = self.endpoints.get(endpoint).into_iter().flatten();
        let Some(check) = checks.find(|check| check.name == name) else {
            return reply::not_found();
        };
        match (check.check)() {
            Ok(()) => reply::text(StatusCode::OK, "ok"),
            Err(why) => {
                let text = format!("internal server error: {why}");
                reply::error(StatusCode::INTERNAL_SERVER_ERROR, &text)
            }
        }
    }

    /// The results of all checks so far, by name and endpoint.
    pub(super) fn results(&self) -> Vec<((String, &'static str), Results)> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.iter().map(|(key, results)| (key.clone(), *results)).collect()
    }

    fn run_check(&self, endpoint: &'static str, check: &HealthCheck) -> Result<(), CheckError> {
        let result = (check.check)();
        let mut all = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let results = all.entry((check.name.clone(), endpoint)).or_default();
        results.well = result.is_ok();
        results.successes += u64::from(result.is_ok());
        results.errors += u64::from(result.is_err());
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use expect_test::{Expect, expect};
    use http_body_util::BodyExt as _;

    use super::*;

    async fn check(response: Response, code: u16, expected: Expect) {
        assert_eq!(response.status(), code);
        let body = response.into_body().collect().await.expect("it is at hand").to_bytes();
        expected.assert_eq(std::str::from_utf8(&body).expect("it is text"));
    }

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn health() -> (Health, Arc<AtomicBool>) {
        let synced = Arc::new(AtomicBool::new(false));
        let look = synced.clone();
        let sync =
            HealthCheck::new("sched-handler-sync", move || match look.load(Ordering::Relaxed) {
                true => Ok(()),
                false => Err("handlers are not fully synchronized".to_owned()),
            });
        let shutdown = HealthCheck::new("shutdown", || Ok::<_, &str>(()));
        (
            Health::new(HealthChecks { readyz: vec![shutdown, sync], ..HealthChecks::default() }),
            synced,
        )
    }

    #[tokio::test]
    async fn a_failing_check_is_told_without_its_reason() {
        let (health, synced) = health();
        check(
            health.all("readyz", &[]),
            500,
            expect![[r#"
                [+]shutdown ok
                [-]sched-handler-sync failed: reason withheld
                readyz check failed
            "#]],
        )
        .await;
        check(
            health.one("readyz", "sched-handler-sync"),
            500,
            expect![[r#"
                internal server error: handlers are not fully synchronized
            "#]],
        )
        .await;
        synced.store(true, Ordering::Relaxed);
        check(health.all("readyz", &[]), 200, expect!["ok"]).await;
        check(health.one("readyz", "sched-handler-sync"), 200, expect!["ok"]).await;
        let at = |name: &str| (name.to_owned(), "readyz");
        let once = Results { well: true, successes: 1, errors: 1 };
        let twice = Results { well: true, successes: 2, errors: 0 };
        let results = [(at("sched-handler-sync"), once), (at("shutdown"), twice)];
        assert_eq!(health.results(), results);
    }

    #[tokio::test]
    async fn checks_are_told_one_by_one_and_can_be_left_out() {
        let (health, _) = health();
        let asked = query(&[("exclude", "sched-handler-sync"), ("exclude", "x"), ("verbose", "")]);
        check(
            health.all("readyz", &asked),
            200,
            expect![[r#"
                [+]shutdown ok
                [+]sched-handler-sync excluded: ok
                warn: some health checks cannot be excluded: no matches for "x"
                readyz check passed
            "#]],
        )
        .await;
    }

    #[tokio::test]
    async fn where_there_is_nothing_to_look_at_all_is_well() {
        let (health, _) = health();
        check(
            health.all("livez", &query(&[("verbose", "")])),
            200,
            expect![[r#"
                [+]ping ok
                livez check passed
            "#]],
        )
        .await;
        assert_eq!(health.one("livez", "shutdown").status(), 404);
    }
}
