//! The phase of a pod, as Kubernetes defines it.

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all of its containers have run yet.
    Pending,
    /// All of its containers have run, and some run or will be restarted.
    Running,
    /// All of its containers have exited with code 0, and none will be restarted.
    Succeeded,
    /// All of its containers have exited, at least one of them without code 0, and none will be
    /// restarted.
    Failed,
    /// The pod has not been observed yet.
    Unknown,
}

impl Phase {
    /// Kubernetes' word for the phase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }

    /// The meaning of the phase, as a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Pending => "not all of its containers have run yet",
            Self::Running => "all of its containers have been started",
            Self::Succeeded => "all of its containers have succeeded, and none is restarted",
            Self::Failed => "all of its containers have ended, at least one of them in failure",
            Self::Unknown => "the runtime has not shown yet which of its containers run",
        }
    }
}
