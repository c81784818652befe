//! Searches a line for the texts of all rules at once, so that a line with none costs next to nothing.

use std::sync::LazyLock;

use causes::Cause;

use super::interest::{Interest, OF_FORM, interests};
use super::search::Search;
use super::{Failure, Rules};

/// The failure of a kubelet that exits with a fatal error.
pub(crate) static FATAL: LazyLock<Failure> = LazyLock::new(Failure::fatal);

/// What was found in a line.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The indices of the matching rules on lines.
    pub rules: Vec<usize>,
    /// What failed, for an unknown reason.
    pub failure: Option<&'static Failure>,
    /// The interests, a bit for each.
    interests: u32,
}

impl Found {
    /// Whether the line is no evidence about the node.
    pub fn is_nothing(&self) -> bool {
        self.rules.is_empty() && self.failure.is_none() && self.interests & !OF_FORM == 0
    }

    /// Whether the line also has no text that decides how to read it.
    pub fn is_nothing_at_all(&self) -> bool {
        self.is_nothing() && self.interests == 0
    }

    /// The causes of the rules, in their order.
    pub fn causes(&self) -> impl Iterator<Item = Cause> {
        let lines = &Rules::active().lines;
        self.rules.iter().map(|index| lines[*index].cause)
    }

    /// Whether the line has a text of this interest.
    pub fn is(&self, interest: Interest) -> bool {
        self.interests & interest.bit() != 0
    }
}

/// The search for the texts of the rules on lines.
#[derive(Debug)]
pub struct LineSearch(Search);

impl LineSearch {
    /// The search for the rules of this process.
    pub fn active() -> &'static Self {
        static ACTIVE: LazyLock<LineSearch> = LazyLock::new(|| {
            let rules = Rules::active();
            let texts = rules.lines.iter().map(|of| of.rule.text.as_str());
            let texts = texts.chain(interests().iter().map(|(text, _)| *text));
            let failures = rules.failures.iter();
            LineSearch(Search::new(
                texts
                    .chain(failures.map(|rule| rule.text.as_str()))
                    .collect(),
            ))
        });
        &ACTIVE
    }

    /// All texts of all rules on lines.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> impl Iterator<Item = &'static str> {
        let lines = Rules::active().lines.iter().map(|of| &of.rule);
        let lines = lines.map(|rule| (&rule.text, [&rule.any, &rule.all, &rule.without]));
        let failures = Rules::active().failures.iter();
        let failures = failures.map(|rule| (&rule.text, [&rule.any, &rule.all, &rule.without]));
        let all = lines.chain(failures).flat_map(|(text, beside)| {
            let beside = beside.into_iter().flat_map(|texts| texts.iter());
            beside.chain([text]).map(String::as_str)
        });
        all.chain(interests().iter().map(|(text, _)| *text))
    }

    /// The rules, interests and failures whose texts are in the line.
    pub fn find(&self, line: &[u8]) -> Found {
        let rules = Rules::active();
        let mut found = Found::default();
        self.0.each(line, |index| {
            if let Some(of) = rules.lines.get(index) {
                if of.rule.holds(line) {
                    found.rules.push(index);
                }
                return;
            }
            let index = index - rules.lines.len();
            if let Some((_, interest)) = interests().get(index) {
                found.interests |= interest.bit();
                return;
            }
            let failure = &rules.failures[index - interests().len()];
            if found.failure.is_none() && failure.holds(line) {
                found.failure = Some(failure);
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(line: &str) -> Vec<Cause> {
        LineSearch::active()
            .find(line.as_bytes())
            .causes()
            .collect()
    }

    #[test]
    fn lines_that_support_a_cause_are_found() {
        for (line, cause) in [
            (
                "Failed to propagate agent release message: Operation not supported",
                Cause::SystemdCookieOverflow,
            ),
            (
                "grpc: trying to send message larger than max (16795768 vs. 16777216)",
                Cause::ListExceedsGrpcLimit,
            ),
            (
                "unregister_netdevice: waiting for lo to become free. Usage count = 1",
                Cause::RtnlStuck,
            ),
            ("accept4: too many open files", Cause::FdOrInotifyExhausted),
            (
                "inotify_add_watch /sys/fs/cgroup/memory/x: no space left on device",
                Cause::FdOrInotifyExhausted,
            ),
            (
                "\"Eviction manager: attempting to reclaim\" resourceName=\"ephemeral-storage\"",
                Cause::DiskFull,
            ),
            (
                "eviction manager: attempting to reclaim memory",
                Cause::MemoryThrash,
            ),
            (
                "err=\"Failed to garbage collect required amount of images. Attempted to free 9 \
                 bytes, but only found 0 bytes eligible to free.\"",
                Cause::DiskFull,
            ),
            (
                "fs: disk usage and inodes count on following dirs took 2m3.1s: [/var/lib/x]",
                Cause::DiskSaturated,
            ),
            (
                "error loading seccomp filter: errno 524",
                Cause::KernelRegression,
            ),
            (
                "mkdir /sys/fs/cgroup/memory/kubepods/x: no space left on device",
                Cause::MemoryCgroupLeak,
            ),
            ("write /var/lib/x: no space left on device", Cause::DiskFull),
            (
                "nfs: server 10.0.0.1 not responding, still trying",
                Cause::StorageUnresponsive,
            ),
            (
                "Event channel is full, discard this relist() cycle event",
                Cause::KubeletInternal,
            ),
        ] {
            assert_eq!(causes(line), [cause], "{line}");
        }
    }

    #[test]
    fn usual_lines_support_no_cause() {
        for line in [
            "Memory cgroup out of memory: Killed process 12 (java)",
            "cleaning up dead shim",
            "fs: disk usage and inodes count on following dirs took 1.231s: [/var/lib/x]",
            "Disk usage on image filesystem is over the high threshold, trying to free bytes",
            "inotify_add_watch /x: no such file or directory",
            "Container abc failed to exit within 10 seconds of signal 15 - using the force",
            "SyncLoop (PLEG): \"pod_ns(uid)\", event: &pleg.PodLifecycleEvent{}",
        ] {
            assert_eq!(causes(line), [], "{line}");
        }
    }

    #[test]
    fn a_line_may_have_several_interests() {
        let line = "PLEG: Ignoring events for pod a/b: pleg was last seen active 4m";
        let found = LineSearch::active().find(line.as_bytes());
        assert!(found.is(Interest::Pleg) && found.is(Interest::Call) && !found.is(Interest::Start));
    }
}
