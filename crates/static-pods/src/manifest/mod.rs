//! Parses a manifest into a [`PodSpec`], or refuses it with all its problems and their lines. Only
//! this module uses Kubernetes' types.
//!
//! ```text
//!   text --document--> tree with lines --strict--> v1.Pod --pod--> PodSpec
//!                          |                 |                |
//!                    not YAML, several   unknown field,    invalid value,
//!                       documents      duplicate, type      unsupported
//!                          v                 v                v
//!                       web.yaml:12: spec.containers[0].image: required
//! ```
//!
//! **One pod in each file.** A kubelet reads the first document of a file and ignores the others.
//! Here a second document is refused.
//!
//! **Names.** A kubelet appends `-NODE` to the name of a static pod, because the mirror pods of
//! all nodes share a namespace. There are no mirror pods here, so the name is not changed.
//!
//! **UID.** As in the kubelet, it is an MD5 sum of the pod, the node and the file. It is the same in
//! every run, and does not depend on the file's comments, layout or order of fields. Only the name
//! of the file counts, so its folder can be moved. `status` does not count.
//!
//! **Nothing is ignored.** Each Kubernetes object is destructured without `..`. If a newer version
//! of the types has a new field, this module does not compile until that field is handled. A field
//! is part of [`PodSpec`], refused by its path, or accepted because it has no effect on a static
//! pod without an API server:
//!
//! | accepted without effect | why |
//! |---|---|
//! | `status`; in `metadata`: `creationTimestamp`, `generation`, `managedFields`, `resourceVersion`, `selfLink` | written by an API server |
//! | `schedulerName`, `preemptionPolicy`, `topologySpreadConstraints`, `affinity` other than required node affinity | read by a scheduler |
//! | `tolerations` | no taint evicts a static pod |
//! | `priority`, `priorityClassName` other than `system-node-critical` | a static pod is critical whatever its priority |
//! | `nodeName`; in `nodeSelector`: `kubernetes.io/hostname`, `kubernetes.io/os`, `kubernetes.io/arch` | checked: must be this node's |
//! | `enableServiceLinks` | there are no services |
//! | `automountServiceAccountToken: false` | there are no service accounts |
//! | `dnsPolicy`: `ClusterFirst`, `ClusterFirstWithHostNet`, `Default` | without a cluster's DNS, all of them mean the host's |
//! | `terminationMessagePolicy`, `terminationMessagePath: /dev/termination-log` | shown in `status` only |
//! | `resizePolicy` | a resize is a request to an API server |
//! | `fsGroupChangePolicy` | does not apply to `emptyDir` and `hostPath` |
//! | `hostPort` with `hostNetwork` | checked: must equal `containerPort`; nothing to map |
//! | `hostPID`, `hostIPC`, `shareProcessNamespace`, `setHostnameAsFQDN`, `stdinOnce`: `false`; `hostUsers: true`; `os.name: linux`; `procMount: Default`; `mountPropagation: None`; `recursiveReadOnly: Disabled`; `supplementalGroupsPolicy: Merge` | the defaults |
//! | an empty string or list, or 0 for a number in a probe, in place of an absent field | equivalent for an API server |

mod container;
mod document;
mod env;
mod metadata;
mod names;
mod pod;
mod ports;
mod probes;
mod problem;
mod quantity;
mod resources;
mod security;
mod strict;
mod uid;
mod volumes;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::spec::PodSpec;
use document::{Node, Value};
pub use problem::Refused;
use problem::{At, Problem, Problems, Reason, Step, path_text};

/// Why a field that has an effect only in a cluster is refused.
const NEEDS_API_SERVER: &str = "there is no API server";

fn has_items<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|it| !it.is_empty())
}

fn has_text(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|it| !it.is_empty())
}

/// Parses the manifest of a pod for the node `node`. `file` is the name of the manifest file.
pub fn parse(content: &[u8], file: &str, node: &str) -> Result<PodSpec, Refused> {
    let file: Arc<str> = file.into();
    let refused_at = |line: Option<u64>, path: &[Step], reason: Reason| {
        Refused(vec![Problem {
            file: file.clone(),
            line,
            path: path_text(path),
            reason,
        }])
    };
    let refused = |line, reason| refused_at(line, &[], reason);
    let text = std::str::from_utf8(content).map_err(|error| {
        let before = content.get(..error.valid_up_to()).unwrap_or_default();
        let line = 1 + before.iter().filter(|it| **it == b'\n').count() as u64;
        refused(Some(line), Reason::Syntax("not UTF-8".to_owned()))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = document::read(text).map_err(|(line, reason)| refused(line, reason))?;
    let Some(mut tree) = tree else {
        let empty = "the file is empty: a manifest of a pod is expected";
        return Err(refused(None, Reason::NotOnePod(empty.to_owned())));
    };
    check_kind(&tree)
        .map_err(|(path, reason)| refused_at(Some(tree.line_of(&path)), &path, reason))?;
    // `status` is written by an API server, whose version may be newer than the types.
    if let Value::Map(entries) = &mut tree.value {
        entries.retain(|it| it.key != "status");
    }

    let problems = Problems::default();
    let decoded: Option<Pod> = strict::decode(&tree, At::root(&problems));
    let spec = decoded
        // The default that replaces a value of a wrong type would be reported as invalid.
        .filter(|_| !problems.has_type_errors())
        .map(|decoded| {
            let uid = uid::of(&decoded, node, &file);
            pod::spec(decoded, uid, &file, node, &At::root(&problems))
        });
    if let Some(spec) = spec.filter(|_| problems.is_empty()) {
        return Ok(spec);
    }
    let found = problems.into_found().into_iter().map(|it| Problem {
        file: file.clone(),
        line: it.line.or_else(|| Some(tree.line_of(&it.path))),
        path: path_text(&it.path),
        reason: it.reason,
    });
    let mut found: Vec<Problem> = found.collect();
    found.sort_by_key(|it| it.line);
    Err(Refused(found))
}

/// Checks that the file is a pod. If it is not, no other problem is reported.
fn check_kind(tree: &Node) -> Result<(), (Vec<Step>, Reason)> {
    if !matches!(tree.value, Value::Map(_)) {
        let found = tree.value.describe();
        let why = format!("a manifest of a pod is expected, not {found}");
        return Err((Vec::new(), Reason::NotOnePod(why)));
    }
    for (field, expected) in [("kind", "Pod"), ("apiVersion", "v1")] {
        let why = match tree.get(field).map(|it| &it.value) {
            Some(Value::Text(it)) if it == expected => continue,
            None | Some(Value::Null) => format!("required: {field}: {expected} is expected"),
            Some(Value::Text(it)) if field == "kind" && it.ends_with("List") => {
                format!("{it} is not supported: each pod needs a file of its own")
            }
            Some(Value::Text(it)) if field == "kind" => {
                format!("{it} is not supported: only a Pod can run without an API server")
            }
            Some(other) => format!("must be {expected}, not {}", other.describe()),
        };
        let path = vec![Step::Field(field.to_owned())];
        return Err((path, Reason::NotOnePod(why)));
    }
    Ok(())
}
