//! The items of both lists, read in place.
//!
//! A relist requests both lists every second, and on a quiet node nothing in them is new. So nothing
//! is copied or allocated here: a [`Sandbox`] or [`Container`] borrows from the bytes of the item,
//! unused fields are skipped by their length, and labels are read only on request
//! ([`Container::labels`]).
//!
//! ```
//! use cri::{fields::Malformed, lean, v1};
//! use prost::Message;
//!
//! let item = v1::PodSandbox { id: "61ac7eca54e9".to_owned(), ..Default::default() };
//! let item = item.encode_to_vec();
//! let sandbox = lean::sandbox(&item)?;
//! assert_eq!((sandbox.id, sandbox.metadata), ("61ac7eca54e9", None));
//! # Ok::<(), Malformed>(())
//! ```

use std::hash::{Hash, Hasher};

use crate::fields::{Malformed, entries, fields};

/// A `PodSandbox` of a `ListPodSandboxResponse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sandbox<'a> {
    /// The sandbox's id.
    pub id: &'a str,
    /// Name, UID and namespace of its pod. The kubelet skips a sandbox without them.
    pub metadata: Option<SandboxMetadata<'a>>,
    /// The number of a `PodSandboxState`.
    pub state: i32,
    /// Unix time in nanoseconds.
    pub created_at: i64,
    message: &'a [u8],
}

impl<'a> Sandbox<'a> {
    /// Reads the sandbox's labels, as key and value.
    pub fn labels(&self) -> Result<Vec<(&'a str, &'a str)>, Malformed> {
        entries(self.message, "PodSandbox", 5)
    }
}

/// The `PodSandboxMetadata` of a listed sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SandboxMetadata<'a> {
    /// The pod's name.
    pub name: &'a str,
    /// The pod's UID.
    pub uid: &'a str,
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The number of this sandbox in its pod, from 0.
    pub attempt: u32,
}

/// A `Container` of a `ListContainersResponse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Container<'a> {
    /// The container's id.
    pub id: &'a str,
    /// The sandbox that it runs in.
    pub sandbox_id: &'a str,
    /// The container's name in the pod.
    pub name: &'a str,
    /// The number of this container among the pod's containers of this name, from 0.
    pub attempt: u32,
    /// The number of a `ContainerState`.
    pub state: i32,
    /// Unix time in nanoseconds.
    pub created_at: i64,
    message: &'a [u8],
}

/// Does not hash the labels: they never change, and arrive in a different order each time.
impl Hash for Sandbox<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.id, self.metadata, self.state, self.created_at).hash(state);
    }
}

/// Does not hash the labels: they never change, and arrive in a different order each time.
impl Hash for Container<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.id, self.sandbox_id, self.name).hash(state);
        (self.attempt, self.state, self.created_at).hash(state);
    }
}

impl<'a> Container<'a> {
    /// Reads the container's labels, as key and value.
    pub fn labels(&self) -> Result<Vec<(&'a str, &'a str)>, Malformed> {
        entries(self.message, "Container", 8)
    }
}

/// Reads an item of a `ListPodSandboxResponse`.
pub fn sandbox(message: &[u8]) -> Result<Sandbox<'_>, Malformed> {
    let mut sandbox = Sandbox {
        message,
        ..Sandbox::default()
    };
    fields(message, "PodSandbox", |number, field| {
        match number {
            1 => sandbox.id = field.text()?,
            2 => {
                let metadata = sandbox.metadata.get_or_insert_default();
                fields(field.bytes()?, "PodSandboxMetadata", |number, field| {
                    match number {
                        1 => metadata.name = field.text()?,
                        2 => metadata.uid = field.text()?,
                        3 => metadata.namespace = field.text()?,
                        4 => metadata.attempt = field.number()? as u32,
                        _ => {}
                    }
                    Ok(())
                })?;
            }
            3 => sandbox.state = field.number()? as i32,
            4 => sandbox.created_at = field.number()? as i64,
            _ => {}
        }
        Ok(())
    })?;
    Ok(sandbox)
}

/// Reads an item of a `ListContainersResponse`.
pub fn container(message: &[u8]) -> Result<Container<'_>, Malformed> {
    let mut container = Container {
        message,
        ..Container::default()
    };
    fields(message, "Container", |number, field| {
        match number {
            1 => container.id = field.text()?,
            2 => container.sandbox_id = field.text()?,
            3 => fields(field.bytes()?, "ContainerMetadata", |number, field| {
                match number {
                    1 => container.name = field.text()?,
                    2 => container.attempt = field.number()? as u32,
                    _ => {}
                }
                Ok(())
            })?,
            6 => container.state = field.number()? as i32,
            7 => container.created_at = field.number()? as i64,
            _ => {}
        }
        Ok(())
    })?;
    Ok(container)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::v1;

    fn labelled_container() -> v1::Container {
        v1::Container {
            id: "c1".into(),
            pod_sandbox_id: "s1".into(),
            metadata: Some(v1::ContainerMetadata {
                name: "web".into(),
                attempt: 3,
            }),
            image_ref: "sha256:0".into(),
            state: v1::ContainerState::ContainerExited as i32,
            created_at: 1_700_000_000_000_000_001,
            labels: [("io.kubernetes.pod.uid".to_owned(), "u1".to_owned())].into(),
            annotations: [("a".to_owned(), "b".repeat(1000))].into(),
            ..Default::default()
        }
    }

    #[test]
    fn a_container_is_read_as_a_full_decode_reads_it() {
        let item = labelled_container().encode_to_vec();
        let read = container(&item).unwrap();
        assert_eq!((read.id, read.sandbox_id), ("c1", "s1"));
        assert_eq!((read.name, read.attempt, read.state), ("web", 3, 2));
        assert_eq!(read.created_at, 1_700_000_000_000_000_001);
        assert_eq!(read.labels().unwrap(), [("io.kubernetes.pod.uid", "u1")]);
        assert_eq!(container(&[]).unwrap().id, "");
    }

    #[test]
    fn a_sandbox_may_have_no_metadata() {
        let item = v1::PodSandbox {
            id: "s1".into(),
            metadata: Some(v1::PodSandboxMetadata {
                name: "web-0".into(),
                uid: "u1".into(),
                namespace: "shop".into(),
                attempt: 1,
            }),
            state: 1,
            created_at: -5,
            ..Default::default()
        }
        .encode_to_vec();
        let read = sandbox(&item).unwrap();
        let metadata = read.metadata.unwrap();
        assert_eq!(
            (
                metadata.namespace,
                metadata.name,
                metadata.uid,
                metadata.attempt
            ),
            ("shop", "web-0", "u1", 1)
        );
        assert_eq!((read.state, read.created_at), (1, -5));
        assert_eq!(sandbox(&[]).unwrap().metadata, None);
    }

    #[test]
    fn damaged_bytes_never_cause_a_panic() {
        let item = labelled_container().encode_to_vec();
        for index in 0..item.len() {
            for bit in 0..8 {
                let mut damaged = item.clone();
                damaged[index] ^= 1 << bit;
                let _ = container(&damaged).map(|read| read.labels());
                let _ = sandbox(&damaged);
            }
        }
        assert!(container(&item[..item.len() - 1]).is_err());
    }

    #[test]
    fn an_error_names_the_message_and_the_field() {
        let error = container(&[0x0a, 0x01, 0xff]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "malformed Container: field 1 is not UTF-8"
        );
    }
}
