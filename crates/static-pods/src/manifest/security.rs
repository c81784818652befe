//! Converts `securityContext`, of a pod and of a container.

use k8s_openapi::api::core::v1;

use super::problem::At;
use super::{has_items, has_text};
use crate::spec::{ContainerSecurity, PodSecurity, Seccomp};

pub(super) fn pod(context: Option<v1::PodSecurityContext>, at: &At<'_>) -> PodSecurity {
    let v1::PodSecurityContext {
        app_armor_profile,
        fs_group,
        fs_group_change_policy,
        run_as_group,
        run_as_non_root,
        run_as_user,
        se_linux_change_policy,
        se_linux_options,
        seccomp_profile,
        supplemental_groups,
        supplemental_groups_policy,
        sysctls,
        windows_options,
    } = context.unwrap_or_default();
    at.refuse("appArmorProfile", app_armor_profile.is_some(), "");
    at.refuse("seLinuxChangePolicy", se_linux_change_policy.is_some(), "");
    at.refuse("seLinuxOptions", se_linux_options.is_some(), "");
    at.refuse("sysctls", has_items(&sysctls), "");
    at.refuse("windowsOptions", windows_options.is_some(), "");
    let has_policy = supplemental_groups_policy.is_some_and(|it| !it.is_empty() && it != "Merge");
    at.refuse("supplementalGroupsPolicy", has_policy, "only Merge is");
    at.field("fsGroupChangePolicy").one_of(
        fs_group_change_policy.as_deref(),
        (),
        &[("Always", ()), ("OnRootMismatch", ())],
    );
    check_id(run_as_user, &at.field("runAsUser"));
    check_id(run_as_group, &at.field("runAsGroup"));
    check_id(fs_group, &at.field("fsGroup"));
    let supplemental_groups = supplemental_groups.unwrap_or_default();
    for (i, group) in supplemental_groups.iter().enumerate() {
        check_id(Some(*group), &at.field("supplementalGroups").index(i));
    }
    PodSecurity {
        user: run_as_user,
        group: run_as_group,
        must_not_be_root: run_as_non_root == Some(true),
        supplemental_groups,
        fs_group,
        seccomp: seccomp(seccomp_profile, &at.field("seccompProfile")),
    }
}

pub(super) fn container(
    context: v1::SecurityContext,
    pod: &PodSecurity,
    at: &At<'_>,
) -> ContainerSecurity {
    let v1::SecurityContext {
        allow_privilege_escalation,
        app_armor_profile,
        capabilities,
        privileged,
        proc_mount,
        read_only_root_filesystem,
        run_as_group,
        run_as_non_root,
        run_as_user,
        se_linux_options,
        seccomp_profile,
        windows_options,
    } = context;
    at.refuse("appArmorProfile", app_armor_profile.is_some(), "");
    at.refuse("seLinuxOptions", se_linux_options.is_some(), "");
    at.refuse("windowsOptions", windows_options.is_some(), "");
    let has_proc_mount = proc_mount.is_some_and(|it| !it.is_empty() && it != "Default");
    at.refuse("procMount", has_proc_mount, "only Default is");
    check_id(run_as_user, &at.field("runAsUser"));
    check_id(run_as_group, &at.field("runAsGroup"));

    let v1::Capabilities { add, drop } = capabilities.unwrap_or_default();
    let security = ContainerSecurity {
        user: run_as_user.or(pod.user),
        group: run_as_group.or(pod.group),
        must_not_be_root: run_as_non_root.unwrap_or(pod.must_not_be_root),
        privileged: privileged == Some(true),
        read_only_root: read_only_root_filesystem == Some(true),
        no_new_privileges: allow_privilege_escalation == Some(false),
        added_capabilities: without_prefix(add),
        dropped_capabilities: without_prefix(drop),
        seccomp: seccomp(seccomp_profile, &at.field("seccompProfile")).or(pod.seccomp),
    };
    if security.must_not_be_root && security.user == Some(0) {
        at.field("runAsUser")
            .invalid("0 is root, which runAsNonRoot forbids");
    }
    let at_escalation = at.field("allowPrivilegeEscalation");
    if security.no_new_privileges && security.privileged {
        at_escalation.invalid("cannot be false with privileged: true");
    }
    let adds_admin = security
        .added_capabilities
        .iter()
        .any(|it| it == "SYS_ADMIN");
    if security.no_new_privileges && adds_admin {
        at_escalation.invalid("cannot be false with the capability SYS_ADMIN");
    }
    security
}

/// Removes the prefix `CAP_`, because runtimes add it.
fn without_prefix(names: Option<Vec<String>>) -> Vec<String> {
    let names = names.unwrap_or_default().into_iter();
    let stripped = names.map(|it| match it.strip_prefix("CAP_") {
        Some(stripped) => stripped.to_owned(),
        None => it,
    });
    stripped.collect()
}

fn check_id(id: Option<i64>, at: &At<'_>) {
    if let Some(id) = id
        && !i32::try_from(id).is_ok_and(|it| it >= 0)
    {
        at.invalid(format!("{id} is not between 0 and {}", i32::MAX));
    }
}

fn seccomp(profile: Option<v1::SeccompProfile>, at: &At<'_>) -> Option<Seccomp> {
    let v1::SeccompProfile {
        localhost_profile,
        type_,
    } = profile?;
    at.refuse("localhostProfile", has_text(&localhost_profile), "");
    let at = at.field("type");
    match type_.as_str() {
        "" => at.required(),
        "Localhost" => at.unsupported("only RuntimeDefault and Unconfined are"),
        _ => {
            return at.one_of(
                Some(&type_),
                None,
                &[
                    ("RuntimeDefault", Some(Seccomp::RuntimeDefault)),
                    ("Unconfined", Some(Seccomp::Unconfined)),
                ],
            );
        }
    }
    None
}
