//! Limits the length of whatever a runtime says: a report stays small, and a line readable.

use pleg::runtime::{CallError, Conditions, RuntimeVersion, Unreachable};

/// Kubernetes allows 253 bytes.
const MAX_NAME_CHARS: usize = 253;

/// Longer messages of a runtime are cut.
pub(super) const MAX_SENTENCE_CHARS: usize = 1000;

/// More conditions than any runtime reports.
const MAX_CONDITIONS: usize = 16;

/// More network plug-ins than any node has.
const MAX_NETWORK_PLUGINS: usize = 64;

/// A name, cut to the maximum length of names.
pub(super) fn bounded(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect()
}

/// An error with a message that is cut if it is too long.
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
    if let Some((end, _)) = text.char_indices().nth(MAX_SENTENCE_CHARS) {
        *text = text[..end].into();
    }
    error
}

/// The same for what a runtime calls itself.
pub(super) fn bounded_version(version: RuntimeVersion) -> RuntimeVersion {
    RuntimeVersion {
        name: bounded(&version.name).into(),
        version: bounded(&version.version).into(),
        api_version: bounded(&version.api_version).into(),
    }
}

/// The same for its conditions, of which at most `MAX_CONDITIONS` are kept.
pub(super) fn bounded_conditions(mut all: Conditions) -> Conditions {
    all.conditions.truncate(MAX_CONDITIONS);
    for condition in &mut all.conditions {
        for text in [
            &mut condition.kind,
            &mut condition.reason,
            &mut condition.message,
        ] {
            *text = text.chars().take(MAX_SENTENCE_CHARS).collect();
        }
    }
    all.network_plugins.truncate(MAX_NETWORK_PLUGINS);
    for name in &mut all.network_plugins {
        *name = bounded(name);
    }
    all
}
