//! A CRI endpoint between a kubelet and its runtime. What the runtime answers passes
//! untouched; what one stuck container holds up is answered from what is known to be true.
//!
//! ```text
//!   kubelet --> core: pass, or answer in the runtime's place --> runtime
//!                 ^                                                |
//!                 \--- every answer teaches what is there ---------/
//!
//!   wire    CRI's bytes, as far as they are read
//!   core    the decisions: pure, told the time
//! ```

pub mod core;
mod wire;

pub use wire::Kind;
