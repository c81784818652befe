//! The engine's state, and one turn of it: take in what came, do what is due, say what is to
//! be asked.

use std::sync::Arc;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::births::Births;
use super::call::{Answered, Call, List, Purpose, Question};
use super::hint_budget::HintBudget;
use super::inspector::Inspector;
use super::limits::{LASTING, SUSPECT};
use super::lists::{Ages, Missing};
use super::processes::Processes;
use super::quarantine::Quarantine;
use super::relister::{Ask, Relister};
use super::reporter::Reporter;
use super::rounds::Rounds;
use super::settling::Settling;
use super::stream::{Due, Streaming};
use super::sweeper::Sweeper;
use super::unobserved::Unobserved;
use crate::config::Config;
use crate::kernel::{Birth, Unwatched};
use crate::model::id::{HostId, Id, PodUid};
use crate::model::wall_time::Moment;
use crate::observer::Observer;
use crate::out::cache::{Cache, CacheWriter};
use crate::out::call_costs::CallCosts;
use crate::out::coverage::Coverage;
use crate::out::health::INSPECTIONS_FAIL;
use crate::out::subscribers::Subscribers;
use crate::out::words::counted;
use crate::records::Records;
use crate::runtime::{Announced, CallError, Rpc};

/// What has happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// A call has ended.
    Answered(Box<Answered>),
    /// The stream brought an event.
    Announced(Announced),
    /// The stream brought more events than could be kept.
    Flooded,
    /// The stream ended, or was refused.
    StreamEnded(Result<(), CallError>),
    /// A process was opened to be watched, or could not be.
    Opened(Id, Result<(), Unwatched>),
    /// A container's process died.
    Died(Id),
    /// Something happened in the runtime's directories of tasks.
    Birth(Birth),
    /// The host knows of these ids.
    HostIds(Option<Vec<HostId>>),
    /// Somebody wants a relist that is begun after this.
    Relist(Instant),
    /// Somebody wants a pod inspected.
    Reinspect(PodUid),
    /// Time has passed.
    Time,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Action {
    /// Make this call, and report its end.
    Ask(Call),
    /// Read the stream of events.
    ReadStream,
    /// Ask the host which ids it knows.
    AskHost,
    /// Watch the process with this pid, of this container.
    Watch { id: Id, pid: u32 },
    /// Watch it no more.
    Unwatch(Id),
}

/// All that is known, and all that goes on.
pub(crate) struct Engine {
    pub(super) config: Config,
    /// The outstanding calls, and what their answers show about the runtime.
    pub(super) ledger: Ledger,
    /// Calls that may end the runtime.
    pub(super) quarantine: Quarantine,
    pub(super) relister: Relister,
    pub(super) sweeper: Sweeper,
    pub(super) inspector: Inspector,
    pub(super) sources: Sources,
    pub(super) liveness: Liveness,
    pub(super) records: Records,
    pub(super) unobserved: Unobserved,
    pub(super) reporting: Reporting,
    pub(super) out: Outputs,
}

/// Where changes are announced, and how many inspections that may cause.
pub(super) struct Sources {
    pub(super) processes: Processes,
    pub(super) births: Births,
    pub(super) streaming: Streaming,
    pub(super) budget: HintBudget,
}

/// Whether the runtime lives although nothing else is answered.
pub(super) struct Liveness {
    /// When the runtime was last asked whether it lives.
    pub(super) heartbeat: Instant,
    /// The pod that was last asked for as a witness.
    pub(super) last_witness: Option<PodUid>,
}

/// What is reported about the node, and as of when.
pub(super) struct Reporting {
    pub(super) rounds: Rounds,
    /// As of when a pod was inspected well last, and all pods were known.
    pub(super) last_inspected: Option<Moment>,
    pub(super) coverage: Coverage,
    pub(super) settling: Settling,
    pub(super) reporter: Reporter,
    pub(super) costs: CallCosts,
}

/// Where what is known goes.
pub(super) struct Outputs {
    pub(super) endpoint: Arc<str>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) cache: CacheWriter,
    pub(super) reader: Cache,
    pub(super) subscribers: Subscribers,
    pub(super) actions: Vec<Action>,
}

impl Engine {
    pub(crate) fn new(
        config: Config,
        endpoint: Arc<str>,
        observer: Arc<dyn Observer>,
        watches_processes: bool,
        (cache, reader): (CacheWriter, Cache),
        now: Moment,
    ) -> Self {
        let started = now.instant;
        Self {
            ledger: Ledger::new(config.places(), started),
            quarantine: Quarantine::default(),
            relister: Relister::new(&config, started),
            sweeper: Sweeper::new(config.relist_period, started),
            inspector: Inspector::new(config.max_inspections, config.calls_per_pod),
            sources: Sources {
                processes: Processes::new(watches_processes),
                births: Births::default(),
                streaming: Streaming::new(config.mode, started),
                budget: HintBudget::new(started),
            },
            liveness: Liveness {
                heartbeat: started,
                last_witness: None,
            },
            records: Records::default(),
            unobserved: Unobserved::default(),
            reporting: Reporting {
                rounds: Rounds::default(),
                last_inspected: None,
                coverage: Coverage::none(started),
                settling: Settling::default(),
                reporter: Reporter::new(config.relist_threshold, now),
                costs: CallCosts::default(),
            },
            out: Outputs {
                endpoint,
                observer,
                cache,
                reader,
                subscribers: Subscribers::default(),
                actions: Vec::new(),
            },
            config,
        }
    }

    /// This process did not run for so long, as in a frozen control group.
    pub(crate) fn woke(&mut self, paused: Duration, now: Instant) {
        self.settle_first(now);
        // Requests that come now are answered once the next lists have come. Where one short pause
        // follows another there is no time for more relists than usual.
        if paused >= self.config.relist_period {
            self.relister.hurry(now);
        }
    }

    /// Answers may wait that were sent during a pause, or during a long turn of our own: they are
    /// taken in before anything is judged.
    pub(crate) fn settle_first(&mut self, now: Instant) {
        let settles = self.relister.standing().overdue_after();
        self.reporting.settling.begin(settles, now);
    }

    /// Until when nobody is told how things are, since we have just woken up.
    pub(crate) fn holds_until(&self) -> Option<Instant> {
        self.reporting.settling.holds_until()
    }

    /// Whether any call is outstanding.
    pub(crate) fn awaits_answers(&self) -> bool {
        self.ledger.awaits_answers()
    }

    /// One turn: takes in what has happened, and gives what is to be done.
    pub(crate) fn step(&mut self, input: Input, now: Moment) -> Vec<Action> {
        match input {
            Input::Answered(answered) => self.on_answered(*answered, now),
            Input::Announced(announced) => self.on_announced(announced, now),
            Input::Flooded => self.on_flooded(now),
            Input::StreamEnded(result) => self.on_stream_ended(result, now),
            Input::Opened(id, opened) => self.on_opened(&id, opened, now),
            Input::Birth(birth) => self.on_birth(birth, now),
            Input::Died(id) => self.sources.processes.on_death(&id, now.instant),
            Input::HostIds(ids) => self.begin_sweep(ids, now),
            Input::Relist(asked) => self.relister.request(asked),
            Input::Reinspect(uid) => self.records.request_reinspect(&uid),
            Input::Time => {}
        }
        self.pass(now);
        std::mem::take(&mut self.out.actions)
    }

    /// Does what is due.
    fn pass(&mut self, now: Moment) {
        let instant = now.instant;
        if let Some(survivor) = self.quarantine.take_survivor(instant) {
            self.unobserved.failures.withdraw(&survivor.key());
        }
        self.ledger.pass(instant);
        self.listen_for_heartbeat(instant);
        let missing = self.missing(instant);
        if self.sweeper.is_due(missing, &self.ledger, instant) {
            self.act(Action::AskHost);
        }
        self.drive_stream(now);
        for (id, pid) in self.sources.processes.pass(instant) {
            self.act(Action::Watch { id, pid });
        }
        self.drop_known_births(instant);
        self.ask_the_doubtful(now);
        self.commit_exits_of_slow(now);
        self.make_calls(now);
        if !self.is_relist_next(instant)
            && let Some(list) = self.sweeper.take_list(&self.ledger)
        {
            self.ask_node(Question::List(list), Purpose::SweepList, instant);
        }
        self.hurry_for_the_late(now);
        // After what a hint has asked for, which is the quicker answer.
        self.begin_relist(now);
        while let Some(inspected) = self.inspector.ended() {
            self.on_inspected(inspected, now);
            self.make_calls(now);
        }
        self.end_sweep(now);
        self.review(now);
    }

    /// A status may be late because the whole runtime is stopped, which the lists tell. Beside a proven
    /// stream, and after lists that were too large, the next ones are far away.
    fn hurry_for_the_late(&mut self, now: Moment) {
        let due = self.relister.due();
        if due.is_none_or(|due| due <= now.instant + self.config.relist_period) {
            return;
        }
        let is_rare = self.period() > self.config.relist_period;
        if is_rare && self.ledger.is_any_late(now.instant) {
            self.hurry(now);
        }
        let long = self
            .ledger
            .silent_after(self.relister.standing().overdue_after());
        let silent = self.ledger.silent_since();
        if silent.is_some_and(|since| now.instant >= since + long) {
            self.relister.hurry_anyway(now.instant);
        }
    }

    fn begin_relist(&mut self, now: Moment) {
        if self
            .relister
            .standing()
            .is_version_suspect(self.ages(now.instant))
        {
            self.relister.go_on_without_version(now.instant);
        }
        if self.relist_waits() {
            return;
        }
        if let Some(ask) = self.relister.begin(now) {
            self.ask_for(ask, now);
        }
    }

    /// Whether what a relist asks first is outstanding: a sweep may be asking for one of the lists,
    /// and somebody whether the runtime lives.
    fn relist_waits(&self) -> bool {
        let is_asked = |call| self.ledger.node_call(call).is_some();
        is_asked(Rpc::ListPodSandbox)
            || is_asked(Rpc::ListContainers)
            || self.relister.needs_version() && is_asked(Rpc::Version)
    }

    /// Whether a relist is due that waits only for a list which comes soon: if sweeps asked for the other
    /// one meanwhile, again and again, it would never begin.
    pub(super) fn is_relist_next(&self, now: Instant) -> bool {
        let is_due = self.relister.due().is_some_and(|due| now >= due);
        is_due && self.relist_waits() && self.relister.standing().will_come(self.ages(now))
    }

    pub(super) fn ask_for(&mut self, ask: Ask, now: Moment) {
        match ask {
            Ask::Version => self.ask_node(Question::Version, Purpose::Relist, now.instant),
            Ask::Lists => {
                if let Some(last) = self.relister.last_good() {
                    let since = now.instant.duration_since(last);
                    self.out.observer.relist_interval(since);
                }
                for list in [List::Sandboxes, List::Containers] {
                    self.ask_node(Question::List(list), Purpose::Relist, now.instant);
                }
            }
        }
    }

    /// Since when the outstanding calls for the whole node have been waited for.
    fn node_calls(&self) -> impl Iterator<Item = Instant> {
        let calls = [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers];
        calls
            .into_iter()
            .filter_map(|call| self.ledger.node_call_waits(call))
    }

    /// How long the calls for the whole node have been outstanding.
    pub(super) fn ages(&self, now: Instant) -> Ages {
        let age = |call| {
            let since = self.ledger.node_call_waits(call)?;
            Some(now.duration_since(since))
        };
        Ages {
            version: age(Rpc::Version),
            sandboxes: age(Rpc::ListPodSandbox),
            containers: age(Rpc::ListContainers),
        }
    }

    /// Which lists are to be done without.
    pub(super) fn missing(&self, now: Instant) -> Missing {
        self.relister.standing().missing(self.ages(now))
    }

    fn drive_stream(&mut self, now: Moment) {
        // Which version of CRI it is spoken to in is settled first.
        if self.relister.runtime().is_none() {
            return;
        }
        match self.sources.streaming.pass(now.instant) {
            Due::Nothing => {}
            Due::Open => {
                self.sources.streaming.opening(now.instant);
                self.act(Action::ReadStream);
            }
            Due::Opened => self.stream_opened(now),
            Due::Missed(missed) => {
                let missed = counted(missed as usize, "change");
                tracing::info!("the event stream missed {missed}");
                self.hurry(now);
            }
        }
    }

    /// The next relist is as soon as without a stream.
    pub(super) fn hurry(&mut self, now: Moment) {
        self.relister.hurry(now.instant + self.config.relist_period);
    }

    /// When something is to be done although nothing happens.
    pub(crate) fn alarm(&self, now: Instant) -> Instant {
        let steps = self.relister.standing().steps();
        let since: Vec<Instant> = self.node_calls().collect();
        let silent = self.ledger.silent_since();
        let silent = silent.map(|since| since + self.silent_after());
        let lists = steps.flat_map(|step| since.iter().map(move |since| *since + step));
        let heartbeat = (!since.is_empty()).then(|| self.liveness.heartbeat + SUSPECT);
        let lists = lists.chain(heartbeat).chain(silent);
        let lists = lists.filter(|time| *time > now).min();
        let sweeps = self
            .missing(now)
            .any()
            .then(|| self.sweeper.alarm(&self.ledger));
        // A relist that is due waits for the end of a list that a sweep asked for.
        let relist = self
            .relister
            .due()
            .filter(|due| *due > now || !self.relist_waits());
        [
            relist,
            lists,
            sweeps.flatten(),
            // No stream is asked for before the runtime has said who it is.
            self.sources
                .streaming
                .alarm()
                .filter(|_| self.relister.runtime().is_some()),
            self.inspector.alarm(now),
            self.reporting
                .rounds
                .has_waited_at(LASTING)
                .filter(|at| *at > now),
            self.unobserved.differing.next_at(INSPECTIONS_FAIL, now),
            self.sources.processes.alarm(now),
            self.sources.births.alarm(now),
            self.ledger.alarm(now),
            self.quarantine.alarm().filter(|at| *at > now),
            self.unobserved.doubts.alarm(),
            self.reporting.settling.alarm(),
            self.reporting.reporter.alarm(&self.reporting.coverage, now),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(now + self.config.relist_threshold)
    }

    /// After how long without any answer the runtime is silent: a sweep has had its chance by then.
    pub(super) fn silent_after(&self) -> Duration {
        let least = self.relister.standing().overdue_after() + SUSPECT;
        self.ledger.silent_after(least)
    }
}
