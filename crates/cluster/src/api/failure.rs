//! Failures of requests, by the reaction that they need.

use std::time::Duration;

use kube::config::KubeconfigError;

/// The deadline of a request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server is unreachable, or does not answer.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// The server did not answer in time.
    #[error("the API server has not answered for {}s", REQUEST_TIMEOUT.as_secs())]
    TimedOut,
    /// The credentials are missing or cannot be used.
    #[error("there are no usable credentials for the API server: {0}")]
    Credentials(String),
    /// 401.
    #[error("the API server does not accept the credentials (401)")]
    Unauthorized,
    /// 403, and the missing right.
    #[error("the right to {0} is missing (403): {1}")]
    Forbidden(&'static str, String),
    /// 404.
    #[error("{0} was not found (404)")]
    NotFound(&'static str),
    /// 409.
    #[error("another writer owns it (409): {0}")]
    Conflict(String),
    /// 410: the watch must be opened again.
    #[error("the watch has expired (410)")]
    Expired,
    /// 400, 422 and other refusals, with the status code and the message.
    #[error("the API server refuses it ({0}): {1}")]
    Invalid(u16, String),
    /// 429 and 5xx.
    #[error("the API server is temporarily unable to handle the request ({code})")]
    Busy {
        /// The status code.
        code: u16,
        /// The requested time until the next try.
        retry_after: Duration,
    },
    /// The answer cannot be parsed.
    #[error("the API server's answer cannot be read: {0}")]
    Garbage(String),
}

impl Failure {
    /// The label in metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Credentials(_) => "credentials",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden(..) => "forbidden",
            Self::NotFound(_) => "not_found",
            Self::Conflict(_) => "conflict",
            Self::Expired => "expired",
            Self::Invalid(..) => "invalid",
            Self::Busy { .. } => "busy",
            Self::Garbage(_) => "garbage",
        }
    }

    /// Whether other credentials may help.
    pub(crate) fn is_about_credentials(&self) -> bool {
        matches!(self, Self::Unauthorized | Self::Credentials(_))
    }
}

/// Why a kubeconfig cannot be used. The error contains nothing of its content, because it is
/// logged.
pub(crate) fn unusable(error: &KubeconfigError) -> Failure {
    Failure::Credentials(match error {
        KubeconfigError::ReadConfig(error, path) => {
            format!("cannot read {}: {error}", path.display())
        }
        KubeconfigError::CurrentContextNotSet
        | KubeconfigError::LoadContext(_)
        | KubeconfigError::LoadClusterOfContext(_)
        | KubeconfigError::MissingClusterUrl => error.to_string(),
        KubeconfigError::Parse(_) => "the file is not a kubeconfig".to_owned(),
        _ => "a file that the kubeconfig names cannot be read".to_owned(),
    })
}

pub(super) fn garbage(error: impl std::error::Error) -> Failure {
    Failure::Garbage(error.to_string())
}

/// An error with its causes: often only the last one describes what happened.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    pleg_text::escape::sentence(&text).into_owned()
}
