//! Ids of containers and sandboxes from somewhere else than the runtime's lists.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Blocking, id_directories, ids_in};
use crate::id::HostId;

/// How long it may take to read the ids from disk.
const DEADLINE: Duration = Duration::from_secs(1);

/// Ids of containers and sandboxes from somewhere else than the runtime's lists, such as
/// the runtime's own folders. Ids that no longer exist do no harm. A read that may block is done
/// elsewhere (see [`Blocking`]), and has a deadline.
pub type IdSource = Arc<dyn Fn() -> Ids + Send + Sync>;

/// The attempt to read ids: none where there is nothing to be read, and `None` if what is there
/// could not be read now.
pub type Ids = Pin<Box<dyn Future<Output = Option<Vec<HostId>>> + Send>>;

/// For a host of which nothing is known.
pub fn no_ids() -> IdSource {
    Arc::new(|| Box::pin(async { Some(Vec::new()) }))
}

/// The ids that the directories of the runtime on this socket show, without names; none where there
/// are no such directories.
pub fn runtime_ids(socket: &Path) -> IdSource {
    let directories = id_directories(socket);
    read_ids(move || {
        let ids = ids_in(&directories)?;
        Ok(ids.into_iter().map(HostId::from).collect())
    })
}

/// What this reads, which may block.
pub fn read_ids(read: impl Fn() -> io::Result<Vec<HostId>> + Send + Sync + 'static) -> IdSource {
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
