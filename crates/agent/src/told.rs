//! What a reader of events is told: what the library tells, and while a guard answers in the
//! runtime's place, that this is our health.

use std::future::pending;

use guard::Turns;
use pleg::model::wall_time::system_clock;
use pleg::out::cache::Stopped;
use pleg::out::subscribers::Subscription;
use pleg::out::told::Record;

use crate::agent::Agent;

/// A subscription, with the guard's turns.
pub(crate) struct Told {
    agent: Agent,
    subscription: Subscription,
    turns: Option<Turns>,
}

impl Told {
    pub(crate) async fn subscribe(agent: Agent) -> Result<Self, Stopped> {
        Ok(Self {
            turns: agent.guard.as_ref().map(guard::Handle::turns),
            subscription: agent.pleg.subscribe().await?,
            agent,
        })
    }

    pub(crate) async fn next(&mut self) -> Option<Record> {
        loop {
            let turned = async {
                match &mut self.turns {
                    Some(turns) => turns.next().await,
                    None => pending().await,
                }
            };
            let mut record = tokio::select! {
                biased;
                record = self.subscription.next() => record?,
                () = turned => match self.agent.report().await {
                    Ok(report) => return Some(Record::Health(report.into_health(system_clock()()))),
                    // Nobody knows how we are: the next record says.
                    Err(_) => continue,
                },
            };
            if let (Record::Health(health), Some(guard)) = (&mut record, &self.agent.guard) {
                guard.show_change(health);
            }
            return Some(record);
        }
    }
}
