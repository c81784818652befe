//! What is deployed into a cluster: manifests, overlays, chart, admission policies, samples.

mod admission;
mod chart;
mod files;
mod manifests;
mod pods;
mod policy;
mod samples;
