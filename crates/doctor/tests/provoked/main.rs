//! Faults that are really made, in control groups, limits and mounts of the test's own:
//! the machine around it notices nothing. Where one cannot be made, that is said aloud.

mod agent;
mod booted;
mod bus;
mod cni;
mod conmon;
mod frozen;
mod local;
mod resources;
mod storage;
