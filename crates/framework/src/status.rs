//! Why a pod was rejected.

use std::fmt;
use std::sync::Arc;

use plimsoll_api::Str;
use smallvec::SmallVec;

/// What kind of rejection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Not now; evicting other pods might help.
    Unschedulable,
    /// Not now, and evicting other pods cannot help.
    UnschedulableAndUnresolvable,
    /// Waiting for something outside. When it comes, the pod is tried at once, without backoff.
    Pending,
    /// The plugin could not judge. The attempt ends with an error.
    Error,
}

impl Code {
    /// The word Kubernetes uses for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Unschedulable => "Unschedulable",
            Code::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Code::Pending => "Pending",
            Code::Error => "Error",
        }
    }
}

/// One reason, as shown in events and conditions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A fixed text.
    Text(&'static str),
    /// `Insufficient RESOURCE`.
    Insufficient(Str),
    /// A text made for this rejection.
    Owned(Arc<str>),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Text(text) => f.write_str(text),
            Reason::Insufficient(resource) => write!(f, "Insufficient {resource}"),
            Reason::Owned(text) => f.write_str(text),
        }
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Reason::Text(text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Reason::Owned(text.into())
    }
}

/// A rejection: its kind and all its reasons.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rejection {
    /// What kind it is.
    pub code: Code,
    /// Why. A plugin may have several reasons at once, as NodeResourcesFit has.
    pub reasons: SmallVec<[Reason; 1]>,
}

impl Rejection {
    /// Rejected for one reason.
    #[cold]
    pub fn new(code: Code, reason: impl Into<Reason>) -> Self {
        Rejection { code, reasons: SmallVec::from_buf([reason.into()]) }
    }

    /// Rejected; evicting other pods might help.
    #[cold]
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Rejection::new(Code::Unschedulable, reason)
    }

    /// Rejected; evicting other pods cannot help.
    #[cold]
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Rejection::new(Code::UnschedulableAndUnresolvable, reason)
    }

    /// The plugin could not judge.
    #[cold]
    pub fn error(reason: impl Into<Reason>) -> Self {
        Rejection::new(Code::Error, reason)
    }
}

/// The reasons, separated by commas, as Kubernetes joins them.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, reason) in self.reasons.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{reason}")?;
        }
        Ok(())
    }
}
