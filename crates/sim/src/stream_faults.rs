//! What goes wrong with events on their way. Pure: an event goes in, and what becomes of
//! it comes out.

use std::mem::discriminant;
use std::num::NonZeroU32;
use std::time::Duration;

use fastrand::Rng;

use crate::stream::StreamEvent;

/// What goes wrong with the stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// Nothing is told any more.
    Silent,
    /// Every n-th event is lost.
    Drop {
        /// Which.
        every: NonZeroU32,
    },
    /// Every n-th event is told twice.
    Duplicate {
        /// Which.
        every: NonZeroU32,
    },
    /// Of two neighbours the second is told first; an event without a second waits for it.
    Swap,
    /// All are late by as much.
    Delay(Duration),
    /// Each is late by a random time of its own, and so out of order.
    Scatter {
        /// The most.
        within: Duration,
        /// The same seed gives the same times.
        seed: u64,
    },
    /// Events say the id and nothing else.
    WithoutStatus,
}

/// The faults in force; one of a kind.
#[derive(Debug, Default)]
pub(crate) struct StreamFaults {
    faults: Vec<StreamFault>,
    /// How many events came while they are in force.
    seen: u64,
    /// The first of two neighbours.
    held: Option<StreamEvent>,
    random: Rng,
}

impl StreamFaults {
    /// Puts a fault in force, in place of another of its kind.
    pub(crate) fn set(&mut self, fault: StreamFault) {
        self.faults
            .retain(|other| discriminant(other) != discriminant(&fault));
        if let StreamFault::Scatter { seed, .. } = fault {
            self.random = Rng::with_seed(seed);
        }
        self.faults.push(fault);
    }

    /// What was held back to be swapped.
    pub(crate) fn held(self) -> Option<StreamEvent> {
        self.held
    }

    /// What is told in place of an event, and how late.
    pub(crate) fn pass(&mut self, mut event: StreamEvent) -> Vec<(Duration, StreamEvent)> {
        self.seen += 1;
        let (mut copies, mut late, mut swap) = (1, Duration::ZERO, false);
        for fault in &self.faults {
            match fault {
                StreamFault::Silent => copies = 0,
                StreamFault::Drop { every } if self.is_nth(*every) => copies = 0,
                StreamFault::Duplicate { every } if self.is_nth(*every) => copies *= 2,
                StreamFault::Drop { .. } | StreamFault::Duplicate { .. } => {}
                StreamFault::Swap => swap = true,
                StreamFault::Delay(by) => late += *by,
                StreamFault::Scatter { within, .. } => late += within.mul_f64(self.random.f64()),
                StreamFault::WithoutStatus => event.with_status = false,
            }
        }
        let mut told = vec![event; copies];
        if swap && let Some(event) = told.pop() {
            match self.held.take() {
                Some(earlier) => told.extend([event, earlier]),
                None => self.held = Some(event),
            }
        }
        told.into_iter().map(|event| (late, event)).collect()
    }

    fn is_nth(&self, every: NonZeroU32) -> bool {
        self.seen.is_multiple_of(every.get().into())
    }
}
