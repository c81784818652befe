//! What consumers receive: the pod status cache, events, health and the status report.

pub mod apply;
pub mod cache;
pub mod call_costs;
pub mod coverage;
pub mod failure;
pub mod health;
pub mod kubelet_view;
pub mod pods;
pub mod record;
pub mod status_report;
pub mod subscribers;
pub mod words;
