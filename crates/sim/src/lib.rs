//! A simulated container runtime.
//!
//! ```text
//!   World: pods, sandboxes, containers  <-- the test, or a scenario
//!     |            Faults: slow, hung, failing calls, a status lock, a restart
//!     |              |       StreamFaults: lost, delayed, doubled, swapped events
//!     v              v              v
//!   Sim: pleg's Runtime trait, in virtual time      grpc: the same on a unix socket
//! ```
//!
//! A [`World`] is plain data. [`Faults`] decide what happens to a call. [`Sim`] combines both into the
//! runtime that pleg observes. A [`Scenario`] is a text that defines what happens to it, and when.
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::runtime::{CallError, Rpc, Runtime};
//! use sim::{Fault, Sim};
//! use tokio::time::timeout;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), CallError> {
//! let sim = Sim::new();
//! sim.run("web-0", &["app"]);
//! assert_eq!(sim.list_containers().await?.rows.len(), 1);
//!
//! sim.fault(Rpc::ListContainers, None, Fault::Hang);
//! let hour = Duration::from_secs(3600);
//! assert!(timeout(hour, sim.list_containers()).await.is_err());
//!
//! sim.lift_all();
//! assert_eq!(sim.list_containers().await?.rows.len(), 1);
//! # Ok(())
//! # }
//! ```

mod births;
mod by_id;
mod changes;
mod faults;
pub mod figures;
mod flood;
pub mod grpc;
mod kernel;
mod manner;
mod rpc;
mod runtime;
mod scenario;
mod sim;
mod stream;
mod stream_faults;
mod tally;
mod world;

pub use changes::WorldGuard;
pub use cri::{Rpc, Subject};
pub use faults::{Fault, Faults, Malformation};
pub use flood::Flood;
pub use manner::Manner;
pub use rpc::SERVED;
pub use scenario::{
    Action, Calls, Churn, ContainerName, Ending, ExitReport, Lifted, Played, Scenario,
    ScenarioError, Step, Target,
};
pub use sim::Sim;
pub use stream::Serving;
pub use stream_faults::StreamFault;
pub use tally::Outstanding;

pub use world::{CommandEnd, Container, Given, Pod, Sandbox, World};
