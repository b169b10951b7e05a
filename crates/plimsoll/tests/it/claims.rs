//! Checks the tables of the pages: every row that can be run is run.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_legacy::in_tree;
use serde_json::{Value, json};

use crate::manifests::CLAIMS;
use crate::pages::{names, place, quoted, table, text};
use crate::run::run;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// `small.yaml` from the page about the command line, and `policy.yaml` from the page about configurations.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (page, name) in [("docs/cli.md", "small.yaml"), ("docs/configuration.md", "policy.yaml")] {
        let text = text(page);
        let (_, rest) = text.split_once(&format!("`{name}`")).expect("the page names the file");
        let (_, rest) = rest.split_once("```yaml\n").expect("the file follows");
        let (file, _) = rest.split_once("```").expect("it ends");
        files.push((name.to_owned(), file.to_owned()));
    }
    files
}

/// The answer of `plimsoll` with these files.
fn answer(line: &str) -> crate::run::Answer {
    let files = files();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    run(&files, line)
}

/// The answer of `config check` about a file.
#[track_caller]
fn resolved(text: &str) -> Value {
    resolved_in(text, "")
}

/// The same with more arguments.
#[track_caller]
fn resolved_in(text: &str, words: &str) -> Value {
    let answer = run(&[("c.yaml", text)], &format!("config check c.yaml -o json {words}"));
    assert_eq!(answer.status, 0, "{text}\n{}", answer.err);
    serde_json::from_str(&answer.out).expect("it is JSON")
}

/// The errors in a file; empty if it is valid.
fn errors(text: &str) -> String {
    let answer = run(&[("c.yaml", text)], "config check c.yaml");
    if answer.status == 0 { String::new() } else { answer.err }
}

/// What `--write-config-to` writes without `--config`.
fn effective() -> Value {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("effective.yaml");
    let answer = run(&[], &format!("run --write-config-to {}", file.display()));
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    let text = std::fs::read_to_string(&file).expect("it was written");
    let documents = plimsoll_document::Document::parse_all("effective.yaml", &text);
    documents.expect("it is YAML").remove(0).value
}

#[test]
fn the_table_of_commands_has_all_that_help_lists() {
    let listed = |line: &str| -> Vec<String> {
        let help = run(&[], &format!("{line} --help")).out;
        let (_, rest) = help.split_once("Commands:\n").expect("it lists commands");
        let lines = rest.lines().take_while(|line| line.starts_with("  "));
        let names = lines.filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(|name| format!("{line} {name}")).collect()
    };
    let mut expected: BTreeSet<String> =
        listed("").iter().map(|name| name.trim().to_owned()).collect();
    assert!(expected.remove("config"));
    expected.extend(listed("config"));
    let told = table("docs/cli.md", &["command", "answer"]).into_iter().map(|row| {
        let line = quoted(&row[0])[0].strip_prefix("plimsoll ").expect("it is ours").to_owned();
        let words = line.split_whitespace();
        words.take_while(|word| word.starts_with(char::is_lowercase)).collect::<Vec<_>>().join(" ")
    });
    assert_eq!(told.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn every_command_except_the_named_ones_prints_json() {
    for command in ["simulate", "explain", "config check", "config migrate", "plugins", "bench"] {
        let help = run(&[], &format!("{command} --help")).out;
        assert!(help.contains("-o, --output"), "{command}");
    }
    for command in ["run", "new-plugin NAME", "completions"] {
        assert!(!run(&[], &format!("{command} --help")).out.contains("--output"), "{command}");
    }
    for command in ["simulate", "explain", "rebalance", "bench", "run"] {
        assert!(
            run(&[], &format!("{command} --help")).out.contains("--config <FILE>"),
            "{command}"
        );
    }
}

#[test]
fn the_table_of_engines_and_audits_has_existing_options() {
    for row in table("docs/cli.md", &["option", "of"]) {
        let option = quoted(&row[0])[0].replace(" N", " 1");
        for command in quoted(&row[1]) {
            let line = match command {
                "simulate" => format!("simulate -f small.yaml {option}"),
                "bench" => {
                    format!("bench SchedulingBasic --nodes 5 --init-pods 1 --pods 9 {option}")
                }
                other => panic!("the table tells of {other}"),
            };
            assert_eq!(answer(&line).status, 0, "{line}");
        }
        if let Some((_, default)) = row[2].split_once("Default ") {
            let default = default.trim_end_matches('.');
            let help = run(&[], &format!("{} --help", quoted(&row[1])[0])).out;
            let name = option.split(' ').next().expect("an option has a name");
            let (_, rest) = help.split_once(&format!("{name} <")).expect("it is there");
            let (_, rest) = rest.split_once("[default: ").expect("it has a default");
            assert!(rest.starts_with(&format!("{default}]")), "{name} of {}", row[1]);
        }
    }
}

/// The keys of a record, as the page names them. Keys within objects that are keyed by name, such as plugins, are left
/// out.
fn keys(record: &Value, at: &str, found: &mut BTreeSet<String>) {
    let Value::Object(fields) = record else { return };
    for (key, value) in fields {
        let path = format!("{at}{key}");
        if path == "nodes" {
            for node in value.as_array().into_iter().flatten() {
                keys(node, "nodes[].", found);
            }
        }
        found.insert(path);
    }
}

#[test]
fn the_table_of_records_has_every_key_that_records_have() {
    let claim = "
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: example.com/disks
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: late, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: stored}
spec: {containers: [{name: c}], volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: lost}
spec: {containers: [{name: c}], volumes: [{name: d, persistentVolumeClaim: {claimName: none}}]}
";
    let small = files().remove(0).1 + claim;
    let mut found = BTreeSet::new();
    for line in [
        "simulate -f a.yaml --explain -o json",
        "explain -f a.yaml --pod shop/web-0 --scale 10 -o json",
        "explain -f a.yaml --pod lost -o json",
    ] {
        let answer = run(&[("a.yaml", &small)], line);
        assert_eq!(answer.status, 0, "{}", answer.err);
        for record in answer.out.lines() {
            keys(&serde_json::from_str(record).expect("it is JSON"), "", &mut found);
        }
    }
    for pod in ["both", "moves", "again"] {
        let answer = run(&[("a.yaml", CLAIMS)], &format!("explain -f a.yaml --pod {pod} -o json"));
        keys(&serde_json::from_str(&answer.out).expect("it is JSON"), "", &mut found);
    }
    let told = table("docs/cli.md", &["key", "value"]);
    let told: BTreeSet<String> = told.iter().map(|row| quoted(&row[0])[0].to_owned()).collect();
    assert_eq!(found, told);
}

#[test]
fn the_table_of_old_flags_has_the_flags_that_are_accepted() {
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: NAME, namespace: kube-system}}\n\
         data:\n  policy.cfg: '{}'\n",
        json!({"kind": "Policy", "apiVersion": "v1"})
    );
    let mut files = files();
    files.push(("map.yaml".to_owned(), map));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    for row in table("docs/cli.md", &["flag", "effect"]) {
        for flag in quoted(&row[0]) {
            let name = flag.split(' ').next().expect("a flag has a name");
            let given = match name {
                "--policy-config-file" => "--policy-config-file policy.yaml".to_owned(),
                "--policy-configmap" => "-f map.yaml --policy-configmap NAME".to_owned(),
                "--policy-configmap-namespace" => {
                    "-f map.yaml --policy-configmap NAME --policy-configmap-namespace kube-system"
                        .to_owned()
                }
                "--use-legacy-policy-config" => {
                    "--policy-config-file policy.yaml --use-legacy-policy-config".to_owned()
                }
                "--algorithm-provider" => "--algorithm-provider DefaultProvider".to_owned(),
                "--hard-pod-affinity-symmetric-weight" => format!("{name} 7"),
                "--port" => format!("{name} 10251"),
                "--address" => format!("{name} 0.0.0.0"),
                "--scheduler-name" => format!("{name} default-scheduler"),
                _ => format!("{name} some"),
            };
            let line = format!("explain -f small.yaml --pod shop/web-0 {given}");
            let answer = run(&files, &line);
            assert_eq!(answer.status, 0, "{line}: {}", answer.err);
            let told =
                answer.err.lines().any(|line| line.starts_with("warning: ") && line.contains(name));
            assert!(told, "{line}: {}", answer.err);
            for command in ["simulate", "explain", "run"] {
                assert!(
                    run(&[], &format!("{command} --help")).out.contains(name),
                    "{command} {name}"
                );
            }
        }
    }
}

#[test]
fn the_tables_of_fields_have_the_defaults_that_are_written() {
    let effective = effective();
    let mut told = BTreeSet::new();
    for row in table("docs/configuration.md", &["field", "default"]) {
        for field in quoted(&row[0]) {
            let field = field.rsplit("[].").next().expect("a field has a name");
            told.insert(field.to_owned());
            let is = &effective[field];
            let default = row[1].as_str();
            match (field, default) {
                ("schedulerName", _) => {
                    assert_eq!(effective["profiles"][0][field], *quoted(default)[0]);
                }
                // The table describes these defaults in words.
                ("plugins" | "pluginConfig" | "enableContentionProfiling", _) => {}
                ("percentageOfNodesToScore", _) | (_, "none") => {
                    assert!(is.is_null(), "{field}: {is}");
                }
                ("leaderElection", _) => {
                    let values: Vec<String> = is
                        .as_object()
                        .expect("it is one")
                        .values()
                        .map(|value| {
                            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                        })
                        .collect();
                    for word in
                        ["true", "15s", "10s", "2s", "leases", "kube-scheduler", "kube-system"]
                    {
                        assert!(
                            default.contains(word) && values.iter().any(|one| one == word),
                            "{word}"
                        );
                    }
                }
                ("clientConnection", _) => {
                    assert!(default.contains("`qps: 50`") && is["qps"] == 50, "{is}");
                    assert!(default.contains("`burst: 100`") && is["burst"] == 100, "{is}");
                }
                // It is left out if it is not set.
                ("delayCacheUntilActive", "false") => assert!(is.is_null()),
                _ => assert_eq!(is.to_string(), default, "{field}"),
            }
        }
    }
    let is_field = |key: &&String| !matches!(key.as_str(), "apiVersion" | "kind" | "profiles");
    for field in effective.as_object().expect("it is an object").keys().filter(is_field) {
        assert!(told.contains(field), "the page does not tell of {field}");
    }
}

/// A configuration with one arg; `field` may be within others.
fn with_arg(plugin: &str, field: &str, value: &str) -> String {
    let nested = match field.split_once('.') {
        // A strategy needs a type.
        Some(("scoringStrategy", key)) => {
            format!("{{scoringStrategy: {{type: LeastAllocated, {key}: {value}}}}}")
        }
        Some((outer, key)) => format!("{{{outer}: {{{key}: {value}}}}}"),
        None => format!("{{{field}: {value}}}"),
    };
    format!("{HEAD}profiles:\n- pluginConfig:\n  - name: {plugin}\n    args: {nested}\n")
}

#[test]
fn the_table_of_args_has_defaults_and_ranges() {
    // Where releases differ, the table has the default of 1.36 and describes the other in words.
    let all = resolved_in(HEAD, "--emulated-version 1.36")["profiles"][0]["args"].clone();
    let args = |plugin: &str| all[plugin].clone();
    let mut plugin = String::new();
    let (mut n_defaults, mut n_ranges) = (0, 0);
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in table("docs/configuration.md", &["plugin", "field"]) {
        if !row[0].is_empty() {
            plugin.clone_from(&row[0]);
        }
        for field in quoted(&row[1]) {
            let top = field.split('.').next().expect("a field has a name").to_owned();
            told.entry(plugin.clone()).or_default().insert(top);
            let is = field.split('.').fold(args(&plugin), |value, key| value[key].clone());
            match row[2].as_str() {
                "none" => assert!(
                    is.is_null() || is == json!([]) || is == json!({}),
                    "{plugin} {field}: {is}"
                ),
                default => {
                    let wanted: Vec<&str> = quoted(default);
                    let shown = match &is {
                        Value::Array(resources) => {
                            resources.iter().filter_map(|one| one["name"].as_str()).collect()
                        }
                        Value::String(text) => vec![text.as_str()],
                        _ => Vec::new(),
                    };
                    if wanted.is_empty() {
                        assert_eq!(is.to_string(), default, "{plugin} {field}");
                    } else {
                        assert_eq!(shown, wanted, "{plugin} {field}");
                    }
                    n_defaults += 1;
                }
            }
            let range = row[3].split([';', ',']).next().unwrap_or_default();
            // For a list, the range may be that of a field of its elements.
            let (range, value): (_, fn(i64) -> String) = match range.strip_prefix("`weight` ") {
                Some(range) => (range, |weight| format!("[{{name: cpu, weight: {weight}}}]")),
                None => (range, |number| number.to_string()),
            };
            let (least, most) = match range.split_once(" to ") {
                // Words are not a range of the field itself.
                Some((least, most)) => match least.parse::<i64>() {
                    Ok(least) => (Some(least), most.parse::<i64>().ok()),
                    Err(_) => (None, None),
                },
                None => (range.strip_suffix(" or more").and_then(|least| least.parse().ok()), None),
            };
            for (bound, outside) in [(least, -1), (most, 1)] {
                let Some(bound) = bound else { continue };
                let wrong = errors(&with_arg(&plugin, field, &value(bound + outside)));
                assert!(wrong.contains(field), "{plugin} {field}: {bound} {outside}: {wrong}");
                assert_eq!(
                    errors(&with_arg(&plugin, field, &value(bound))),
                    "",
                    "{plugin} {field}"
                );
                n_ranges += 1;
            }
        }
    }
    assert!(10 < n_defaults && 4 <= n_ranges, "{n_defaults} defaults, {n_ranges} ranges");
    // The table is complete.
    for (plugin, args) in all.as_object().expect("they are by plugin") {
        let known: Vec<&String> =
            args.as_object().into_iter().flat_map(|args| args.keys()).collect();
        for field in known {
            assert!(told.get(plugin).is_some_and(|told| told.contains(field)), "{plugin} {field}");
        }
    }
}

/// The weights of a profile at `score`.
fn weights(configuration: &Value) -> BTreeMap<String, i64> {
    let plugins = configuration["profiles"][0]["points"]["score"].as_array();
    let weight = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["weight"].as_i64()?));
    plugins.into_iter().flatten().filter_map(weight).collect()
}

#[test]
fn the_table_of_versions_has_the_weights_that_differ_from_v1() {
    let of_v1 = weights(&resolved(HEAD));
    let mut same = BTreeMap::new();
    for row in table("docs/configuration.md", &["version", "releases"]) {
        let version = quoted(&row[0])[0].rsplit('/').next().expect("a version has a name");
        let text = HEAD.replace("io/v1\n", &format!("io/{version}\n"));
        let mut differing = weights(&resolved(&text));
        differing.retain(|plugin, weight| of_v1.get(plugin) != Some(weight));
        // `A, B and C 1; D 10000`: names, and then the weight of them all.
        let mut told: BTreeMap<String, i64> = BTreeMap::new();
        for part in row[3].split(';').map(str::trim) {
            match part {
                "none" => {}
                "the same" => told.extend(same.clone()),
                part => {
                    let mut waiting = Vec::new();
                    for word in part.split([' ', ',']) {
                        match word.parse::<i64>() {
                            Ok(weight) => told.extend(waiting.drain(..).map(|name| (name, weight))),
                            Err(_) if names(word).is_empty() => {}
                            Err(_) => waiting.push(word.to_owned()),
                        }
                    }
                    assert!(waiting.is_empty(), "{part}");
                }
            }
        }
        assert_eq!(differing, told, "{version}");
        same = told;
    }
}

/// A Policy with one predicate or priority.
fn policy(key: &str, entry: &Value) -> Value {
    let mut policy =
        json!({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": []});
    policy[key] = json!([entry]);
    resolved(&policy.to_string())
}

fn plugins_at(configuration: &Value, point: &str) -> BTreeSet<String> {
    let plugins = configuration["profiles"][0]["points"][point].as_array();
    let name = |one: &Value| one["name"].as_str().map(str::to_owned);
    plugins.into_iter().flatten().filter_map(name).collect()
}

/// The argument that a row of a Policy's table describes.
fn argument(field: &str) -> Value {
    match field {
        "labelsPresence" => json!({"labelsPresence": {"labels": ["zone"], "presence": true}}),
        "serviceAffinity" => json!({"serviceAffinity": {"labels": ["zone"]}}),
        "labelPreference" => json!({"labelPreference": {"label": "zone", "presence": true}}),
        "serviceAntiAffinity" => json!({"serviceAntiAffinity": {"label": "zone"}}),
        "requestedToCapacityRatioArguments" => json!({"requestedToCapacityRatioArguments": {
            "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}),
        other => panic!("the table tells of {other}"),
    }
}

/// The names in the first cell of a row, each with an entry of a Policy for it.
fn entries(cell: &str) -> Vec<(String, Value)> {
    let quoted = quoted(cell);
    if cell.starts_with("any name") {
        return vec![("A".to_owned(), json!({"name": "A", "argument": argument(quoted[0])}))];
    }
    quoted.iter().map(|name| ((*name).to_owned(), json!({"name": name}))).collect()
}

#[test]
fn the_table_of_predicates_has_the_filters_that_replaced_them() {
    let always = plugins_at(&policy("predicates", &json!({"name": "HostName"})), "filter");
    for row in table("docs/configuration.md", &["predicate", "plugins"]) {
        let entries = entries(&row[0]);
        let plugins = names(&row[1]);
        for (at, (name, entry)) in entries.iter().enumerate() {
            let mut found = plugins_at(&policy("predicates", entry), "filter");
            if !row[0].contains("always there") {
                let there = |name: &String| name != "NodeName" && always.contains(name);
                found.retain(|name| !there(name));
            }
            // With as many names as plugins, each name has its own plugin.
            let expected: Vec<&str> = match entries.len() == plugins.len() {
                true => vec![plugins[at]],
                false => plugins.clone(),
            };
            let has_all = expected.iter().all(|plugin| found.contains(*plugin));
            let is_all = row[0].contains("always there") || found.len() == expected.len();
            assert!(has_all && is_all, "{name}: {found:?}");
        }
    }
}

#[test]
fn the_table_of_priorities_has_the_plugins_that_replaced_them_and_their_weights() {
    let by_default = weights(&resolved(&json!({"kind": "Policy", "apiVersion": "v1"}).to_string()));
    let mut told = BTreeMap::new();
    for row in table("docs/configuration.md", &["priority", "plugin", "default weight"]) {
        let entries = entries(&row[0]);
        let plugins = names(&row[1]);
        let of_each: Vec<&str> = row[2].split(", ").collect();
        for (at, (name, entry)) in entries.iter().enumerate() {
            let mut entry = entry.clone();
            entry["weight"] = json!(7);
            let found = weights(&policy("priorities", &entry));
            let plugin = plugins.get(at).or(plugins.first());
            if row[1] == "no plugin" {
                assert_eq!(found, BTreeMap::new(), "{name}");
                continue;
            }
            let plugin = *plugin.expect("a row names a plugin");
            assert_eq!(found, BTreeMap::from([(plugin.to_owned(), 7)]), "{name}");
            let weight = of_each.get(at).or(of_each.last()).expect("a row has a weight");
            if let Ok(weight) = weight.trim_end_matches(" each").parse::<i64>() {
                // If both are listed, the weight of EvenPodsSpreadPriority is used.
                let known: &mut i64 = told.entry(plugin.to_owned()).or_default();
                *known = weight.max(*known);
            }
        }
    }
    assert_eq!(told, by_default);
}

/// A configuration of some version that enables one more plugin.
fn enabling(plugin: &str) -> String {
    format!("{HEAD}profiles:\n- plugins: {{multiPoint: {{enabled: [{{name: {plugin}}}]}}}}\n")
}

#[test]
fn dropped_plugins_can_be_enabled_where_the_pages_say_so() {
    let rows = table("docs/differences.md", &["here", "kube-scheduler"]);
    let row = rows.iter().find(|row| row[0].starts_with("Plugins that later releases dropped"));
    let (plugins, _) = row.expect("the page tells of them")[0].split_once(';').expect("it goes on");
    let plugins = names(plugins);
    assert_eq!(plugins.len(), 8);
    for plugin in plugins {
        let answer = run(&[("c.yaml", &enabling(plugin))], "config check c.yaml");
        assert_eq!(answer.status, 0, "{plugin}: {}", answer.err);
        assert!(answer.out.contains("not for kube-scheduler"), "{plugin}: {}", answer.out);
    }
    let page = text("docs/configuration.md");
    let (_, refused) = page.split_once("v1 refuses ").expect("the page tells of those, too");
    let (refused, _) = refused.split_once(". ").expect("the sentence ends");
    let refused = names(refused);
    assert_eq!(refused.len(), 4);
    for plugin in refused {
        assert_ne!(errors(&enabling(plugin)), "", "{plugin}");
    }
}

#[test]
fn the_tables_of_workloads_have_the_sizes_that_are_listed() {
    let listed: Value =
        serde_json::from_str(&run(&[], "bench --list -o json").out).expect("it is JSON");
    let number = |cell: &str| cell.replace(',', "").parse::<u64>().expect("a size is a number");
    let mut told = BTreeSet::new();
    for row in table("docs/performance.md", &["workload", "nodes", "initial pods", "pods"]) {
        let name = row[0].as_str();
        let listed = listed.as_array().into_iter().flatten();
        let one = listed.clone().find(|one| one["workload"] == name);
        let one = one.unwrap_or_else(|| panic!("there is no workload {name}"));
        assert_eq!(
            (number(&row[1]), number(&row[2]), number(&row[3])),
            (
                one["nodes"].as_u64().expect("a number"),
                one["initPods"].as_u64().expect("a number"),
                one["pods"].as_u64().expect("a number")
            ),
            "{name}"
        );
        let groups =
            ["classes", "deployments", "podGroups"].iter().find_map(|key| one[key].as_u64());
        if let Some(groups) = groups {
            let plain = row[4].replace(',', "");
            assert!(plain.contains(&groups.to_string()), "{name}: {groups} groups");
        }
        told.insert(name.to_owned());
    }
    let listed = listed.as_array().into_iter().flatten();
    let listed = listed.filter_map(|one| one["workload"].as_str().map(str::to_owned));
    assert_eq!(told, listed.collect::<BTreeSet<_>>());
}

#[test]
fn the_table_of_columns_has_the_keys_of_measurements() {
    let line = "bench Unschedulable --nodes 5 --init-pods 1 --pods 9 --engine both -o json";
    let answer = run(&[], line);
    assert_eq!(answer.status, 0, "{}", answer.err);
    let first: Value = serde_json::from_str(answer.out.lines().next().expect("there is a line"))
        .expect("it is JSON");
    let told = table("docs/performance.md", &["column", "in JSON"]);
    let told: BTreeSet<&str> = told.iter().flat_map(|row| quoted(&row[1])).collect::<BTreeSet<_>>();
    let said_elsewhere = ["workload", "seed", "runs", "deployments", "classes", "podGroups"];
    for key in first.as_object().expect("it is a record").keys() {
        assert!(told.contains(&**key) || said_elsewhere.contains(&&**key), "{key}");
    }
    for key in told {
        assert!(first.get(key).is_some() || cfg!(not(target_os = "linux")), "{key}");
    }
}

#[test]
fn the_first_page_shows_what_is_printed() {
    let readme = text("README.md");
    let cluster = place("examples/cluster");
    let blocks: Vec<&str> = readme.split("```text\n").skip(1).collect();
    let of = |command: &str| run(&[], &format!("{command} -f {}", cluster.display())).out;
    let mut shown =
        vec![(blocks[0], of("simulate")), (blocks[1], of("explain --pod shop/checkout-0"))];
    // These blocks begin with their command.
    for block in &blocks[2..] {
        let Some((command, block)) =
            block.strip_prefix("$ plimsoll ").and_then(|one| one.split_once('\n'))
        else {
            continue;
        };
        let command = command.replace("examples/cluster", &cluster.display().to_string());
        shown.push((block, run(&[], &command).out));
    }
    assert_eq!(shown.len(), 4, "README.md shows simulate, explain, why and what-if");
    for (block, shown) in shown {
        let (block, _) = block.split_once("```").expect("a block ends");
        let mut lines = shown.lines();
        // `…` means any lines, or the rest of a line.
        for wanted in block.lines().filter(|line| !line.trim().is_empty() && line.trim() != "…") {
            let begins = wanted.trim_end().strip_suffix('…').map(str::trim_end);
            let found = lines.any(|line| match begins {
                Some(begins) => line.starts_with(begins),
                None => line.trim_end() == wanted.trim_end(),
            });
            assert!(found, "README.md: {wanted:?} is not in, or not behind the others of\n{shown}");
        }
    }
}

#[test]
fn the_pages_of_plugins_are_linked_where_there_are_some() {
    for entry in in_tree().iter() {
        let page = place(&format!("docs/plugins/{}.md", entry.name()));
        assert!(page.is_file(), "{}", page.display());
    }
}

/// Every file that a page links to exists.
#[test]
fn links_lead_to_existing_files() {
    let first = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    let mut pages: Vec<String> = first.map(str::to_owned).into();
    for folder in ["docs", "docs/plugins", "docs/decisions"] {
        let files = std::fs::read_dir(place(folder)).expect("the folder can be read");
        let names = files.map(|file| file.expect("it can be listed").file_name());
        let names = names.map(|name| format!("{folder}/{}", name.to_string_lossy()));
        let is_page =
            |name: &String| std::path::Path::new(name).extension().is_some_and(|end| end == "md");
        pages.extend(names.filter(is_page));
    }
    let anchors = |text: &str| -> BTreeSet<String> {
        let heads = text.lines().filter(|line| line.starts_with('#'));
        let anchor = |head: &str| {
            let words = head.trim_start_matches('#').trim().to_lowercase();
            let kept =
                words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        };
        heads.map(anchor).collect()
    };
    for page in pages {
        let (this, folder) = (text(&page), place(&page));
        let folder = folder.parent().expect("a page lies in a folder");
        for link in this.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains('\n') {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { place(&page) } else { folder.join(file) };
            assert!(target.exists(), "{page}: {link}");
            if !anchor.is_empty() {
                let other = std::fs::read_to_string(&target).expect("it is a page");
                assert!(anchors(&other).contains(anchor), "{page}: {link}");
            }
        }
    }
}
