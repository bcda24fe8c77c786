//! Checkpoints: safetensors files.

use super::files;
use crate::draws::Draws;
use crate::grammar::{json, text};
use crate::target::{FuzzTarget, InputAnswer, Outcome, READER, no_bug};
use fulgurite::checkpoint;

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "safetensors",
    about: "checkpoints: what is read is saved and read again as the same tensors",
    seeds,
    mutate,
    run,
    limits: READER,
};

/// The dtypes of the format, with the bytes of an element.
const DTYPES: [(&str, usize); 13] = [
    ("BOOL", 1),
    ("U8", 1),
    ("I8", 1),
    ("I16", 2),
    ("U16", 2),
    ("F16", 2),
    ("BF16", 2),
    ("I32", 4),
    ("F32", 4),
    ("F64", 8),
    ("I64", 8),
    ("F8_E4M3", 1),
    ("F8_E5M2", 1),
];

/// A file with this header and this many bytes of data.
fn file(header: &[u8], data: usize) -> Vec<u8> {
    let mut made = (header.len() as u64).to_le_bytes().to_vec();
    made.extend_from_slice(header);
    made.extend((0..data).map(|n| n as u8));
    made
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = files::below("compat/models/data", "safetensors");
    seeds.retain(|seed| seed.len() < 4000);
    for (dtype, size) in DTYPES {
        let header = format!(
            "{{\"__metadata__\":{{\"k\":\"v\"}},\"a.0\":{{\"dtype\":\"{dtype}\",\"shape\":[2,3],\"data_offsets\":[0,{0}]}},\"b\":{{\"dtype\":\"{dtype}\",\"shape\":[],\"data_offsets\":[{0},{1}]}}}}",
            6 * size,
            7 * size
        );
        seeds.push(file(header.as_bytes(), 7 * size));
    }
    seeds.push(file(b"{}", 0));
    seeds
}

fn header(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)).ok()?;
    bytes.get(8..)?.split_at_checked(length)
}

/// A file by the grammar: its tensors stand one after the other, and at most one number is wrong.
fn drawn(draws: &mut Draws) -> Vec<u8> {
    let (mut entries, mut end) = (Vec::new(), 0usize);
    for n in 0..draws.below(5) {
        let (dtype, size) = DTYPES[draws.below(DTYPES.len())];
        let shape: Vec<usize> = (0..draws.below(5)).map(|_| [0, 1, 2, 3, 4, 7][draws.below(6)]).collect();
        let start = end;
        end += size * shape.iter().product::<usize>();
        let name = draws.pick(&["a", "a.0", "", "é", "x/y", "_", "a b"]);
        entries.push(format!(
            "\"{name}{n}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}"
        ));
    }
    if draws.one_in(3) {
        entries.insert(0, "\"__metadata__\":{\"k\":\"v\"}".to_owned());
    }
    let mut text = format!("{{{}}}", entries.join(","));
    if draws.one_in(2) {
        text = text::mutant(draws, &text, &text, &[&["F32", "shape"]]);
    }
    text += &" ".repeat(draws.below(9));
    file(text.as_bytes(), end)
}

/// Mutations of the header's values, of its text, of its length, and of the data.
fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    if draws.one_in(2) {
        return drawn(draws);
    }
    let Some((own, data)) = header(a) else { return text::bytes(draws, a) };
    let other = header(b).map_or(&[][..], |(other, _)| other);
    let numbers: [u64; 8] = [0, 1, 2, u64::MAX, i64::MAX as u64, 1 << 32, own.len() as u64 + 1, a.len() as u64];
    let mut data = data.to_vec();
    let made = match draws.below(10) {
        0 => {
            let mut made = a.to_vec();
            made[..8].copy_from_slice(&draws.pick(&numbers).to_le_bytes());
            return made;
        }
        1 => return text::bytes(draws, a),
        2 => text::mutate(
            draws,
            own,
            other,
            &[&["F32", "I64", "shape", "dtype", "data_offsets", "__metadata__", "\\u0000"]],
        ),
        3 => {
            let size = data.len();
            data.resize(draws.below(2 * size + 2), 0);
            own.to_vec()
        }
        _ => json::mutant(draws, own, other).unwrap_or_default(),
    };
    let mut whole = (made.len() as u64).to_le_bytes().to_vec();
    whole.extend_from_slice(&made);
    whole.extend_from_slice(&data);
    whole
}

fn run(input: &[u8]) -> Outcome {
    // the reader of recorded cases reads the format on its own
    let _ = fulgurite_conformance::Tensors::read(input.to_vec());
    let read = files::with_file("safetensors", input, |path| (checkpoint::inspect(path), checkpoint::tensors(path)))?;
    let (header, mut tensors) = match read {
        (Ok(header), Ok(tensors)) => (header, tensors),
        (header, tensors) => {
            let errors = [header.err(), tensors.err()];
            for e in errors.iter().flatten() {
                no_bug(&e.to_string())?;
            }
            let [first, second] = errors;
            if first.is_some() && second.is_none() {
                return Err("tensors are read from a file whose header is refused".to_owned());
            }
            return Ok(InputAnswer::refused([first, second].iter().flatten().map(|e| e.claim().to_owned())));
        }
    };
    if header.entries.len() != tensors.len() {
        return Err(format!("{} entries, but {} tensors", header.entries.len(), tensors.len()));
    }
    // a leaf without a path is called `value` in files
    if let Some(unnamed) = tensors.remove("") {
        if tensors.contains_key("value") {
            return Ok(InputAnswer::accepted(["two leaves without other names"]));
        }
        tensors.insert("value".to_owned(), unnamed);
    }
    let path = files::temporary().join(format!("fulgurite-fuzz-{}.again.safetensors", std::process::id()));
    let again = checkpoint::save(&path, &tensors).and_then(|()| checkpoint::tensors(&path));
    _ = std::fs::remove_file(&path);
    let again = match again {
        Ok(again) => again,
        Err(e) => {
            no_bug(&e.to_string())?;
            return Ok(InputAnswer::refused([format!("saved: {}", e.claim())]));
        }
    };
    for ((name, before), (other, after)) in tensors.iter().zip(&again) {
        let bits = |tensor: &fulgurite::Tensor| tensor.buffer().map_err(|e| e.to_string());
        let (a, b) = (bits(before)?, bits(after)?);
        if name != other || a.shape() != b.shape() || a.dtype() != b.dtype() || a.as_bytes() != b.as_bytes() {
            return Err(format!("the tensor is another one after it was saved: `{name}`, `{other}`"));
        }
    }
    Ok(InputAnswer::accepted(header.entries.iter().map(|entry| format!("{} {}", entry.ty.dtype, entry.ty.shape.len()))))
}
