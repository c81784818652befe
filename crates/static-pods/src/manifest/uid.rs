//! The UID of a static pod.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Pod;
use pleg::model::id::PodUid;
use serde_json::Value;

/// An MD5 sum of the pod, the node and the file, in hexadecimal digits.
pub(super) fn of(pod: &Pod, node: &str, file: &str) -> PodUid {
    let mut text = String::new();
    // A pod consists of strings, numbers and maps with string keys, so serialization cannot fail.
    write_canonical(&serde_json::to_value(pod).unwrap_or_default(), &mut text);
    let _ = write!(text, "host:{node}file:{file}");
    format!("{:x}", md5::compute(text)).into()
}

/// Writes JSON with sorted keys, so that the order in the generated types and in maps does not matter.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            text.push('{');
            for (key, value) in fields.iter().collect::<BTreeMap<_, _>>() {
                let _ = write!(text, "{key:?}:");
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}
