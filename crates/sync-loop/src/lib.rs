//! The kubelet's sync loop: it receives the wanted pods, and one worker for each of them changes
//! the runtime accordingly. Events of the PLEG wake the workers.
//!
//! ```text
//!   source: a pod is wanted, or no longer is ---\
//!   PLEG: an event of a pod --------------------+--> scheduler: which pod is synced when (pure)
//!   waker: work that a sync started has ended --+       |   ^
//!   a sync ended, with or without success ------/       |   |
//!                                                       |   | gate: the health of the runtime
//!                                                       v   | and of the PLEG
//!                                   worker: a status newer than the last sync --> SyncPod
//! ```
//!
//! - `gate`: a kubelet skips all pods while its runtime is down or its PLEG is unhealthy
//!   ([`Policy::Node`]). With [`Policy::Pod`], a pod with a stuck call pauses only itself.
//! - `runtime_state` and [`ready_condition`]: the state of the runtime, and the Ready condition
//!   that follows from it, in the kubelet's terms.
//! - `scheduler`: one worker for each pod, with one sync at a time. Events during a sync cause
//!   one more sync.
//! - [`SyncLoop`] runs all of it on tokio, with a [`Source`], a [`SyncPod`] and a
//!   [`Pleg`](pleg::Pleg).
//!
//! `tests/policies.rs` has an example: a loop that restarts each container that has exited.

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
