//! Connections without a network, so that time can be virtual.

use std::convert::Infallible;
use std::io;

use agent::serve;
use axum::Router;
use axum::serve::Listener;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// How many bytes may be in transit before a writer has to wait for its reader.
const ON_THE_WAY: usize = 4096;

/// Connections from a channel.
struct Channel(UnboundedReceiver<DuplexStream>);

impl Listener for Channel {
    type Io = DuplexStream;
    type Addr = ();

    async fn accept(&mut self) -> (DuplexStream, ()) {
        match self.0.recv().await {
            Some(stream) => (stream, ()),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A server, seen from its clients.
pub struct Network(UnboundedSender<DuplexStream>);

impl Network {
    /// A server of `router` that accepts `places` connections.
    pub fn of(router: Router, places: usize) -> Self {
        Self::with_server(router, places).1
    }

    /// A server of `router` that accepts `places` connections, and the task that serves them.
    pub fn with_server(router: Router, places: usize) -> (JoinHandle<Infallible>, Self) {
        let (sender, receiver) = unbounded_channel();
        let server = tokio::spawn(serve(Channel(receiver), router, places));
        (server, Self(sender))
    }

    /// A new connection over which this was sent.
    pub async fn send(&self, asked: &[u8]) -> DuplexStream {
        let (mut ours, theirs) = duplex(ON_THE_WAY);
        self.0.send(theirs).unwrap();
        ours.write_all(asked).await.unwrap();
        ours
    }
}
