//! Reads the machine into [`HostFacts`].
//!
//! ```text
//!   first sample  -- wait -->  second sample          values that change: processes, disks, pressure
//!   bus, versions, mounts, logs                       other values, read meanwhile
//!   helpers: processes, stacks, fanotify, space, …    reads that may block in the kernel
//! ```

use std::path::PathBuf;
use std::time::Duration;

use pleg_text::WallTime;

use super::helper::Helpers;
use super::step::Step;
use crate::facts::Fact;
use crate::facts::host::{BusFacts, Gaps, HostFacts, Process};
use crate::limits::LOGS_OF;

mod api_server;
mod bus;
mod cni;
mod file;
mod guarded;
mod kernel_log;
mod kubeconfig;
mod kubelet_files;
mod limits;
mod logs;
mod mounts;
pub(in crate::collect) mod process;
mod resources;
mod samples;
mod sockets;
mod storage;
mod versions;

use api_server::Reporting;
use sockets::Holders;

pub(super) use file::text_of;
pub(super) use process::read_stat;

/// A machine, as directories: the real one, or one that was built for a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/run`.
    pub run: PathBuf,
    /// `/etc`.
    pub etc: PathBuf,
    /// `/var`.
    pub var: PathBuf,
    /// `/usr`.
    pub usr: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// Local directories whose free space and inodes are read.
    pub roots: Vec<PathBuf>,
    /// Whether this is the machine on which the doctor runs, so that its kernel can be queried directly,
    /// not only through files.
    pub asks_kernel: bool,
    /// How long a step may take.
    pub step: Duration,
    /// How far back logs are read; `None` if they are not read.
    pub logs: Option<Duration>,
}

/// The directories to which runc, the runtimes, the kubelet and logs write.
const ROOTS: [&str; 7] = [
    "",
    "run",
    "var/lib/containerd",
    "var/lib/containers",
    "var/lib/docker",
    "var/lib/kubelet",
    "var/log",
];

impl Host {
    /// The machine with this root directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            proc: root.join("proc"),
            sys: root.join("sys"),
            run: root.join("run"),
            etc: root.join("etc"),
            var: root.join("var"),
            usr: root.join("usr"),
            dev: root.join("dev"),
            roots: ROOTS.iter().map(|folder| root.join(folder)).collect(),
            asks_kernel: false,
            step: Duration::from_secs(5),
            logs: Some(LOGS_OF),
        }
    }

    /// This machine.
    pub fn local() -> Self {
        Self {
            asks_kernel: true,
            ..Self::at("/")
        }
    }
}

/// Collects all facts. `wait` lets time pass between the two samples and returns how much.
pub fn collect(host: &Host, helpers: &mut Helpers, wait: impl FnOnce() -> Duration) -> HostFacts {
    let limit = host.step;
    // The processes are read before all else, so that none appears busy because of the doctor.
    let census = process::census(host, helpers);
    let processes = census.value().map_or(&[][..], |census| &census.processes);
    let services = bus::wanted(processes);
    let daemons = processes.iter().filter(|process| process.is_daemon());
    let daemons: Vec<Process> = daemons.cloned().collect();
    let first = step(host, move |host| samples::first(host, daemons)).finish();
    let bus = Step::start(bus::TIME_LIMIT + limit + bus::GRACE, {
        let host = host.clone();
        move || bus::collect(&host, &services)
    });
    let fds = processes.iter().filter_map(|process| process.fds.value());
    let roots: Vec<String> = fds.filter_map(|fds| fds.root.clone()).collect();
    let mounts = step(host, move |host| mounts::read(host, &roots));
    let log = step(host, kernel_log::read);
    let versions = step(host, versions::read);
    let cni = step(host, cni::read);
    let kubelet_files = step(host, kubelet_files::read);
    let reporting = step(host, api_server::ask);
    let limits = step(host, limits::read);
    let logs = host.logs.map(|period| {
        let mut helpers = helpers.take_one();
        let kubelets = processes.iter().filter(|process| process.is_kubelet());
        let kubelets = kubelets.map(|kubelet| kubelet.pid).collect();
        step(host, move |host| {
            logs::read(host, &mut helpers, period, kubelets, WallTime::now())
        })
    });
    let elapsed = wait();

    let (processes, holders, gaps) = match census {
        Fact::Known { mut value, source } => {
            value.add_second_sample(host, helpers, samples::seconds(elapsed));
            (
                Fact::known(value.processes, source),
                value.holders,
                value.gaps,
            )
        }
        Fact::Missing { why, source } => (
            Fact::missing(why, source),
            Holders::default(),
            Gaps::default(),
        ),
    };
    let both = first
        .and_then(|first| step(host, move |host| samples::second(host, first, elapsed)).finish());
    let mut facts = both.unwrap_or_else(|why| samples::missing(&why, &host.proc));
    if let Fact::Missing { why, source } = &processes {
        // Without the processes, the daemons' control groups are not known.
        facts.cgroups.throttled = Fact::missing(why, source);
        facts.cgroups.memory_limits = Fact::missing(why, source);
    }
    facts.processes = processes;
    facts.gaps = gaps;
    facts.mounts = finished(host, mounts);
    facts.kernel_log = finished(host, log);
    facts.cni = finished(host, cni);
    facts.kubelet_files = finished(host, kubelet_files);
    let reporting = reporting.finish();
    let reporting = reporting.unwrap_or_else(|why| Reporting::missing(&why));
    facts.client_certificate = reporting.client_certificate;
    facts.api_server = reporting.api_server;
    if let Some(logs) = logs {
        facts.logs = finished(host, logs);
    }
    facts.versions = versions.finish().unwrap_or_default();
    facts.capabilities = process::capabilities(host);
    facts.limits = limits.finish().unwrap_or_default();
    let in_container = guarded::collect(host, helpers, &mut facts);
    facts.sockets = sockets::read(host, helpers, &facts, &holders);
    add_threads(host, helpers, &mut facts);
    facts.bus = bus.finish().unwrap_or_else(|why| BusFacts {
        reach: Fact::missing(&why, host.run.display().to_string()),
        ping: Fact::missing(&why, host.run.display().to_string()),
        services: Fact::missing(&why, host.run.display().to_string()),
        ..BusFacts::default()
    });
    if in_container {
        bus::leave_open_in_container(&mut facts.bus);
        let why = "the doctor runs in a container";
        facts.kubelet_files = Fact::missing(why, facts.kubelet_files.source().to_owned());
    }
    facts
}

/// Adds the threads of processes that daemons have started, such as CNI plugins, and of the processes that
/// these are connected to: their threads show what they wait for.
fn add_threads(host: &Host, helpers: &mut Helpers, facts: &mut HostFacts) {
    let mut of = sockets::started_by_daemons(facts.all_processes());
    if let Some(sockets) = facts.sockets.value() {
        let talks = sockets.talks.iter().filter(|talk| talk.pid != 1);
        of.extend(talks.filter_map(|talk| talk.with));
    }
    if let Fact::Known { value, .. } = &mut facts.processes {
        let gaps = process::add_threads(host, helpers, value, &of);
        facts.gaps.extend(gaps);
    }
}

fn step<T: Send + 'static>(host: &Host, work: impl FnOnce(&Host) -> T + Send + 'static) -> Step<T> {
    let host = host.clone();
    Step::start(host.step, move || work(&host))
}

fn finished<T: Send + 'static>(host: &Host, step: Step<Fact<T>>) -> Fact<T> {
    let missing = |why| Fact::missing(why, host.proc.display().to_string());
    step.finish().unwrap_or_else(missing)
}
