//! The Helm chart makes the same objects as the Kustomize base and its overlays.
//!
//! It is always rendered by a Go template engine in Rust with the functions of Helm that the chart
//! uses. If `helm` is installed, it lints and renders the chart too, and must agree. Other
//! functions of Helm (hooks, the schema of values, the order of installing) are not checked without
//! it.

use std::collections::HashMap;
use std::fs;

use gtmpl_ng::{Context, FuncError, Template, Value as GoValue};
use serde_json::{Map, Value, json};

use crate::files::{Objects, base, by_name, documents, folder, helm, kustomized, text};

const CHART: &str = "helm/pleg";

/// The chart with changed values.
fn chart(changes: &Value) -> Objects {
    let rendered = by_name(rendered(changes));
    let values = tempfile::NamedTempFile::new().unwrap();
    fs::write(values.path(), changes.to_string()).unwrap();
    let (chart, values) = (folder(CHART), values.path());
    let arguments = [
        "template",
        "pleg",
        chart.to_str().unwrap(),
        "--namespace",
        "pleg",
    ];
    let arguments = [&arguments[..], &["--values", values.to_str().unwrap()]].concat();
    if let Some(helms) = helm(&arguments) {
        let helms = by_name(documents(&helms));
        assert_eq!(
            comparable(helms),
            comparable(rendered.clone()),
            "Helm renders it otherwise"
        );
    }
    rendered
}

fn rendered(changes: &Value) -> Vec<Value> {
    let mut values = documents(&text(&format!("{CHART}/values.yaml"))).remove(0);
    merge(&mut values, changes);
    let release = json!({"Name": "pleg", "Namespace": "pleg"});
    let context = go_value(&json!({"Values": values, "Release": release}));
    let files = fs::read_dir(folder(CHART).join("templates")).unwrap();
    let mut all = Vec::new();
    for file in files {
        let path = file.unwrap().path();
        let mut template = Template::default();
        template.add_funcs(&[
            ("toYaml", to_yaml as _),
            ("nindent", nindent as _),
            ("quote", to_yaml as _),
            ("default", default as _),
            ("sha256sum", no_sum as _),
        ]);
        let parsed = template.parse(fs::read_to_string(&path).unwrap());
        parsed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let rendered = template.render(&Context::from(context.clone()));
        let rendered = rendered.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!rendered.contains("<no value>"), "{}", path.display());
        if path.extension().is_some_and(|it| it == "yaml") {
            all.extend(documents(&rendered));
        }
    }
    all
}

/// Merges values as Helm does: maps by key, everything else as a whole.
fn merge(values: &mut Value, changes: &Value) {
    match (values, changes) {
        (Value::Object(values), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(values.entry(key).or_insert(Value::Null), change);
            }
        }
        (value, change) => *value = change.clone(),
    }
}

fn go_value(value: &Value) -> GoValue {
    match value {
        Value::Null => GoValue::Nil,
        Value::Bool(it) => (*it).into(),
        Value::Number(it) => it.as_i64().unwrap().into(),
        Value::String(it) => it.as_str().into(),
        Value::Array(items) => GoValue::Array(items.iter().map(go_value).collect()),
        Value::Object(fields) => {
            let fields = fields.iter();
            GoValue::Map(
                fields
                    .map(|(key, it)| (key.clone(), go_value(it)))
                    .collect::<HashMap<_, _>>(),
            )
        }
    }
}

fn json_value(value: &GoValue) -> Value {
    match value {
        GoValue::Bool(it) => (*it).into(),
        GoValue::Number(it) => it.as_i64().unwrap().into(),
        GoValue::String(it) => it.as_str().into(),
        GoValue::Array(items) => items.iter().map(json_value).collect(),
        GoValue::Map(fields) => {
            let fields = fields.iter();
            Value::Object(
                fields
                    .map(|(key, it)| (key.clone(), json_value(it)))
                    .collect::<Map<_, _>>(),
            )
        }
        other => panic!("{other:?} is no value of a chart"),
    }
}

/// All JSON is YAML.
fn to_yaml(arguments: &[GoValue]) -> Result<GoValue, FuncError> {
    Ok(json_value(&arguments[0]).to_string().into())
}

fn nindent(arguments: &[GoValue]) -> Result<GoValue, FuncError> {
    let [GoValue::Number(by), GoValue::String(text)] = arguments else {
        panic!("nindent of {arguments:?}");
    };
    let indent = " ".repeat(by.as_u64().unwrap() as usize);
    Ok(format!("\n{indent}{}", text.replace('\n', &format!("\n{indent}"))).into())
}

fn default(arguments: &[GoValue]) -> Result<GoValue, FuncError> {
    let [default, value] = arguments else {
        panic!("default of {arguments:?}");
    };
    let is_set = matches!(value, GoValue::String(text) if !text.is_empty());
    Ok(if is_set { value } else { default }.clone())
}

/// The sum changes with the configuration and is not compared.
fn no_sum(_: &[GoValue]) -> Result<GoValue, FuncError> {
    Ok("sum".into())
}

/// Removes what only the chart or only Kustomize's output has: the namespace, which Helm creates
/// itself, and the checksum of the configuration, which Kustomize puts into a name.
fn comparable(mut objects: Objects) -> Objects {
    objects.remove("Namespace pleg");
    let set = objects.get_mut("DaemonSet pleg-agent").unwrap();
    let metadata = set["spec"]["template"]["metadata"].as_object_mut().unwrap();
    if let Some(annotations) = metadata.get_mut("annotations") {
        let annotations = annotations.as_object_mut().unwrap();
        annotations
            .remove("checksum/config")
            .expect("pods are replaced with their configuration");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let map = objects.get_mut("ConfigMap pleg-agent").unwrap();
    let file = map["data"]["config.yaml"].as_str().unwrap();
    map["data"]["config.yaml"] = serde_saphyr::from_str(file).unwrap();
    objects
}

#[test]
fn with_default_values_the_chart_equals_the_base() {
    assert_eq!(comparable(chart(&json!({}))), comparable(base()));
}

#[test]
fn with_the_values_of_an_overlay_the_chart_equals_that_overlay() {
    let taint = json!({"kubernetes": {"taint": ["Unhealthy"], "taintKey": "plegnothealthy"}});
    let on = json!({"enabled": true});
    let crio = json!({
        "endpoint": "unix:///run/crio/crio.sock",
        "directory": "/run/crio",
        "containers": "/run/containers/storage/overlay-containers",
    });
    for (overlay, values) in [
        ("taint", json!({"config": taint})),
        ("metrics", json!({"metrics": on})),
        ("all", json!({"config": taint, "metrics": on})),
        ("crio", json!({"runtime": crio})),
        ("gke", json!({"resourceQuota": on})),
        (
            "openshift",
            json!({"runtime": crio, "securityContextConstraints": on}),
        ),
        (
            "without-admission-policy",
            json!({"admissionPolicy": {"enabled": false}}),
        ),
    ] {
        let chart = chart(&values);
        let Some(overlaid) = kustomized(&format!("overlays/{overlay}")) else {
            return;
        };
        assert_eq!(
            comparable(chart),
            comparable(sorted_like_the_chart(overlaid)),
            "{overlay}"
        );
    }
}

/// Kustomize puts additions of a patch first; the order of volumes has no meaning.
fn sorted_like_the_chart(mut objects: Objects) -> Objects {
    let set = objects.get_mut("DaemonSet pleg-agent").unwrap();
    let order = ["config", "runtime", "containers", "state", "bundles"];
    let place = |it: &Value| order.iter().position(|name| it["name"] == *name);
    let pod = &mut set["spec"]["template"]["spec"];
    pod["volumes"].as_array_mut().unwrap().sort_by_key(place);
    let env = pod["containers"][0]["env"].as_array_mut().unwrap();
    env.sort_by_key(|it| it["name"] != "NODE_NAME");
    let mounts = pod["containers"][0]["volumeMounts"].as_array_mut().unwrap();
    mounts.sort_by_key(place);
    objects
}

#[test]
fn values_that_no_overlay_has_are_rendered_in_their_places() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let objects = chart(&json!({
        "image": {"repository": "registry.example.com/pleg", "digest": digest},
        "imagePullSecrets": [{"name": "registry"}],
        "podAnnotations": {"example.com/on": "true"},
        "seLinuxType": "",
        "priorityClassName": "important",
        "resourceQuota": {"enabled": true},
        "metrics": {"enabled": true, "labels": {"release": "prometheus"}},
        "config": {"kubernetes": {"condition": "example.com/PLEG", "containerRuntimeReady": true}},
    }));
    let pod = &objects["DaemonSet pleg-agent"]["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        container["image"],
        format!("registry.example.com/pleg@{digest}")
    );
    assert_eq!(
        pod["spec"]["imagePullSecrets"],
        json!([{"name": "registry"}])
    );
    assert_eq!(pod["metadata"]["annotations"]["example.com/on"], "true");
    assert_eq!(pod["spec"]["securityContext"].as_object().unwrap().len(), 1);
    assert_eq!(
        objects["PodMonitor pleg-agent"]["metadata"]["labels"]["release"],
        "prometheus"
    );
    let quota = &objects["ResourceQuota pleg-agent"]["spec"]["scopeSelector"];
    assert_eq!(
        quota["matchExpressions"][0]["values"],
        json!([pod["spec"]["priorityClassName"]])
    );
    let policy = &objects["ValidatingAdmissionPolicy pleg-agent"]["spec"]["variables"];
    assert_eq!(
        policy[0]["expression"],
        "['example.com/PLEG', 'ContainerRuntimeReady']"
    );
}

#[test]
fn the_schema_has_each_value_and_each_value_has_a_comment() {
    fn check(path: &str, value: &Value, schema: &Value) {
        let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object())
        else {
            return;
        };
        for (key, value) in fields {
            let schema = known.get(key);
            let schema = schema.unwrap_or_else(|| panic!("{path}.{key} is not in the schema"));
            check(&format!("{path}.{key}"), value, schema);
        }
    }
    let file = text(&format!("{CHART}/values.yaml"));
    let schema: Value =
        serde_json::from_str(&text(&format!("{CHART}/values.schema.json"))).unwrap();
    check("", &documents(&file)[0], &schema);
    assert_eq!(schema["additionalProperties"], false);
    for block in file.split("\n\n") {
        assert!(block.contains("# "), "nothing explains:\n{block}");
    }
}

#[test]
fn helm_lint_accepts_the_chart_and_unknown_values_are_refused() {
    let chart = folder(CHART);
    let chart = chart.to_str().unwrap();
    if helm(&["lint", "--strict", chart]).is_none() {
        return;
    }
    for wrong in [
        "imgae.tag=1",
        "config.kubernetes.taint[0]=Healthy",
        "image.digest=1",
    ] {
        let output = std::process::Command::new("helm")
            .args(["template", "pleg", chart, "--set", wrong])
            .output();
        assert!(!output.unwrap().status.success(), "{wrong} is accepted");
    }
}
