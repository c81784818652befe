//! The state of the runtime as a whole, in the kubelet's terms and messages.
//!
//! A kubelet calls the runtime's `Status` every 5 s. Source: Kubernetes 1.36,
//! `pkg/kubelet/runtime.go` and `updateRuntimeUp`.

use std::time::Duration;

use pleg::runtime::{Condition, Conditions};
use tokio::time::Instant;

/// The interval at which a kubelet calls the runtime's `Status`.
pub(crate) const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// A runtime that has not been ready for this long is down: the kubelet's
/// `maxWaitForContainerRuntime`.
const RUNTIME_DOWN_AFTER: Duration = Duration::from_secs(30);

/// The last `Status` of the runtime.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeState {
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
    /// Stores the answer of a `Status` call. A call that fails or is overdue changes nothing: the
    /// last answer grows older.
    pub(crate) fn update(&mut self, now: Instant, conditions: &Conditions) {
        self.network_error = not_met(conditions, "NetworkReady")
            .map(|why| format!("container runtime network not ready: {why}"));
        self.runtime_error = not_met(conditions, "RuntimeReady")
            .map(|why| format!("container runtime not ready: {why}"));
        if self.runtime_error.is_none() {
            self.last_ready = Some(now);
        }
    }

    /// Why the runtime is not usable, including the error of the PLEG, if any: the kubelet's
    /// `runtimeErrors`.
    pub(crate) fn errors(&self, now: Instant, pleg_error: Option<&str>) -> Vec<String> {
        let age = match self.last_ready {
            None => Some("container runtime status check may not have completed yet"),
            Some(last) if now >= last + RUNTIME_DOWN_AFTER => Some("container runtime is down"),
            Some(_) => None,
        };
        let pleg = pleg_error.map(|why| format!("PLEG is not healthy: {why}"));
        let all = [age.map(str::to_owned), pleg, self.runtime_error.clone()];
        all.into_iter().flatten().collect()
    }

    /// The runtime's own error, if any.
    pub(crate) fn runtime_error(&self) -> Option<&str> {
        self.runtime_error.as_deref()
    }

    /// The error of the runtime's network, if any. The node is then NotReady, and only pods on the
    /// host's network are started.
    pub(crate) fn network_error(&self) -> Option<&str> {
        self.network_error.as_deref()
    }
}

/// The message for a condition that is not met, in the kubelet's form; `None` if it is met.
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

/// Joins several errors into one message without duplicates, as Kubernetes aggregates them.
pub(crate) fn aggregate(errors: &[String]) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
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
            message: "message of the runtime".to_owned(),
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
    async fn a_runtime_is_not_used_before_its_first_status() {
        let state = RuntimeState::default();
        let error = "container runtime status check may not have completed yet";
        assert_eq!(state.errors(Instant::now(), None), [error]);
        assert_eq!(state.network_error(), Some("network state unknown"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_is_down_thirty_seconds_after_it_was_last_ready() {
        let mut state = RuntimeState::default();
        let now = Instant::now();
        state.update(now, &conditions(true, true));
        let almost = now + RUNTIME_DOWN_AFTER - Duration::from_millis(1);
        assert!(state.errors(almost, None).is_empty());
        assert_eq!(
            state.errors(now + RUNTIME_DOWN_AFTER, None),
            ["container runtime is down"]
        );
        assert_eq!(state.network_error(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn conditions_that_are_not_met_are_reported_in_the_kubelets_form() {
        let mut state = RuntimeState::default();
        let now = Instant::now();
        state.update(now, &conditions(true, true));
        state.update(now, &conditions(false, false));
        assert_eq!(
            state.errors(now, Some("pleg has yet to be successful")),
            [
                "PLEG is not healthy: pleg has yet to be successful",
                "container runtime not ready: RuntimeReady=false reason:Broken message:message of \
                 the runtime",
            ]
        );
        assert_eq!(
            state.network_error(),
            Some(
                "container runtime network not ready: NetworkReady=false \
                 reason:NetworkPluginNotReady message:message of the runtime"
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_condition_is_not_met() {
        let mut state = RuntimeState::default();
        state.update(Instant::now(), &Conditions::default());
        let error = "container runtime not ready: <nil>";
        assert_eq!(state.runtime_error(), Some(error));
    }

    #[test]
    fn several_errors_are_joined_in_brackets_without_duplicates() {
        let errors = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(aggregate(&[]), None);
        assert_eq!(aggregate(&errors(&["a", "a"])).unwrap(), "a");
        assert_eq!(aggregate(&errors(&["a", "b", "a"])).unwrap(), "[a, b]");
    }
}
