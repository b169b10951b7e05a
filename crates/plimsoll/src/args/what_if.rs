//! The command line of `plimsoll what-if`.

use std::path::PathBuf;

use clap::{ArgMatches, Command, FromArgMatches, ValueHint};
use plimsoll_api::{Effect, Labels, ObjectKey, Str, Taint};
use plimsoll_sim::what_if::NodeChoice;

use super::{Cluster, Engine, Output};
use crate::canary::CanaryFlags;
use crate::recorded::At;

const EXAMPLES: &str = "\
Examples:
  # Where do the pods of a node go when it is drained?
  plimsoll what-if -f cluster.json --drain node-7

  # Does everything still fit without a zone? The exit status is 3 if not
  plimsoll what-if -f cluster.json --lose topology.kubernetes.io/zone=a --fail-if-pending

  # Is there room for this release, if two more nodes come?
  plimsoll what-if -f cluster.json --apply release/ --add-nodes 2 --like node-7

  # Would one more node have been enough, an hour into this recording?
  plimsoll what-if --recording recording --at 1h --add-nodes 1 --like node-7

  # What if the shop had twice as many pods, under another configuration?
  plimsoll what-if -f cluster.json --scale shop/web=40 --with-config new.yaml -o json";

/// Say what would happen if the cluster changed
///
/// Changes the cluster of the files by actions, in the order in which they are given, and then lets the scheduler decide.
/// Pods that lose their node are made again as their controllers would make them, also those that are evicted for others.
/// The answer says which pods go where, which stay without a node and why, and how full the cluster is before and after.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("files", |files| files.required(false).required_unless_present("recording")))]
pub(crate) struct WhatIf {
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    /// Instead of files, the cluster of a recording of `run` or `simulate`, at its end or --at a time
    ///
    /// The recorded profiles decide, unless --config or --with-config is given.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "files")]
    pub(crate) recording: Option<PathBuf>,

    /// The time of the recording, such as 2026-11-25T15:00:00Z, or 1h30m after its beginning
    #[arg(long, value_name = "TIME", value_parser = At::parse, requires = "recording", conflicts_with = "files")]
    pub(crate) at: Option<At>,

    #[command(flatten)]
    pub(crate) actions: Actions,

    /// Decide by this configuration instead of that of --config
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Actions")]
    pub(crate) with_config: Option<PathBuf>,

    /// Exit with status 3 if a pod that had a node, or one that was applied, ends without one
    #[arg(long)]
    pub(crate) fail_if_pending: bool,

    /// How decisions are made; both ways lead to the same decisions
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    pub(crate) engine: Engine,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// An action as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GivenAction {
    Apply(PathBuf),
    Delete(ObjectName),
    DeletePods(LabelledPods),
    Scale(ObjectNumber),
    Drain(NodeChoice),
    Cordon(NodeChoice),
    Uncordon(NodeChoice),
    Lose(NodeChoice),
    AddNodes { n: usize, like: String },
    Taint(NodeTaint),
    Priority(ObjectNumber),
}

/// `KIND/NAMESPACE/NAME` or `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectName {
    pub(crate) kind: String,
    pub(crate) key: ObjectKey,
}

/// `NAMESPACE/KEY=VALUE,...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelledPods {
    pub(crate) namespace: Str,
    pub(crate) labels: Labels,
}

/// `NAMESPACE/NAME=NUMBER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectNumber {
    pub(crate) key: ObjectKey,
    pub(crate) number: i64,
}

/// `NODE=KEY:VALUE:EFFECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeTaint {
    pub(crate) nodes: NodeChoice,
    pub(crate) taint: Taint,
}

/// The actions, in the order in which they were given.
#[derive(Debug)]
pub(crate) struct Actions(pub(crate) Vec<GivenAction>);

/// The flags of the actions.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Actions")]
struct Flags {
    /// Add these manifests, or replace what has the same name; - is standard input
    ///
    /// A Deployment, ReplicaSet, StatefulSet, ReplicationController or Job stands for its pods, which replace those that it
    /// has.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    apply: Vec<PathBuf>,

    /// Delete an object for good, such as pod/shop/web-0 or node/n1: a pod is not made again
    #[arg(long, value_name = "KIND/[NAMESPACE/]NAME", value_parser = object_name)]
    delete: Vec<ObjectName>,

    /// Delete pods by their labels, for good
    #[arg(long, value_name = "NAMESPACE/KEY=VALUE,...", value_parser = labelled_pods)]
    delete_pods: Vec<LabelledPods>,

    /// Give a controller, such as a Deployment, so many pods
    #[arg(long, value_name = "NAMESPACE/NAME=N", value_parser = replicas)]
    scale: Vec<ObjectNumber>,

    /// Cordon a node and evict its pods; with a label, all nodes that have it
    #[arg(long, value_name = "NODE|KEY=VALUE", value_parser = node_choice)]
    drain: Vec<NodeChoice>,

    /// Cordon a node, or all nodes with a label
    #[arg(long, value_name = "NODE|KEY=VALUE", value_parser = node_choice)]
    cordon: Vec<NodeChoice>,

    /// Uncordon a node, or all nodes with a label
    #[arg(long, value_name = "NODE|KEY=VALUE", value_parser = node_choice)]
    uncordon: Vec<NodeChoice>,

    /// Lose a node, or all nodes with a label, such as topology.kubernetes.io/zone=a
    #[arg(long, value_name = "NODE|KEY=VALUE", value_parser = node_choice)]
    lose: Vec<NodeChoice>,

    /// Add N nodes like the one that the next --like names
    #[arg(long, value_name = "N", requires = "like")]
    add_nodes: Vec<usize>,

    /// The model of the nodes of --add-nodes: a node of the cluster, or a file with the manifest of one
    #[arg(long, value_name = "NODE|FILE", requires = "add_nodes")]
    like: Vec<String>,

    /// Give a node, or all nodes with a label, a taint; with NoExecute, pods that do not tolerate it are evicted
    #[arg(long, value_name = "NODE=KEY:VALUE:EFFECT", value_parser = node_taint)]
    taint: Vec<NodeTaint>,

    /// Give a pod, or the pods of a controller, this priority
    #[arg(long, value_name = "NAMESPACE/NAME=N", value_parser = object_number)]
    priority: Vec<ObjectNumber>,
}

/// Adds the actions of one flag, each with its place on the line.
fn add<T>(
    to: &mut Vec<(usize, GivenAction)>,
    places: Vec<usize>,
    values: Vec<T>,
    action: impl Fn(T) -> GivenAction,
) {
    to.extend(places.into_iter().zip(values.into_iter().map(action)));
}

impl FromArgMatches for Actions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = Flags::from_arg_matches(matches)?;
        let mut actions: Vec<(usize, GivenAction)> = Vec::new();
        let places = |flag: &str| -> Vec<usize> {
            matches.indices_of(flag).map(Iterator::collect).unwrap_or_default()
        };
        add(&mut actions, places("apply"), flags.apply, GivenAction::Apply);
        add(&mut actions, places("delete"), flags.delete, GivenAction::Delete);
        add(&mut actions, places("delete_pods"), flags.delete_pods, GivenAction::DeletePods);
        add(&mut actions, places("scale"), flags.scale, GivenAction::Scale);
        add(&mut actions, places("drain"), flags.drain, GivenAction::Drain);
        add(&mut actions, places("cordon"), flags.cordon, GivenAction::Cordon);
        add(&mut actions, places("uncordon"), flags.uncordon, GivenAction::Uncordon);
        add(&mut actions, places("lose"), flags.lose, GivenAction::Lose);
        add(&mut actions, places("taint"), flags.taint, GivenAction::Taint);
        add(&mut actions, places("priority"), flags.priority, GivenAction::Priority);
        if flags.add_nodes.len() != flags.like.len() {
            let message = "give each --add-nodes its own --like: --add-nodes 2 --like node-7\n";
            return Err(clap::Error::raw(clap::error::ErrorKind::WrongNumberOfValues, message));
        }
        let pairs: Vec<_> = flags.add_nodes.into_iter().zip(flags.like).collect();
        add(&mut actions, places("add_nodes"), pairs, |(n, like)| GivenAction::AddNodes {
            n,
            like,
        });
        actions.sort_by_key(|(place, _)| *place);
        Ok(Actions(actions.into_iter().map(|(_, action)| action).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Actions {
    fn augment_args(command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args_for_update(command)
    }
}

fn key(text: &str) -> Option<ObjectKey> {
    let (namespace, name) = text.split_once('/')?;
    let is_key = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    is_key.then(|| ObjectKey::new(namespace, name))
}

pub(crate) fn object_name(text: &str) -> Result<ObjectName, &'static str> {
    let wrong =
        "write KIND/NAMESPACE/NAME, or KIND/NAME for an object of the cluster such as a node";
    let (kind, rest) = text.split_once('/').ok_or(wrong)?;
    let key = match rest.contains('/') {
        true => key(rest).ok_or(wrong)?,
        false => ObjectKey::new("", rest),
    };
    if kind.is_empty() || key.name.is_empty() {
        return Err(wrong);
    }
    Ok(ObjectName { kind: kind.to_owned(), key })
}

pub(crate) fn labelled_pods(text: &str) -> Result<LabelledPods, &'static str> {
    let wrong = "write NAMESPACE/KEY=VALUE, with more labels after commas";
    let (namespace, labels) = text.split_once('/').ok_or(wrong)?;
    let labels =
        labels.split(',').map(|label| label.split_once('=').filter(|(key, _)| !key.is_empty()));
    let labels: Vec<(&str, &str)> = labels.collect::<Option<_>>().ok_or(wrong)?;
    if namespace.is_empty() {
        return Err(wrong);
    }
    Ok(LabelledPods { namespace: namespace.into(), labels: Labels::from_iter(labels) })
}

pub(crate) fn object_number(text: &str) -> Result<ObjectNumber, &'static str> {
    let wrong = "write NAMESPACE/NAME=N";
    let (object, number) = text.rsplit_once('=').ok_or(wrong)?;
    let number: i32 = number.parse().map_err(|_| wrong)?;
    Ok(ObjectNumber { key: key(object).ok_or(wrong)?, number: number.into() })
}

pub(crate) fn replicas(text: &str) -> Result<ObjectNumber, &'static str> {
    let scaled = object_number(text)?;
    if scaled.number < 0 {
        return Err("a controller cannot have less than 0 pods");
    }
    Ok(scaled)
}

pub(crate) fn node_choice(text: &str) -> Result<NodeChoice, &'static str> {
    match text.split_once('=') {
        _ if text.is_empty() => Err("write the name of a node, or KEY=VALUE"),
        Some(("", _)) => Err("write the name of a node, or KEY=VALUE"),
        Some((key, value)) => Ok(NodeChoice::Label(key.into(), value.into())),
        None => Ok(NodeChoice::Name(text.into())),
    }
}

pub(crate) fn node_taint(text: &str) -> Result<NodeTaint, &'static str> {
    let wrong = "write NODE=KEY:VALUE:EFFECT; EFFECT is NoSchedule, PreferNoSchedule or NoExecute";
    let (nodes, taint) = text.rsplit_once('=').ok_or(wrong)?;
    let (key, rest) = taint.split_once(':').ok_or(wrong)?;
    let (value, effect) = rest.split_once(':').unwrap_or(("", rest));
    let effect = match effect {
        "NoSchedule" => Effect::NoSchedule,
        "PreferNoSchedule" => Effect::PreferNoSchedule,
        "NoExecute" => Effect::NoExecute,
        _ => return Err(wrong),
    };
    if key.is_empty() {
        return Err(wrong);
    }
    let taint = Taint { key: key.into(), value: value.into(), effect };
    Ok(NodeTaint { nodes: node_choice(nodes)?, taint })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn actions(line: &str) -> Result<Vec<GivenAction>, String> {
        let line =
            ["plimsoll", "what-if", "-f", "a.yaml"].into_iter().chain(line.split_whitespace());
        match Args::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::WhatIf(args) => Ok(args.actions.0),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn actions_are_carried_out_in_the_order_of_the_line() {
        let node = |name: &str| NodeChoice::Name(name.into());
        assert_eq!(
            actions(
                "--drain n2 --add-nodes 3 --like n1 --drain n1 --apply x --add-nodes 1 --like y"
            ),
            Ok(vec![
                GivenAction::Drain(node("n2")),
                GivenAction::AddNodes { n: 3, like: "n1".to_owned() },
                GivenAction::Drain(node("n1")),
                GivenAction::Apply("x".into()),
                GivenAction::AddNodes { n: 1, like: "y".to_owned() },
            ])
        );
    }

    #[test]
    fn values_are_read_as_their_help_says() {
        let one = |line: &str| actions(line).map(|mut actions| actions.remove(0));
        let zone = NodeChoice::Label("zone".into(), "a".into());
        assert_eq!(one("--lose zone=a"), Ok(GivenAction::Lose(zone.clone())));
        let taint = Taint { key: "k".into(), value: "v".into(), effect: Effect::NoExecute };
        assert_eq!(
            one("--taint zone=a=k:v:NoExecute"),
            Ok(GivenAction::Taint(NodeTaint { nodes: zone, taint }))
        );
        let key = ObjectKey::new("shop", "web");
        assert_eq!(
            one("--scale shop/web=40"),
            Ok(GivenAction::Scale(ObjectNumber { key: key.clone(), number: 40 }))
        );
        assert_eq!(
            one("--priority shop/web=-5"),
            Ok(GivenAction::Priority(ObjectNumber { key, number: -5 }))
        );
        let labels = Labels::from_iter([("app", "web"), ("tier", "front")]);
        assert_eq!(
            one("--delete-pods shop/app=web,tier=front"),
            Ok(GivenAction::DeletePods(LabelledPods { namespace: "shop".into(), labels }))
        );
    }

    #[test]
    fn a_wrong_value_is_refused_with_what_to_write() {
        for (line, remedy) in [
            ("--scale web=3", "write NAMESPACE/NAME=N"),
            ("--scale shop/web=-1", "less than 0 pods"),
            ("--taint n1=k:v:Never", "EFFECT is NoSchedule"),
            ("--delete web-0", "KIND/NAMESPACE/NAME"),
            ("--delete-pods shop/app", "write NAMESPACE/KEY=VALUE"),
            ("--drain =a", "name of a node"),
            ("--add-nodes 2 --add-nodes 1 --like n1", "its own --like"),
            ("--add-nodes 2", "--like"),
        ] {
            let error = actions(line).expect_err(line);
            assert!(error.contains(remedy), "{line}: {error}");
        }
    }
}
