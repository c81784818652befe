//! Divides the rows of the screen among the tables.

use crate::state::page::Panel;

/// Title, column names, two rows.
const LEAST_PODS: u16 = 4;

/// Title and three rows.
const LEAST_EVENTS: u16 = 4;

/// The rows of a table while another one has the focus: title, column names, rows.
const MODEST: u16 = 6;

/// Divides `height` among the tables, which would fill `wanted` rows each. First each table gets a
/// few rows, then the table with the focus as many as it wants, then the pods, then the events.
pub fn heights(height: u16, wanted: [u16; 4], focused: Panel) -> [u16; 4] {
    let mut given = [0; 4];
    let mut left = height;
    let mut give = |place: usize, limit: u16| {
        let more = limit
            .min(wanted[place])
            .saturating_sub(given[place])
            .min(left);
        given[place] += more;
        left -= more;
    };
    let [pods, outstanding, events, findings] = [0, 1, 2, 3];
    let focused = Panel::ALL
        .iter()
        .position(|it| *it == focused)
        .unwrap_or(pods);
    give(focused, LEAST_PODS);
    give(pods, LEAST_PODS);
    give(outstanding, MODEST);
    give(findings, MODEST.min(height / 4));
    give(events, LEAST_EVENTS.max(height / 4));
    for place in [focused, pods, events, outstanding, findings] {
        give(place, u16::MAX);
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_with_the_keys_has_the_room_that_is_left() {
        let wanted = [4002, 4, 1001, 0];
        assert_eq!(heights(17, wanted, Panel::Pods), [9, 4, 4, 0]);
        assert_eq!(heights(17, wanted, Panel::Events), [4, 4, 9, 0]);
    }

    #[test]
    fn what_a_table_does_not_want_goes_to_the_others() {
        assert_eq!(heights(17, [4, 1, 1, 0], Panel::Pods), [4, 1, 1, 0]);
        assert_eq!(heights(17, [5, 1, 40, 0], Panel::Pods), [5, 1, 11, 0]);
        assert_eq!(heights(40, [4002, 90, 1001, 5], Panel::Outstanding)[1], 21);
    }

    #[test]
    fn there_is_never_more_than_there_is() {
        for height in 0..60 {
            for focused in Panel::ALL {
                let given = heights(height, [4002, 60, 1001, 9], focused);
                assert_eq!(given.iter().sum::<u16>(), height);
            }
        }
    }
}
