//! Whose a container is, by the annotations of its specification, which containerd and CRI-O
//! name each in their way; dockerd's have none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use causes::finding::PodName;
use serde::Deserialize;

use crate::collect::targets::bounded;
use crate::facts::tasks::Task;

/// A container's specification has some kilobytes.
const LONGEST: u64 = 4 << 20;

/// How containerd and CRI-O name the same.
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

/// What CRI-O calls the container of a sandbox: no container of a pod may be called so.
const SANDBOX_NAME: &str = "POD";

#[derive(Deserialize)]
struct Spec {
    annotations: BTreeMap<String, String>,
}

/// Whose the task is. Its specification also holds the environment of the container: only
/// the names in its annotations are kept.
pub(super) fn describe(spec: &Path, task: &mut Task) -> Option<()> {
    let file = File::open(spec).ok()?;
    let spec: Spec = serde_json::from_reader(BufReader::new(file.take(LONGEST))).ok()?;
    let told = |names: [&str; 2]| {
        let mut told = names.iter().filter_map(|name| spec.annotations.get(*name));
        told.next().map(|name| bounded(name))
    };
    let pod = PodName {
        uid: told(UID),
        namespace: told(NAMESPACE),
        name: told(POD),
    };
    task.pod = (pod != PodName::default()).then_some(pod);
    task.container = told(CONTAINER).filter(|name| name != SANDBOX_NAME);
    task.sandbox = told(SANDBOX);
    Some(())
}
