//! `$(NAME)` in commands, arguments and values, by Kubernetes' rules.

/// Replaces each `$(NAME)` with its value. A reference without a value is not changed, `$$` becomes
/// `$`, and values are not expanded again.
pub(super) fn expand(text: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match after.chars().next() {
            Some('$') => {
                expanded.push('$');
                &after[1..]
            }
            Some('(') => match after.find(')') {
                Some(end) => {
                    let name = &after[1..end];
                    let value = value_of(name);
                    expanded.push_str(&value.unwrap_or_else(|| format!("$({name})")));
                    &after[end + 1..]
                }
                // Without a closing parenthesis it is not a reference.
                None => {
                    expanded.push_str("$(");
                    &after[1..]
                }
            },
            _ => {
                expanded.push('$');
                after
            }
        };
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_expanded_by_kubernetes_rules() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "a"),
            ("$(A)$(B)", "ab"),
            ("x$(A)y$(B)z", "xaybz"),
            ("$(EMPTY)", ""),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            ("$()", "$()"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$(A)", "$$(A)"),
            ("$$", "$"),
            ("$$$", "$$"),
            ("$", "$"),
            ("a$", "a$"),
            ("$A", "$A"),
            ("$é$(A)", "$éa"),
            ("$(A", "$(A"),
            ("$(A$(B)", "$(A$(B)"),
            ("$(A)(B)", "a(B)"),
            ("$((A)", "$((A)"),
            ("$(LOOP)", "$(A)"),
            ("$( A )", "$( A )"),
            ("€$(A)€", "€a€"),
        ];
        let of = |name: &str| {
            let value = match name {
                "A" => "a",
                "B" => "b",
                "EMPTY" => "",
                "LOOP" => "$(A)",
                _ => return None,
            };
            Some(value.to_owned())
        };
        for (text, expected) in cases {
            assert_eq!(expand(text, of), expected, "{text:?}");
        }
    }
}
