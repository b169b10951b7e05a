//! What plugins share within one scheduling cycle.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;

/// A value that can be shared. It is cloned with the state.
trait Shareable: Any + Send + Sync {
    fn clone_box(&self) -> Box<dyn Shareable>;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Any + Clone + Send + Sync> Shareable for T {
    fn clone_box(&self) -> Box<dyn Shareable> {
        Box::new(self.clone())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Values that plugins share in one scheduling cycle and the binding cycle that follows it, one for
/// each Rust type. It lives as long as one attempt.
///
/// A plugin does not keep its own state here: it has a typed one. This is for what one plugin writes
/// and another reads. A plugin that reads it names it in its parts ([`Shared`](crate::Shared)).
#[derive(Default)]
pub struct CycleState(BTreeMap<TypeId, Box<dyn Shareable>>);

impl CycleState {
    /// An empty state.
    pub const fn new() -> Self {
        CycleState(BTreeMap::new())
    }

    /// Shares `value`. It replaces an earlier value of its type.
    pub fn write<T: Any + Clone + Send + Sync>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(value));
    }

    /// The shared value of type `T`.
    pub fn read<T: Any>(&self) -> Option<&T> {
        // The box itself is `Shareable`, too; `as_ref` makes sure that the call reaches its content.
        self.0.get(&TypeId::of::<T>())?.as_ref().as_any().downcast_ref()
    }

    /// Removes the shared value of type `T`.
    pub fn delete<T: Any>(&mut self) {
        self.0.remove(&TypeId::of::<T>());
    }
}

impl Clone for CycleState {
    fn clone(&self) -> Self {
        CycleState(self.0.iter().map(|(key, value)| (*key, value.as_ref().clone_box())).collect())
    }
}

impl fmt::Debug for CycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CycleState({} values)", self.0.len())
    }
}

/// An empty state.
pub(crate) static NOTHING_SHARED: CycleState = CycleState::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_of_each_type_is_kept_and_clones_are_independent() {
        let mut state = CycleState::new();
        state.write(7_u32);
        state.write(String::from("x"));
        let mut copy = state.clone();
        copy.write(8_u32);
        copy.delete::<String>();
        assert_eq!(state.read::<u32>(), Some(&7));
        assert_eq!(state.read::<String>().map(String::as_str), Some("x"));
        assert_eq!(copy.read::<u32>(), Some(&8));
        assert_eq!(copy.read::<String>(), None);
    }
}
