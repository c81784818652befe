//! The sync loop of a node: pods that are wanted go in, and a worker for each of them brings the
//! runtime to it, woken by what the PLEG sees.
//!
//! ```text
//!   source: pods are wanted, or not any more --\
//!   PLEG: something happened to a pod ---------+--> core: who is synced when (pure)
//!   a sync ended, with or without success -----/       |   ^
//!                                                      |   | gate: what the runtime and the
//!                                                      v   | health checks say of the node
//!                                  worker: a status newer than the last sync --> SyncPod
//! ```
//!
//! - [`gate`]: a kubelet skips all work while its runtime is down or its PLEG is unhealthy
//!   ([`Policy::Node`]). By [`Policy::Pod`] a pod whose calls hang stops only itself.
//! - [`runtime_state`] and [`ready_condition`]: what a kubelet concludes of its runtime, and the
//!   Ready condition that it makes of that, in its words.
//! - [`core`](mod@crate::core): one worker a pod, one sync at a time, and what happens meanwhile is one more sync.
//! - [`SyncLoop`] is all of it on tokio, with a [`Source`], a [`SyncPod`] and a [`Pleg`](pleg::Pleg).

pub mod core;
pub mod gate;
pub mod ready_condition;
pub mod runtime_state;

mod driver;
mod source;
mod sync_pod;

pub use driver::{Parts, SyncLoop};
pub use gate::Policy;
pub use source::{Change, Source};
pub use sync_pod::{Goal, Outcome, SyncPod, Turn};
