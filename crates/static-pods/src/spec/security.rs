//! What a pod and its containers may do.

/// `spec.securityContext`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSecurity {
    /// `runAsUser`, for containers that do not say.
    pub user: Option<i64>,
    /// `runAsGroup`, for containers that do not say.
    pub group: Option<i64>,
    /// `supplementalGroups`.
    pub supplemental_groups: Vec<i64>,
    /// `fsGroup`: owns the `emptyDir` volumes, and is one of the groups of each process.
    pub fs_group: Option<i64>,
    /// `seccompProfile`, for the sandbox too.
    pub seccomp: Option<Seccomp>,
}

/// A container's `securityContext`, with what it inherits from the pod filled in.
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
    /// None.
    Unconfined,
}
