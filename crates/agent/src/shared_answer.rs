//! An answer that takes long to make. One request makes it at a time, and all waiting requests
//! share it.
//!
//! ```text
//!   first asks ---- makes ----+
//!     second asks, waits      +--- makes a new one, so that it contains all that was known when it asked
//!       third asks, waits     |      +--- is given that one, as is every request that waits
//! ```

use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::Instant;

/// The last answer. It is kept only while it is still being sent.
#[derive(Clone, Default)]
pub(crate) struct SharedAnswer(Arc<Mutex<Option<Made>>>);

struct Made {
    begun: Instant,
    text: Weak<[u8]>,
}

/// What a request is given.
pub(crate) enum Obtained {
    /// An answer whose making began after the request.
    Shared(Bytes),
    /// There is no such answer yet: this request has to make it.
    Turn(Turn),
}

/// The right to make an answer, which one request has at a time.
pub(crate) struct Turn {
    last: OwnedMutexGuard<Option<Made>>,
    begun: Instant,
}

impl SharedAnswer {
    /// Waits while another request makes an answer. Returns an answer whose making began after this
    /// call, or the turn to make it.
    pub(crate) async fn ask(&self) -> Obtained {
        let asked = Instant::now();
        let last = self.0.clone().lock_owned().await;
        let made_since = last.as_ref().filter(|made| made.begun > asked);
        match made_since.and_then(|made| made.text.upgrade()) {
            Some(text) => Obtained::Shared(Bytes::from_owner(text)),
            None => Obtained::Turn(Turn {
                last,
                begun: Instant::now(),
            }),
        }
    }
}

impl Turn {
    /// Makes the answer on a separate thread. The turn lasts until it is made, even if no request
    /// waits for it any more.
    pub(crate) async fn make(
        mut self,
        make: impl FnOnce() -> String + Send + 'static,
    ) -> Result<Bytes, JoinError> {
        let made = spawn_blocking(move || {
            let text: Arc<[u8]> = make().into_bytes().into();
            *self.last = Some(Made {
                begun: self.begun,
                text: Arc::downgrade(&text),
            });
            text
        });
        Ok(Bytes::from_owner(made.await?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::sleep;
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;

    async fn ask(answer: &SharedAnswer, made: &Arc<AtomicU32>) -> Bytes {
        let turn = match answer.ask().await {
            Obtained::Shared(text) => return text,
            Obtained::Turn(turn) => turn,
        };
        let made = made.clone();
        let make = move || {
            let number = made.fetch_add(1, Ordering::Relaxed) + 1;
            sleep(Duration::from_millis(20));
            number.to_string()
        };
        turn.make(make).await.unwrap()
    }

    #[tokio::test]
    async fn all_requests_that_wait_while_an_answer_is_made_share_the_next_one() {
        let (answer, made) = (SharedAnswer::default(), Arc::default());
        let answers = join_all((0..100).map(|_| ask(&answer, &made))).await;
        assert_eq!(answers[0], "1");
        assert_eq!(answers[1..], vec!["2"; 99]);
    }

    #[tokio::test]
    async fn a_later_request_is_given_a_new_answer_though_the_last_one_is_still_being_sent() {
        let (answer, made) = (SharedAnswer::default(), Arc::default());
        let being_sent = ask(&answer, &made).await;
        assert_eq!(ask(&answer, &made).await, "2");
        assert_eq!(being_sent, "1");
    }

    #[tokio::test]
    async fn an_answer_is_not_kept_once_it_is_sent() {
        let (answer, made) = (SharedAnswer::default(), Arc::default());
        drop(ask(&answer, &made).await);
        let kept = answer.0.lock().await.as_ref().unwrap().text.upgrade();
        assert!(kept.is_none());
    }

    #[tokio::test]
    async fn only_one_is_made_at_a_time_when_the_client_has_gone() {
        let (answer, made) = (SharedAnswer::default(), Arc::default());
        let gone = tokio::time::timeout(Duration::from_millis(1), ask(&answer, &made));
        assert!(gone.await.is_err());
        let makes_still = answer.0.clone().try_lock_owned();
        assert!(makes_still.is_err());
        assert_eq!(ask(&answer, &made).await, "2");
    }
}
