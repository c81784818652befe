//! Finds the names of pods, containers and processes in a line.

use causes::finding::{Culprit, PodName};
use serde_json::Value;

use crate::line::{after, number_after, quoted, text, until};

/// All names in a line.
pub fn in_line(line: &[u8]) -> Culprit {
    Culprit {
        pod: pod(line),
        id: id(line),
        ..process(line)
    }
}

/// The first id of a container or sandbox: 64 hexadecimal digits.
pub fn id(line: &[u8]) -> Option<String> {
    let mut run = 0;
    for (at, byte) in line.iter().chain(b" ").enumerate() {
        if byte.is_ascii_digit() || (b'a'..=b'f').contains(byte) {
            run += 1;
            continue;
        }
        let before = &line[..at.saturating_sub(run)];
        let is_of_exec = || before.ends_with(b"exec \"") || before.ends_with(b"exec \\\"");
        if run == 64 && !is_of_exec() {
            return Some(text(&line[at - 64..at]));
        }
        run = 0;
    }
    None
}

/// The pod that a line names, in any of the known forms.
pub fn pod(line: &[u8]) -> Option<PodName> {
    let mut pod = any_pod(line)?;
    for name in [&mut pod.uid, &mut pod.namespace, &mut pod.name] {
        *name = name.take().filter(|name| name.len() <= MAX_NAME_BYTES);
    }
    Some(pod)
}

/// The maximum length of a name in Kubernetes.
const MAX_NAME_BYTES: usize = 253;

fn any_pod(line: &[u8]) -> Option<PodName> {
    let slashed = |name: &str| {
        let (namespace, name) = name.split_once('/')?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let real = !namespace.is_empty() && !name.is_empty();
        (real && namespace.chars().chain(name.chars()).all(plain)).then(|| PodName {
            uid: None,
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
        })
    };
    if let Some(value) = quoted::value(line, "pod")
        && let Some(pod) = slashed(&text(&value))
    {
        return Some(pod);
    }
    // "pod":{"name":"etcd","namespace":"x"}
    if let Some(object) = after(line, "\"pod\":{") {
        let object = text(until(object, b"}"));
        let value: Value = serde_json::from_str(&format!("{{{object}}}")).ok()?;
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        return Some(PodName {
            uid: field("uid"),
            namespace: field("namespace"),
            name: field("name"),
        });
    }
    for lead in ["for pod \"", "pod \"", "for pod \\\""] {
        // name_namespace(uid)
        if let Some(behind) = after(line, lead) {
            let whole = text(until(behind, b"\"\\"));
            let (name, rest) = whole.split_once('_')?;
            let (namespace, uid) = rest.split_once('(').unwrap_or((rest, ""));
            return Some(PodName {
                uid: Some(uid.trim_end_matches(')').to_owned()).filter(|uid| !uid.is_empty()),
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
            });
        }
    }
    let behind = after(line, "events for pod ")?;
    slashed(text(until(behind, b": ")).trim_end_matches(':'))
}

/// The process in `Killed process 1234 (containerd)`, and the unit if the line names the kubelet's.
fn process(line: &[u8]) -> Culprit {
    let mut culprit = Culprit::default();
    if let Some(behind) = after(line, "Killed process ").or_else(|| after(line, "Kill process ")) {
        culprit.pid = number_after(behind, "").and_then(|pid| pid.try_into().ok());
        let name = after(behind, "(").map(|name| text(until(name, b")")));
        culprit.process = name.filter(|name| name.len() <= MAX_NAME_BYTES);
    }
    if crate::line::has(line, "kubelet.service") {
        culprit.unit = Some("kubelet.service".to_owned());
    }
    culprit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_is_found_in_the_messages_of_all_versions() {
        for line in [
            "\"Error\" err=\"x\" pod=\"shop/web-0\" podUID=1",
            "{\"msg\":\"x\",\"pod\":{\"name\":\"web-0\",\"namespace\":\"shop\"}}",
            "PLEG: Ignoring events for pod shop/web-0: rpc error",
            "PodSandboxStatus of sandbox \"1\" for pod \"web-0_shop(123-4)\" error: rpc",
        ] {
            let pod = pod(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            let names = (pod.namespace.as_deref(), pod.name.as_deref());
            assert_eq!(names, (Some("shop"), Some("web-0")), "{line}");
        }
        assert_eq!(pod(b"nothing"), None);
    }

    #[test]
    fn an_id_has_64_digits() {
        let id64 = "a1".repeat(32);
        assert_eq!(
            id(format!("ContainerStatus \"{id64}\" failed").as_bytes()),
            Some(id64.clone())
        );
        assert_eq!(id(format!("x{id64}a").as_bytes()), None);
        assert_eq!(id(b"deadbeef"), None);
    }

    #[test]
    fn a_killed_process_is_named() {
        let culprit = in_line(b"Out of memory: Killed process 77 (containerd) total-vm:1kB");
        assert_eq!(
            (culprit.pid, culprit.process.as_deref()),
            (Some(77), Some("containerd"))
        );
    }
}
