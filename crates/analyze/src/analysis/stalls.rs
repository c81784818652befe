//! Waits and stalls that the kernel reports. It is usual that some are over within seconds.
//!
//! ```text
//!   nfs: server S not responding, still trying   …   nfs: server S OK     over, if within seconds
//!   unregister_netdevice: waiting for D          …   (silence)            over, if reported only once
//!   rcu: self-detected stall on CPU              …   (t=36894712 jiffies  the host paused the machine
//! ```

use std::collections::BTreeMap;

use super::results::Hits;
use crate::line::rcu::{begins_stall, shows_pause};
use crate::line::{after, has, text, until};

/// A wait for a server that lasts at least this long counts even if it is over.
const SHORT_SECONDS: f64 = 30.0;
/// A wait for a device is over after this time without a line: the kernel reports it every ten seconds.
const SILENCE_SECONDS: f64 = 20.0;
/// How many waits are distinguished.
const MAX_STALLS: usize = 256;

const SERVER: &str = "server ";
const DEVICE: &str = "unregister_netdevice: waiting for ";

/// The waits and stalls in one input, by their rules and by what the kernel or the process waits for.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    stalls: BTreeMap<(usize, String), Stall>,
    /// The RCU stalls before the last one, by their rules.
    of_rcu: BTreeMap<usize, Hits>,
    last_of_rcu: Option<(usize, Hits)>,
    /// The time of the last line that has one, in seconds since any fixed moment.
    now: Option<f64>,
}

#[derive(Debug)]
struct Stall {
    /// The text before the name of what is waited for.
    lead: &'static str,
    seen: Hits,
    first: Option<f64>,
    last: Option<f64>,
}

impl Stalls {
    /// The wait or stall to which this line of a rule belongs; `None` if the line is not about one. `time`
    /// is the time of the line in nanoseconds, if it has one.
    pub(super) fn of(&mut self, rule: usize, line: &[u8], time: Option<i64>) -> Option<&mut Hits> {
        if begins_stall(line) {
            self.keep_last_of_rcu();
            let (_, seen) = self.last_of_rcu.insert((rule, Hits::default()));
            return Some(seen);
        }
        let lead = match () {
            () if has(line, DEVICE) => DEVICE,
            () if has(line, "not responding") && after(line, SERVER).is_some() => SERVER,
            () => return None,
        };
        let key = (rule, text(until(after(line, lead)?, b" ")));
        if self.stalls.len() >= MAX_STALLS && !self.stalls.contains_key(&key) {
            return None;
        }
        self.passes(line, time);
        let now = seconds(line, time);
        let stall = self.stalls.entry(key).or_insert_with(|| Stall {
            lead,
            seen: Hits::default(),
            first: now,
            last: None,
        });
        stall.last = now.or(stall.last);
        Some(&mut stall.seen)
    }

    /// Reads a line of the kernel, which may show that a server answers again, or that the last RCU stall
    /// was a pause of the whole machine.
    pub(super) fn line(&mut self, line: &[u8], time: impl FnOnce() -> Option<i64>) {
        self.last_of_rcu.take_if(|_| shows_pause(line));
        if self.stalls.is_empty() {
            return;
        }
        let time = time();
        self.passes(line, time);
        let Some(server) = after(line, SERVER).filter(|_| line.trim_ascii_end().ends_with(b" OK"))
        else {
            return;
        };
        let (server, now) = (text(until(server, b" ")), seconds(line, time));
        self.stalls.retain(|(_, of), stall| {
            let lasted = now.zip(stall.first).map(|(now, first)| now - first);
            *of != server || lasted.is_none_or(|lasted| lasted >= SHORT_SECONDS)
        });
    }

    fn keep_last_of_rcu(&mut self) {
        if let Some((rule, seen)) = self.last_of_rcu.take() {
            self.of_rcu.entry(rule).or_default().absorb(seen);
        }
    }

    fn passes(&mut self, line: &[u8], time: Option<i64>) {
        if let Some(now) = seconds(line, time) {
            self.now = Some(now);
        }
    }

    /// The waits and stalls that count, by their rules.
    pub(super) fn end(mut self) -> impl Iterator<Item = (usize, Hits)> {
        self.keep_last_of_rcu();
        let now = self.now;
        let lasts = move |stall: &Stall| {
            let quiet = now.zip(stall.last).map(|(now, last)| now - last);
            let is_repeated = stall.lead == SERVER || stall.seen.lines > 1;
            is_repeated || quiet.is_none_or(|quiet| quiet < SILENCE_SECONDS)
        };
        let stalls = self.stalls.into_iter();
        let stalls = stalls.filter(move |(_, stall)| lasts(stall));
        let stalls = stalls.map(|((rule, _), stall)| (rule, stall.seen));
        stalls.chain(self.of_rcu)
    }
}

/// The time of a line in seconds: `time`, or else the time since the kernel was started, `[81211.121]`.
fn seconds(line: &[u8], time: Option<i64>) -> Option<f64> {
    if let Some(nanos) = time {
        return Some(nanos as f64 / 1e9);
    }
    let stamp = until(after(line, "[")?, b"]");
    std::str::from_utf8(stamp).ok()?.trim().parse().ok()
}
