//! Every field of a pod, with values to set it to. They are read from the types of Kubernetes.

use std::fmt;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Pod;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor, value};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Value, json};

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(&'static str),
    Key(&'static str),
    Item,
}

/// The path of a value that has no fields, and sample values for it.
#[derive(Clone, Debug)]
pub struct Leaf {
    path: Vec<Step>,
    pub samples: Vec<Value>,
}

impl Leaf {
    pub fn path(&self) -> String {
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

    pub fn set(&self, pod: &mut Value, sample: &Value) {
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

pub static LEAVES: LazyLock<Vec<Leaf>> = LazyLock::new(leaves);

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
