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
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let proxy = Proxy {
//!     runtime: "/run/containerd/containerd.sock".into(),
//!     socket: "/run/guard.sock".into(),
//!     settings: Settings::default(),
//!     state: None,
//!     ids: base::host::no_ids(),
//!     unix_nanos: 0,
//! };
//! let guard = proxy.start(UnixListener::bind("/run/guard.sock")?, Mode::Shadow)?;
//! guard.ended().await;
//! # Ok(())
//! # }
//! ```

pub mod core;
mod door;
mod handle;
mod proxy;
mod wire;

pub use door::{DoorError, open_door};
pub use handle::Handle;
pub use proxy::Proxy;
pub use wire::Kind;
