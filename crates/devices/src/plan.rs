//! The claims of a pod, prepared for the search.

use std::ops::Range;

use plimsoll_api::devices::{DeviceAsk, RequestKind};
use plimsoll_api::{DeviceClass, Quantity, ResourceClaim, Str};

use crate::constraint::{Picked, is_about};

/// A claim.
#[derive(Debug)]
pub(crate) struct ClaimPlan<'a> {
    pub(crate) claim: &'a ResourceClaim,
    pub(crate) requests: Vec<RequestPlan<'a>>,
}

/// A request.
#[derive(Debug)]
pub(crate) struct RequestPlan<'a> {
    pub(crate) name: &'a str,
    /// Which asks are its own: one, or one for each alternative. None if nothing is known about it.
    pub(crate) asks: Range<usize>,
    pub(crate) has_alternatives: bool,
}

/// A request, or an alternative of a request.
#[derive(Debug)]
pub(crate) struct AskPlan<'a> {
    /// The name of the request or of the alternative.
    pub(crate) name: &'a str,
    /// The name of the request.
    pub(crate) request: &'a str,
    /// The name in results: `REQUEST` or `REQUEST/SUBREQUEST`.
    pub(crate) full: Str,
    pub(crate) ask: &'a DeviceAsk,
    pub(crate) admin_access: bool,
    pub(crate) class: Option<&'a DeviceClass>,
    /// The constraints of the claim that are about it.
    pub(crate) constraints: Vec<usize>,
}

impl AskPlan<'_> {
    pub(crate) fn picked(&self) -> Picked<'_> {
        Picked { request: self.request, full: &self.full }
    }

    pub(crate) fn capacity(&self) -> Option<&[(Str, Quantity)]> {
        self.ask.capacity.as_deref()
    }
}

/// Prepares claims. The asks of all of them are in one list.
pub(crate) fn plans<'a, 'c: 'a>(
    claims: &[&'a ResourceClaim],
    classes: impl Fn(&str) -> Option<&'c DeviceClass>,
) -> (Vec<ClaimPlan<'a>>, Vec<AskPlan<'a>>) {
    let mut asks: Vec<AskPlan<'a>> = Vec::new();
    let mut plans = Vec::with_capacity(claims.len());
    for &claim in claims {
        let spec = &claim.spec;
        let mut add = |ask: &'a DeviceAsk, request: &'a str, alternative, admin_access| {
            let (name, full) = match alternative {
                None => (request, Str::from(request)),
                Some(name) => (name, Str::from(format!("{request}/{name}"))),
            };
            let picked = Picked { request, full: &full };
            let constraints = spec.constraints.iter().enumerate();
            let constraints = constraints.filter(|(_, one)| is_about(&one.requests, picked));
            let constraints = constraints.map(|(index, _)| index).collect();
            let class = classes(&ask.class);
            asks.push(AskPlan { name, request, full, ask, admin_access, class, constraints });
            asks.len()
        };
        let mut end = None;
        let mut requests = Vec::with_capacity(spec.requests.len());
        for request in &spec.requests {
            let name = request.name.as_str();
            let mut count = 0;
            let has_alternatives = match &request.kind {
                RequestKind::Unknown => false,
                RequestKind::Exactly { ask, admin_access } => {
                    end = Some(add(ask, name, None, *admin_access == Some(true)));
                    count = 1;
                    false
                }
                RequestKind::FirstAvailable(all) => {
                    for one in all {
                        end = Some(add(&one.ask, name, Some(one.name.as_str()), false));
                        count += 1;
                    }
                    true
                }
            };
            let end = end.unwrap_or_default();
            requests.push(RequestPlan { name, asks: end - count..end, has_alternatives });
        }
        plans.push(ClaimPlan { claim, requests });
    }
    (plans, asks)
}
