//! A piecewise linear function of utilization, as args contain it.

use serde::{Deserialize, Serialize};

use super::messages;

/// One point of such a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct UtilizationShapePoint {
    /// How full, in percent: 0 to 100.
    pub utilization: i32,
    /// The score there: 0 to 10.
    pub score: i32,
}

/// Reports what is wrong with a function of these points. `report` is given the index and the field of the point,
/// if it is about one, and the message. As in validation_pluginargs.go, validateFunctionShape.
pub fn validate(
    points: &[UtilizationShapePoint],
    mut report: impl FnMut(Option<(usize, &'static str)>, String),
) {
    if points.is_empty() {
        report(None, messages::required("at least one point must be specified"));
        return;
    }
    let disorder = points.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization);
    if let Some(position) = disorder {
        let index = position + 1;
        let rule = "values must be sorted in increasing order";
        let message = messages::invalid(points[index].utilization, rule);
        report(Some((index, "utilization")), message);
    }
    for (index, point) in points.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let message = messages::invalid(point.utilization, "not in valid range [0, 100]");
            report(Some((index, "utilization")), message);
        }
        if !(0..=10).contains(&point.score) {
            let message = messages::invalid(point.score, "not in valid range [0, 10]");
            report(Some((index, "score")), message);
        }
    }
}
