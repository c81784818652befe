//! The documented shapes of the JSON output.

use serde_json::Value;

/// Asserts that a time is written as RFC 3339 in UTC with nanoseconds.
#[track_caller]
pub fn assert_time(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("no time: {value}"));
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000000000Z", "{text}");
}

/// Asserts that an object has exactly these keys.
#[track_caller]
pub fn assert_keys(value: &Value, keys: &[&str]) {
    let object = value.as_object();
    let object = object.unwrap_or_else(|| panic!("no object: {value}"));
    let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
    let mut wanted = keys.to_vec();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "in {value}");
}

/// Asserts that a status has every documented key; more may be added.
#[track_caller]
pub fn assert_status_shape(status: &Value) {
    let is_number = |value: &Value| value.is_number();
    let is_text = |value: &Value| value.is_string();
    let texts = [
        "/health/state",
        "/health/message",
        "/kubeletView/message",
        "/relist/mode",
        "/stream/state",
        "/kernel/state",
        "/runtime/name",
        "/runtime/version",
        "/runtime/apiVersion",
        "/runtime/endpoint",
        "/relist/lastKind",
    ];
    let numbers = [
        "/health/ageSeconds",
        "/health/thresholdSeconds",
        "/relist/count",
        "/relist/periodSeconds",
        "/relist/lastDurationSeconds",
        "/stream/events",
        "/stream/missed",
        "/stream/reconnects",
        "/kernel/watched",
        "/pods",
        "/containers/running",
        "/containers/exited",
        "/containers/created",
        "/containers/unknown",
    ];
    for pointer in texts {
        assert!(
            status.pointer(pointer).is_some_and(is_text),
            "{pointer} in {status:#}"
        );
    }
    for pointer in numbers {
        assert!(
            status.pointer(pointer).is_some_and(is_number),
            "{pointer} in {status:#}"
        );
    }
    for list in ["stuck", "inFlight"] {
        assert!(status[list].is_array(), "{list} in {status:#}");
    }
    assert!(status["kubeletView"]["ready"].is_boolean());
    for nullable in ["/kubeletView/notReadyInSeconds", "/kernel/why"] {
        assert!(
            status.pointer(nullable).is_some(),
            "{nullable} in {status:#}"
        );
    }
    assert_time(&status["health"]["lastSeen"]);
}
