//! No field of a pod is ignored silently: each is part of the result, refused, or documented as
//! without effect. The fields are read from the types, so new fields of Kubernetes are tested too.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use static_pods::manifest::Refused;
use static_pods::spec::PodSpec;

use crate::leaves::{LEAVES, Leaf};
use crate::read;

/// The fields that the documentation of `manifest` lists as without effect. All fields below them
/// have no effect either.
const WITHOUT_EFFECT: [&str; 30] = [
    "status",
    "metadata.creationTimestamp",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
    "metadata.selfLink",
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    "spec.affinity.podAffinity",
    "spec.affinity.podAntiAffinity",
    "spec.automountServiceAccountToken=false",
    "spec.dnsPolicy",
    "spec.enableServiceLinks",
    "spec.hostIPC=false",
    "spec.hostNetwork=false",
    "spec.hostPID=false",
    "spec.hostUsers=true",
    "spec.os.name=\"linux\"",
    "spec.preemptionPolicy",
    "spec.priority",
    "spec.priorityClassName",
    "spec.restartPolicy=\"Always\"",
    "spec.schedulerName",
    "spec.securityContext.fsGroupChangePolicy",
    "spec.securityContext.runAsNonRoot=false",
    "spec.securityContext.supplementalGroupsPolicy=\"Merge\"",
    "spec.setHostnameAsFQDN=false",
    "spec.shareProcessNamespace=false",
    "spec.tolerations",
    "spec.topologySpreadConstraints",
    "spec.nodeName=\"node-1\"",
];

/// The fields of a container without effect, by their path in the container.
const OF_CONTAINERS: [&str; 13] = [
    "resizePolicy",
    "terminationMessagePath=\"/dev/termination-log\"",
    "terminationMessagePolicy",
    "stdin=false",
    "stdinOnce=false",
    "tty=false",
    "imagePullPolicy=\"IfNotPresent\"",
    "securityContext.allowPrivilegeEscalation=true",
    "securityContext.privileged=false",
    "securityContext.procMount=\"Default\"",
    "securityContext.readOnlyRootFilesystem=false",
    "securityContext.runAsNonRoot=false",
    "volumeMounts[0].readOnly=false",
];

/// A pod in which any field can be set.
fn base() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "initContainers": [{"name": "init", "image": "busybox:1"}],
            "containers": [{"name": "main", "image": "nginx:1"}],
        },
    })
}

/// Sets the other fields that a field requires.
fn complete(pod: &mut Value, path: &str) {
    let spec = &mut pod["spec"];
    if path.starts_with("spec.volumes[0].") && path != "spec.volumes[0].name" {
        spec["volumes"] = json!([{"name": "data"}]);
        if path == "spec.volumes[0].hostPath.type" {
            spec["volumes"][0]["hostPath"] = json!({"path": "/data"});
        }
    }
    for list in ["initContainers", "containers"] {
        let Some(field) = path.strip_prefix(&format!("spec.{list}[0].")) else {
            continue;
        };
        let container = &mut spec[list][0];
        if field.starts_with("env[0].") && field != "env[0].name" {
            container["env"] = json!([{"name": "A"}]);
        }
        if field.starts_with("volumeMounts[0].") {
            container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
            spec["volumes"] = json!([{"name": "data"}, {"name": "x"}]);
        } else if field.starts_with("ports[0].") {
            container["ports"] = json!([{"containerPort": 80}]);
        } else if let Some((probe, field)) = field.split_once("Probe.") {
            if list == "initContainers" {
                container["restartPolicy"] = json!("Always");
            }
            let probe = &mut container[format!("{probe}Probe")];
            *probe = match field.split(['.', '[']).next() {
                Some("httpGet") => json!({"httpGet": {"port": 80}}),
                Some("tcpSocket") => json!({"tcpSocket": {"port": 80}}),
                Some("exec" | "grpc") => json!({}),
                _ => json!({"tcpSocket": {"port": 80}}),
            };
            if field.starts_with("httpGet.httpHeaders") {
                probe["httpGet"]["httpHeaders"] = json!([{"name": "A", "value": "b"}]);
            }
        } else if field.starts_with("lifecycle") && list == "initContainers" {
            container["restartPolicy"] = json!("Always");
        }
    }
    if path.starts_with("spec.dnsConfig") {
        spec["dnsPolicy"] = json!("None");
        spec["dnsConfig"] = json!({"nameservers": ["192.0.2.1"]});
        if path.ends_with("value") {
            spec["dnsConfig"]["options"] = json!([{"name": "ndots"}]);
        }
    }
}

fn read_value(pod: &Value) -> Result<PodSpec, Refused> {
    read(&pod.to_string())
}

/// The documented line according to which the field has no effect.
fn documented(path: &str, sample: &Value) -> Option<&'static str> {
    let text = sample.to_string();
    let is_below = |known: &str, path: &str| match known.split_once('=') {
        Some((known, value)) => known == path && value == text,
        None => path
            .strip_prefix(known)
            .is_some_and(|it| it.is_empty() || it.starts_with(['.', '['])),
    };
    let of_container = ["spec.containers[0].", "spec.initContainers[0]."]
        .iter()
        .find_map(|it| path.strip_prefix(it));
    let of_pod = WITHOUT_EFFECT.into_iter().find(|it| is_below(it, path));
    of_pod.or_else(|| {
        let path = of_container?;
        OF_CONTAINERS.into_iter().find(|it| is_below(it, path))
    })
}

/// Whether one of the problems is about this field, one that contains it, or one beside it.
fn is_about(refused: &Refused, path: &str) -> bool {
    let siblings = path.rsplit_once('.').map_or(path, |it| it.0);
    refused.0.iter().any(|it| {
        it.path == path
            || (!it.path.is_empty() && path.starts_with(&it.path))
            || it.path.starts_with(siblings)
    })
}

#[test]
fn the_types_have_all_fields_of_a_pod() {
    let leaves = &*LEAVES;
    assert!(leaves.len() > 900, "{}", leaves.len());
    let paths: Vec<_> = leaves.iter().map(Leaf::path).collect();
    for path in [
        "metadata.name",
        "spec.containers[0].ports[0].hostPort",
        "spec.volumes[0].projected.sources[0].configMap.items[0].path",
        "spec.ephemeralContainers[0].lifecycle.preStop.sleep.seconds",
        "spec.nodeSelector[x]",
    ] {
        assert!(paths.iter().any(|it| it == path), "{path}");
    }
}

#[test]
fn each_field_is_used_or_refused_or_documented_as_without_effect() {
    let mut ignored = Vec::new();
    let mut used = BTreeSet::new();
    let mut changed = 0;
    for leaf in &*LEAVES {
        let path = leaf.path();
        for sample in &leaf.samples {
            let mut without = base();
            complete(&mut without, &path);
            let mut with = without.clone();
            leaf.set(&mut with, sample);
            if with == without {
                continue;
            }
            match (read_value(&with), read_value(&without)) {
                (Err(refused), _) => {
                    assert!(is_about(&refused, &path), "{path} = {sample}:\n{refused}");
                }
                (Ok(with), Ok(mut without)) => {
                    // The UID always differs.
                    without.pod.uid = with.pod.uid.clone();
                    if with != without {
                        changed += 1;
                    } else if let Some(line) = documented(&path, sample) {
                        used.insert(line);
                    } else {
                        ignored.push(format!("{path} = {sample}"));
                    }
                }
                (Ok(_), Err(_)) => changed += 1,
            }
        }
    }
    assert!(ignored.is_empty(), "{}", ignored.join("\n"));
    for line in WITHOUT_EFFECT.iter().chain(&OF_CONTAINERS) {
        assert!(used.contains(line), "{line} is not without effect");
    }
    assert!(changed > 100, "{changed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_unsupported_field_is_refused_in_any_combination_of_fields(
        picks in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8)
    ) {
        // If a field is picked several times, the last value is set.
        let picks = picks.iter().map(|(leaf, sample)| {
            let leaf = leaf.get(&LEAVES);
            (leaf.path(), (leaf, sample.get(&leaf.samples)))
        });
        let picks: BTreeMap<_, _> = picks.collect();
        let mut pod = base();
        let mut is_any_refused = false;
        for (path, (leaf, sample)) in picks {
            let mut alone = base();
            complete(&mut alone, &path);
            leaf.set(&mut alone, sample);
            let refused = read_value(&alone).err();
            is_any_refused |= refused.is_some_and(|it| it.to_string().contains("not supported"));
            leaf.set(&mut pod, sample);
        }
        prop_assert!(!is_any_refused || read_value(&pod).is_err(), "{pod}");
    }

    #[test]
    fn no_text_causes_a_panic(text in "(apiVersion: v1\nkind: Pod\n)?[a-z:{}\\[\\]&*!|>'\"%@\t\n -]{0,80}") {
        let _ = read(&text);
    }
}
