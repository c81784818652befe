//! Ids that are known although a list hangs: the runtime's directories show them, and an earlier
//! agent saved them.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use base::host::{IdSource, id_directories, ids_in, read_ids};
use cri::Endpoint;

mod owners;
mod saved_set;

use owners::Owners;
pub(crate) use saved_set::SavedSet;

/// All ids that this machine knows of the runtime at `endpoint`, with their owners.
pub fn known_ids(endpoint: &Endpoint, state_directory: &Path) -> IdSource {
    let directories = id_directories(endpoint.path());
    let saved = SavedSet::new(endpoint, state_directory);
    let owners = Mutex::<Owners>::default();
    read_ids(move || {
        let saved = saved.ids();
        let mut ids = match ids_in(&directories) {
            // What an agent saved is better than nothing.
            Err(_) if !saved.is_empty() => Vec::new(),
            known => known?,
        };
        ids.extend(saved);
        let mut owners = owners.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(owners.name(ids, &directories))
    })
}
