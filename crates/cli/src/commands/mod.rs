//! One file for each command.

pub mod agent;
pub mod analyze;
pub mod completion;
pub mod demo;
pub mod doctor;
pub mod explain;
pub mod guard;
pub mod kubectl;
pub mod man_pages;
pub mod pods;
pub mod run;
pub mod sim;
pub mod snapshot;
pub mod status;
pub mod timeline;
pub mod top;
pub mod watch;
