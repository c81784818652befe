//! The `Status` of a runtime that is ready.

use pleg::runtime::{Condition, Conditions};

pub fn ready_conditions() -> Conditions {
    let met = |kind: &str| Condition {
        kind: kind.to_owned(),
        met: true,
        ..Condition::default()
    };
    Conditions {
        conditions: vec![met("RuntimeReady"), met("NetworkReady")],
        ..Conditions::default()
    }
}
