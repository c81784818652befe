//! Server-side apply and JSON Patch, as far as they are used.

use serde_json::Value;

/// Applies one manager's conditions, which are the only ones with a heartbeat here, and its
/// annotation.
pub(crate) fn apply(node: &mut Value, body: &Value) {
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
