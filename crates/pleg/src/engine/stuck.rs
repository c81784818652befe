//! Which calls are stuck. A status call is stuck only if later calls were answered. For lists and
//! `Version` a time limit decides.
//!
//! | call | stuck when |
//! |---|---|
//! | status call | [`Ledger::advance`](base::ledger::Ledger::advance): three later calls of its kind were answered, or, after a longer time, one of any kind |
//! | list | [`Relister::stuck`]: it takes longer than is usual on this node ([`Punctuality::stuck_after`]) |
//! | `Version` | it takes longer than both lists may |
//!
//! A *culprit* is a stuck status call: its container or sandbox.
//!
//! [`Relister::stuck`]: super::relister::Relister::stuck
//! [`Punctuality::stuck_after`]: super::lister::Punctuality::stuck_after

use super::lists::Ages;
use super::state::Engine;
use crate::model::id::{PodRef, PodUid};
use crate::runtime::{About, OutstandingCall, Rpc};

impl Engine {
    /// The stuck calls, those for the whole node first. While the runtime `is_unresponsive`, a stuck
    /// status call is no evidence against its container.
    pub(super) fn stuck(&self, ages: Ages, is_unresponsive: bool) -> Vec<OutstandingCall> {
        let stuck = self.relister.stuck(ages);
        let overdue = self.relister.version_overdue_after();
        let lists = ages.oldest_list();
        let version = ages.version.filter(|age| {
            // Beside a stuck list, `Version` is sent as a heartbeat. It is reported only if it is
            // older.
            *age >= overdue && (!stuck.any() || Some(*age) > lists)
        });
        let node = [
            (Rpc::Version, version.is_some()),
            (Rpc::ListPodSandbox, stuck.sandboxes),
            (Rpc::ListContainers, stuck.containers),
        ];
        let node = node.into_iter().filter_map(|(call, is_stuck)| {
            Some(OutstandingCall {
                about: About::node(call),
                since: self.ledger.node_call(call).filter(|_| is_stuck)?,
            })
        });
        let status_calls = self.stuck_status_calls().filter(|_| !is_unresponsive);
        node.chain(status_calls).collect()
    }

    /// The stuck status calls, with the pods that wait for them. A stuck id that no list has shown may
    /// belong to a listed pod, according to the host.
    pub(super) fn stuck_status_calls(&self) -> impl Iterator<Item = OutstandingCall> {
        let stuck = self.sent_and_stuck();
        stuck.map(|call| self.with_owner_from_host(call))
    }

    /// The pods with a stuck status call.
    pub(super) fn stuck_pods(&self) -> impl Iterator<Item = PodUid> {
        let calls = self.stuck_status_calls();
        calls.filter_map(|call| Some(call.about.pod?.uid))
    }

    /// The stuck status calls, with what was known of each id when the call was sent.
    pub(super) fn sent_and_stuck(&self) -> impl Iterator<Item = OutstandingCall> {
        self.ledger.stuck(|uid| self.records.knows(uid))
    }

    /// The call with a pod and a container name for people to read. If no list has shown the id
    /// yet, the host may know its pod. An event contains the pod of a container, but not the
    /// container's name.
    pub(super) fn with_owner_from_host(&self, call: OutstandingCall) -> OutstandingCall {
        let about = &call.about;
        let is_complete = about.pod.is_some()
            && (about.container.is_some() || about.call != Rpc::ContainerStatus);
        let owner = about.id.as_ref().filter(|_| !is_complete);
        let Some(owner) = owner.and_then(|id| self.sweeper.owner(id)) else {
            return call;
        };
        // If the host knows no UID (containerd 1.6), the pod is found by its name among the listed
        // ones.
        let has_its_name =
            |pod: &&PodRef| (&pod.namespace, &pod.name) == (&owner.pod.namespace, &owner.pod.name);
        let mut listed = self.records.listed().map(|listed| &listed.pod);
        let listed = listed
            .find(has_its_name)
            .filter(|_| owner.pod.uid.is_empty());
        let pod = about.pod.as_ref().or(listed).unwrap_or(&owner.pod);
        let about = About {
            pod: Some(pod.clone()),
            container: about.container.clone().or_else(|| owner.container.clone()),
            ..call.about
        };
        OutstandingCall { about, ..call }
    }
}
