//! Reads the files in `deploy`, and what other tools make of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::DeepMerge;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Objects by kind and name.
pub type Objects = BTreeMap<String, Value>;

pub fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(path)
}

pub fn text(path: &str) -> String {
    let path = folder(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML text; empty ones are skipped.
pub fn documents(yaml: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    all.into_iter().filter(|it| !it.is_null()).collect()
}

/// Parses a document strictly: a field that the type does not have would be lost when the value is
/// serialized again.
pub fn read<T: DeserializeOwned + Serialize + DeepMerge>(document: &Value) -> T {
    let read: T = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), document);
    read
}

/// Each object by its kind and name. The hash in the name of a ConfigMap is removed.
pub fn by_name(documents: Vec<Value>) -> Objects {
    let mut objects = Objects::new();
    for document in documents {
        let document = without_hash(document);
        let kind = document["kind"].as_str().unwrap();
        let name = document["metadata"]["name"].as_str().unwrap();
        let before = objects.insert(format!("{kind} {name}"), document.clone());
        assert!(before.is_none(), "{kind} {name} is there twice");
    }
    objects
}

fn without_hash(document: Value) -> Value {
    const CONFIG: &str = "pleg-agent";
    let is_hashed = |text: &str| {
        let hash = text
            .strip_prefix(CONFIG)
            .and_then(|it| it.strip_prefix('-'));
        hash.is_some_and(|hash| {
            hash.len() == 10 && hash.bytes().all(|it| it.is_ascii_alphanumeric())
        })
    };
    match document {
        Value::String(text) if is_hashed(&text) => CONFIG.into(),
        Value::Array(items) => items.into_iter().map(without_hash).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(fields.map(|(key, it)| (key, without_hash(it))).collect())
        }
        other => other,
    }
}

/// The base, from the files that its kustomization names.
pub fn base() -> Objects {
    let kustomization = &documents(&text("kubernetes/base/kustomization.yaml"))[0];
    let resources = kustomization["resources"].as_array().unwrap();
    let files = resources.iter().map(|file| file.as_str().unwrap());
    let mut all: Vec<Value> = files
        .flat_map(|file| documents(&text(&format!("kubernetes/base/{file}"))))
        .collect();
    let generators = kustomization["configMapGenerator"].as_array().unwrap();
    assert_eq!(generators.len(), 1);
    assert_eq!(generators[0]["files"], json!(["config.yaml"]));
    all.push(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": generators[0]["name"], "namespace": generators[0]["namespace"]},
        "data": {"config.yaml": text("kubernetes/base/config.yaml")},
    }));
    by_name(all)
}

/// The output of `kubectl kustomize` for a folder below `deploy/kubernetes`; `None` without a
/// kubectl that knows components.
pub fn kustomized(path: &str) -> Option<Objects> {
    let version = run("kubectl", &["version", "--client", "-o", "json"])?;
    let version: Value = serde_json::from_str(&version).unwrap();
    let minor = version["clientVersion"]["minor"].as_str().unwrap();
    let minor: u32 = minor.trim_end_matches('+').parse().unwrap();
    if minor < 21 {
        leave_out(&format!("kubectl 1.{minor} does not know components"));
        return None;
    }
    let path = folder("kubernetes").join(path);
    let made = run("kubectl", &["kustomize", path.to_str().unwrap()])?;
    Some(by_name(documents(&made)))
}

/// The output of `helm`, if it is installed.
pub fn helm(arguments: &[&str]) -> Option<String> {
    run("helm", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            leave_out(&format!("{program}: {error}"));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Prints what was not checked, bypassing the capture of the test's output.
fn leave_out(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {name}: {why}");
}
