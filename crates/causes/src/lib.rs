//! Why nodes become NotReady: the built-in causes ([`Cause`]) and those of a site ([`SiteCause`]), what
//! the page of each declares ([`Cause::about`], [`Cause::page`]), which rules support it ([`catalogue`]),
//! which versions have which fault ([`versions`]), and what is found on a node ([`finding`]).
//!
//! ```
//! use causes::{Cause, UnknownCause};
//!
//! let cause: Cause = "container-status-lock".parse()?;
//! assert_eq!(cause, Cause::ContainerStatusLock);
//! assert!(!cause.about().advice.is_empty());
//! assert!(cause.page().starts_with("# container-status-lock\n"));
//! # Ok::<(), UnknownCause>(())
//! ```

pub mod catalogue;
mod cause;
pub mod facts;
pub mod finding;
mod pages;
mod site;
pub mod versions;

pub use cause::{Cause, UnknownCause};
pub use pages::{AREAS, About, Advice, Only, PageError, yaml_error};
pub use site::SiteCause;
