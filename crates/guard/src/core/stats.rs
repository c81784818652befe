//! Statistics, which a kubelet asks for every ten seconds to decide whom to evict: passed on, and
//! collected by id once a list of them is overdue.
//!
//! ```text
//!   called --passed on------------------------------------------------> the runtime's answer
//!      |         \--overdue: each id is requested; all known ----------> the list
//!      |                     not all known: requested again, until just before the deadline
//!      \--one like it is overdue already, or took longest the last time: the same, at once
//! ```
//!
//! An id that does not answer keeps its last value, but only while another id answers. A list is
//! complete or there is none: the pod whose statistics are missing is evicted first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::rows::Asked;
use super::{Action, AskId, CallId, Caller, Failure, Guard, Outcome, Purpose, Reply};
use crate::wire::Kind;
use crate::wire::request::of_id;
use crate::wire::row::{READY, RUNNING};
use crate::wire::stats::{asks_for_all, rows_of};

/// A list that takes longer, and three times as long as the last one that came in time, is
/// overdue, and after the longest time in any case.
const OVERDUE: Duration = Duration::from_secs(5);
const TIMES_USUAL: u32 = 3;
const LONGEST: Duration = Duration::from_secs(15);

/// At its caller's deadline containerd answers with what it has by then: a list that is not complete
/// is given up before.
const BEFORE_DEADLINE: Duration = Duration::from_secs(2);

/// For how long all are waited for, and one that is silent.
const COLLECTING: Duration = Duration::from_secs(2);

/// How many are asked at once; one that is silent for longer gives its place to the next.
const AT_ONCE: usize = 16;
const SILENT: Duration = Duration::from_millis(500);

/// What is known of statistics.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    /// The lists that the runtime is asked for.
    lists: BTreeMap<AskId, List>,
    waiting: Vec<Waiting>,
    /// The answer for each id that came last.
    last: [BTreeMap<Id, Bytes>; 2],
    /// The ids that the runtime is asked for.
    asked: BTreeMap<(Kind, Id), Instant>,
    /// How long the last good list took that came in time.
    usual: BTreeMap<Rpc, Duration>,
    /// Lists of all ids that took the longest time, and of which none came in time since: at a
    /// caller's deadline the runtime ends such a list, and the next one hangs as it did.
    late: BTreeSet<Rpc>,
}

#[derive(Clone, Debug)]
struct List {
    rpc: Rpc,
    request: Bytes,
    asked: Instant,
}

#[derive(Clone, Debug)]
struct Waiting {
    call: CallId,
    from: Caller,
    rpc: Rpc,
    request: Bytes,
    asked: Instant,
    /// Until when its caller waits.
    deadline: Option<Instant>,
    list: Option<AskId>,
    collecting: Option<Collecting>,
}

impl Waiting {
    /// Whether it waits for this list, which another caller requested before and which was overdue.
    fn shares(&self, list: &List) -> bool {
        self.list.is_none() && self.rpc == list.rpc && self.request == list.request
    }

    fn given_up_at(&self) -> Option<Instant> {
        self.deadline?.checked_sub(BEFORE_DEADLINE)
    }
}

/// All ids are asked for their statistics.
#[derive(Clone, Debug)]
struct Collecting {
    kind: Kind,
    until: Instant,
    open: BTreeSet<Id>,
    told: BTreeMap<Id, Bytes>,
    /// The runtime has answered for one of them.
    is_any_answered: bool,
    /// The runtime has no statistics of one of them, and there never were any.
    fails: bool,
}

/// What a collection has resulted in.
enum Collected {
    /// The list.
    All(Bytes),
    /// Some may still be answered.
    NotYet,
    /// It was not begun, or has to begin again.
    Never,
}

/// Of which kind's ids a list has statistics; `None` if they are of the node.
fn kind_of(rpc: Rpc) -> Option<Kind> {
    match rpc {
        Rpc::ListContainerStats | Rpc::StreamContainerStats => Some(Kind::Container),
        Rpc::ListPodSandboxStats | Rpc::StreamPodSandboxStats => Some(Kind::Sandbox),
        _ => None,
    }
}

fn call_of(kind: Kind) -> Rpc {
    match kind {
        Kind::Container => Rpc::ContainerStats,
        Kind::Sandbox => Rpc::PodSandboxStats,
    }
}

impl Stats {
    fn overdue_after(&self, rpc: Rpc) -> Duration {
        let usual = self.usual.get(&rpc).copied().unwrap_or_default();
        (usual * TIMES_USUAL).clamp(OVERDUE, LONGEST)
    }

    /// Whether a list of them is outstanding that was overdue: nobody waits for it any more.
    pub(super) fn are_overdue(&self) -> bool {
        let is_waited_for = |ask: &AskId| self.waiting.iter().any(|it| it.list == Some(*ask));
        self.lists.keys().any(|ask| !is_waited_for(ask))
    }

    /// The last values as one list.
    pub(super) fn written(&self, kind: Kind) -> Vec<u8> {
        let last = self.last[kind as usize].values();
        last.flatten().copied().collect()
    }

    /// What an earlier run has written. What is not understood is as if it were not there.
    pub(super) fn restore(&mut self, kind: Kind, written: &[u8]) {
        self.last[kind as usize] = rows_of(written).unwrap_or_default();
    }

    /// The caller has gone: gives the list that nobody wants any more. One that is overdue stays,
    /// so that no second one is asked for.
    pub(super) fn abandoned(&mut self, call: CallId, now: Instant) -> Option<AskId> {
        let place = self.waiting.iter().position(|it| it.call == call)?;
        let ask = self.waiting.remove(place).list?;
        let list = self.lists.get(&ask)?;
        let is_shared = self.waiting.iter().any(|it| it.shares(list));
        let is_overdue = now >= list.asked + self.overdue_after(list.rpc);
        (!is_shared && !is_overdue).then(|| {
            self.lists.remove(&ask);
            ask
        })
    }

    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|it| match &it.collecting {
            Some(collecting) => collecting.until,
            None => it.asked + self.overdue_after(it.rpc),
        });
        let given_up = self.waiting.iter().filter_map(Waiting::given_up_at);
        let collects = self.waiting.iter().any(|it| it.collecting.is_some());
        let asked = self.asked.values().filter(|_| collects);
        let silent = asked.flat_map(|asked| [*asked + SILENT, *asked + COLLECTING]);
        let times = waiting.chain(silent).chain(given_up);
        times.filter(|time| *time > now).min()
    }
}

impl Guard {
    pub(super) fn on_stats_called(
        &mut self,
        rpc: Rpc,
        request: Bytes,
        call: CallId,
        from: Caller,
        deadline: Option<Instant>,
        now: Instant,
    ) {
        let overdue = self.stats.overdue_after(rpc);
        let is_same =
            |list: &List| list.rpc == rpc && list.request == request && now >= list.asked + overdue;
        let mut waiting = Waiting {
            call,
            from,
            rpc,
            request: request.clone(),
            asked: now,
            deadline,
            list: None,
            collecting: None,
        };
        let is_outstanding = self.stats.lists.values().any(is_same);
        let was_late = self.stats.late.contains(&rpc) && asks_for_all(&waiting.request);
        let gives_up = is_outstanding || was_late && self.collectable(&waiting).is_some();
        if self.answers(from) && gives_up {
            // It is as overdue as that one.
            waiting.asked = now.checked_sub(overdue).unwrap_or(now);
        }
        if !self.answers(from) || !is_outstanding {
            let ask = self.pass_on(Purpose::StatsList, call, now);
            let asked = now;
            let list = List {
                rpc,
                request,
                asked,
            };
            self.stats.lists.insert(ask, list);
            waiting.list = Some(ask);
        }
        self.stats.waiting.push(waiting);
    }

    pub(super) fn on_stats_listed(&mut self, ask: AskId, outcome: &Outcome, asked: Asked) {
        let Some(list) = self.stats.lists.remove(&ask) else {
            return;
        };
        let took = asked.1.saturating_duration_since(asked.0);
        let kind = kind_of(list.rpc);
        // A list of some is no measure of one of all.
        let is_whole = kind.is_none() || asks_for_all(&list.request);
        let kind = kind.filter(|_| is_whole);
        if took >= LONGEST && kind.is_some() {
            self.stats.late.insert(list.rpc);
        }
        if let Outcome::Messages(messages) = outcome {
            // At a deadline containerd answers with what it has by then.
            if is_whole && took < self.stats.overdue_after(list.rpc) {
                self.stats.usual.insert(list.rpc, took);
                self.stats.late.remove(&list.rpc);
            }
            // A stream has them in many messages.
            let rows: Result<Vec<_>, _> = messages.iter().map(|message| rows_of(message)).collect();
            if let (Some(kind), Ok(rows)) = (kind, rows) {
                self.keep_stats(kind, rows.into_iter().flatten().collect());
            }
        }
        let is_for = |it: &mut Waiting| it.list == Some(ask) || it.shares(&list);
        let waiting: Vec<Waiting> = self.stats.waiting.extract_if(.., is_for).collect();
        for it in waiting {
            // It ended at the deadline of the caller that requested it first, perhaps.
            let is_anothers = it.list.is_none() && matches!(outcome, Outcome::GivenUp);
            match is_anothers && it.deadline.is_none_or(|deadline| asked.1 < deadline) {
                true => {
                    let Waiting { call, from, .. } = it;
                    self.on_stats_called(it.rpc, it.request, call, from, it.deadline, asked.1);
                }
                false => self.actions.push(Action::Relay(ask, it.call)),
            }
        }
    }

    /// The newest values of these, and the last ones of all others that are still there.
    fn keep_stats(&mut self, kind: Kind, rows: BTreeMap<Id, Bytes>) {
        let known = match kind {
            Kind::Sandbox => &self.sandboxes,
            Kind::Container => &self.containers,
        };
        let last = &mut self.stats.last[kind as usize];
        last.extend(rows);
        if known.complete_since().is_some() {
            last.retain(|id, _| known.get(id).is_some());
        }
    }

    pub(super) fn on_stats_answered(&mut self, kind: Kind, id: &Id, outcome: &Outcome) {
        self.stats.asked.remove(&(kind, id.clone()));
        let is_there = self.rows(kind).get(id).is_some();
        let last = &mut self.stats.last[kind as usize];
        let is_answered = matches!(outcome, Outcome::Messages(_));
        let (told, fails) = match outcome {
            Outcome::Messages(messages) => match messages.as_slice() {
                [message] => {
                    last.insert(id.clone(), message.clone());
                    (Some(message.clone()), false)
                }
                _ => (None, true),
            },
            Outcome::NotFound if !is_there => (None, false),
            Outcome::NotFound
            | Outcome::Strange
            | Outcome::Failed
            | Outcome::GivenUp
            | Outcome::Lost => {
                let last = last.get(id).cloned();
                let fails = last.is_none();
                (last, fails)
            }
        };
        for waiting in &mut self.stats.waiting {
            if let Some(collecting) = &mut waiting.collecting
                && collecting.kind == kind
                && collecting.open.remove(id)
            {
                collecting
                    .told
                    .extend(told.clone().map(|told| (id.clone(), told)));
                collecting.is_any_answered |= is_answered;
                collecting.fails |= fails;
            }
        }
    }

    pub(super) fn pass_stats(&mut self, now: Instant) {
        if !self.acts() {
            return;
        }
        for place in (0..self.stats.waiting.len()).rev() {
            let waiting = &self.stats.waiting[place];
            let overdue = self.stats.overdue_after(waiting.rpc);
            if waiting.from != Caller::Client || now < waiting.asked + overdue {
                continue;
            }
            let collected = match &waiting.collecting {
                None => Collected::Never,
                Some(collecting) => self.collected(collecting, now),
            };
            let is_given_up = waiting.given_up_at().is_some_and(|until| now >= until);
            let reply = match collected {
                Collected::All(list) => Some(Reply::Message(list)),
                _ if is_given_up => Some(Reply::Failed(Failure::StatsOverdue)),
                Collected::NotYet => None,
                Collected::Never => {
                    let kind = self.collectable(waiting);
                    let collecting = kind.map(|kind| self.collect(kind, now));
                    self.stats.waiting[place].collecting = collecting;
                    None
                }
            };
            if let Some(reply) = reply {
                let waiting = self.stats.waiting.remove(place);
                self.reply(waiting.call, waiting.rpc, reply);
            }
        }
        self.ask_stats(now);
    }

    /// Whose statistics the list is of, if all ids are known.
    fn collectable(&self, waiting: &Waiting) -> Option<Kind> {
        let kind = kind_of(waiting.rpc).filter(|_| asks_for_all(&waiting.request))?;
        self.rows(kind).complete_since().map(|_| kind)
    }

    fn collect(&self, kind: Kind, now: Instant) -> Collecting {
        let has_some = match kind {
            Kind::Container => RUNNING,
            Kind::Sandbox => READY,
        };
        let rows = self.rows(kind).iter();
        let open = rows.filter(|(_, known)| known.row.state == has_some);
        Collecting {
            kind,
            until: now + COLLECTING,
            open: open.map(|(id, _)| id.clone()).collect(),
            told: BTreeMap::new(),
            is_any_answered: false,
            fails: false,
        }
    }

    /// What has been collected by now.
    fn collected(&self, collecting: &Collecting, now: Instant) -> Collected {
        let is_silent = |id: &Id| {
            let asked = self.stats.asked.get(&(collecting.kind, id.clone()));
            asked.is_some_and(|asked| now >= *asked + COLLECTING)
        };
        if now < collecting.until && !collecting.open.iter().all(is_silent) {
            return Collected::NotYet;
        }
        let last = &self.stats.last[collecting.kind as usize];
        let silent: Option<Vec<&Bytes>> = collecting.open.iter().map(|id| last.get(id)).collect();
        match silent {
            Some(silent) if collecting.is_any_answered && !collecting.fails => {
                let all = collecting.told.values().chain(silent);
                Collected::All(all.flatten().copied().collect())
            }
            _ if now < collecting.until => Collected::NotYet,
            _ => Collected::Never,
        }
    }

    /// Asks for those that are to be collected, a few at once.
    fn ask_stats(&mut self, now: Instant) {
        let asked = self.stats.asked.values();
        let busy = asked.filter(|asked| now < **asked + SILENT).count();
        let collecting = self
            .stats
            .waiting
            .iter()
            .filter_map(|it| it.collecting.as_ref());
        let open = collecting.flat_map(|it| it.open.iter().map(|id| (it.kind, id.clone())));
        let next = open.filter(|key| !self.stats.asked.contains_key(key));
        let next: BTreeSet<(Kind, Id)> = next.take(AT_ONCE.saturating_sub(busy)).collect();
        for (kind, id) in next {
            let purpose = Purpose::Stats(kind, id.clone());
            self.ask(purpose, call_of(kind), of_id(&id), now);
            self.stats.asked.insert((kind, id), now);
        }
    }
}
