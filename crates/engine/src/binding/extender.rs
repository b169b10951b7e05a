//! Binding by an extender.

use super::{BindingCycle, BindingHandle, BindingProgress, BindingStage, Unbound};
use crate::effect::Write;
use crate::extenders::{Call, ExtenderId, ExtenderQuestion};
use crate::metrics::{MeteredPoint, Status};

impl BindingCycle {
    /// As in schedule_one.go, bind: an extender goes before the plugins.
    pub(super) fn bind(&mut self, engine: &mut BindingHandle<'_>) -> BindingProgress {
        self.lap = engine.stage_over(MeteredPoint::PreBind, Status::Success, self.lap);
        let Some(extender) = engine.extenders.binder(&self.pod) else {
            return self.bind_by_plugin(engine);
        };
        let question = ExtenderQuestion::Bind(self.node().clone());
        let effect = engine.write(&self.pod, Write::Extender(Call { extender, question }));
        self.stage = BindingStage::Extender { extender, effect };
        let patience = engine.extenders.get(extender).timeout + engine.write_timeout;
        self.deadline = Some(engine.backing.now + patience);
        BindingProgress::Waits
    }

    /// An extender has not bound the pod.
    pub(super) fn bind_without(
        &mut self,
        extender: ExtenderId,
        why: String,
        engine: &mut BindingHandle<'_>,
    ) -> BindingProgress {
        self.lap = engine.counts.start();
        match engine.extenders.get(extender).ignorable {
            true => self.bind_by_plugin(engine),
            false => BindingProgress::Failed(Unbound::Error(why)),
        }
    }
}
