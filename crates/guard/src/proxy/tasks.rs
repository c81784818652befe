//! The tasks of the guard's thread. A task that panics ends the thread, and so the process. The
//! supervisor restarts it with its saved state; the state of a half-finished task cannot be trusted.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use futures_util::FutureExt;
use hyper::rt::Executor;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

thread_local! {
    static PANICKED: Rc<Notify> = Rc::default();
}

/// Spawns a task on this thread.
pub(super) fn spawn(task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(async {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            tracing::error!("a task of the guard panicked: {}", message(panic.as_ref()));
            PANICKED.with(|panicked| panicked.notify_one());
        }
    })
}

/// Executes hyper's tasks on this thread.
#[derive(Clone, Copy)]
pub(super) struct LocalExecutor;

impl<F: Future + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn(async move {
            future.await;
        });
    }
}

/// Returns when a task of this thread has panicked.
pub(super) async fn panicked() {
    PANICKED.with(Rc::clone).notified().await;
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| Some(panic.downcast_ref::<String>()?.as_str()))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::LocalSet;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_task_is_reported_and_its_end_is_not() {
        let reported = async {
            let _ = spawn(async {}).await;
            let first = timeout(Duration::from_millis(20), panicked()).await;
            let _ = spawn(async { panic!("on purpose") }).await;
            let second = timeout(Duration::from_secs(5), panicked()).await;
            (first.is_ok(), second.is_ok())
        };
        assert_eq!(LocalSet::new().run_until(reported).await, (false, true));
    }
}
