//! The kernel's hints, as this machine allows them.

use std::sync::Arc;

use cri::Endpoint;
use pleg::kernel::{Kernel, Pidfds};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::listeners::MAX_CONNECTIONS;

/// File descriptors that stay free: for the connections of three listeners, and for files.
const RESERVED_DESCRIPTORS: u64 = 3 * MAX_CONNECTIONS as u64 + 128;

/// How many processes can be watched: no node runs more.
const MAX_PROCESSES: u64 = 100_000;

/// The observer of the processes of the runtime at `endpoint`. Raises our limit of open files to
/// what is needed, or to what is permitted if that is less: each watched process takes one file.
pub fn kernel(endpoint: &Endpoint) -> Arc<dyn Kernel> {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit
        .maximum
        .unwrap_or(MAX_PROCESSES + RESERVED_DESCRIPTORS);
    let wanted = Rlimit {
        current: Some(
            hard.min(MAX_PROCESSES + RESERVED_DESCRIPTORS)
                .max(limit.current.unwrap_or(0)),
        ),
        maximum: limit.maximum,
    };
    let soft = match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => wanted.current,
        Err(error) => {
            tracing::debug!("the limit of open files stays as it is: {error}");
            limit.current
        }
    };
    let most = soft
        .unwrap_or(MAX_PROCESSES + RESERVED_DESCRIPTORS)
        .saturating_sub(RESERVED_DESCRIPTORS);
    Arc::new(Pidfds::new("/proc", endpoint.path(), most as usize))
}
