//! The observer: `pleg` without the feature `act`, which is the program in the image. It contains no code
//! that creates, changes or ends a container, mounts a file system or signals another process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates of this workspace in the observer.
const OWN: [&str; 16] = [
    "agent",
    "cluster",
    "doctor",
    "ipc",
    "pleg",
    "pleg-analyze",
    "pleg-base",
    "pleg-causes",
    "pleg-cli",
    "pleg-cri",
    "pleg-episodes",
    "pleg-guard-api",
    "pleg-text",
    "recorder",
    "timeline",
    "top",
];

/// The crates that only the full build has: the guard, a simulated runtime, static pods.
const ONLY_IN_THE_FULL_BUILD: [&str; 4] = ["pleg-guard", "pleg-sim", "static-pods", "sync-loop"];

/// Text of code that starts, signals or ends a process.
const WORDS: [&str; 9] = [
    "Command::new(",
    ".exec()",
    ".kill(",
    "start_kill",
    "kill_on_drop",
    "kill_process(",
    "kill_process_group(",
    "kill_current_process_group(",
    "pidfd_send_signal(",
];

/// Every place of the observer that contains one of `WORDS`, and its reason.
const PLACES: [(&str, &[&str], &str); 6] = [
    (
        "agent/src/diagnosis/doctor.rs",
        &["Command::new(", "kill_on_drop"],
        "starts `pleg doctor`, and ends it at its deadline",
    ),
    (
        "cli/src/commands/completion.rs",
        &["Command::new("],
        "a command line of clap, not a process",
    ),
    (
        "cli/src/commands/doctor/machine.rs",
        &["Command::new("],
        "starts `pleg doctor-helper`",
    ),
    (
        "cli/src/commands/top/examine.rs",
        &["Command::new(", "kill_on_drop"],
        "starts `pleg doctor`, and ends it when it is no longer needed",
    ),
    (
        "cli/src/signals.rs",
        &["kill_process("],
        "signals itself, to stop like any screen on Ctrl-Z",
    ),
    (
        "doctor/src/collect/helper",
        &["Command::new(", ".kill(", "kill_process_group("],
        "ends a helper; starts journalctl and rpm, and ends them at their deadline",
    ),
];

/// A crate as `cargo tree` shows it.
struct Linked {
    directory: Option<PathBuf>,
    features: BTreeSet<String>,
}

/// The crates that are compiled into `pleg`, by name.
fn linked(features: &[&str]) -> BTreeMap<String, Linked> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "pleg-cli"])
        .args(["--edges", "normal", "--prefix", "none", "--no-dedupe"])
        .args(["--format", "{p}|{f}"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{stderr}");
    let tree = String::from_utf8(tree.stdout).unwrap();
    let mut all = BTreeMap::new();
    for (package, features) in tree.lines().filter_map(|line| line.split_once('|')) {
        let (name, rest) = package.split_once(' ').unwrap();
        let path = rest.split_once("(/").map(|(_, path)| format!("/{path}"));
        let directory = path.map(|path| PathBuf::from(path.trim_end_matches(')')));
        let linked = all.entry(name.to_owned()).or_insert(Linked {
            directory,
            features: BTreeSet::new(),
        });
        let features = features.split(',').filter(|feature| !feature.is_empty());
        linked.features.extend(features.map(str::to_owned));
    }
    all
}

fn observer() -> BTreeMap<String, Linked> {
    linked(&["--no-default-features"])
}

/// Enforces O8.
#[test]
fn the_observer_consists_of_the_listed_crates() {
    let observer = observer();
    let own = observer.iter().filter(|(_, it)| it.directory.is_some());
    let own: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
    assert_eq!(own, OWN);
    // The full build has all of these crates, so their names are right.
    let full = linked(&[]);
    let acting = full
        .iter()
        .filter(|(name, it)| it.directory.is_some() && !observer.contains_key(name.as_str()));
    let acting: Vec<&str> = acting.map(|(name, _)| name.as_str()).collect();
    assert_eq!(acting, ONLY_IN_THE_FULL_BUILD);
}

/// Enforces O8.
#[test]
fn the_observer_has_no_client_that_acts_and_no_mount_call() {
    let (observer, full) = (observer(), linked(&[]));
    // Besides rustix, these crates can mount without `unsafe` in our code.
    assert!(!full.contains_key("nix") && !full.contains_key("sys-mount"));
    for (name, feature) in [
        ("pleg-cri", "act"),
        ("rustix", "mount"),
        ("pleg-cli", "act"),
    ] {
        let has = |all: &BTreeMap<String, Linked>| all[name].features.contains(feature);
        assert!(!has(&observer), "{name} has the feature {feature}");
        assert!(has(&full), "{name} has no feature {feature} any more");
    }
}

/// Enforces O8.
#[test]
fn the_observer_signals_only_itself_and_processes_that_it_started() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let crates = workspace.join("crates");
    let mut found = BTreeSet::new();
    for (name, it) in observer() {
        let Some(directory) = it.directory else {
            continue;
        };
        // Without `unsafe`, no code can make a system call other than through a library.
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name}");
        for (file, text) in sources(&directory.join("src")) {
            let file = file.strip_prefix(&crates).unwrap().display().to_string();
            if file.starts_with("cli/src/act/") {
                continue;
            }
            let words = WORDS.iter().filter(|word| text.contains(*word));
            let place = PLACES.iter().find(|(place, ..)| file.starts_with(place));
            let place = place.map_or(file.clone(), |(place, ..)| (*place).to_owned());
            found.extend(words.map(|word| (place.clone(), *word)));
        }
    }
    let listed = PLACES.iter().flat_map(|(place, words, _)| {
        let place = (*place).to_owned();
        words.iter().map(move |word| (place.clone(), *word))
    });
    assert_eq!(found, listed.collect::<BTreeSet<_>>());
    let lints = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    assert!(lints.contains("unsafe_code = \"forbid\""));
}

/// All source files below a directory, without tests.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            all.extend(sources(&path));
            continue;
        }
        if path.extension().is_none_or(|kind| kind != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        all.push((path, code.to_owned()));
    }
    all
}
