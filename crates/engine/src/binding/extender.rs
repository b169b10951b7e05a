//! Binding by an extender.

use super::{BindingCycle, Desk, Moved, Stage, Unbound};
use crate::effect::Write;
use crate::extenders::{Call, ExtenderId, Question};
use crate::metrics::{MeteredPoint, Status};

impl BindingCycle {
    /// As in schedule_one.go, bind: an extender goes before the plugins.
    pub(super) fn bind(&mut self, desk: &mut Desk<'_>) -> Moved {
        self.lap = desk.stage_over(MeteredPoint::PreBind, Status::Success, self.lap);
        let Some(extender) = desk.extenders.binder(&self.pod) else {
            return self.bind_by_plugin(desk);
        };
        let question = Question::Bind(self.node().clone());
        let effect = desk.write(&self.pod, Write::Extender(Call { extender, question }));
        self.stage = Stage::Extender { extender, effect };
        let patience = desk.extenders.get(extender).timeout + desk.write_timeout;
        self.deadline = Some(desk.backing.now + patience);
        Moved::Waits
    }

    /// An extender has not bound the pod.
    pub(super) fn bind_without(
        &mut self,
        extender: ExtenderId,
        why: String,
        desk: &mut Desk<'_>,
    ) -> Moved {
        self.lap = desk.counts.start();
        match desk.extenders.get(extender).ignorable {
            true => self.bind_by_plugin(desk),
            false => Moved::Failed(Unbound::Error(why)),
        }
    }
}
