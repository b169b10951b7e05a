//! `plimsoll new-plugin`: what it writes, and what it does not touch. `examples/my_plugin`, which has the same files,
//! shows that the crate builds and passes its tests.

use std::fs;
use std::path::Path;

use crate::run::{Answer, run};

/// Writes a crate into `folder`.
fn new_plugin(name: &str, folder: &Path) -> Answer {
    run(&[], &format!("new-plugin {name} --path {}", folder.display()))
}

#[test]
fn the_crate_has_the_name_of_its_plugin_everywhere() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let made = folder.path().join("guard");
    let answer = new_plugin("ZoneGuard", &made);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    assert!(answer.out.starts_with("Plugin ZoneGuard is in "), "{}", answer.out);
    let read = |name: &str| fs::read_to_string(made.join(name)).expect("it was written");
    assert!(read("Cargo.toml").contains("name = \"zone-guard\""));
    assert!(read("src/lib.rs").contains("const NAME: &'static str = \"ZoneGuard\";"));
    assert!(read("src/main.rs").contains(".with_plugin(zone_guard::entry())"));
    for name in ["Cargo.toml", "src/lib.rs", "src/main.rs", "config.yaml", "Dockerfile"] {
        let text = read(name).to_lowercase().replace(['-', '_'], "");
        assert!(!text.contains("myplugin"), "{name}");
    }
    // The paths to the sources lead there.
    let manifest = read("Cargo.toml");
    let (_, path) = manifest.split_once("plimsoll = { path = \"").expect("it depends on plimsoll");
    let (path, _) = path.split_once('"').expect("it ends");
    assert!(made.join(path).join("src/lib.rs").is_file(), "{path}");
    // The crate has the same lock file, and so the dependencies that are tested here.
    assert!(made.join("Cargo.lock").is_file());
}

#[test]
fn nothing_is_written_over() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    fs::write(folder.path().join("notes"), "mine").expect("there is room");
    let answer = new_plugin("ZoneGuard", folder.path());
    assert_eq!(answer.status, 1);
    assert!(
        answer.err.contains("is not empty: give another directory with --path"),
        "{}",
        answer.err
    );
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1);
}

#[test]
fn a_name_that_cannot_be_used_is_refused_before_anything_is_written() {
    for (name, why) in [
        ("NodeName", "a plugin named NodeName already exists"),
        ("9lives", "a plugin is named in letters and digits"),
        ("match", "no crate can be called match"),
    ] {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let answer = new_plugin(name, folder.path());
        assert_eq!(answer.status, 1, "{name}");
        assert!(answer.err.contains(why), "{name}: {}", answer.err);
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0, "{name}");
    }
}

#[test]
fn a_folder_without_the_sources_is_refused() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let made = folder.path().join("guard");
    let line = format!("new-plugin Guard --path {} --plimsoll .", made.display());
    let answer = run(&[], &line);
    assert_eq!(answer.status, 1);
    assert!(answer.err.contains("does not hold the sources of plimsoll"), "{}", answer.err);
    assert!(!made.exists());
}
