//! Errors in logs that show no problem.

mod read;

use read::text;

#[test]
fn errors_that_support_no_cause_are_counted_and_a_log_with_them_is_not_clean() {
    let log = "\
Nov 12 03:11:02 node-7 kubelet[1423]: I1112 03:11:02.113342    1423 kubelet.go:2448] \"All is well\"
Nov 12 03:11:05 node-7 kubelet[1423]: E1112 03:11:05.513342    1423 widget.go:99] \"Failed to start 1\"
Nov 12 03:11:06 node-7 kubelet[1423]: E1112 03:11:06.513342    1423 widget.go:99] \"Failed to start 2\"
Nov 12 03:11:07 node-7 containerd[900]: time=\"2023-11-12T03:11:07Z\" level=error msg=\"no widget 7\"
Nov 12 03:11:08 node-7 containerd[900]: time=\"2023-11-12T03:11:08Z\" level=info msg=\"a widget\"
Nov 12 03:11:09 node-7 containerd[900]: time=\"2023-11-12T03:11:09Z\" level=error msg=\"no widget 8\"
Nov 12 03:11:10 node-7 containerd[900]: time=\"2023-11-12T03:11:10Z\" level=error msg=\"no widget 9\"
";
    let found = text(log);
    assert!(!found.has_problem() && !found.is_clean());
    assert_eq!(found.summary, "Nothing conclusive: 5 lines report errors.");
    let errors = found.errors.iter();
    let errors: Vec<_> = errors
        .map(|error| (&*error.message, &*error.first, error.lines))
        .collect();
    assert_eq!(
        errors,
        [
            ("no widget 7", "text-0:4", 3),
            ("\"Failed to start 1\"", "text-0:2", 2)
        ]
    );
}

#[test]
fn an_unrecognised_input_is_neither_a_problem_nor_clean() {
    let found = text("hello\nworld\n");
    assert!(!found.is_clean());
    assert_eq!(
        found.summary,
        "Nothing in the input was recognised, so it is not evidence of a problem or of a healthy node."
    );
}
