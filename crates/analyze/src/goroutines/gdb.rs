//! Parses the frames of gdb's `backtrace` of a Go program:
//! `#5  0x00000000005779f0 in pkg.(*T).Method (t=0xc4204051e0, ctx=...) at /src/list.go:187`.

use super::Call;

/// A frame, with its number: the innermost is 0.
pub(super) fn frame(line: &str) -> Option<(u32, Call)> {
    let rest = line.strip_prefix('#')?;
    let (number, rest) = rest.split_once(' ')?;
    let number = number.parse().ok()?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix("0x") {
        Some(address) => address.split_once(" in ")?.1,
        None => rest,
    };
    let (function, arguments) = rest.split_once(" (")?;
    let end = arguments.find([',', ')']).unwrap_or(arguments.len());
    let first = arguments.get(..end)?;
    let value = first.split_once('=').map_or(first, |(_, value)| value);
    let value = value.split(' ').next().unwrap_or_default();
    // As Go writes it.
    let text = format!("{function}({value})");
    let (call, _) = Call::take(&text)?;
    function.contains('.').then_some((number, call))
}

/// Whether a line goes on with a frame that was too long for the one before: its arguments, or its
/// place.
pub(super) fn goes_on(line: &str) -> bool {
    let first = line.split([' ', '=']).next().unwrap_or_default();
    let is_argument = line[first.len()..].starts_with('=')
        && first
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    line.starts_with("at /") || is_argument
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_with_its_receiver() {
        let line = "#5  0x00000000005779f0 in github.com/docker/docker/daemon.(*Daemon).reducePsContainer \
                    (daemon=0xc4204051e0, container=0xc420e91b00)";
        let (number, call) = frame(line).unwrap();
        assert_eq!(number, 5);
        assert_eq!(
            call.function,
            "github.com/docker/docker/daemon.(*Daemon).reducePsContainer"
        );
        assert_eq!(call.first, Some(0x00c4_2040_51e0));
        let (number, call) =
            frame("#0  runtime.gopark (unlockf={void} 0xc423, lock=0x22)").unwrap();
        assert_eq!((number, &*call.function), (0, "runtime.gopark"));
    }

    #[test]
    fn what_is_no_frame_of_a_go_program_is_none() {
        for line in [
            "#0  0x00007f1f1b1f0a35 in pthread_cond_wait () from /lib64/libpthread.so.0",
            "# docker ps (hangs)",
            "#7 in the list (see above)",
            "#1",
        ] {
            assert_eq!(frame(line), None, "{line}");
        }
        assert!(goes_on(
            "traceskip=4) at /usr/lib/golang/src/runtime/proc.go:260"
        ));
        assert!(goes_on("at /usr/lib/golang/src/runtime/proc.go:265"));
        assert!(!goes_on("docker ps hangs"));
    }
}
