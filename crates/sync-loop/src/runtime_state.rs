//! What a kubelet knows of its runtime as a whole, and the sentences in which it reports this.
//!
//! A kubelet calls the runtime's `Status` every 5 s. Source: Kubernetes 1.36,
//! `pkg/kubelet/runtime.go` and `updateRuntimeUp`.

use std::time::Duration;

use pleg::runtime::{Condition, Conditions};
use tokio::time::Instant;

/// The interval at which a kubelet calls the runtime's `Status`.
pub const STATUS_PERIOD: Duration = Duration::from_secs(5);

/// The kubelet's `maxWaitForContainerRuntime`: a runtime that has not been ready for this long is
/// down.
pub const DOWN_AFTER: Duration = Duration::from_secs(30);

/// The last `Status` of the runtime.
#[derive(Clone, Debug)]
pub struct RuntimeState {
    last_ready: Option<Instant>,
    runtime_error: Option<String>,
    network_error: Option<String>,
}

impl Default for RuntimeState {
    fn default() -> Self {
        Self {
            last_ready: None,
            runtime_error: None,
            network_error: Some("network state unknown".to_owned()),
        }
    }
}

impl RuntimeState {
    /// Stores the answer of a `Status` call. A call that fails or is not answered changes nothing:
    /// the last answer grows older.
    pub fn answered(&mut self, now: Instant, conditions: &Conditions) {
        self.network_error = not_met(conditions, "NetworkReady")
            .map(|said| format!("container runtime network not ready: {said}"));
        self.runtime_error = not_met(conditions, "RuntimeReady")
            .map(|said| format!("container runtime not ready: {said}"));
        if self.runtime_error.is_none() {
            self.last_ready = Some(now);
        }
    }

    /// Why the runtime is not usable, with the results of other `checks`, each with its name: the
    /// kubelet's `runtimeErrors`.
    pub fn errors(&self, now: Instant, checks: &[FailedCheck]) -> Vec<String> {
        let age = match self.last_ready {
            None => Some("container runtime status check may not have completed yet"),
            Some(last) if now >= last + DOWN_AFTER => Some("container runtime is down"),
            Some(_) => None,
        };
        let checks = checks
            .iter()
            .map(|check| format!("{} is not healthy: {}", check.name, check.why));
        let all = age.map(str::to_owned).into_iter().chain(checks);
        all.chain(self.runtime_error.clone()).collect()
    }

    /// The runtime's own error, if any.
    pub fn runtime_error(&self) -> Option<&str> {
        self.runtime_error.as_deref()
    }

    /// The error of the runtime's network, if any. The node is then NotReady, and only pods on the
    /// host's network are started.
    pub fn network_error(&self) -> Option<&str> {
        self.network_error.as_deref()
    }
}

/// A health check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCheck {
    /// The name of the check: `PLEG`.
    pub name: &'static str,
    /// The result.
    pub why: String,
}

/// The sentence for a condition that is not met, in the form of a kubelet.
fn not_met(conditions: &Conditions, kind: &str) -> Option<String> {
    let mut all = conditions.conditions.iter();
    match all.find(|condition| condition.kind == kind) {
        None => Some("<nil>".to_owned()),
        Some(condition) if condition.met => None,
        Some(Condition {
            reason, message, ..
        }) => Some(format!("{kind}=false reason:{reason} message:{message}")),
    }
}

/// Joins several errors into one sentence without duplicates, as Kubernetes aggregates them.
pub fn aggregate(errors: &[String]) -> Option<String> {
    let mut once: Vec<&str> = Vec::new();
    for error in errors {
        if !once.contains(&error.as_str()) {
            once.push(error);
        }
    }
    match once.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(runtime: bool, network: bool) -> Conditions {
        let condition = |kind: &str, met, reason: &str| Condition {
            kind: kind.to_owned(),
            met,
            reason: reason.to_owned(),
            message: "said by the runtime".to_owned(),
        };
        Conditions {
            conditions: vec![
                condition("RuntimeReady", runtime, "Broken"),
                condition("NetworkReady", network, "NetworkPluginNotReady"),
            ],
            ..Conditions::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_was_not_asked_yet_is_not_worked_with() {
        let state = RuntimeState::default();
        let said = "container runtime status check may not have completed yet";
        assert_eq!(state.errors(Instant::now(), &[]), [said]);
        assert_eq!(state.network_error(), Some("network state unknown"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_is_down_thirty_seconds_after_it_was_last_ready() {
        let mut state = RuntimeState::default();
        let now = Instant::now();
        state.answered(now, &conditions(true, true));
        let almost = now + DOWN_AFTER - Duration::from_millis(1);
        assert!(state.errors(almost, &[]).is_empty());
        assert_eq!(
            state.errors(now + DOWN_AFTER, &[]),
            ["container runtime is down"]
        );
        assert_eq!(state.network_error(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_runtime_says_of_itself_is_told_in_the_words_of_a_kubelet() {
        let mut state = RuntimeState::default();
        let now = Instant::now();
        state.answered(now, &conditions(true, true));
        state.answered(now, &conditions(false, false));
        let pleg = FailedCheck {
            name: "PLEG",
            why: "pleg has yet to be successful".to_owned(),
        };
        assert_eq!(
            state.errors(now, &[pleg]),
            [
                "PLEG is not healthy: pleg has yet to be successful",
                "container runtime not ready: RuntimeReady=false reason:Broken message:said by \
                 the runtime",
            ]
        );
        assert_eq!(
            state.network_error(),
            Some(
                "container runtime network not ready: NetworkReady=false \
                 reason:NetworkPluginNotReady message:said by the runtime"
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_is_not_told_is_not_met() {
        let mut state = RuntimeState::default();
        state.answered(Instant::now(), &Conditions::default());
        let said = "container runtime not ready: <nil>";
        assert_eq!(state.runtime_error(), Some(said));
    }

    #[test]
    fn one_error_stands_bare_and_several_stand_in_brackets_each_once() {
        let errors = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(aggregate(&[]), None);
        assert_eq!(aggregate(&errors(&["a", "a"])).unwrap(), "a");
        assert_eq!(aggregate(&errors(&["a", "b", "a"])).unwrap(), "[a, b]");
    }
}
