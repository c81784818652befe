//! The node that is measured, and how it is watched.

use std::sync::Arc;
use std::time::Duration;

use pleg::model::wall_time::system_clock;
use pleg::{Config, Environment, Mode, NoObserver};

pub const PODS: usize = 100;

/// After a pod was started the runtime is still busy with it.
pub const CALM: Duration = Duration::from_secs(5);

pub fn config(relist_period: Duration) -> Config {
    Config {
        mode: Mode::Generic,
        relist_period,
        ..Config::default()
    }
}

pub fn environment() -> Environment {
    Environment {
        endpoint: "the test bed".into(),
        clock: system_clock(),
        observer: Arc::new(NoObserver),
        ids: pleg::no_ids(),
        kernel: None,
    }
}
