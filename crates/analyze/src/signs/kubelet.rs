//! What the kubelet writes of itself, of pods and of the runtime.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, sign};
use crate::kind::Writer::Kubelet;

const LATE: &[&str] = &[
    "DeadlineExceeded",
    "deadline exceeded",
    "timeout",
    "timed out",
];

/// A plugin that tells what it could not reach does not hang.
const TOLD: &[&str] = &["i/o timeout"];

pub(super) const SIGNS: &[Sign] = &[
    sign("panic: runtime error: ", Kubelet, KubeletInternal, Medium).with(&["kubelet"]),
    sign(": fatal error: ", Kubelet, KubeletInternal, Medium)
        .with(&["kubelet[", "kubelet-wrapper[", " kubelet: "])
        .without(&["out of memory", "OS thread", "pthread_create", "newosproc"]),
    // Another kubelet has it, and whatever starts this one goes on.
    sign("bind: address already in use", Kubelet, RepairLoop, Low)
        .with(&[":10250", ":10255", ":10248"])
        .lines(3),
    // A request on a connection that the kubelet itself has closed, and does not give up.
    sign(
        "use of closed network connection",
        Kubelet,
        KubeletInternal,
        Medium,
    )
    .with(&["write tcp "])
    .lines(2),
    // Or for each status of its node.
    sign("error getting node ", Kubelet, KubeletInternal, Medium)
        .with(&["use of closed network connection"])
        .lines(2),
    // A stack of which the head is missing.
    sign("/src/runtime/panic.go:", Kubelet, KubeletInternal, Medium).with(&["kubelet: /"]),
    // Before 1.6.
    sign("Recovered from panic: ", Kubelet, KubeletInternal, Medium),
    sign("Observed a panic: ", Kubelet, KubeletInternal, Medium)
        // How net/http ends a request whose client has gone, or that takes too long.
        .without(&[
            "abort Handler",
            "timed out",
            "context canceled",
            "-manager-",
        ]),
    sign(
        "trying to send message larger than max",
        Kubelet,
        ListExceedsGrpcLimit,
        Certain,
    )
    // The limits of etcd, and of a program that has set none.
    .without(&["2097152)", "2147483647)"]),
    sign(
        "message after decompression larger than max",
        Kubelet,
        ListExceedsGrpcLimit,
        Medium,
    ),
    // node-problem-detector's health checker restarts a kubelet again and again.
    sign(
        "component is unhealthy, proceeding to repair",
        Kubelet,
        RepairLoop,
        Medium,
    )
    .lines(2),
    // The plugin has waited for half a minute.
    sign(
        "failed to create cilium agent client after",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    sign("Is the agent running?", Kubelet, CniPluginHang, Medium)
        .with(&["ilium"])
        .lines(10),
    // Of a shim that has ended, and nobody has noticed.
    sign("ttrpc: closed", Kubelet, ShimUnresponsive, Low)
        .with(&["failed to stop "])
        .lines(2),
    sign("timed out locking store", Kubelet, CniPluginHang, Medium).lines(2),
    sign(
        "eceived message larger than max",
        Kubelet,
        ListExceedsGrpcLimit,
        Certain,
    )
    // The end of a line that was cut does not tell whose message that is.
    .with(&["rpc error: ", "ctr: ", "containers"])
    // What a device plug-in lists, or cAdvisor reads of one container, is no list of the runtime.
    .without(&[
        "listAndWatch",
        "ListAndWatch",
        "device plugin",
        "failed to load container",
        // The answer of some program's own API.
        "\"message\": \"rpc error",
    ]),
    sign(
        "message length too large",
        Kubelet,
        ListExceedsGrpcLimit,
        High,
    )
    .with(&["List", "grpc"]),
    sign(
        "vent channel is full, discard this relist",
        Kubelet,
        KubeletInternal,
        Medium,
    ),
    sign("evented.go:", Kubelet, KubeletInternal, Low)
        .with(&["EventedPLEG", "Evented PLEG", "evented pleg"])
        .lines(2),
    // Less than nothing of the whole node (of what pods may use there may be): it has counted wrong.
    sign("] observed -", Kubelet, KubeletInternal, High).with(&["signal=memory.available"]),
    // The update of a container's resources, once in ten seconds.
    sign("reconcileState: failed to ", Kubelet, ContainerLock, Medium)
        .with(&["DeadlineExceeded", "context deadline exceeded"]),
    sign(
        "dbus: connection closed by user",
        Kubelet,
        BusUnavailable,
        High,
    ),
    sign(
        "Timeout waiting for systemd to create",
        Kubelet,
        SystemdOverloaded,
        Medium,
    ),
    sign(
        "Timed out while waiting for StartUnit",
        Kubelet,
        SystemdOverloaded,
        Medium,
    ),
    sign(
        "Timed out while waiting for StopUnit",
        Kubelet,
        SystemdOverloaded,
        Low,
    )
    .lines(3),
    // It does not read what the bus has for it: it is too busy, or its serial numbers are used up.
    sign(
        "destination has a full message queue",
        Kubelet,
        SystemdOverloaded,
        Medium,
    ),
    sign(
        "destination has a full message queue",
        Kubelet,
        SystemdCookieOverflow,
        Low,
    ),
    sign(
        "container runtime is down",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .without(&[
        "pleg has yet to be successful",
        "may not have completed yet",
        "2562047h47m16",
    ])
    .lines(3),
    // The kubelet's words up to 1.2.
    sign(
        "container runtime is not up",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    ),
    sign(
        "unknown service runtime.v1.RuntimeService",
        Kubelet,
        RuntimeUnresponsive,
        High,
    )
    .lines(2),
    // The kubelet ends with it.
    sign(
        "validate CRI v1 runtime API for endpoint",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["unknown service"]),
    sign(
        "failed to run Kubelet: validate service connection: ",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["code = Unavailable"])
    .without(&["permission denied"]),
    sign(
        "unknown service runtime.v1alpha2.RuntimeService",
        Kubelet,
        RuntimeUnresponsive,
        High,
    )
    .lines(2),
    // The status of one pod's container or sandbox.
    sign("error determining status: ", Kubelet, ContainerLock, Low)
        .with(&["DeadlineExceeded", "context deadline exceeded"]),
    // What a plugin itself writes; that of AWS asks its daemon on the node.
    sign(
        "Retrying waiting for IPAM-D",
        Kubelet,
        CniPluginHang,
        Medium,
    )
    .lines(3),
    sign(
        "timed out waiting for IPAM daemon",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    sign("AddNetwork gRPC call", Kubelet, CniPluginHang, Low).with(&[":50051"]),
    sign("failed to connect service", Kubelet, CniPluginHang, Low)
        .with(&[":50051"])
        .lines(2),
    sign(
        "Cilium API client timeout exceeded",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    // Its agent, which has no place for the request of a plugin.
    sign(
        "Not processing API request. Wait duration for maximum parallel requests",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    // Calico, which asks the API server, for half a minute each time.
    sign(
        "error getting ClusterInformation",
        Kubelet,
        CniPluginHang,
        Low,
    )
    .with(&["i/o timeout"]),
    // A volume's plugin.
    sign(
        "kubernetes.io/csi: mounter.Set",
        Kubelet,
        StorageUnresponsive,
        Medium,
    )
    .with(&["code = DeadlineExceeded"]),
    // The same as the kubelet tells it of a volume; the first mount of a large one may be as slow.
    sign(
        "MountVolume.MountDevice failed for volume",
        Kubelet,
        StorageUnresponsive,
        Low,
    )
    .with(&["rpc error: code = DeadlineExceeded"]),
    sign(
        "MountVolume.SetUp failed for volume",
        Kubelet,
        StorageUnresponsive,
        Low,
    )
    .with(&["rpc error: code = DeadlineExceeded"])
    .without(&["kubernetes.io/csi: mounter.Set"]),
    // The target has let the node in, and the disk does not appear.
    sign(
        "Could not attach disk: Timeout after ",
        Kubelet,
        StorageUnresponsive,
        Low,
    ),
    // Multus, which asks its daemon on the node.
    sign(
        "Daemon not reachable over socketfile",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    // Multus: the plugin of the default network has not said that it is ready.
    sign(
        "waiting for readinessindicatorfile",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    sign(
        "waiting for ReadinessIndicatorFile",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    // OVN-Kubernetes: its controller has not told the plugin what to set up.
    sign(
        "timed out waiting for annotations",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    sign("subsys=cilium-cni", Kubelet, CniPluginHang, Medium)
        .with(LATE)
        .without(TOLD),
    sign("NetworkPlugin cni failed", Kubelet, CniPluginHang, Medium)
        .with(LATE)
        .without(TOLD),
    sign("networkPlugin cni failed", Kubelet, CniPluginHang, Medium)
        .with(LATE)
        .without(TOLD),
    // The dockershim's own words, behind which is only what the plugin said.
    sign("Error adding network: ", Kubelet, CniPluginHang, Medium)
        .with(LATE)
        .without(TOLD),
    sign("Error deleting network: ", Kubelet, CniPluginHang, Medium)
        .with(LATE)
        .without(TOLD),
    sign(
        "Error adding pod to network",
        Kubelet,
        CniPluginHang,
        Medium,
    )
    .with(LATE)
    .without(TOLD),
    sign(
        "Error deleting pod from network",
        Kubelet,
        CniPluginHang,
        Medium,
    )
    .with(LATE)
    .without(TOLD),
    sign(
        "failed to setup network for sandbox",
        Kubelet,
        CniPluginHang,
        Medium,
    )
    .with(LATE)
    .without(TOLD),
    sign(
        "skipping: rpc error: code = DeadlineExceeded",
        Kubelet,
        RuntimeUnresponsive,
        Low,
    )
    .lines(3),
    // The dockershim's words for a request to dockerd that got no answer.
    sign(
        "operation timeout: context deadline exceeded",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&[
        "failed to create a sandbox for pod",
        "runContainer: operation timeout",
        "failed to SyncPod: operation timeout",
        "Failed to stop sandbox ",
    ]),
    // cAdvisor's, while the kubelet starts.
    sign(
        "Timeout trying to communicate with docker during initialization",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    ),
    // The runtime waits for its plugins no longer.
    sign(
        "netplugin failed with no error message: signal: killed",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    // What ovn-kubernetes answers its plugin.
    sign("timed out waiting for OVS", Kubelet, CniPluginHang, Medium),
    sign(
        "timed out while waiting for OVS",
        Kubelet,
        CniPluginHang,
        Medium,
    ),
    sign(
        "failed to set up sandbox container",
        Kubelet,
        CniPluginHang,
        Low,
    )
    .with(LATE)
    .without(TOLD),
    sign(
        "failed to destroy network for sandbox",
        Kubelet,
        CniPluginHang,
        Medium,
    )
    .with(LATE)
    .without(TOLD),
    sign(
        "Housekeeping took longer than",
        Kubelet,
        TooManyContainers,
        Low,
    )
    .lines(3),
    sign(
        "housekeeping took longer than",
        Kubelet,
        TooManyContainers,
        Low,
    )
    .lines(3),
    sign("name is reserved", Kubelet, ContainerLock, Low).lines(3),
    // Since 1.20.
    sign(
        "ReconcileState: failed to ",
        Kubelet,
        ContainerStatusLock,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign(
        "UpdateContainerResources from runtime service failed",
        Kubelet,
        ContainerStatusLock,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign("Failed cleaning pods", Kubelet, RuntimeUnresponsive, Medium)
        .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign(
        "failed to get imageFs stats: ",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign(
        "getPodContainerStatuses for pod",
        Kubelet,
        ContainerLock,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    // dockerd's words alone: the Status of old containerd waits for a CNI plugin.
    sign(
        "Container runtime sanity check failed",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["operation timeout", "failed to get docker version"])
    .without(&["Cannot connect", "connection refused"]),
    sign(
        "Version from runtime service failed",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign(
        "runtime version failed",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign(
        "unable to determine runtime API version",
        Kubelet,
        RuntimeUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"]),
    sign(": panic: ", Kubelet, KubeletInternal, Medium)
        .with(&["kubelet[", " kubelet: ", "kubelet-wrapper["])
        .without(&["panic: runtime error"]),
    // A slow disk does so once.
    sign(
        "kubelet  Error: context deadline exceeded",
        Kubelet,
        ContainerLock,
        Low,
    )
    .with(&["Failed "])
    .lines(2),
    sign(
        "\"Error syncing pod, skipping\"",
        Kubelet,
        ContainerLock,
        Low,
    )
    .with(&["err=\"rpc error: code = DeadlineExceeded"])
    .lines(3),
    // In an event or a status whose head was cut.
    sign(
        "with KillContainerError: ",
        Kubelet,
        ShimUnresponsive,
        Medium,
    )
    .with(&["context deadline exceeded", "DeadlineExceeded"])
    // A whole line of the log is read as a call that failed.
    .without(&["Error syncing pod"]),
    // The shim has ended, or has closed its connection.
    sign("ttrpc: closed", Kubelet, ShimUnresponsive, Low)
        .with(&["failed to start containerd task"]),
];
