//! The sync loop of a node: it receives the wanted pods, and a worker for each of them changes the
//! runtime accordingly, woken by events of the PLEG.
//!
//! ```text
//!   source: pods are wanted, or not any more --\
//!   PLEG: something happened to a pod ---------+--> core: which pod is synced when (pure)
//!   what a sync left to be done has ended ------+       |   ^
//!   a sync ended, with or without success -----/       |   |
//!                                                      |   | gate: what the runtime and the
//!                                                      v   | health checks report of the node
//!                                  worker: a status newer than the last sync --> SyncPod
//! ```
//!
//! - [`gate`]: a kubelet skips all work while its runtime is down or its PLEG is unhealthy
//!   ([`Policy::Node`]). By [`Policy::Pod`] a pod whose calls hang stops only itself.
//! - [`runtime_state`] and [`ready_condition`]: what a kubelet concludes of its runtime, and the
//!   Ready condition that it computes of that, in its words.
//! - [`core`](mod@crate::core): one worker for each pod, one sync at a time, and one more
//!   sync for events meanwhile.
//! - [`SyncLoop`] is all of it on tokio, with a [`Source`], a [`SyncPod`] and a [`Pleg`](pleg::Pleg).
//!
//! A pod that is started again whenever its container has exited:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use pleg::model::id::PodRef;
//! use pleg::model::listed::ContainerState;
//! use pleg::runtime::{CallError, Conditions};
//! use sync_loop::{Change, Outcome, Parts, Policy, Source, SyncLoop, SyncPod, Turn};
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
//!     async fn sync(&self, turn: Turn<()>) -> Outcome {
//!         let status = match turn.status() {
//!             Ok(status) => status,
//!             Err(outcome) => return outcome,
//!         };
//!         let mut changed = false;
//!         for container in &status.containers {
//!             if container.state == ContainerState::Exited {
//!                 self.0.start_again(&turn.pod.name, &container.name);
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

pub mod core;
pub mod gate;
pub mod ready_condition;
pub mod runtime_state;

mod driver;
mod source;
mod sync_pod;
mod trouble;

pub use driver::{Parts, SyncLoop};
pub use gate::Policy;
pub use source::{Change, Source};
pub use sync_pod::{Goal, Outcome, SyncPod, Turn, Waker};
