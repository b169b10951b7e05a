//! Values that belong to pods, by the number of the pod.

use std::ops::{Index, IndexMut};

use crate::names::PodId;

/// Values that belong to some of the pods that are known, at most one to each.
#[derive(Debug)]
pub(crate) struct ByPod<T> {
    values: Vec<Option<T>>,
    len: usize,
}

impl<T> Default for ByPod<T> {
    fn default() -> Self {
        ByPod { values: Vec::new(), len: 0 }
    }
}

impl<T> ByPod<T> {
    /// Takes in the value of a pod that has none.
    pub(crate) fn insert(&mut self, pod: PodId, value: T) {
        if self.values.len() <= pod.index() {
            self.values.resize_with(pod.index() + 1, || None);
        }
        debug_assert!(self.values[pod.index()].is_none(), "a pod has one value");
        self.values[pod.index()] = Some(value);
        self.len += 1;
    }

    /// Takes the value of a pod out.
    pub(crate) fn remove(&mut self, pod: PodId) -> Option<T> {
        let value = self.values.get_mut(pod.index())?.take()?;
        self.len -= 1;
        Some(value)
    }

    /// The value of a pod.
    pub(crate) fn get(&self, pod: PodId) -> Option<&T> {
        self.values.get(pod.index())?.as_ref()
    }

    /// The value of a pod, to be changed.
    pub(crate) fn get_mut(&mut self, pod: PodId) -> Option<&mut T> {
        self.values.get_mut(pod.index())?.as_mut()
    }

    /// Whether a pod has one.
    pub(crate) fn has(&self, pod: PodId) -> bool {
        self.get(pod).is_some()
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All pods that have one, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodId, &T)> {
        let all = self.values.iter().enumerate();
        all.filter_map(|(index, value)| Some((PodId::from_index(index), value.as_ref()?)))
    }
}

const HAS: &str = "whoever goes by the number knows that the pod has a value";

impl<T> Index<PodId> for ByPod<T> {
    type Output = T;
    fn index(&self, pod: PodId) -> &T {
        self.get(pod).expect(HAS)
    }
}

impl<T> IndexMut<PodId> for ByPod<T> {
    fn index_mut(&mut self, pod: PodId) -> &mut T {
        self.get_mut(pod).expect(HAS)
    }
}
