//! A connection to the runtime, opened on demand, and again after it has ended.

use std::cell::RefCell;
use std::fmt::Display;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tokio::sync::Mutex;

use super::tasks::spawn;
use super::upstream::NoAnswer;

/// A kind of connection to the runtime. Clones share it.
pub(super) trait OpenConnection: Clone {
    /// This connection once it accepts a request; `None` if it never will.
    async fn ready(self) -> Option<Self>;

    /// Opens a connection, which calls `on_lost` when it has ended.
    async fn open(path: &Path, on_lost: Rc<dyn Fn()>) -> Result<Self, NoAnswer>;
}

/// The connection, while one is open. Clones share it.
#[derive(Clone)]
pub(super) struct OnDemand<C> {
    path: Rc<PathBuf>,
    open: Rc<RefCell<Option<C>>>,
    /// Locked while a connection is opened: other requests wait for it and use it too.
    connecting: Rc<Mutex<()>>,
    on_lost: Rc<dyn Fn()>,
}

impl<C: OpenConnection> OnDemand<C> {
    /// Opens no connection yet. `on_lost` is called each time a connection has ended.
    pub(super) fn new(path: PathBuf, on_lost: Rc<dyn Fn()>) -> Self {
        Self {
            path: Rc::new(path),
            open: Rc::default(),
            connecting: Rc::default(),
            on_lost,
        }
    }

    /// The connection; opens a new one if there is none.
    pub(super) async fn connect(&self) -> Result<C, NoAnswer> {
        if let Some(open) = self.current().await {
            return Ok(open);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(open) = self.current().await {
            return Ok(open);
        }
        let open = C::open(&self.path, self.on_lost.clone()).await?;
        *self.open.borrow_mut() = Some(open.clone());
        Ok(open)
    }

    async fn current(&self) -> Option<C> {
        let open = self.open.borrow().clone();
        open?.ready().await
    }
}

/// Drives a connection, and calls `ended` after its end.
pub(super) fn until_its_end<E: Display>(
    connection: impl Future<Output = Result<(), E>> + 'static,
    ended: impl FnOnce() + 'static,
) {
    spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("a connection to the runtime ended: {error}");
        }
        ended();
    });
}
