//! How diagnoses ended.

/// How a diagnosis ended, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Diagnosed {
    /// It found something.
    Found,
    /// It found nothing.
    Nothing,
    /// It could not be made.
    Failed,
}

impl Diagnosed {
    pub(crate) const ALL: [Self; 3] = [Self::Found, Self::Nothing, Self::Failed];

    /// As it is labelled.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Nothing => "nothing",
            Self::Failed => "failed",
        }
    }
}
