//! The faults of a soak, each with its end.

use std::time::Duration;

use rustix::process::Signal;
use testbed_driver::{Driver, HeldUpdate};
use tokio::time::sleep;

use super::churn::LOCKED;
use super::node::Node;

/// In this order, again and again.
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

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// One shim is stopped while containerd holds the status lock of its container.
    StatusLock,
    /// The same, and the guard is killed in the middle of it.
    GuardKilledInStatusLock,
    /// The same, and the guard is replaced in the middle of it.
    GuardUpgradedInStatusLock,
    /// containerd is killed and started again.
    RuntimeRestarted,
    /// containerd runs for only 40 % of the time.
    RuntimeSlow,
    /// runc hangs before it creates a container.
    RuncHangs,
    /// A CNI plugin hangs.
    NetworkPluginHangs,
    /// SIGTERM, and a new guard on the same socket.
    GuardUpgraded,
    /// SIGKILL, and a new guard on the same socket.
    GuardKilled,
    /// SIGKILL, and a new agent.
    AgentKilled,
}

impl Fault {
    fn locks(self) -> bool {
        let locks = [
            Self::StatusLock,
            Self::GuardKilledInStatusLock,
            Self::GuardUpgradedInStatusLock,
        ];
        locks.contains(&self)
    }

    /// How the guard ends in the middle of it, if it does.
    fn ends_guard(self) -> Option<Signal> {
        match self {
            Self::GuardKilled | Self::GuardKilledInStatusLock => Some(Signal::KILL),
            Self::GuardUpgraded | Self::GuardUpgradedInStatusLock => Some(Signal::TERM),
            _ => None,
        }
    }

    /// Lets it begin, last for `time`, and end. Returns whether it took place.
    pub(super) async fn pass(
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
        let lock = match self.locks() {
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
        if let Some(signal) = self.ends_guard() {
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

/// The status lock of the container in the pod that is left alone.
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
