//! Lines that prove a cause, or make one suspect it: tables by who writes them, and one
//! search for all of them at once, so that a line without any costs next to nothing.
//!
//! ```
//! use analyze::signs::Signs;
//! use causes::Cause;
//!
//! let signs = Signs::new();
//! let found = signs.find(b"accept4: too many open files; retrying in 1s");
//! let causes: Vec<Cause> = found.signs.iter().map(|index| signs.sign(*index).cause).collect();
//! assert_eq!(causes, [Cause::FdOrInotifyExhausted]);
//! ```

mod beside;
mod bus;
mod callers;
mod failures;
mod kernel;
mod kubelet;
mod lasting;
mod limits;
mod others;
mod resources;
mod runc;
mod runtime;
mod search;
mod starts_and_stops;
mod systemd;

use causes::Cause;
use causes::finding::Confidence;

use crate::kind::Writer;
use beside::Beside;
use search::Search;
use starts_and_stops::STARTS_AND_STOPS;

use failures::FAILURES;
pub(crate) use failures::FATAL;
pub use failures::{Counted, Failure};
use lasting::LASTING;

/// A text that tells of a cause.
#[derive(Clone, Copy, Debug)]
pub struct Sign {
    /// What to look for.
    pub text: &'static str,
    /// One of these must be in the line, too; empty is no condition.
    pub with: &'static [&'static str],
    /// None of these may be in the line.
    pub without: &'static [&'static str],
    /// Who writes such lines.
    pub writer: Writer,
    /// What it tells of.
    pub cause: Cause,
    /// How sure that is.
    pub confidence: Confidence,
    /// So many lines are needed before it says anything: some are usual once, at a start.
    pub lines: u64,
    /// Lines that are further apart than so many seconds, on average, say nothing.
    pub apart_seconds: Option<i64>,
    /// Lines about several containers say nothing.
    pub of_one: bool,
    /// It only names a release that has a fault, which says nothing without a symptom.
    pub is_release: bool,
}

pub(crate) const fn sign(
    text: &'static str,
    writer: Writer,
    cause: Cause,
    confidence: Confidence,
) -> Sign {
    Sign {
        text,
        with: &[],
        without: &[],
        writer,
        cause,
        confidence,
        lines: 1,
        apart_seconds: None,
        of_one: false,
        is_release: false,
    }
}

/// A line that names a kernel release with a fault.
pub(crate) const fn release(text: &'static str) -> Sign {
    let mut sign = sign(
        text,
        Writer::Kernel,
        Cause::KernelRegression,
        Confidence::Low,
    );
    sign.is_release = true;
    sign
}

impl Sign {
    pub(crate) const fn with(mut self, with: &'static [&'static str]) -> Self {
        self.with = with;
        self
    }

    pub(crate) const fn without(mut self, without: &'static [&'static str]) -> Self {
        self.without = without;
        self
    }

    pub(crate) const fn lines(mut self, lines: u64) -> Self {
        self.lines = lines;
        self
    }

    pub(crate) const fn of_one(mut self) -> Self {
        self.of_one = true;
        self
    }

    pub(crate) const fn apart_seconds(mut self, seconds: i64) -> Self {
        self.apart_seconds = Some(seconds);
        self
    }
}

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

const INTERESTS: [(&str, Interest); 74] = [
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

/// What the row of a warning contains in a table of events.
const EVENT_ROWS: &[&str] = &["Warning ", "Warning\t"];

/// Those that tell how a line is to be read, and nothing of the node.
const OF_FORM: u32 = Interest::OtherProgram.bit()
    | Interest::Carrier.bit()
    | Interest::Dump.bit()
    | Interest::Error.bit();

impl Interest {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// What was found in a line.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// For [`Signs::sign`].
    pub signs: Vec<usize>,
    /// The cause of each of them.
    pub causes: Vec<Cause>,
    /// What failed, for an unknown reason.
    pub failure: Option<&'static Failure>,
    /// What else, a bit for each.
    interests: u32,
}

impl Found {
    /// Whether the line tells nothing of the node.
    pub fn is_nothing(&self) -> bool {
        self.signs.is_empty() && self.interests & !OF_FORM == 0
    }

    /// Whether it also has nothing by which it would be read in another way.
    pub fn is_nothing_at_all(&self) -> bool {
        self.signs.is_empty() && self.interests == 0
    }

    fn failed(&mut self, (failure, beside): &(&'static Failure, Beside), line: &[u8]) {
        if self.failure.is_none() && beside.holds(line) {
            self.failure = Some(failure);
            self.interests |= Interest::Failure.bit();
        }
    }

    /// Whether it is of this interest.
    pub fn is(&self, interest: Interest) -> bool {
        self.interests & interest.bit() != 0
    }
}

/// All signs, and the search for them.
#[derive(Debug)]
pub struct Signs {
    table: Vec<(Sign, Beside)>,
    failures: Vec<(&'static Failure, Beside)>,
    search: Search,
}

impl Signs {
    /// Builds the search.
    pub fn new() -> Self {
        let tables = [
            kubelet::SIGNS,
            resources::SIGNS,
            runtime::SIGNS,
            runc::SIGNS,
            callers::SIGNS,
            others::SIGNS,
            systemd::SIGNS,
            bus::SIGNS,
            limits::SIGNS,
            kernel::SIGNS,
        ];
        let table = tables.into_iter().flatten();
        let table = table.map(|sign| (*sign, Beside::new(sign.with, sign.without)));
        let table: Vec<_> = table.collect();
        let texts = table.iter().map(|(sign, _)| sign.text);
        let texts = texts.chain(INTERESTS.iter().map(|(text, _)| *text));
        let failures = FAILURES.into_iter().chain([STARTS_AND_STOPS, LASTING]);
        let failures = failures.flatten();
        let failures =
            failures.map(|failure| (failure, Beside::new(failure.with, failure.without)));
        let failures: Vec<_> = failures.collect();
        let texts = texts.chain(failures.iter().map(|(failure, _)| failure.text));
        let search = Search::new(texts.collect());
        Self {
            table,
            failures,
            search,
        }
    }

    /// The sign of this index.
    pub fn sign(&self, index: usize) -> &Sign {
        &self.table[index].0
    }

    /// Everything that is looked for.
    #[cfg(test)]
    pub(crate) fn needles(&self) -> impl Iterator<Item = &'static str> {
        let signs = self
            .table
            .iter()
            .map(|(sign, _)| (sign.text, sign.with, sign.without));
        let failures = self.failures.iter();
        let failures = failures.map(|(failure, _)| (failure.text, failure.with, failure.without));
        let all = signs.chain(failures).collect::<Vec<_>>().into_iter();
        let all = all.flat_map(|(text, with, without)| [&[text], with, without].concat());
        all.chain(INTERESTS.iter().map(|(text, _)| *text))
    }

    /// What is in the line.
    pub fn find(&self, line: &[u8]) -> Found {
        let mut found = Found::default();
        self.search.each(line, |index| {
            let Some((sign, beside)) = self.table.get(index) else {
                let index = index - self.table.len();
                match INTERESTS.get(index) {
                    Some((_, interest)) => found.interests |= interest.bit(),
                    None => found.failed(&self.failures[index - INTERESTS.len()], line),
                }
                return;
            };
            if beside.holds(line) {
                found.signs.push(index);
                found.causes.push(sign.cause);
            }
        });
        found
    }
}

impl Default for Signs {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(line: &str) -> Vec<Cause> {
        let signs = Signs::new();
        let found = signs.find(line.as_bytes());
        found
            .signs
            .iter()
            .map(|index| signs.sign(*index).cause)
            .collect()
    }

    #[test]
    fn lines_that_prove_a_cause_are_found() {
        for (line, cause) in [
            (
                "Failed to propagate agent release message: Operation not supported",
                Cause::SystemdCookieOverflow,
            ),
            (
                "grpc: trying to send message larger than max (16795768 vs. 16777216)",
                Cause::ListExceedsGrpcLimit,
            ),
            (
                "unregister_netdevice: waiting for lo to become free. Usage count = 1",
                Cause::RtnlStuck,
            ),
            ("accept4: too many open files", Cause::FdOrInotifyExhausted),
            (
                "inotify_add_watch /sys/fs/cgroup/memory/x: no space left on device",
                Cause::FdOrInotifyExhausted,
            ),
            (
                "\"Eviction manager: attempting to reclaim\" resourceName=\"ephemeral-storage\"",
                Cause::DiskFull,
            ),
            (
                "eviction manager: attempting to reclaim memory",
                Cause::MemoryThrash,
            ),
            (
                "err=\"Failed to garbage collect required amount of images. Attempted to free 9 \
                 bytes, but only found 0 bytes eligible to free.\"",
                Cause::DiskFull,
            ),
            (
                "fs: disk usage and inodes count on following dirs took 2m3.1s: [/var/lib/x]",
                Cause::DiskSaturated,
            ),
            (
                "error loading seccomp filter: errno 524",
                Cause::KernelRegression,
            ),
            (
                "mkdir /sys/fs/cgroup/memory/kubepods/x: no space left on device",
                Cause::MemoryCgroupLeak,
            ),
            ("write /var/lib/x: no space left on device", Cause::DiskFull),
            (
                "nfs: server 10.0.0.1 not responding, still trying",
                Cause::StorageUnresponsive,
            ),
            (
                "Event channel is full, discard this relist() cycle event",
                Cause::KubeletInternal,
            ),
        ] {
            assert_eq!(causes(line), [cause], "{line}");
        }
    }

    #[test]
    fn what_every_node_says_is_no_sign() {
        for line in [
            "Memory cgroup out of memory: Killed process 12 (java)",
            "cleaning up dead shim",
            "fs: disk usage and inodes count on following dirs took 1.231s: [/var/lib/x]",
            "Disk usage on image filesystem is over the high threshold, trying to free bytes",
            "inotify_add_watch /x: no such file or directory",
            "Container abc failed to exit within 10 seconds of signal 15 - using the force",
            "SyncLoop (PLEG): \"pod_ns(uid)\", event: &pleg.PodLifecycleEvent{}",
        ] {
            assert_eq!(causes(line), [], "{line}");
        }
    }

    #[test]
    fn a_line_is_of_several_interests() {
        let line = "PLEG: Ignoring events for pod a/b: pleg was last seen active 4m";
        let found = Signs::new().find(line.as_bytes());
        assert!(found.is(Interest::Pleg) && found.is(Interest::Call) && !found.is(Interest::Start));
    }
}
