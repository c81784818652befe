//! The order of the pods.

use std::cmp::Ordering;

use super::node::Node;
use super::pods::Pod;

/// The column by which pods are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// By condition, the worst first.
    #[default]
    State,
    /// By namespace and name.
    Name,
    /// By restarts, the most first.
    Restarts,
    /// By the last change, the newest first.
    Changed,
    /// By latency, the longest first.
    Latency,
}

/// An order of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// The column.
    pub column: Column,
    /// Whether the order is reversed.
    pub is_reversed: bool,
}

impl Sort {
    /// Sorts by a column, or reverses the order if the pods are already sorted by this column.
    pub fn by(self, column: Column) -> Self {
        Self {
            column,
            is_reversed: self.column == column && !self.is_reversed,
        }
    }

    /// Compares two pods. Pods that are equal by the column are sorted by name.
    pub fn compare(self, node: &Node, a: &Pod, b: &Pod) -> Ordering {
        let order = match self.column {
            Column::State => node.condition(a).cmp(node.condition(b)),
            Column::Name => name(a).cmp(&name(b)),
            Column::Restarts => b.restarts.cmp(&a.restarts),
            Column::Changed => b.changed.cmp(&a.changed),
            Column::Latency => b.latency.cmp(&a.latency),
        };
        let order = if self.is_reversed {
            order.reverse()
        } else {
            order
        };
        order.then_with(|| name(a).cmp(&name(b)))
    }
}

fn name(pod: &Pod) -> (&str, &str) {
    let status = &pod.report.status;
    (&status.namespace, &status.name)
}
