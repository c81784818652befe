//! Ids that are known although a list hangs: the runtime's directories show them, and an
//! agent that ran here saved them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cri::Endpoint;
use pleg::IdSource;
use pleg::kernel::Blocking;

mod runtime_folder;
mod saved_set;

pub(crate) use saved_set::SavedSet;

/// How long the disk may take to tell the ids.
const DEADLINE: Duration = Duration::from_secs(1);

/// The ids that the directories of the runtime at `endpoint` show; none where they cannot be read.
pub fn host_ids(endpoint: &Endpoint) -> IdSource {
    let folders = runtime_folder::folders(endpoint);
    let blocking = Blocking::default();
    Arc::new(move || {
        let (folders, blocking) = (folders.clone(), blocking.clone());
        Box::pin(async move {
            let read = move || runtime_folder::ids(&folders);
            blocking.run(DEADLINE, read).await.unwrap_or_default()
        })
    })
}

/// All ids that this machine knows of the runtime at `endpoint`.
pub fn known_ids(endpoint: &Endpoint, state_directory: &Path) -> IdSource {
    let folders = runtime_folder::folders(endpoint);
    let saved = Arc::new(SavedSet::new(endpoint, state_directory));
    let blocking = Blocking::default();
    Arc::new(move || {
        let (folders, saved, blocking) = (folders.clone(), saved.clone(), blocking.clone());
        Box::pin(async move {
            let read = move || {
                let mut ids = runtime_folder::ids(&folders);
                ids.extend(saved.ids());
                ids
            };
            let ids = blocking.run(DEADLINE, read).await;
            ids.unwrap_or_else(|| {
                tracing::debug!(
                    "the saved ids and the runtime's directories cannot be read in time"
                );
                Vec::new()
            })
        })
    })
}
