//! Counts in sentences.

/// `1 pod`, `2 pods`, `3 processes`, `4 entries`.
pub fn counted(count: usize, noun: &str) -> String {
    let (stem, ending) = match (count, noun.strip_suffix('y')) {
        (1, _) => (noun, ""),
        (_, Some(stem)) => (stem, "ies"),
        _ if noun.ends_with('s') => (noun, "es"),
        _ => (noun, "s"),
    };
    format!("{count} {stem}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(0, "pod"), "0 pods");
        assert_eq!(counted(1, "process"), "1 process");
        assert_eq!(counted(2, "process"), "2 processes");
        assert_eq!(counted(1, "entry"), "1 entry");
        assert_eq!(counted(2, "entry"), "2 entries");
    }
}
