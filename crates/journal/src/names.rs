//! Attempts by the names of their pods.
//!
//! To add each name to an index takes SQLite longer than to append the row itself: it looks for the place of each, and again and again
//! moves the names of three pages. So `names` is only appended to: many attempts at a time, in the order of hashes. The last ones
//! are not in it yet; a question reads these one by one, and the writer remembers them.

use std::ops::Range;

use plimsoll_api::PodKey;
use rusqlite::{Connection, Row, params};

use crate::questions::SEGMENT_BEFORE;
use crate::rows::Columns;

/// So many attempts are added to the index together. The more, the fewer segments a question looks into; but it reads up to as many
/// attempts one by one.
const TOGETHER: usize = 16 * 1024;
/// Each segment has so many rows, if there is a name for each. A question looks at the names of all attempts of a row, about eight.
const BUCKETS: u16 = 2048;

/// An error undoes the whole transaction, so SQLite need not copy pages to undo the statement (`OR FAIL`).
const NAMES: Columns = Columns {
    insert: "INSERT OR FAIL INTO names (segment, bucket, attempts)",
    row: "?, ?, ?",
    width: 3,
};

/// The bucket of a name.
pub(crate) fn bucket(name: &str) -> i64 {
    bucket_of(fnv(name)).into()
}

fn bucket_of(hash: u64) -> u16 {
    // The lowest bits alone would depend on the lowest bits of each letter.
    let folded = (hash ^ (hash >> 32)) % u64::from(BUCKETS);
    u16::try_from(folded).expect("there are not as many")
}

/// FNV-1a with 64 bits.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The last attempts, which are not in `names` yet.
#[derive(Debug)]
pub(crate) struct NewNames {
    /// The hashes of their names, and their ids, which ascend.
    names: Vec<(u64, i64)>,
    /// The id of the newest attempt.
    last: i64,
}

impl NewNames {
    /// Finds them in a journal whose newest attempt is known.
    pub(crate) fn load(on: &Connection, last: i64) -> rusqlite::Result<Self> {
        let sql = "SELECT coalesce(max(segment), 0) FROM names";
        let mut indexed: i64 = on.query_row(sql, [], |row| row.get(0))?;
        if last < indexed {
            // Another program has deleted attempts, and their ids are given again.
            on.execute("DELETE FROM names", [])?;
            indexed = 0;
        }
        let mut query = on.prepare("SELECT name, id FROM attempts WHERE ?1 < id ORDER BY id")?;
        let names = query.query_map([indexed], |row| {
            let name = row.get_ref(0)?.as_str()?;
            Ok((fnv(name), row.get(1)?))
        })?;
        Ok(NewNames { names: names.collect::<Result<_, _>>()?, last })
    }

    /// Adds the name of the pod of the next attempt.
    pub(crate) fn add(&mut self, name: &str, id: i64) {
        debug_assert!(self.last < id, "{id}");
        self.names.push((fnv(name), id));
        self.last = id;
    }

    /// Writes them to `names`, if there are many.
    pub(crate) fn write_many(&mut self, on: &Connection) -> rusqlite::Result<()> {
        if self.names.len() < TOGETHER {
            return Ok(());
        }
        let (ids, buckets) = by_bucket(&self.names);
        let rows: Vec<_> =
            (0_i64..).zip(buckets).filter(|(_, attempts)| !attempts.is_empty()).collect();
        let segment = self.last;
        NAMES.insert(on, rows.len(), rows, |row, (bucket, attempts)| {
            row.number(segment)?;
            row.number(bucket)?;
            row.text(&serde_json::to_string(&ids[attempts]).unwrap_or_default())
        })?;
        self.names.clear();
        Ok(())
    }

    /// The id of the newest attempt.
    pub(crate) fn last(&self) -> i64 {
        self.last
    }

    /// The last attempt of the pods of a name with an id below one.
    pub(crate) fn last_before(
        &self,
        on: &Connection,
        pod: &PodKey,
        before: i64,
    ) -> rusqlite::Result<Option<i64>> {
        let (namespace, name) = (pod.namespace.as_str(), pod.name.as_str());
        let hash = fnv(name);
        let sql = "SELECT 1 FROM attempts WHERE id = ?1 AND name = ?2 AND namespace = ?3";
        let mut find = on.prepare_cached(sql)?;
        let mut newest = |ids: &mut dyn Iterator<Item = i64>| -> rusqlite::Result<Option<i64>> {
            for id in ids.filter(|id| *id < before) {
                if find.exists(params![id, name, namespace])? {
                    return Ok(Some(id));
                }
            }
            Ok(None)
        };
        let same = self.names.iter().rev().filter(|(own, _)| *own == hash);
        if let Some(id) = newest(&mut same.map(|(_, id)| *id))? {
            return Ok(Some(id));
        }
        let mut segments = on.prepare_cached(SEGMENT_BEFORE)?;
        let mut segment = i64::MAX;
        loop {
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let (last, ids): (Option<i64>, Option<String>) =
                segments.query_row(params![segment, bucket_of(hash)], read)?;
            let Some(last) = last else { return Ok(None) };
            segment = last;
            let ids: Vec<i64> =
                ids.and_then(|ids| serde_json::from_str(&ids).ok()).unwrap_or_default();
            if let Some(id) = newest(&mut ids.into_iter().rev())? {
                return Ok(Some(id));
            }
        }
    }
}

/// The ids in the order of their buckets, and where those of each bucket are. A vector for each bucket would take thousands of
/// allocations.
fn by_bucket(names: &[(u64, i64)]) -> (Vec<i64>, Vec<Range<usize>>) {
    let mut buckets = vec![0..0; usize::from(BUCKETS)];
    for (hash, _) in names {
        buckets[usize::from(bucket_of(*hash))].end += 1;
    }
    let mut before = 0;
    for bucket in &mut buckets {
        let length = bucket.end;
        *bucket = before..before;
        before += length;
    }
    let mut ids = vec![0; names.len()];
    for (hash, id) in names {
        let bucket = &mut buckets[usize::from(bucket_of(*hash))];
        ids[bucket.end] = *id;
        bucket.end += 1;
    }
    (ids, buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_bucket_of_a_name_never_changes_as_journals_have_it() {
        assert_eq!(["web", "web-0", "web-7d4b9c-x2x7k"].map(bucket), [2024, 322, 919]);
    }

    #[test]
    fn the_ids_of_a_bucket_ascend() {
        let names = [(5, 1), (4, 2), (5, 3), (0, 4), (5, 6)];
        let (ids, buckets) = by_bucket(&names);
        let of = |bucket: usize| &ids[buckets[bucket].clone()];
        assert_eq!([of(5), of(4), of(0), of(2047)], [&[1, 3, 6][..], &[2], &[4], &[]]);
    }

    #[test]
    fn names_are_spread_over_all_buckets() {
        let mut counts = vec![0; usize::from(BUCKETS)];
        for n in 0..8 * i32::from(BUCKETS) {
            counts[usize::from(bucket_of(fnv(&format!("web-{n}"))))] += 1;
        }
        // By chance a bucket has 24 names or more once in a hundred thousand times.
        assert!(counts.iter().all(|count| *count < 24), "{:?}", counts.iter().max());
    }
}
