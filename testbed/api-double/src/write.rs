//! The parts of server-side apply, strategic merge patch and JSON Patch that pleg uses.

use serde_json::{Value, json};

/// Applies the conditions and the annotation of one manager. In this double, only that manager's
/// conditions have a heartbeat.
///
/// A manager that applies no conditions removes its own. This also removes the whole status, as on a real
/// server, because a kubelet that has just registered its Node owns no field of it (Kubernetes 1.36).
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
            assert_eq!(entry["$patch"], "delete", "no other patch is used");
            conditions.retain(|it| it["type"] != entry["type"]);
        }
    }
    let patched = body["metadata"]["annotations"].as_object();
    if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
        for (key, value) in patched.into_iter().flatten() {
            assert!(value.is_null(), "no other patch is used");
            annotations.remove(key);
        }
    }
}

/// Applies a JSON Patch. Returns whether its tests passed.
pub(crate) fn patch(node: &mut Value, operations: &Value) -> bool {
    for operation in operations.as_array().into_iter().flatten() {
        let pointer = operation["path"].as_str().expect("a path");
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let key = key.replace("~1", "/");
        let parent = node.pointer_mut(parent).and_then(Value::as_object_mut);
        let parent = parent.expect("the parent exists");
        let value = operation.get("value").cloned().unwrap_or_default();
        match operation["op"].as_str() {
            Some("test") if *parent.get(&key).unwrap_or(&Value::Null) == value => {}
            Some("test") => return false,
            Some("add" | "replace") => drop(parent.insert(key, value)),
            Some("remove") => drop(parent.remove(&key).expect("the key exists")),
            other => panic!("{other:?}"),
        }
    }
    true
}
