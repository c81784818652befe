//! Server-side apply, strategic merge patch and JSON Patch, as far as they are used.

use serde_json::{Value, json};

/// Applies one manager's conditions, which are the only ones with a heartbeat here, and its
/// annotation.
///
/// A manager that applies none removes what it applied, and with it, as a server does, the whole
/// status: a kubelet that has just registered its Node owns no field of it (Kubernetes 1.36).
pub(crate) fn apply(node: &mut Value, body: &Value) {
    if body["status"]["conditions"] == json!([]) {
        node["status"] = json!({});
    }
    if let Some(conditions) = node["status"]["conditions"].as_array_mut() {
        conditions.retain(|it| it.get("lastHeartbeatTime").is_none());
        let applied = body["status"]["conditions"].as_array();
        conditions.extend(applied.into_iter().flatten().cloned());
    }
    if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| key != "pleg.dev/status");
        let applied = body["metadata"]["annotations"].as_object();
        annotations.extend(applied.cloned().unwrap_or_default());
    }
}

/// Merges conditions by their type, and annotations.
pub(crate) fn merge(node: &mut Value, body: &Value) {
    let conditions = node["status"]["conditions"].as_array_mut();
    let patched = body["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    if let Some(conditions) = conditions {
        for entry in patched {
            assert_eq!(entry["$patch"], "delete", "nothing else is used");
            conditions.retain(|it| it["type"] != entry["type"]);
        }
    }
    let patched = body["metadata"]["annotations"].as_object();
    if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
        for (key, value) in patched.into_iter().flatten() {
            assert!(value.is_null(), "nothing else is used");
            annotations.remove(key);
        }
    }
}

/// Says whether the tests of the patch passed.
pub(crate) fn patch(node: &mut Value, operations: &Value) -> bool {
    for operation in operations.as_array().into_iter().flatten() {
        let pointer = operation["path"].as_str().expect("a path");
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let key = key.replace("~1", "/");
        let parent = node.pointer_mut(parent).and_then(Value::as_object_mut);
        let parent = parent.expect("the parent is there");
        let value = operation.get("value").cloned().unwrap_or_default();
        match operation["op"].as_str() {
            Some("test") if *parent.get(&key).unwrap_or(&Value::Null) == value => {}
            Some("test") => return false,
            Some("add" | "replace") => drop(parent.insert(key, value)),
            Some("remove") => drop(parent.remove(&key).expect("it is there")),
            other => panic!("{other:?}"),
        }
    }
    true
}
