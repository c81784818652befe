//! Finds the goroutine that probably holds the lock that others wait for.
//!
//! A dump does not record which goroutine holds a lock. Evidence for a goroutine: it works on the same object
//! as the waiting ones, it waits for something outside the process, and it began to wait no later
//! than the first of them. Dumps give wait times in minutes, with an error of up to two, so times
//! that differ by less than three minutes count as equal; then the lowest number is chosen.

use serde::Serialize;

use super::call::{package, receiver_type};
use super::group::Group;
use super::{Call, Wait, call};

/// The goroutine that probably blocks the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The goroutine's number; null if its header is missing.
    pub goroutine: Option<u64>,
    /// The function that the goroutine executes.
    pub function: String,
    /// The wait time in minutes; null if unknown.
    pub wait_minutes: Option<u64>,
    /// The evidence that this goroutine blocks the others.
    pub why: String,
}

impl Holder {
    /// The oldest goroutine of this group.
    pub fn of(group: &Group) -> Self {
        Self::with(group, None)
    }

    fn with(group: &Group, pile: Option<&Pile>) -> Self {
        Self {
            goroutine: group.oldest.id,
            function: group.function().to_owned(),
            wait_minutes: group.oldest.minutes,
            why: why(group, pile),
        }
    }
}

/// Wait times that differ by less than this many minutes count as equal.
const TIE_MINUTES: u64 = 3;
/// A wait for something outside the process is unusual after this many minutes, even if no
/// goroutine waits for a lock.
const LONG_MINUTES: u64 = 2;
/// The minimum score of a holder.
const MIN_SCORE: i32 = 25;

/// Goroutines that wait for the same lock, or for locks of the same type.
struct Pile<'a> {
    count: u64,
    /// The function that takes the lock.
    taker: &'a str,
    /// The address of the object that the lock belongs to.
    object: Option<u64>,
    oldest: Option<u64>,
}

/// The likely holder.
pub fn likely(groups: &[Group]) -> Option<Holder> {
    let pile = largest_pile(groups);
    let candidates = groups.iter();
    let candidates = candidates.filter(|group| !group.idle && group.wait != Wait::Lock);
    let first = |group: &Group| std::cmp::Reverse(group.oldest.id);
    let best = match &pile {
        Some(pile) => candidates
            .map(|group| (score(group, pile), group))
            .filter(|(score, _)| *score >= MIN_SCORE)
            .max_by_key(|(score, group)| (*score, first(group)))
            .map(|(_, group)| group),
        None => candidates
            .filter(|group| group.wait.is_outside() && is_long(group) || is_relist(group))
            .max_by_key(|group| {
                let bucket = group.max_minutes.unwrap_or(0) / TIE_MINUTES;
                (group.wait != Wait::Rpc, bucket, first(group))
            }),
    };
    Some(Holder::with(best?, pile.as_ref()))
}

fn is_long(group: &Group) -> bool {
    group.max_minutes >= Some(LONG_MINUTES)
}

/// A blocked relist blocks the whole kubelet, even if no goroutine waits for it.
fn is_relist(group: &Group) -> bool {
    group.wait == Wait::Send && group.is_relist()
}

fn largest_pile(groups: &[Group]) -> Option<Pile<'_>> {
    let mut piles: Vec<Pile> = Vec::new();
    for group in groups.iter().filter(|group| group.wait == Wait::Lock) {
        let taker = group.function();
        let mut calls = group.oldest.calls.iter();
        let object = calls.find(|call| call.function == taker);
        let kind = |function| receiver_type(function).unwrap_or(function);
        let mut known = piles.iter_mut();
        match known.find(|pile| kind(pile.taker) == kind(taker)) {
            Some(pile) => {
                pile.count += group.count;
                pile.oldest = pile.oldest.max(group.max_minutes);
            }
            None => piles.push(Pile {
                count: group.count,
                taker,
                object: object.and_then(|call| call.first),
                oldest: group.max_minutes,
            }),
        }
    }
    let piles = piles.into_iter();
    piles.max_by_key(|pile| (pile.count, pile.oldest))
}

/// How a goroutine's calls are related to the object whose lock is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    None,
    Package,
    Type,
    Object,
}

fn relation(group: &Group, pile: &Pile) -> Relation {
    let of_type = receiver_type(pile.taker);
    let has = |is: &dyn Fn(&Call<'_>) -> bool| group.oldest.calls.iter().any(|call| is(&call));
    let is_of_type = |call: &Call<'_>| of_type.is_some() && receiver_type(call.function) == of_type;
    let is_of_object = |call: &Call<'_>| pile.object.is_some() && call.first == pile.object;
    let is_library = call::is_library(pile.taker);
    let is_near = |call: &Call<'_>| !is_library && package(call.function) == package(pile.taker);
    if has(&|call| is_of_object(call) && is_of_type(call)) {
        Relation::Object
    } else if has(&is_of_type) {
        Relation::Type
    } else if has(&is_near) {
        Relation::Package
    } else {
        Relation::None
    }
}

fn score(group: &Group, pile: &Pile) -> i32 {
    let related = match relation(group, pile) {
        Relation::Object => 40,
        Relation::Type => 25,
        Relation::Package => 8,
        Relation::None => 0,
    };
    let waits = match group.wait {
        wait if wait.is_outside() => 20,
        Wait::Send | Wait::Receive => 5,
        _ => 0,
    };
    let state = match group.oldest.state.as_deref() {
        Some("syscall" | "IO wait") => 10,
        _ => 0,
    };
    let in_time = match (group.max_minutes, pile.oldest) {
        (Some(wait), Some(first)) if wait + TIE_MINUTES < first => -30,
        (Some(wait), Some(first)) if wait <= first + TIE_MINUTES => 25,
        (Some(_), _) => 20,
        (None, Some(_)) => -10,
        (None, None) => 0,
    };
    related + waits + state + in_time
}

fn why(group: &Group, pile: Option<&Pile>) -> String {
    let waits = match group.oldest.minutes {
        Some(minutes) => format!(
            "it has been waiting for {minutes} minutes for {}",
            group.wait.what()
        ),
        None => format!("it waits for {}", group.wait.what()),
    };
    let Some(pile) = pile else {
        return match is_relist(group) {
            true => format!("{waits}, and it is the relist itself"),
            false if group.oldest.minutes.is_none() => waits,
            false => format!("{waits}, longer than any other goroutine that is not idle"),
        };
    };
    let victims = match pile.count {
        1 => "the waiting goroutine".to_owned(),
        count => format!("the {count} waiting goroutines"),
    };
    let related = match relation(group, pile) {
        Relation::Object => {
            format!(", it is inside a call on the object whose lock blocks {victims}")
        }
        Relation::Type => format!(
            ", it is inside a method of {}, whose lock blocks {victims}",
            receiver_type(pile.taker).unwrap_or(pile.taker)
        ),
        _ => String::new(),
    };
    let first = match (group.oldest.minutes, pile.oldest) {
        (Some(wait), Some(first)) if wait + TIE_MINUTES >= first => {
            format!(
                ", and it began to wait no later than {victims} in {} ({first} minutes)",
                pile.taker
            )
        }
        _ => String::new(),
    };
    format!("{waits}{related}{first}")
}
