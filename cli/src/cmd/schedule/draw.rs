//! Draws a timeline in the terminal and as SVG.

use crate::ui::Ui;
use fulgurite::schedule::{Action, Kind, Schedule, Timeline, Work};
use std::fmt::Write;

/// Columns of a rank's name.
const MARGIN: usize = 6;

/// One line per rank: a letter for its action at that time, `.` where it waits; capitals are even micro-batches.
pub fn lines(schedule: &Schedule, timeline: &Timeline, ui: &Ui) -> Vec<String> {
    let width = ui.width().saturating_sub(MARGIN).max(8) as u64;
    let total = timeline.makespan.max(1);
    let line = |(rank, spans): (usize, &Vec<fulgurite::schedule::Span>)| {
        let mut out = format!("r{rank:<4} ");
        for column in 0..width.min(total) {
            let time = column * total / width.min(total);
            let now = spans.iter().find(|s| s.start <= time && time < s.end);
            out.push(now.map_or('.', |s| letter(&schedule.lists[rank][s.position])));
        }
        out
    };
    timeline.spans.iter().enumerate().map(line).collect()
}

fn letter(action: &Action) -> char {
    match action {
        Action::Do(work) => {
            let letter = match work.kind {
                Kind::F => 'F',
                Kind::B => 'B',
                Kind::I => 'I',
                Kind::W => 'W',
            };
            if work.micro_batch % 2 == 0 { letter } else { letter.to_ascii_lowercase() }
        }
        _ => '#',
    }
}

/// Pixels of a rank's row.
const ROW: u64 = 26;
/// Pixels of the whole time.
const WIDTH: u64 = 1200;

/// The timeline as an SVG image: a row per rank, a box per action, darker for later stages.
pub fn svg(schedule: &Schedule, timeline: &Timeline) -> String {
    let (ranks, total) = (timeline.spans.len() as u64, timeline.makespan.max(1));
    let (width, height) = (WIDTH + 60, ranks * ROW + 20);
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="10"><rect width="100%" height="100%" fill="#fff"/>"##
    );
    for (rank, spans) in timeline.spans.iter().enumerate() {
        let y = 10 + rank as u64 * ROW;
        let _ = writeln!(out, r##"<text x="8" y="{}">r{rank}</text>"##, y + 16);
        for span in spans {
            let at = |time: u64| 40.0 + (time as f64) * WIDTH as f64 / total as f64;
            let works: Vec<Work> = schedule.lists[rank][span.position].works().collect();
            let (x, w) = (at(span.start), at(span.end) - at(span.start));
            let each = w / works.len().max(1) as f64;
            for (i, work) in works.iter().enumerate() {
                let x = x + each * i as f64;
                let _ = writeln!(
                    out,
                    r##"<rect x="{x:.1}" y="{y}" width="{each:.1}" height="{}" fill="{}" stroke="#fff"/>"##,
                    ROW - 4,
                    colour(*work, schedule)
                );
                if each > 14.0 {
                    let _ = writeln!(
                        out,
                        r##"<text x="{:.1}" y="{}" text-anchor="middle" fill="#fff">{}</text>"##,
                        x + each / 2.0,
                        y + 15,
                        work.micro_batch
                    );
                }
            }
        }
    }
    out.push_str("</svg>\n");
    out
}

fn colour(work: Work, schedule: &Schedule) -> String {
    let hue = match work.kind {
        Kind::F => 215,
        Kind::B => 25,
        Kind::I => 150,
        Kind::W => 285,
    };
    let later = if schedule.stages > schedule.ranks() { work.stage / schedule.ranks() } else { 0 };
    format!("hsl({hue},60%,{}%)", 55_usize.saturating_sub(later * 14).max(20))
}
