//! The page about the journal describes its schema.

use std::collections::BTreeMap;

use plimsoll_journal::{SCHEMA, VERSION};

/// The columns of all tables and views.
fn columns() -> BTreeMap<String, Vec<String>> {
    let database = rusqlite::Connection::open_in_memory().expect("there is memory");
    database.execute_batch(SCHEMA).expect("the schema is right");
    let sql = "SELECT m.name, c.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c \
               WHERE m.type IN ('table', 'view') ORDER BY m.name, c.cid";
    let mut query = database.prepare(sql).expect("it is right");
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("it is right");
    let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows {
        let (table, column): (String, String) = row.expect("it is text");
        columns.entry(table).or_default().push(column);
    }
    columns
}

#[test]
fn the_page_describes_every_table_and_every_column() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/journal.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    assert!(page.contains(&format!("`PRAGMA user_version` is {VERSION}")), "the version");
    let mut described: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut table = None;
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("### `") {
            table = heading.split('`').next().map(str::to_owned);
        } else if line.starts_with("## ") {
            table = None;
        } else if let (Some(table), Some(cells)) = (&table, line.strip_prefix("| `")) {
            let names = cells.split(" | ").next().unwrap_or_default().split('`').step_by(2);
            let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
            described.entry(table.clone()).or_default().extend(names);
        }
    }
    assert_eq!(described, columns());
}
