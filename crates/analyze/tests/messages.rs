//! Messages that programs print for a cause, taken from their sources: blocks of `messages.txt`, each after
//! a line `=== causes | program`.

mod read;

use read::text;

#[test]
fn the_messages_of_programs_show_their_causes() {
    let wrong: Vec<String> = include_str!("messages.txt")
        .split("=== ")
        .filter_map(|block| {
            let (head, message) = block.split_once('\n')?;
            let (expected, program) = head.split_once(" | ").expect("causes and a program");
            let found = text(message);
            let named = found.findings.first().map(|finding| finding.cause.id());
            let is = match named {
                Some(named) => named,
                None if found.has_problem() => "unexplained",
                None => "none",
            };
            let is_expected = expected.split('|').any(|expected| expected == is);
            (!is_expected).then(|| format!("{program}: {is}, and not {expected}: {message}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
