//! Real faults, in control groups, limits and mounts that the test creates, so that the rest of the machine is
//! not affected. If a fault cannot be caused here, the test prints that it was skipped.

mod agent;
mod booted;
mod bus;
mod cni;
mod conmon;
mod frozen;
mod local;
mod resources;
mod storage;
