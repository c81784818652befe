//! The ids that an agent last knew, saved for its next start: a list may hang then, and the
//! runtime's own folders are not always where we look for them.
//!
//! ```text
//!   agent --every few seconds, if they changed--> /run/pleg/<endpoint>.json --> the next agent
//! ```
//!
//! Ids and nothing else: no names, no labels, no environment.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cri::Endpoint;
use pleg::Pleg;
use pleg::kernel::{Blocking, replace};
use pleg::model::id::Id;
use pleg::out::cache::Stopped;
use pleg::out::coverage::PassKind;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

/// How much of a file is read. A longer file is not one of ours: a node has a few hundred
/// containers.
const MAX_BYTES: u64 = 16 << 20;

/// How many ids are used: a sweep requests their statuses in a hundred seconds.
const MAX_IDS: usize = 20_000;

/// The time between two checks whether the ids have changed.
const CHECK_PERIOD: Duration = Duration::from_secs(10);

/// The time until the first check, before any ids were saved.
const FIRST_CHECK: Duration = Duration::from_millis(500);

/// How long the disk may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// The contents of the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    endpoint: String,
    ids: BTreeSet<Id>,
}

/// The file with the saved ids of a runtime.
pub struct SavedSet {
    endpoint: String,
    path: PathBuf,
}

impl SavedSet {
    /// The set of the runtime at `endpoint`, whether it exists or not.
    pub fn new(endpoint: &Endpoint, folder: &Path) -> Self {
        let socket = endpoint.path().to_string_lossy();
        let name = socket.trim_start_matches('/').replace('/', "-");
        Self {
            endpoint: endpoint.to_string(),
            path: folder.join(format!("{name}.json")),
        }
    }

    /// The ids that were last saved; none if they cannot be read.
    pub fn ids(&self) -> Vec<Id> {
        match self.read() {
            Ok(saved) if saved.endpoint == self.endpoint => {
                saved.ids.into_iter().take(MAX_IDS).collect()
            }
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::debug!("no saved ids: {}: {error}", self.path.display());
                Vec::new()
            }
        }
    }

    fn read(&self) -> io::Result<Saved> {
        // Opening a pipe in its place would block.
        if !fs::symlink_metadata(&self.path)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut text = String::new();
        File::open(&self.path)?
            .take(MAX_BYTES)
            .read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Replaces the saved set atomically.
    fn write(&self, ids: &BTreeSet<Id>) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let saved = Saved {
            endpoint: self.endpoint.clone(),
            ids: ids.clone(),
        };
        replace(&self.path, &serde_json::to_vec(&saved)?, 0o600)
    }

    /// Keeps the saved set equal to what `pleg` knows, until `pleg` stops. If the folder cannot be
    /// written to, this is reported once, and is no reason to stop.
    pub async fn keep(self, pleg: Pleg) -> Result<Infallible, Stopped> {
        let set = Arc::new(self);
        let blocking = Blocking::default();
        let mut kept = BTreeSet::new();
        let mut said = false;
        let mut cache = pleg.cache().clone();
        loop {
            sleep(if kept.is_empty() {
                FIRST_CHECK
            } else {
                CHECK_PERIOD
            })
            .await;
            cache.changed().await?;
            // Without a complete list, some ids may be unknown, which is no reason to remove them
            // from the file.
            if pleg.status().await?.relist.last_kind != Some(PassKind::List) {
                continue;
            }
            let ids = known(&pleg);
            if ids == kept {
                continue;
            }
            let (writer, written) = (set.clone(), ids.clone());
            let write = move || writer.write(&written);
            let written = blocking.run(DEADLINE, write).await;
            let written = written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
            if let Err(error) = written
                && !std::mem::replace(&mut said, true)
            {
                let path = set.path.display();
                tracing::warn!("the known ids cannot be saved in {path}: {error}");
            }
            kept = ids;
        }
    }
}

fn known(pleg: &Pleg) -> BTreeSet<Id> {
    let entries = pleg.cache().all();
    let ids = entries.iter().flat_map(|entry| {
        let status = &entry.status;
        let sandboxes = status.sandboxes.iter().map(|sandbox| sandbox.id.clone());
        let containers = status.containers.iter();
        sandboxes.chain(containers.map(|container| container.id.clone()))
    });
    ids.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_read_by_an_agent_of_the_same_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let set = |socket: &str| SavedSet::new(&Endpoint::new(socket), folder.path());
        let ids = BTreeSet::from(["a".into(), "b".into()]);
        set("/run/x.sock").write(&ids).unwrap();
        assert_eq!(set("/run/x.sock").ids(), ["a".into(), "b".into()]);
        assert_eq!(set("/run/y.sock").ids(), []);
        // The file of another endpoint is not used, even if it has the same name.
        assert_eq!(set("/run-x.sock").ids(), []);
    }

    #[test]
    fn a_file_that_is_not_a_saved_set_has_no_ids() {
        let folder = tempfile::tempdir().unwrap();
        let set = SavedSet::new(&Endpoint::new("/x.sock"), folder.path());
        for text in ["", "{", "[1]", "\0\0"] {
            fs::write(folder.path().join("x.sock.json"), text).unwrap();
            assert_eq!(set.ids(), []);
        }
        fs::remove_file(folder.path().join("x.sock.json")).unwrap();
        fs::create_dir(folder.path().join("x.sock.json")).unwrap();
        assert_eq!(set.ids(), []);
    }
}
