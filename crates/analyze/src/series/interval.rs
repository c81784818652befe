//! Unhealthy intervals: consecutive points that refer to the same relist.

use super::{SECOND, Said, THRESHOLD};

/// A period in which the kubelet reported that its PLEG is not healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The node, or empty.
    pub host: String,
    /// The first line's time.
    pub start: Option<i64>,
    /// The last line's time.
    pub end: Option<i64>,
    /// The first value of "was last seen active X ago".
    pub first: i64,
    /// The largest value of "was last seen active X ago".
    pub last: i64,
    /// The kubelet's threshold for this value.
    pub threshold: i64,
    /// The number of lines.
    pub lines: u64,
    /// Whether the kubelet has not relisted since it started.
    pub never: bool,
    /// How often the kubelet started in this input before the interval.
    pub life: u64,
    /// When the kubelet started, if a line shows it.
    pub life_began: Option<i64>,
    /// How long before the interval the log had no line.
    pub silence_before: Option<i64>,
    /// Whether the log continues after the interval without such lines.
    pub closed: bool,
}

/// The maximum length of the interval of a normal start.
const STARTUP: i64 = 8 * SECOND;
/// The maximum length of the interval of a normal start, if the interval ends by itself.
const SLOW_STARTUP: i64 = THRESHOLD;
/// An interval is over after this time without a line: the kubelet logs one every five seconds.
const END_OF_INTERVAL: i64 = 15 * SECOND;
/// How much the computed start of one relist may vary, because clocks are slewed.
const SAME_RELIST: i64 = 10 * SECOND;

impl Interval {
    /// The time since the last relist at the end of the interval. Without a relist, the interval's length.
    pub fn peak(&self) -> i64 {
        match self.never {
            true => self.spans(),
            false => self.last,
        }
    }

    /// The time from the first line to the last.
    pub fn spans(&self) -> i64 {
        match (self.start, self.end) {
            (Some(start), Some(end)) => end.saturating_sub(start).max(0),
            _ => 0,
        }
    }

    /// When the last successful relist began.
    pub fn relist_began(&self) -> Option<i64> {
        self.end.filter(|_| !self.never)?.checked_sub(self.last)
    }

    /// Shifts all times of the interval.
    pub fn shift(&mut self, by: i64) {
        for time in [&mut self.start, &mut self.end, &mut self.life_began] {
            *time = time.map(|time| time.saturating_add(by));
        }
    }

    /// Whether the interval belongs to the normal start of a kubelet.
    pub fn is_startup(&self) -> bool {
        self.never && (self.spans() < STARTUP || self.closed && self.spans() < SLOW_STARTUP)
    }

    /// Whether the kubelet itself did not run. A running kubelet reports an exceeded threshold within
    /// ten seconds.
    pub fn is_stall(&self) -> bool {
        let late = self.first.saturating_sub(self.threshold);
        let was_quiet = self
            .silence_before
            .is_some_and(|silence| silence >= late / 2);
        !self.never && late > 20 * SECOND && self.spans() < END_OF_INTERVAL && was_quiet
    }

    fn takes(&self, time: Option<i64>, said: Said, life: u64) -> bool {
        let never = matches!(said, Said::Never);
        if self.life != life || self.never != never && said != Said::Cut {
            return false;
        }
        let Said::Ago { age, .. } = said else {
            let since = time.zip(self.end).map(|(time, end)| time - end);
            return since.is_none_or(|since| since < 2 * THRESHOLD);
        };
        if self.lines > 0 && age < self.last - SECOND {
            return false;
        }
        match (time, self.relist_began()) {
            (Some(time), Some(began)) => (time - age - began).abs() < SAME_RELIST + age / 1000,
            _ => true,
        }
    }

    fn add(&mut self, time: Option<i64>, said: Said) {
        self.start = self.start.or(time);
        self.end = time.or(self.end);
        self.lines += 1;
        if let Said::Ago { age, threshold } = said {
            if self.first == 0 {
                self.first = age;
            }
            self.last = self.last.max(age);
            self.threshold = threshold;
        }
    }
}

/// Builds the intervals of one node in one input, line by line.
#[derive(Debug, Default)]
pub struct Intervals {
    host: String,
    done: Vec<Interval>,
    current: Option<Interval>,
    dropped: u64,
    life: u64,
    life_began: Option<i64>,
    pid: Option<u32>,
}

/// How many intervals are kept. Further ones are only counted.
const MAX_INTERVALS: usize = 2000;

impl Intervals {
    /// Intervals of this node.
    pub fn of_host(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            ..Self::default()
        }
    }

    /// Reads a line that shows that the kubelet has started.
    pub fn started(&mut self, time: Option<i64>) {
        // The kubelet logs several lines at a start.
        if let (Some(time), Some(began)) = (time, self.life_began)
            && (time - began).abs() < 30 * SECOND
        {
            return;
        }
        self.life += 1;
        self.life_began = time;
    }

    /// How often the kubelet has started.
    pub fn starts(&self) -> u64 {
        self.life
    }

    /// Records the process that wrote a line. A new process id shows a new start.
    pub fn seen_pid(&mut self, pid: u32, time: Option<i64>) {
        if pid == 0 || self.pid == Some(pid) {
            return;
        }
        if self.pid.replace(pid).is_some() {
            self.started(time);
        }
    }

    /// Adds a point. `silence` returns how long before the point's line the log had no other. Returns
    /// whether an interval begins.
    pub fn point(
        &mut self,
        time: Option<i64>,
        said: Said,
        silence: impl FnOnce() -> Option<i64>,
    ) -> bool {
        let current = self.current.as_ref();
        let taken = current.is_some_and(|at| at.takes(time, said, self.life));
        if !taken {
            self.close(true);
            self.current = Some(Interval {
                host: self.host.clone(),
                never: said == Said::Never,
                threshold: THRESHOLD,
                life: self.life,
                life_began: self.life_began,
                silence_before: silence(),
                ..Interval::default()
            });
        }
        if let Some(current) = &mut self.current {
            current.add(time, said);
        }
        !taken
    }

    fn close(&mut self, goes_on: bool) {
        let Some(mut interval) = self.current.take() else {
            return;
        };
        interval.closed = goes_on;
        if self.done.len() < MAX_INTERVALS {
            self.done.push(interval);
        } else {
            self.dropped += 1;
        }
    }

    /// Ends the input, whose last line has this time. Returns the intervals, and how many were dropped.
    pub fn end(mut self, time: Option<i64>) -> (Vec<Interval>, u64) {
        let end = self.current.as_ref().and_then(|current| current.end);
        let quiet = end.zip(time).map(|(end, time)| time - end);
        self.close(quiet.is_some_and(|quiet| quiet > END_OF_INTERVAL));
        (self.done, self.dropped)
    }
}

/// Sorts the intervals of several inputs by time, and joins those that log rotation split.
pub fn join_rotated(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_by_key(|interval| (interval.start.is_none(), interval.start));
    let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
    for next in intervals {
        let mut earlier = merged.iter_mut().rev();
        if let Some(before) = earlier.find(|before| before.host == next.host) {
            let same = before.relist_began().zip(next.relist_began());
            if same.is_some_and(|(one, other)| (one - other).abs() < SECOND) {
                before.end = before.end.max(next.end);
                before.last = before.last.max(next.last);
                before.lines += next.lines;
                before.closed = next.closed;
                continue;
            }
            before.closed = true;
        }
        merged.push(next);
    }
    merged
}
