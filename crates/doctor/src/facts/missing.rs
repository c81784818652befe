//! Why a fact is missing: a kind for decisions, and a sentence for people.

use std::io::{self, ErrorKind};
use std::time::Duration;

use ipc::Failure;
use pleg_text::GoDuration;
use serde::{Deserialize, Serialize};

/// Why a fact is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", tag = "kind", content = "message")]
pub enum Missing {
    /// The fact was not requested.
    #[error("it was not requested")]
    NotAsked,
    /// The kernel did not return from a read within this time.
    #[error("the kernel did not return within {0}")]
    Blocked(GoDuration),
    /// There was no answer within this time.
    #[error("no answer within {0}")]
    Overdue(GoDuration),
    /// Access is denied (`EACCES`, `EPERM`).
    #[error("{0}")]
    Forbidden(String),
    /// What was to be read does not exist (`ENOENT`).
    #[error("{0}")]
    NotThere(String),
    /// Another system error, with its message.
    #[error("{0}")]
    System(String),
    /// Another reason, as a sentence.
    #[error("{0}")]
    Other(String),
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Socket(error) => error.into(),
            Failure::Silent(limit) => Self::overdue(limit),
            other => other.to_string().into(),
        }
    }
}

impl Missing {
    /// The kernel did not return from a read within `limit`.
    pub fn blocked(limit: Duration) -> Self {
        Self::Blocked(GoDuration(limit))
    }

    /// There was no answer within `limit`.
    pub fn overdue(limit: Duration) -> Self {
        Self::Overdue(GoDuration(limit))
    }

    /// Whether the doctor lacks permission to read the fact.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden(_))
    }

    /// Whether a read of the fact did not return.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Self::Blocked(_))
    }
}

impl From<&io::Error> for Missing {
    fn from(error: &io::Error) -> Self {
        let message = message(error);
        match error.kind() {
            ErrorKind::PermissionDenied => Self::Forbidden(message),
            ErrorKind::NotFound => Self::NotThere(message),
            _ => Self::System(message),
        }
    }
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&str> for Missing {
    fn from(sentence: &str) -> Self {
        Self::Other(sentence.to_owned())
    }
}

impl From<String> for Missing {
    fn from(sentence: String) -> Self {
        Self::Other(pleg_text::redacted(sentence))
    }
}

impl From<&Missing> for Missing {
    fn from(why: &Missing) -> Self {
        why.clone()
    }
}

/// The system's message without the number: "connection refused".
fn message(error: &io::Error) -> String {
    let message = error.to_string().to_lowercase();
    match message.split_once(" (os error") {
        Some((message, _)) => message.to_owned(),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_error_keeps_its_kind_and_message() {
        let of = |number| Missing::from(io::Error::from_raw_os_error(number));
        assert_eq!(of(13), Missing::Forbidden("permission denied".to_owned()));
        assert_eq!(
            of(2),
            Missing::NotThere("no such file or directory".to_owned())
        );
        assert_eq!(of(111), Missing::System("connection refused".to_owned()));
    }

    #[test]
    fn credentials_in_a_sentence_are_replaced() {
        let why = Missing::from("mount -o password=hunter2 failed".to_owned());
        assert_eq!(why.to_string(), "mount -o password=[redacted] failed");
    }

    #[test]
    fn each_reason_can_be_written_and_read_back() {
        for why in [
            Missing::NotAsked,
            Missing::blocked(Duration::from_millis(250)),
            Missing::overdue(Duration::from_secs(5)),
            Missing::from("there is none"),
        ] {
            let text = serde_json::to_string(&why).unwrap();
            assert_eq!(serde_json::from_str::<Missing>(&text).unwrap(), why);
        }
    }
}
