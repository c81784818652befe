//! Determines what a goroutine waits for, by its state and its innermost calls.

use std::sync::LazyLock;

use causes::facts::facts;
use memchr::memmem::Finder;

use super::Calls;

/// What a goroutine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// A mutex.
    Lock,
    /// A netlink reply from the kernel.
    Netlink,
    /// A child process to exit.
    Process,
    /// A reply on the system bus.
    Bus,
    /// A shim.
    Shim,
    /// A response from another daemon, or from another part of this one.
    Rpc,
    /// A file system.
    Storage,
    /// Space in a channel.
    Send,
    /// A message on one or several channels.
    Receive,
    /// Something else, or nothing.
    Other,
}

/// How many of the innermost calls show what a goroutine waits for. Functions further out only led to them.
const NEAR: usize = 6;

impl Wait {
    /// Determines the wait by the state, if known, and the calls.
    pub fn of(state: Option<&str>, calls: &Calls) -> Self {
        let state = state.unwrap_or_default();
        if is_lock(state, calls) {
            return Self::Lock;
        }
        if matches!(state, "running" | "runnable" | "idle" | "dead") {
            return Self::Other;
        }
        let known = &facts().goroutines;
        let outside = [
            (&known["netlink"], NEAR, Self::Netlink),
            (&known["processes"], NEAR, Self::Process),
            (&known["shims"], usize::MAX, Self::Shim),
            (&known["bus"], usize::MAX, Self::Bus),
            (&known["calls"], NEAR, Self::Rpc),
            (&known["storage"], NEAR, Self::Storage),
        ];
        let mut outside = outside.into_iter();
        let found = outside.find(|(texts, depth, _)| {
            let mut calls = calls.iter().take(*depth);
            calls.any(|call| contains(call.function, texts))
        });
        if let Some((.., wait)) = found {
            wait
        } else if state.starts_with("chan send") || sends_events(state, calls) {
            Self::Send
        } else if state.starts_with("chan receive") || state.starts_with("select") {
            Self::Receive
        } else {
            Self::Other
        }
    }

    /// Whether the wait is for something outside the process, so that no other goroutine is taken for the
    /// cause. A call counts as such a wait, although it may be to another part of the same daemon: a dump
    /// does not show that.
    pub fn is_outside(self) -> bool {
        matches!(
            self,
            Self::Netlink | Self::Process | Self::Bus | Self::Shim | Self::Rpc | Self::Storage
        )
    }

    /// A phrase to follow "it waits for".
    pub fn what(self) -> &'static str {
        match self {
            Self::Lock => "a lock",
            Self::Netlink => "a netlink reply from the kernel",
            Self::Process => "a child process to exit",
            Self::Bus => "a reply on the system bus",
            Self::Shim => "a response from a shim",
            Self::Rpc => "the response to a call",
            Self::Storage => "a file system",
            Self::Send => "space in a channel",
            Self::Receive => "a message on a channel",
            Self::Other => "something else",
        }
    }
}

pub(super) fn contains(function: &str, texts: &[impl AsRef<str>]) -> bool {
    texts.iter().any(|text| function.contains(text.as_ref()))
}

/// Whether a relist waits for space in its event channel, which happens in old kubelets. A profile shows
/// neither states nor Go's own innermost frames, so `relist` itself is then the innermost call.
fn sends_events(state: &str, calls: &Calls) -> bool {
    let inner = calls.get(0);
    state.is_empty() && inner.is_some_and(|call| call.function.ends_with("(*GenericPLEG).relist"))
}

/// Whether the goroutine waits for a lock. Old versions of Go print the same state for locks, wait groups
/// and conditions.
fn is_lock(state: &str, calls: &Calls) -> bool {
    if state.starts_with("sync.Mutex.") || state.starts_with("sync.RWMutex.") {
        return true;
    }
    let waits = state == "semacquire" || state.is_empty();
    let mut named = false;
    for call in calls.iter().take(8) {
        let function = call.function;
        if function.contains("sync.(*WaitGroup)") || function.contains("sync.(*Cond)") {
            return false;
        }
        if function.contains("sync.(*Mutex).") || function.contains("sync.(*RWMutex).") {
            return waits;
        }
        named |= function.starts_with("sync.runtime_Semacquire");
    }
    waits && (named || state == "semacquire")
}

/// The calls whose first argument may be the lock, the most direct first. They are the same for all
/// goroutines with the same functions.
#[derive(Clone, Debug)]
pub(super) struct LockCalls(Vec<usize>);

impl LockCalls {
    pub(super) fn of(calls: &Calls) -> Self {
        let direct = calls.iter().take(8).enumerate();
        let direct = direct.filter_map(|(at, call)| Some((indirectness(call.function)?, at)));
        let mut direct: Vec<_> = direct.collect();
        direct.sort_unstable();
        Self(direct.into_iter().map(|(_, at)| at).collect())
    }

    /// The address of the lock that a goroutine with these calls waits for.
    pub(super) fn address(&self, calls: &Calls) -> Option<u64> {
        self.0.iter().find_map(|at| calls.get(*at)?.first)
    }
}

/// How indirectly the function's first argument identifies the lock: 0 is the lock itself; `None` if it does not.
fn indirectness(function: &str) -> Option<usize> {
    static PACKAGE: LazyLock<Finder> = LazyLock::new(|| Finder::new("sync."));
    const METHODS: [&[&str]; 3] = [
        &["(*Mutex).lockSlow"],
        &["(*Mutex).Lock", "(*RWMutex).RLock", "(*RWMutex).Lock"],
        &["runtime_Semacquire"],
    ];
    let behind = PACKAGE
        .find_iter(function.as_bytes())
        .map(|at| &function[at + "sync.".len()..]);
    let direct = |method: &str| {
        METHODS
            .iter()
            .position(|names| names.iter().any(|name| method.starts_with(name)))
    };
    behind.filter_map(direct).min()
}
