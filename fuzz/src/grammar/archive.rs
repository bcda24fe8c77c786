//! Mutations of zip archives: of the texts of their records, and of the numbers of their directory.

use super::json;
use crate::draws::Draws;
use rawzip::{Error, ZipArchive, ZipArchiveWriter};
use std::io::Write;

/// The names and bytes of the records.
fn records(whole: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let archive = ZipArchive::from_slice(whole)?;
    let mut found = Vec::new();
    let mut records = archive.entries();
    while let Some(record) = records.next_entry()? {
        let name = String::from_utf8_lossy(record.file_path().as_ref()).into_owned();
        found.push((name, archive.get_entry(record.wayfinder())?.data().to_vec()));
    }
    Ok(found)
}

fn written(records: &[(String, Vec<u8>)]) -> Result<Vec<u8>, Error> {
    let mut writer = ZipArchiveWriter::new(Vec::new());
    for (name, bytes) in records {
        let (mut entry, config) = writer.new_file(name).start()?;
        let mut data = config.wrap(&mut entry);
        data.write_all(bytes).map_err(Error::from)?;
        let (_, descriptor) = data.finish()?;
        entry.finish(descriptor)?;
    }
    writer.finish()
}

/// The archive with mutations in its JSON texts, and sometimes a record lost, doubled, cut or taken from another archive.
pub fn records_mutated(draws: &mut Draws, whole: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let (mut own, others) = (records(whole).ok()?, records(other).unwrap_or_default());
    for (name, bytes) in &mut own {
        // most of the mutants are of the program
        if name.ends_with(".json") && (name.ends_with("model.json") || draws.below(8) == 0) {
            let base = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
            let alike = others.iter().find(|(other, _)| base(other) == base(name));
            if let Some(mutant) = json::mutant(draws, bytes, alike.map_or(&[][..], |(_, bytes)| bytes)) {
                *bytes = mutant;
            }
        }
    }
    if draws.one_in(8) && !own.is_empty() {
        let at = draws.below(own.len());
        match draws.below(4) {
            0 => _ = own.remove(at),
            1 => own.push(own[at].clone()),
            2 => {
                let length = draws.below(own[at].1.len() + 1);
                own[at].1.truncate(length);
            }
            _ => own.push(draws.pick(&others)),
        }
    }
    written(&own).ok()
}

/// A structure of a zip file: its signature, and the places and widths of its fields.
type Structure = (&'static [u8; 4], &'static [(usize, usize)]);

const STRUCTURES: &[Structure] = &[
    // a record: version, flags, method, time, sums, sizes, lengths of names
    (b"PK\x03\x04", &[(4, 2), (6, 2), (8, 2), (10, 4), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)]),
    // an entry of the directory, with the place of its record
    (
        b"PK\x01\x02",
        &[(4, 2), (6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (34, 2), (42, 4)],
    ),
    // the end: counts, and size and place of the directory
    (b"PK\x05\x06", &[(4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)]),
    (b"PK\x06\x06", &[(4, 8), (24, 8), (32, 8), (40, 8), (48, 8)]),
    (b"PK\x06\x07", &[(4, 4), (8, 8), (16, 4)]),
    (b"PK\x07\x08", &[(4, 4), (8, 4), (12, 4)]),
];

/// The archive with other numbers in its structures.
pub fn numbers_mutated(draws: &mut Draws, whole: &[u8]) -> Vec<u8> {
    let mut made = whole.to_vec();
    let mut fields = Vec::new();
    for at in made.windows(2).enumerate().filter(|(_, pair)| *pair == b"PK").map(|(at, _)| at) {
        let known = STRUCTURES.iter().find(|(signature, _)| made[at..].starts_with(&signature[..]));
        fields.extend(known.iter().flat_map(|(_, fields)| fields.iter()).map(|(place, width)| (at + place, *width)));
    }
    for _ in 0..draws.few(3) {
        let (place, width) = draws.pick(&fields);
        let Some(field) = made.get_mut(place..place + width) else { continue };
        let mut old = [0; 8];
        old[..width].copy_from_slice(field);
        let old = u64::from_le_bytes(old);
        let new = match draws.below(10) {
            0 => 0,
            1 => u64::MAX,
            2 => i64::MAX as u64,
            3 => 1 << 31,
            4 => old.wrapping_add(1),
            5 => old.wrapping_sub(1),
            6 => old.wrapping_mul(2),
            7 => whole.len() as u64,
            8 => draws.below(whole.len() + 1) as u64,
            _ => draws.bits(),
        };
        field.copy_from_slice(&new.to_le_bytes()[..width]);
    }
    if draws.one_in(8) {
        made.truncate(draws.below(made.len() + 1));
    }
    made
}
