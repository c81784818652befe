//! The requests that the guard reads.

use base::id::Id;
use bytes::Bytes;
use cri::fields::{entries, fields};
use cri::{Rpc, v1};
use prost::Message;

use super::Kind;
use super::row::Row;

/// The target of a call that changes something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A sandbox to create.
    NewSandbox {
        uid: String,
        namespace: String,
        name: String,
        attempt: u32,
    },
    /// A container to create.
    NewContainer {
        sandbox: Id,
        name: String,
        attempt: u32,
    },
    /// An existing sandbox or container.
    Existing(Kind, Id),
}

impl Target {
    /// The kind of the sandbox or container to create; `None` for an existing one.
    pub(crate) fn created(&self) -> Option<Kind> {
        match self {
            Self::NewSandbox { .. } => Some(Kind::Sandbox),
            Self::NewContainer { .. } => Some(Kind::Container),
            Self::Existing(..) => None,
        }
    }
}

/// A call that changes something.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    pub(crate) rpc: Rpc,
    pub(crate) target: Target,
    /// The encoded configuration of the sandbox or container to create.
    pub(crate) config: Bytes,
    /// Whether the sandbox to create gets its own network namespace.
    pub(crate) has_network: bool,
    /// The grace period of a stop, in seconds.
    pub(crate) grace_seconds: u64,
}

impl Mutation {
    /// Reads the request of a mutation. Returns `None` if the method is not that of a mutation, or if the
    /// request cannot be decoded.
    pub(crate) fn read(rpc: Rpc, request: &Bytes) -> Option<Self> {
        let mut grace_seconds = 0;
        let mut config = Bytes::new();
        let mut has_network = false;
        // Only the parts that are needed are decoded: a container's configuration may be long.
        let target = match rpc {
            Rpc::RunPodSandbox => {
                config = part(request, 1)?;
                let metadata = v1::PodSandboxMetadata::decode(part(&config, 1)?).ok()?;
                let linux = part(&config, 8).unwrap_or_default();
                let linux = v1::LinuxPodSandboxConfig::decode(linux).ok()?;
                let security = linux.security_context;
                let namespaces = security.and_then(|security| security.namespace_options);
                has_network =
                    namespaces.is_none_or(|of| of.network != v1::NamespaceMode::Node as i32);
                Target::NewSandbox {
                    uid: metadata.uid,
                    namespace: metadata.namespace,
                    name: metadata.name,
                    attempt: metadata.attempt,
                }
            }
            Rpc::CreateContainer => {
                config = part(request, 2)?;
                let metadata = v1::ContainerMetadata::decode(part(&config, 1)?).ok()?;
                Target::NewContainer {
                    sandbox: id_of(request)?,
                    name: metadata.name,
                    attempt: metadata.attempt,
                }
            }
            Rpc::StopPodSandbox | Rpc::RemovePodSandbox | Rpc::UpdatePodSandboxResources => {
                Target::Existing(Kind::Sandbox, id_of(request)?)
            }
            Rpc::StopContainer => {
                let read = v1::StopContainerRequest::decode(request.clone()).ok()?;
                grace_seconds = read.timeout.try_into().unwrap_or_default();
                Target::Existing(Kind::Container, read.container_id.into())
            }
            Rpc::StartContainer | Rpc::RemoveContainer | Rpc::UpdateContainerResources => {
                Target::Existing(Kind::Container, id_of(request)?)
            }
            _ => return None,
        };
        Some(Self {
            rpc,
            target,
            config,
            has_network,
            grace_seconds,
        })
    }

    /// Whether the mutation has created this row: the metadata and all labels are equal.
    pub(crate) fn has_created(&self, row: &Row) -> bool {
        let same_labels = |kind, number| {
            let wanted = entries(&self.config, "configuration", number);
            let (Ok(wanted), Ok(found)) = (wanted, row.labels(kind)) else {
                return false;
            };
            wanted.len() == found.len() && wanted.iter().all(|label| found.contains(label))
        };
        match &self.target {
            Target::NewSandbox {
                uid,
                namespace,
                name,
                attempt,
            } => {
                let read = cri::lean::sandbox(&row.bytes).ok();
                let metadata = read.and_then(|row| row.metadata);
                metadata.is_some_and(|found| {
                    found.uid == uid
                        && found.namespace == namespace
                        && found.name == name
                        && found.attempt == *attempt
                }) && same_labels(Kind::Sandbox, 6)
            }
            Target::NewContainer {
                sandbox,
                name,
                attempt,
            } => {
                let of_sandbox = row.sandbox.as_ref();
                let read = cri::lean::container(&row.bytes);
                read.is_ok_and(|found| found.name == name && found.attempt == *attempt)
                    && of_sandbox.is_none_or(|found| found.is_empty() || found == sandbox)
                    && same_labels(Kind::Container, 9)
            }
            Target::Existing(..) => false,
        }
    }
}

/// The id in field 1 of a message. All requests for one id have it there, and so have events and the
/// answers to creations.
pub(crate) fn id_of(request: &Bytes) -> Option<Id> {
    let id = part(request, 1)?;
    std::str::from_utf8(&id).ok().map(Id::from)
}

/// The last field with this number, if the message has it.
fn part(message: &Bytes, wanted: u32) -> Option<Bytes> {
    let mut part = None;
    let read = fields(message, "request", |number, field| {
        if number == wanted {
            part = Some(message.slice_ref(field.bytes()?));
        }
        Ok(())
    });
    read.is_ok().then_some(part)?
}

/// A request with this id and nothing else.
pub(crate) fn of_id(id: &Id) -> Bytes {
    // All requests for one id have it in the same field.
    status_of(id, false)
}

/// A request for the status of a container, or for the status of a sandbox: they are encoded alike.
pub(crate) fn status_of(id: &Id, verbose: bool) -> Bytes {
    let request = v1::ContainerStatusRequest {
        container_id: id.to_string(),
        verbose,
    };
    request.encode_to_vec().into()
}
