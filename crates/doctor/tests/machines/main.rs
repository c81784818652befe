//! Machines that are folders of files, as they were seen on nodes that fell, each beside
//! the same machine in health. Nothing here runs but scripts in the place of rpm; what
//! really runs is in `provoked`.

mod blocked;
mod built;
mod cri_dockerd;
mod cri_o;
mod kernel;
mod kubelet;
mod limits;
mod logs;
mod others;
mod packages;
mod resources;
mod runc;
mod storage;
mod systemd;
mod whole;
