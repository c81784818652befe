//! Which rows a list requests.

use std::collections::BTreeMap;

use base::id::Id;
use bytes::Bytes;
use cri::fields::{Malformed, entry, fields};

use super::Kind;
use super::row::Row;

/// The filter of a list. A row must match all its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// An id, or a prefix of one.
    pub(crate) id: Option<Id>,
    pub(crate) state: Option<i32>,
    /// The sandbox of a container: an id, or a prefix of one.
    pub(crate) sandbox: Option<Id>,
    labels: BTreeMap<String, String>,
}

impl Filter {
    /// Reads the request of a list. Returns `None` if it has an unknown field: then only the runtime can
    /// decide which rows match.
    pub(crate) fn read(kind: Kind, request: &Bytes) -> Option<Self> {
        let mut filter = Self::default();
        let mut is_known = true;
        let read = fields(request, "list request", |number, field| {
            match number {
                1 => is_known &= filter.read_filter(kind, field.bytes()?)?,
                _ => is_known = false,
            }
            Ok(())
        });
        (read.is_ok() && is_known).then_some(filter)
    }

    fn read_filter(&mut self, kind: Kind, bytes: &[u8]) -> Result<bool, Malformed> {
        let mut is_known = true;
        fields(bytes, "filter", |number, field| {
            match (number, kind) {
                (1, _) => self.id = Some(Id::from(field.text()?)).filter(|id| !id.is_empty()),
                (2, _) => {
                    let state = self.state.get_or_insert_default();
                    fields(field.bytes()?, "state", |number, field| {
                        match number {
                            1 => *state = field.number()? as i32,
                            _ => is_known = false,
                        }
                        Ok(())
                    })?;
                }
                (3, Kind::Container) => {
                    self.sandbox = Some(Id::from(field.text()?)).filter(|id| !id.is_empty());
                }
                (3, Kind::Sandbox) | (4, Kind::Container) => {
                    let (key, value) = entry(field.bytes()?, "filter")?;
                    self.labels.insert(key.to_owned(), value.to_owned());
                }
                _ => is_known = false,
            }
            Ok(())
        })?;
        Ok(is_known)
    }

    /// This filter with another sandbox.
    pub(crate) fn in_sandbox(&self, id: &Id) -> Self {
        Self {
            sandbox: Some(id.clone()),
            ..self.clone()
        }
    }

    /// Whether it has no conditions.
    pub(crate) fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this row matches all conditions except that of its state.
    pub(crate) fn matches_but_for_state(&self, kind: Kind, row: &Row) -> bool {
        let matches_id = |id: &Id| row.id.as_str().starts_with(id.as_str());
        let has_labels = |labels: Vec<(&str, &str)>| {
            let mut wanted = self.labels.iter();
            wanted.all(|(key, value)| labels.contains(&(key.as_str(), value.as_str())))
        };
        self.id.as_ref().is_none_or(matches_id)
            && (self.sandbox.is_none() || self.sandbox == row.sandbox)
            && (self.labels.is_empty() || row.labels(kind).is_ok_and(has_labels))
    }

    /// Whether this row has the requested state.
    pub(crate) fn matches_state(&self, row: &Row) -> bool {
        self.state.is_none_or(|state| state == row.state)
    }
}

#[cfg(test)]
mod tests {
    use cri::v1;
    use prost::Message;

    use super::*;

    fn filter(filter: v1::ContainerFilter) -> Filter {
        let request = v1::ListContainersRequest {
            filter: Some(filter),
        };
        Filter::read(Kind::Container, &request.encode_to_vec().into()).unwrap()
    }

    fn row(id: &str, sandbox: &str, state: i32, labels: &[(&str, &str)]) -> Row {
        let labels = labels.iter();
        let row = v1::Container {
            id: id.into(),
            pod_sandbox_id: sandbox.into(),
            state,
            labels: labels
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Default::default()
        };
        Row::read(Kind::Container, row.encode_to_vec().into()).unwrap()
    }

    fn matches(filter: &Filter, row: &Row) -> bool {
        filter.matches_but_for_state(Kind::Container, row) && filter.matches_state(row)
    }

    #[test]
    fn a_row_must_match_all_conditions_of_a_filter() {
        let a = row("aa", "s1", 1, &[("app", "web"), ("tier", "front")]);
        let b = row("bb", "s2", 0, &[("app", "web")]);
        let by_id = filter(v1::ContainerFilter {
            id: "a".into(),
            ..Default::default()
        });
        assert!(matches(&by_id, &a) && !matches(&by_id, &b));
        let running = filter(v1::ContainerFilter {
            state: Some(v1::ContainerStateValue { state: 1 }),
            ..Default::default()
        });
        assert!(matches(&running, &a) && !matches(&running, &b));
        // Protobuf does not encode the first state, because its number is zero.
        let created = filter(v1::ContainerFilter {
            state: Some(v1::ContainerStateValue { state: 0 }),
            ..Default::default()
        });
        assert!(!matches(&created, &a) && matches(&created, &b));
        let in_sandbox = filter(v1::ContainerFilter {
            pod_sandbox_id: "s1".into(),
            label_selector: [("app".to_owned(), "web".to_owned())].into(),
            ..Default::default()
        });
        assert!(matches(&in_sandbox, &a) && !matches(&in_sandbox, &b));
        let two_labels = filter(v1::ContainerFilter {
            label_selector: [("app", "web"), ("tier", "back")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Default::default()
        });
        assert!(!matches(&two_labels, &a) && !matches(&two_labels, &b));
    }

    #[test]
    fn a_missing_filter_and_an_empty_one_match_every_row() {
        assert!(
            Filter::read(Kind::Sandbox, &Bytes::new())
                .unwrap()
                .is_whole()
        );
        assert!(filter(v1::ContainerFilter::default()).is_whole());
    }

    #[test]
    fn a_filter_with_an_unknown_field_is_not_read() {
        let unknown = Bytes::from_static(&[0x0a, 0x02, 0x50, 0x01]);
        assert_eq!(Filter::read(Kind::Container, &unknown), None);
        // A sandbox filter has its labels in the field in which a container filter has the sandbox.
        let sandbox = v1::ListContainersRequest {
            filter: Some(v1::ContainerFilter {
                label_selector: [("a".to_owned(), "b".to_owned())].into(),
                ..Default::default()
            }),
        };
        let request = sandbox.encode_to_vec().into();
        assert_eq!(Filter::read(Kind::Sandbox, &request), None);
    }
}
