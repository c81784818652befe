//! Ids that are known although a list hangs: the runtime's directories show them, and an
//! agent that ran here saved them.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cri::Endpoint;
use pleg::IdSource;
use pleg::kernel::{Blocking, id_directories};
use pleg::model::id::HostId;

mod owners;
mod runtime_folder;
mod saved_set;

use owners::Owners;
pub(crate) use saved_set::SavedSet;

/// How long the disk may take to tell the ids.
const DEADLINE: Duration = Duration::from_secs(1);

/// The ids that the directories of the runtime at `endpoint` show, without names; none where there
/// are no such directories.
pub fn host_ids(endpoint: &Endpoint) -> IdSource {
    let directories = id_directories(endpoint.path());
    source(move || {
        let ids = runtime_folder::ids(&directories)?;
        Ok(ids.into_iter().map(HostId::from).collect())
    })
}

/// All ids that this machine knows of the runtime at `endpoint`, with their owners.
pub fn known_ids(endpoint: &Endpoint, state_directory: &Path) -> IdSource {
    let directories = id_directories(endpoint.path());
    let saved = SavedSet::new(endpoint, state_directory);
    let owners = Mutex::<Owners>::default();
    source(move || {
        let saved = saved.ids();
        let mut ids = match runtime_folder::ids(&directories) {
            // What an agent saved is better than nothing.
            Err(_) if !saved.is_empty() => Vec::new(),
            told => told?,
        };
        ids.extend(saved);
        let mut owners = owners.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(owners.name(ids, &directories))
    })
}

/// What this reads, which may block.
fn source(read: impl Fn() -> io::Result<Vec<HostId>> + Send + Sync + 'static) -> IdSource {
    let read = Arc::new(read);
    let blocking = Blocking::default();
    Arc::new(move || {
        let (read, blocking) = (read.clone(), blocking.clone());
        Box::pin(async move {
            match blocking.run(DEADLINE, move || read()).await {
                Some(Ok(ids)) => Some(ids),
                Some(Err(error)) => {
                    tracing::debug!("the ids that this machine knows cannot be read: {error}");
                    None
                }
                None => {
                    tracing::debug!("the ids that this machine knows cannot be read in time");
                    None
                }
            }
        })
    })
}
