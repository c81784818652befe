//! The `Status` of a runtime without a fault.

use pleg::runtime::{Condition, Conditions};

pub fn well() -> Conditions {
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
