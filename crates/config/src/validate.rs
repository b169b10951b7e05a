//! Which configurations are valid.
//!
//! As in pkg/scheduler/apis/config/validation/validation.go and component-base/config/validation.

use plimsoll_document::FieldPath;

use crate::args::Args;
use crate::catalogue::{Catalogue, Point};
use crate::extenders;
use crate::faults::Faults;
use crate::profile::Draft;
use crate::rules::Rules;
use crate::types::{KubeSchedulerConfiguration, LeaderElection, PluginSet};

/// Reports what is invalid in a defaulted configuration with these profiles.
pub(crate) fn validate(
    configuration: &KubeSchedulerConfiguration,
    drafts: &[Draft<'_>],
    rules: &Rules,
    catalogue: &Catalogue,
    faults: &mut Faults<'_>,
) {
    let root = FieldPath::root();
    let burst = configuration.client_connection.burst;
    if burst < 0 {
        faults.invalid(root.key("clientConnection").key("burst"), burst, "must be non-negative");
    }
    leader_election(&configuration.leader_election, rules, faults);
    let parallelism = configuration.parallelism.unwrap_or_default();
    if parallelism <= 0 {
        let rule = "should be an integer value greater than zero";
        faults.invalid(root.key("parallelism"), parallelism, rule);
    }
    percentage(configuration.percentage_of_nodes_to_score, &root, faults);
    let initial = configuration.pod_initial_backoff_seconds.unwrap_or_default();
    if initial <= 0 {
        let field = root.key("podInitialBackoffSeconds");
        faults.invalid(field, initial, "must be greater than 0");
    }
    let longest = configuration.pod_max_backoff_seconds.unwrap_or_default();
    if longest < initial {
        let rule = "must be greater than or equal to PodInitialBackoffSeconds";
        faults.invalid(root.key("podMaxBackoffSeconds"), longest, rule);
    }
    for (index, draft) in drafts.iter().enumerate() {
        profile(draft, rules, catalogue, faults);
        // As upstream, the error names the last profile before it with the same name.
        let name = draft.scheduler_name();
        let earlier = drafts[..index].iter().rfind(|other| other.scheduler_name() == name);
        if let Some(earlier) = earlier {
            let value = earlier.field.key("schedulerName");
            let message = format!("Duplicate value: {value}");
            faults.report(draft.field.key("schedulerName"), message);
        }
    }
    common_queue_sort(drafts, faults);
    extenders::validate(&configuration.extenders, faults);
}

fn leader_election(election: &LeaderElection, rules: &Rules, faults: &mut Faults<'_>) {
    if election.leader_elect != Some(true) {
        return;
    }
    let field = FieldPath::root().key("leaderElection");
    for (name, duration) in [
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ] {
        if duration.nanoseconds <= 0 {
            faults.invalid_shown(field.key(name), duration, "must be greater than zero");
        }
    }
    if election.lease_duration <= election.renew_deadline {
        // Upstream also shows the value of the other field here.
        let rule = "must be greater than `RenewDeadline`";
        faults.invalid_shown(field.key("leaseDuration"), election.renew_deadline, rule);
    }
    if !rules.locks.contains(&election.resource_lock.as_str()) {
        let rule = "resourceLock value must be \"leases\"";
        faults.invalid(field.key("resourceLock"), &election.resource_lock, rule);
    }
}

fn percentage(percentage: Option<i32>, parent: &FieldPath, faults: &mut Faults<'_>) {
    if let Some(percentage) = percentage.filter(|percentage| !(0..=100).contains(percentage)) {
        let field = parent.key("percentageOfNodesToScore");
        faults.invalid(field, percentage, "not in valid range [0-100]");
    }
}

fn profile(draft: &Draft<'_>, rules: &Rules, catalogue: &Catalogue, faults: &mut Faults<'_>) {
    if draft.scheduler_name().is_empty() {
        faults.required(draft.field.key("schedulerName"), "");
    }
    percentage(draft.profile.percentage_of_nodes_to_score, &draft.field, faults);
    for point in Point::ALL {
        let field = draft.field.key("plugins").key(point.key()).key("enabled");
        for (index, plugin) in draft.plugins.at(point).enabled.iter().enumerate() {
            if rules.refuses_at(point, &plugin.name) {
                refuse(&plugin.name, field.index(index), rules, faults);
            }
        }
    }
    conflicts(draft, rules, catalogue, faults);
    for (index, config) in draft.profile.plugin_config.iter().enumerate() {
        let field = draft.field.key("pluginConfig").index(index);
        let name = config.name.as_str();
        if draft.profile.plugin_config[..index].iter().any(|other| other.name == name) {
            faults.duplicate(field.clone(), name);
        }
        if rules.refused.plugins.contains(&name) {
            refuse(name, field, rules, faults);
            continue;
        }
        let Some(args) = draft.args.get(index).and_then(Option::as_ref) else {
            continue;
        };
        // Upstream validates the args of its own plugins even if the plugins are not created, but looks for those of
        // NodeResourcesFit under a wrong name. Other plugins validate their args when they are created.
        let is_seen = matches!(args, Args::Complete(_)) && name != "NodeResourcesFit";
        if is_seen || draft.needs(name) {
            args.validate(name, &field.key("args"), catalogue, faults);
        }
    }
}

fn refuse(name: &str, field: FieldPath, rules: &Rules, faults: &mut Faults<'_>) {
    let rule = format!(
        "was invalid in version {:?} (KubeSchedulerConfiguration is version {:?}){}",
        rules.refused.since,
        rules.version,
        (rules.refused.remedy)(name)
    );
    faults.invalid(field, name, &rule);
}

/// As in validation.go of 1.22, validateScorePluginSetForConflictPlugins.
fn conflicts(draft: &Draft<'_>, rules: &Rules, catalogue: &Catalogue, faults: &mut Faults<'_>) {
    let scores = draft.enabled_at(catalogue, Point::Score);
    let in_conflict = scores.iter().map(|plugin| plugin.name);
    let in_conflict: Vec<_> = in_conflict.filter(|name| rules.in_conflict.contains(name)).collect();
    let field = draft.field.key("plugins").key(Point::Score.key()).key("enabled");
    let enabled = &draft.plugins.score.enabled;
    let fit = enabled.iter().position(|plugin| plugin.name == "NodeResourcesFit");
    if let Some(index) = fit
        && !in_conflict.is_empty()
    {
        let version = rules.version;
        let rule = format!(
            "was conflict with {in_conflict:?} in version {version:?} (KubeSchedulerConfiguration \
             is version {version:?}): disable those at score"
        );
        faults.invalid(field.index(index), "NodeResourcesFit", &rule);
    }
}

/// All profiles share one queue, so they must agree on its order.
///
/// As in validation.go, validateCommonQueueSort.
fn common_queue_sort(drafts: &[Draft<'_>], faults: &mut Faults<'_>) {
    let Some((first, others)) = drafts.split_first() else {
        return;
    };
    let canon = &first.plugins.queue_sort;
    let count = canon.enabled.len();
    if 1 < count {
        let field = first.field.key("plugins").key("queueSort").key("Enabled");
        faults.invalid(field, count, "only one queue sort plugin can be enabled");
    }
    let name = canon.enabled.first().map(|plugin| plugin.name.as_str());
    let args_of = |draft: &Draft<'_>| {
        let position = draft.profile.plugin_config.iter().rposition(|c| Some(&*c.name) == name)?;
        draft.args.get(position).cloned().flatten()
    };
    let canon_args = args_of(first);
    for draft in others {
        let current = &draft.plugins.queue_sort;
        if !is_same(canon, current) {
            let field = draft.field.key("plugins").key("queueSort");
            faults.invalid(field, current, "must be the same for all profiles");
        }
        let is_configured = draft.profile.plugin_config.iter().any(|c| Some(&*c.name) == name);
        if is_configured && args_of(draft) != canon_args {
            let field = draft.field.key("pluginConfig").key("args");
            let args = args_of(draft).map(|args| args.to_value());
            faults.invalid(field, args, "queueSort must be the same for all profiles");
        }
    }
}

/// Whether two sets are equal; an absent weight is a weight of 0.
fn is_same(one: &PluginSet, other: &PluginSet) -> bool {
    let enabled = |set: &PluginSet| -> Vec<(String, i32)> {
        set.enabled.iter().map(|p| (p.name.clone(), p.weight.unwrap_or_default())).collect()
    };
    let disabled = |set: &PluginSet| -> Vec<String> {
        set.disabled.iter().map(|plugin| plugin.name.clone()).collect()
    };
    enabled(one) == enabled(other) && disabled(one) == disabled(other)
}
