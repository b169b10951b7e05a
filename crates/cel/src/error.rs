//! What can go wrong.

use std::borrow::Cow;

/// An expression that cannot be compiled. Its text is cel-go's, with the place of each error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub(crate) String);

/// An evaluation that gave no answer. Its text is cel-go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvaluationError(pub(crate) String);

/// Why a part of an expression has no value.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// An error value of CEL: `||` and `&&` can absorb it.
    Error(Cow<'static, str>),
    /// The arguments do not fit any form of the function that is being called.
    NoOverload,
    /// The evaluation ends, whatever it is part of.
    Cancelled(Cow<'static, str>),
}

impl Fault {
    /// An error with a text.
    pub(crate) fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Error(text.into())
    }

    /// The end of the evaluation, with a text.
    pub(crate) fn cancelled(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Cancelled(text.into())
    }

    /// Values of types that do not go together, where cel-go names neither.
    pub(crate) fn overload() -> Self {
        Self::text("no such overload")
    }

    /// The text of the error.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Error(text) | Self::Cancelled(text) => text.into_owned(),
            Self::NoOverload => "no such overload".to_owned(),
        }
    }
}
