//! No field of a pod is ignored silently: each is part of the result, refused, or documented as
//! without effect. The fields are read from the types, so new fields of Kubernetes are tested too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor, value};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Value, json};
use static_pods::manifest::Refused;
use static_pods::spec::PodSpec;

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

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(&'static str),
    Key(&'static str),
    Item,
}

/// The path of a value that has no fields, and sample values for it.
#[derive(Clone, Debug)]
struct Leaf {
    path: Vec<Step>,
    samples: Vec<Value>,
}

impl Leaf {
    fn path(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Field(it) if text.is_empty() => text.push_str(it),
                Step::Field(it) => text.push_str(&format!(".{it}")),
                Step::Key(it) => text.push_str(&format!("[{it}]")),
                Step::Item => text.push_str("[0]"),
            }
        }
        text
    }

    fn set(&self, pod: &mut Value, sample: &Value) {
        let mut place = pod;
        for step in &self.path {
            place = match step {
                Step::Field(it) | Step::Key(it) => &mut place[*it],
                Step::Item => {
                    if place.as_array().is_none_or(Vec::is_empty) {
                        *place = json!([null]);
                    }
                    &mut place[0]
                }
            };
        }
        *place = sample.clone();
    }
}

static LEAVES: LazyLock<Vec<Leaf>> = LazyLock::new(leaves);

/// Finds all leaves of a pod, by deserializing it from an input that has all fields.
fn leaves() -> Vec<Leaf> {
    let mut leaves = Vec::new();
    Pod::deserialize(Explorer {
        path: Vec::new(),
        leaves: &mut leaves,
    })
    .unwrap();
    leaves
        .retain(|it| it.path[0] != Step::Field("kind") && it.path[0] != Step::Field("apiVersion"));
    leaves
}

struct Explorer<'l> {
    path: Vec<Step>,
    leaves: &'l mut Vec<Leaf>,
}

impl Explorer<'_> {
    fn leaf(&mut self, samples: Vec<Value>) {
        let path = self.path.clone();
        self.leaves.push(Leaf { path, samples });
    }

    fn inner(&mut self, step: Step) -> Explorer<'_> {
        let mut path = self.path.clone();
        path.push(step);
        Explorer {
            path,
            leaves: self.leaves,
        }
    }
}

#[derive(Debug)]
struct Never(String);

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Never {}

impl de::Error for Never {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl<'de> Deserializer<'de> for Explorer<'_> {
    type Error = Never;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Never> {
        self.leaf(vec![json!("x"), json!(80)]);
        visitor.visit_str("1")
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Never> {
        self.leaf(vec![json!(true), json!(false)]);
        visitor.visit_bool(true)
    }

    fn deserialize_i32<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Never> {
        self.leaf(vec![json!(7)]);
        visitor.visit_i32(7)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Never> {
        self.deserialize_i32(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Never> {
        let samples = match self.path.last() {
            Some(Step::Field("apiVersion")) => vec!["v1"],
            Some(Step::Field("kind")) if self.path.len() == 1 => vec!["Pod"],
            Some(Step::Field("imagePullPolicy")) => vec!["IfNotPresent", "Never", "x"],
            Some(Step::Field("dnsPolicy")) => vec!["Default", "ClusterFirst", "x"],
            Some(Step::Field("nodeName")) => vec!["node-1", "x"],
            Some(Step::Field("restartPolicy")) => vec!["OnFailure", "Always", "x"],
            Some(Step::Field("supplementalGroupsPolicy")) => vec!["Merge", "Strict"],
            Some(Step::Field("fsGroupChangePolicy")) => vec!["OnRootMismatch", "x"],
            Some(Step::Field("procMount")) => vec!["Default", "Unmasked"],
            Some(Step::Field("terminationMessagePath")) => vec!["/dev/termination-log", "/x"],
            Some(Step::Field("terminationMessagePolicy")) => vec!["File", "x"],
            Some(Step::Field("mountPath" | "workingDir" | "path")) => vec!["/x", "x"],
            Some(Step::Field("hostIP")) => vec!["127.0.0.1", "x"],
            Some(Step::Field("fieldPath")) => vec!["metadata.name", "x"],
            Some(Step::Field("medium")) => vec!["Memory", "x"],
            Some(Step::Field("scheme")) => vec!["HTTPS", "x"],
            Some(Step::Field("protocol")) => vec!["UDP", "x"],
            Some(Step::Field("type")) => vec!["RuntimeDefault", "Directory", "x"],
            Some(Step::Field("name")) if self.path.contains(&Step::Field("os")) => {
                vec!["linux", "windows"]
            }
            _ => vec!["x"],
        };
        let first = samples[0];
        self.leaf(samples.into_iter().map(Value::from).collect());
        let is_time = first == "x";
        visitor.visit_str(if is_time {
            "2026-01-01T00:00:00Z"
        } else {
            first
        })
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Never> {
        self.leaf(vec![json!("2026-01-01T00:00:00Z"), json!("x")]);
        visitor.visit_str("2026-01-01T00:00:00Z")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Never> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Never> {
        if name == "Quantity" {
            self.leaf(vec![json!("500m"), json!("x")]);
            let quantity: value::StrDeserializer<'_, Never> = "1".into_deserializer();
            return visitor.visit_newtype_struct(quantity);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Never> {
        visitor.visit_seq(One(Some(self)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Never> {
        let keys = match self.path.last() {
            Some(Step::Field("limits" | "requests")) => &["cpu", "memory", "x"][..],
            Some(Step::Field("nodeSelector")) => &["kubernetes.io/os", "x"],
            _ => &["x"],
        };
        visitor.visit_map(All {
            steps: keys.iter().map(|it| Step::Key(it)).collect(),
            explorer: self,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Never> {
        visitor.visit_map(All {
            steps: fields.iter().map(|it| Step::Field(it)).collect(),
            explorer: self,
        })
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        tuple tuple_struct enum identifier ignored_any
    }
}

struct One<'l>(Option<Explorer<'l>>);

impl<'de> de::SeqAccess<'de> for One<'_> {
    type Error = Never;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Never> {
        let Some(mut explorer) = self.0.take() else {
            return Ok(None);
        };
        seed.deserialize(explorer.inner(Step::Item)).map(Some)
    }
}

/// All fields, in order.
struct All<'l> {
    steps: std::collections::VecDeque<Step>,
    explorer: Explorer<'l>,
}

impl<'de> de::MapAccess<'de> for All<'_> {
    type Error = Never;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Never> {
        let Some(Step::Field(name) | Step::Key(name)) = self.steps.front() else {
            return Ok(None);
        };
        let name: value::StrDeserializer<'_, Never> = (*name).into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Never> {
        let step = self.steps.pop_front().expect("a key before each value");
        seed.deserialize(self.explorer.inner(step))
    }
}

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
