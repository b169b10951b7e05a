//! The dependencies between crates are those of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Table;

/// Which crates each shipped crate may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("devices", &["api"]),
    ("cel", &["api"]),
    ("framework", &["api"]),
    ("plugins", &["api", "cel", "devices", "framework"]),
    ("legacy", &["api", "config", "document", "framework", "plugins"]),
    ("engine", &["api", "framework"]),
    ("document", &[]),
    ("config", &["document", "framework"]),
    ("sim", &["api", "engine", "framework"]),
    ("recording", &["api", "engine", "framework"]),
    ("advisor", &["api", "engine", "framework"]),
    ("journal", &["api", "engine", "framework"]),
    ("ui", &["api", "engine", "framework"]),
    ("shadow", &["api", "engine", "framework", "sim"]),
    ("kube", &["api", "config", "engine", "framework", "ui"]),
    (
        "plimsoll",
        &[
            "advisor",
            "journal",
            "api",
            "cel",
            "config",
            "document",
            "engine",
            "framework",
            "kube",
            "legacy",
            "plugins",
            "recording",
            "shadow",
            "sim",
            "ui",
        ],
    ),
    ("testkit", &["api", "framework"]),
];

/// Crates on which only the IO layer may depend.
const EDGES_ONLY: &[&str] = &["tokio", "kube", "k8s-openapi", "hyper", "axum", "clap", "indicatif"];

fn dependencies(name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).expect("every crate has a manifest");
    let manifest: Table = toml::from_str(&text).expect("a manifest is TOML");
    let section = manifest.get("dependencies").and_then(|section| section.as_table());
    section.into_iter().flat_map(Table::keys).cloned().collect()
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let arrows: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    for (name, allowed) in arrows {
        for used in dependencies(name) {
            let Some(used) = used.strip_prefix("plimsoll-") else { continue };
            assert!(allowed.contains(&used), "crate {name} must not use crate {used}");
        }
    }
}

#[test]
fn only_edges_know_the_network_and_the_terminal() {
    let below = [
        "api",
        "devices",
        "cel",
        "framework",
        "plugins",
        "legacy",
        "engine",
        "document",
        "config",
        "sim",
        "recording",
        "advisor",
        "journal",
        "shadow",
    ];
    for name in below {
        for used in dependencies(name) {
            assert!(!EDGES_ONLY.contains(&used.as_str()), "crate {name} must not use {used}");
        }
    }
}

#[test]
fn the_core_is_checked_for_clocks_locks_and_hash_maps() {
    for name in
        ["api", "cel", "devices", "framework", "plugins", "legacy", "engine", "advisor", "shadow"]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src/lib.rs");
        let text = std::fs::read_to_string(&path).expect("every crate has a lib.rs");
        let lints = "#![warn(clippy::disallowed_methods, clippy::disallowed_types)]";
        assert!(text.contains(lints), "crate {name} switches the lints on");
    }
}
