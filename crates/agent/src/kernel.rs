//! The kernel's hints, as this machine allows them.

use std::sync::Arc;

use cri::Endpoint;
use pleg::kernel::{Kernel, Pidfds};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::listeners::MAX_CONNECTIONS;

/// Descriptors that stay free: for the connections of three listeners, and for files.
const RESERVED: u64 = 3 * MAX_CONNECTIONS as u64 + 128;

/// More processes than this run on no node.
const MOST: u64 = 100_000;

/// The observer of the processes of the runtime at `endpoint`. Raises our limit of open files as
/// far as needed and permitted, since each process takes one.
pub fn kernel(endpoint: &Endpoint) -> Arc<dyn Kernel> {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(MOST + RESERVED);
    let wanted = Rlimit {
        current: Some(hard.min(MOST + RESERVED).max(limit.current.unwrap_or(0))),
        maximum: limit.maximum,
    };
    let soft = match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => wanted.current,
        Err(error) => {
            tracing::debug!("the limit of open files stays as it is: {error}");
            limit.current
        }
    };
    let most = soft.unwrap_or(MOST + RESERVED).saturating_sub(RESERVED);
    Arc::new(Pidfds::new("/proc", endpoint.path(), most as usize))
}
