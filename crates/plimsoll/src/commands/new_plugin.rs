//! `plimsoll new-plugin`: writes a crate with a plugin, its tests, its program and its image.
//!
//! The files are those of `examples/my_plugin`, with other names and paths.

use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use plimsoll_framework::Registry;

use crate::args::NewPlugin;

/// The files of the example, by their paths in the crate.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../../../examples/my_plugin/Cargo.toml")),
    ("src/lib.rs", include_str!("../../../../examples/my_plugin/src/lib.rs")),
    ("src/main.rs", include_str!("../../../../examples/my_plugin/src/main.rs")),
    ("config.yaml", include_str!("../../../../examples/my_plugin/config.yaml")),
    ("Dockerfile", include_str!("../../../../examples/my_plugin/Dockerfile")),
    (".dockerignore", include_str!("../../../../examples/my_plugin/.dockerignore")),
    (".gitignore", include_str!("../../../../examples/my_plugin/.gitignore")),
];

/// The manifest of the crate `plimsoll` within its sources.
const MANIFEST: &str = "crates/plimsoll/Cargo.toml";

/// Added if the new crate is within the sources of plimsoll, whose workspace does not list it.
const OWN_WORKSPACE: &str =
    "\n# This crate is not a member of the workspace that contains it.\n[workspace]\n";

/// Names that a crate with a program cannot have.
const TAKEN: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "expect_test",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "plimsoll",
    "plimsoll_testkit",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Writes the crate, and says what to do next.
pub(crate) fn run(args: &NewPlugin, registry: &Registry) -> Result<()> {
    let names = Names::of(&args.name)?;
    ensure!(
        registry.get(&names.plugin).is_none(),
        "a plugin named {} already exists: choose another name",
        names.plugin
    );
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&names.package));
    let is_new = fs::read_dir(&folder).map_or(true, |mut entries| entries.next().is_none());
    ensure!(is_new, "{} is not empty: give another directory with --path", folder.display());
    let sources = match &args.plimsoll {
        Some(sources) => sources.clone(),
        None => find_sources()
            .context("cannot find the sources of plimsoll: name their directory with --plimsoll")?,
    };
    ensure!(
        sources.join(MANIFEST).is_file(),
        "{} does not hold the sources of plimsoll: there is no {MANIFEST}",
        sources.display()
    );
    // The same lock file, so that the crate uses the versions that plimsoll was tested with.
    let lock = fs::read(sources.join("Cargo.lock"))
        .context("the sources of plimsoll have no Cargo.lock")?;
    let place = Place::of(&folder, &sources)?;
    for (name, text) in FILES {
        let mut text = names.put_into(&place.put_into(text));
        if *name == "Cargo.toml" && place.is_inside {
            text += OWN_WORKSPACE;
        }
        write(&folder.join(name), text.as_bytes())?;
    }
    write(&folder.join("Cargo.lock"), &lock)?;
    let mut out = io::stdout().lock();
    writeln!(out, "Plugin {} is in {}. To try it there:\n", names.plugin, folder.display())?;
    writeln!(out, "  cargo test")?;
    writeln!(out, "  cargo run --release -- config check config.yaml")?;
    writeln!(out, "  cargo run --release -- simulate -f CLUSTER.yaml --config config.yaml")?;
    writeln!(
        out,
        "  docker build --build-context plimsoll={} -t {} .",
        place.sources, names.package
    )?;
    Ok(())
}

/// The names derived from what the user wrote.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    /// The name in configurations and of the type: `RackDrain`.
    plugin: String,
    /// The name of the package and the program: `rack-drain`.
    package: String,
}

impl Names {
    /// Reads `RackDrain`, `rack-drain` or `rack_drain`.
    fn of(given: &str) -> Result<Self> {
        let wrong = || {
            format!(
                "NAME {given:?}: a plugin is named in letters and digits, such as RackDrain or rack-drain"
            )
        };
        let mut words: Vec<String> = Vec::new();
        for part in given.split(['-', '_']) {
            ensure!(part.starts_with(|first: char| first.is_ascii_alphabetic()), wrong());
            ensure!(part.chars().all(|letter| letter.is_ascii_alphanumeric()), wrong());
            let mut before = 'A';
            for letter in part.chars() {
                // A capital letter begins a word, unless it follows another: `NodeIPs` has two words.
                let begins = letter.is_ascii_uppercase() && !before.is_ascii_uppercase();
                if begins || words.is_empty() {
                    words.push(String::new());
                }
                words.last_mut().expect("there is one").push(letter);
                before = letter;
            }
            words.push(String::new());
        }
        words.retain(|word| !word.is_empty());
        let package = words.join("-").to_ascii_lowercase();
        let crate_name = package.replace('-', "_");
        if TAKEN.contains(&crate_name.as_str()) {
            bail!("NAME {given:?}: no crate can be called {crate_name}");
        }
        let capital = |word: &String| word[..1].to_ascii_uppercase() + &word[1..];
        Ok(Names { plugin: words.iter().map(capital).collect(), package })
    }

    fn put_into(&self, text: &str) -> String {
        text.replace("MyPlugin", &self.plugin)
            .replace("my-plugin", &self.package)
            .replace("my_plugin", &self.package.replace('-', "_"))
    }
}

/// The paths between the new crate and the sources of plimsoll.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// The path from the crate to the sources.
    sources: String,
    /// The paths of the sources and the crate in the image.
    sources_in_image: String,
    crate_in_image: String,
    /// Whether the crate is within the sources.
    is_inside: bool,
}

impl Place {
    fn of(folder: &Path, sources: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let absolute =
            |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
        Ok(Self::between(&absolute(folder)?, &absolute(sources)?))
    }

    /// The paths between two absolute paths without `..`.
    fn between(folder: &Path, sources: &Path) -> Self {
        let parts = |path: &Path| -> Vec<String> {
            let parts = path.components().filter(|part| !matches!(part, Component::RootDir));
            parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
        };
        let (folder, sources) = (parts(folder), parts(sources));
        let shared = folder.iter().zip(&sources).take_while(|(one, other)| one == other).count();
        let (down, from) = (&sources[shared..], &folder[shared..]);
        let path: Vec<&str> =
            from.iter().map(|_| "..").chain(down.iter().map(String::as_str)).collect();
        let in_image = |parts: &[String]| {
            let parts = parts.iter().map(String::as_str);
            ["/src"].into_iter().chain(parts).collect::<Vec<_>>().join("/")
        };
        Place {
            sources: path.join("/"),
            sources_in_image: in_image(down),
            crate_in_image: in_image(from),
            is_inside: down.is_empty(),
        }
    }

    fn put_into(&self, text: &str) -> String {
        text.replace("\"../../crates/", &format!("\"{}/crates/", self.sources))
            .replace("plimsoll=../..", &format!("plimsoll={}", self.sources))
            .replace("plimsoll . /src", &format!("plimsoll . {}", self.sources_in_image))
            .replace("/src/examples/my_plugin", &self.crate_in_image)
    }
}

/// The sources that contain the working directory, or else this program.
fn find_sources() -> Option<PathBuf> {
    let around = |path: PathBuf| {
        path.ancestors().find(|path| path.join(MANIFEST).is_file()).map(Path::to_path_buf)
    };
    let here = std::env::current_dir().ok().and_then(around);
    here.or_else(|| std::env::current_exe().ok().and_then(around))
}

fn write(file: &Path, text: &[u8]) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(file, text));
    written.with_context(|| format!("{} cannot be written", file.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn names_are_read_in_every_spelling() {
        for (given, plugin, package) in [
            ("RackDrain", "RackDrain", "rack-drain"),
            ("rack-drain", "RackDrain", "rack-drain"),
            ("rack_drain", "RackDrain", "rack-drain"),
            ("rack", "Rack", "rack"),
            ("Zone2Zone", "Zone2Zone", "zone2-zone"),
        ] {
            let names = Names { plugin: plugin.into(), package: package.into() };
            assert_eq!(Names::of(given).expect("it is a name"), names);
        }
        for wrong in ["", "-", "2fast", "a--b", "a/b", "ünit", "fn", "Self", "plimsoll"] {
            assert!(Names::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_lead_from_the_crate_to_the_sources() {
        let place = |folder: &str| {
            let place = Place::between(Path::new(folder), Path::new("/a/b/plimsoll"));
            let Place { sources, sources_in_image, crate_in_image, is_inside } = place;
            (sources, sources_in_image, crate_in_image, is_inside)
        };
        let told = |sources: &str, image: &str, folder: &str, inside| {
            (sources.to_owned(), image.to_owned(), folder.to_owned(), inside)
        };
        let beside = told("../plimsoll", "/src/plimsoll", "/src/rack", false);
        assert_eq!(place("/a/b/rack"), beside);
        let far = told("../../b/plimsoll", "/src/b/plimsoll", "/src/c/rack", false);
        assert_eq!(place("/a/c/rack"), far);
        let inside = told("../..", "/src", "/src/examples/rack", true);
        assert_eq!(place("/a/b/plimsoll/examples/rack"), inside);
    }

    /// The example is built and tested here, so what the command writes under another name works, too.
    #[test]
    fn the_example_is_what_the_command_would_write_there() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = sources.canonicalize().expect("it is there");
        let folder = sources.join("examples/my_plugin");
        let (names, place) =
            (Names::of("my-plugin").expect("it is a name"), Place::between(&folder, &sources));
        for (name, text) in FILES {
            assert_eq!(names.put_into(&place.put_into(text)), *text, "{name}");
        }
        let written = fs::read_dir(&folder).expect("it is there").count();
        let top: BTreeSet<&OsStr> =
            FILES.iter().filter_map(|(name, _)| Path::new(name).iter().next()).collect();
        assert_eq!(written, top.len(), "every file of the example is written");
    }
}
