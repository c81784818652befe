//! The pod and name of a container, from the annotations of its specification, which containerd
//! and CRI-O name differently; dockerd's have none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use causes::finding::PodName;
use serde::Deserialize;

use crate::collect::bounded::bounded;
use crate::facts::tasks::Task;

/// A container's specification has a few kilobytes.
const MAX_SPEC_BYTES: u64 = 4 << 20;

/// The annotations of containerd and of CRI-O.
const UID: [&str; 2] = ["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"];
const NAMESPACE: [&str; 2] = [
    "io.kubernetes.cri.sandbox-namespace",
    "io.kubernetes.pod.namespace",
];
const POD: [&str; 2] = ["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const CONTAINER: [&str; 2] = [
    "io.kubernetes.cri.container-name",
    "io.kubernetes.container.name",
];
const SANDBOX: [&str; 2] = [
    "io.kubernetes.cri.sandbox-id",
    "io.kubernetes.cri-o.SandboxID",
];

/// CRI-O's container name of a sandbox, which no container of a pod can have.
const SANDBOX_NAME: &str = "POD";

#[derive(Deserialize)]
struct Spec {
    annotations: BTreeMap<String, String>,
}

/// Adds the names to a task. The specification also contains the container's environment; only
/// the names in its annotations are kept.
pub(super) fn describe(spec: &Path, task: &mut Task) -> Option<()> {
    let file = File::open(spec).ok()?;
    let spec: Spec = serde_json::from_reader(BufReader::new(file.take(MAX_SPEC_BYTES))).ok()?;
    let annotation = |names: [&str; 2]| {
        let mut found = names.iter().filter_map(|name| spec.annotations.get(*name));
        found.next().map(|name| bounded(name))
    };
    let pod = PodName {
        uid: annotation(UID),
        namespace: annotation(NAMESPACE),
        name: annotation(POD),
    };
    task.pod = (pod != PodName::default()).then_some(pod);
    task.container = annotation(CONTAINER).filter(|name| name != SANDBOX_NAME);
    task.sandbox = annotation(SANDBOX);
    Some(())
}
