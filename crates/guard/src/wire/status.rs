//! What a status answer says, as far as it matters here.

use base::id::Id;
use bytes::Bytes;
use cri::dockerd;
use cri::fields::{Malformed, entries, fields};
use serde::Deserialize;

use super::Kind;

/// A `PodSandboxStatus` or a `ContainerStatus`, read in place.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) id: Id,
    pub(crate) state: i32,
    /// It is the status of a sandbox where a container was asked for, or the other way round: to
    /// dockerd both are containers.
    pub(crate) is_of_other_kind: bool,
    /// Whether a sandbox has an address of its own.
    pub(crate) has_address: bool,
    /// Whether a container was ever started.
    pub(crate) was_started: bool,
    /// In which sandbox a container is, where the runtime was asked for a verbose status and
    /// tells it: containerd and CRI-O do.
    pub(crate) sandbox: Option<Id>,
    /// The whole status.
    pub(crate) bytes: Bytes,
}

/// The labels of a `PodSandboxStatus`, and the one of them that only a container has; that of
/// CRI-O's sandboxes has the name that dockerd's have.
const LABELS: u32 = 7;
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// What is read of the JSON under `info`. The rest of it, such as the environment of the
/// container, is nobody's business.
#[derive(Deserialize)]
struct Info {
    #[serde(rename = "sandboxID")]
    sandbox: Option<String>,
}

impl Status {
    /// Reads a `PodSandboxStatusResponse` or a `ContainerStatusResponse`: both have the
    /// status first, and in it id and state under the same numbers.
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
            if number == 1 {
                status.bytes = answer.slice_ref(field.bytes()?);
            }
            Ok(())
        })?;
        if kind == Kind::Container {
            let info = entries(answer, "status answer", 2)?.into_iter();
            status.sandbox = info.filter_map(sandbox_in).next_back();
        }
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
                _ => {}
            }
            Ok(())
        })?;
        if kind == Kind::Sandbox {
            let labels = entries(&status.bytes, "status", LABELS)?.into_iter();
            let mut names = labels.filter(|(key, _)| *key == CONTAINER_NAME);
            status.is_of_other_kind = names.any(|(_, name)| name != dockerd::SANDBOX);
        }
        Ok(status)
    }
}

/// The sandbox that an entry of the verbose answer tells.
fn sandbox_in((key, value): (&str, &str)) -> Option<Id> {
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
    fn dockerds_container_that_is_a_sandbox_is_no_container_and_a_container_no_sandbox() {
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
    fn a_verbose_status_tells_the_sandbox() {
        let told = r#"{"sandboxID":"s1","pid":7,"config":{"envs":[]}}"#;
        assert_eq!(sandbox_of(&[("info", told)]), Some("s1".into()));
    }

    #[test]
    fn what_does_not_tell_a_sandbox_is_not_taken_for_one() {
        for told in [
            "",
            "{}",
            "[]",
            "{",
            r#"{"sandboxID":""}"#,
            r#"{"sandboxID":7}"#,
        ] {
            assert_eq!(sandbox_of(&[("info", told)]), None, "{told}");
        }
        assert_eq!(sandbox_of(&[("other", r#"{"sandboxID":"s1"}"#)]), None);
        assert_eq!(sandbox_of(&[]), None);
    }
}
