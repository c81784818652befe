//! Whether an image is pulled before a container of it is made. Without IO: the caller pulls, and
//! [`decide`](crate::decide) waits after a pull that failed.

use crate::spec::PullPolicy;

/// What is done for an image before a container of it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullDecision {
    /// Nothing: it is there.
    Present,
    /// It is pulled.
    Pull,
    /// Nothing can be done: it is not there, and not to be pulled (`ErrImageNeverPull`).
    NeverPull,
}

/// Decides by the policy and by whether the runtime has the image.
pub fn decide_pull(policy: PullPolicy, is_present: bool) -> PullDecision {
    match (policy, is_present) {
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, false) => PullDecision::Pull,
        (PullPolicy::IfNotPresent | PullPolicy::Never, true) => PullDecision::Present,
        (PullPolicy::Never, false) => PullDecision::NeverPull,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_and_what_is_there_decide_on_a_pull() {
        use PullPolicy::{Always, IfNotPresent, Never};
        let cases = [
            (Always, true, PullDecision::Pull),
            (Always, false, PullDecision::Pull),
            (IfNotPresent, true, PullDecision::Present),
            (IfNotPresent, false, PullDecision::Pull),
            (Never, true, PullDecision::Present),
            (Never, false, PullDecision::NeverPull),
        ];
        for (policy, is_present, expected) in cases {
            assert_eq!(
                decide_pull(policy, is_present),
                expected,
                "{policy:?} {is_present}"
            );
        }
    }
}
