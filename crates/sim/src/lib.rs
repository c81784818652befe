//! A container runtime that obeys.
//!
//! ```text
//!   World: pods, sandboxes, containers  <-- the test, or a scenario
//!     |            Faults: slow, hung, failing calls
//!     v              v
//!   Sim: pleg's Runtime trait, in virtual time      grpc: the same on a unix socket
//! ```
//!
//! A [`World`] is plain data that changes at once; [`Faults`] decide what a call about it
//! has to go through; [`Sim`] is both together, as the runtime that pleg watches.

mod faults;
pub mod figures;
pub mod grpc;
mod kernel;
mod runtime;
mod watched;
mod world;

pub use faults::{Fault, Faults};
pub use runtime::Sim;
pub use watched::WorldGuard;
pub use world::{Container, Pod, Sandbox, World};
