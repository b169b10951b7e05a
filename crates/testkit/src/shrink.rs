//! Reduces a scenario that fails to a smallest one that still fails.

use serde_json::Value;

use crate::manifest::Fields;

/// Removes everything from `text` without which `wrong` still reports a failure. `said` is its report on the whole
/// text. Comments, args and gates stay. Returns the smallest text with the report on it.
pub(crate) fn smallest(
    text: &str,
    mut said: String,
    wrong: impl Fn(&str) -> Option<String>,
) -> (String, String) {
    let mut smallest: Vec<ScenarioLine> = text.lines().map(ScenarioLine::read).collect();
    loop {
        let next = smaller(&smallest).find_map(|lines| Some((wrong(&render(&lines))?, lines)));
        let Some((says, lines)) = next else { break };
        (said, smallest) = (says, lines);
    }
    (render(&smallest), said)
}

/// All scenarios with one thing removed. Those without a whole line come first, from the last line up.
fn smaller(lines: &[ScenarioLine]) -> impl Iterator<Item = Vec<ScenarioLine>> {
    let free = (0..lines.len()).rev().filter(|&at| lines[at].is_free());
    let without_line = free.clone().map(|at| {
        let mut lines = lines.to_vec();
        lines.remove(at);
        lines
    });
    let without_part = free.flat_map(move |at| {
        lines[at].smaller().map(move |line| {
            let mut lines = lines.to_vec();
            lines[at] = line;
            lines
        })
    });
    without_line.chain(without_part)
}

fn render(lines: &[ScenarioLine]) -> String {
    lines.iter().map(ScenarioLine::render).collect::<Vec<_>>().join("\n")
}

/// A line, split into the parts that can be removed.
#[derive(Clone, Debug)]
struct ScenarioLine {
    words: Vec<String>,
    fields: Fields,
}

impl ScenarioLine {
    /// JSON that continues on the next line is read as plain words.
    fn read(line: &str) -> Self {
        let json = line.split_once(" {").map(|(head, _)| head.len() + 1);
        let parsed = json.and_then(|at| Some((at, serde_json::from_str(&line[at..]).ok()?)));
        let (head, fields) = parsed.unwrap_or((line.len(), Fields::new()));
        ScenarioLine { words: line[..head].split_whitespace().map(str::to_owned).collect(), fields }
    }

    /// Whether it may be removed.
    fn is_free(&self) -> bool {
        let first = self.words.first().map_or("", String::as_str);
        !first.starts_with('#') && !matches!(first, "args" | "gate")
    }

    /// The line without one of its labels, or without some part of its JSON.
    fn smaller(&self) -> impl Iterator<Item = ScenarioLine> {
        let labels = (0..self.words.len()).filter(|&at| self.words[at].contains('='));
        let without_label = labels.map(|at| {
            let mut line = self.clone();
            line.words.remove(at);
            line
        });
        let without_field = smaller_fields(&self.fields)
            .into_iter()
            .map(|fields| ScenarioLine { words: self.words.clone(), fields });
        without_label.chain(without_field)
    }

    fn render(&self) -> String {
        let words = self.words.join(" ");
        if self.fields.is_empty() {
            return words;
        }
        format!("{words} {}", Value::Object(self.fields.clone()))
    }
}

/// The object without one of its fields, or with something removed from one of them.
fn smaller_fields(fields: &Fields) -> Vec<Fields> {
    let mut all = Vec::new();
    for (key, value) in fields {
        let mut without = fields.clone();
        without.remove(key);
        all.push(without);
        for value in smaller_values(value) {
            let mut with_less = fields.clone();
            with_less.insert(key.clone(), value);
            all.push(with_less);
        }
    }
    all
}

/// The value with one thing removed somewhere inside.
fn smaller_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(fields) => smaller_fields(fields).into_iter().map(Value::Object).collect(),
        Value::Array(items) => {
            let mut all = Vec::new();
            for (at, item) in items.iter().enumerate() {
                let mut without = items.clone();
                without.remove(at);
                all.push(Value::Array(without));
                for item in smaller_values(item) {
                    let mut with_less = items.clone();
                    with_less[at] = item;
                    all.push(Value::Array(with_less));
                }
            }
            all
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_to_fail_is_left() {
        let text = r#"# seed 1
            args {"a": 1}
            node a zone=z1 rack=r1 {"unschedulable": true, "taints": [{"key": "a", "value": "b"}, {}]}
            node b
            pod p app=web on b"#;
        let wrong = |text: &str| {
            let wrong = text.contains("rack=r1") && text.contains(r#""key":"a""#);
            wrong.then(|| format!("{} lines", text.lines().count()))
        };
        let (text, said) = smallest(text, "5 lines".to_owned(), wrong);
        let expected = r#"# seed 1
args {"a":1}
node a rack=r1 {"taints":[{"key":"a"}]}"#;
        assert_eq!(text, expected);
        assert_eq!(said, "3 lines");
    }
}
