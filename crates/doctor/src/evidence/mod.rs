//! What several judges read from the facts: who serves whom, who waits, and who suffers.

pub(crate) mod lack;
pub(crate) mod owner;
pub(crate) mod plugins;
pub(crate) mod remedy;
pub(crate) mod runc;
pub(crate) mod shims;
pub(crate) mod victims;
pub(crate) mod waits;
pub(crate) mod who;
