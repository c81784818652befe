//! Calls that timed out, as rows of a table: which method timed out, and which others did not.

use super::Results;
use super::calls::{Calls, Method, TimedOut};
use crate::table::TableRow;
use crate::words::count;

pub(super) fn conclude(results: &mut Results) {
    let Results {
        calls,
        collected,
        around,
        ..
    } = results;
    let found = collected.ids();
    for (method, late) in &calls.late {
        let row = row(*method, late, calls).text("found", &*found);
        let row = row.text("down", around.runtime_down.then_some("yes"));
        collected.add_row(&row, &late.quotes);
    }
}

fn row(method: Method, late: &TimedOut, calls: &Calls) -> TableRow {
    let late_lines = |method| calls.lines(method) as f64;
    let most = late.most();
    let id = most.and_then(|culprit| culprit.id.as_deref());
    let only = id.filter(|_| late.targets.len() == 1);
    let row = TableRow::new("late-calls", 0).of(most.cloned().unwrap_or_default());
    row.text("method", &*format!("{method:?}"))
        .text("lines", &*lines(late))
        .number("count", late.lines as f64)
        .number("targets", late.targets.len() as f64)
        .text("only", only.and_then(|id| id.get(..13)))
        .number("lists", late_lines(Method::ListContainers))
        .number("sandbox-lists", late_lines(Method::ListPodSandbox))
        .number("any-lists", late_lines(Method::AnyList))
        .text("dockershim", calls.are_of_dockershim.then_some("yes"))
}

fn lines(late: &TimedOut) -> String {
    let lines = count(late.lines, "line");
    match late.targets.len() {
        _ if late.lines == 1 => lines,
        0 => lines,
        1 => format!("{lines}, all about one container or pod"),
        many => format!("{lines}, about {many} different containers or pods"),
    }
}
