//! A CRI endpoint between a kubelet and its runtime. What the runtime answers passes
//! untouched; what one stuck container holds up is answered from what is known to be true.
//!
//! ```text
//!   kubelet --> core: pass, or answer in the runtime's place --> runtime
//!                 ^                                                |
//!                 \--- every answer teaches what is there ---------/
//!
//!   proxy   the way of the bytes: a thread of its own
//!   core    the decisions: pure, told the time
//!   wire    CRI's bytes, as far as they are read
//! ```
//!
//! ```no_run
//! use std::os::unix::net::UnixListener;
//!
//! use guard::Proxy;
//! use guard::core::{Mode, Settings};
//! use pleg::model::wall_time::WallTime;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let proxy = Proxy {
//!     runtime: "/run/containerd/containerd.sock".into(),
//!     settings: Settings::default(),
//!     state: None,
//!     ids: pleg::no_ids(),
//!     unix_nanos: WallTime::now().as_unix_nanos(),
//! };
//! let guard = proxy.start(UnixListener::bind("/run/guard.sock")?, Mode::Shadow)?;
//! guard.ended().await;
//! # Ok(())
//! # }
//! ```

pub mod core;
mod handle;
mod proxy;
mod wire;

pub use handle::{Handle, Turns};
pub use proxy::{Proxy, Report};
pub use wire::Kind;
