//! The sender of a request.

use std::collections::BTreeMap;

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";
/// The group of anonymous users.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of anonymous users.
const ANONYMOUS: &str = "system:anonymous";

/// The sender of a request, with the attributes that the API server uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct RequestUserInfo {
    pub(in crate::serve) name: String,
    pub(in crate::serve) uid: String,
    pub(in crate::serve) groups: Vec<String>,
    pub(in crate::serve) extra: BTreeMap<String, Vec<String>>,
}

impl RequestUserInfo {
    /// The anonymous user.
    pub(in crate::serve) fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        RequestUserInfo { name: ANONYMOUS.to_owned(), groups, ..RequestUserInfo::default() }
    }

    /// As in group/authenticated_group_adder.go: all authenticated users are in this group.
    pub(super) fn authenticated(mut self) -> Self {
        let has = |group: &str| self.groups.iter().any(|other| other == group);
        if self.name != ANONYMOUS && !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
