//! `cargo ops check --watch`: a changed row is checked again, with the rows that call it. The watch ends when its
//! reader goes away.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use fulgurite_ops_verbs::cli::run_words;

/// Passes lines on until the receiver is gone.
struct Lines(Sender<String>, String);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += std::str::from_utf8(bytes).expect("text");
        while let Some((line, rest)) = self.1.split_once('\n') {
            self.0.send(line.to_owned()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.1 = rest.to_owned();
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn row(op: &str, meaning: &str) -> String {
    format!("- op: {op}\n  doc: A row\n  sig: '(x: T) -> T'\n  promote: default\n  dtypes: all - bool\n  {meaning}\n\n")
}

/// Output of a round, without the time.
fn round(lines: &Receiver<String>) -> String {
    let next = || lines.recv_timeout(Duration::from_secs(60)).expect("a round");
    let first = next();
    match first.split_once(" in ") {
        Some((checked, took)) => {
            let before = took.split_once(" s").map_or("", |(_, before)| before);
            format!("{checked}{before}, {}", next().split(';').next().unwrap_or_default())
        }
        None => first.split(';').next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn rounds_look_at_what_changed() {
    let path: PathBuf = std::env::temp_dir().join(format!("fulgurite-watch-{}.yaml", std::process::id()));
    let write = |half: &str| {
        let rows = [row("half", half), row("quarter", "decomp: half(x)"), row("other", "expr: x - x")];
        fs::write(&path, format!("ops:\n{}", rows.concat())).expect("a database");
    };
    write("expr: x + x");
    let (out, lines) = channel();
    let words = ["ops".into(), "check".into(), "--watch".into(), "--color=never".into(), path.clone().into_os_string()];
    let watch = std::thread::spawn(move || run_words(words, &mut Lines(out, String::new()), &mut io::sink()));
    assert_eq!(round(&lines), "Checked 3 rows, no errors");
    write("expr: x * x + x");
    assert_eq!(round(&lines), "Checked 3 rows, 1 of them as before, no errors");
    write("expr: x * x + y");
    assert_eq!(round(&lines), "1 error");
    write("expr: x * x");
    assert_eq!(round(&lines), "Checked 3 rows, 1 of them as before, no errors");
    // a version that passed before is still known
    write("expr: x + x");
    assert_eq!(round(&lines), "Checked 3 rows, 3 of them as before, no errors");
    drop(lines);
    write("expr: x * x * x");
    assert_eq!(watch.join().expect("an end"), 0);
    fs::remove_file(&path).expect("it was there");
}

#[test]
fn a_row_that_is_not_there_is_named_each_round() {
    let path: PathBuf = std::env::temp_dir().join(format!("fulgurite-watch-only-{}.yaml", std::process::id()));
    fs::write(&path, format!("ops:\n{}", row("half", "expr: x + x"))).expect("a database");
    let ((out, lines), (err, said)) = (channel(), channel());
    let words = ["ops", "check", "--watch", "--color=never", "--only", "hlaf"].map(Into::into);
    let words = words.into_iter().chain([path.clone().into_os_string()]).collect::<Vec<_>>();
    let watch =
        std::thread::spawn(move || run_words(words, &mut Lines(out, String::new()), &mut Lines(err, String::new())));
    assert_eq!(round(&lines), "Checked 0 rows, no errors");
    let claim = format!("error[E903]: `{}` has no row `hlaf`", path.display());
    assert_eq!(said.recv_timeout(Duration::from_secs(60)).expect("a line"), claim);
    drop(lines);
    fs::write(&path, format!("ops:\n{}", row("half", "expr: x * x"))).expect("a database");
    assert_eq!(watch.join().expect("an end"), 0);
    fs::remove_file(&path).expect("it was there");
}

#[test]
fn points_that_stand_apart_are_watched() {
    let folder = std::env::temp_dir().join(format!("fulgurite-watch-points-{}", std::process::id()));
    let (path, points) = (folder.join("ops.yaml"), folder.join("more/points.yaml"));
    fs::create_dir_all(folder.join("more")).expect("a folder");
    fs::write(&path, format!("points: more\nops:\n{}", row("half", "expr: x + x"))).expect("a database");
    fs::write(&points, "half:\n- {x: 1, out: 2}\n").expect("a file of points");
    let (out, lines) = channel();
    let words = ["ops".into(), "check".into(), "--watch".into(), "--color=never".into(), path.clone().into_os_string()];
    let watch = std::thread::spawn(move || run_words(words, &mut Lines(out, String::new()), &mut io::sink()));
    assert_eq!(round(&lines), "Checked 1 row, no errors");
    fs::write(&points, "half:\n- {x: 1, out: 2.5}\n").expect("a file of points");
    assert_eq!(round(&lines), "1 error");
    fs::remove_file(&points).expect("it was there");
    assert_eq!(round(&lines), "Checked 1 row, no errors");
    drop(lines);
    fs::write(&points, "half:\n- {x: 2, out: 4}\n").expect("a file of points");
    assert_eq!(watch.join().expect("an end"), 0);
    fs::remove_dir_all(&folder).expect("it was there");
}
