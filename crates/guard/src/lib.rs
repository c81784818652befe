//! A CRI endpoint between a kubelet and its runtime. The runtime's answers are passed on unchanged.
//! A call that one stuck container delays is answered from state that the runtime has confirmed.
//!
//! ```text
//!   kubelet --> core: pass on, or answer in place of the runtime --> runtime
//!                 ^                                                    |
//!                 \--- every answer updates the known state -----------/
//!
//!   proxy   HTTP/2 to the clients and to the runtime, in a separate thread
//!   core    the decisions: pure, without a clock
//!   wire    the fields of CRI messages that the guard reads or writes
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
mod handle;
mod listener;
mod proxy;
mod wire;

pub use handle::Handle;
pub use listener::{ListenError, listen_on};
pub use proxy::Proxy;
pub use wire::Kind;
