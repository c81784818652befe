//! The group that may use the socket: a number, or a name in `/etc/group`.

use std::fs;

use super::ListenError;

const GROUPS: &str = "/etc/group";

/// The id of the group with this name or number.
pub fn find(name: &str) -> Result<u32, ListenError> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let missing = |error| ListenError::NoGroup {
        name: name.to_owned(),
        error,
    };
    let groups = fs::read_to_string(GROUPS).map_err(|error| missing(Some(error)))?;
    id_of(name, &groups).ok_or_else(|| missing(None))
}

/// The id of the group with this name. Each line of `groups` is `name:password:id:members`.
fn id_of(name: &str, groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_wanted = fields.next() == Some(name);
        is_wanted.then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_name_or_number() {
        let groups = "root:x:0:\nops:x:1200:ann,bob\nodd\nbroken:x:y:\n";
        assert_eq!(id_of("root", groups), Some(0));
        assert_eq!(id_of("ops", groups), Some(1200));
        for missing in ["op", "odd", "broken", "ann", ""] {
            assert_eq!(id_of(missing, groups), None, "{missing}");
        }
        assert_eq!(find("1200").unwrap(), 1200);
        let error = find("no-such-group").unwrap_err();
        assert_eq!(
            error.to_string(),
            "socketGroup no-such-group: no such group"
        );
    }
}
