//! Machines as folders of files: states of nodes that failed, each compared with the same machine
//! without the fault. Only scripts in place of `rpm` and `journalctl` run; tests with real processes are
//! in `provoked`.

mod blocked;
mod built;
mod cri_dockerd;
mod cri_o;
mod files;
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
mod task;
mod whole;
