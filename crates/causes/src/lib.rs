//! Why nodes become NotReady: the stable ids ([`Cause`]), what the page of each declares
//! ([`Cause::about`], [`Cause::page`]), which versions have which fault ([`versions`]), and
//! what is found of a node ([`finding`]).

mod cause;
pub mod finding;
mod pages;
pub mod versions;

pub use cause::{Cause, UnknownCause};
pub use pages::About;
