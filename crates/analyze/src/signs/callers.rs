//! What those write that start and call runtimes: systemd of their units, crictl, ctr and kubeadm, and the
//! agents of K3s, RKE2, Talos and ECS.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, sign};
use crate::kind::Writer::Runtime;

/// How systemd names the units of runtimes.
const RUNTIME_UNITS: &[&str] = &[
    "containerd container runtime",
    "Docker Application Container Engine",
    "Container Runtime Interface for OCI",
];

pub(super) const SIGNS: &[Sign] = &[
    // What crictl says in a log; on a node that kubeadm has yet to set up, nothing has failed.
    sign(
        "CRI v1 runtime API is not implemented",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .without(&["[ERROR CRI]"]),
    // crictl up to 1.23, with the time in front.
    sign(
        "failed to connect: failed to connect: context deadline exceeded",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    // kubeadm's and crictl's words.
    sign(
        "API is not implemented for endpoint",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign(
        "unknown service runtime.v1alpha2.ImageService",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign(
        "getting status of runtime failed",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["unknown service runtime."]),
    sign(
        "start operation timed out. Terminating",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["containerd.service", "docker.service", "crio.service"]),
    sign("Failed to start ", Runtime, RuntimeUnresponsive, Medium).with(RUNTIME_UNITS),
    sign("ailed at step ", Runtime, RuntimeUnresponsive, Medium)
        .with(&["containerd.service: ", "docker.service: ", "crio.service: "])
        // containerd's unit loads a module first, which may fail.
        .without(&["/modprobe"]),
    // systemd stops a service that is asked to end with status 0.
    sign(
        "ain process exited, code=exited, status=",
        Runtime,
        RuntimeUnresponsive,
        Low,
    )
    .with(&["containerd.service: ", "docker.service: ", "crio.service: "])
    .without(&["status=0/", "cri-docker.service"]),
    // It has crashed, and nobody has ended it.
    sign(
        "ain process exited, code=",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["containerd.service: ", "docker.service: ", "crio.service: "])
    .without(&[
        "code=exited",
        "status=9/KILL",
        "status=15/TERM",
        "cri-docker.service",
    ]),
    sign(
        "(500): engine is shutdown",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign("ctr: failed to dial ", Runtime, RuntimeUnresponsive, Medium)
        .with(&[".sock\": context deadline exceeded"]),
    // Talos.
    sign(
        "error connecting to CRI: context deadline exceeded",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    // K3s and RKE2, which wait so for a moment at each start.
    sign(
        "Waiting for cri connection: ",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .lines(5),
    // K3s and RKE2, of the containerd that they have started.
    sign("containerd exited: ", Runtime, RuntimeUnresponsive, Medium)
        .with(&["signal: killed", "exit status"]),
    // Talos.
    sign(
        "going to restart forever",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["service[cri]", "service[containerd]"])
    .lines(2),
    // The agent of ECS.
    sign(
        "DockerTimeoutError for 'docker stop'",
        Runtime,
        ContainerLock,
        Medium,
    ),
    sign(
        "CannotInspectContainerError: Could not transition to inspecting; timed out",
        Runtime,
        ContainerLock,
        Medium,
    ),
    sign(
        "getting status of runtime: rpc error: code = Unimplemented",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
    sign(
        "Status from runtime service failed",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["code = Unimplemented"]),
    // A start says so two or three times.
    sign(
        "Waiting for containerd startup: ",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .lines(5),
    sign(
        "validate service connection: ",
        Runtime,
        RuntimeUnresponsive,
        High,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"])
    .without(&["permission denied"]),
    sign(
        "daemon-containerd is not running",
        Runtime,
        RuntimeUnresponsive,
        High,
    ),
    sign(
        "listing containers failed: rpc error",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    // GKE's, kops' and Gardener's monitors, before they kill it.
    sign("Container runtime ", Runtime, RuntimeUnresponsive, Medium).with(&[
        "containerd failed!",
        "docker failed!",
        "crio failed!",
    ]),
    sign("cooldown period of ", Runtime, RepairLoop, Medium)
        .with(&["exceeded, repairing"])
        .lines(2),
    // Clients that are written in Python.
    sign(
        "UnixHTTPConnectionPool(host='localhost', port=None): Read timed out",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .lines(2),
    sign(
        "listing pod sandboxes failed: rpc error",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign(
        "ContainerRuntimeIsDown",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["is now: True"]),
    // Old containerd waits here for a CNI plugin.
    sign(
        "getting status of runtime: ",
        Runtime,
        RuntimeUnresponsive,
        Low,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign(
        "Version from runtime service failed",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&[
        "unknown service runtime.RuntimeService",
        "unknown service runtime.v1alpha2",
    ]),
    // K3s ends with it.
    sign(
        "containerd: exit status ",
        Runtime,
        RuntimeUnresponsive,
        Medium,
    ),
];
