//! Answers of the runtime that lack an id that exists.

use std::collections::{BTreeMap, BTreeSet};

use cri::{Rpc, v1};
use guard::Kind;
use guard::core::Outcome;
use prost::Message;
use tokio::time::Instant;

use super::runtime::{Runtime, RuntimeCall, id_of};

#[derive(Debug, Default)]
pub struct Faults {
    /// The ids that the next list (`true`) or the next status (`false`) lacks.
    next: BTreeSet<(String, bool)>,
    /// The ids that answers have lacked, and that no call requested later has shown: how many answers
    /// lacked them, and when the last of these was requested.
    lacked: BTreeMap<String, (u32, Instant)>,
    /// The ids that lists have shown to the guard since its start.
    listed: BTreeSet<String>,
    /// When the newest call whose answer has shown the id to the guard was requested.
    shown: BTreeMap<String, Instant>,
    /// The number of answers that lacked an id that exists.
    pub count: u64,
}

impl Faults {
    /// Lets the next list or the next status lack this id.
    pub fn begin(&mut self, id: &str, by_list: bool) {
        self.next.insert((id.to_owned(), by_list));
    }

    /// The id that the answer to this call lacks, if it lacks one.
    pub fn hides(&mut self, call: &RuntimeCall, runtime: &Runtime) -> Option<String> {
        let (kind, by_list) = match call.rpc {
            Rpc::ListContainers => (Kind::Container, true),
            Rpc::ListPodSandbox => (Kind::Sandbox, true),
            Rpc::ContainerStatus => (Kind::Container, false),
            Rpc::PodSandboxStatus => (Kind::Sandbox, false),
            _ => return None,
        };
        // A list with a filter may not have the id anyway.
        let is_it = |id: &str| match by_list {
            true => call.request.is_empty(),
            false => id_of(&call.request) == id,
        };
        let mut alive = runtime.alive();
        let next = alive.find(|(id, thing)| {
            thing.kind == kind && is_it(id) && self.next.contains(&((*id).clone(), by_list))
        });
        let id = next?.0.clone();
        self.next.remove(&(id.clone(), by_list));
        Some(id)
    }

    /// Records that the answer to a call that was requested at `requested` lacks this id.
    pub fn lacked(&mut self, id: String, requested: Instant) {
        let (count, last) = self.lacked.entry(id).or_insert((0, requested));
        *count += 1;
        *last = requested.max(*last);
        self.count += 1;
    }

    /// Records an answer. The ids that it shows are no longer missing, if it was requested later.
    pub fn answered(&mut self, call: &RuntimeCall, outcome: &Outcome, since: Instant) {
        let Outcome::Messages(messages) = outcome else {
            return;
        };
        let Some(message) = messages.first().cloned() else {
            return;
        };
        let ids: Vec<String> = match call.rpc {
            Rpc::ListContainers => {
                let list = v1::ListContainersResponse::decode(message).unwrap();
                list.containers.into_iter().map(|row| row.id).collect()
            }
            Rpc::ListPodSandbox => {
                let list = v1::ListPodSandboxResponse::decode(message).unwrap();
                list.items.into_iter().map(|row| row.id).collect()
            }
            Rpc::ContainerStatus | Rpc::PodSandboxStatus | Rpc::StartContainer => {
                vec![id_of(&call.request)]
            }
            Rpc::RunPodSandbox | Rpc::CreateContainer => vec![id_of(&message)],
            _ => return,
        };
        let is_list = matches!(call.rpc, Rpc::ListContainers | Rpc::ListPodSandbox);
        for id in ids {
            self.shows(&id, since);
            if is_list {
                self.listed.insert(id.clone());
            }
            if self.lacked.get(&id).is_some_and(|(_, last)| since > *last) {
                self.lacked.remove(&id);
            }
        }
    }

    /// Records that the answer to a call that was requested at `since` has shown this id to the guard.
    pub fn shows(&mut self, id: &str, since: Instant) {
        let shown = self.shown.entry(id.to_owned()).or_insert(since);
        *shown = since.max(*shown);
    }

    /// Whether the answer to a call that was requested at `since` or later has shown this id to the guard.
    pub fn have_shown(&self, id: &str, since: Instant) -> bool {
        self.shown.get(id).is_some_and(|shown| *shown >= since)
    }

    /// Forgets what the guard was shown: it is restarted, and may know nothing.
    pub fn forget(&mut self) {
        self.listed.clear();
        self.shown.clear();
    }

    /// Whether a list has shown this id to the guard since its start.
    pub fn have_listed(&self, id: &str) -> bool {
        self.listed.contains(id)
    }

    /// Whether an answer has lacked this id since the last one that had it.
    pub fn have_lacked(&self, id: &str) -> bool {
        self.lacked.contains_key(id)
    }

    /// Whether two answers have lacked this id since the last one that had it.
    pub fn are_proof(&self, id: &str) -> bool {
        self.lacked.get(id).is_some_and(|(count, _)| *count > 1)
    }
}
