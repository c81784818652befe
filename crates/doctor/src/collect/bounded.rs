//! Limits the length of texts from a runtime, so that reports stay small and lines readable.

use pleg::runtime::{CallError, Conditions, RuntimeVersion, Unreachable};

/// The maximum length of names in Kubernetes.
const MAX_NAME_CHARS: usize = 253;

/// The length to which messages of a runtime are cut.
const MAX_MESSAGE_CHARS: usize = 1000;

/// More conditions than any runtime reports.
const MAX_CONDITIONS: usize = 16;

/// More network plug-ins than any node has.
const MAX_NETWORK_PLUGINS: usize = 64;

/// A name, cut to the maximum length of names.
pub(super) fn bounded(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect()
}

/// A message, cut to the maximum length of messages.
pub(super) fn bounded_message(message: &str) -> String {
    message.chars().take(MAX_MESSAGE_CHARS).collect()
}

/// An error with a bounded message.
pub(super) fn bounded_error(mut error: CallError) -> CallError {
    let text = match &mut error {
        CallError::Unavailable(Unreachable { message, .. }) => message,
        CallError::NotFound(text)
        | CallError::Unimplemented(text)
        | CallError::TooLarge(text)
        | CallError::Malformed(text)
        | CallError::Refused(text) => text,
        CallError::Withheld => return error,
    };
    *text = bounded_message(text).into();
    error
}

/// A version with bounded names.
pub(super) fn bounded_version(version: RuntimeVersion) -> RuntimeVersion {
    RuntimeVersion {
        name: bounded(&version.name).into(),
        version: bounded(&version.version).into(),
        api_version: bounded(&version.api_version).into(),
    }
}

/// A bounded number of conditions with bounded texts.
pub(super) fn bounded_conditions(mut all: Conditions) -> Conditions {
    all.conditions.truncate(MAX_CONDITIONS);
    for condition in &mut all.conditions {
        for text in [
            &mut condition.kind,
            &mut condition.reason,
            &mut condition.message,
        ] {
            *text = bounded_message(text);
        }
    }
    all.network_plugins.truncate(MAX_NETWORK_PLUGINS);
    for name in &mut all.network_plugins {
        *name = bounded(name);
    }
    all
}
