//! Machines that are directories of files, as found on nodes that became NotReady, each compared with a healthy
//! machine. Only scripts in place of programs such as `rpm` are run. Tests with real faults are in `provoked`.

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
