//! The few recorded calls of PyTorch that `check` runs for each name. They are chosen from `tests/data`.

#[path = "../../../codegen/tests/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use fulgurite_codegen::check::recorded::{Forms, Runner};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::schema::read_database;
use fulgurite_core::lower::NoRows;
use fulgurite_mutate::recorded::load;
use serde_json::Value as Json;

/// At most this many calls per name, because a second dtype shows most of what the first does not.
const EACH: usize = 2;

/// Longest text of a call and its result in bytes. Longer ones are left out where there are others.
const LONG: usize = 450;

/// A recorded call: its name, its text, its result.
struct Recorded {
    id: String,
    op: String,
    call: String,
    came: String,
    json: (Json, Json),
}

fn recorded(folder: &Path) -> Vec<Recorded> {
    let mut all = Vec::new();
    for (part, kind) in
        [("conformance", ""), ("conformance", "more-"), ("conformance", "model-"), ("onnx", ""), ("near", "")]
    {
        let read = |what: &str| -> Vec<(String, Json)> {
            let text =
                fs::read_to_string(folder.join(part).join(format!("{kind}{what}.jsonl"))).expect("recorded calls");
            text.lines().map(|line| (line.to_owned(), serde_json::from_str(line).expect("JSON"))).collect()
        };
        let came: HashMap<String, (String, Json)> = read("expect")
            .into_iter()
            .map(|(line, json)| (json["id"].as_str().expect("a name").to_owned(), (line, json)))
            .collect();
        for (call, json) in read("cases") {
            let id = json["id"].as_str().expect("a name").to_owned();
            let Some((came, expected)) = came.get(&id).cloned() else { continue };
            let op = json["op"].as_str().expect("a name");
            let op = op.strip_suffix(".default").unwrap_or(op).to_owned();
            all.push(Recorded { id, op, call, came, json: (json, expected) });
        }
    }
    all
}

/// The number of different values in a result, without the few that many functions give. At most 3.
fn odd(recorded: &Recorded) -> usize {
    let outs = recorded.json.1["out"].as_array().cloned().unwrap_or_default();
    let numbers: HashSet<String> = outs
        .iter()
        .flat_map(|out| match (out["data"].as_array(), out["hex"].as_str()) {
            (Some(data), _) => data.iter().map(Json::to_string).collect::<Vec<_>>(),
            (None, Some(hex)) => hex.as_bytes().chunks(8).map(|b| String::from_utf8_lossy(b).into_owned()).collect(),
            _ => vec![out.to_string()],
        })
        .collect();
    let usual = ["0", "1", "0.0", "1.0", "-1.0", "true", "false", "\"inf\"", "\"nan\"", "\"-inf\""];
    numbers.iter().filter(|x| !usual.contains(&x.as_str())).count().min(3)
}

fn given(recorded: &Recorded) -> usize {
    let call = &recorded.json.0;
    let args = call["args"].as_array().map_or(0, |args| args.iter().filter(|arg| !arg.is_null()).count());
    args + call["kwargs"].as_object().map_or(0, serde_json::Map::len)
}

/// Rank of a call's dtype. Narrow integers come first, because they show most of promotion and rounding.
fn dtype(recorded: &Recorded) -> usize {
    let dtype = recorded.json.0["tensors"][0]["dtype"].as_str().unwrap_or("none").to_owned();
    ["i32", "bool", "u8", "i16", "i8", "f16", "bf16", "i64", "f64"].iter().position(|d| *d == dtype).unwrap_or(9)
}

/// `src/libraries/recorded.txt` has the calls that are chosen from the data. `UPDATE_EXPECT=1` writes them.
#[test]
fn the_few_are_those_of_the_data() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data"));
    let mut diags = Diagnostics::new();
    let (sources, file) = common::joined_sources();
    let database = read_database(file, &sources, &mut diags);
    let rows: Vec<_> = database.rows.iter().map(|row| std::sync::Arc::new(row.lower_to_row())).collect();
    let set = RowSet::new(&NoRows, rows.clone(), &[]);
    let forms = Forms::of(database.rows.iter().zip(&rows).enumerate().map(|(at, (source, row))| (at, source, &**row)));
    let runner = Runner::new(&set, &forms, None);
    // several rows may have one name: each has calls of its own
    let met: HashMap<String, &str> = load(folder)
        .unwrap_or_else(|(path, why)| panic!("{}: {why}", path.display()))
        .into_iter()
        .filter_map(|case| match runner.differs(&case)? {
            (taker, None) => Some((case.name, taker.as_str())),
            (_, Some(_)) => None,
        })
        .collect();
    let mut by_name: BTreeMap<(String, &str), Vec<Recorded>> = BTreeMap::new();
    for recorded in recorded(folder).into_iter().filter(|r| r.json.1["status"] == "ok") {
        let Some(taker) = met.get(&recorded.id) else { continue };
        by_name.entry((recorded.op.clone(), taker)).or_default().push(recorded);
    }
    let mut made =
        "# Calls that PyTorch gave, a few for each name: made by tools/mutate/tests/recorded.rs of tests/data\n"
            .to_owned();
    for ((name, _), mut of) in by_name {
        let size = |r: &Recorded| r.call.len() + r.came.len();
        // small calls run quickly; each further argument is worth some bytes
        let cost = |r: &Recorded| size(r) as i64 - 60 * given(r) as i64;
        of.sort_by_key(|r| (size(r) > LONG, std::cmp::Reverse(odd(r).min(2)), cost(r), r.id.clone()));
        let mut chosen: Vec<Recorded> = vec![of.remove(0)];
        of.retain(|r| size(r) <= LONG);
        of.sort_by_key(|r| (dtype(r), std::cmp::Reverse(odd(r)), size(r), r.id.clone()));
        if let Some(at) =
            of.iter().position(|r| dtype(r) != dtype(&chosen[0])).or(if of.is_empty() { None } else { Some(0) })
            && chosen.len() < EACH
        {
            chosen.push(of.remove(at));
        }
        for r in chosen {
            // gradients and names are for other tests
            let strip = |json: &Json, keys: &[&str]| {
                let mut json = json.clone();
                json.as_object_mut().expect("an object").retain(|key, _| !keys.contains(&key.as_str()));
                json.to_string()
            };
            let call = strip(&r.json.0, &["id", "ct"]);
            let came = strip(&r.json.1, &["id", "grad"]);
            made += &format!("{name}\t{call}\t{came}\n");
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../codegen/src/libraries/recorded.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, made).expect("the calls are written");
    } else {
        assert_eq!(fs::read_to_string(path).unwrap_or_default(), made, "UPDATE_EXPECT=1 writes {path}");
    }
}
