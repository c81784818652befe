//! A condition of a node as `kubectl get node -o yaml` and `-o json` print it: six lines, sorted
//! by their keys, with the type last.
//!
//! ```text
//!   - lastHeartbeatTime: "2020-01-08T19:50:41Z"
//!     lastTransitionTime: "2020-01-08T19:44:30Z"
//!     message: 'missing node capacity for resources: ephemeral-storage'
//!     reason: KubeletNotReady
//!     status: "False"
//!     type: Ready
//! ```

use pleg_text::WallTime;

use super::{NotReady, Seen, conditions};

/// The maximum length of a folded message. A condition with a longer one is not read.
const MAX_MESSAGE: usize = 2000;

#[derive(Debug, Default)]
pub(super) struct ConditionObject {
    reported: Option<WallTime>,
    since: Option<WallTime>,
    message: String,
    reason: String,
    status: String,
}

impl ConditionObject {
    /// The condition that begins with this line. Conditions of pods have no heartbeat.
    pub(super) fn begins(text: &str) -> Option<Self> {
        let (key, value) = field(text)?;
        (key == "lastHeartbeatTime").then(|| Self {
            reported: time(value),
            ..Self::default()
        })
    }

    /// Reads the next line. Returns `None` after the last line, or after one that does not belong to a
    /// condition.
    pub(super) fn line(mut self, text: &str, line: u64, seen: &mut Seen) -> Option<Self> {
        match field(text) {
            Some(("lastTransitionTime", value)) => self.since = time(value),
            Some(("message", value)) => self.message = value.to_owned(),
            Some(("reason", value)) => self.reason = value.to_owned(),
            Some(("status", value)) => self.status = value.to_owned(),
            Some(("type", kind)) => {
                self.ends(kind, line, seen);
                return None;
            }
            // A long message is folded.
            _ if !self.message.is_empty() && self.reason.is_empty() => {
                if self.message.len() + text.len() > MAX_MESSAGE {
                    return None;
                }
                self.message.push(' ');
                self.message.push_str(text);
            }
            _ => return None,
        }
        Some(self)
    }

    fn ends(self, kind: &str, line: u64, seen: &mut Seen) {
        let says = format!("{}: {}", self.reason, self.message);
        let since = self.reported.zip(self.since).map(|(reported, since)| {
            let says = says.clone();
            let text = format!("{kind} {} {says}", self.status);
            NotReady {
                since,
                reported,
                says,
                line,
                text,
            }
        });
        conditions::condition(kind, &self.status, &says, since, line, seen);
    }
}

/// `status: "False"`, or `"status": "False",`.
fn field(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix("- ").unwrap_or(text);
    let (key, value) = text.split_once(':')?;
    let value = value.trim().trim_end_matches(',').trim_matches(['"', '\'']);
    Some((key.trim_matches('"'), value))
}

fn time(text: &str) -> Option<WallTime> {
    conditions::wall_time(text.parse().ok()?)
}
