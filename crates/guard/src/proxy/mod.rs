//! The HTTP/2 proxy between clients and the runtime.
//!
//! ```text
//!   kubelet --> server --all other methods--------------> upstream of this client, streamed
//!                  |-----one of the core's methods------> driver: core --> call_upstream (theirs, ours)
//!                  |                                         ^                 |
//!                  |                                         \---- answers ----/
//!                  \-----the guard's own service--------> service: status, mode
//! ```
//!
//! An agent marks its calls as those of an observer. They use the connection of the guard's own calls, and
//! the agent's connection is closed when that one ends, as it would be without the guard.
//!
//! A streamed answer waits for its reader, and delays everything else on its connection. So each client has
//! its own connection to the runtime, as it would without the guard. Answers to calls on which the core
//! decides are read completely, so one connection is enough for all clients.
//!
//! The proxy runs in one thread with its own Tokio runtime. Nothing in it blocks, and no lock is held.

mod added;
mod answer;
mod call_upstream;
mod calls;
mod driver;
mod events;
mod on_demand;
mod records_file;
mod refused;
mod report;
mod server;
mod service;
mod tasks;
mod upstream;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::host::IdSource;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::net::UnixListener;
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::Handle;
use crate::core::{Mode, Settings};

/// The HTTP/2 stream window: the list of a common node fits without a round trip.
const WINDOW: u32 = 4 << 20;

/// The HTTP/2 connection window. The unread part of an answer counts against all streams of its connection.
const CONNECTION_WINDOW: u32 = 4 * WINDOW;

/// The longest request that a runtime accepts: 80 MiB for CRI-O, 16 MiB for containerd.
const MAX_REQUEST_BYTES: usize = 80 << 20;

/// The limit of the metadata, high enough that the runtime's own limit applies.
const MAX_HEADER_BYTES: u32 = 16 << 20;

/// How many cancelled calls a connection tolerates. A kubelet may cancel hundreds of calls to an
/// unresponsive runtime at once: that must not close a connection.
const MAX_RESETS: usize = 1 << 16;

/// How often the event loop increments [`Handle::beats`].
const BEAT_EVERY: Duration = Duration::from_secs(1);

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// The configuration of a guard.
pub struct Proxy {
    /// The socket of the runtime.
    pub runtime: PathBuf,
    /// The socket of the guard, as reported in its status.
    pub socket: PathBuf,
    /// The time limits of the guard.
    pub settings: Settings,
    /// The file in which the guard saves its state for the next start, if any.
    pub state: Option<PathBuf>,
    /// Reads the runtime's ids from the host.
    pub ids: IdSource,
    /// The wall-clock time at the start, in nanoseconds since 1970.
    pub unix_nanos: i64,
}

impl Proxy {
    /// Serves on `listener` in a separate thread, until the last clone of the handle is dropped.
    pub fn start(
        self,
        listener: std::os::unix::net::UnixListener,
        mode: Mode,
    ) -> io::Result<Handle> {
        listener.set_nonblocking(true)?;
        let (runs, running) = watch::channel(());
        let (stop, stopped) = oneshot::channel();
        let beats = Arc::new(AtomicU64::new(0));
        let handle = Handle {
            beats: beats.clone(),
            running,
            _stop: Arc::new(stop),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let serve = move || {
            let _runs = runs;
            let local = LocalSet::new();
            let served = async {
                let listener = UnixListener::from_std(listener)?;
                server::serve(listener, self, mode, stopped).await
            };
            local.block_on(&runtime, async {
                let beat = async {
                    loop {
                        sleep(BEAT_EVERY).await;
                        beats.fetch_add(1, Ordering::Relaxed);
                    }
                };
                tokio::select! {
                    () = beat => {}
                    () = tasks::panicked() => {}
                    ended = served => {
                        if let Err(error) = ended {
                            tracing::error!("the guard's socket failed: {error}");
                        }
                    }
                }
            });
        };
        std::thread::Builder::new()
            .name("guard".to_owned())
            .spawn(serve)?;
        Ok(handle)
    }
}
