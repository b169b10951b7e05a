//! PostFilter: what can be done about a pod for which there is no node.

use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{Point, PostFilterAnswer};

use super::AttemptFailure;
use crate::metrics::{CycleMeter, Lap, MeteredPoint, Status};
use crate::profile::Profile;

/// The run of the PostFilter plugins about one failure. It can stop at a plugin and go on there.
///
/// As in runtime/framework.go, RunPostFilterPlugins: the messages of unsuccessful plugins are joined. The
/// recorded decisions contain only the error of a plugin, while events and conditions contain it after
/// the reasons of the nodes.
pub(crate) struct PostFilterRun {
    failure: AttemptFailure,
    /// The messages so far.
    said: Vec<String>,
    /// How many plugins have answered.
    n_asked: usize,
    /// When it began, and when the plugin that is being asked began. As in kube-scheduler, the time in
    /// which extenders think about candidates belongs to the plugin.
    began: Option<Lap>,
    plugin_began: Option<Lap>,
}

impl PostFilterRun {
    /// A run about `failure`.
    pub(crate) fn new(failure: AttemptFailure) -> Self {
        PostFilterRun { failure, said: Vec::new(), n_asked: 0, began: None, plugin_began: None }
    }

    /// The failure, without asking any plugin.
    pub(crate) fn unasked(&mut self) -> AttemptFailure {
        std::mem::take(&mut self.failure)
    }

    /// Asks the remaining plugins through `ask`, and returns the failure with their answers. If `ask`
    /// fails, the run stops, and goes on with the same plugin when this is called again.
    pub(crate) fn go_on<E>(
        &mut self,
        profile: &Profile,
        meter: &mut CycleMeter,
        mut ask: impl FnMut(&'static str, &PostFilterPoint) -> Result<PostFilterAnswer, E>,
    ) -> Result<AttemptFailure, E> {
        let began = *self.began.get_or_insert_with(|| meter.start());
        for (plugin, _) in profile.at(Point::PostFilter).skip(self.n_asked) {
            if let Some(point) = &plugin.points.post_filter {
                let lap = *self.plugin_began.get_or_insert_with(|| meter.start_plugin());
                let answer = ask(plugin.name, point)?;
                self.plugin_began = None;
                meter.plugin(plugin.name, MeteredPoint::PostFilter, status_of(&answer), lap, 1);
                if self.failure.take_in(plugin.name, answer, &mut self.said).is_break() {
                    break;
                }
            }
            self.n_asked += 1;
        }
        let status = match self.failure.nomination {
            Some(_) => Status::Success,
            None => Status::Unschedulable,
        };
        if profile.at(Point::PostFilter).next().is_some() {
            meter.stage(MeteredPoint::PostFilter, status, began);
        }
        let mut failure = std::mem::take(&mut self.failure);
        failure.conclude(profile, std::mem::take(&mut self.said));
        Ok(failure)
    }
}

fn status_of(answer: &PostFilterAnswer) -> Status {
    match answer {
        PostFilterAnswer::Nominated(_) => Status::Success,
        PostFilterAnswer::Unschedulable(_) => Status::Unschedulable,
        PostFilterAnswer::Hopeless(_) | PostFilterAnswer::Stop(_) => Status::Unresolvable,
        PostFilterAnswer::Error(_) => Status::Error,
    }
}
