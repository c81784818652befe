//! The security contexts of a pod and of its containers.

/// `spec.securityContext`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSecurity {
    /// `runAsUser`, the default for the containers.
    pub user: Option<i64>,
    /// `runAsGroup`, the default for the containers.
    pub group: Option<i64>,
    /// `runAsNonRoot`, the default for the containers.
    pub must_not_be_root: bool,
    /// `supplementalGroups`.
    pub supplemental_groups: Vec<i64>,
    /// `fsGroup`: the group of the `emptyDir` volumes, and a supplemental group of each process.
    pub fs_group: Option<i64>,
    /// `seccompProfile`, the default for the containers.
    pub seccomp: Option<Seccomp>,
}

/// A container's `securityContext`, with the defaults of its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSecurity {
    /// `runAsUser`.
    pub user: Option<i64>,
    /// `runAsGroup`.
    pub group: Option<i64>,
    /// `runAsNonRoot`: the container is not started as user 0.
    pub must_not_be_root: bool,
    /// `privileged`.
    pub privileged: bool,
    /// `readOnlyRootFilesystem`.
    pub read_only_root: bool,
    /// `allowPrivilegeEscalation: false`.
    pub no_new_privileges: bool,
    /// `capabilities.add`, without `CAP_`.
    pub added_capabilities: Vec<String>,
    /// `capabilities.drop`, without `CAP_`.
    pub dropped_capabilities: Vec<String>,
    /// `seccompProfile`.
    pub seccomp: Option<Seccomp>,
}

/// `seccompProfile.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seccomp {
    /// The runtime's own profile.
    RuntimeDefault,
    /// No profile.
    Unconfined,
}
