//! Reads a log line: the rules that match it, points of the series, failed calls.

use causes::facts::facts;

use super::episodes::MAX_HOSTS;
use super::input::{Input, Line};
use super::results::MAX_QUOTES;
use super::{Quote, episodes, names, outages};
use crate::kind::{Kind, Writer};
use crate::line::forms::{
    is_event_message, is_logrus_on_a_terminal, is_of_build, is_of_command, is_of_kernel,
};
use crate::line::pasted::begins_log_line;
use crate::line::prefix::Carried;
use crate::line::stamp::{self, Stamp};
use crate::line::{after, has, klog, lossy};
use crate::rules::{Counted, FATAL, Failure, Found, Interest, Rules};
use crate::series::{Intervals, SECOND, Said};

/// For how long after the start of a kubelet some failures are usual, in nanoseconds: it may have to start
/// the API server and the pods of the network itself.
const USUAL_AFTER_START: i64 = 60 * SECOND;

/// The kind of a line of this writer. A line without a time may have been printed by a command, or be the
/// message of an event.
fn kind_of(writer: Option<Writer>, line: &Line<'_>) -> Kind {
    let (carried, body) = (&line.carried, line.text.trim_ascii_start());
    let is_timed = carried.time.is_some();
    // `docker: ` may have been taken for a prefix, so the whole line is checked.
    let is_of_command = |writer| !is_timed && is_of_command(writer, body);
    if writer.is_some_and(is_of_command) || is_of_build(carried.body) {
        Kind::ToolOutput
    } else if !is_timed && is_event_message(body) {
        Kind::KubectlEvents
    } else {
        writer.map_or(Kind::Unknown, Writer::kind)
    }
}

/// Whether the line has the form of a log. Otherwise only its words show the writer.
fn has_form(carried: &Carried) -> bool {
    let body = carried.body;
    carried.time.is_some()
        || !carried.ident.is_empty()
        || carried.is_of_dmesg
        || begins_log_line(body)
        || is_logrus_on_a_terminal(body)
        || is_of_kernel(body)
        || klog::find(body).is_some()
}

impl Input {
    pub(super) fn log(&mut self, line: &Line<'_>, writer: Option<Writer>) {
        let own = kind_of(writer, line);
        let Line { carried, found, .. } = line;
        match self.output.around_log_line() {
            Some(kind) => self.read_as(kind),
            None if has_form(carried) => self.read_by_form_as(own),
            None => self.read_as(own),
        }
        self.outages.other_line();
        if writer == Some(Writer::Runtime) && !self.knows_year() {
            self.learn_calendar(carried.body, self.last.is_none());
        }
        let inner = match klog::begins(carried.body) {
            true => Some(carried.body),
            false if found.is_nothing() => None,
            false => klog::find(carried.body).map(|at| &carried.body[at..]),
        };
        self.learn_time(carried, inner);
        if writer == Some(Writer::Kernel) {
            let time = || carried.time.and_then(|stamp| self.calendar.resolve(&stamp));
            self.stalls.line(line.text, time);
        }
        if writer == Some(Writer::Kubelet) {
            self.results.around.other_lines += u64::from(found.is_nothing());
            if inner.is_some_and(|inner| inner.starts_with(b"F")) {
                self.failed(&FATAL);
            }
        }
        let is_error = match inner {
            Some(inner) => matches!(inner[0], b'E' | b'F'),
            None => found.is(Interest::Error),
        };
        if is_error {
            let body = inner.unwrap_or(carried.body);
            let place = || format!("{}:{}", self.path, self.lines);
            self.results.errors.line(body, place);
        }
        if !found.is_nothing() {
            self.relevant(line, inner);
        }
    }

    /// Counts a line of this writer that no rule matches.
    pub(super) fn irrelevant_line(&mut self, writer: Writer) {
        self.read_as(writer.kind());
        self.outages.other_line();
        if writer == Writer::Kubelet {
            self.results.around.other_lines += 1;
        }
    }

    /// Whether a line contained the year.
    pub(super) fn knows_year(&self) -> bool {
        self.calendar.has_year() || self.learnt_late.is_some()
    }

    /// Learns the time of a line: that of its klog header `inner`, or else that of its carrier.
    pub(super) fn learn_time(&mut self, carried: &Carried, inner: Option<&[u8]>) {
        let time = match inner {
            Some(inner) => {
                let of_klog = Stamp::of_klog(inner.get(1..).unwrap_or_default());
                of_klog.map(|stamp| match &carried.time {
                    Some(carrier) => stamp.carried_by(carrier),
                    None => stamp,
                })
            }
            None => carried.time,
        };
        self.last = time.or(self.last);
    }

    /// Reads a relevant line; `inner` is the part that begins with a klog header.
    pub(super) fn relevant(&mut self, whole: &Line<'_>, inner: Option<&[u8]>) {
        let Line {
            text: line,
            ref carried,
            found,
        } = *whole;
        if found.is(Interest::Calendar) {
            self.learn_calendar(line, self.before.is_none());
        }
        let stamp = match inner {
            Some(_) => self.last,
            None => carried.time,
        };
        let time = stamp.and_then(|stamp| self.calendar.resolve(&stamp));
        let (path, number) = (self.path.clone(), self.lines);
        let quote = || Quote::new(&path, number, time, line);
        if found.is(Interest::Start) {
            self.started = time.or(self.started);
        }
        // The kubelet reports this when the runtime has not returned its status for half a minute.
        let says_down = found.is(Interest::Connection) && has(line, "container runtime is down");
        self.results.around.runtime_down |= says_down;
        for &index in &found.rules {
            let rule = &Rules::active().lines[index].rule;
            if rule.usual_at_start && self.has_started_within(USUAL_AFTER_START, time) {
                continue;
            }
            let seen = match self.stalls.of(index, line, time) {
                Some(stall) => stall,
                None if rule.until_over => self.repeated.of_rule(index, self.lines, time),
                None => self.results.rules.entry(index).or_default(),
            };
            seen.line(time);
            if seen.headline.is_none() {
                seen.headline = rule.headline(line);
            }
            if seen.quotes.len() < MAX_QUOTES {
                seen.quotes.push(quote());
                seen.name(names::in_line(line));
            }
        }
        for cause in found.causes() {
            if let Some(sign) = episodes::sign(cause, names::in_line(line), quote()) {
                self.results.episodes.add(sign);
            }
        }
        let is_a_try = self.output.tries_defaults() && has(line, "dockershim.sock");
        if found.is(Interest::Connection) && !is_a_try && outages::is_about_the_runtime(line) {
            self.outages.error(line, time, quote);
        }
        self.failure(line, time, found);
        if found.is(Interest::Service) {
            self.services.line(line, self.lines, time);
        }
        if found.is(Interest::Answered) {
            self.outages.answered();
        }
        let results = &mut self.results;
        self.readiness
            .line(carried.host, found, quote, &mut results.episodes);
        if found.is(Interest::Call)
            && let Some((method, target)) = results.calls.line(line, &mut results.around, quote)
            && let Some(episode) = episodes::late_call(method, target, quote())
        {
            results.episodes.add(episode);
        }
        let is_of_series = found.is(Interest::Pleg) || found.is(Interest::Start);
        if is_of_series && self.series(whole, inner, time) {
            self.results.add_to_timeline(quote());
        }
        self.lateness(carried, inner, quote);
    }

    /// Whether the kubelet started less than `span` nanoseconds before this time.
    pub(super) fn has_started_within(&self, span: i64, time: Option<i64>) -> bool {
        let times = time.zip(self.started);
        times.is_some_and(|(time, started)| (0..span).contains(&time.saturating_sub(started)))
    }

    /// Adds a failure that this line shows.
    pub(super) fn failed(&mut self, failure: &'static Failure) {
        let place = || format!("{}:{}", self.path, self.lines);
        self.results.failed(failure, 1, place);
    }

    /// Adds the failure that a line shows, unless it is usual after a start or counts only if repeated.
    fn failure(&mut self, line: &[u8], time: Option<i64>, found: &Found) {
        if found.is(Interest::Ready) || found.is(Interest::Registered) {
            self.repeated.end_lasting();
        }
        let Some(failure) = found.failure else {
            return;
        };
        let is_of_a_start = failure.counted == Counted::UntilOver
            && self.has_started_within(USUAL_AFTER_START, time);
        if !is_of_a_start && !self.repeated.line(failure, line, self.lines, time) {
            self.failed(failure);
        }
    }

    /// Adds a point to the series of the line's node; returns whether an interval begins.
    fn series(&mut self, line: &Line<'_>, inner: Option<&[u8]>, time: Option<i64>) -> bool {
        let Line { carried, found, .. } = line;
        let (before, calendar) = (self.before, self.calendar);
        // How long before this line the log had no other line.
        let silence = || Some((time? - calendar.resolve(&before?)?).max(0));
        let is_kubelet =
            carried.ident.is_empty() || Writer::of_ident(carried.ident) == Some(Writer::Kubelet);
        let intervals = self.intervals(carried.host);
        if is_kubelet {
            intervals.seen_pid(pid(carried, inner), time);
        }
        if found.is(Interest::Start) {
            intervals.started(time);
        }
        let said = Said::of(line.text).filter(|_| found.is(Interest::Pleg));
        said.is_some_and(|said| intervals.point(time, said, silence))
    }

    /// The series of this node. Nodes beyond the limit share one series.
    fn intervals(&mut self, host: &[u8]) -> &mut Intervals {
        let find = |hosts: &[(Vec<u8>, Intervals)], host: &[u8]| {
            hosts.iter().position(|(known, _)| known == host)
        };
        let is_full = self.hosts.len() >= MAX_HOSTS;
        let (host, at) = match find(&self.hosts, host) {
            None if is_full => (&b""[..], find(&self.hosts, b"")),
            at => (host, at),
        };
        let at = at.unwrap_or_else(|| {
            let intervals = Intervals::of_host(&String::from_utf8_lossy(host));
            self.hosts.push((host.to_owned(), intervals));
            self.hosts.len() - 1
        });
        &mut self.hosts[at].1
    }

    /// Learns the year and the zone from a message. If other lines were read before with an assumed year,
    /// the correction is applied to all of them at the end.
    fn learn_calendar(&mut self, line: &[u8], is_first: bool) {
        let leads = facts().lines["calendar"].iter().map(String::as_str);
        let mut leads = leads.chain(["time=\""]);
        let Some((stamp, _)) = leads.find_map(|lead| stamp::take(after(line, lead)?)) else {
            return;
        };
        match is_first {
            true => self.calendar.learn(&stamp),
            false => self.learnt_late = self.learnt_late.or(Some(stamp)),
        }
    }

    /// Records the largest delay of the journal's time after the line's own. It shows that the journal was
    /// starved, too.
    fn lateness(&mut self, carried: &Carried, inner: Option<&[u8]>, quote: impl Fn() -> Quote) {
        let (Some(carrier), Some(own), Some(_)) = (carried.time, self.last, inner) else {
            return;
        };
        // Both are local times, unless they differ by whole half hours.
        if carrier.day.is_none() || carrier.day != own.day {
            return;
        }
        let late = (i64::from(carrier.second) - i64::from(own.second)) * SECOND;
        let of_zone = late % (1800 * SECOND);
        let is_zone = !(5 * SECOND..=1795 * SECOND).contains(&of_zone);
        let is_late = late > 60 * SECOND && late < 6 * 3600 * SECOND && !is_zone;
        let known = self.results.lateness.as_ref();
        if is_late && known.is_none_or(|(known, _)| *known < late) {
            self.results.lateness = Some((late, quote()));
        }
    }
}

/// The writer's process id, from the carrier or from klog; 0 if neither shows it.
fn pid(carried: &Carried, inner: Option<&[u8]>) -> u32 {
    let of_carrier = lossy(carried.pid).parse().ok();
    let of_klog = || Some(klog::parse(inner?)?.pid);
    of_carrier.or_else(of_klog).unwrap_or(0)
}
