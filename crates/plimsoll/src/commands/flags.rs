//! The flags of `plimsoll run` with their values in effect, for `/flagz`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{ArgMatches, Command, CommandFactory};
use plimsoll_config::Configuration;

use super::run::with_dashes;
use crate::args::Args;

/// All flags of this process, given or not. No flag holds a secret.
pub(super) fn in_effect(configuration: &Configuration) -> Vec<(String, String)> {
    of(std::env::args_os(), configuration)
}

/// The same of another command than `run`: the values that are given, or that flags have by default.
pub(super) fn of_command(name: &str) -> Vec<(String, String)> {
    let command = Args::command();
    let matches = command.clone().try_get_matches_from(std::env::args_os()).ok();
    let given = matches.as_ref().and_then(|matches| matches.subcommand_matches(name));
    let command = command.find_subcommand(name);
    command.into_iter().flat_map(|command| values(command, given)).collect()
}

fn of(
    line: impl Iterator<Item = OsString>,
    configuration: &Configuration,
) -> Vec<(String, String)> {
    let command = Args::command();
    let matches = command.clone().try_get_matches_from(with_dashes(line)).ok();
    let given = matches.as_ref().and_then(|matches| matches.subcommand_matches("run"));
    let mut flags = unset(configuration);
    if let Some(run) = command.find_subcommand("run") {
        flags.extend(values(run, given));
    }
    flags.into_iter().collect()
}

/// The given or default value of each flag. Flags without a value are left out.
fn values<'a>(
    run: &'a Command,
    given: Option<&'a ArgMatches>,
) -> impl Iterator<Item = (String, String)> + 'a {
    let mut known = BTreeMap::new();
    for flag in run.get_arguments() {
        let Some(name) = flag.get_long().filter(|name| !["help", "version"].contains(name)) else {
            continue;
        };
        let raw = given.and_then(|given| given.get_raw(flag.get_id().as_str()));
        let words: Option<Vec<String>> =
            raw.map(|raw| raw.map(|word| word.to_string_lossy().into_owned()).collect());
        let words = words.or_else(|| {
            let defaults = flag.get_default_values().iter();
            let defaults: Vec<String> =
                defaults.map(|word| word.to_string_lossy().into_owned()).collect();
            (!defaults.is_empty()).then_some(defaults)
        });
        // As pflag writes lists.
        let is_list = flag.get_value_delimiter().is_some();
        let value = words.map(|words| words.join(","));
        known.insert(
            name.to_owned(),
            if is_list { Some(format!("[{}]", value.unwrap_or_default())) } else { value },
        );
    }
    known.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// The values that the configuration sets for flags that are not given.
fn unset(configuration: &Configuration) -> BTreeMap<String, String> {
    let effective = &configuration.effective;
    let (election, connection) = (&effective.leader_election, &effective.client_connection);
    let flags = [
        ("leader-elect", (election.leader_elect != Some(false)).to_string()),
        ("leader-elect-lease-duration", election.lease_duration.to_string()),
        ("leader-elect-renew-deadline", election.renew_deadline.to_string()),
        ("leader-elect-retry-period", election.retry_period.to_string()),
        ("leader-elect-resource-lock", election.resource_lock.clone()),
        ("leader-elect-resource-name", election.resource_name.clone()),
        ("leader-elect-resource-namespace", election.resource_namespace.clone()),
        ("kubeconfig", connection.kubeconfig.clone()),
        ("kube-api-qps", connection.qps.to_string()),
        ("kube-api-burst", connection.burst.to_string()),
        ("kube-api-content-type", connection.content_type.clone()),
    ];
    flags.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_config::Catalogue;
    use plimsoll_legacy::in_tree;
    use plimsoll_plugins::default_profile;

    use super::*;

    fn told(line: &[&str]) -> BTreeMap<String, String> {
        let catalogue = Catalogue::of(&in_tree(), &default_profile());
        let line = ["plimsoll", "run"].iter().chain(line).map(OsString::from);
        of(line, &Configuration::default_for(&catalogue)).into_iter().collect()
    }

    #[test]
    fn flags_that_were_not_given_have_their_defaults() {
        let flags = told(&[]);
        for (name, value) in [
            ("leader-elect", "true"),
            ("leader-elect-resource-name", "kube-scheduler"),
            ("leader-elect-lease-duration", "15s"),
            ("secure-port", "10259"),
            ("v", "0"),
            ("authorization-always-allow-paths", "[/healthz,/readyz,/livez]"),
            ("tls-cipher-suites", "[]"),
            ("kube-api-qps", "50"),
        ] {
            assert_eq!(flags.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!flags.contains_key("help"));
    }

    #[test]
    fn given_flags_have_their_values_in_every_spelling() {
        let flags = told(&[
            "--secure_port=1",
            "--leader-elect=false",
            "--leader-elect-resource-name",
            "mine",
            "-v=4",
            "--tls-cipher-suites=A,B",
            "--tls-cipher-suites=C",
        ]);
        for (name, value) in [
            ("secure-port", "1"),
            ("leader-elect", "false"),
            ("leader-elect-resource-name", "mine"),
            ("v", "4"),
            ("tls-cipher-suites", "[A,B,C]"),
        ] {
            assert_eq!(flags.get(name).map(String::as_str), Some(value), "{name}");
        }
    }
}
