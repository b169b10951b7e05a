//! v1alpha1, as releases up to 1.18 read it: one profile, whose fields are top-level.

use plimsoll_document::{FieldPath, Segment};

use super::v1alpha2;
use plimsoll_config::rules::{Refused, Rules};

pub(crate) const VERSION: &str = "kubescheduler.config.k8s.io/v1alpha1";
/// Its name before 1.12.
pub(crate) const OLD_VERSION: &str = "componentconfig/v1alpha1";

pub(super) fn rules() -> Rules {
    Rules {
        version: VERSION,
        refused: Refused { plugins: &[], since: VERSION, remedy: |_| "" },
        ..v1alpha2::rules()
    }
}

/// The field in a file of v1alpha1 that is read as the field at `path` of a profile.
pub(super) fn place(path: &FieldPath) -> FieldPath {
    let is = |segment: &Segment, name: &str| matches!(segment, Segment::Key(key) if key == name);
    match path.segments() {
        [profiles, Segment::Index(0), rest @ ..] if is(profiles, "profiles") => {
            let mut rest = rest.to_vec();
            // As in v1alpha1/zz_generated.conversion.go of 1.18: PostFilter, which followed filtering, is now called
            // PreScore.
            if let [plugins, point, ..] = rest.as_mut_slice()
                && is(plugins, "plugins")
                && is(point, "preScore")
            {
                *point = Segment::Key("postFilter".to_owned());
            }
            rest.into_iter().collect()
        }
        _ => path.clone(),
    }
}
