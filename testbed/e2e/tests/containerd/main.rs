//! Tests on real containerd. Each test has its own instances.

#![allow(
    clippy::print_stdout,
    reason = "the times are what a person wants to see"
)]

mod bad_days;
mod burst;
mod docker;
mod doctor;
mod doctor_load;
mod doctor_versions;
mod guard;
mod history;
mod kubernetes;
mod lifecycle;
mod run;
mod run_bad_days;
mod slow_reader;
mod soak;
mod static_pods;
mod status_lock;
mod stream;
mod verbs;
