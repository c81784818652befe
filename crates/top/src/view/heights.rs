//! Divides the rows of the screen among the tables.

use crate::state::page::Panel;

/// The minimum height of the table of pods: title, column names, two rows.
const MIN_POD_ROWS: u16 = 4;

/// The minimum height of the table of events: title and three rows.
const MIN_EVENT_ROWS: u16 = 4;

/// The maximum height of a table while another one has the focus: title, column names, rows.
const UNFOCUSED_ROWS: u16 = 6;

/// Divides `height` among the tables, which would fill `full` rows each. First each table
/// gets a few rows; then the table with the focus gets as many as it wants, then the pods,
/// then the events and the others.
pub fn heights(height: u16, full: [u16; 4], focused: Panel) -> [u16; 4] {
    let mut given = [0; 4];
    let mut left = height;
    let mut give = |place: usize, limit: u16| {
        let more = limit
            .min(full[place])
            .saturating_sub(given[place])
            .min(left);
        given[place] += more;
        left -= more;
    };
    let [pods, outstanding, events, findings] = Panel::ALL.map(|panel| panel as usize);
    let focused = focused as usize;
    give(focused, MIN_POD_ROWS);
    give(pods, MIN_POD_ROWS);
    give(outstanding, UNFOCUSED_ROWS);
    give(findings, UNFOCUSED_ROWS.min(height / 4));
    give(events, MIN_EVENT_ROWS.max(height / 4));
    for place in [focused, pods, events, outstanding, findings] {
        give(place, u16::MAX);
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_focused_table_has_the_remaining_space() {
        let full = [4002, 4, 1001, 0];
        assert_eq!(heights(17, full, Panel::Pods), [9, 4, 4, 0]);
        assert_eq!(heights(17, full, Panel::Events), [4, 4, 9, 0]);
    }

    #[test]
    fn space_that_a_table_does_not_need_is_given_to_the_others() {
        assert_eq!(heights(17, [4, 1, 1, 0], Panel::Pods), [4, 1, 1, 0]);
        assert_eq!(heights(17, [5, 1, 40, 0], Panel::Pods), [5, 1, 11, 0]);
        assert_eq!(heights(40, [4002, 90, 1001, 5], Panel::Outstanding)[1], 21);
    }

    #[test]
    fn the_heights_never_exceed_the_screen() {
        for height in 0..60 {
            for focused in Panel::ALL {
                let given = heights(height, [4002, 60, 1001, 9], focused);
                assert_eq!(given.iter().sum::<u16>(), height);
            }
        }
    }
}
