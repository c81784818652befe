//! Rows of lists: a sandbox or a container as the runtime writes it into a list.
//!
//! A row is stored as the runtime's own bytes, so unknown fields are preserved. A newer state is appended:
//! of two fields with the same number, protobuf uses the last one.

use base::id::Id;
use bytes::Bytes;
use cri::fields::{Malformed, fields};
use cri::lean;
use prost::encoding::{WireType, encode_key, encode_varint, int32, int64};

use super::Kind;

/// `PodSandboxState` and `ContainerState` by their numbers.
pub(crate) const CREATED: i32 = 0;
pub(crate) const RUNNING: i32 = 1;
pub(crate) const EXITED: i32 = 2;
pub(crate) const READY: i32 = 0;

/// Whether this is one of the states of a container that only rise: all except `CONTAINER_UNKNOWN`, which
/// any other state may follow. Sandboxes are excluded because cri-dockerd lists a sandbox as not ready
/// until it is started.
pub(crate) fn rises(kind: Kind, state: i32) -> bool {
    kind == Kind::Container && (0..=EXITED).contains(&state)
}

/// A row of a list, with the fields that the guard reads.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: Id,
    pub(crate) state: i32,
    /// The sandbox of a container.
    pub(crate) sandbox: Option<Id>,
    /// Whether the row is built from a request, and the runtime has not shown it yet.
    pub(crate) is_made: bool,
    pub(crate) bytes: Bytes,
}

impl Row {
    /// Reads a row. `bytes` may be a slice of an answer, whose memory is then kept alive.
    pub(crate) fn read(kind: Kind, bytes: Bytes) -> Result<Self, Malformed> {
        let (id, state, sandbox) = match kind {
            Kind::Sandbox => {
                let row = lean::sandbox(&bytes)?;
                (Id::from(row.id), row.state, None)
            }
            Kind::Container => {
                let row = lean::container(&bytes)?;
                (Id::from(row.id), row.state, Some(Id::from(row.sandbox_id)))
            }
        };
        Ok(Self {
            id,
            state,
            sandbox,
            is_made: false,
            bytes,
        })
    }

    /// The labels, as key and value.
    pub(crate) fn labels(&self, kind: Kind) -> Result<Vec<(&str, &str)>, Malformed> {
        match kind {
            Kind::Sandbox => lean::sandbox(&self.bytes)?.labels(),
            Kind::Container => lean::container(&self.bytes)?.labels(),
        }
    }

    /// The label with this key.
    pub(crate) fn label(&self, kind: Kind, key: &str) -> Option<&str> {
        let labels = self.labels(kind).ok()?;
        let found = labels.into_iter().find(|(found, _)| *found == key);
        found.map(|(_, value)| value)
    }

    /// Writes the row as an item of a list, with its current state.
    pub(crate) fn write(&self, kind: Kind, list: &mut Vec<u8>) {
        let (written, field) = match kind {
            Kind::Sandbox => (lean::sandbox(&self.bytes).map(|row| row.state), 3),
            Kind::Container => (lean::container(&self.bytes).map(|row| row.state), 6),
        };
        let is_old = written != Ok(self.state);
        let appended = if is_old {
            int32::encoded_len(field, &self.state)
        } else {
            0
        };
        encode_key(1, WireType::LengthDelimited, list);
        encode_varint((self.bytes.len() + appended) as u64, list);
        list.extend_from_slice(&self.bytes);
        if is_old {
            int32::encode(field, &self.state, list);
        }
    }
}

/// The rows of a list. A stream has the rows in many messages.
pub(crate) fn rows_of<'a>(
    kind: Kind,
    messages: impl IntoIterator<Item = &'a Bytes>,
) -> Result<Vec<Row>, Malformed> {
    let mut rows = Vec::new();
    for message in messages {
        fields(message, "list", |number, field| {
            if number == 1 {
                rows.push(Row::read(kind, message.slice_ref(field.bytes()?))?);
            }
            Ok(())
        })?;
    }
    Ok(rows)
}

/// Pairs of field numbers: the number in another message, and that of the same field in a row.
const SANDBOX_OF_STATUS: [(u32, u32); 7] = [(1, 1), (2, 2), (3, 3), (4, 4), (7, 5), (8, 6), (9, 7)];
const CONTAINER_OF_STATUS: [(u32, u32); 9] = [
    (1, 1),
    (2, 3),
    (3, 6),
    (4, 7),
    (8, 4),
    (9, 5),
    (12, 8),
    (13, 9),
    (17, 10),
];
const SANDBOX_OF_CONFIG: [(u32, u32); 3] = [(1, 2), (6, 5), (7, 6)];
const CONTAINER_OF_CONFIG: [(u32, u32); 4] = [(1, 3), (2, 4), (9, 8), (10, 9)];

/// The field numbers of the image in a container's row, status and configuration.
const IMAGE_ID_OF_ROW: u32 = 10;
const IMAGE_ID_OF_STATUS: u32 = 17;
const IMAGE_OF_CONFIG: u32 = 2;

/// The row of a sandbox or container with this status, a `PodSandboxStatus` or a `ContainerStatus`. A
/// status lacks the sandbox of a container, which the caller supplies. The status of an old runtime also
/// lacks the id of the image, which is taken from the row that was `made` from the request.
pub(crate) fn row_of_status(
    kind: Kind,
    status: &[u8],
    sandbox: Option<&Id>,
    made: Option<&Row>,
) -> Result<Row, Malformed> {
    let mut bytes = Vec::with_capacity(status.len());
    let table: &[_] = match kind {
        Kind::Sandbox => &SANDBOX_OF_STATUS,
        Kind::Container => &CONTAINER_OF_STATUS,
    };
    copy(status, table, &mut bytes)?;
    write_sandbox(sandbox, &mut bytes);
    if kind == Kind::Container
        && text_of(status, IMAGE_ID_OF_STATUS)?.is_none()
        && let Some(made) = made
        && let Some(image) = text_of(&made.bytes, IMAGE_ID_OF_ROW)?
    {
        write_text(IMAGE_ID_OF_ROW, image, &mut bytes);
    }
    Row::read(kind, bytes.into())
}

/// The row of a new sandbox or container with this `PodSandboxConfig` or `ContainerConfig`, in the state
/// ready or created.
pub(crate) fn row_of_config(
    kind: Kind,
    id: &Id,
    config: &[u8],
    sandbox: Option<&Id>,
    created_at: i64,
) -> Result<Row, Malformed> {
    let mut bytes = Vec::with_capacity(config.len());
    write_text(1, id.as_str(), &mut bytes);
    let (table, created): (&[_], u32) = match kind {
        Kind::Sandbox => (&SANDBOX_OF_CONFIG, 4),
        Kind::Container => (&CONTAINER_OF_CONFIG, 7),
    };
    copy(config, table, &mut bytes)?;
    int64::encode(created, &created_at, &mut bytes);
    write_sandbox(sandbox, &mut bytes);
    if kind == Kind::Container
        && let Some(image) = image_id_of_config(config)?
    {
        write_text(IMAGE_ID_OF_ROW, image, &mut bytes);
    }
    Ok(Row {
        is_made: true,
        ..Row::read(kind, bytes.into())?
    })
}

fn copy(from: &[u8], table: &[(u32, u32)], to: &mut Vec<u8>) -> Result<(), Malformed> {
    fields(from, "status or configuration", |number, field| {
        if let Some((_, row)) = table.iter().find(|(theirs, _)| *theirs == number) {
            field.copy_as(*row, to);
        }
        Ok(())
    })
}

/// The id of a container's image, which a kubelet sets for an image that the runtime has. Without the id in
/// the row, the kubelet's garbage collection treats the image as unused.
fn image_id_of_config(config: &[u8]) -> Result<Option<&str>, Malformed> {
    let mut image = None;
    fields(config, "configuration", |number, field| {
        if number == IMAGE_OF_CONFIG {
            image = text_of(field.bytes()?, 1)?;
        }
        Ok(())
    })?;
    let is_id = |image: &&str| {
        // The ids of containerd have the prefix `sha256:`, those of CRI-O do not.
        let digits = image.strip_prefix("sha256:").unwrap_or(image);
        digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    Ok(image.filter(is_id))
}

/// The last text field with this number, if it is not empty.
fn text_of(message: &[u8], wanted: u32) -> Result<Option<&str>, Malformed> {
    let mut text = None;
    fields(message, "image", |number, field| {
        if number == wanted {
            text = std::str::from_utf8(field.bytes()?).ok();
        }
        Ok(())
    })?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn write_sandbox(sandbox: Option<&Id>, to: &mut Vec<u8>) {
    if let Some(sandbox) = sandbox {
        write_text(2, sandbox.as_str(), to);
    }
}

fn write_text(number: u32, text: &str, to: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, to);
    encode_varint(text.len() as u64, to);
    to.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use cri::v1;
    use prost::Message;

    use super::*;

    fn listed() -> v1::Container {
        v1::Container {
            id: "c1".into(),
            pod_sandbox_id: "s1".into(),
            metadata: Some(v1::ContainerMetadata {
                name: "web".into(),
                attempt: 2,
            }),
            state: RUNNING,
            created_at: 5,
            labels: [("app".to_owned(), "web".to_owned())].into(),
            ..Default::default()
        }
    }

    /// An unknown field.
    const LATER: [u8; 4] = [0xfa, 0x07, 0x01, 0xaa];

    fn list_of(row: &[u8]) -> Bytes {
        let mut list = Vec::new();
        encode_key(1, WireType::LengthDelimited, &mut list);
        encode_varint(row.len() as u64, &mut list);
        list.extend_from_slice(row);
        list.into()
    }

    #[test]
    fn a_row_is_written_as_it_was_read_including_unknown_fields() {
        let mut bytes = listed().encode_to_vec();
        bytes.extend(LATER);
        let list = list_of(&bytes);
        let rows = rows_of(Kind::Container, [&list]).unwrap();
        let mut written = Vec::new();
        rows[0].write(Kind::Container, &mut written);
        assert_eq!(written, list);
    }

    #[test]
    fn a_newer_state_replaces_the_old_one_and_all_other_fields_are_preserved() {
        let mut bytes = listed().encode_to_vec();
        bytes.extend(LATER);
        let mut rows = rows_of(Kind::Container, [&list_of(&bytes)]).unwrap();
        rows[0].state = EXITED;
        let mut written = Vec::new();
        rows[0].write(Kind::Container, &mut written);
        let read = v1::ListContainersResponse::decode(&written[..]).unwrap();
        let expected = v1::Container {
            state: EXITED,
            ..listed()
        };
        assert_eq!(read.containers, [expected]);
        assert!(written.windows(LATER.len()).any(|window| window == LATER));
    }

    #[test]
    fn the_row_of_a_status_equals_the_row_of_the_list() {
        let status = v1::ContainerStatus {
            id: "c1".into(),
            metadata: listed().metadata,
            state: RUNNING,
            created_at: 5,
            started_at: 6,
            log_path: "0.log".into(),
            labels: listed().labels,
            ..Default::default()
        };
        let sandbox = Id::from("s1");
        let row = row_of_status(
            Kind::Container,
            &status.encode_to_vec(),
            Some(&sandbox),
            None,
        );
        let row = row.unwrap();
        assert_eq!(v1::Container::decode(row.bytes).unwrap(), listed());
        let status = v1::PodSandboxStatus {
            id: "s1".into(),
            state: 1,
            labels: listed().labels,
            runtime_handler: "kata".into(),
            ..Default::default()
        };
        let row = row_of_status(Kind::Sandbox, &status.encode_to_vec(), None, None).unwrap();
        let expected = v1::PodSandbox {
            id: "s1".into(),
            state: 1,
            labels: listed().labels,
            runtime_handler: "kata".into(),
            ..Default::default()
        };
        assert_eq!(v1::PodSandbox::decode(row.bytes).unwrap(), expected);
    }

    #[test]
    fn the_row_of_a_new_container_has_the_image_id_of_its_configuration() {
        let digits = "0123456789abcdef".repeat(4);
        let (id, sandbox) = (Id::from("c1"), Id::from("s1"));
        let made = |image: &str| {
            let config = v1::ContainerConfig {
                metadata: listed().metadata,
                image: Some(v1::ImageSpec {
                    image: image.to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let config = config.encode_to_vec();
            row_of_config(Kind::Container, &id, &config, Some(&sandbox), 5).unwrap()
        };
        for image in [digits.clone(), format!("sha256:{digits}")] {
            assert_eq!(image_of(&made(&image)), image);
        }
        assert_eq!(image_of(&made("docker.io/library/busybox:latest")), "");

        // The status of containerd 1.7 has the digest of the repository, but no id.
        let made = made(&digits);
        let with = |image_id: &str| {
            let status = v1::ContainerStatus {
                id: "c1".into(),
                image_ref: "docker.io/library/busybox@sha256:ab".into(),
                ..Default::default()
            };
            let mut status = status.encode_to_vec();
            write_text(IMAGE_ID_OF_STATUS, image_id, &mut status);
            let row = row_of_status(Kind::Container, &status, Some(&sandbox), Some(&made));
            image_of(&row.unwrap())
        };
        assert_eq!(with(""), digits);
        assert_eq!(with("sha256:other"), "sha256:other");
    }

    fn image_of(row: &Row) -> String {
        let image = text_of(&row.bytes, IMAGE_ID_OF_ROW).unwrap();
        image.unwrap_or_default().to_owned()
    }

    #[test]
    fn the_row_of_a_configuration_is_a_container_that_was_created() {
        let config = v1::ContainerConfig {
            metadata: listed().metadata,
            labels: listed().labels,
            command: vec!["sleep".into()],
            ..Default::default()
        };
        let (id, sandbox) = (Id::from("c1"), Id::from("s1"));
        let config = config.encode_to_vec();
        let row = row_of_config(Kind::Container, &id, &config, Some(&sandbox), 5).unwrap();
        let expected = v1::Container {
            state: 0,
            ..listed()
        };
        assert_eq!(v1::Container::decode(row.bytes).unwrap(), expected);
    }
}
