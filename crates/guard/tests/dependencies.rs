//! The dependencies of the program `pleg-guard`. All its code is on the kubelet's only path to the runtime,
//! so each crate is listed here.

use std::collections::BTreeSet;
use std::process::Command;

/// The crates, of this workspace and of others, that are compiled into the program.
const ALLOWED: &str = "
    pleg-base pleg-cri pleg-guard pleg-guard-api pleg-text
    atomic-waker bitflags bytes equivalent errno flate2 fnv futures-channel futures-core
    futures-sink futures-task futures-util h2 hashbrown http http-body http-body-util httparse
    httpdate hyper hyper-util indexmap itoa jiff jiff-core libc linux-raw-sys listenfd memchr mio
    once_cell pin-project-lite prost rustix sd-notify serde serde_core serde_json
    signal-hook-registry slab smallvec socket2 thiserror tokio tokio-util tracing tracing-core
    try-lock unicode-properties want zlib-rs zmij
";

/// None of these is ever allowed: HTTP servers, Kubernetes clients, observers, YAML.
const FORBIDDEN: [&str; 14] = [
    "agent",
    "axum",
    "clap",
    "cluster",
    "doctor",
    "k8s-openapi",
    "kube",
    "pleg",
    "prometheus",
    "recorder",
    "rustls",
    "serde-saphyr",
    "tonic",
    "tower",
];

/// Enforces G11.
#[test]
fn the_guard_depends_on_the_listed_crates_only() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "pleg-guard"])
        .args(["--edges", "normal,no-proc-macro", "--prefix", "none"])
        .args(["--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{stderr}");
    let tree = String::from_utf8(tree.stdout).unwrap();
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    assert!(names.contains("pleg-guard"), "{tree}");
    let allowed: BTreeSet<&str> = ALLOWED.split_whitespace().collect();
    let unknown: Vec<_> = names.difference(&allowed).collect();
    assert!(unknown.is_empty(), "not listed in this file: {unknown:?}");
    let unused: Vec<_> = allowed.difference(&names).collect();
    assert!(
        unused.is_empty(),
        "listed in this file but not used: {unused:?}"
    );
    assert!(FORBIDDEN.iter().all(|name| !names.contains(name)));
}
