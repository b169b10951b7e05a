//! The report of a shadow, as the page asks for it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::question::ShadowQuestion;

/// The namespaces of the pods that a report names.
pub fn report_namespaces(report: &Value) -> BTreeSet<String> {
    let named =
        list(&report["disagreements"]).chain(list(&report["betweenConfigurations"]["examples"]));
    named.filter_map(namespace).map(str::to_owned).collect()
}

/// A report with those of the disagreements that a question asks for, the latest first. `total` says how many of them there
/// are. Only pods of namespaces for which `shows` is true are named; `withheld` says how many disagreements are left out for
/// that.
pub fn part_of_report(
    mut report: Value,
    question: &ShadowQuestion,
    shows: &dyn Fn(&str) -> bool,
) -> Value {
    let is_shown = |one: &Value| namespace(one).is_none_or(shows);
    let examples = report.pointer_mut("/betweenConfigurations/examples");
    if let Some(examples) = examples.and_then(Value::as_array_mut) {
        examples.retain(is_shown);
    }
    let all = match report["disagreements"].take() {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    let n_all = all.len();
    let may_be_told: Vec<Value> = all.into_iter().filter(is_shown).collect();
    let withheld = n_all - may_be_told.len();
    let asked = may_be_told.into_iter().rev().filter(|one| is_asked(one, question));
    let asked: Vec<Value> = asked.collect();
    let total = asked.len();
    let part: Vec<Value> = asked.into_iter().skip(question.from).take(question.limit).collect();
    report["disagreements"] = part.into();
    report["total"] = json!(total);
    report["from"] = json!(question.from);
    report["withheld"] = json!(withheld);
    report
}

fn is_asked(one: &Value, question: &ShadowQuestion) -> bool {
    let kind = one["kind"].as_str().unwrap_or_default();
    let is_kind = question.kinds.is_empty() || question.kinds.iter().any(|asked| asked == kind);
    is_kind
        && question.search.as_ref().is_none_or(|text| {
            let names = [&one["pod"], &one["theirs"]].into_iter().chain(list(&one["ours"]));
            names.filter_map(Value::as_str).any(|name| name.contains(text.as_str()))
        })
}

/// The namespace of the pod that a disagreement is about.
fn namespace(one: &Value) -> Option<&str> {
    one["pod"].as_str()?.split_once('/').map(|(namespace, _)| namespace)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Value {
        let one = |number: u64, pod: &str, kind: &str, node: &str| json!({"number": number, "pod": pod, "kind": kind, "theirs": node, "ours": ["n9"]});
        json!({
            "seconds": 7,
            "disagreements": [
                one(1, "shop/web-0", "worse", "n1"),
                one(2, "pay/card-0", "worse", "n2"),
                one(3, "shop/web-1", "infeasible", "n3"),
            ],
        })
    }

    fn numbers(part: &Value) -> Vec<u64> {
        list(&part["disagreements"]).filter_map(|one| one["number"].as_u64()).collect()
    }

    fn question(change: impl FnOnce(&mut ShadowQuestion)) -> ShadowQuestion {
        let mut question = ShadowQuestion { limit: 100, ..ShadowQuestion::default() };
        change(&mut question);
        question
    }

    #[test]
    fn the_latest_come_first_and_a_part_is_counted_out_of_all() {
        let all = part_of_report(report(), &question(|_| ()), &|_| true);
        assert_eq!((numbers(&all), &all["total"]), (vec![3, 2, 1], &json!(3)));
        assert_eq!(all["seconds"], 7);
        assert!(all.get("betweenConfigurations").is_none());
        let asked = question(|asked| (asked.from, asked.limit) = (1, 1));
        let part = part_of_report(report(), &asked, &|_| true);
        assert_eq!(
            (numbers(&part), &part["total"], &part["from"]),
            (vec![2], &json!(3), &json!(1))
        );
    }

    #[test]
    fn kinds_and_names_are_searched_for() {
        let asked = question(|asked| asked.kinds = vec!["infeasible".to_owned()]);
        assert_eq!(numbers(&part_of_report(report(), &asked, &|_| true)), [3]);
        for (text, expected) in
            [("web", vec![3, 1]), ("n2", vec![2]), ("n9", vec![3, 2, 1]), ("x", vec![])]
        {
            let asked = question(|asked| asked.search = Some(text.to_owned()));
            assert_eq!(numbers(&part_of_report(report(), &asked, &|_| true)), expected, "{text}");
        }
    }

    #[test]
    fn pods_that_may_not_be_listed_are_left_out_and_counted() {
        let mut report = report();
        report["betweenConfigurations"] =
            json!({"examples": [{"pod": "pay/card-0"}, {"pod": "shop/web-0"}]});
        let namespaces: Vec<String> = report_namespaces(&report).into_iter().collect();
        assert_eq!(namespaces, ["pay", "shop"]);
        let part = part_of_report(report, &question(|_| ()), &|namespace| namespace == "shop");
        assert_eq!((numbers(&part), &part["withheld"]), (vec![3, 1], &json!(1)));
        assert!(!part.to_string().contains("card"), "{part}");
    }
}
