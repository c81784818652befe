//! The way of the bytes: HTTP/2 in, HTTP/2 out, nothing lost in between.
//!
//! ```text
//!   kubelet --> server --method is not decided on here--> upstream of this client, streamed
//!                  |-----one of the core's methods------> driver: core --> upstream (theirs, ours)
//!                  |                                         ^                 |
//!                  |                                         \---- answers ----/
//!                  \-----the guard's own service--------> service: status, mode
//! ```
//!
//! An agent marks its calls as those of an observer: they go where ours go, and its connection ends
//! with ours to the runtime, as it would without us.
//!
//! What is streamed waits for whoever reads it, and holds up what else its connection carries; so
//! each client has one of its own, as it would without us. Answers that are decided on are read
//! whole, so one connection is enough for those of all clients.
//!
//! All of it is one thread with a runtime of its own: nothing that may block runs there, and no
//! lock is held.

mod added;
mod answer;
mod driver;
mod events;
mod kept;
mod refused;
mod server;
mod service;
mod tasks;
mod upstream;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::OutstandingCall;
use base::host::IdSource;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::net::UnixListener;
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::Handle;

use crate::core::{Figures, Mode, Phase, Settings};

/// HTTP/2 windows that take the list of a common node without a round trip.
const WINDOW: u32 = 4 << 20;

/// What a client has not read of an answer counts against all that its connection gets.
const CONNECTION_WINDOW: u32 = 4 * WINDOW;

/// No runtime takes a longer request: 80 MiB are CRI-O's limit, 16 MiB containerd's.
const LONGEST_REQUEST: usize = 80 << 20;

/// Metadata is passed on whatever its size.
const MOST_HEADERS: u32 = 16 << 20;

/// A wedged runtime leaves hundreds of streams open, which a kubelet cancels at once: that must
/// close no connection.
const MOST_RESETS: usize = 1 << 16;

/// How often the thread says that it turns.
const BEAT: Duration = Duration::from_secs(1);

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// What a guard is made from.
pub struct Proxy {
    /// Where the runtime listens.
    pub runtime: PathBuf,
    /// Where clients reach the guard, which its status names.
    pub socket: PathBuf,
    /// The guard's times.
    pub settings: Settings,
    /// Where it keeps what it knows for its next start, if anywhere.
    pub state: Option<PathBuf>,
    /// Which ids the host knows.
    pub ids: IdSource,
    /// The time of day in nanoseconds since 1970.
    pub unix_nanos: i64,
}

/// What the guard does now, as its service shows it.
#[derive(Clone, Debug, PartialEq)]
struct Report {
    /// Grows with each change of the rest, except of the figures.
    revision: u64,
    mode: Mode,
    /// What is done for lists.
    phase: Phase,
    /// While lists do not pass: the statuses that are stuck, by name.
    stuck: Vec<OutstandingCall>,
    /// How often what was done.
    figures: Figures,
}

impl Proxy {
    /// Serves on `listener` in a thread of its own, until the last clone of the handle is
    /// dropped.
    pub fn start(
        self,
        listener: std::os::unix::net::UnixListener,
        mode: Mode,
    ) -> io::Result<Handle> {
        listener.set_nonblocking(true)?;
        let (runs, running) = watch::channel(());
        let (stop, stopped) = oneshot::channel();
        let beats = Arc::new(AtomicU64::new(0));
        let handle = Handle::new(beats.clone(), running, stop);
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
                        sleep(BEAT).await;
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
