//! The engine's state, and one step of it: take in the inputs, do what is due, return the actions.

use std::sync::Arc;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

use super::births::Births;
use super::call::{Answered, Call};
use super::hint_budget::HintBudget;
use super::inspector::Inspector;
use super::limits::{INSPECTION_OVERDUE_AFTER, SUSPECT_AFTER};
use super::lists::{Ages, PerList};
use super::passes::Passes;
use super::processes::Processes;
use super::quarantine::Quarantine;
use super::relister::Relister;
use super::reporter::Reporter;
use super::settling::Settling;
use super::stream::{Due, Streaming};
use super::sweeper::Sweeper;
use super::unobserved::Unobserved;
use crate::config::Config;
use crate::kernel::{Birth, Unwatched};
use crate::model::id::{HostId, Id, PodUid};
use crate::model::wall_time::Moment;
use crate::observer::Measurement;
use crate::out::cache::{Cache, CacheWriter};
use crate::out::call_costs::CallCosts;
use crate::out::coverage::Coverage;
use crate::out::health::INSPECTIONS_FAIL;
use crate::out::record::Record;
use crate::records::Records;
use crate::runtime::{Announced, CallError, Rpc};

/// What has happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// A call has ended.
    Answered(Box<Answered>),
    /// The stream delivered an event.
    Announced(Announced),
    /// Events of the stream were dropped, because too many were waiting.
    Flooded,
    /// The stream ended, or could not be opened.
    StreamEnded(Result<(), CallError>),
    /// A process is being watched, or cannot be.
    Opened(Id, Result<(), Unwatched>),
    /// The process of a container ended.
    Died(Id),
    /// The kernel's report about the runtime's task directories.
    Birth(Birth),
    /// The ids that the runtime's state directories contain; `None` if they could not be read.
    HostIds(Option<Vec<HostId>>),
    /// A relist is requested, which must begin after this time.
    Relist(Instant),
    /// An inspection of this pod is requested.
    Reinspect(PodUid),
    /// Time has passed.
    Time,
}

/// An effect that the driver performs.
#[derive(Debug)]
pub(crate) enum Action {
    /// Make this call, and report its end.
    Send(Call),
    /// Open the event stream.
    ReadStream,
    /// Read the ids from the runtime's state directories.
    ReadHostIds,
    /// Watch the process with this PID, which belongs to this container.
    Watch { id: Id, pid: u32 },
    /// Stop watching the process.
    Unwatch(Id),
    /// Deliver this to all subscribers.
    Publish(Record),
    /// Report this to the observer.
    Measure(Measurement),
}

/// The whole state of the engine.
pub(crate) struct Engine {
    pub(super) config: Config,
    /// The outstanding calls, and what their answers show about the runtime.
    pub(super) ledger: Ledger,
    /// Calls that may crash the runtime.
    pub(super) quarantine: Quarantine,
    pub(super) relister: Relister,
    pub(super) sweeper: Sweeper,
    pub(super) inspector: Inspector,
    pub(super) sources: Sources,
    pub(super) probes: Probes,
    pub(super) records: Records,
    pub(super) unobserved: Unobserved,
    pub(super) reporting: Reporting,
    pub(super) out: Outputs,
}

/// The sources of hints, and how many inspections hints may cause.
pub(super) struct Sources {
    pub(super) processes: Processes,
    pub(super) births: Births,
    pub(super) streaming: Streaming,
    pub(super) hint_budget: HintBudget,
}

/// The calls that are made only to learn whether the runtime answers.
pub(super) struct Probes {
    /// When `Version` was last sent as a heartbeat.
    pub(super) last_heartbeat: Instant,
    /// The pod of the last witness. The next witness is a call of another pod.
    pub(super) last_witness: Option<PodUid>,
}

/// What is reported about the node, and the time as of which it is true.
pub(super) struct Reporting {
    pub(super) passes: Passes,
    /// The latest time as of which a pod was inspected successfully and all pods were known.
    pub(super) last_inspected: Option<Moment>,
    pub(super) coverage: Coverage,
    pub(super) settling: Settling,
    pub(super) reporter: Reporter,
    pub(super) costs: CallCosts,
}

/// The cache, whose only writer is the engine, and the actions of the current step.
pub(super) struct Outputs {
    pub(super) endpoint: Arc<str>,
    pub(super) cache: CacheWriter,
    pub(super) reader: Cache,
    pub(super) actions: Vec<Action>,
}

impl Engine {
    pub(crate) fn new(
        config: Config,
        endpoint: Arc<str>,
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
                hint_budget: HintBudget::new(started),
            },
            probes: Probes {
                last_heartbeat: started,
                last_witness: None,
            },
            records: Records::default(),
            unobserved: Unobserved::default(),
            reporting: Reporting {
                passes: Passes::default(),
                last_inspected: None,
                coverage: Coverage::none(started),
                settling: Settling::default(),
                reporter: Reporter::new(config.relist_threshold, now),
                costs: CallCosts::default(),
            },
            out: Outputs {
                endpoint,
                cache,
                reader,
                actions: Vec::new(),
            },
            config,
        }
    }

    /// Begins settling after this process was paused for `paused`, for example in a frozen control
    /// group. After a long pause, lists are due at once.
    pub(crate) fn on_pause_ended(&mut self, paused: Duration, now: Instant) {
        self.begin_settling(now);
        // Commands that are held, such as a status request, wait for the next lists. A short pause
        // does not hurry the lists, or many short pauses would make relists more frequent than usual.
        if paused >= self.config.relist_period {
            self.relister.hurry(now);
        }
    }

    /// Stops judging until the waiting answers are taken in. They arrived during a pause or a long step
    /// of this process.
    pub(crate) fn begin_settling(&mut self, now: Instant) {
        let limit = self.relister.overdue_after();
        self.reporting.settling.begin(limit, now);
    }

    /// Takes in all inputs, does what is due, and returns the actions to perform. What is due is
    /// determined once for all inputs: with thousands of pods, that costs more than taking in one input.
    pub(crate) fn step(
        &mut self,
        inputs: impl IntoIterator<Item = Input>,
        now: Moment,
    ) -> Vec<Action> {
        for input in inputs {
            self.on_input(input, now);
        }
        self.run_due(now);
        std::mem::take(&mut self.out.actions)
    }

    fn on_input(&mut self, input: Input, now: Moment) {
        match input {
            Input::Answered(answered) => self.on_answered(*answered, now),
            Input::Announced(announced) => self.on_announced(announced, now),
            Input::Flooded => self.list_soon(now),
            Input::StreamEnded(result) => self.on_stream_ended(result, now),
            Input::Opened(id, opened) => {
                self.sources.processes.on_opened(&id, opened, now.instant);
            }
            Input::Birth(birth) => self.on_birth(birth, now),
            Input::Died(id) => self.on_death(&id, now),
            Input::HostIds(ids) => self.begin_sweep(ids, now),
            Input::Relist(after) => self.relister.request(after),
            Input::Reinspect(uid) => self.records.request_reinspect(&uid),
            Input::Time => {}
        }
    }

    fn run_due(&mut self, now: Moment) {
        let instant = now.instant;
        if let Some(survivor) = self.quarantine.take_survivor(instant) {
            self.unobserved.failures.withdraw(&survivor.key());
        }
        self.ledger.advance(instant);
        self.take_in_lists(now);
        self.relister.plan(self.period(instant));
        let missing = self.missing(instant);
        if self.sweeper.advance(missing, &self.ledger, instant) {
            self.act(Action::ReadHostIds);
        }
        self.drive_stream(now);
        self.drop_known_births(instant);
        self.retry_doubtful(now);
        self.commit_exits_of_slow(now);
        self.hurry_if_unresponsive(instant);
        self.send_calls(now);
        while let Some(inspected) = self.inspector.take_ended() {
            self.on_inspected(inspected, now);
            self.send_calls(now);
        }
        self.end_sweep(now);
        self.review(now);
    }

    /// Requests lists early if the runtime seems to be unresponsive, which is reported only while a list
    /// or `Version` is overdue. After a list that was too large, the next relist may be far away.
    fn hurry_if_unresponsive(&mut self, now: Instant) {
        let is_far = |due| due > now + self.config.relist_period;
        if self.relister.due().is_some_and(is_far)
            && self.unresponsive_at().is_some_and(|time| now >= time)
        {
            self.relister.hurry_anyway(now);
        }
    }

    /// How long the calls for the whole node have been outstanding.
    pub(super) fn ages(&self, now: Instant) -> Ages {
        let age = |call| {
            let since = self.ledger.node_call(call)?;
            Some(now.duration_since(since))
        };
        Ages {
            version: age(Rpc::Version),
            lists: PerList {
                sandboxes: age(Rpc::ListPodSandbox),
                containers: age(Rpc::ListContainers),
            },
        }
    }

    /// Which lists a sweep replaces now.
    pub(super) fn missing(&self, now: Instant) -> PerList<bool> {
        self.relister.missing(self.ages(now))
    }

    fn drive_stream(&mut self, now: Moment) {
        // The first answer to `Version` decides which version of CRI the stream is opened with.
        if self.relister.runtime().is_none() {
            return;
        }
        match self.sources.streaming.advance(now.instant) {
            Due::Nothing => {}
            Due::Open => self.act(Action::ReadStream),
            Due::Opened => self.stream_opened(now),
        }
    }

    /// Makes the next relist due after the shortest period at most, as if the stream were not trusted.
    pub(super) fn hurry(&mut self, now: Moment) {
        self.relister.hurry(now.instant + self.config.relist_period);
    }

    /// When the next step is due if no input arrives.
    pub(crate) fn alarm(&self, now: Instant) -> Instant {
        let sent: Vec<Instant> = [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers]
            .into_iter()
            .filter_map(|call| self.ledger.node_call(call))
            .collect();
        let steps = self.relister.steps();
        let steps = steps.flat_map(|step| sent.iter().map(move |sent| *sent + step));
        // What was due at one of these times and could not be done waits for an input, so times that
        // have passed are dropped.
        let due_once = [
            (!sent.is_empty()).then(|| self.probes.last_heartbeat + SUSPECT_AFTER),
            self.unresponsive_at(),
            self.quiet_until(),
            self.reporting.passes.waited_at(INSPECTION_OVERDUE_AFTER),
            self.quarantine.alarm(),
        ];
        let due_once = steps.chain(due_once.into_iter().flatten());
        let has_version = self.relister.runtime().is_some();
        let is_awaiting_version = self.ledger.node_call(Rpc::Version).is_some();
        [
            due_once.filter(|time| *time > now).min(),
            self.relister.alarm(is_awaiting_version, now),
            self.sweeper
                .alarm(&self.ledger)
                .filter(|_| self.missing(now).any()),
            // No stream is opened before the first answer to `Version`.
            self.sources.streaming.alarm().filter(|_| has_version),
            self.inspector.alarm(now),
            self.unobserved.differing.next_at(INSPECTIONS_FAIL, now),
            self.sources.processes.alarm(now),
            self.sources.births.alarm(now),
            self.ledger.alarm(now),
            self.unobserved.doubts.alarm(),
            self.reporting.settling.alarm(),
            self.reporting.reporter.alarm(&self.reporting.coverage, now),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(now + self.config.relist_threshold)
    }

    /// When the runtime will count as unresponsive if nothing is answered. By then, a sweep has had time
    /// to get an answer.
    pub(super) fn unresponsive_at(&self) -> Option<Instant> {
        let since = self.ledger.unresponsive_since()?;
        let least = self.relister.overdue_after() + SUSPECT_AFTER;
        Some(since + self.ledger.unresponsive_after(least))
    }
}
