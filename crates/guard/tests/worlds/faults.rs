//! Answers of the runtime that lack something that is there.

use std::collections::{BTreeMap, BTreeSet};

use cri::{Rpc, v1};
use guard::Kind;
use guard::core::Outcome;
use prost::Message;
use tokio::time::Instant;

use super::runtime::{Asked, Runtime, id_of};

#[derive(Debug, Default)]
pub struct Faults {
    /// What the next status, or the next list, lacks.
    next: BTreeSet<(String, bool)>,
    /// What answers have lacked since one that was asked for later had it: how often, and when
    /// the last of them was asked for.
    lacked: BTreeMap<String, (u32, Instant)>,
    /// What lists have shown to the guard since its start.
    listed: BTreeSet<String>,
    /// When the newest call was made whose answer has shown this to the guard.
    shown: BTreeMap<String, Instant>,
    /// How many answers lacked something.
    pub count: u64,
}

impl Faults {
    /// The next list or the next status lacks this.
    pub fn begin(&mut self, id: &str, by_list: bool) {
        self.next.insert((id.to_owned(), by_list));
    }

    /// What the answer to this call lacks.
    pub fn hides(&mut self, asked: &Asked, runtime: &Runtime) -> Option<String> {
        let (kind, by_list) = match asked.rpc {
            Rpc::ListContainers => (Kind::Container, true),
            Rpc::ListPodSandbox => (Kind::Sandbox, true),
            Rpc::ContainerStatus => (Kind::Container, false),
            Rpc::PodSandboxStatus => (Kind::Sandbox, false),
            _ => return None,
        };
        // A list with a filter may not have it anyway.
        let is_it = |id: &str| match by_list {
            true => asked.request.is_empty(),
            false => id_of(&asked.request) == id,
        };
        let mut alive = runtime.alive();
        let next = alive.find(|(id, thing)| {
            thing.kind == kind && is_it(id) && self.next.contains(&((*id).clone(), by_list))
        });
        let id = next?.0.clone();
        self.next.remove(&(id.clone(), by_list));
        Some(id)
    }

    /// An answer to a question of this time lacks this.
    pub fn lacked(&mut self, id: String, asked: Instant) {
        let (count, last) = self.lacked.entry(id).or_insert((0, asked));
        *count += 1;
        *last = asked.max(*last);
        self.count += 1;
    }

    /// An answer came: what it shows is not lacking any more, if it was asked for later.
    pub fn answered(&mut self, asked: &Asked, outcome: &Outcome, since: Instant) {
        let Outcome::Messages(messages) = outcome else {
            return;
        };
        let Some(message) = messages.first().cloned() else {
            return;
        };
        let ids: Vec<String> = match asked.rpc {
            Rpc::ListContainers => {
                let list = v1::ListContainersResponse::decode(message).unwrap();
                list.containers.into_iter().map(|row| row.id).collect()
            }
            Rpc::ListPodSandbox => {
                let list = v1::ListPodSandboxResponse::decode(message).unwrap();
                list.items.into_iter().map(|row| row.id).collect()
            }
            Rpc::ContainerStatus | Rpc::PodSandboxStatus | Rpc::StartContainer => {
                vec![id_of(&asked.request)]
            }
            Rpc::RunPodSandbox | Rpc::CreateContainer => vec![id_of(&message)],
            _ => return,
        };
        let is_list = matches!(asked.rpc, Rpc::ListContainers | Rpc::ListPodSandbox);
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

    /// An answer to a call of this time has shown this to the guard.
    pub fn shows(&mut self, id: &str, since: Instant) {
        let shown = self.shown.entry(id.to_owned()).or_insert(since);
        *shown = since.max(*shown);
    }

    /// Whether an answer to a call since then has shown this to the guard.
    pub fn have_shown(&self, id: &str, since: Instant) -> bool {
        self.shown.get(id).is_some_and(|shown| *shown >= since)
    }

    /// The guard starts, and may have forgotten everything.
    pub fn forget(&mut self) {
        self.listed.clear();
        self.shown.clear();
    }

    /// Whether a list has shown this to the guard since its start.
    pub fn have_listed(&self, id: &str) -> bool {
        self.listed.contains(id)
    }

    /// Whether an answer has lacked this since one had it.
    pub fn have_lacked(&self, id: &str) -> bool {
        self.lacked.contains_key(id)
    }

    /// Whether the runtime has said twice that this is not there, and not otherwise since.
    pub fn are_proof(&self, id: &str) -> bool {
        self.lacked.get(id).is_some_and(|(count, _)| *count > 1)
    }
}
