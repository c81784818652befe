//! The forms of names, addresses and paths, as an API server checks them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::problem::At;

fn is_alphanumeric(it: char) -> bool {
    it.is_ascii_alphanumeric()
}

fn is_lower(it: char) -> bool {
    it.is_ascii_lowercase() || it.is_ascii_digit()
}

/// Whether all characters are of the class or in `more`, and the first and last are of the class.
fn is_made_of(text: &str, class: fn(char) -> bool, more: &str) -> bool {
    text.starts_with(class)
        && text.ends_with(class)
        && text.chars().all(|it| class(it) || more.contains(it))
}

fn check(is_valid: bool, text: &str, what: &str) -> Result<(), String> {
    match is_valid {
        true => Ok(()),
        false => Err(format!("{text:?} is not {what}")),
    }
}

/// Checks a DNS label (RFC 1123): the name of a container or of a volume, a namespace, a host name.
pub(super) fn dns_label(text: &str) -> Result<(), String> {
    check(
        text.len() <= 63 && is_made_of(text, is_lower, "-"),
        text,
        "a DNS label: at most 63 lower-case letters, digits and '-', with a letter or digit at \
         both ends",
    )
}

/// Checks a DNS name: the name of a pod.
pub(super) fn dns_subdomain(text: &str) -> Result<(), String> {
    check(
        is_dns_subdomain(text),
        text,
        "a DNS name: at most 253 lower-case letters, digits, '-' and '.', with a letter or digit \
         at both ends of each part",
    )
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|it| is_made_of(it, is_lower, "-"))
}

/// Checks the key of a label or of an annotation.
pub(super) fn qualified_name(text: &str) -> Result<(), String> {
    let (is_prefix_valid, name) = match text.split_once('/') {
        Some((prefix, name)) => (is_dns_subdomain(&prefix.to_lowercase()), name),
        None => (true, text),
    };
    check(
        is_prefix_valid && name.len() <= 63 && is_made_of(name, is_alphanumeric, "-_."),
        text,
        "a qualified name: at most 63 letters, digits, '-', '_' and '.', with a letter or digit \
         at both ends, and perhaps a DNS name and '/' before",
    )
}

/// Checks the value of a label.
pub(super) fn label_value(text: &str) -> Result<(), String> {
    let is_valid = text.len() <= 63 && is_made_of(text, is_alphanumeric, "-_.");
    check(
        text.is_empty() || is_valid,
        text,
        "a label's value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at \
         both ends",
    )
}

/// Checks the name of a port (RFC 6335).
pub(super) fn port_name(text: &str) -> Result<(), String> {
    let is_valid = text.len() <= 15
        && is_made_of(text, is_lower, "-")
        && !text.contains("--")
        && text.contains(|it: char| it.is_ascii_lowercase());
    check(
        is_valid,
        text,
        "a port's name: at most 15 lower-case letters, digits and single '-', with a letter among \
         them and no '-' at an end",
    )
}

/// Checks the name of an environment variable.
pub(super) fn variable(text: &str) -> Result<(), String> {
    let is_valid = text.chars().all(|it| matches!(it, ' '..='~') && it != '=');
    let what = "a variable's name: printable ASCII characters other than '='";
    check(is_valid, text, what)
}

/// Checks the name of an HTTP header (RFC 9110).
pub(super) fn header(text: &str) -> Result<(), String> {
    let is_valid = is_made_of(text, is_alphanumeric, "-");
    let what = "a header's name: letters, digits and '-', with a letter or digit at both ends";
    check(is_valid, text, what)
}

/// Checks an IP address.
pub(super) fn ip_address(text: &str) -> Result<(), String> {
    check(text.parse::<IpAddr>().is_ok(), text, "an IP address")
}

/// Checks an absolute path.
pub(super) fn absolute_path(text: &str) -> Result<(), String> {
    check(text.starts_with('/'), text, "an absolute path")
}

/// Checks that a name is unique in a list.
pub(super) fn check_unique(known: &mut BTreeSet<String>, name: &str, what: &str, at: &At<'_>) {
    if !name.is_empty() && !known.insert(name.to_owned()) {
        at.invalid(format!("another {what} already has {name:?}"));
    }
}
