//! The questions, as SQL. None reads all attempts: each finds its rows by an index, or reads a table in its own order and
//! stops after as many rows as are wanted.

/// The segments of the index of names, newest first.
macro_rules! segments {
    () => {
        "WITH RECURSIVE segments (last) AS (SELECT max(segment) FROM names UNION ALL SELECT (SELECT max(segment) FROM names WHERE \
         segment < last) FROM segments WHERE last IS NOT NULL)"
    };
}

/// The ids of the attempts of the pods with a name (bucket, name), and what else must be right: those that the index of names has,
/// and those that came later.
macro_rules! attempts_of {
    ($and:literal) => {
        concat!(
            segments!(),
            " SELECT attempts.id AS id FROM segments CROSS JOIN names CROSS JOIN json_each(names.attempts) AS one CROSS JOIN attempts \
             WHERE names.segment = segments.last AND names.bucket = ?1 AND attempts.id = one.value AND attempts.name = ?2 ",
            $and,
            " UNION ALL SELECT id FROM attempts WHERE (SELECT coalesce(max(segment), 0) FROM names) < id AND name = ?2 ",
            $and
        )
    };
}

/// The last attempts of a pod (bucket, name, namespace, number of rows), oldest first.
pub(crate) const HISTORY: &str = concat!(
    "SELECT * FROM history WHERE id IN (",
    attempts_of!("AND namespace = ?3"),
    " ORDER BY id DESC LIMIT ?4) ORDER BY id"
);

/// The last segment of the index of names before one (a number, a bucket), and the attempts that it has in a bucket.
pub(crate) const SEGMENT_BEFORE: &str = "SELECT last, (SELECT attempts FROM names WHERE segment = last AND bucket = ?2) FROM (SELECT \
     max(segment) AS last FROM names WHERE segment < ?1) AS segments";

/// The plugins that rejected a pod in an attempt.
pub(crate) const REJECTIONS: &str = "SELECT plugin.text, reason.text, nodes FROM rejections JOIN texts AS plugin ON plugin.id = \
     plugin LEFT JOIN texts AS reason ON reason.id = reason WHERE attempt = ?1 ORDER BY nodes DESC, plugin.text";

/// The best nodes of an attempt.
pub(crate) const SCORES: &str = "SELECT node.text, total, by_plugin FROM scores JOIN texts AS node ON node.id = node WHERE \
     attempt = ?1 ORDER BY rank";

/// The pods that an attempt chose to evict.
pub(crate) const VICTIMS: &str = "SELECT pod FROM victims WHERE attempt = ?1 ORDER BY pod";

/// The last preemptions (number of rows), newest first. Victims are in the order in which they were written.
pub(crate) const PREEMPTIONS: &str = "SELECT attempts.at AS at, victims.pod AS victim, attempts.namespace || '/' || attempts.name \
     AS preemptor, node.text AS node, attempts.id AS attempt FROM victims JOIN attempts ON attempts.id = victims.attempt LEFT JOIN \
     texts AS node ON node.id = attempts.nominated ORDER BY victims.rowid DESC LIMIT ?1";

/// The last preemptions with which a pod (bucket, name, namespace, both names) has to do (number of rows), newest first. By `OR` in
/// place of the union, SQLite would go through all attempts by time.
pub(crate) const PREEMPTIONS_OF_POD: &str = concat!(
    "SELECT attempts.at AS at, victims.pod AS victim, attempts.namespace || '/' || \
     attempts.name AS preemptor, node.text AS node, attempts.id AS attempt FROM victims JOIN attempts ON attempts.id = \
     victims.attempt LEFT JOIN texts AS node ON node.id = attempts.nominated WHERE victims.rowid IN (SELECT rowid FROM victims \
     WHERE pod = ?4 UNION SELECT rowid FROM victims WHERE attempt IN (",
    attempts_of!("AND namespace = ?3"),
    ")) ORDER BY attempts.at DESC LIMIT ?5"
);

/// The last preemptions for groups (number of rows), newest first.
pub(crate) const GROUP_PREEMPTIONS: &str = "SELECT made.at AS at, group_victims.pod AS victim, made.namespace || '/' || made.name AS \
     preemptor FROM group_victims JOIN group_attempts AS made ON made.id = group_victims.attempt ORDER BY group_victims.rowid DESC \
     LIMIT ?1";

/// The last preemptions for groups of which a pod, or a group, was the victim or the preemptor (name, namespace, name in it, number
/// of rows), newest first.
pub(crate) const GROUP_PREEMPTIONS_OF: &str = "SELECT made.at AS at, group_victims.pod AS victim, made.namespace || '/' || made.name \
     AS preemptor FROM group_victims JOIN group_attempts AS made ON made.id = group_victims.attempt WHERE group_victims.rowid IN \
     (SELECT rowid FROM group_victims WHERE pod = ?1 UNION SELECT chosen.rowid FROM group_attempts AS own JOIN group_victims AS chosen \
     ON chosen.attempt = own.id WHERE own.namespace = ?2 AND own.name = ?3) ORDER BY made.at DESC LIMIT ?4";

/// The last attempts to schedule a group (namespace, name, number of rows), oldest first.
pub(crate) const GROUP_HISTORY: &str = "SELECT made.*, message.text AS why, placement.text AS placed FROM (SELECT * FROM group_attempts \
     WHERE namespace = ?1 AND name = ?2 ORDER BY id DESC LIMIT ?3) AS made LEFT JOIN texts AS message ON message.id = made.message \
     LEFT JOIN texts AS placement ON placement.id = made.placement ORDER BY made.id";

/// The pods that an attempt to schedule a group chose to evict.
pub(crate) const GROUP_VICTIMS: &str =
    "SELECT pod FROM group_victims WHERE attempt = ?1 ORDER BY pod";

/// Whether there are groups: an earlier version wrote none.
pub(crate) const HAS_GROUPS: &str = "SELECT 1 FROM sqlite_schema WHERE name = 'group_attempts'";

/// A pod with its history in short (namespace, name, uid), if it has one.
pub(crate) const POD: &str = "SELECT * FROM pods WHERE namespace = ?1 AND name = ?2 AND uid = ?3";

/// The pods with a name in whatever namespace (bucket, name, number of rows).
pub(crate) const NAMESAKES: &str = concat!(
    "SELECT DISTINCT namespace || '/' || name FROM attempts WHERE id IN (",
    attempts_of!(""),
    ") ORDER BY 1 LIMIT ?3"
);

/// The pods that waited longest (number of rows), of those that the index has. SQLite uses an index over some of the rows only if
/// the condition is written as there.
pub(crate) const SLOWEST: &str = "SELECT * FROM pods WHERE (attempts > 1 OR waited >= 1000) AND waited IS NOT NULL ORDER BY waited \
     DESC LIMIT ?1";

/// The pods that were tried most often (number of rows).
pub(crate) const MOST_RETRIED: &str =
    "SELECT * FROM pods WHERE attempts > 1 ORDER BY attempts DESC LIMIT ?1";

/// The counts of the last hours (number of hours), oldest first.
pub(crate) const HOURS: &str = "SELECT hour, plugin, attempts FROM hours WHERE hour IN (SELECT DISTINCT hour FROM hours ORDER BY \
     hour DESC LIMIT ?1) ORDER BY hour";

/// The last losses (number of rows), newest first.
pub(crate) const LOSSES: &str = "SELECT at, entries FROM losses ORDER BY rowid DESC LIMIT ?1";

/// How many entries were lost. A row stands for a minute, so there are few.
pub(crate) const LOST: &str = "SELECT coalesce(sum(entries), 0) FROM losses";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::store::SCHEMA;

    /// What SQLite would do for a question, a line a step.
    fn plan(question: &str) -> Vec<String> {
        let journal = Connection::open_in_memory().expect("there is memory");
        journal.execute_batch(SCHEMA).expect("the schema is right");
        let mut query =
            journal.prepare(&format!("EXPLAIN QUERY PLAN {question}")).expect("it is SQL");
        // The values do not change the plan.
        let values = vec![0_i64; query.parameter_count()];
        let steps = query.query_map(rusqlite::params_from_iter(values), |row| row.get(3));
        steps.expect("it is SQL").collect::<Result<_, _>>().expect("it is text")
    }

    /// The steps that go through a whole table or index. Segments are few, and so are the attempts in a row of `names`.
    fn scans(question: &str) -> Vec<String> {
        let is_scan = |step: &String| {
            let is_short = ["SCAN segments", "SCAN one "].iter().any(|few| step.starts_with(few));
            step.starts_with("SCAN ") && !is_short
        };
        plan(question).into_iter().filter(is_scan).collect()
    }

    #[test]
    fn questions_find_their_rows_by_an_index() {
        for question in [
            HISTORY,
            SEGMENT_BEFORE,
            REJECTIONS,
            SCORES,
            VICTIMS,
            PREEMPTIONS_OF_POD,
            POD,
            NAMESAKES,
            GROUP_PREEMPTIONS_OF,
            GROUP_VICTIMS,
            SLOWEST,
            MOST_RETRIED,
        ] {
            assert_eq!(scans(question), [""; 0], "{question}: {:#?}", plan(question));
        }
    }

    #[test]
    fn the_newest_rows_are_read_in_the_order_of_their_table_and_nothing_is_sorted() {
        for (question, table) in [
            (PREEMPTIONS, "SCAN victims"),
            (GROUP_PREEMPTIONS, "SCAN group_victims"),
            (LOSSES, "SCAN losses"),
            (HOURS, "SCAN hours"),
        ] {
            assert_eq!(scans(question), [table], "{question}: {:#?}", plan(question));
            let is_sorted = plan(question).iter().any(|step| step.contains("TEMP B-TREE"));
            assert!(!is_sorted && question.contains("LIMIT"), "{question}: {:#?}", plan(question));
        }
    }

    #[test]
    fn a_question_that_goes_through_all_attempts_is_found_out() {
        for slow in [
            "SELECT * FROM attempts WHERE result = 'error'",
            "SELECT * FROM attempts WHERE result = 'error' ORDER BY at DESC LIMIT 10",
            "SELECT * FROM preemptions WHERE victim = ?1 OR preemptor = ?2 ORDER BY at DESC LIMIT 10",
        ] {
            assert!(!scans(slow).is_empty(), "{slow}: {:#?}", plan(slow));
        }
    }
}
