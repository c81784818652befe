//! Why nodes become NotReady: the stable ids ([`Cause`]), what the page of each declares
//! ([`Cause::about`], [`Cause::page`]), what supports it ([`Cause::rules`]), which versions have which fault ([`versions`]), and
//! what is found of a node ([`finding`]).
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

mod cause;
pub mod facts;
pub mod finding;
mod pages;
pub mod versions;

/// Named lists of texts that the rules of several causes use.
pub const LISTS: &str = include_str!("../causes/lists.yaml");

/// Rules on lines that show that something failed, and do not show why.
pub const FAILURES: &str = include_str!("../causes/failures.yaml");

pub use cause::{Cause, UnknownCause};
pub use pages::About;
