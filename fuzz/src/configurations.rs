//! Configurations, policies and flags.

use plimsoll_api::Release;
use plimsoll_config::{Catalogue, Configuration, GivenGates, GoDuration};
use plimsoll_legacy::config::{Migration, OLD_GATES, load, load_policy};
use plimsoll_legacy::in_tree;
use plimsoll_plugins::default_profile;

fn catalogue() -> Catalogue {
    Catalogue::of(&in_tree(), &default_profile())
}

/// A configuration of any form. Its migration is valid, and so is what `--write-config-to` writes.
pub(crate) fn configurations(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let catalogue = catalogue();
    if let Ok(configuration) = load("scheduler.yaml", text, &catalogue) {
        check(&configuration, &catalogue);
    }
}

/// A Policy. Its migration is valid.
pub(crate) fn policies(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let catalogue = catalogue();
    if let Ok(configuration) = load_policy("policy.json", text, &catalogue) {
        check(&configuration, &catalogue);
    }
}

fn check(configuration: &Configuration, catalogue: &Catalogue) {
    let migrated = Migration::of(configuration, catalogue).to_yaml();
    if let Err(errors) = load("migrated.yaml", &migrated, catalogue) {
        panic!("the migrated file is refused: {errors:?}\n{migrated}");
    }
    let written = configuration.effective.to_value().to_string();
    if let Err(errors) = load("written.json", &written, catalogue) {
        panic!("the effective configuration is refused: {errors:?}\n{written}");
    }
}

/// The values of flags: feature gates and durations. A duration that was read is the same when its text is read again.
pub(crate) fn flags(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let given: Vec<String> = text.split(',').map(str::to_owned).collect();
    for release in Release::ALL {
        drop(GivenGates::parse(release, &given, OLD_GATES));
    }
    if let Ok(duration) = text.parse::<GoDuration>() {
        let shown = duration.to_string();
        assert_eq!(shown.parse::<GoDuration>().ok(), Some(duration), "{text} is shown as {shown}");
    }
}
