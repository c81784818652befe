//! The tasks of the guard's thread. One that panics ends the thread, and with it the process: what
//! starts it again starts it with what it has kept, while a half of it would say anything.

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

/// Runs a task of this thread.
pub(super) fn spawn(task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(async {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            tracing::error!("a task of the guard panicked: {}", words(panic.as_ref()));
            PANICKED.with(|panicked| panicked.notify_one());
        }
    })
}

/// Tasks of this thread.
#[derive(Clone, Copy)]
pub(super) struct LocalExecutor;

impl<F: Future + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn(async move {
            future.await;
        });
    }
}

/// Ends when a task of this thread has panicked.
pub(super) async fn panicked() {
    PANICKED.with(Rc::clone).notified().await;
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| Some(panic.downcast_ref::<String>()?.as_str()))
        .unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::LocalSet;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_noticed_and_one_that_ends_is_not() {
        let noticed = async {
            let _ = spawn(async {}).await;
            let first = timeout(Duration::from_millis(20), panicked()).await;
            let _ = spawn(async { panic!("on purpose") }).await;
            let second = timeout(Duration::from_secs(5), panicked()).await;
            (first.is_ok(), second.is_ok())
        };
        assert_eq!(LocalSet::new().run_until(noticed).await, (false, true));
    }
}
