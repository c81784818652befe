//! Arguments: errors and help.

use crate::support::Pleg;

#[test]
fn bad_arguments_are_refused() {
    for args in [
        &["watch", "--mode", "psychic"][..],
        &["watch", "--relist-period", "0s"],
        &["watch", "--relist-period", "soon"],
        &["watch", "--for", "-1s"],
        &["status", "-o", "yaml"],
        &["agent", "--listen", "everywhere"],
        &["dance"],
        &[],
    ] {
        let ended = Pleg::new(args).run().assert_code(2);
        assert!(
            ended.out.is_empty() && !ended.err.is_empty(),
            "{args:?}: {ended:?}"
        );
    }
}

#[test]
fn help_and_version_have_exit_code_0() {
    for args in [&["--help"][..], &["--version"], &["watch", "--help"]] {
        let ended = Pleg::new(args).run().assert_code(0);
        assert!(!ended.out.contains('\u{1b}'), "{args:?}");
    }
}
