//! Why the API server refuses a selector of devices.

use plimsoll_cel::{Attributes, Expression, MAX_COST};

/// What the API server says about the expression of a selector that it refuses: it does not compile, or by its estimate it
/// may cost too much. `None` if the expression is fine. kube-scheduler reports the former only for pods that need the
/// device, and does not estimate. As in validation.go of resource.k8s.io, validateCELExpression.
///
/// An expression is fine, too, if the API server takes it with the feature gate `DRAListTypeAttributes`.
pub fn selector_fault(expression: &str) -> Option<String> {
    let compiled = Expression::compile(expression).or_else(|error| {
        Expression::compile_with(expression, Attributes::Lists).map_err(|_| error)
    });
    match compiled {
        Ok(compiled) if compiled.highest_cost() <= MAX_COST => None,
        Ok(compiled) => Some(format!(
            "Forbidden: too complex, exceeds cost limit: the API server refuses it, since it may cost {} and at most \
             {MAX_COST} are allowed; loop over less, or compare shorter texts",
            compiled.highest_cost()
        )),
        Err(error) => {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            Some(format!(
                "Invalid value: {first}: the API server refuses it, and pods that need it are not scheduled"
            ))
        }
    }
}
