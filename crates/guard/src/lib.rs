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

pub mod core;
mod handle;
mod proxy;
mod wire;

pub use handle::{Handle, Turns};
pub use proxy::{Proxy, Report};
pub use wire::Kind;
