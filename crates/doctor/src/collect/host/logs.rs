//! The logs of the kubelet and the runtime: the journal, and the log files of systems without it. Only
//! lines that match a rule are kept.

use std::time::Duration;

use analyze::line::calendar::Calendar;
use analyze::line::klog;
use analyze::line::prefix::{self, Carried};
use analyze::line::stamp::{self, Stamp};
use analyze::rules::LineSearch;
use jiff::tz::TimeZone;
use pleg_text::WallTime;

use super::Host;
use crate::collect::helper::{Helpers, Request};
use crate::facts::host::bus::{KUBELET_UNITS, RUNTIME_UNITS};
use crate::facts::logs::{LogFacts, LogLine};
use crate::facts::{Fact, Missing};
use crate::limits::{LOG, MAX_LOG_LINE_CHARS, MAX_LOG_LINES};

/// The log files of kubelets and runtimes without journald, below `/var`: in Talos, k3s with OpenRC, RKE2,
/// k3s, MicroK8s, and minikube.
const IN_VAR: [&str; 8] = [
    "log/kubelet.log",
    "log/containerd.log",
    "log/crio.log",
    "log/k3s.log",
    "lib/rancher/rke2/agent/logs/kubelet.log",
    "lib/rancher/rke2/agent/containerd/containerd.log",
    "lib/rancher/k3s/agent/containerd/containerd.log",
    "log/messages",
];

/// The lines of the last `period`, and when one of the processes `kubelets` last wrote a line.
pub(super) fn read(
    host: &Host,
    helpers: &mut Helpers,
    period: Duration,
    kubelets: Vec<u32>,
    now: WallTime,
) -> Fact<LogFacts> {
    let since = now.as_unix_nanos() / 1_000_000_000 - period.as_secs() as i64;
    let mut calendar = Calendar::until(now);
    calendar.learn(&Stamp {
        offset: local_offset(host, now),
        ..Stamp::default()
    });
    let mut reading = Reading {
        calendar,
        since,
        kubelets,
        facts: LogFacts {
            seconds: period.as_secs(),
            ..LogFacts::default()
        },
    };
    let journalctl = host.usr.join("bin/journalctl");
    let mut sources = Vec::new();
    let mut why = Missing::from("no log of a kubelet or a runtime was found");
    if journalctl.exists() {
        let units = [&KUBELET_UNITS[..], &RUNTIME_UNITS].concat();
        let request = Request::Journal {
            program: journalctl,
            units: units.into_iter().map(str::to_owned).collect(),
            since,
        };
        match helpers.ask::<String>(&request, LOG) {
            Ok(text) => {
                sources.push("the journal".to_owned());
                reading.take(text.lines().rev(), "journal");
            }
            Err(missing) => why = missing,
        }
    }
    let files = IN_VAR.iter().map(|name| host.var.join(name));
    for path in files.filter(|path| path.exists()) {
        let source = path.display().to_string();
        match helpers.ask::<String>(&Request::Tail { path }, LOG) {
            Ok(text) => {
                reading.take(text.lines(), &source);
                sources.push(source);
            }
            Err(missing) => why = missing,
        }
    }
    match sources.is_empty() {
        false => Fact::known(reading.facts, sources.join(", ")),
        true => Fact::missing(why, "the journal"),
    }
}

/// The offset of the machine's time zone, in which a kubelet writes its own times.
fn local_offset(host: &Host, now: WallTime) -> Option<i32> {
    let zone = std::fs::read(host.etc.join("localtime")).ok()?;
    let zone = TimeZone::tzif("local", &zone).ok()?;
    Some(zone.to_offset(now.timestamp()).seconds())
}

struct Reading {
    calendar: Calendar,
    /// The time before which lines are skipped, in seconds since 1970.
    since: i64,
    kubelets: Vec<u32>,
    facts: LogFacts,
}

impl Reading {
    /// Keeps those of these lines that match a rule. A line without a time is taken to be as old as the one
    /// before it.
    fn take<'a>(&mut self, lines: impl Iterator<Item = &'a str>, log: &str) {
        let mut time = None;
        for line in lines {
            let carried = prefix::split(line.as_bytes());
            let stamp = time_of(&carried);
            time = stamp.map_or(time, |stamp| self.calendar.resolve(&stamp));
            if time.is_none_or(|time| time / 1_000_000_000 < self.since) {
                continue;
            }
            self.facts.read += 1;
            if self.is_of_kubelet(&carried) {
                self.facts.kubelet_wrote = time.and_then(WallTime::from_unix_nanos);
            }
            if LineSearch::active().find(line.as_bytes()).is_nothing() {
                continue;
            }
            self.facts.lines.push(LogLine {
                log: log.to_owned(),
                time: time.and_then(WallTime::from_unix_nanos),
                text: pleg_text::redact(line)
                    .chars()
                    .take(MAX_LOG_LINE_CHARS)
                    .collect(),
            });
        }
        // The newest lines show the current state.
        let excess = self.facts.lines.len().saturating_sub(MAX_LOG_LINES);
        self.facts.lines.drain(..excess);
    }

    fn is_of_kubelet(&self, carried: &Carried) -> bool {
        let pid = std::str::from_utf8(carried.pid).ok();
        let pid = pid.and_then(|pid| pid.parse().ok());
        pid.is_some_and(|pid| self.kubelets.contains(&pid))
    }
}

fn time_of(carried: &Carried) -> Option<Stamp> {
    let of_klog = || Stamp::of_klog(carried.body.get(1..)?);
    let is_klog = klog::begins(carried.body);
    // The format of containerd and CRI-O.
    let of_logrus = || {
        let time = carried.body.strip_prefix(b"time=\"")?;
        stamp::take(time).map(|(stamp, _)| stamp)
    };
    carried
        .time
        .or_else(of_logrus)
        .or_else(|| is_klog.then(of_klog)?)
}
