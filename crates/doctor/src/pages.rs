//! The page of each cause: one source for `pleg explain` and for `docs/causes`.

use crate::cause::Cause;

/// Takes the page from the documentation that this was built with.
macro_rules! page {
    ($id:literal) => {
        include_str!(concat!("../../../docs/causes/", $id, ".md"))
    };
}

/// What happens, how to confirm it by hand, what to do now, what fixes it and how to
/// prevent it, in Markdown.
pub fn page(cause: Cause) -> &'static str {
    match cause {
        Cause::SystemdCookieOverflow => page!("systemd-cookie-overflow"),
        Cause::SystemdOverloaded => page!("systemd-overloaded"),
        Cause::BusUnavailable => page!("bus-unavailable"),
        Cause::RuncInitFrozen => page!("runc-init-frozen"),
        Cause::RuncSeccompPipe => page!("runc-seccomp-pipe"),
        Cause::RuncShortExecStuck => page!("runc-short-exec-stuck"),
        Cause::ShimUnresponsive => page!("shim-unresponsive"),
        Cause::ContainerStatusLock => page!("container-status-lock"),
        Cause::ContainerLock => page!("container-lock"),
        Cause::RuntimeUnresponsive => page!("runtime-unresponsive"),
        Cause::ListExceedsGrpcLimit => page!("list-exceeds-grpc-limit"),
        Cause::TooManyContainers => page!("too-many-containers"),
        Cause::FdOrInotifyExhausted => page!("fd-or-inotify-exhausted"),
        Cause::KubeletInternal => page!("kubelet-internal"),
        Cause::CniPluginHang => page!("cni-plugin-hang"),
        Cause::RtnlStuck => page!("rtnl-stuck"),
        Cause::KernelRegression => page!("kernel-regression"),
        Cause::MemoryCgroupLeak => page!("memory-cgroup-leak"),
        Cause::StorageUnresponsive => page!("storage-unresponsive"),
        Cause::FanotifyBlocked => page!("fanotify-blocked"),
        Cause::DiskSaturated => page!("disk-saturated"),
        Cause::CpuStarved => page!("cpu-starved"),
        Cause::MemoryThrash => page!("memory-thrash"),
        Cause::DiskFull => page!("disk-full"),
        Cause::PidsExhausted => page!("pids-exhausted"),
        Cause::RepairLoop => page!("repair-loop"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every page says, in this order.
    const HEADINGS: [&str; 6] = [
        "\n## What happens\n",
        "\n## How to confirm it\n",
        "\n## What to do now\n",
        "\n## What fixes it\n",
        "\n## How to prevent it\n",
        "\n## References\n",
    ];

    #[test]
    fn every_page_says_everything_and_fits_a_terminal() {
        for cause in Cause::ALL {
            let page = page(cause);
            let title = page.lines().next().unwrap_or_default();
            assert_eq!(title, format!("# {cause}"));
            let mut rest = page;
            for heading in HEADINGS {
                let after = rest.split_once(heading);
                rest = after.unwrap_or_else(|| panic!("{cause}: {heading:?}")).1;
                let text = rest.split("\n## ").next().unwrap_or_default();
                assert!(text.trim().len() > 20, "{cause}: {heading:?} is empty");
            }
            for line in page.lines() {
                let link = line.trim_start_matches("- ").starts_with("http");
                assert!(line.chars().count() <= 80 || link, "{cause}: {line}");
            }
        }
    }

    #[test]
    fn every_reference_and_version_of_a_finding_is_on_its_page() {
        for cause in Cause::ALL {
            for reference in cause.about().references {
                assert!(page(cause).contains(reference), "{cause}: {reference}");
            }
        }
    }
}
