//! Prints which pods should move.

use std::io::{self, Write};

use plimsoll_sim::{RebalancePlan, RebalanceStep};

use super::style::{GOOD, HEADING, Screen};
use crate::wording::{count, some_of};

/// At most so many nodes are named in one line.
const NAMES: usize = 10;

/// Prints the plan.
pub(crate) fn plan(out: &mut impl Write, plan: &RebalancePlan, screen: Screen) -> io::Result<()> {
    if plan.steps.is_empty() {
        writeln!(out, "No move would help.\n")?;
    } else {
        let (total, shown) = (plan.steps.len(), screen.shown(plan.steps.len()));
        let mut table = screen.table(&[">STEP", "DO", "FROM", "TO", "WHY"]);
        for (at, step) in plan.steps.iter().take(shown).enumerate() {
            let number = (at + 1).to_string();
            table.add_row(match step {
                RebalanceStep::Cordon { cordon } => [
                    number,
                    format!("cordon {cordon}"),
                    String::new(),
                    String::new(),
                    format!("to free {cordon}"),
                ],
                RebalanceStep::Move(one) => [
                    number,
                    format!("evict {}", one.pod),
                    one.from.to_string(),
                    one.to.to_string(),
                    one.why.clone(),
                ],
            });
        }
        let n = count(plan.moves().count(), "move");
        writeln!(out, "{HEADING}{n}{HEADING:#}, one after the other\n\n{}", table.trim_fmt())?;
        if shown < total {
            writeln!(out, "... and {} more; -o json prints all", total - shown)?;
        }
        writeln!(out)?;
    }
    if !plan.freed.is_empty() {
        let n = count(plan.freed.len(), "node");
        writeln!(out, "{GOOD}Free{GOOD:#} {n} ({})\n", some_of(&plan.freed, NAMES))?;
    }
    if !plan.spread.is_empty() {
        let mut table = screen.table(&["CONTROLLER", "OVER", ">MAX SKEW", ">BEFORE", ">AFTER"]);
        for one in plan.spread.iter().take(screen.shown(plan.spread.len())) {
            table.add_row([
                one.of.clone(),
                one.key.to_string(),
                one.max_skew.to_string(),
                one.before.to_string(),
                one.after.to_string(),
            ]);
        }
        writeln!(out, "{HEADING}Spread{HEADING:#}\n\n{}\n", table.trim_fmt())?;
    }
    for used in &plan.budgets {
        writeln!(
            out,
            "Budget {}: {} of the {} that it allows now",
            used.budget,
            count(used.used, "eviction"),
            used.allowed
        )?;
    }
    if 0 < plan.pending {
        writeln!(out, "{} fit nowhere, before and after", count(plan.pending, "pod"))?;
    }
    writeln!(out, "{}", count(plan.decisions, "decision"))
}
