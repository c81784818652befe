//! A connection to the runtime for calls whose request is complete and whose answer is read completely.
//!
//! hyper sends the headers of a request first, and its body once they are written, with a task for each.
//! Here one write and no further task suffice.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{Request, Version};

use super::answer::Answer;
use super::on_demand::{OnDemand, OpenConnection, until_its_end};
use super::upstream::{FirstFrame, NoAnswer, open_stream};
use super::{CONNECTION_WINDOW, MAX_HEADER_BYTES, MAX_RESETS, WINDOW};

/// The connection for calls.
pub(super) type CallUpstream = OnDemand<Open>;

/// A connection that is open.
#[derive(Clone)]
pub(super) struct Open {
    sender: SendRequest<Bytes>,
    has_ended: Rc<Cell<bool>>,
    first: Rc<FirstFrame>,
}

impl CallUpstream {
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
        answer
            .await
            .map_err(|error: h2::Error| first.explain(error))
    }
}

impl OpenConnection for Open {
    async fn ready(self) -> Option<Self> {
        if self.has_ended.get() {
            return None;
        }
        // After GOAWAY the connection accepts no request.
        let sender = self.sender.ready().await.ok()?;
        Some(Self { sender, ..self })
    }

    async fn open(path: &Path, on_lost: Rc<dyn Fn()>) -> Result<Self, NoAnswer> {
        let (stream, first) = open_stream(path).await?;
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
        let ended = has_ended.clone();
        until_its_end(connection, move || {
            ended.set(true);
            on_lost();
        });
        Ok(Self {
            sender,
            has_ended,
            first,
        })
    }
}
