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
//! Three kinds of data have three names: a [`Snapshot`](snapshot::Snapshot) is what was
//! listed, a [`PodStatus`](status::PodStatus) what was inspected, an
//! [`Event`](event::Event) what was inferred.
//!
//! Start with [`Pleg::start`]. The modules are declared in the order of the flow.

pub mod id;
pub mod wall_time;

pub mod kernel;
pub mod runtime;

pub mod calls;
pub mod patience;

pub mod listed;
pub mod snapshot;

pub mod diff;
pub mod event;
pub mod records;

pub mod inspect;
pub mod status;

pub mod cache;
pub mod subscribers;
pub mod told;

pub mod go_duration;
pub mod health;
pub mod kubelet_view;
pub mod status_report;

mod config;
mod generic;
mod observer;
mod pleg;

pub use config::{Config, Environment, IdSource, Mode, no_ids};
pub use observer::{NoObserver, Observer};
pub use pleg::Pleg;
