//! A stall of RCU, which the kernel reports in several lines: the first line reports the stall, and a later
//! one how long it lasted.
//!
//! ```text
//!   rcu: INFO: rcu_sched self-detected stall on CPU
//!   rcu:     2-....: (1 GPs behind) idle=a1c/1/0x4000000000000000 softirq=1234/1234 fqs=1
//!            (t=36894712 jiffies g=1234567 q=12)                      a stall, or a paused machine
//! ```

use super::{has, number_after};

/// A stall that is reported to be at least this long was none: no processor stalls for hours, so the host
/// had paused the machine. `cpu-starved` and `kernel-stall` have rules with the same number.
const PAUSED_JIFFIES: u64 = 10_000_000;

/// Whether a line begins the report of a stall, without its duration.
pub fn begins_stall(line: &[u8]) -> bool {
    let begins = has(line, "detected stall") || has(line, "detected expedited stall");
    begins && !has(line, " jiffies")
}

/// Whether a line shows that the stall was a pause of the whole machine.
pub fn shows_pause(line: &[u8]) -> bool {
    let jiffies = number_after(line, "(t=").or_else(|| number_after(line, " t="));
    has(line, " jiffies") && jiffies.is_some_and(|count| count >= PAUSED_JIFFIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_stall_is_read_from_the_line_that_has_it() {
        for (line, begins, pauses) in [
            (
                "rcu: INFO: rcu_sched self-detected stall on CPU",
                true,
                false,
            ),
            (
                "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
                true,
                false,
            ),
            ("\t(t=36894712 jiffies g=1234567 q=12)", false, true),
            ("\t(t=21003 jiffies g=1234567 q=12)", false, false),
            (
                "\t(detected by 0, t=36894712 jiffies, g=1234567, q=12)",
                false,
                true,
            ),
            (
                "INFO: rcu_sched detected stalls on CPUs/tasks: { 2} (detected by 0, t=60002 jiffies",
                false,
                false,
            ),
        ] {
            assert_eq!(begins_stall(line.as_bytes()), begins, "{line}");
            assert_eq!(shows_pause(line.as_bytes()), pauses, "{line}");
        }
    }
}
