//! Timelines of schedules as a page for a browser: axes, a legend, and the numbers as a table.

use super::{Entry, PARTS, draw};
use crate::fault::Outcome;
use crate::ui::format;
use fulgurite::viewer::page::{HtmlPage, escaped, write};
use std::path::Path;

const STYLE: &str = include_str!("page.css");

/// Writes the page. `best` is the name of the best schedule, if several are compared; `without` are those that cannot be
/// made, with the reasons.
///
/// # Errors
/// E913 if the file can't be written.
pub fn page(path: &Path, entries: &[Entry], best: Option<&str>, without: &[(&str, String)]) -> Outcome {
    let longest = entries.iter().map(|e| e.timeline.makespan).max().unwrap_or(1).max(1);
    let title = match entries {
        [one] => format!("Schedule {}", one.name),
        _ => "Schedules of a pipeline".to_owned(),
    };
    let mut body = format!("<header><h1>{}</h1><button id=\"theme\"></button></header>\n<main>\n", escaped(&title));
    body += &table(entries, best, without);
    body += LEGEND;
    for (number, entry) in entries.iter().enumerate() {
        body += &section(entry, number, longest);
    }
    body += "</main>\n";
    let style = format!("{STYLE}{}", draw::style());
    let html = HtmlPage { title: &title, body: &body, style: &style, data: None, script: "" }.html();
    Ok(write(path, &html)?)
}

/// The kinds of work, which a letter tells apart as well as a colour, if the box has room for it.
const LEGEND: &str = r#"<section aria-labelledby="legend"><h2 id="legend">Legend</h2>
<ul class="legend">
<li><span class="box F" aria-hidden="true">F</span>forward</li>
<li><span class="box B" aria-hidden="true">B</span>backward</li>
<li><span class="box I" aria-hidden="true">I</span>backward for inputs</li>
<li><span class="box W" aria-hidden="true">W</span>backward for weights</li>
<li><span class="box wait" aria-hidden="true"></span>the rank waits</li>
</ul>
<p>A box is the work of one rank on one micro-batch; its number is the micro-batch, and after a point the rank's later
stage, where there is room. The pointer shows all of it. Time runs in the units of <code>--times</code>, and all timelines have one scale.</p></section>
"#;

fn table(entries: &[Entry], best: Option<&str>, without: &[(&str, String)]) -> String {
    let mut out = String::from(
        "<section aria-labelledby=\"numbers\"><h2 id=\"numbers\">Numbers</h2><div class=\"wide\" tabindex=\"0\" \
         role=\"region\" aria-label=\"Table of schedules\"><table>\n<thead><tr><th scope=\"col\">schedule</th>\
         <th scope=\"col\">ranks</th><th scope=\"col\">time (units)</th><th scope=\"col\">waiting</th>\
         <th scope=\"col\">kept (micro-batches × stages)</th><th scope=\"col\">kept bytes</th></tr></thead>\n<tbody>\n",
    );
    for e in entries {
        let is_best = best == Some(&e.name);
        out += &format!(
            "<tr{}><th scope=\"row\">{}{}</th><td>{}</td><td>{:.1}</td><td>{:.1} %</td><td>{}</td><td>{}</td></tr>\n",
            if is_best { " class=\"best\"" } else { "" },
            escaped(&e.name),
            if is_best { " (best)" } else { "" },
            e.schedule.ranks(),
            e.timeline.makespan as f64 / PARTS as f64,
            100.0 * e.waiting(),
            e.peak(),
            format::bytes(e.bytes() as usize)
        );
    }
    for (kind, why) in without {
        out += &format!("<tr><th scope=\"row\">{}</th><td colspan=\"5\">{}</td></tr>\n", escaped(kind), escaped(why));
    }
    out + "</tbody></table></div></section>\n"
}

fn section(entry: &Entry, number: usize, longest: u64) -> String {
    let name = escaped(&entry.name);
    let time = entry.timeline.makespan as f64 / PARTS as f64;
    let waiting = 100.0 * entry.waiting();
    let ranks = entry.schedule.ranks();
    let label = format!("Timeline of {name}: {ranks} ranks, {time:.1} units of time, {waiting:.1} % waiting");
    format!(
        "<section aria-labelledby=\"s{number}\"><h2 id=\"s{number}\">{name} <small>{time:.1} units, {waiting:.1} % \
         waiting</small></h2><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">{}</div></section>\n",
        draw::figure(&entry.schedule, &entry.timeline, longest, &label)
    )
}
