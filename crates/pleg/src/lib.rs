//! A Pod Lifecycle Event Generator for any CRI runtime: **one stuck container must never
//! cost a node**.
//!
//! This program reports what happens to the pods of a node:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use pleg::model::wall_time::system_clock;
//! use pleg::runtime::grpc::{Endpoint, GrpcRuntime, MAX_MESSAGE_SIZE};
//! use pleg::{Config, Environment, Pleg};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let endpoint: Endpoint = "unix:///run/containerd/containerd.sock".parse()?;
//!     let environment = Environment::new(endpoint.to_string(), system_clock());
//!     let runtime = Arc::new(GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE));
//!     let pleg = Pleg::start(runtime, Config::default(), environment);
//!     let mut records = pleg.subscribe().await?;
//!     while let Some(record) = records.next().await {
//!         println!("{record:?}");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! How it works:
//!
//! ```text
//!         runtime: CRI over a unix socket                            kernel: pidfds
//!             |  lists            |  statuses          |  events        |  exits
//!             v                   v                    v                v
//!         Snapshot  --->  records: plan  --->  inspections  <---  hints: inspect this pod now
//!                           |  diff (pure)          |  (per pod, bounded, supervised)
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
//! Start with [`Pleg::start`].

pub mod kernel;
pub mod runtime;

pub mod engine;
pub mod model;
pub mod out;
pub mod records;

mod config;
mod observer;
mod pleg;

pub use base::host::{IdSource, no_ids};
pub use config::{Config, Environment, Mode};
pub use observer::{Measurement, NoObserver, Observer};
pub use pleg::Pleg;
