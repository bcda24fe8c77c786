//! Draws a timeline in the terminal and as SVG.

use super::PARTS;
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
            let letter = kind(*work);
            if work.micro_batch % 2 == 0 { letter } else { letter.to_ascii_lowercase() }
        }
        _ => '#',
    }
}

/// Pixels of a rank's row.
const ROW: u64 = 26;
/// Pixels of the longest time.
const WIDTH: u64 = 1200;
/// Pixels on the left, for the names of ranks.
const LEFT: u64 = 44;
/// Pixels on the right, for the last number of the axis.
const RIGHT: u64 = 40;
/// Pixels below, for the axis.
const BELOW: u64 = 40;
/// The pixels between two numbers of the axis, about.
const BETWEEN: f64 = 90.0;
/// Pixels of a letter in a box, and beside all letters together.
const LETTER: (f64, f64) = (6.6, 3.0);

/// The colours of a drawing by itself. Letters in boxes are white, and have a contrast of at least 4.5 to each colour.
const STYLE: &str = include_str!("draw.css");

/// The timeline as an SVG image of its own: a row per rank, a box per action, and the axis of time.
pub fn svg(schedule: &Schedule, timeline: &Timeline) -> String {
    let label = format!("Timeline of {} ranks", timeline.spans.len());
    let figure = figure(schedule, timeline, timeline.makespan, &label);
    let ground = "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";
    match figure.split_once('>') {
        Some((head, rest)) => format!("{head}><style>{STYLE}</style>{ground}{rest}\n"),
        None => figure,
    }
}

/// The style of drawings.
pub fn style() -> &'static str {
    STYLE
}

/// The drawing; `longest` is the time that fills its width, so that several can be compared.
pub fn figure(schedule: &Schedule, timeline: &Timeline, longest: u64, label: &str) -> String {
    let (ranks, longest) = (timeline.spans.len() as u64, longest.max(1));
    let at = |time: u64| LEFT as f64 + time as f64 * WIDTH as f64 / longest as f64;
    let units = |time: u64| time as f64 / PARTS as f64;
    let (width, height, bottom) = (LEFT + WIDTH + RIGHT, ranks * ROW + BELOW + 8, ranks * ROW + 8);
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" class="timeline" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">"##
    );
    for (rank, spans) in timeline.spans.iter().enumerate() {
        let y = 6 + rank as u64 * ROW;
        let _ = writeln!(out, r##"<text class="rank" x="{}" y="{}">r{rank}</text>"##, LEFT - 8, y + 16);
        let _ = writeln!(
            out,
            r##"<rect class="wait" x="{LEFT}" y="{y}" width="{:.1}" height="{}"/>"##,
            at(timeline.makespan) - LEFT as f64,
            ROW - 4
        );
        for span in spans {
            let works: Vec<Work> = schedule.lists[rank][span.position].works().collect();
            let each = (at(span.end) - at(span.start)) / works.len().max(1) as f64;
            for (i, work) in works.iter().enumerate() {
                let x = at(span.start) + each * i as f64;
                let (kind, micro_batch, stage) = (kind(*work), work.micro_batch, work.stage);
                let (from, to) = (units(span.start), units(span.end));
                let _ = writeln!(
                    out,
                    r##"<rect class="work {kind}" x="{x:.1}" y="{y}" width="{each:.1}" height="{}"><title>{kind} of micro-batch {micro_batch}, stage {stage}, rank {rank}: {from:.2} to {to:.2}</title></rect>"##,
                    ROW - 4
                );
                let later = stage / schedule.ranks().max(1);
                let later = if later > 0 { format!(".{later}") } else { String::new() };
                // the longest text for which the box has room
                let texts = [
                    format!("{kind}{micro_batch}{later}"),
                    format!("{kind}{micro_batch}"),
                    micro_batch.to_string(),
                    kind.to_string(),
                ];
                let fits = |text: &String| text.len() as f64 * LETTER.0 + LETTER.1 <= each;
                let Some(text) = texts.into_iter().find(fits) else { continue };
                let _ = writeln!(out, r##"<text class="name" x="{:.1}" y="{}">{text}</text>"##, x + each / 2.0, y + 15);
            }
        }
    }
    axis(&mut out, longest, bottom, &at);
    out.push_str("</svg>");
    out
}

/// The axis of time, in the units in which the times were given.
fn axis(out: &mut String, longest: u64, bottom: u64, at: &dyn Fn(u64) -> f64) {
    let total = longest as f64 / PARTS as f64;
    let wanted = total * BETWEEN / WIDTH as f64;
    let power = 10f64.powf(wanted.max(1e-6).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|n| *n >= wanted).unwrap_or(wanted);
    let _ = writeln!(out, r##"<path class="axis" d="M{LEFT} {bottom}H{}"/>"##, LEFT + WIDTH);
    let mut i = 0;
    while f64::from(i) * step <= total * (1.0 + 1e-9) {
        let time = f64::from(i) * step;
        let x = at((time * PARTS as f64).round() as u64);
        let _ = writeln!(
            out,
            r##"<path class="axis" d="M{x:.1} {bottom}v5"/><text class="tick" x="{x:.1}" y="{}">{}</text>"##,
            bottom + 16,
            (time * 1e6).round() / 1e6
        );
        i += 1;
    }
    let _ = writeln!(
        out,
        r##"<text class="tick" x="{}" y="{}">time in units of --times</text>"##,
        LEFT + WIDTH / 2,
        bottom + 32
    );
}

fn kind(work: Work) -> char {
    match work.kind {
        Kind::F => 'F',
        Kind::B => 'B',
        Kind::I => 'I',
        Kind::W => 'W',
    }
}
