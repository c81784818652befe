//! The cursor of a table.

/// A cursor. It follows its row while other rows appear and disappear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cursor<K> {
    /// On the first row, whichever that is: the reader has not moved the cursor, or has moved it there.
    #[default]
    First,
    /// On a chosen row.
    On {
        /// The key of the row.
        key: K,
        /// The last position of the row. If the row disappears, the row at this position is selected.
        place: usize,
    },
}

impl<K: Clone + PartialEq> Cursor<K> {
    /// The position of the selected row among `keys`; `None` if there are none.
    pub fn place(&self, keys: &[K]) -> Option<usize> {
        let last = keys.len().checked_sub(1)?;
        Some(match self {
            Self::First => 0,
            Self::On { key, place } => {
                let found = keys.iter().position(|it| it == key);
                found.unwrap_or(*place).min(last)
            }
        })
    }

    /// Moves by this many rows, within the table.
    pub fn step(&mut self, keys: &[K], rows: isize) {
        let (Some(place), Some(last)) = (self.place(keys), keys.len().checked_sub(1)) else {
            return;
        };
        let place = place.saturating_add_signed(rows).min(last);
        *self = match place {
            // At the top, the cursor stays on the first row even if new rows appear above.
            0 => Self::First,
            place => Self::On {
                key: keys[place].clone(),
                place,
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_follows_its_row() {
        let mut cursor = Cursor::First;
        cursor.step(&["a", "b", "c"], 1);
        assert_eq!(cursor.place(&["b", "a", "c"]), Some(0));
        assert_eq!(cursor.place(&["c", "a", "b"]), Some(2));
    }

    #[test]
    fn at_the_top_the_cursor_follows_new_rows() {
        let mut cursor = Cursor::First;
        cursor.step(&["a", "b"], 1);
        cursor.step(&["a", "b"], -1);
        assert_eq!(cursor.place(&["new", "a", "b"]), Some(0));
    }

    #[test]
    fn when_its_row_is_removed_the_cursor_selects_the_row_in_its_place() {
        let mut cursor = Cursor::First;
        cursor.step(&["a", "b", "c"], isize::MAX);
        assert_eq!(cursor.place(&["a", "b"]), Some(1));
        assert_eq!(cursor.place(&[]), None);
    }
}
