//! The fields of a status answer that the guard reads.

use base::id::Id;
use bytes::Bytes;
use cri::dockerd;
use cri::fields::{Malformed, entry, fields};
use serde::Deserialize;

use super::Kind;

/// A `PodSandboxStatus` or a `ContainerStatus`, read in place.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) id: Id,
    pub(crate) state: i32,
    /// Whether the status is of a sandbox although a container was requested, or the reverse: dockerd
    /// stores both as containers.
    pub(crate) is_of_other_kind: bool,
    /// Whether a sandbox has its own IP address.
    pub(crate) has_address: bool,
    /// Whether a container was ever started.
    pub(crate) was_started: bool,
    /// The sandbox of a container, if the answer is verbose and has it. containerd and CRI-O report it.
    pub(crate) sandbox: Option<Id>,
    /// The whole status.
    pub(crate) bytes: Bytes,
}

/// The field of the labels in a `PodSandboxStatus`, and the label with a container's name. CRI-O sets it
/// on sandboxes too, to the name that dockerd's sandboxes have.
const LABELS: u32 = 7;
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// The field of the JSON under `info` that is read. The rest, such as the environment of the container, is
/// not read.
#[derive(Deserialize)]
struct Info {
    #[serde(rename = "sandboxID")]
    sandbox: Option<String>,
}

impl Status {
    /// Reads a `PodSandboxStatusResponse` or a `ContainerStatusResponse`. Both have the status in field 1,
    /// and id and state in the same fields of it.
    pub(crate) fn read(kind: Kind, answer: &Bytes) -> Result<Self, Malformed> {
        let mut status = Self {
            id: Id::from(""),
            state: 0,
            is_of_other_kind: false,
            has_address: false,
            was_started: false,
            sandbox: None,
            bytes: Bytes::new(),
        };
        fields(answer, "status answer", |number, field| {
            match number {
                1 => status.bytes = answer.slice_ref(field.bytes()?),
                2 if kind == Kind::Container => {
                    let (key, value) = entry(field.bytes()?, "status answer")?;
                    status.sandbox = sandbox_in(key, value).or(status.sandbox.take());
                }
                _ => {}
            }
            Ok(())
        })?;
        fields(&status.bytes.clone(), "status", |number, field| {
            match number {
                1 => status.id = Id::from(field.text()?),
                2 if kind == Kind::Container => {
                    fields(field.bytes()?, "metadata", |number, field| {
                        status.is_of_other_kind |= number == 1 && field.text()? == dockerd::SANDBOX;
                        Ok(())
                    })?;
                }
                3 => status.state = field.number()? as i32,
                5 if kind == Kind::Container => status.was_started = field.number()? != 0,
                5 => fields(field.bytes()?, "network", |number, field| {
                    status.has_address |= number == 1 && !field.bytes()?.is_empty();
                    Ok(())
                })?,
                LABELS if kind == Kind::Sandbox => {
                    let (key, name) = entry(field.bytes()?, "status")?;
                    status.is_of_other_kind |= key == CONTAINER_NAME && name != dockerd::SANDBOX;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(status)
    }
}

/// The sandbox in an entry of the verbose information.
fn sandbox_in(key: &str, value: &str) -> Option<Id> {
    let info = (key == "info").then(|| serde_json::from_str::<Info>(value));
    let sandbox = info?.ok()?.sandbox?;
    (!sandbox.is_empty()).then(|| sandbox.as_str().into())
}

#[cfg(test)]
mod tests {
    use cri::v1;
    use prost::Message;

    use super::*;

    #[test]
    fn a_sandbox_of_dockerd_is_not_read_as_a_container_nor_a_container_as_a_sandbox() {
        let is_other = |name: &str| {
            let container = v1::ContainerStatusResponse {
                status: Some(v1::ContainerStatus {
                    metadata: Some(v1::ContainerMetadata {
                        name: name.to_owned(),
                        attempt: 0,
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let sandbox = v1::PodSandboxStatusResponse {
                status: Some(v1::PodSandboxStatus {
                    labels: [(CONTAINER_NAME.to_owned(), name.to_owned())].into(),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let container = container.encode_to_vec().into();
            let sandbox = sandbox.encode_to_vec().into();
            [(Kind::Container, container), (Kind::Sandbox, sandbox)]
                .map(|(kind, answer)| Status::read(kind, &answer).unwrap().is_of_other_kind)
        };
        assert_eq!(is_other(dockerd::SANDBOX), [true, false]);
        assert_eq!(is_other("web"), [false, true]);
    }

    fn sandbox_of(info: &[(&str, &str)]) -> Option<Id> {
        let info = info.iter();
        let answer = v1::ContainerStatusResponse {
            status: Some(v1::ContainerStatus::default()),
            info: info
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let answer = answer.encode_to_vec().into();
        let status = Status::read(Kind::Container, &answer).unwrap();
        status.sandbox
    }

    #[test]
    fn a_verbose_status_has_the_sandbox() {
        let info = r#"{"sandboxID":"s1","pid":7,"config":{"envs":[]}}"#;
        assert_eq!(sandbox_of(&[("info", info)]), Some("s1".into()));
    }

    #[test]
    fn information_without_a_sandbox_id_has_no_sandbox() {
        for info in [
            "",
            "{}",
            "[]",
            "{",
            r#"{"sandboxID":""}"#,
            r#"{"sandboxID":7}"#,
        ] {
            assert_eq!(sandbox_of(&[("info", info)]), None, "{info}");
        }
        assert_eq!(sandbox_of(&[("other", r#"{"sandboxID":"s1"}"#)]), None);
        assert_eq!(sandbox_of(&[]), None);
    }
}
