//! The node that is measured, and the configuration of the library that watches it.

use std::sync::Arc;
use std::time::Duration;

use pleg::model::wall_time::system_clock;
use pleg::{Config, Environment, Mode, NoObserver};

pub const PODS: usize = 100;

/// How long the runtime is busy after a pod was started.
pub const SETTLING_TIME: Duration = Duration::from_secs(5);

pub fn config(relist_period: Duration) -> Config {
    Config {
        mode: Mode::Generic,
        relist_period,
        ..Config::default()
    }
}

pub fn environment() -> Environment {
    Environment {
        endpoint: "the testbed".into(),
        clock: system_clock(),
        observer: Arc::new(NoObserver),
        ids: pleg::no_ids(),
        kernel: None,
    }
}
