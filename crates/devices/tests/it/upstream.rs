//! What upstream's own tests of the allocator expect, from its `allocator_testing.go`. The facts of each case are in
//! `data/upstream.txt`, under the name that it has there. Claims are in a namespace here, and results are in the
//! order of the search, which upstream's tests do not compare.

use crate::scenario::check;

const CASES: &str = include_str!("../data/upstream.txt");

#[test]
fn the_cases_of_upstream_have_the_results_that_it_expects() {
    let (common, cases) = CASES.split_once("# ").expect("there are cases");
    let mut count = 0;
    for case in cases.split("\n# ") {
        let (_, inside) = case.split_once('\n').expect("a case has a name");
        check(&format!("{common}\n{inside}"));
        count += 1;
    }
    // A case that is lost by a mistake in the file would not be missed otherwise.
    assert_eq!(count, 73);
}
