//! What a status answer says, as far as it matters here.

use bytes::Bytes;
use cri::fields::{Malformed, fields};
use pleg::model::id::Id;

use super::Kind;

/// A `PodSandboxStatus` or a `ContainerStatus`, read in place.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) id: Id,
    pub(crate) state: i32,
    /// Whether a container was ever started.
    pub(crate) was_started: bool,
    /// The whole status.
    pub(crate) bytes: Bytes,
}

impl Status {
    /// Reads a `PodSandboxStatusResponse` or a `ContainerStatusResponse`: both have the
    /// status first, and in it id and state under the same numbers.
    pub(crate) fn read(kind: Kind, answer: &Bytes) -> Result<Self, Malformed> {
        let mut status = Self {
            id: Id::from(""),
            state: 0,
            was_started: false,
            bytes: Bytes::new(),
        };
        fields(answer, "status answer", |number, field| {
            if number == 1 {
                status.bytes = answer.slice_ref(field.bytes()?);
            }
            Ok(())
        })?;
        fields(&status.bytes.clone(), "status", |number, field| {
            match number {
                1 => status.id = Id::from(field.text()?),
                3 => status.state = field.number()? as i32,
                5 if kind == Kind::Container => status.was_started = field.number()? != 0,
                _ => {}
            }
            Ok(())
        })?;
        Ok(status)
    }
}
