//! The records for a reader of events: those of the library, and the changes of health that a guard
//! causes.

use std::future::pending;

use pleg::model::wall_time::system_clock;
use pleg::out::cache::Stopped;
use pleg::out::health::{HealthState, Reason};
use pleg::out::record::Record;
use pleg::out::subscribers::Subscription;

use crate::agent::Agent;
use crate::guard::{Guard, ReasonChanges};

/// A subscription to the library's records and to the guard's [`ReasonChanges`].
pub(crate) struct Records {
    agent: Agent,
    subscription: Subscription,
    changes: Option<ReasonChanges>,
    /// The health of the last record.
    last: Option<(HealthState, Reason)>,
}

impl Records {
    pub(crate) async fn subscribe(agent: Agent) -> Result<Self, Stopped> {
        Ok(Self {
            changes: agent.guard.as_ref().map(Guard::reason_changes),
            subscription: agent.pleg.subscribe().await?,
            last: None,
            agent,
        })
    }

    pub(crate) async fn next(&mut self) -> Option<Record> {
        loop {
            let changed = async {
                match &mut self.changes {
                    Some(changes) => changes.next().await,
                    None => pending().await,
                }
            };
            let (mut record, is_turn) = tokio::select! {
                biased;
                record = self.subscription.next() => (record?, false),
                () = changed => match self.agent.report().await {
                    Ok(report) => {
                        let health = report.into_health(system_clock()());
                        (Record::Health(health), true)
                    }
                    // The state of the node is not known now; the next record will report it.
                    Err(_) => continue,
                },
            };
            if let Record::Health(health) = &mut record {
                if let Some(guard) = self.agent.guard.as_ref().filter(|_| !is_turn) {
                    guard.show_change(health);
                }
                let now = Some((health.state, health.reason));
                // Our own relisting has already reported this health.
                if is_turn && self.last == now {
                    continue;
                }
                self.last = now;
            }
            return Some(record);
        }
    }
}
