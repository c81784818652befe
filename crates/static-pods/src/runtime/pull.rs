//! When an image is pulled, and how long to wait after a pull that failed. Without IO: the
//! caller pulls.
//!
//! ```text
//!   policy, image is there? --decide--> Present | Pull | ErrImageNeverPull
//!                                                  |
//!            ImagePullBackOff <--wait-- PullBackOff --try--> ErrImagePull: 10 s, 20 s, .. 5 min
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::spec::PullPolicy;

/// How long after the first failure.
const FIRST: Duration = Duration::from_secs(10);

/// How long at most.
const LONGEST: Duration = Duration::from_secs(300);

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
pub fn decide(policy: PullPolicy, is_present: bool) -> PullDecision {
    match (policy, is_present) {
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, false) => PullDecision::Pull,
        (PullPolicy::IfNotPresent | PullPolicy::Never, true) => PullDecision::Present,
        (PullPolicy::Never, false) => PullDecision::NeverPull,
    }
}

/// Why a container whose image is not there waits, in the kubelet's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The pull failed.
    ErrImagePull,
    /// It failed, and is tried again later.
    ImagePullBackOff,
    /// It is not to be pulled.
    ErrImageNeverPull,
}

impl Waiting {
    /// The kubelet's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ErrImagePull => "ErrImagePull",
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::ErrImageNeverPull => "ErrImageNeverPull",
        }
    }
}

/// The images whose last pull failed, by name.
#[derive(Clone, Debug, Default)]
pub struct PullBackOff {
    failures: BTreeMap<String, Failure>,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    at: Instant,
    delay: Duration,
}

impl Failure {
    fn until(self) -> Instant {
        self.at + self.delay
    }
}

impl PullBackOff {
    /// Until when an image is not pulled; `None` where it may be now.
    pub fn waits_until(&self, image: &str, now: Instant) -> Option<Instant> {
        let failure = self.failures.get(image)?;
        Some(failure.until()).filter(|until| now < *until)
    }

    /// The pull of an image failed. Says until when it is not tried again.
    ///
    /// One that was left alone for twice the longest delay begins anew, as with a kubelet.
    pub fn failed(&mut self, image: &str, now: Instant) -> Instant {
        let is_old = |it: &Failure| now.saturating_duration_since(it.at) > 2 * LONGEST;
        let last = self.failures.get(image).filter(|it| !is_old(it));
        let delay = last.map_or(FIRST, |it| (it.delay * 2).min(LONGEST));
        let failure = Failure { at: now, delay };
        self.failures.insert(image.to_owned(), failure);
        failure.until()
    }

    /// The image is there: what failed before is forgotten.
    pub fn succeeded(&mut self, image: &str) {
        self.failures.remove(image);
    }

    /// Forgets the images that no pod names any more.
    pub fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.failures.retain(|image, _| is_wanted(image));
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
                decide(policy, is_present),
                expected,
                "{policy:?} {is_present}"
            );
        }
    }

    #[test]
    fn failures_double_the_wait_up_to_five_minutes_for_each_image_apart() {
        let mut back_off = PullBackOff::default();
        let mut now = Instant::now();
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            let until = back_off.failed("a", now);
            assert_eq!(until, now + Duration::from_secs(seconds));
            assert_eq!(back_off.waits_until("a", now), Some(until));
            assert_eq!(back_off.waits_until("b", now), None);
            now = until;
            assert_eq!(back_off.waits_until("a", now), None);
        }
        assert_eq!(back_off.failed("b", now), now + FIRST);
    }

    #[test]
    fn a_success_or_a_long_rest_begins_anew() {
        let mut back_off = PullBackOff::default();
        let now = Instant::now();
        back_off.failed("a", now);
        back_off.failed("a", now);
        back_off.succeeded("a");
        assert_eq!(back_off.failed("a", now), now + FIRST);
        let later = now + 2 * LONGEST + Duration::from_secs(1);
        assert_eq!(back_off.failed("a", later), later + FIRST);
        back_off.keep(|image| image == "b");
        assert_eq!(back_off.waits_until("a", later), None);
    }
}
