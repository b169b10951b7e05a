//! Who may do what: the users a server knows by their tokens, and what it says to TokenReviews and
//! SubjectAccessReviews.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use crate::failure::FailureStatus;
use crate::kinds::Qualified;

/// A user, with the token that proves it.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Empty for a user without a token, who may still have a certificate or be the subject of a
    /// review.
    pub token: String,
    /// `system:kube-scheduler`. Without a name this is not a user, but its rights are granted to every
    /// member of its groups.
    pub name: String,
    /// `system:authenticated` is added.
    pub groups: Vec<String>,
    /// What the user may do. A user with none may do nothing.
    pub rights: Vec<Right>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}

/// One thing that is allowed, as a rule of RBAC. `*` stands for anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Right {
    /// `get`, `list`, `create`, ...
    pub verbs: Vec<String>,
    /// API groups; the core group is empty.
    pub groups: Vec<String>,
    /// `pods`, `pods/binding`.
    pub resources: Vec<String>,
    /// Non-resource paths: `/metrics`, `/debug/*`.
    pub paths: Vec<String>,
    /// The namespaces of the resources, as with a RoleBinding; empty for all and for cluster-wide resources.
    pub namespaces: Vec<String>,
}

impl Right {
    /// Anything at all.
    pub fn everything() -> Self {
        let any = || vec!["*".to_owned()];
        Self { verbs: any(), groups: any(), resources: any(), paths: any(), namespaces: Vec::new() }
    }

    /// `verbs` on `resources` of one group.
    pub fn on(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            verbs: owned(verbs),
            groups: vec![group.to_owned()],
            resources: owned(resources),
            ..Self::default()
        }
    }

    /// The same in one namespace only.
    pub fn within(self, namespace: &str) -> Self {
        Self { namespaces: vec![namespace.to_owned()], ..self }
    }

    /// `verbs` on non-resource paths.
    pub fn on_paths(paths: &[&str], verbs: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self { verbs: owned(verbs), paths: owned(paths), ..Self::default() }
    }

    fn allows(&self, verb: &str, what: &What<'_>) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|l| l == "*" || l == wanted);
        has(&self.verbs, verb)
            && match what {
                What::Resource { group, resource, namespace, .. } => {
                    let within = self.namespaces.is_empty()
                        || self.namespaces.iter().any(|one| one == namespace);
                    within && has(&self.groups, group) && has(&self.resources, resource)
                }
                What::Path(path) => self.paths.iter().any(|rule| {
                    rule == path
                        || rule.strip_suffix('*').is_some_and(|rule| path.starts_with(rule))
                }),
            }
    }
}

/// What a request accesses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'a> {
    /// `resource` with its subresource: `pods/binding`.
    Resource {
        group: &'a str,
        resource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    Path(&'a str),
}

/// The user who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestUser {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl RequestUser {
    fn anonymous() -> Self {
        let groups = vec!["system:unauthenticated".to_owned()];
        Self { name: "system:anonymous".to_owned(), groups }
    }

    /// A user whose certificate the server has verified.
    pub(crate) fn of_certificate(name: String, groups: Vec<String>) -> Self {
        Self { name, groups }.authenticated()
    }

    fn authenticated(mut self) -> Self {
        let everybody = "system:authenticated";
        if !self.groups.iter().any(|group| group == everybody) {
            self.groups.push(everybody.to_owned());
        }
        self
    }
}

/// The table of users. It may change while the server runs.
#[derive(Debug)]
pub struct AccessRules {
    users: RwLock<Vec<User>>,
    /// Whether only these users may use the server itself. Reviews are answered from the table in any
    /// case.
    required: bool,
    /// The token of the kubeconfig, which grants all rights.
    admin: String,
}

impl AccessRules {
    pub(crate) fn new(users: Vec<User>, required: bool, admin: String) -> Self {
        Self { users: RwLock::new(users), required, admin }
    }

    /// Replaces all users.
    pub fn set_users(&self, users: Vec<User>) {
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = users;
    }

    fn with_users<T>(&self, look: impl FnOnce(&[User]) -> T) -> T {
        look(&self.users.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whose token it is.
    pub(crate) fn user_of(&self, token: &str) -> Option<RequestUser> {
        if token == self.admin {
            let groups = vec!["system:masters".to_owned()];
            return Some(RequestUser { name: "admin".to_owned(), groups }.authenticated());
        }
        self.with_users(|users| {
            let user = users.iter().find(|user| !token.is_empty() && user.token == token)?;
            let caller = RequestUser { name: user.name.clone(), groups: user.groups.clone() };
            Some(caller.authenticated())
        })
    }

    /// The user, by the value of the header `Authorization` and by the certificate. An unknown token is
    /// refused; a request with neither is anonymous.
    pub(crate) fn caller(
        &self,
        authorization: Option<&str>,
        certificate: Option<&RequestUser>,
    ) -> Result<RequestUser, FailureStatus> {
        let token = authorization.map(|value| value.strip_prefix("Bearer ").unwrap_or_default());
        match (certificate, token) {
            (Some(caller), _) => Ok(caller.clone()),
            (None, Some(token)) => match self.user_of(token.trim()) {
                Some(caller) => Ok(caller),
                None if self.required => Err(FailureStatus::unauthorized()),
                None => Ok(RequestUser::anonymous()),
            },
            (None, None) => Ok(RequestUser::anonymous()),
        }
    }

    /// Whether a user of that name, or a member of one of the groups, may do it.
    pub(crate) fn allows(&self, caller: &RequestUser, verb: &str, what: What<'_>) -> bool {
        let is_master = caller.groups.iter().any(|group| group == "system:masters");
        self.with_users(|users| {
            let is_same = |user: &&User| match user.name.as_str() {
                "" => user.groups.iter().any(|group| caller.groups.contains(group)),
                name => name == caller.name,
            };
            let allows = |user: &User| user.rights.iter().any(|right| right.allows(verb, &what));
            is_master || users.iter().filter(is_same).any(allows)
        })
    }

    /// Refuses what the caller may not do, with the messages of kube-apiserver.
    pub(crate) fn check(
        &self,
        caller: &RequestUser,
        verb: &str,
        what: What<'_>,
        named: Option<Qualified>,
    ) -> Result<(), FailureStatus> {
        if !self.required || self.allows(caller, verb, what) || is_public(what) {
            return Ok(());
        }
        let user = &caller.name;
        Err(match what {
            What::Path(path) => {
                let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
                FailureStatus::no_right(None, "", message)
            }
            What::Resource { group, resource, namespace, name } => {
                let scope = match namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let plural = resource.split('/').next().unwrap_or(resource);
                let of = if group.is_empty() { String::new() } else { format!(".{group}") };
                let object = if name.is_empty() { String::new() } else { format!(" {name:?}") };
                let message = format!(
                    "{plural}{of}{object} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API \
                     group {group:?} {scope}"
                );
                FailureStatus::no_right(named, name, message)
            }
        })
    }
}

/// As `system:public-info-viewer` and `system:discovery`: nothing secret.
fn is_public(what: What<'_>) -> bool {
    let What::Path(path) = what else { return false };
    ["/version", "/healthz", "/livez", "/readyz"].iter().any(|open| path.starts_with(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> AccessRules {
        let pods = Right::on("", &["pods", "pods/binding"], &["get", "create"]);
        let ann = User {
            token: "secret".to_owned(),
            name: "ann".to_owned(),
            groups: Vec::new(),
            rights: vec![pods, Right::on_paths(&["/debug/*"], &["get"])],
        };
        let everybody = User {
            token: String::new(),
            name: String::new(),
            groups: vec!["system:authenticated".to_owned()],
            rights: vec![Right::on_paths(&["/openapi"], &["get"])],
        };
        AccessRules::new(vec![ann, everybody], true, "key".to_owned())
    }

    fn pods(resource: &str) -> What<'_> {
        What::Resource { group: "", resource, namespace: "ns", name: "" }
    }

    #[test]
    fn a_forged_token_is_refused_and_none_is_anonymous() {
        let access = access();
        assert_eq!(access.caller(Some("Bearer forged"), None).map_err(|f| f.code), Err(401));
        let anonymous = access.caller(None, None).expect("no token is no error");
        assert_eq!(anonymous.name, "system:anonymous");
        let failure = access.check(&anonymous, "get", pods("pods"), None).expect_err("no rights");
        assert_eq!(
            failure.message,
            "pods is forbidden: User \"system:anonymous\" cannot get resource \"pods\" in API group \"\" in the \
             namespace \"ns\""
        );
    }

    #[test]
    fn a_user_may_do_what_a_right_says_and_nothing_else() {
        let access = access();
        let ann = access.caller(Some("Bearer secret"), None).expect("the token is known");
        assert!(ann.groups.contains(&"system:authenticated".to_owned()));
        assert!(access.allows(&ann, "create", pods("pods/binding")));
        assert!(!access.allows(&ann, "delete", pods("pods")));
        assert!(!access.allows(&ann, "get", pods("pods/status")));
        assert!(access.allows(&ann, "get", What::Path("/debug/cache")));
        assert!(!access.allows(&ann, "get", What::Path("/metrics")));
        assert!(access.allows(&ann, "get", What::Path("/openapi")));
        assert!(!access.allows(&RequestUser::anonymous(), "get", What::Path("/openapi")));
    }

    #[test]
    fn a_token_is_not_shown() {
        let users = access().with_users(<[User]>::to_vec);
        assert!(!format!("{users:?}").contains("secret"));
    }
}
