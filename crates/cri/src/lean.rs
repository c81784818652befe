//! The items of the two list answers, read in place.
//!
//! A relist asks for both lists every second, and on a quiet node nothing in them is
//! new. So nothing is copied or allocated here: a [`Sandbox`] or [`Container`] borrows
//! from the item's bytes, fields that nobody reads are skipped by their length, and
//! labels are looked at only when the caller asks ([`Container::labels`]).

use std::hash::{Hash, Hasher};

use prost::encoding::{WireType, decode_key, decode_varint};

/// An answer that is no protobuf of the expected shape.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("malformed {message}: {what}")]
pub struct Malformed {
    /// The message that was being read.
    pub message: &'static str,
    /// What was wrong with it.
    pub what: String,
}

/// A `PodSandbox` of a `ListPodSandboxResponse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sandbox<'a> {
    /// The sandbox's id.
    pub id: &'a str,
    /// Name, uid and namespace of its pod; the kubelet skips sandboxes without.
    pub metadata: Option<SandboxMetadata<'a>>,
    /// The number of a `PodSandboxState`.
    pub state: i32,
    /// Unix time in nanoseconds.
    pub created_at: i64,
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
    /// Which sandbox of the pod this is, from 0.
    pub attempt: u32,
}

/// A `Container` of a `ListContainersResponse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Container<'a> {
    /// The container's id.
    pub id: &'a str,
    /// The sandbox that it runs in.
    pub sandbox_id: &'a str,
    /// Its name in the pod.
    pub name: &'a str,
    /// Which container of that name this is, from 0.
    pub attempt: u32,
    /// The number of a `ContainerState`.
    pub state: i32,
    /// Unix time in nanoseconds.
    pub created_at: i64,
    message: &'a [u8],
}

/// Labels do not count: they never change, and come in another order each time.
impl Hash for Container<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.id, self.sandbox_id, self.name).hash(state);
        (self.attempt, self.state, self.created_at).hash(state);
    }
}

impl<'a> Container<'a> {
    /// The container's labels as key and value; read only when asked for.
    pub fn labels(&self) -> Result<Vec<(&'a str, &'a str)>, Malformed> {
        let mut labels = Vec::new();
        fields(self.message, "Container", |number, field| {
            if number == 8 {
                let (mut key, mut value) = ("", "");
                fields(field.bytes()?, "Container.labels", |number, field| {
                    match number {
                        1 => key = field.text()?,
                        2 => value = field.text()?,
                        _ => {}
                    }
                    Ok(())
                })?;
                labels.push((key, value));
            }
            Ok(())
        })?;
        Ok(labels)
    }
}

/// Reads an item of a `ListPodSandboxResponse`.
pub fn sandbox(message: &[u8]) -> Result<Sandbox<'_>, Malformed> {
    let mut sandbox = Sandbox::default();
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

/// A field's value on the wire.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

#[derive(Clone, Copy)]
struct Field<'a> {
    message: &'static str,
    number: u32,
    value: Value<'a>,
}

impl<'a> Field<'a> {
    fn number(self) -> Result<u64, Malformed> {
        match self.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.malformed("is not a number")),
        }
    }

    fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.malformed("has no length")),
        }
    }

    fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.malformed("is not UTF-8"))
    }

    fn malformed(self, what: &str) -> Malformed {
        Malformed {
            message: self.message,
            what: format!("field {} {what}", self.number),
        }
    }
}

/// Calls `each` with number and value of every field of `bytes`.
fn fields<'a>(
    mut bytes: &'a [u8],
    message: &'static str,
    mut each: impl FnMut(u32, Field<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !bytes.is_empty() {
        let (number, wire) = decode_key(&mut bytes).map_err(|error| malformed(message, error))?;
        let value = match wire {
            WireType::Varint => Value::Number(varint(&mut bytes, message)?),
            WireType::LengthDelimited => {
                let length = varint(&mut bytes, message)?;
                Value::Bytes(take(&mut bytes, length, message)?)
            }
            WireType::SixtyFourBit => take(&mut bytes, 8, message).map(|_| Value::Fixed)?,
            WireType::ThirtyTwoBit => take(&mut bytes, 4, message).map(|_| Value::Fixed)?,
            // proto3 has no groups; nothing that speaks CRI sends one.
            WireType::StartGroup | WireType::EndGroup => {
                return Err(malformed(message, "it holds a group"));
            }
        };
        let field = Field {
            message,
            number,
            value,
        };
        each(number, field)?;
    }
    Ok(())
}

fn varint(bytes: &mut &[u8], message: &'static str) -> Result<u64, Malformed> {
    decode_varint(bytes).map_err(|error| malformed(message, error))
}

fn take<'a>(
    bytes: &mut &'a [u8],
    length: u64,
    message: &'static str,
) -> Result<&'a [u8], Malformed> {
    let (field, rest) = usize::try_from(length)
        .ok()
        .and_then(|length| bytes.split_at_checked(length))
        .ok_or_else(|| malformed(message, "a field ends after the message does"))?;
    *bytes = rest;
    Ok(field)
}

fn malformed(message: &'static str, what: impl ToString) -> Malformed {
    Malformed {
        message,
        what: what.to_string(),
    }
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
    fn a_sandbox_without_metadata_says_so() {
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
    fn every_damage_is_an_error_and_never_a_panic() {
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
    fn bytes_that_are_no_text_are_named() {
        let error = container(&[0x0a, 0x01, 0xff]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "malformed Container: field 1 is not UTF-8"
        );
    }
}
