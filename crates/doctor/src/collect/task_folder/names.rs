//! The pod and name of a container, from the annotations of its specification. containerd and CRI-O use
//! different annotations, and dockerd uses none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use causes::finding::PodName;
use serde::Deserialize;

use crate::collect::bounded::bounded;
use crate::facts::tasks::Task;

/// The maximum size of a container's specification, which usually has a few kilobytes.
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

/// The container name that CRI-O gives to a sandbox. No container of a pod can have it.
const SANDBOX_NAME: &str = "POD";

#[derive(Deserialize)]
struct Spec {
    annotations: BTreeMap<String, String>,
}

/// Adds the names to a task; `None` if the specification cannot be read. Nothing else of the specification
/// is kept.
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
