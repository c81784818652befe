//! Texts that are looked for in every line whatever they support: how a line is read further.

/// What else is looked for: lines that are read further, whatever they turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// A sentence about the PLEG.
    Pleg,
    /// A call to the runtime that failed.
    Call,
    /// The kubelet has started.
    Start,
    /// It tells the year or the zone.
    Calendar,
    /// A connection that failed.
    Connection,
    /// The runtime answers.
    Answered,
    /// The kubelet gives up telling the API server how the node is.
    ApiServer,
    /// A file of another program's that writes as a kubelet does.
    OtherProgram,
    /// The journal's JSON, which carries a line of a log.
    Carrier,
    /// A dump of goroutines within one message.
    Dump,
    /// Something failed; the line does not tell why.
    Failure,
    /// Talos tells how one of its services is.
    Service,
    /// The runtime has started.
    RuntimeStart,
    /// The kubelet reports that the node is ready.
    Ready,
    /// The kubelet reports that the node is not ready.
    NotReady,
    /// The API server has taken the kubelet's node.
    Registered,
    /// The program that wrote the line calls it an error.
    Error,
}

pub(super) const INTERESTS: [(&str, Interest); 74] = [
    ("pleg was last seen active", Interest::Pleg),
    ("pleg has yet to be successful", Interest::Pleg),
    ("from runtime service failed", Interest::Call),
    ("GenericPLEG: Unable to retrieve pods", Interest::Call),
    ("PodSandboxStatus of sandbox", Interest::Call),
    ("ContainerStatus for ", Interest::Call),
    ("Failed to get container status", Interest::Call),
    ("ListContainers failed", Interest::Call),
    ("ListPodSandbox failed", Interest::Call),
    ("PLEG: Ignoring events for pod", Interest::Call),
    ("container status from runtime", Interest::Call),
    ("Container garbage collection failed", Interest::Call),
    ("listing containers: ", Interest::Call),
    ("failed to list all containers", Interest::Call),
    ("failed to list all pod sandboxes", Interest::Call),
    ("listing pod sandboxes: ", Interest::Call),
    ("getting the status of the container", Interest::Call),
    ("Container runtime initialized", Interest::Answered),
    ("it just became ready", Interest::Answered),
    ("NodeReady", Interest::Answered),
    ("NodeReady", Interest::Ready),
    ("NodeNotReady", Interest::NotReady),
    ("ode became not ready", Interest::NotReady),
    ("containerd successfully booted", Interest::Answered),
    ("ontainerd is now running", Interest::Answered),
    ("containerd successfully booted", Interest::RuntimeStart),
    ("API listen on ", Interest::Answered),
    ("API listen on ", Interest::RuntimeStart),
    ("aemon has completed initialization", Interest::Answered),
    (
        "update node status exceeds retry count",
        Interest::ApiServer,
    ),
    ("rror while dialing", Interest::Connection),
    ("connection refused", Interest::Connection),
    ("dial unix ", Interest::Connection),
    ("dial unix: missing address", Interest::Connection),
    ("code = Unavailable", Interest::Connection),
    ("the connection is unavailable", Interest::Connection),
    ("container runtime is down", Interest::Connection),
    ("transport is closing", Interest::Connection),
    ("error reading from server: EOF", Interest::Connection),
    ("connection reset by peer", Interest::Connection),
    ("Cannot connect to the Docker daemon", Interest::Connection),
    ("annot connect to the docker daemon", Interest::Connection),
    ("server is not initialized yet", Interest::Connection),
    ("annot connect to Docker endpoint", Interest::Connection),
    ("Starting kubelet main sync loop", Interest::Start),
    // From none: its node was new to it, or it was itself.
    ("Setting Pod CIDR:  -> ", Interest::Start),
    ("Started kubelet", Interest::Start),
    ("Starting kubelet", Interest::Start),
    ("Started Kubernetes Kubelet", Interest::Start),
    ("Kubelet version", Interest::Start),
    ("Started Kubelet", Interest::Start),
    ("Started kubelet:", Interest::Start),
    ("Running kubelet ", Interest::Start),
    ("Starting Kubelet Volume Manager", Interest::Start),
    ("LastHeartbeatTime", Interest::Calendar),
    ("Log file created at: ", Interest::Calendar),
    ("Logs begin at ", Interest::Calendar),
    ("Journal begins at ", Interest::Calendar),
    ("log_monitor.go", Interest::OtherProgram),
    ("log_buffer.go", Interest::OtherProgram),
    ("log_watcher", Interest::OtherProgram),
    ("problem_detector.go", Interest::OtherProgram),
    ("custom_plugin_monitor.go", Interest::OtherProgram),
    (" plugin.go:", Interest::OtherProgram),
    ("k8s_exporter.go", Interest::OtherProgram),
    ("system_stats_monitor.go", Interest::OtherProgram),
    ("\"MESSAGE\"", Interest::Carrier),
    ("goroutine stack dump", Interest::Dump),
    ("[talos] service[", Interest::Service),
    ("uccessfully registered node", Interest::Registered),
    ("level=error", Interest::Error),
    ("level=fatal", Interest::Error),
    ("\"level\":\"error\"", Interest::Error),
    ("\"level\":\"fatal\"", Interest::Error),
];

/// Those that tell how a line is to be read, and nothing of the node.
pub(super) const OF_FORM: u32 = Interest::OtherProgram.bit()
    | Interest::Carrier.bit()
    | Interest::Dump.bit()
    | Interest::Error.bit();

impl Interest {
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}
