//! For fuzz targets: answers of extenders.

use plimsoll_engine::ExtenderQuestion;

use super::response::{AskedExtender, read};

/// The answer of an extender to each question that it can be asked.
pub fn answer(input: &[u8]) {
    let nodes = || ["a".into(), "b".into()].into();
    for node_cache_capable in [false, true] {
        let extender = AskedExtender { url_prefix: "http://127.0.0.1", node_cache_capable };
        for question in [
            ExtenderQuestion::Filter(nodes()),
            ExtenderQuestion::Prioritize(nodes()),
            ExtenderQuestion::Preempt([].into()),
            ExtenderQuestion::Bind("a".into()),
        ] {
            drop(read(extender, &question, input));
        }
    }
}
