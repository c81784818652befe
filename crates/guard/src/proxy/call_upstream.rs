//! A connection to the runtime for calls whose request is complete and whose answer is read completely.
//!
//! hyper sends the headers of a request first, and its body once they are written, with a task for each.
//! Here one write and no further task suffice.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{Request, Version};
use tokio::sync::Mutex;

use super::answer::Answer;
use super::tasks::spawn;
use super::upstream::{FirstFrame, NoAnswer, open_stream};
use super::{CONNECTION_WINDOW, MAX_HEADER_BYTES, MAX_RESETS, WINDOW};

/// A connection to the runtime, opened on demand, and again after it has ended. Clones share it.
#[derive(Clone)]
pub(super) struct CallUpstream {
    path: Rc<PathBuf>,
    open: Rc<RefCell<Option<Open>>>,
    /// Locked while a connection is opened: other calls wait for it and use it too.
    connecting: Rc<Mutex<()>>,
    /// Called when a connection has ended.
    on_lost: Rc<dyn Fn()>,
}

/// A connection that is open.
#[derive(Clone)]
struct Open {
    sender: SendRequest<Bytes>,
    has_ended: Rc<Cell<bool>>,
    first: Rc<FirstFrame>,
}

impl CallUpstream {
    pub(super) fn new(path: PathBuf, on_lost: Rc<dyn Fn()>) -> Self {
        Self {
            path: Rc::new(path),
            open: Rc::default(),
            connecting: Rc::default(),
            on_lost,
        }
    }

    /// Makes a call: sends its request, calls `on_sent`, and reads the answer to its end. Dropping the future
    /// cancels the call.
    pub(super) async fn call(
        &self,
        request: Request<Bytes>,
        on_sent: impl FnOnce(),
    ) -> Result<Answer, NoAnswer> {
        let Open {
            mut sender, first, ..
        } = self.connect().await?;
        let (mut head, message) = request.into_parts();
        head.version = Version::HTTP_2;
        let answer = async {
            let (response, mut body) = sender.send_request(Request::from_parts(head, ()), false)?;
            body.send_data(message, true)?;
            on_sent();
            Answer::read(response.await?).await
        };
        answer.await.map_err(|error| match first.is_foreign() {
            true => NoAnswer::NotHttp2,
            false => error.into(),
        })
    }

    /// The open connection, if it accepts a call.
    async fn current(&self) -> Option<Open> {
        let open = self.open.borrow().clone();
        let open = open.filter(|open| !open.has_ended.get())?;
        // After GOAWAY it accepts none.
        let sender = open.sender.ready().await.ok()?;
        Some(Open { sender, ..open })
    }

    /// The connection; opens a new one if there is none.
    async fn connect(&self) -> Result<Open, NoAnswer> {
        if let Some(open) = self.current().await {
            return Ok(open);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(open) = self.current().await {
            return Ok(open);
        }
        let (stream, first) = open_stream(&self.path).await?;
        let handshake = Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADER_BYTES)
            .max_concurrent_reset_streams(MAX_RESETS)
            .initial_max_send_streams(MAX_RESETS)
            .enable_push(false)
            .handshake(stream);
        let (sender, connection) = handshake.await?;
        let has_ended = Rc::new(Cell::new(false));
        let (ended, on_lost) = (has_ended.clone(), self.on_lost.clone());
        spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection to the runtime ended: {error}");
            }
            ended.set(true);
            on_lost();
        });
        let open = Open {
            sender,
            has_ended,
            first,
        };
        *self.open.borrow_mut() = Some(open.clone());
        Ok(open)
    }
}
