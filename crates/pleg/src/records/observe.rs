//! Taking in looks: at everything, at one of the lists, at a single id.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::look::{Freshness, Look};
use super::record::{Part, Record};
use super::{Records, note};
use crate::model::event::Source;
use crate::model::id::{Id, PodRef, PodUid};
use crate::model::listed::{ListedContainer, ListedPod, ListedSandbox};
use crate::model::snapshot::Snapshot;

impl Records {
    /// Takes in what is listed now; `ended` is when the lists had come. A pod that was
    /// looked at after the snapshot was begun is left as it is known.
    pub fn observe(&mut self, snapshot: &Snapshot, ended: Instant, source: Source) {
        let taken = snapshot.taken;
        self.note_list::<ListedSandbox>(ended);
        self.note_list::<ListedContainer>(ended);
        let look = Look {
            begun: taken,
            ended,
            source,
        };
        if let Some((pods, looked)) = &mut self.as_of
            && Arc::ptr_eq(pods, &snapshot.pods)
        {
            *looked = look;
            return;
        }
        if self.observe_changes(snapshot, look) {
            return;
        }
        let mut all = true;
        self.gone_and_listed.clear();
        for uid in snapshot.pods.keys() {
            if self.is_gone(uid, taken) {
                self.gone_and_listed.insert(uid.clone());
                all = false;
            } else if !self.pods.contains_key(uid) {
                self.pods.insert(uid.clone(), Record::listed(look));
            }
        }
        self.gone.listed(taken);
        for (uid, record) in &mut self.pods {
            // Of a pod that was found gone since, an older list says nothing, also where a
            // hint speaks of it again.
            let gone = self.gone.has(uid, taken);
            let listed = snapshot.pods.get(uid).filter(|_| !gone);
            all &= record.look(listed, look);
            note(&mut self.unsettled, uid, record);
        }
        self.as_of = all.then(|| (snapshot.pods.clone(), look));
    }

    /// Takes in only what has changed since the snapshot that all records are as of, and says
    /// whether that is all.
    fn observe_changes(&mut self, snapshot: &Snapshot, look: Look) -> bool {
        let Some((pods, looked)) = &self.as_of else {
            return false;
        };
        let Some(changed) = snapshot.changed_since(pods) else {
            return false;
        };
        // Of what goes on a list may say something new although it is as it was.
        let busy = self.unsettled.iter().chain(&self.inspecting);
        let changed: BTreeSet<PodUid> = changed.iter().chain(busy).cloned().collect();
        let admits = |uid| {
            let record = self.pods.get(uid);
            !self.is_gone(uid, look.begun) && record.is_none_or(|record| record.admits(look))
        };
        if look.begun < looked.begun || !changed.iter().all(admits) {
            return false;
        }
        self.gone.listed(look.begun);
        self.gone_and_listed.clear();
        for uid in changed {
            let listed = snapshot.pods.get(&uid);
            if listed.is_some() && !self.pods.contains_key(&uid) {
                self.pods.insert(uid.clone(), Record::listed(look));
            }
            if let Some(record) = self.pods.get_mut(&uid) {
                record.look(listed, look);
                note(&mut self.unsettled, &uid, record);
            }
        }
        self.as_of = Some((snapshot.pods.clone(), look));
        true
    }

    /// Takes in one list while the other one cannot be had.
    pub(crate) fn observe_list<R: Part>(&mut self, rows: &[Arc<R>], look: Look) {
        self.note_list::<R>(look.ended);
        let listed = R::grouped(self, rows, look.begun);
        self.amended();
        self.gone_and_listed.clear();
        for (uid, pod) in &*listed.pods {
            if self.is_gone(uid, listed.taken) {
                self.gone_and_listed.insert(uid.clone());
                continue;
            }
            // Of the other list it has not been seen yet.
            let new = || Record::new(Freshness::hinted(look.begun), look.source);
            let record = self.pods.entry(uid.clone()).or_insert_with(new);
            if record.listed.is_none() {
                record.listed = Some(Arc::new(ListedPod::empty(pod.pod.clone())));
            }
        }
        for (uid, record) in &mut self.pods {
            // Of a pod that was found gone since, and is there again, it says nothing.
            if self.gone.has(uid, look.begun) {
                continue;
            }
            let pod = listed.pods.get(uid).map(AsRef::as_ref);
            record.look_at_list::<R>(pod, look);
            note(&mut self.unsettled, uid, record);
        }
    }

    /// Takes in a look at one container or sandbox, by its id; `None` says that it is gone.
    pub(crate) fn observe_one<R: Part>(
        &mut self,
        uid: &PodUid,
        id: &Id,
        state: Option<R::State>,
        look: Look,
    ) {
        self.amended();
        let Some(record) = self.pods.get_mut(uid) else {
            return;
        };
        if R::freshness(record).admits_one(look) {
            R::freshness(record).one(look);
            R::found(record, id, state, look);
            let before = record.listed.clone();
            record.amend(look.source, |pod| {
                let rows = R::of_mut(pod);
                match state {
                    None => rows.retain(|row| row.id() != id),
                    Some(state) => {
                        for row in rows.iter_mut().filter(|row| row.id() == id) {
                            Arc::make_mut(row).set_state(state);
                        }
                    }
                }
            });
            if let Some(before) = before {
                record.note_removed(&before, look.ended);
            }
        } else if record
            .state_of::<R>(id)
            .is_some_and(|known| Some(known) != state)
        {
            // Another look was under way: an inspection tells which of both is so.
            record.contradicted = true;
        }
        note(&mut self.unsettled, uid, record);
    }

    /// Takes in a container or sandbox that was not known, met by its id.
    pub(crate) fn learn<R: Part>(&mut self, pod: &PodRef, row: R, look: Look) {
        let is_listed_since = *R::listed(self) > Some(look.begun);
        let is_unknown = !self.pods.contains_key(&pod.uid);
        // A list that has come since would show it, or it may be gone: of two looks that overlap the
        // first one stands.
        if self.is_gone(&pod.uid, look.begun) || is_unknown && is_listed_since {
            return;
        }
        self.amended();
        let record = self.pods.entry(pod.uid.clone());
        let record =
            record.or_insert_with(|| Record::new(Freshness::hinted(look.begun), look.source));
        let empty = || Arc::new(ListedPod::empty(pod.clone()));
        let listed = record.listed.get_or_insert_with(empty);
        // A runtime may not have found for a moment what was there all the time.
        let gone = record.removed.get(row.id());
        let is_known = listed.names(row.id()) || gone.is_some_and(|gone| look.begun <= *gone);
        // It was met elsewhere: an inspection tells which of both is so.
        let state = record.state_of::<R>(row.id());
        record.failed |= state.is_some_and(|known| known != row.state());
        if !is_known && R::freshness(record).admits_one(look) {
            R::freshness(record).one(look);
            record.amend(look.source, |listed| {
                R::of_mut(listed).push(Arc::new(row));
                listed.sort();
            });
        }
        note(&mut self.unsettled, &pod.uid, record);
    }

    fn note_list<R: Part>(&mut self, ended: Instant) {
        let listed = R::listed(self);
        *listed = (*listed).max(Some(ended));
    }

    /// Whether a look newer than this one found the pod gone, or may have.
    fn is_gone(&self, uid: &PodUid, looked: Instant) -> bool {
        match self.pods.contains_key(uid) {
            true => self.gone.has(uid, looked),
            false => self.gone.may_have(uid, looked),
        }
    }

    /// The records are no longer those of one snapshot.
    pub(super) fn amended(&mut self) {
        if let Some((_, looked)) = self.as_of.take() {
            for record in self.pods.values_mut() {
                record.sandboxes.confirmed(looked);
                record.containers.confirmed(looked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::model::grouping::Grouping;
    use crate::model::listed::{ContainerState, SandboxState};
    use crate::model::status::PodStatus;
    use crate::records::{Hint, Step, Ticket};

    #[derive(Clone, Debug)]
    enum Move {
        /// A container of a pod is listed in this state from now on, or not any more.
        List(u8, Option<ContainerState>),
        Relist,
        Plan,
        /// The oldest inspection ends, well or not.
        End(bool),
        Hint(u8),
        Reinspect(u8),
        /// A container is looked at by its id.
        Look(u8, Option<ContainerState>),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let state = || {
            prop::option::of(prop::sample::select(vec![
                ContainerState::Running,
                ContainerState::Exited,
            ]))
        };
        let step = prop_oneof![
            4 => (0..12u8, state()).prop_map(|(pod, state)| Move::List(pod, state)),
            6 => Just(Move::Relist),
            4 => Just(Move::Plan),
            4 => any::<bool>().prop_map(Move::End),
            1 => (0..12u8).prop_map(Move::Hint),
            1 => (0..12u8).prop_map(Move::Reinspect),
            1 => (0..12u8, state()).prop_map(|(pod, state)| Move::Look(pod, state)),
        ];
        prop::collection::vec(step, 0..80)
    }

    fn pod(number: u8) -> PodRef {
        PodRef {
            uid: format!("u{number}").into(),
            namespace: "n".into(),
            name: format!("p{number}").into(),
        }
    }

    fn row(number: u8, state: ContainerState) -> Arc<ListedContainer> {
        Arc::new(ListedContainer {
            id: format!("c{number}").into(),
            sandbox_id: "".into(),
            pod: Some(pod(number)),
            name: "c".into(),
            state,
            attempt: 0,
            created_at: None,
        })
    }

    /// Records with the inspections that they wanted, and what each of them came to.
    #[derive(Default)]
    struct Told {
        records: Records,
        inspections: Vec<(Ticket, Arc<ListedPod>)>,
        changes: Vec<String>,
    }

    impl Told {
        fn plan(&mut self, now: Instant) {
            for uid in self.records.unsettled() {
                match self.records.plan(&uid, now) {
                    Step::Nothing => {}
                    Step::Inspect { ticket, pod, .. } => self.inspections.push((ticket, pod)),
                    Step::Removed(commit) => {
                        self.changes.push(format!("{uid}: {:?}", commit.changes));
                    }
                }
            }
        }

        fn end(&mut self, well: bool, now: Instant) {
            if self.inspections.is_empty() {
                return;
            }
            let (ticket, pod) = self.inspections.remove(0);
            if !well {
                self.records.defer(&ticket);
                return;
            }
            self.records
                .looked(&ticket, &PodStatus::from(&*pod), now, now);
            let commit = self.records.commit(&ticket);
            let changes = commit.map(|commit| commit.changes);
            self.changes.push(format!("{}: {changes:?}", ticket.uid));
        }

        fn known(&self) -> (Vec<PodUid>, Vec<&Arc<ListedPod>>, Vec<&Arc<ListedPod>>) {
            let Self { records, .. } = self;
            let (listed, committed) = (records.listed(), records.committed());
            (records.unsettled(), listed.collect(), committed.collect())
        }
    }

    /// Times and looks, in milliseconds after the beginning.
    struct Clock(Instant);

    impl Clock {
        fn at(&self, millis: u64) -> Instant {
            self.0 + Duration::from_millis(millis)
        }

        fn look(&self, begun: u64, ended: u64) -> Look {
            Look {
                begun: self.at(begun),
                ended: self.at(ended),
                source: Source::Sweep,
            }
        }
    }

    #[test]
    fn a_container_is_learned_that_was_asked_for_just_before_the_list_which_shows_its_pod() {
        let clock = Clock(Instant::now());
        let sandbox = Arc::new(ListedSandbox {
            id: "s1".into(),
            pod: Some(pod(1)),
            state: SandboxState::Ready,
            attempt: 0,
            created_at: None,
        });
        let mut records = Records::default();
        records.observe_list(&[sandbox], clock.look(1, 2));
        let container = ListedContainer::clone(&row(1, ContainerState::Exited));
        records.learn(&pod(1), container, clock.look(0, 3));
        let uid = pod(1).uid;
        let listed = records.listed_as(&uid);
        assert!(listed.is_some_and(|listed| listed.names(&"c1".into())));
    }

    #[test]
    fn what_is_remembered_of_gone_pods_is_bounded_while_only_one_list_is_taken_in() {
        let clock = Clock(Instant::now());
        let sandbox = |number: u64| {
            Arc::new(ListedSandbox {
                id: format!("s{number}").into(),
                pod: Some(PodRef {
                    uid: format!("u{number}").into(),
                    namespace: "n".into(),
                    name: format!("p{number}").into(),
                }),
                state: SandboxState::Ready,
                attempt: 0,
                created_at: None,
            })
        };
        let mut told = Told::default();
        for number in 0..3000 {
            let look = clock.look(10 * number + 10, 10 * number + 11);
            told.records.observe_list(&[sandbox(number)], look);
            told.plan(look.ended);
            told.end(true, look.ended);
        }
        assert!(
            told.records.gone.len() < 2000,
            "{}",
            told.records.gone.len()
        );
        // A list that was begun before most of them ended, and shows one that is new since.
        let held_up = [sandbox(600), sandbox(2999), sandbox(9999)];
        told.changes.clear();
        told.records
            .observe_list(&held_up, clock.look(5_000, 30_020));
        told.plan(clock.at(30_020));
        assert_eq!(
            told.records.listed().count(),
            1,
            "those that are gone stay gone"
        );
        told.records
            .observe_list(&held_up[1..], clock.look(30_030, 30_031));
        assert_eq!(
            told.records.listed().count(),
            2,
            "what is new is in the next list"
        );
    }

    #[test]
    fn a_look_at_an_id_that_overlaps_one_at_its_pod_and_says_otherwise_wants_an_inspection() {
        let clock = Clock(Instant::now());
        let exited = || ListedContainer::clone(&row(1, ContainerState::Exited));
        let by_id = |records: &mut Records| {
            let state = Some(ContainerState::Exited);
            let (uid, id) = (pod(1).uid, "c1".into());
            records.observe_one::<ListedContainer>(&uid, &id, state, clock.look(5, 12));
        };
        let by_sandbox =
            |records: &mut Records| records.learn(&pod(1), exited(), clock.look(5, 12));
        let ways: [&dyn Fn(&mut Records); 2] = [&by_id, &by_sandbox];
        for tell in ways {
            let mut told = Told::default();
            let running = row(1, ContainerState::Running);
            told.records.observe_list(&[running], clock.look(0, 10));
            told.plan(clock.at(11));
            told.end(true, clock.at(11));
            assert_eq!(told.records.unsettled(), []);
            tell(&mut told.records);
            assert_eq!(told.records.unsettled(), [pod(1).uid]);
        }
    }

    #[test]
    fn who_has_exited_is_not_brought_back_by_a_list_that_was_held_up() {
        let clock = Clock(Instant::now());
        let sandbox = || {
            Arc::new(ListedSandbox {
                id: "s1".into(),
                pod: Some(pod(1)),
                state: SandboxState::Ready,
                attempt: 0,
                created_at: None,
            })
        };
        let running = || [row(1, ContainerState::Running)];
        let mut told = Told::default();
        told.records.observe_list(&running(), clock.look(0, 1));
        told.plan(clock.at(1));
        told.end(true, clock.at(1));

        told.records.request_reinspect(&pod(1).uid);
        told.plan(clock.at(10));
        let (ticket, listed) = told.inspections.remove(0);
        let mut exited = ListedPod::clone(&listed);
        exited.containers = vec![row(1, ContainerState::Exited)];
        let status = PodStatus::from(&exited);
        told.records
            .looked(&ticket, &status, clock.at(10), clock.at(11));
        told.records.commit(&ticket);
        // One list of what does not concern it, and one that was asked for before it ended.
        told.records.observe_list(&[sandbox()], clock.look(2, 20));
        told.records.observe_list(&running(), clock.look(2, 30));
        let listed = told.records.listed_as(&pod(1).uid).unwrap();
        assert_eq!(listed.containers[0].state, ContainerState::Exited);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_has_changed_says_the_same_as_all_of_it(moves in moves()) {
            let mut now = Instant::now();
            let mut rows: Vec<_> = (0..12).map(|pod| row(pod, ContainerState::Running)).collect();
            let mut grouping = Grouping::new(now, Arc::new([]), Arc::new([]));
            let (mut in_part, mut whole) = (Told::default(), Told::default());
            for what in moves {
                now += Duration::from_millis(1);
                for told in [&mut in_part, &mut whole] {
                    match &what {
                        Move::List(..) | Move::Relist => {}
                        Move::Plan => told.plan(now),
                        Move::End(well) => told.end(*well, now),
                        Move::Hint(number) => {
                            let hint = Hint {
                                source: Source::Stream,
                                at: now,
                                announced: None,
                                met: Vec::new(),
                                removed: Vec::new(),
                            };
                            told.records.hint(&pod(*number), hint);
                        }
                        Move::Reinspect(number) => {
                            told.records.request_reinspect(&pod(*number).uid);
                        }
                        Move::Look(number, state) => {
                            let (begun, ended) = (now, now);
                            let look = Look { begun, ended, source: Source::Sweep };
                            let (uid, id) = (pod(*number).uid, format!("c{number}").into());
                            told.records.observe_one::<ListedContainer>(&uid, &id, *state, look);
                        }
                    }
                }
                match what {
                    Move::List(number, state) => {
                        let id: Id = format!("c{number}").into();
                        rows.retain(|row| row.id != id);
                        rows.extend(state.map(|state| row(number, state)));
                    }
                    Move::Relist => {
                        let lists = (Arc::new([]) as Arc<[_]>, rows.clone().into());
                        let snapshot = grouping.update(now, &lists.0, &lists.1);
                        in_part.records.observe(&snapshot, now, Source::Relist);
                        let snapshot = Snapshot::new(now, &[], &rows);
                        whole.records.observe(&snapshot, now, Source::Relist);
                    }
                    _ => {}
                }
                prop_assert_eq!(in_part.known(), whole.known());
                prop_assert_eq!(&in_part.changes, &whole.changes);
            }
        }
    }
}
