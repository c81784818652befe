//! What several judges derive from the facts: which process serves which pod, what is blocked,
//! and what is affected.

pub(crate) mod disk;
pub(crate) mod ending;
pub(crate) mod exits;
pub(crate) mod lack;
pub(crate) mod owner;
pub(crate) mod plugins;
pub(crate) mod remedy;
pub(crate) mod rights;
pub(crate) mod runc;
pub(crate) mod shims;
pub(crate) mod tables;
pub(crate) mod victims;
pub(crate) mod waits;
pub(crate) mod who;
