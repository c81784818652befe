//! Whether an image is pulled before a container of it is created. Pure: the caller pulls, and
//! [`decide`](crate::decide) delays the retry of a failed pull.

use crate::spec::PullPolicy;

/// What to do about an image before a container of it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullDecision {
    /// Nothing: the runtime has it.
    Present,
    /// Pull it.
    Pull,
    /// Fail: the runtime does not have it, and the policy forbids a pull (`ErrImageNeverPull`).
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
    fn the_policy_and_the_present_image_decide_on_a_pull() {
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
