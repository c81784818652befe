//! Converts `env`.

use k8s_openapi::api::core::v1;

use super::problem::At;
use super::{NEEDS_API_SERVER, names};
use crate::spec::{EnvVar, Field, Value};

pub(super) fn read(variables: Vec<v1::EnvVar>, at: &At<'_>) -> Vec<EnvVar> {
    let variables = variables.into_iter().enumerate();
    let read = variables.map(|(i, it)| variable(it, &at.index(i)));
    read.collect()
}

fn variable(variable: v1::EnvVar, at: &At<'_>) -> EnvVar {
    let v1::EnvVar {
        name,
        value,
        value_from,
    } = variable;
    at.field("name").check_text(&name, names::variable);
    let literal = value.unwrap_or_default();
    let value = match value_from {
        None => Value::Literal(literal),
        Some(source) => {
            let at = at.field("valueFrom");
            if !literal.is_empty() {
                at.invalid("cannot be combined with value");
            }
            source_value(source, &at)
        }
    };
    EnvVar { name, value }
}

fn source_value(source: v1::EnvVarSource, at: &At<'_>) -> Value {
    let v1::EnvVarSource {
        config_map_key_ref,
        field_ref,
        resource_field_ref,
        secret_key_ref,
    } = source;
    let mut sources = usize::from(field_ref.is_some());
    for (field, is_set, why) in [
        (
            "configMapKeyRef",
            config_map_key_ref.is_some(),
            NEEDS_API_SERVER,
        ),
        ("resourceFieldRef", resource_field_ref.is_some(), ""),
        ("secretKeyRef", secret_key_ref.is_some(), NEEDS_API_SERVER),
    ] {
        at.refuse(field, is_set, why);
        sources += usize::from(is_set);
    }
    match sources {
        0 => at.invalid("has no source: fieldRef is expected"),
        1 => {}
        _ => at.invalid("has more than one source"),
    }
    let field = field_ref.and_then(|it| field(it, &at.field("fieldRef")));
    field.map_or_else(|| Value::Literal(String::new()), Value::Field)
}

fn field(reference: v1::ObjectFieldSelector, at: &At<'_>) -> Option<Field> {
    let v1::ObjectFieldSelector {
        api_version,
        field_path,
    } = reference;
    at.field("apiVersion")
        .one_of(api_version.as_deref(), (), &[("v1", ())]);
    let at = at.field("fieldPath");
    Some(match field_path.as_str() {
        "metadata.name" => Field::Name,
        "metadata.namespace" => Field::Namespace,
        "metadata.uid" => Field::Uid,
        "spec.nodeName" => Field::NodeName,
        "status.hostIP" => Field::HostIp,
        "status.hostIPs" => Field::HostIps,
        "status.podIP" => Field::PodIp,
        other => {
            match other {
                "" => at.required(),
                "spec.serviceAccountName" | "status.podIPs" => at.unsupported(""),
                path if is_entry(path) => {
                    at.unsupported("write the value in place of the reference");
                }
                path => at.invalid(format!("{path:?} is not a field that can be referred to")),
            }
            return None;
        }
    })
}

/// Whether the path refers to one label or annotation, such as `metadata.labels['app']`.
fn is_entry(path: &str) -> bool {
    ["metadata.labels['", "metadata.annotations['"]
        .iter()
        .any(|it| path.starts_with(it) && path.ends_with("']"))
}
