//! Who sends a request.

use std::collections::BTreeMap;

/// The group of everybody who has said who they are.
const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody else.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Who everybody else is.
const ANONYMOUS: &str = "system:anonymous";

/// Who sends a request, as the API server knows users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct User {
    pub(in crate::serve) name: String,
    pub(in crate::serve) uid: String,
    pub(in crate::serve) groups: Vec<String>,
    pub(in crate::serve) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Somebody who has not said who they are.
    pub(in crate::serve) fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        User { name: ANONYMOUS.to_owned(), groups, ..User::default() }
    }

    /// As in group/authenticated_group_adder.go: whoever has said who they are is of that group.
    pub(super) fn authenticated(mut self) -> Self {
        let has = |group: &str| self.groups.iter().any(|other| other == group);
        if self.name != ANONYMOUS && !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
