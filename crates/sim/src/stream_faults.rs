//! Faults of the stream of events. Pure: an event goes in, and the events that replace it come out.

use std::mem::discriminant;
use std::num::NonZeroU32;
use std::time::Duration;

use fastrand::Rng;

use crate::stream::StreamEvent;

/// A fault of the stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// No events are sent.
    Silent,
    /// Every n-th event is lost.
    Drop {
        /// The number n.
        every: NonZeroU32,
    },
    /// Every n-th event is sent twice.
    Duplicate {
        /// The number n.
        every: NonZeroU32,
    },
    /// Of every two consecutive events, the second is sent first. The first one waits for it.
    Swap,
    /// All events are delayed by this time.
    Delay(Duration),
    /// Each event is delayed by a different random time, so the order changes.
    Scatter {
        /// The longest delay.
        within: Duration,
        /// The seed of the random times: the same seed gives the same times.
        seed: u64,
    },
    /// Events are sent without the sandbox and its status.
    WithoutStatus,
}

/// The current faults, at most one of each kind.
#[derive(Debug, Default)]
pub(crate) struct StreamFaults {
    faults: Vec<StreamFault>,
    /// The number of events so far.
    count: u64,
    /// The first of two neighbours, which waits for the second.
    swapped: Option<StreamEvent>,
    random: Rng,
}

impl StreamFaults {
    /// Sets a fault. It replaces an earlier fault of its kind.
    pub(crate) fn set(&mut self, fault: StreamFault) {
        self.faults
            .retain(|other| discriminant(other) != discriminant(&fault));
        if let StreamFault::Scatter { seed, .. } = fault {
            self.random = Rng::with_seed(seed);
        }
        self.faults.push(fault);
    }

    /// The event that waits to be swapped.
    pub(crate) fn swapped(self) -> Option<StreamEvent> {
        self.swapped
    }

    /// The events that are sent in place of an event, each with its delay.
    pub(crate) fn apply(&mut self, mut event: StreamEvent) -> Vec<(Duration, StreamEvent)> {
        self.count += 1;
        let (mut copies, mut delay, mut swap) = (1, Duration::ZERO, false);
        for fault in &self.faults {
            match fault {
                StreamFault::Silent => copies = 0,
                StreamFault::Drop { every } if self.is_nth(*every) => copies = 0,
                StreamFault::Duplicate { every } if self.is_nth(*every) => copies *= 2,
                StreamFault::Drop { .. } | StreamFault::Duplicate { .. } => {}
                StreamFault::Swap => swap = true,
                StreamFault::Delay(by) => delay += *by,
                StreamFault::Scatter { within, .. } => delay += within.mul_f64(self.random.f64()),
                StreamFault::WithoutStatus => event.with_status = false,
            }
        }
        let mut events = vec![event; copies];
        if swap && let Some(event) = events.pop() {
            match self.swapped.take() {
                Some(earlier) => events.extend([event, earlier]),
                None => self.swapped = Some(event),
            }
        }
        events.into_iter().map(|event| (delay, event)).collect()
    }

    fn is_nth(&self, every: NonZeroU32) -> bool {
        self.count.is_multiple_of(every.get().into())
    }
}
