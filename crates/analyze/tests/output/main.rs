//! What commands print: each form, with and without a prompt.

#[path = "../read/mod.rs"]
mod read;

mod kubectl;
mod resources;
mod services;
mod versions;

use analyze::kind::Kind;
use read::{causes, text};

/// Checks the kind of this output, and which causes it shows.
#[track_caller]
fn output(kind: Kind, named: &[&str], page: &str) {
    let found = text(page);
    assert_eq!(found.inputs[0].kind, kind, "{page}");
    assert_eq!(causes(&found), named, "{page}");
    assert_eq!(found.inputs[0].unread_lines, 0, "{page}");
}

/// Checks that there is a problem without a known cause.
#[track_caller]
fn trouble(page: &str) {
    let found = text(page);
    assert!(
        found.findings.is_empty() && found.has_problem(),
        "{found:#?}"
    );
    assert!(
        found.summary.starts_with("There is a problem"),
        "{}",
        found.summary
    );
}

#[track_caller]
fn healthy(page: &str) {
    let found = text(page);
    assert!(!found.has_problem(), "{found:#?}");
}
