//! Containers that the runtime lists as running although their process has exited. After each
//! exit this is so for a moment; if the conmon or shim is stopped or gone, it stays so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::{Instant, sleep_until, timeout};

use super::round::Round;
use super::task_folder::TaskFolder;

/// How long reading the state directories may take.
const READING_LIMIT: Duration = Duration::from_secs(1);

/// Within this time, a healthy runtime has noticed an exit.
const NOTICED_WITHIN: Duration = Duration::from_secs(3);

/// Those that were listed as running although their process had exited.
pub(super) struct Dead {
    folder: TaskFolder,
    inits: BTreeMap<Id, Option<u32>>,
    since: Instant,
}

impl Dead {
    /// Checks the containers that the lists have just shown as running.
    pub async fn look(folder: TaskFolder, runtime: Option<u32>, round: &Round) -> Self {
        let running = round.known.running();
        let reader = folder.clone();
        let read = tokio::task::spawn_blocking(move || {
            let is_ours = runtime.is_some_and(|runtime| reader.has_our_pids(runtime));
            let running = running.into_iter().filter(|_| is_ours).collect();
            reader.ended(&running)
        });
        let inits = timeout(READING_LIMIT, read).await;
        Self {
            folder,
            inits: inits.ok().and_then(Result::ok).unwrap_or_default(),
            since: Instant::now(),
        }
    }

    /// With those that a list has shown since.
    pub fn and(mut self, newer: Self) -> Self {
        self.inits.extend(newer.inits);
        self.since = newer.since;
        self
    }

    /// Which of them are still listed as running after a healthy runtime would have noticed; `Err`
    /// with their number if that could not be seen.
    pub async fn still_listed(self, round: &mut Round) -> Result<BTreeSet<Id>, usize> {
        let dead = self.inits.len();
        if dead == 0 {
            return Ok(BTreeSet::new());
        }
        if round.is_interrupted() {
            return Err(dead);
        }
        sleep_until(self.since + NOTICED_WITHIN).await;
        if !round.ask_lists_again().await {
            return Err(dead);
        }
        let running = round.known.running();
        let read = tokio::task::spawn_blocking(move || {
            let mut again = self.folder.ended(&running);
            // If it was restarted under the same id, another process has exited since.
            again.retain(|id, init| {
                let before = self.inits.get(id);
                before.is_some_and(|before| init.is_none() || init == before)
            });
            again.into_keys().collect()
        });
        let still = timeout(READING_LIMIT, read).await;
        still.ok().and_then(Result::ok).ok_or(dead)
    }
}
