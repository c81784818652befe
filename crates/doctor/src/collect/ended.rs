//! Containers that the runtime lists as running although their process has ended. For a moment
//! that is so after every death; whose conmon or shim is stopped or gone stays so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::{Instant, sleep_until, timeout};

use super::round::Round;
use super::task_folder::TaskFolder;

/// How long a look at the folders may take.
const READING: Duration = Duration::from_secs(1);

/// A runtime that is well has noticed a death by then.
const NOTICED: Duration = Duration::from_secs(3);

/// Those that were listed as running when their process had ended.
pub(super) struct Ended {
    folder: TaskFolder,
    inits: BTreeMap<Id, u32>,
    since: Instant,
}

impl Ended {
    /// Looks at what the lists have just called running.
    pub async fn look(folder: TaskFolder, runtime: Option<u32>, round: &Round) -> Self {
        let running = round.known.running();
        let reader = folder.clone();
        let read = tokio::task::spawn_blocking(move || {
            let is_ours = runtime.is_some_and(|runtime| reader.has_our_pids(runtime));
            let running = running.into_iter().filter(|_| is_ours).collect();
            reader.ended(&running)
        });
        let inits = timeout(READING, read).await;
        Self {
            folder,
            inits: inits.ok().and_then(Result::ok).unwrap_or_default(),
            since: Instant::now(),
        }
    }

    /// Who of them is still called running when that is no matter of moments any more.
    pub async fn still_listed(self, round: &mut Round) -> BTreeSet<Id> {
        if self.inits.is_empty() {
            return BTreeSet::new();
        }
        sleep_until(self.since + NOTICED).await;
        if !round.ask_lists_again().await {
            return BTreeSet::new();
        }
        let running = round.known.running();
        let read = tokio::task::spawn_blocking(move || {
            let mut again = self.folder.ended(&running);
            // Started again under its id, it is another process that has ended since.
            again.retain(|id, init| self.inits.get(id) == Some(init));
            again.into_keys().collect()
        });
        let still = timeout(READING, read).await;
        still.ok().and_then(Result::ok).unwrap_or_default()
    }
}
