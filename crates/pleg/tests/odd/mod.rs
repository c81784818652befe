//! A runtime with oddities that the simulated one does not have: it answers with the state at the time of
//! the request, fails late, does not answer once, or refuses connections. Its answers may be delayed, each
//! for a different time, and lost.

#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ListedContainer, ListedSandbox};
use pleg::model::status::{ContainerStatus, SandboxStatus};
use pleg::runtime::{Announcements, CallError, Listing, Runtime, RuntimeVersion};
use sim::Sim;
use tokio::time::{Instant, sleep};

/// How long a refused connection takes.
const REFUSED_AFTER: Duration = Duration::from_millis(1);

/// More calls than this at one moment show that a loop does not end.
const MOST_AT_ONCE: usize = 2_000;

/// The oddities of a runtime.
#[derive(Default)]
pub struct Oddities {
    /// Whether answers show the state at the time of the request.
    pub shows_the_past: bool,
    /// Whether the status of a sandbox in such an answer includes its containers.
    pub fills_sandboxes: bool,
    /// Whether no new call gets a connection. Outstanding calls continue.
    pub refuses: bool,
    /// How many calls were refused a connection.
    pub refused: usize,
    /// These ids are not found the next time they are requested.
    pub not_found_once: BTreeSet<Id>,
    /// The statuses of these containers have labels of another pod.
    pub mislabelled: BTreeMap<Id, PodRef>,
    /// The statuses of these ids fail when they are found.
    pub broken: BTreeSet<Id>,
    /// How long the statuses of containers take before they fail; `None` if they do not fail.
    pub containers_fail_after: Option<Duration>,
    /// How answers are delayed.
    pub journey: Option<Journey>,
    /// When the last call was made, and how many were made at that moment.
    last: Option<(Instant, usize)>,
    /// Whether too many calls were made at one moment: a loop that would not have ended.
    is_endless: bool,
}

/// How answers are delayed, each differently.
pub struct Journey {
    /// The share of answers that show the state at the time of the request.
    pub past: f64,
    /// The longest delay, in seconds.
    pub longest: f64,
    /// The share of answers that are errors. `lost` is the share that is lost with the connection.
    pub fails: f64,
    pub lost: f64,
    pub random: fastrand::Rng,
}

/// The simulated runtime with these oddities.
#[derive(Clone)]
pub struct Odd {
    sim: Sim,
    oddities: Arc<Mutex<Oddities>>,
}

impl Odd {
    pub fn new(sim: Sim) -> Self {
        let oddities = Arc::default();
        Self { sim, oddities }
    }

    pub fn oddities(&self) -> MutexGuard<'_, Oddities> {
        self.oddities.lock().unwrap()
    }

    /// Checks that calls never followed each other without a pause.
    #[track_caller]
    pub fn assert_no_endless_loop(&self) {
        assert!(!self.oddities().is_endless, "calls follow without a pause");
    }

    /// Counts a call. Returns whether there were too many at this moment.
    fn count_call(&self) -> bool {
        let (now, mut oddities) = (Instant::now(), self.oddities());
        let before = oddities.last.filter(|(at, _)| *at == now);
        let calls = before.map_or(1, |(_, calls)| calls + 1);
        oddities.last = Some((now, calls));
        oddities.is_endless |= calls > MOST_AT_ONCE;
        calls > MOST_AT_ONCE
    }

    async fn connect(&self) -> Result<(), CallError> {
        if self.count_call() {
            // A pause ends the moment, so that the world can end although the loop does not.
            sleep(REFUSED_AFTER).await;
        }
        if !self.oddities().refuses {
            return Ok(());
        }
        self.oddities().refused += 1;
        sleep(REFUSED_AFTER).await;
        Err(CallError::connection_refused())
    }

    /// Delivers an answer, or loses it.
    async fn arrive<T>(&self, answer: Result<T, CallError>) -> Result<T, CallError> {
        let (time, lot, fails, lost) = match &mut self.oddities().journey {
            None => return answer,
            Some(journey) => {
                let random = &mut journey.random;
                let time = random.f64() * random.f64() * journey.longest;
                (time, random.f64(), journey.fails, journey.lost)
            }
        };
        sleep(Duration::from_secs_f64(time)).await;
        match lot {
            lot if lot < fails => Err(CallError::Refused("Unknown: now and then".into())),
            lot if lot < fails + lost => Err(CallError::connection_refused()),
            _ => answer,
        }
    }

    /// A copy of the node as it is now, if the answer is to show the state at the time of the
    /// request.
    fn past(&self) -> Option<Sim> {
        let shows_the_past = match &mut self.oddities() {
            oddities if oddities.shows_the_past => true,
            oddities => match &mut oddities.journey {
                Some(journey) => journey.random.f64() < journey.past,
                None => false,
            },
        };
        shows_the_past.then(|| {
            let past = Sim::beginning_at(self.sim.now());
            if self.oddities().fills_sandboxes {
                past.fill_sandboxes();
            }
            let world = self.sim.world().clone();
            *past.world() = world;
            past
        })
    }

    fn find(&self, id: &Id) -> Result<(), CallError> {
        let mut oddities = self.oddities();
        if oddities.not_found_once.remove(id) {
            return Err(CallError::NotFound(format!("{id}, for once").into()));
        }
        if oddities.broken.contains(id) {
            return Err(CallError::Refused("Unknown: broken".into()));
        }
        Ok(())
    }
}

/// The past answer in place of the present one, unless the present one is an error other than `NotFound`.
async fn or_past<T>(
    now: Result<T, CallError>,
    past: Option<impl Future<Output = Result<T, CallError>>>,
) -> Result<T, CallError> {
    match (now, past) {
        (Ok(_) | Err(CallError::NotFound(_)), Some(past)) => past.await,
        (now, _) => now,
    }
}

impl Runtime for Odd {
    async fn version(&self) -> Result<RuntimeVersion, CallError> {
        self.connect().await?;
        self.sim.version().await
    }

    async fn list_sandboxes(&self) -> Result<Listing<ListedSandbox>, CallError> {
        self.connect().await?;
        let past = self.past();
        let now = self.sim.list_sandboxes().await;
        let answer = or_past(now, past.as_ref().map(Runtime::list_sandboxes)).await;
        self.arrive(answer).await
    }

    async fn list_containers(&self) -> Result<Listing<ListedContainer>, CallError> {
        self.connect().await?;
        let past = self.past();
        let now = self.sim.list_containers().await;
        let answer = or_past(now, past.as_ref().map(Runtime::list_containers)).await;
        self.arrive(answer).await
    }

    async fn sandbox_status(&self, id: &Id) -> Result<SandboxStatus, CallError> {
        self.connect().await?;
        self.find(id)?;
        let past = self.past();
        let now = self.sim.sandbox_status(id).await;
        let answer = or_past(now, past.as_ref().map(|past| past.sandbox_status(id))).await;
        self.arrive(answer).await
    }

    async fn container_status(&self, id: &Id) -> Result<ContainerStatus, CallError> {
        self.connect().await?;
        self.find(id)?;
        let fails_after = self.oddities().containers_fail_after;
        if let Some(time) = fails_after {
            sleep(time).await;
            return Err(CallError::Refused("Unknown: broken".into()));
        }
        let past = self.past();
        let now = self.sim.container_status(id).await;
        let answer = or_past(now, past.as_ref().map(|past| past.container_status(id))).await;
        let mut status = self.arrive(answer).await?;
        if let Some(other) = self.oddities().mislabelled.get(id) {
            status.pod = Some(other.clone().into());
        }
        Ok(status)
    }

    async fn container_pid(&self, id: &Id) -> Result<Option<u32>, CallError> {
        self.connect().await?;
        self.sim.container_pid(id).await
    }

    async fn announcements(&self) -> Result<Announcements, CallError> {
        self.sim.announcements().await
    }
}
