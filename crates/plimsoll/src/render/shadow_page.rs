//! The report of a shadow as one HTML page: without scripts, and without anything from another place.

use std::fmt::{self, Display, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plimsoll_shadow::{
    Agreement, Configuration, Differences, Disagreement, DisagreementKind, Report,
};
use ring::digest::{SHA256, digest};

use super::shadow::{
    cluster_rows, gangs_in_part, lasting, our_placements, pending_times, rows, share,
};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;overflow-wrap:anywhere}\
h1{font-size:1.5em}h2{font-size:1.15em;margin:1.8em 0 .5em}\
table{border-collapse:collapse;width:100%;margin:.5em 0}\
th,td{text-align:start;padding:.3em .6em;border-bottom:1px solid #8886;font-weight:400;vertical-align:top}\
thead th{opacity:.7}.n{text-align:end;font-variant-numeric:tabular-nums;white-space:nowrap}\
.good{color:#1f8a4c}.bad{color:#d0342c}.doubtful{color:#b87500}\
th,td{min-width:6em}.n{min-width:2em}\
code{font:13px ui-monospace,monospace}meter{width:8em}";

/// The page.
pub(crate) fn page(report: &Report) -> String {
    let mut out = String::new();
    write(&mut out, report).expect("memory can be written");
    out
}

/// A text that is no markup. Characters that are not seen, or change the direction of text, are written as their numbers.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<bdi>")?;
        for char in self.0.chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{feff}' => write!(f, "\\u{:04x}", u32::from(char))?,
                char if char.is_control() && char != '\n' => {
                    write!(f, "\\u{:04x}", u32::from(char))?;
                }
                char => f.write_char(char)?,
            }
        }
        f.write_str("</bdi>")
    }
}

fn write(out: &mut String, report: &Report) -> fmt::Result {
    // A browser runs and loads nothing: even if a text were taken for markup, it would only be seen.
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        STANDARD.encode(digest(&SHA256, STYLE.as_bytes()))
    );
    let names = report.scheduler_names.join(", ");
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>Shadow report</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    )?;
    writeln!(out, "<h1>Shadow of {}</h1>", Text(&names))?;
    let span = lasting(report.seconds);
    match &report.began {
        Some(began) => writeln!(
            out,
            "<p>Compared for {}, from {} to {}. {} pods were first seen on a node.</p>",
            Text(&span),
            Text(began),
            Text(&report.ended),
            report.not_seen_pending
        )?,
        None => {
            writeln!(out, "<p>Nothing was compared: the cluster is not known completely.</p>")?;
        }
    }
    for configuration in &report.configurations {
        agreement(out, configuration)?;
    }
    if let Some(between) = &report.between_configurations {
        differences(out, between)?;
    }
    pending(out, report)?;
    clusters(out, report)?;
    disagreements(out, report)?;
    writeln!(out, "<h2>How far this can be trusted</h2>\n<ul>")?;
    for limit in &report.limits {
        writeln!(out, "<li>{}</li>", Text(limit))?;
    }
    writeln!(out, "</ul>\n</body>\n</html>")
}

fn agreement(out: &mut String, configuration: &Configuration) -> fmt::Result {
    let Configuration { name, release, pods, worse_by, infeasible_by, .. } = configuration;
    writeln!(
        out,
        "<h2>{} of {} pods agree with {}, as release {} decides</h2>",
        share(pods.agreed(), pods.judged()),
        pods.compared,
        Text(name),
        Text(release)
    )?;
    choices(out, pods)?;
    if !worse_by.is_empty() {
        head(out, &["Worse by", ">Pods", ">Mean points"])?;
        for one in worse_by {
            let (plugin, pods, points) = (Text(&one.plugin), one.pods, one.mean_points);
            writeln!(
                out,
                "<tr><th scope=\"row\">{plugin}</th><td class=\"n\">{pods}</td><td class=\"n\">{points}</td></tr>"
            )?;
        }
        tail(out)?;
    }
    if !infeasible_by.is_empty() {
        head(out, &["Infeasible by", ">Pods", "Reason"])?;
        for one in infeasible_by {
            let (plugin, pods, reason) = (Text(&one.plugin), one.pods, Text(&one.reason));
            writeln!(
                out,
                "<tr><th scope=\"row\">{plugin}</th><td class=\"n\">{pods}</td><td>{reason}</td></tr>"
            )?;
        }
        tail(out)?;
    }
    Ok(())
}

fn choices(out: &mut String, pods: &Agreement) -> fmt::Result {
    head(out, &["Choice", ">Pods", ">Share", "", "Meaning"])?;
    for (choice, n, meaning) in rows(pods) {
        let mark = match choice {
            "same node" | "tie" | "both pending" => "good",
            "not judged" => "doubtful",
            _ => "bad",
        };
        let of = share(n, pods.compared);
        writeln!(
            out,
            "<tr><th scope=\"row\" class=\"{mark}\">{choice}</th><td class=\"n\">{n}</td><td class=\"n\">{of}</td>\
             <td><meter max=\"{}\" value=\"{n}\"></meter></td><td>{meaning}</td></tr>",
            pods.compared.max(1)
        )?;
    }
    tail(out)
}

fn differences(out: &mut String, between: &Differences) -> fmt::Result {
    let Differences { compared, same, overlap, different, one_finds_none, examples } = between;
    writeln!(out, "<h2>Between the configurations: {compared} pods on the same states</h2>")?;
    head(out, &["Best nodes", ">Pods", ">Share"])?;
    for (what, n) in [
        ("the same", same),
        ("partly the same", overlap),
        ("different", different),
        ("only one finds any", one_finds_none),
    ] {
        let of = share(*n, *compared);
        writeln!(
            out,
            "<tr><th scope=\"row\">{what}</th><td class=\"n\">{n}</td><td class=\"n\">{of}</td></tr>"
        )?;
    }
    tail(out)?;
    if examples.is_empty() {
        return Ok(());
    }
    head(out, &["Pod", "First", "Second"])?;
    for one in examples.iter().rev() {
        let [first, second] = [&one.first, &one.second].map(|nodes| nodes.join(", "));
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
            Text(&one.pod),
            Text(&first),
            Text(&second)
        )?;
    }
    tail(out)
}

fn pending(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(out, "<h2>Pending</h2>")?;
    let ours = report.our_cluster.as_ref().map(|ours| ("Ours", &ours.pending_time));
    for (whose, times) in [("Theirs", &report.pending_time)].into_iter().chain(ours) {
        if 0 < times.count {
            writeln!(out, "<p>{whose}: {}.</p>", pending_times(times))?;
        }
    }
    let still = &report.still_pending;
    writeln!(
        out,
        "<p>{} are still pending, of which the other scheduler finds no node for {}, and {} are gated{}.</p>",
        still.pods,
        still.said_unschedulable,
        still.gated,
        gangs_in_part(still)
    )
}

fn clusters(out: &mut String, report: &Report) -> fmt::Result {
    let ours = report.our_cluster.as_ref();
    match ours {
        Some(_) => {
            writeln!(
                out,
                "<h2>The cluster as it is, and as our decisions would have made it</h2>"
            )?;
        }
        None => writeln!(out, "<h2>The cluster as it is</h2>")?,
    }
    let headings = ["Of nodes: least / median / most", ">As it is", ">Ours"];
    head(out, &headings[..2 + usize::from(ours.is_some())])?;
    for (what, theirs, own) in cluster_rows(report) {
        write!(out, "<tr><th scope=\"row\">{}</th><td class=\"n\">{theirs}</td>", Text(&what))?;
        if let Some(own) = own {
            write!(out, "<td class=\"n\">{own}</td>")?;
        }
        writeln!(out, "</tr>")?;
    }
    tail(out)?;
    match ours {
        Some(ours) => writeln!(out, "<p>{}</p>", our_placements(ours)),
        None => Ok(()),
    }
}

fn disagreements(out: &mut String, report: &Report) -> fmt::Result {
    let found = report.disagreements.len();
    writeln!(out, "<h2>{found} disagreements, the latest first</h2>")?;
    if 0 < report.disagreements_dropped {
        writeln!(out, "<p>{} earlier ones are not listed.</p>", report.disagreements_dropped)?;
    }
    if found == 0 {
        return Ok(());
    }
    head(out, &[">", "Pod", "Kind", "Theirs", "Ours", "Why"])?;
    for one in report.disagreements.iter().rev() {
        let Disagreement { number, pod, at, kind, theirs, ours, why, reproduction, .. } = one;
        let kind = match kind {
            DisagreementKind::Worse => "worse",
            DisagreementKind::Infeasible => "infeasible",
            DisagreementKind::Unschedulable => "unschedulable",
            DisagreementKind::Pending => "pending although it fits",
            DisagreementKind::Unjudged => "not judged",
        };
        let (theirs, ours) = (theirs.as_deref().unwrap_or_default(), ours.join(", "));
        write!(
            out,
            "<tr><td class=\"n\">{number}</td><th scope=\"row\">{}<br>{}</th><td>{kind}</td><td>{}</td><td>{}</td><td>{}",
            Text(pod),
            Text(at),
            Text(theirs),
            Text(&ours),
            Text(why)
        )?;
        if let Some(reproduction) = reproduction {
            write!(out, "<br><code>{}</code>", Text(&reproduction.command))?;
        }
        writeln!(out, "</td></tr>")?;
    }
    tail(out)
}

/// The beginning of a table with these headings. One that begins with `>` is over numbers.
fn head(out: &mut String, headings: &[&str]) -> fmt::Result {
    write!(out, "<table>\n<thead><tr>")?;
    for heading in headings {
        match heading.strip_prefix('>') {
            Some(heading) => write!(out, "<th scope=\"col\" class=\"n\">{heading}</th>")?,
            None => write!(out, "<th scope=\"col\">{heading}</th>")?,
        }
    }
    writeln!(out, "</tr></thead>\n<tbody>")
}

fn tail(out: &mut String) -> fmt::Result {
    writeln!(out, "</tbody>\n</table>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_cluster_is_markup() {
        let name = "<img src=x onerror=alert(1)>\"'&\u{202e}\u{7}";
        let shown = Text(name).to_string();
        assert_eq!(
            shown,
            "<bdi>&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;\\u202e\\u0007</bdi>"
        );
    }
}
