//! What `--write-config-to` writes and `/configz` serves leads to the same decisions when it is read again.

use plimsoll_config::{Configuration, GivenGates};
use plimsoll_document::Document;
use plimsoll_framework::Release;
use plimsoll_legacy::config::{
    Provider, load, rename_profile, set_hard_pod_affinity_weight, with_policy, with_provider,
};
use serde_json::{Value, json};

use crate::catalogue::{HEAD, catalogue_of_all_releases, lines};
use crate::migration::{Chance, as_in_v1, random};

fn read(what: &str, text: &str) -> Configuration {
    let catalogue = catalogue_of_all_releases();
    load(what, text, &catalogue).unwrap_or_else(|errors| panic!("{text}\n{}", lines(&errors)))
}

/// Everything in a configuration that affects decisions or calls of extenders.
///
/// Version v1 can express all of it, with two exceptions: it has NodeVolumeLimits in place of the plugins that count
/// disks, and no field to run all filters after one has rejected the node, which changes only reasons.
fn decides(configuration: &Configuration) -> Value {
    let profiles = configuration.profiles.iter().map(as_in_v1).map(|profile| {
        let points = profile.points.iter().map(|(point, plugins)| {
            let plugins = plugins.iter().map(|plugin| json!([plugin.name, plugin.weight]));
            json!([point.key(), plugins.collect::<Vec<_>>()])
        });
        json!({
            "name": profile.scheduler_name,
            "percentage": profile.percentage_of_nodes_to_score,
            "points": points.collect::<Vec<_>>(),
            "args": profile.args,
        })
    });
    let effective = &configuration.effective;
    json!({
        "profiles": profiles.collect::<Vec<_>>(),
        "parallelism": configuration.parallelism,
        "backoff": [configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds],
        "extenders": configuration.extenders,
        "leaderElection": effective.leader_election,
        "clientConnection": effective.client_connection,
        "delayCacheUntilActive": effective.delay_cache_until_active,
        "profiling": [effective.enable_profiling, effective.enable_contention_profiling],
    })
}

/// A configuration in both forms in which it is written.
fn written(configuration: &Configuration) -> [String; 2] {
    [configuration.to_yaml(), configuration.effective.to_value().to_string()]
}

#[track_caller]
fn assert_kept(configuration: &Configuration, what: &str) {
    let expected = decides(configuration);
    for text in written(configuration) {
        assert_eq!(decides(&read("written.yaml", &text)), expected, "{what}\n{text}");
    }
}

#[test]
fn an_absent_percentage_means_all_nodes_and_stays_absent() {
    assert_kept(&Configuration::default_for(&catalogue_of_all_releases()), "the default");
    for fields in [
        "",
        "percentageOfNodesToScore: 0\n",
        "percentageOfNodesToScore: 100\n",
        "profiles:\n- schedulerName: a\n- {schedulerName: b, percentageOfNodesToScore: 0}\n",
    ] {
        assert_kept(&read("given.yaml", &format!("{HEAD}{fields}")), fields);
    }
}

#[test]
fn older_releases_read_what_newer_ones_write() {
    let newest = Configuration::default_for(&catalogue_of_all_releases());
    let gates = GivenGates::of(Release::V1_36);
    let mut older = catalogue_of_all_releases();
    older.gates = gates.plugins;
    for text in written(&newest) {
        let read = load("written.yaml", &text, &older);
        let read = read.unwrap_or_else(|errors| panic!("{text}\n{}", lines(&errors)));
        assert_eq!(decides(&read), decides(&Configuration::default_for(&older)));
    }
}

/// Adds fields to a random file that random profiles do not have.
fn enrich(file: &mut Value, version: &str, chance: &mut Chance) {
    let profiles = file.get_mut("profiles").and_then(Value::as_array_mut);
    for profile in profiles.into_iter().flatten().filter(|_| version == "v1") {
        if chance.is_one_of(3) {
            profile["percentageOfNodesToScore"] = chance.below(101).into();
        }
        if chance.is_one_of(3) {
            let names =
                ["TaintToleration", "ImageLocality", "PodTopologySpread", "DefaultPreemption"];
            let disabled =
                names.iter().filter(|_| chance.is_one_of(2)).map(|name| json!({"name": name}));
            profile["plugins"]["multiPoint"]["disabled"] = disabled.collect();
        }
    }
    if chance.is_one_of(3) {
        file["podMaxBackoffSeconds"] = (1 + chance.below(60)).into();
        file["parallelism"] = (1 + chance.below(32)).into();
    }
    if chance.is_one_of(3) {
        file["leaderElection"] = json!({
            "leaderElect": chance.is_one_of(2), "leaseDuration": format!("{}s", 11 + chance.below(90)),
            "resourceLock": "leases",
        });
    }
    if chance.is_one_of(3) {
        file["clientConnection"] = json!({"kubeconfig": "a", "burst": 1 + chance.below(900)});
        file["enableProfiling"] = chance.is_one_of(2).into();
    }
    if chance.is_one_of(3) {
        file["extenders"] =
            json!([{"urlPrefix": "http://a", "filterVerb": "f", "nodeCacheCapable": true}]);
    }
}

#[test]
fn any_configuration_is_kept() {
    for version in ["v1", "v1beta3", "v1beta2", "v1beta1", "v1alpha2", "v1alpha1"] {
        let mut chance = Chance(0x2545_f491_4f6c_dd1d);
        let mut n_valid = 0;
        for _ in 0..500 {
            let mut file = random(version, &mut chance);
            enrich(&mut file, version, &mut chance);
            let text = file.to_string();
            if let Ok(configuration) = load("random.json", &text, &catalogue_of_all_releases()) {
                assert_kept(&configuration, &text);
                n_valid += 1;
            }
        }
        assert!(n_valid >= 50, "only {n_valid} of {version} are valid");
    }
}

#[test]
fn changes_by_flags_are_kept() {
    let policy = "kind: Policy\napiVersion: v1\npredicates: [{name: GeneralPredicates}]\n\
                  priorities: [{name: ImageLocalityPriority, weight: 3}]\n\
                  extenders: [{urlPrefix: a, filterVerb: filter}]\nalwaysCheckAllPredicates: true\n";
    assert_kept(&read("policy.yaml", policy), policy);
    for percentage in ["", "percentageOfNodesToScore: 0\n", "percentageOfNodesToScore: 30\n"] {
        let text = format!("{HEAD}{percentage}");
        let document = Document::parse_all("given.yaml", &text).expect("it is YAML").remove(0);
        let with_policy =
            with_policy(read("given.yaml", &text), &document, &read("policy.yaml", policy));
        assert_kept(&with_policy.expect("nothing stands against it"), &text);
        let catalogue = catalogue_of_all_releases();
        let provider = Provider::ClusterAutoscaler;
        let with_provider =
            with_provider(read("given.yaml", &text), &document, provider, &catalogue);
        let mut given = with_provider.expect("nothing stands against it");
        set_hard_pod_affinity_weight(&mut given, 17);
        rename_profile(&mut given, "own");
        assert_kept(&given, &text);
    }
}
