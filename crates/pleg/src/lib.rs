//! A Pod Lifecycle Event Generator for any CRI runtime: **one stuck container must never
//! cost a node**.
//!
//! ```text
//!         runtime: CRI over a unix socket                            kernel: pidfds
//!             |  lists            |  statuses          |  events        |  deaths
//!             v                   v                    v                v
//!         Snapshot  --->  records: plan  --->  inspections  <---  hints: look at this pod now
//!                           |  diff (pure)          |  (per pod, bounded, watched over)
//!                           v                       v
//!                      commit | defer  <---  PodStatus | failed | stuck
//!                           |
//!           +---------------+----------------+
//!           v               v                v
//!         cache        subscribers         health
//! ```
//!
//! Three kinds of data have three names: a [`Snapshot`](model::snapshot::Snapshot) is what was
//! listed, a [`PodStatus`](model::status::PodStatus) what was inspected, an
//! [`Event`](model::event::Event) what was inferred.
//!
//! Start with [`Pleg::start`]. The modules are declared in the order of the flow.

pub mod kernel;
pub mod runtime;

pub mod engine;
pub mod model;
pub mod out;
pub mod records;

mod config;
mod observer;
mod pleg;

pub use config::{Config, Environment, IdSource, Mode, no_ids};
pub use observer::{NoObserver, Observer};
pub use pleg::Pleg;
