//! A place for what is computed from other values and remembered.

use std::fmt;
use std::ops::DerefMut;
#[expect(clippy::disallowed_types, reason = "see `MemoCell`")]
use std::sync::Mutex;
use std::sync::PoisonError;

/// Holds what is computed from other values, and can be computed again: it changes what a question costs and never the
/// answer. So it may change behind a shared reference. It is the only lock of the core; nothing waits for it, because one
/// thread decides.
#[derive(Default)]
#[expect(clippy::disallowed_types, reason = "what it protects has no influence on decisions")]
pub struct MemoCell<T>(Mutex<T>);

impl<T> MemoCell<T> {
    /// With this in it.
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub fn new(value: T) -> Self {
        MemoCell(Mutex::new(value))
    }

    /// What is in it, to be used and changed. It must be given back before it is asked for again.
    pub fn open(&self) -> impl DerefMut<Target = T> + '_ {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same without the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for MemoCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoCell")
    }
}
