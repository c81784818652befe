//! What consumers receive: the pod status cache, events, health and the status report.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::out::cache::Stopped> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
//! tokio::time::sleep(Duration::from_secs(1)).await;
//!
//! let status = pleg.status().await?;
//! assert_eq!(status.health.message, "all pods are up to date");
//! assert_eq!(pleg.cache().all().len(), status.pods);
//! # Ok(())
//! # }
//! ```

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
