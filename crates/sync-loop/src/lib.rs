//! The kubelet's sync loop: it receives the wanted pods, and one worker for each of them changes
//! the runtime accordingly. Events of the PLEG wake the workers.
//!
//! ```text
//!   source: a pod is wanted, or no longer ------\
//!   PLEG: an event of a pod --------------------+--> scheduler: which pod is synced when (pure)
//!   waker: work that a sync started has ended --+       |   ^
//!   a sync ended, with or without success ------/       |   |
//!                                                       |   | gate: the health of the runtime
//!                                                       v   | and of the PLEG
//!                                   worker: a status newer than the last sync --> SyncPod
//! ```
//!
//! - `gate`: a kubelet skips all pods while its runtime is down or its PLEG is unhealthy
//!   ([`Policy::Node`]). With [`Policy::Pod`], a pod with a stuck call stops only itself.
//! - `runtime_state` and [`ready_condition`]: the state of the runtime, and the Ready condition
//!   that follows from it, in the kubelet's terms.
//! - `scheduler`: one worker for each pod, with one sync at a time. Events during a sync cause
//!   one more sync.
//! - [`SyncLoop`] runs all of it on tokio, with a [`Source`], a [`SyncPod`] and a
//!   [`Pleg`](pleg::Pleg).
//!
//! Example: restart each container that has exited.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use pleg::model::id::PodRef;
//! use pleg::model::listed::ContainerState;
//! use pleg::runtime::{CallError, Conditions};
//! use sync_loop::{Change, Outcome, Parts, Policy, Source, SyncLoop, SyncPod, SyncRequest};
//!
//! struct Always(Option<PodRef>);
//!
//! impl Source for Always {
//!     type Spec = ();
//!
//!     async fn next(&mut self) -> Option<Change<()>> {
//!         self.0.take().map(|pod| Change::Set(pod, ()))
//!     }
//! }
//!
//! struct Restart(sim::Sim);
//!
//! impl SyncPod for Restart {
//!     type Spec = ();
//!
//!     async fn sync(&self, request: SyncRequest<()>) -> Outcome {
//!         let status = match request.status() {
//!             Ok(status) => status,
//!             Err(outcome) => return outcome,
//!         };
//!         let mut changed = false;
//!         for container in &status.containers {
//!             if container.state == ContainerState::Exited {
//!                 self.0.start_again(&request.pod.name, &container.name);
//!                 changed = true;
//!             }
//!         }
//!         Outcome::Done { changed, again_in: None }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # let sim = sim::Sim::new();
//! # sim.run("web-0", &["app"]);
//! # let pod = sim.world().pod("web-0").pod.clone();
//! # let environment = pleg::Environment { endpoint: "sim".into(), clock: sim.clock(), observer: std::sync::Arc::new(pleg::NoObserver), ids: pleg::no_ids(), kernel: None };
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), pleg::Config::default(), environment);
//! # async fn conditions() -> Result<Conditions, CallError> {
//! #     let met = |kind: &str| pleg::runtime::Condition { kind: kind.into(), met: true, ..Default::default() };
//! #     Ok(Conditions { conditions: vec![met("RuntimeReady"), met("NetworkReady")], ..Default::default() })
//! # }
//! let running = SyncLoop::start(Parts {
//!     source: Always(Some(pod)),
//!     sync_pod: Arc::new(Restart(sim.clone())),
//!     pleg,
//!     conditions,
//!     policy: Policy::Pod,
//!     clock: sim.clock(),
//!     jitter: fastrand::Rng::new(),
//! });
//! tokio::time::sleep(Duration::from_secs(5)).await;
//! sim.exit("web-0", "app", 1);
//! tokio::time::sleep(Duration::from_secs(2)).await;
//! assert_eq!(sim.world().container("web-0", "app").state, ContainerState::Running);
//! # drop(running);
//! # }
//! ```

pub mod ready_condition;

mod driver;
mod failing_pods;
mod gate;
mod runtime_state;
mod scheduler;
mod source;
mod sync_pod;

pub use driver::{Parts, SyncLoop};
pub use gate::Policy;
pub use source::{Change, Source};
pub use sync_pod::{Goal, Outcome, SyncPod, SyncRequest, Waker};
