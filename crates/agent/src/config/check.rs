//! Which values of a configuration cannot work.

use std::path::Path;
use std::time::Duration;

use cri::Endpoint;

use super::{AgentConfig, ConfigError};

/// The largest `maxConcurrentInspections`: more would overload any runtime.
const MAX_CONCURRENT_CALLS: usize = 1000;

/// The largest `maxMessageSize`: gRPC cannot express the length of a longer message.
const MAX_MESSAGE_BYTES: usize = u32::MAX as usize;

impl AgentConfig {
    /// Refuses values that cannot work.
    pub fn check(&self) -> Result<(), ConfigError> {
        let invalid = |text: String| Err(ConfigError::Invalid(text));
        for (key, duration) in [
            ("relistPeriod", self.relist_period),
            ("relistCeiling", self.relist_ceiling),
            ("relistThreshold", self.relist_threshold),
            ("listOverdue", self.list_overdue),
            ("statusOverdue", self.status_overdue),
            ("remedyAfter", self.remedy_after),
        ] {
            if duration.0 < Duration::from_millis(10) {
                return invalid(format!("{key} is {duration}: it must be at least 10ms"));
            }
        }
        if self.relist_threshold <= self.relist_period {
            return invalid(format!(
                "relistThreshold ({}) must be longer than relistPeriod ({})",
                self.relist_threshold, self.relist_period
            ));
        }
        for (key, number, most) in [
            (
                "maxConcurrentInspections",
                self.max_concurrent_inspections,
                MAX_CONCURRENT_CALLS,
            ),
            (
                "maxOutstandingCalls",
                self.max_outstanding_calls,
                MAX_CONCURRENT_CALLS,
            ),
            ("maxMessageSize", self.max_message_size, MAX_MESSAGE_BYTES),
        ] {
            if !(1..=most).contains(&number) {
                return invalid(format!("{key} must be between 1 and {most}"));
            }
        }
        check_absolute("socket", &self.socket).map_err(ConfigError::Invalid)?;
        if let Some(diagnosis) = &self.diagnosis {
            diagnosis.check().map_err(ConfigError::Invalid)?;
        }
        self.guard_socket(&Endpoint::new("/"))?;
        self.history.check().map_err(ConfigError::Invalid)?;
        if let Some(kubernetes) = &self.kubernetes {
            kubernetes.check().map_err(ConfigError::Invalid)?;
        }
        Ok(())
    }
}

/// Refuses a path that is not absolute; the error is a sentence.
pub(crate) fn check_absolute(key: &str, path: &Path) -> Result<(), String> {
    match path.is_absolute() {
        true => Ok(()),
        false => Err(format!("{key} is {path:?}: it must be an absolute path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_site_are_folders_with_absolute_paths() {
        let config = |path: &str| {
            let text = format!("diagnosis:\n  rules: [/etc/pleg/rules, {path}]\n");
            AgentConfig::parse(&text).unwrap()
        };
        let known = config("/opt/acme/rules");
        known.check().unwrap();
        let rules = known.diagnosis.unwrap().rules;
        assert_eq!(
            rules,
            [Path::new("/etc/pleg/rules"), Path::new("/opt/acme/rules")]
        );
        let error = config("acme/rules").check().unwrap_err().to_string();
        assert!(
            error.contains("diagnosis.rules is \"acme/rules\""),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_work_is_refused_in_a_sentence() {
        for (text, sentence) in [
            (
                "relistPeriod: 0s",
                "relistPeriod is 0s: it must be at least 10ms",
            ),
            (
                "relistPeriod: 3m",
                "relistThreshold (3m0s) must be longer than relistPeriod (3m0s)",
            ),
            (
                "maxConcurrentInspections: 0",
                "maxConcurrentInspections must be between 1 and 1000",
            ),
            (
                "history: {maxBytes: 1000}",
                "history.maxBytes must be between 1048576 and 1099511627776",
            ),
            (
                "history: {maxAge: 1m}",
                "history.maxAge is 1m0s: it must be at least 1h0m0s",
            ),
            (
                "history: {directory: here}",
                "history.directory is \"here\": it must be an absolute path",
            ),
            (
                "guard: cri.sock",
                "guard: endpoint \"cri.sock\" is not a unix socket: write unix:///path/to.sock or an \
                 absolute path",
            ),
            (
                "remedyAfter: 1ms",
                "remedyAfter is 1ms: it must be at least 10ms",
            ),
            (
                "socket: agent.sock",
                "socket is \"agent.sock\": it must be an absolute path",
            ),
        ] {
            let config = AgentConfig::parse(text).unwrap();
            assert_eq!(config.check().unwrap_err().to_string(), sentence);
        }
    }
}
