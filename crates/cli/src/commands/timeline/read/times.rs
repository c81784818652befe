//! Checks whether the sources of a picture are from the same time.

use std::time::Duration;

use pleg::model::wall_time::WallTime;

/// The first and the last time in a source.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub(super) path: String,
    pub(super) from: WallTime,
    pub(super) until: WallTime,
}

/// The longest gap between files of the same incident: a dump is often taken after the log was copied.
const MAX_GAP: Duration = Duration::from_secs(3600);

/// The maximum number of files that are listed; the others are counted.
const MAX_FILES: usize = 8;

/// A sentence that lists the sources with their times, if there is a gap of more than
/// `MAX_GAP` that no source covers.
pub(super) fn apart(mut all: Vec<Times>) -> Option<String> {
    all.sort_by_key(|times| times.from);
    let mut covered = all.first()?.until;
    let mut has_gap = false;
    for times in &all {
        has_gap |= times.from > covered.after(MAX_GAP);
        covered = covered.max(times.until);
    }
    if !has_gap {
        return None;
    }
    let shown = all.iter().take(MAX_FILES).map(range);
    let mut list: Vec<String> = shown.collect();
    let more = all.len().saturating_sub(MAX_FILES);
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    let list = list.join("; ");
    Some(format!("The files are from different times: {list}."))
}

fn range(times: &Times) -> String {
    let Times { path, from, until } = times;
    let (from, until) = (from.timestamp(), until.timestamp());
    let from_day = from.strftime("%-d %B %Y").to_string();
    let until_day = until.strftime("%-d %B %Y").to_string();
    let (from, until) = (from.strftime("%H:%M:%S"), until.strftime("%H:%M:%S"));
    match from_day == until_day {
        true => format!("{path} is from {from_day}, {from} to {until}"),
        false => format!("{path} is from {from_day}, {from} to {until_day}, {until}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(path: &str, from: i64, until: i64) -> Times {
        let minute = |minute: i64| {
            WallTime::from_unix_nanos((28_333_333 + minute) * 60_000_000_000).unwrap()
        };
        Times {
            path: path.to_owned(),
            from: minute(from),
            until: minute(until),
        }
    }

    #[test]
    fn files_of_one_incident_need_not_overlap_to_the_minute() {
        assert_eq!(apart(Vec::new()), None);
        assert_eq!(apart(vec![times("a", 0, 10)]), None);
        let rotated = [times("b", 61, 120), times("a", 0, 60), times("c", 10, 20)];
        assert_eq!(apart(rotated.to_vec()), None);
        assert_eq!(apart(vec![times("a", 0, 10), times("b", 60, 60)]), None);
    }

    #[test]
    fn files_of_different_days_are_named_with_their_times() {
        let sentence = apart(vec![times("dump", 5000, 5000), times("log", 0, 10)]).unwrap();
        assert_eq!(
            sentence,
            "The files are from different times: log is from 14 November 2023, 22:13:00 to \
             22:23:00; dump is from 18 November 2023, 09:33:00 to 09:33:00."
        );
        let many: Vec<Times> = (0..20)
            .map(|it| times("x", it * 100, it * 100 + 1))
            .collect();
        assert!(apart(many).unwrap().ends_with("; and 12 more."));
    }
}
