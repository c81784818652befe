//! How diagnoses ended.

/// How a diagnosis ended, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Diagnosed {
    /// The diagnosis found something.
    Found,
    /// The diagnosis found nothing.
    Nothing,
    /// The node could not be diagnosed.
    Failed,
}

impl Diagnosed {
    pub(crate) const ALL: [Self; 3] = [Self::Found, Self::Nothing, Self::Failed];

    /// The value of the metric's label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Nothing => "nothing",
            Self::Failed => "failed",
        }
    }
}
