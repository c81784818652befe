//! The faults of a soak.

use std::time::Duration;

use rustix::process::Signal;
use testbed_driver::{Driver, HeldUpdate};
use tokio::time::sleep;

use super::churn::LOCKED;
use super::node::Node;

/// The faults in their order, which is repeated.
pub(super) const FAULTS: [Fault; 10] = [
    Fault::StatusLock,
    Fault::GuardKilledInStatusLock,
    Fault::RuntimeRestarted,
    Fault::GuardUpgradedInStatusLock,
    Fault::AgentKilled,
    Fault::RuncHangs,
    Fault::GuardUpgraded,
    Fault::NetworkPluginHangs,
    Fault::RuntimeSlow,
    Fault::GuardKilled,
];

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// One shim is stopped while containerd holds the status lock of its container.
    StatusLock,
    /// `StatusLock`, during which the guard is killed and started again.
    GuardKilledInStatusLock,
    /// `StatusLock`, during which the guard is ended with SIGTERM and started again.
    GuardUpgradedInStatusLock,
    /// containerd is killed and started again.
    RuntimeRestarted,
    /// containerd runs for only 40 % of the time.
    RuntimeSlow,
    /// runc hangs before it creates a container.
    RuncHangs,
    /// A CNI plugin hangs.
    NetworkPluginHangs,
    /// The guard is ended with SIGTERM, and a new one takes its socket.
    GuardUpgraded,
    /// The guard is ended with SIGKILL, and a new one takes its socket.
    GuardKilled,
    /// The agent is ended with SIGKILL and started again.
    AgentKilled,
}

impl Fault {
    fn needs_lock(self) -> bool {
        let with_lock = [
            Self::StatusLock,
            Self::GuardKilledInStatusLock,
            Self::GuardUpgradedInStatusLock,
        ];
        with_lock.contains(&self)
    }

    /// The signal that ends the guard during the fault, if one does.
    fn guard_signal(self) -> Option<Signal> {
        match self {
            Self::GuardKilled | Self::GuardKilledInStatusLock => Some(Signal::KILL),
            Self::GuardUpgraded | Self::GuardUpgradedInStatusLock => Some(Signal::TERM),
            _ => None,
        }
    }

    /// Begins the fault, waits for `time`, and ends it. Returns whether the fault had an effect.
    pub(super) async fn perform(
        self,
        node: &mut Node,
        direct: &Driver,
        mode: &str,
        time: Duration,
    ) -> testbed_driver::Result<bool> {
        let (verb, end): (&[&str], &[&str]) = match self {
            Self::RuntimeRestarted => (&["restart"], &[]),
            Self::RuntimeSlow => (&["slow", "60"], &["slow", "off"]),
            Self::RuncHangs => (&["runc-stuck", "create"], &["runc-free"]),
            Self::NetworkPluginHangs => (&["cni-hang"], &["cni-free"]),
            _ => (&[], &[]),
        };
        let lock = match self.needs_lock() {
            true => Some(Lock::take(node, direct).await?),
            false => None,
        };
        if !verb.is_empty() {
            node.testbed.verb(verb).await?;
        }
        if self == Self::AgentKilled {
            node.replace_agent();
        }
        sleep(time / 2).await;
        if let Some(signal) = self.guard_signal() {
            node.replace_guard(signal, mode).await;
        }
        sleep(time / 2).await;
        if !end.is_empty() {
            node.testbed.verb(end).await?;
        }
        match lock {
            Some(lock) => lock.release(node).await,
            None => Ok(true),
        }
    }
}

/// The status lock of the container in the pod `LOCKED`.
struct Lock {
    sandbox: String,
    update: HeldUpdate,
}

impl Lock {
    async fn take(node: &Node, direct: &Driver) -> testbed_driver::Result<Self> {
        let pods = direct.pods().await?;
        let pod = pods
            .into_iter()
            .rfind(|pod| pod.name == LOCKED && pod.ready);
        let pod = pod.ok_or_else(|| testbed_driver::Error::NoPod(LOCKED.to_owned()))?;
        node.testbed.verb(&["shim-stop", &pod.sandbox_id]).await?;
        let update = direct.hold_update(pod.id("app")?).await;
        Ok(Self {
            sandbox: pod.sandbox_id,
            update,
        })
    }

    async fn release(self, node: &Node) -> testbed_driver::Result<bool> {
        let held = self.update.is_held();
        node.testbed.verb(&["shim-cont", &self.sandbox]).await?;
        self.update.answered().await?;
        Ok(held)
    }
}
