//! `kubectl plimsoll`: asks the scheduler that runs in a cluster.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use plimsoll_api::PodKey;
use plimsoll_kube::client::{Access, Overrides, RestMetrics, connect};
use plimsoll_kube::instance::{
    Instance, InstanceAnswer, InstanceError, InstanceSession, Whereabouts,
};
use serde_json::{Value, json};

use super::what_if::PENDING;
use crate::args::{
    ClusterQuestion, Format, GivenAction, Kubectl, NamedPod, NodeTaint, SchedulerPlace, Target,
};
use crate::input::{self, Described, Source};
use crate::notices;

/// What the API server says about a path that the user may not use, and the remedy.
const MAY_NOT_ASK: &str = "deploy/questions.yaml has a role that allows it";

/// Finds the scheduler, asks it, and prints its answer.
pub(crate) fn run(args: Kubectl) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the thread for requests")?;
    runtime.block_on(ask(args))
}

async fn ask(args: Kubectl) -> Result<ExitCode> {
    let Kubectl { target, scheduler, output, question } = args;
    let other = target.impersonate.clone().or_else(|| target.impersonate_group.first().cloned());
    if let Some(other) = other {
        return Err(InstanceError::Impersonation(other).into());
    }
    // A wrong file is an error before anything is sent.
    let namespace = target.namespace.clone();
    let prepared = Prepared::of(question, namespace.as_deref())?;
    let connection = connect(access(target), Arc::new(RestMetrics::default())).await?;
    let namespace = namespace.unwrap_or_else(|| connection.namespace());
    let instance = Instance::find(&connection, &place(scheduler)).await?;
    let session = instance.open().await?;
    let asked = prepared.ask(&session, &namespace, output.format).await?;
    let mut answer = told(&session, &asked)?;
    let warnings = answer.get_mut("warnings").and_then(Value::as_array_mut);
    for warning in warnings.into_iter().flatten() {
        if let Some(text) = warning.as_str() {
            *warning = in_file(text, asked.configuration.as_deref()).into();
        }
    }
    print(&answer, output.format)?;
    let fails = asked.fails_if_pending && answer["leavesPodsPending"] == true;
    Ok(if fails { ExitCode::from(PENDING) } else { ExitCode::SUCCESS })
}

/// A question whose files have been read.
enum Prepared {
    Why { pod: NamedPod, remedies: usize, nearest: usize },
    WhyGroup { group: NamedPod, remedies: usize },
    Explain { pod: NamedPod },
    WhatIf { body: Value, configuration: Option<PathBuf>, fails_if_pending: bool },
    Capacity { body: Value, group: Option<NamedPod> },
    Rebalance { body: Value },
}

/// A question that was asked, with its answer.
struct Asked {
    answer: InstanceAnswer,
    /// The path, for messages.
    path: &'static str,
    /// The pod or the group that was asked about.
    about: Option<About>,
    /// The file with the configuration that was sent.
    configuration: Option<PathBuf>,
    fails_if_pending: bool,
}

/// What a question is about.
struct About {
    /// `pod` or `group`.
    what: &'static str,
    key: PodKey,
}

impl Prepared {
    /// `namespace` is that of `-n`, if it is given.
    fn of(question: ClusterQuestion, namespace: Option<&str>) -> Result<Self> {
        Ok(match question {
            ClusterQuestion::Why { pod, group, remedies, nearest } => match (pod, group) {
                (_, Some(group)) => Prepared::WhyGroup { group, remedies },
                (Some(pod), None) => Prepared::Why { pod, remedies, nearest },
                (None, None) => bail!("name a pod, or a group with --group"),
            },
            ClusterQuestion::Explain { pod } => Prepared::Explain { pod },
            ClusterQuestion::WhatIf { actions, with_config, fail_if_pending } => {
                let actions = actions.0.into_iter().map(requested);
                let actions: Vec<Value> = actions.collect::<Result<_>>()?;
                let mut body = json!({ "actions": actions });
                if let Some(file) = &with_config {
                    body["configuration"] = Source::read(file)?.text.into();
                }
                Prepared::WhatIf {
                    body,
                    configuration: with_config,
                    fails_if_pending: fail_if_pending,
                }
            }
            ClusterQuestion::Capacity {
                pod_file,
                group,
                all_shapes,
                after_pending,
                limit,
                remedies,
            } => {
                let mut body = json!({ "limit": limit, "remedies": remedies });
                // An instance of an older version refuses what it does not know.
                if after_pending {
                    body["afterPending"] = true.into();
                }
                if all_shapes {
                    body["allShapes"] = true.into();
                    if let Some(namespace) = namespace {
                        body["namespace"] = namespace.into();
                    }
                } else if group.is_none() {
                    body["pods"] = Described::of(&input::read(&pod_file)?)?.into_manifests().into();
                }
                Prepared::Capacity { body, group }
            }
            ClusterQuestion::Rebalance { asked } => Prepared::Rebalance { body: asked.requested() },
        })
    }

    async fn ask(
        self,
        session: &InstanceSession,
        namespace: &str,
        format: Format,
    ) -> Result<Asked> {
        let with_text = format == Format::Table;
        let mut sent = None;
        let (path, about, answer, fails_if_pending) = match self {
            Prepared::Why { pod, remedies, nearest } => {
                let (path, pod) = ("/api/v1/why", pod.key(namespace));
                let query = format!(
                    "{path}?pod={pod}&remedies={remedies}&nearest={nearest}&text={with_text}"
                );
                let about = About { what: "pod", key: pod };
                (path, Some(about), session.get(&query).await?, false)
            }
            Prepared::WhyGroup { group, remedies } => {
                let (path, group) = ("/api/v1/why-group", group.key(namespace));
                let query = format!("{path}?group={group}&remedies={remedies}&text={with_text}");
                let about = About { what: "group", key: group };
                (path, Some(about), session.get(&query).await?, false)
            }
            Prepared::Explain { pod } => {
                let (path, pod) = ("/explain", pod.key(namespace));
                let answer = session.get(&format!("{path}?pod={pod}&text={with_text}")).await?;
                (path, Some(About { what: "pod", key: pod }), answer, false)
            }
            Prepared::WhatIf { mut body, configuration, fails_if_pending } => {
                sent = configuration;
                let path = "/api/v1/what-if";
                // The text comes with what decides the exit status.
                body["text"] = (with_text || fails_if_pending).into();
                (path, None, session.post(path, &body).await?, fails_if_pending)
            }
            Prepared::Capacity { mut body, group } => {
                let path = "/api/v1/capacity";
                body["text"] = with_text.into();
                let about = group.map(|group| About { what: "group", key: group.key(namespace) });
                if let Some(About { key, .. }) = &about {
                    body["group"] = key.to_string().into();
                }
                (path, about, session.post(path, &body).await?, false)
            }
            Prepared::Rebalance { mut body } => {
                let path = "/api/v1/rebalance";
                body["text"] = with_text.into();
                (path, None, session.post(path, &body).await?, false)
            }
        };
        Ok(Asked { answer, path, about, configuration: sent, fails_if_pending })
    }
}

/// The answer as JSON. The error says what the user can do.
fn told(session: &InstanceSession, asked: &Asked) -> Result<Value> {
    let (answer, path) = (&asked.answer, asked.path);
    let (code, instance) = (answer.code.as_u16(), session.pod());
    if code == 200 {
        return serde_json::from_slice(&answer.body)
            .with_context(|| format!("{instance}: {path}: the answer is not JSON"));
    }
    let message = in_file(&answer.message(), asked.configuration.as_deref());
    match code {
        401 => bail!(
            "{instance} does not accept the credentials: the API server does not know the token, or the certificate is not of \
             its authority"
        ),
        403 => bail!("{message}; {MAY_NOT_ASK}"),
        404 if message == "404 page not found" => {
            bail!("{instance} does not serve {path}: it is another program, or an older version")
        }
        404 => match &asked.about {
            Some(About { what, key }) => {
                bail!("{message}: looked for {what} {key}; name its namespace with -n")
            }
            None => bail!("{message}"),
        },
        429 | 503 => bail!("{instance}: {message}"),
        400 => bail!("{message}"),
        _ => bail!("{instance}: {path}: {code}: {message}"),
    }
}

/// What an instance says of the configuration that was sent, with the name of its file, which the instance does not know.
fn in_file(text: &str, file: Option<&Path>) -> String {
    let Some(file) = file else { return text.to_owned() };
    let lines = text.split('\n').map(|line| match line.strip_prefix("configuration:") {
        Some(rest) => format!("{}:{rest}", file.display()),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Finds the instance that leads, and connects to it.
pub(super) async fn open(access: Access, scheduler: SchedulerPlace) -> Result<InstanceSession> {
    let connection = connect(access, Arc::new(RestMetrics::default())).await?;
    Ok(Instance::find(&connection, &place(scheduler)).await?.open().await?)
}

/// The answer of an instance about a path.
pub(super) async fn answer(session: &InstanceSession, path: &'static str) -> Result<Value> {
    let answer = session.get(path).await?;
    told(
        session,
        &Asked { answer, path, about: None, configuration: None, fails_if_pending: false },
    )
}

fn print(answer: &Value, format: Format) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match format {
        Format::Table => {
            let warnings = answer["warnings"].as_array().into_iter().flatten();
            warnings.filter_map(Value::as_str).for_each(notices::warning);
            let text = answer["text"].as_str().context(
                "the instance is of an older version, which answers only in JSON: add -o json",
            )?;
            out.write_all(text.as_bytes())?;
        }
        Format::Json => {
            let mut answer = answer.clone();
            if let Some(fields) = answer.as_object_mut() {
                fields.remove("text");
            }
            serde_json::to_writer(&mut out, &answer)?;
            writeln!(out)?;
        }
    }
    Ok(out.flush()?)
}

/// An action as `/api/v1/what-if` takes it.
fn requested(given: GivenAction) -> Result<Value> {
    Ok(match given {
        GivenAction::Apply(file) => {
            let typed = || format!("--apply {}", file.display());
            let sources = input::read(std::slice::from_ref(&file)).with_context(typed)?;
            json!({ "apply": input::all_manifests(&sources).with_context(typed)? })
        }
        GivenAction::Delete(name) => {
            let key = &name.key;
            let slash = if key.namespace.is_empty() { "" } else { "/" };
            json!({ "delete": format!("{}/{}{slash}{}", name.kind, key.namespace, key.name) })
        }
        GivenAction::DeletePods(pods) => {
            let labels = pods.labels.iter().map(|(key, value)| format!("{key}={value}"));
            let labels: Vec<String> = labels.collect();
            json!({ "deletePods": format!("{}/{}", pods.namespace, labels.join(",")) })
        }
        GivenAction::Scale(to) => json!({ "scale": format!("{}={}", to.key, to.number) }),
        GivenAction::Drain(nodes) => json!({ "drain": nodes.to_string() }),
        GivenAction::Cordon(nodes) => json!({ "cordon": nodes.to_string() }),
        GivenAction::Uncordon(nodes) => json!({ "uncordon": nodes.to_string() }),
        GivenAction::Lose(nodes) => json!({ "lose": nodes.to_string() }),
        GivenAction::AddNodes { n, like } => {
            json!({ "addNodes": { "n": n, "like": model(&like)? } })
        }
        GivenAction::Taint(NodeTaint { nodes, taint }) => {
            let effect = taint.effect.as_str();
            json!({ "taint": format!("{nodes}={}:{}:{effect}", taint.key, taint.value) })
        }
        GivenAction::Priority(of) => json!({ "priority": format!("{}={}", of.key, of.number) }),
    })
}

/// The name of a node of the cluster, or the manifest of one in a file.
fn model(like: &str) -> Result<Value> {
    let file = Path::new(like);
    if !file.is_file() {
        return Ok(like.into());
    }
    let sources = input::read(&[file.to_owned()])?;
    let mut nodes = input::all_manifests(&sources)?;
    nodes.retain(|manifest| manifest["kind"] == "Node");
    match (nodes.pop(), nodes.pop()) {
        (Some(node), None) => Ok(node),
        (None, _) => bail!("--like {like}: contains no node"),
        (Some(_), Some(_)) => bail!("--like {like}: contains more than one node"),
    }
}

fn place(of: SchedulerPlace) -> Whereabouts {
    Whereabouts {
        namespace: of.scheduler_namespace,
        selector: of.scheduler_selector,
        service: of.service,
        pod: of.scheduler_pod,
        port: of.scheduler_port,
        leases: of.scheduler_lease,
    }
}

/// How to reach the API server. As in client-go's loader.go: `--kubeconfig`, or else the files of `$KUBECONFIG` that exist,
/// or else `~/.kube/config`; without any of these the service account of the pod.
fn access(target: Target) -> Access {
    let mut files = match target.kubeconfig {
        Some(file) => vec![file],
        None => default_kubeconfigs(),
    }
    .into_iter();
    Access {
        kubeconfig: files.next(),
        further_kubeconfigs: files.collect(),
        overrides: Overrides {
            context: target.context,
            cluster: target.cluster,
            user: target.user,
            token: target.token,
        },
        master: target.server,
        ..Access::default()
    }
}

fn default_kubeconfigs() -> Vec<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
    if let Some(list) = named {
        let all: Vec<PathBuf> = std::env::split_paths(&list).collect();
        let existing: Vec<PathBuf> = all.iter().filter(|path| path.exists()).cloned().collect();
        // If none exists, the error names the first.
        return if existing.is_empty() { all.into_iter().take(1).collect() } else { existing };
    }
    let home = std::env::home_dir().map(|home| home.join(".kube").join("config"));
    home.filter(|file| file.exists()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn request(line: &str) -> Vec<Value> {
        let line = ["plimsoll", "kubectl", "what-if"].into_iter().chain(line.split_whitespace());
        let Command::Kubectl(args) = Args::parse_from(line).command else { panic!("it is one") };
        let ClusterQuestion::WhatIf { actions, .. } = args.question else { panic!("it is one") };
        actions.0.into_iter().map(|given| requested(given).expect("it needs no file")).collect()
    }

    #[test]
    fn actions_are_sent_as_they_were_given_and_in_their_order() {
        let line = "--drain n1 --lose zone=a --add-nodes 2 --like n1 --scale shop/web=3 --delete pod/shop/web-0 \
                    --delete node/n1 --delete-pods shop/app=web,tier=front --taint n1=k:v:NoExecute --priority shop/web=-1";
        let expected = [
            json!({"drain": "n1"}),
            json!({"lose": "zone=a"}),
            json!({"addNodes": {"n": 2, "like": "n1"}}),
            json!({"scale": "shop/web=3"}),
            json!({"delete": "pod/shop/web-0"}),
            json!({"delete": "node/n1"}),
            json!({"deletePods": "shop/app=web,tier=front"}),
            json!({"taint": "n1=k:v:NoExecute"}),
            json!({"priority": "shop/web=-1"}),
        ];
        assert_eq!(request(line), expected);
    }
}
