//! Paths that everybody may see.

use std::collections::BTreeSet;

use crate::serve::options::OptionError;

/// Paths that everybody may see. As in authorization/path/path.go.
#[derive(Clone, Debug, Default)]
pub(in crate::serve) struct AllowedPaths {
    paths: BTreeSet<String>,
    prefixes: Vec<String>,
}

impl AllowedPaths {
    /// Parses paths. A `*` at the end matches anything. A leading slash is ignored.
    pub(in crate::serve) fn new(paths: &[String]) -> Result<Self, OptionError> {
        let mut allowed = AllowedPaths::default();
        for path in paths {
            let path = path.strip_prefix('/').unwrap_or(path);
            let (rest, star) = match path.strip_suffix('*') {
                Some(rest) => (rest, true),
                None => (path, false),
            };
            if rest.contains('*') {
                return Err(OptionError(format!(
                    "--authorization-always-allow-paths: only trailing * allowed in {path:?}; name each path, \
                     or let it end with the star"
                )));
            }
            match star {
                true => allowed.prefixes.push(rest.to_owned()),
                false => drop(allowed.paths.insert(rest.to_owned())),
            }
        }
        Ok(allowed)
    }

    /// Whether everybody may see a path.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.paths.contains(path) || self.prefixes.iter().any(|prefix| path.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_open_as_it_is_and_with_a_star_with_all_that_follows() {
        let paths = ["/healthz", "livez/*", "/"].map(str::to_owned);
        let allowed = AllowedPaths::new(&paths).expect("they are right");
        for open in ["/healthz", "healthz", "/livez/", "/livez/ping", "/"] {
            assert!(allowed.has(open), "{open}");
        }
        for closed in ["/healthz/ping", "/healthz/", "/livez", "/metrics", "//healthz"] {
            assert!(!allowed.has(closed), "{closed}");
        }
        let everything = AllowedPaths::new(&["*".to_owned()]).expect("it is right");
        assert!(everything.has("/metrics"));
    }
}
