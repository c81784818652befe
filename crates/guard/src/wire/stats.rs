//! Statistics as encoded in answers. The answer for one id is a list with one row, so a list of many rows
//! is the concatenation of the answers for each id.

use std::collections::BTreeMap;

use base::id::Id;
use bytes::Bytes;
use cri::fields::{Malformed, fields};

const MESSAGE: &str = "statistics";

/// The field number of the rows, of a row's attributes, and of the id in the attributes. It is the same
/// for containers and sandboxes, in a list and in the answer for one id.
const FIRST: u32 = 1;

/// The rows of a list, each encoded as the answer for its id. A stream has the rows in many messages.
pub(crate) fn rows_of<'a>(
    messages: impl IntoIterator<Item = &'a Bytes>,
) -> Result<BTreeMap<Id, Bytes>, Malformed> {
    let mut rows = BTreeMap::new();
    for message in messages {
        fields(message, MESSAGE, |number, row| {
            if number == FIRST
                && let Some(id) = id_of(row.bytes()?)?
            {
                let mut one = Vec::new();
                row.copy_as(FIRST, &mut one);
                rows.insert(id, one.into());
            }
            Ok(())
        })?;
    }
    Ok(rows)
}

/// Whether a request is for all ids: it has no filter, or a filter without conditions.
pub(crate) fn is_for_all(request: &[u8]) -> bool {
    let mut is_empty = true;
    let read = fields(request, MESSAGE, |number, filter| {
        is_empty &= number == FIRST && filter.bytes()?.is_empty();
        Ok(())
    });
    read.is_ok() && is_empty
}

fn id_of(row: &[u8]) -> Result<Option<Id>, Malformed> {
    let mut id = None;
    fields(row, MESSAGE, |number, attributes| {
        if number == FIRST {
            fields(attributes.bytes()?, MESSAGE, |number, field| {
                if number == FIRST {
                    id = Some(field.text()?.into());
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with these bytes in field 1.
    fn nested(bytes: &[u8]) -> Vec<u8> {
        [&[0x0a, bytes.len() as u8], bytes].concat()
    }

    #[test]
    fn a_request_with_an_empty_filter_is_for_all_ids() {
        // A kubelet sends an empty filter.
        assert!(is_for_all(b"") && is_for_all(&nested(b"")));
        assert!(!is_for_all(&nested(&nested(b"id"))) && !is_for_all(b"\x10\x01"));
    }

    #[test]
    fn a_list_is_the_concatenation_of_the_answers_for_each_id() {
        let row = |id: &str| {
            let mut row = nested(&nested(id.as_bytes()));
            row.extend([0x12, 0x01, 0x07]);
            nested(&row)
        };
        let list = Bytes::from([row("a"), row("b")].concat());
        let rows = rows_of([&list]).unwrap();
        assert_eq!(rows[&Id::from("a")], row("a"));
        assert_eq!(rows.into_values().collect::<Vec<_>>().concat(), list);
        assert!(rows_of([&list.slice(..5)]).is_err());
    }
}
