//! What the page asks.

use plimsoll_api::{ObjectKey, PodKey};

use crate::picture::PodState;

/// At most so many pods are listed in one answer.
pub const MOST_PODS: usize = 1000;

/// The kinds of disagreements between a shadow and the scheduler that it follows.
pub(crate) const DISAGREEMENTS: [&str; 5] =
    ["worse", "infeasible", "unschedulable", "pending", "unjudged"];

/// At most so many changes or nodes can be asked for.
const MOST: usize = 1000;

/// A question about the cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// How many pods and nodes there are, and how much is used.
    Overview,
    /// All nodes, by column.
    Nodes,
    /// A node with its pods.
    Node(String),
    /// A part of the list of pods.
    Pods(PodsQuestion),
    /// A pod.
    Pod(PodKey),
    /// The groups of pods.
    Groups,
    /// The devices, and who has them.
    Devices,
    /// The configuration, and how it differs from the default one.
    Configuration,
    /// What happened over time.
    Timeline,
    /// The attempts to schedule a pod.
    History(PodKey),
    /// What stands out in the journal.
    Journal,
    /// What an instance believes of its cluster, and what waits in its queue. It names all pods.
    Instance,
    /// How the scheduler of the cluster compares with this one.
    Shadow(ShadowQuestion),
}

/// Which disagreements of a shadow are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShadowQuestion {
    /// Of any of these kinds; empty for all.
    pub kinds: Vec<String>,
    /// With this text in the name of the pod or of a node.
    pub search: Option<String>,
    /// The number of the first one that is listed; the latest is 0.
    pub from: usize,
    /// How many are listed.
    pub limit: usize,
}

/// Which pods are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsQuestion {
    /// In any of these states; empty for all.
    pub states: Vec<PodState>,
    /// In this namespace.
    pub namespace: Option<String>,
    /// With this text in `namespace/name`.
    pub search: Option<String>,
    /// The number of the first one that is listed.
    pub from: usize,
    /// How many are listed.
    pub limit: usize,
}

/// Why is a pod where it is?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyQuestion {
    /// The pod.
    pub pod: PodKey,
    /// How many changes are wanted; `None` for the default.
    pub remedies: Option<usize>,
    /// How many of the nearest nodes are wanted; `None` for the default.
    pub nearest: Option<usize>,
    /// Whether the answer has a text for people, too.
    pub with_text: bool,
}

/// Why does a group of pods wait?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyGroupQuestion {
    /// The group.
    pub group: ObjectKey,
    /// How many changes are wanted; `None` for the default.
    pub remedies: Option<usize>,
    /// Whether the answer has a text for people, too.
    pub with_text: bool,
}

/// A question that is wrong. The text says what to ask instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestion {
    /// The parameter is not known.
    #[error("unknown parameter {0:?}: {1}")]
    Unknown(String, &'static str),
    /// The parameter is given twice.
    #[error("parameter {0:?} is given twice: {1}")]
    Repeated(String, &'static str),
    /// A parameter is missing.
    #[error("{0}")]
    Missing(&'static str),
    /// The value has the wrong form.
    #[error("parameter {parameter} is {value:?}: {expected}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// What it can be.
        expected: String,
    },
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// What is asked about is not there.
    #[error("{0}")]
    NotFound(String),
    /// The question is wrong.
    #[error("{0}")]
    Wrong(String),
    /// It should have been answered.
    #[error("{0}")]
    Failed(String),
}

const NODE: &str = "ask for one node: /api/v1/node?name=NAME";
const PODS: &str =
    "ask /api/v1/pods with state=, namespace=, search=, from= and limit=, all optional";
const SHADOW: &str = "ask /api/v1/shadow with kind=, search=, from= and limit=, all optional";
const POD: &str = "ask for one pod: /api/v1/pod?pod=NAMESPACE/NAME";
const HISTORY: &str = "ask for one pod: /api/v1/history?pod=NAMESPACE/NAME";
const WHY: &str = "ask for one pod: /api/v1/why?pod=NAMESPACE/NAME, with remedies=N, nearest=N and text=true if you like";
const WHY_GROUP: &str = "ask for one group: /api/v1/why-group?group=NAMESPACE/NAME, with remedies=N and text=true if you like";
const NONE: &str = "this path has no parameters";

impl Question {
    /// The question of a request for `path`, such as `/api/v1/nodes`; `None` if this path is no question about the cluster.
    pub fn parse(path: &str, query: &[(String, String)]) -> Option<Result<Self, BadQuestion>> {
        let without = |question: Question| Parameters::of(query, &[], NONE).map(|_| question);
        Some(match path {
            "/api/v1/overview" => without(Question::Overview),
            "/api/v1/nodes" => without(Question::Nodes),
            "/api/v1/groups" => without(Question::Groups),
            "/api/v1/devices" => without(Question::Devices),
            "/api/v1/config" => without(Question::Configuration),
            "/api/v1/timeline" => without(Question::Timeline),
            "/api/v1/journal" => without(Question::Journal),
            "/api/v1/instance" => without(Question::Instance),
            "/api/v1/shadow" => ShadowQuestion::parse(query).map(Question::Shadow),
            "/api/v1/node" => node(query),
            "/api/v1/pods" => PodsQuestion::parse(query).map(Question::Pods),
            "/api/v1/pod" => one_pod(query, POD).map(Question::Pod),
            "/api/v1/history" => one_pod(query, HISTORY).map(Question::History),
            _ => return None,
        })
    }
}

impl WhyQuestion {
    /// The question of a request for `/api/v1/why`.
    pub fn parse(query: &[(String, String)]) -> Result<Self, BadQuestion> {
        let parameters = Parameters::of(query, &["pod", "remedies", "nearest", "text"], WHY)?;
        Ok(WhyQuestion {
            pod: parameters.key("pod")?.ok_or(BadQuestion::Missing(WHY))?,
            remedies: parameters.number("remedies", MOST)?,
            nearest: parameters.number("nearest", MOST)?,
            with_text: parameters.yes_or_no("text")?,
        })
    }
}

impl WhyGroupQuestion {
    /// The question of a request for `/api/v1/why-group`.
    pub fn parse(query: &[(String, String)]) -> Result<Self, BadQuestion> {
        let parameters = Parameters::of(query, &["group", "remedies", "text"], WHY_GROUP)?;
        Ok(WhyGroupQuestion {
            group: parameters.key("group")?.ok_or(BadQuestion::Missing(WHY_GROUP))?,
            remedies: parameters.number("remedies", MOST)?,
            with_text: parameters.yes_or_no("text")?,
        })
    }
}

impl PodsQuestion {
    fn parse(query: &[(String, String)]) -> Result<Self, BadQuestion> {
        let names = ["state", "namespace", "search", "from", "limit"];
        let parameters = Parameters::of(query, &names, PODS)?;
        let states = parameters.several("state", &PodState::ALL, |state| state.as_str())?;
        Ok(PodsQuestion {
            states,
            namespace: parameters.text("namespace"),
            search: parameters.text("search"),
            from: parameters.number("from", usize::MAX)?.unwrap_or(0),
            limit: parameters.number("limit", MOST_PODS)?.unwrap_or(100),
        })
    }
}

impl ShadowQuestion {
    fn parse(query: &[(String, String)]) -> Result<Self, BadQuestion> {
        let parameters = Parameters::of(query, &["kind", "search", "from", "limit"], SHADOW)?;
        let kinds = parameters.several("kind", &DISAGREEMENTS, |kind| kind)?;
        Ok(ShadowQuestion {
            kinds: kinds.into_iter().map(str::to_owned).collect(),
            search: parameters.text("search"),
            from: parameters.number("from", usize::MAX)?.unwrap_or(0),
            limit: parameters.number("limit", MOST)?.unwrap_or(100),
        })
    }
}

fn node(query: &[(String, String)]) -> Result<Question, BadQuestion> {
    let name = Parameters::of(query, &["name"], NODE)?.get("name").map(str::to_owned);
    Ok(Question::Node(name.ok_or(BadQuestion::Missing(NODE))?))
}

fn one_pod(query: &[(String, String)], usage: &'static str) -> Result<PodKey, BadQuestion> {
    Parameters::of(query, &["pod"], usage)?.key("pod")?.ok_or(BadQuestion::Missing(usage))
}

/// Parameters that are known, each at most once.
struct Parameters<'a>(&'a [(String, String)]);

impl<'a> Parameters<'a> {
    fn of(
        query: &'a [(String, String)],
        known: &[&str],
        usage: &'static str,
    ) -> Result<Self, BadQuestion> {
        for (at, (name, _)) in query.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(BadQuestion::Unknown(name.clone(), usage));
            }
            if query[..at].iter().any(|(other, _)| other == name) {
                return Err(BadQuestion::Repeated(name.clone(), usage));
            }
        }
        Ok(Parameters(query))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Those of the known values that a parameter lists.
    fn several<T: Copy>(
        &self,
        parameter: &'static str,
        known: &[T],
        name_of: impl Fn(&T) -> &'static str,
    ) -> Result<Vec<T>, BadQuestion> {
        let given = self.get(parameter).unwrap_or_default();
        let one = |name: &str| {
            known.iter().copied().find(|one| name_of(one) == name).ok_or_else(|| {
                let known: Vec<_> = known.iter().map(&name_of).collect();
                let expected = format!("write one of {}, or several with commas", known.join(", "));
                BadQuestion::Value { parameter, value: name.to_owned(), expected }
            })
        };
        given.split(',').filter(|name| !name.is_empty()).map(one).collect()
    }

    fn number(&self, parameter: &'static str, most: usize) -> Result<Option<usize>, BadQuestion> {
        let Some(value) = self.get(parameter) else { return Ok(None) };
        let number = value.parse().ok().filter(|number| *number <= most);
        number.map(Some).ok_or_else(|| BadQuestion::Value {
            parameter,
            value: value.to_owned(),
            expected: format!("write a number from 0 to {most}"),
        })
    }

    /// `false` if it is not given.
    fn yes_or_no(&self, parameter: &'static str) -> Result<bool, BadQuestion> {
        let Some(value) = self.get(parameter) else { return Ok(false) };
        value.parse().map_err(|_| BadQuestion::Value {
            parameter,
            value: value.to_owned(),
            expected: "write true or false".to_owned(),
        })
    }

    /// The name of an object of a namespace.
    fn key(&self, parameter: &'static str) -> Result<Option<ObjectKey>, BadQuestion> {
        let Some(value) = self.get(parameter) else { return Ok(None) };
        let key = value.split_once('/').filter(|(namespace, name)| {
            !namespace.is_empty() && !name.is_empty() && !name.contains('/')
        });
        let key = key.map(|(namespace, name)| ObjectKey::new(namespace, name));
        key.map(Some).ok_or_else(|| BadQuestion::Value {
            parameter,
            value: value.to_owned(),
            expected: "write NAMESPACE/NAME".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str, query: &[(&str, &str)]) -> Result<Question, String> {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        let query: Vec<_> = query.iter().map(owned).collect();
        let question = Question::parse(path, &query).expect("the path is known");
        question.map_err(|error| error.to_string())
    }

    #[test]
    fn a_question_has_its_parameters() {
        let pods = PodsQuestion {
            states: vec![PodState::Gated, PodState::Placed],
            search: Some("web".to_owned()),
            from: 200,
            limit: 50,
            ..PodsQuestion::default()
        };
        let query =
            [("state", "gated,placed"), ("search", "web"), ("from", "200"), ("limit", "50")];
        assert_eq!(parse("/api/v1/pods", &query), Ok(Question::Pods(pods)));
        let pod = Question::Pod(PodKey::new("shop", "web-0"));
        assert_eq!(parse("/api/v1/pod", &[("pod", "shop/web-0")]), Ok(pod));
        let shadow = ShadowQuestion {
            kinds: vec!["worse".to_owned(), "pending".to_owned()],
            limit: 100,
            ..ShadowQuestion::default()
        };
        let query = [("kind", "worse,pending")];
        assert_eq!(parse("/api/v1/shadow", &query), Ok(Question::Shadow(shadow)));
        assert_eq!(parse("/api/v1/node", &[("name", "n1")]), Ok(Question::Node("n1".to_owned())));
        assert_eq!(Question::parse("/api/v1/other", &[]), None);
    }

    #[test]
    fn a_text_is_told_only_if_that_is_asked() {
        let ask = |query: &[(&str, &str)]| {
            let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            let query: Vec<_> = query.iter().map(owned).collect();
            let pod = WhyQuestion::parse(&query[1..]).map(|question| question.with_text);
            let group = [&query[..1], &query[2..]].concat();
            let group = WhyGroupQuestion::parse(&group).map(|question| question.with_text);
            assert_eq!(pod, group);
            pod.map_err(|error| error.to_string())
        };
        let (group, pod) = (("group", "shop/gang"), ("pod", "shop/web-0"));
        assert_eq!(ask(&[group, pod]), Ok(false));
        assert_eq!(ask(&[group, pod, ("text", "true")]), Ok(true));
        let wrong = "parameter text is \"yes\": write true or false".to_owned();
        assert_eq!(ask(&[group, pod, ("text", "yes")]), Err(wrong));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_to_write() {
        for (path, query, expected) in [
            (
                "/api/v1/nodes",
                &[("a", "b")][..],
                "unknown parameter \"a\": this path has no parameters",
            ),
            ("/api/v1/node", &[], "ask for one node: /api/v1/node?name=NAME"),
            ("/api/v1/pod", &[("pod", "web")], "parameter pod is \"web\": write NAMESPACE/NAME"),
            (
                "/api/v1/pods",
                &[("limit", "1001")],
                "parameter limit is \"1001\": write a number from 0 to 1000",
            ),
            ("/api/v1/pods", &[("from", "1"), ("from", "2")], "parameter \"from\" is given twice"),
            (
                "/api/v1/pods",
                &[("state", "lost")],
                "parameter state is \"lost\": write one of unschedulable,",
            ),
            (
                "/api/v1/shadow",
                &[("kind", "better")],
                "parameter kind is \"better\": write one of worse, infeasible,",
            ),
        ] {
            let error = parse(path, query).expect_err("it is wrong");
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
