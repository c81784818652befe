//! Calls to the runtime, watched over.
//!
//! ```text
//!   run(about, call) -- nobody else asks this? --> outstanding --> answer
//!                 \-- somebody does: wait for its end, then ask
//! ```
//!
//! **At most one call per (RPC, id) is ever outstanding**: a blocked runtime is never fed
//! a pile of retries, which is half of the outages. A call has no deadline. One that is
//! *overdue* stays outstanding and is named; nobody cancels and repeats it. It ends when
//! the runtime answers or the connection is gone.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::id::{Id, PodRef};
use crate::observer::Observer;
use crate::runtime::{Call, CallError};

/// What a call asks for, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Which RPC.
    pub call: Call,
    /// The container or sandbox that it asks for; `None` for a list.
    pub id: Option<Id>,
    /// The container's name.
    pub container: Option<Arc<str>>,
    /// The pod.
    pub pod: Option<PodRef>,
}

impl About {
    /// A call for the whole node.
    pub fn node(call: Call) -> Self {
        Self {
            call,
            id: None,
            container: None,
            pod: None,
        }
    }
}

/// A call that has not been answered yet.
#[derive(Clone, Debug)]
pub struct OutstandingCall {
    /// What it asks for.
    pub about: About,
    /// When it was made.
    pub since: Instant,
}

/// The calls that are outstanding now. Clones share them.
#[derive(Clone)]
pub struct Calls {
    outstanding: Arc<Mutex<Outstanding>>,
    began: Arc<Notify>,
    observer: Arc<dyn Observer>,
}

/// What a call asks: no two outstanding calls ask the same.
type Question = (Call, Option<Id>);

type Outstanding = BTreeMap<Question, Entry>;

struct Entry {
    call: OutstandingCall,
    /// Who else wants to ask the same, and waits for its end: one id in two pods.
    waiting: Vec<About>,
    ended: watch::Receiver<()>,
}

impl Entry {
    /// The call, and once more for each that waits behind it.
    fn all(&self) -> impl Iterator<Item = OutstandingCall> {
        let since = self.call.since;
        let waiting = self.waiting.iter().cloned();
        let waiting = waiting.map(move |about| OutstandingCall { about, since });
        std::iter::once(self.call.clone()).chain(waiting)
    }
}

impl Calls {
    /// No calls yet; each one that ends is told to `observer`.
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self {
            outstanding: Arc::default(),
            began: Arc::default(),
            observer,
        }
    }

    /// Makes `call`, after the end of any other call that asks the same.
    pub async fn run<T>(
        &self,
        about: About,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let claim = self.claim(about).await;
        let answer = call.await;
        self.observer.call_ended(
            claim.question.0,
            claim.since.elapsed(),
            answer.as_ref().err(),
        );
        answer
    }

    async fn claim(&self, about: About) -> Claim {
        let question = (about.call, about.id.clone());
        loop {
            let mut ended = {
                let mut outstanding = self.lock();
                let Some(other) = outstanding.get_mut(&question) else {
                    let since = Instant::now();
                    let (end, ended) = watch::channel(());
                    let call = OutstandingCall { about, since };
                    let waiting = Vec::new();
                    let entry = Entry {
                        call,
                        waiting,
                        ended,
                    };
                    outstanding.insert(question.clone(), entry);
                    self.began.notify_one();
                    return Claim {
                        calls: self.clone(),
                        question,
                        since,
                        _end: end,
                    };
                };
                if other.call.about != about && !other.waiting.contains(&about) {
                    other.waiting.push(about.clone());
                }
                other.ended.clone()
            };
            // An error means that the other's claim was dropped, that is, that it ended.
            let _ = ended.changed().await;
        }
    }

    /// Whether this is being asked.
    pub fn is_outstanding(&self, call: Call, id: Option<&Id>) -> bool {
        self.lock().contains_key(&(call, id.cloned()))
    }

    /// All that is outstanding, lists first.
    pub fn outstanding(&self) -> Vec<OutstandingCall> {
        self.lock()
            .values()
            .map(|entry| entry.call.clone())
            .collect()
    }

    /// What has been outstanding for at least as long as `patience` says for its call,
    /// and what waits behind such a call.
    pub fn overdue(&self, patience: impl Fn(Call) -> Duration) -> Vec<OutstandingCall> {
        self.lock()
            .values()
            .filter(|entry| entry.call.since.elapsed() >= patience(entry.call.about.call))
            .flat_map(Entry::all)
            .collect()
    }

    /// Returns when a call began since last asked: then [`Self::next_overdue`] is another.
    pub async fn began(&self) {
        self.began.notified().await;
    }

    /// When the next of the outstanding calls becomes overdue.
    pub fn next_overdue(&self, patience: impl Fn(Call) -> Duration) -> Option<Instant> {
        let now = Instant::now();
        self.lock()
            .values()
            .map(|entry| entry.call.since + patience(entry.call.about.call))
            .filter(|overdue| *overdue > now)
            .min()
    }

    fn lock(&self) -> MutexGuard<'_, Outstanding> {
        self.outstanding.lock().expect("no panic while it is held")
    }
}

/// The right to ask, given back when dropped: also when the caller was aborted.
struct Claim {
    calls: Calls,
    question: Question,
    since: Instant,
    _end: watch::Sender<()>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.question);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;
    use crate::observer::NoObserver;

    fn status_of(id: &str) -> About {
        About {
            id: Some(id.into()),
            ..About::node(Call::ContainerStatus)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_question_is_never_asked_twice_at_once() {
        let calls = Calls::new(Arc::new(NoObserver));
        let asked = Arc::new(AtomicUsize::new(0));
        let ask = |id: &str| {
            let (calls, asked, about) = (calls.clone(), asked.clone(), status_of(id));
            tokio::spawn(async move {
                calls
                    .run(about, async {
                        asked.fetch_add(1, Ordering::Relaxed);
                        sleep(Duration::from_secs(10)).await;
                        Ok(())
                    })
                    .await
            })
        };
        let same = [ask("a"), ask("a"), ask("a")];
        let other = ask("b");

        sleep(Duration::from_secs(1)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 2, "one for each id");
        assert_eq!(calls.outstanding().len(), 2);
        for call in same {
            call.await.unwrap().unwrap();
        }
        other.await.unwrap().unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 4);
        assert!(calls.outstanding().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_aborted_call_makes_way() {
        let calls = Calls::new(Arc::new(NoObserver));
        let hung = tokio::spawn({
            let calls = calls.clone();
            async move {
                let never = std::future::pending::<Result<(), CallError>>();
                calls.run(status_of("a"), never).await
            }
        });
        sleep(Duration::from_secs(9)).await;
        let patience = |_: Call| Duration::from_secs(5);
        assert_eq!(calls.overdue(patience).len(), 1);
        hung.abort();
        calls.run(status_of("a"), async { Ok(()) }).await.unwrap();
        assert!(calls.overdue(patience).is_empty());
    }
}
