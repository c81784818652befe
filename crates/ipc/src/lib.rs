//! Queries of local processes: D-Bus calls, and the kernel's table of unix sockets. Each query has a deadline,
//! and none starts a service.

mod connection;
mod unix_sockets;
mod wire;

pub use connection::{Connection, Failure};
pub use unix_sockets::{SocketRow, unix_sockets};
pub use wire::{Call, Message};
