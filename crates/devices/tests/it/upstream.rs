//! What upstream's own tests of the allocator expect, from its `allocator_testing.go`. The facts of each case are in
//! `data/upstream.txt` and the files beside it, under the name that it has there. Claims are in a namespace here, and
//! results are in the order of the search, which upstream's tests do not compare. `data/upstream_left_out.txt` lists the
//! other cases with the reason why they are left out.

use std::collections::BTreeSet;

use crate::scenario::check;

#[test]
fn the_cases_of_upstream_have_the_results_that_it_expects() {
    check_cases(include_str!("../data/upstream.txt"), 73);
}

#[test]
fn the_cases_of_the_first_half_of_its_table_have_the_results_that_it_expects() {
    check_cases(include_str!("../data/upstream_first.txt"), 60);
}

#[test]
fn the_cases_of_the_second_half_of_its_table_have_the_results_that_it_expects() {
    check_cases(include_str!("../data/upstream_second.txt"), 56);
}

/// Some came after 1.36.1, four of them with 1.37.
#[test]
fn the_cases_that_came_later_and_those_of_lists_that_are_off_have_the_results_that_it_expects() {
    check_cases(include_str!("../data/upstream_rest.txt"), 11);
}

#[test]
fn each_case_of_its_table_is_taken_over_or_left_out_for_a_reason() {
    let files = [
        include_str!("../data/upstream.txt"),
        include_str!("../data/upstream_first.txt"),
        include_str!("../data/upstream_second.txt"),
        include_str!("../data/upstream_rest.txt"),
    ];
    let cases =
        files.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("# "));
    let left_out = include_str!("../data/upstream_left_out.txt").lines();
    let left_out = left_out.filter_map(|line| line.strip_prefix("  "));
    let names: Vec<&str> = cases.chain(left_out).collect();
    assert_eq!(names.len(), 219);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 219, "a name occurs once");
}

/// Checks the cases of a file. What comes before the first case is common to all of them.
#[track_caller]
fn check_cases(text: &str, expected: usize) {
    let (common, cases) = text.split_once("# ").expect("there are cases");
    let mut count = 0;
    for case in cases.split("\n# ") {
        let (_, inside) = case.split_once('\n').expect("a case has a name");
        check(&format!("{common}\n{inside}"));
        count += 1;
    }
    // A case that is lost by a mistake in the file would not be missed otherwise.
    assert_eq!(count, expected);
}
