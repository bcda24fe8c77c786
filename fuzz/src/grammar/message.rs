//! Mutations of a protobuf message, whose fields are known by their wire types alone.

use crate::draws::Draws;

/// A field: its number and what it holds.
#[derive(Clone)]
struct Field {
    number: u64,
    held: Held,
}

#[derive(Clone)]
enum Held {
    Integer(u64),
    Eight([u8; 8]),
    Four([u8; 4]),
    Bytes(Vec<u8>),
    /// Bytes that are themselves a message.
    Message(Vec<Field>),
}

/// The message with one to four mutations, crossed with fields of another message; `None` if it is no message.
pub fn mutant(draws: &mut Draws, bytes: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let mut whole = parsed(bytes, 0)?;
    let other = parsed(other, 0).unwrap_or_default();
    for _ in 0..draws.few(4) {
        let source = if draws.one_in(2) || other.is_empty() { whole.clone() } else { other.clone() };
        let (mut count, mut kept) = (0, None);
        pick(&source, draws.below(size(&source)), &mut count, &mut kept);
        let mut left = draws.below(size(&whole));
        mutate(&mut whole, &mut left, kept, draws);
    }
    Some(written(&whole))
}

fn size(fields: &[Field]) -> usize {
    fields.iter().map(|field| 1 + if let Held::Message(inner) = &field.held { size(inner) } else { 0 }).sum()
}

/// The field that is the `place`th of the whole tree.
fn pick(fields: &[Field], place: usize, count: &mut usize, kept: &mut Option<Field>) {
    for field in fields {
        if *count == place {
            *kept = Some(field.clone());
        }
        *count += 1;
        if let Held::Message(inner) = &field.held {
            pick(inner, place, count, kept);
        }
    }
}

/// Changes the field that is `left` fields away; false once it is done.
fn mutate(fields: &mut Vec<Field>, left: &mut usize, other: Option<Field>, draws: &mut Draws) -> bool {
    for i in 0..fields.len() {
        if *left == 0 {
            change(fields, i, other, draws);
            return false;
        }
        *left -= 1;
        if let Held::Message(inner) = &mut fields[i].held
            && !mutate(inner, left, other.clone(), draws)
        {
            return false;
        }
    }
    true
}

fn change(fields: &mut Vec<Field>, i: usize, other: Option<Field>, draws: &mut Draws) {
    match draws.below(7) {
        0 => {
            fields.remove(i);
        }
        1 => fields.insert(i, fields[i].clone()),
        2 => {
            let j = draws.below(fields.len());
            fields.swap(i, j);
        }
        // another field of the message in its place, under its number or under this one
        3 => fields[i].held = other.map_or(Held::Integer(0), |other| other.held),
        4 => fields[i] = other.unwrap_or(Field { number: 1, held: Held::Integer(1) }),
        5 => fields[i].number = 1 + draws.below(20) as u64,
        _ => {
            let Field { number, held } = &mut fields[i];
            match held {
                Held::Integer(n) => *n = integer(draws),
                Held::Eight(bytes) => *bytes = integer(draws).to_le_bytes(),
                Held::Four(bytes) => bytes.iter_mut().for_each(|b| *b = draws.below(256) as u8),
                Held::Bytes(bytes) if bytes.is_empty() => bytes.push(b'x'),
                Held::Bytes(bytes) => {
                    let at = draws.below(bytes.len());
                    bytes[at] = draws.below(256) as u8;
                }
                // a message far inside of itself
                Held::Message(inner) => {
                    for _ in 0..draws.below(200) {
                        *inner = vec![Field { number: *number, held: Held::Message(std::mem::take(inner)) }];
                    }
                }
            }
        }
    }
}

/// Numbers at which sizes, indices and counts go wrong.
fn integer(draws: &mut Draws) -> u64 {
    match draws.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => i64::MAX as u64,
        3 => i64::MIN as u64,
        4 => 1 << 31,
        5 => 1 << 40,
        _ => draws.below(20) as u64,
    }
}

/// The fields of a message, if the bytes are one. Names and weights that happen to be messages are taken for them.
fn parsed(mut bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = key >> 3;
        let held = match key & 7 {
            0 => Held::Integer(varint(&mut bytes)?),
            1 => Held::Eight(taken(&mut bytes, 8)?.try_into().ok()?),
            5 => Held::Four(taken(&mut bytes, 4)?.try_into().ok()?),
            2 => {
                let length = varint(&mut bytes)?;
                let inner = taken(&mut bytes, usize::try_from(length).ok()?)?;
                match parsed(inner, depth + 1).filter(|fields| depth < 12 && !fields.is_empty()) {
                    Some(fields) => Held::Message(fields),
                    None => Held::Bytes(inner.to_vec()),
                }
            }
            _ => return None,
        };
        fields.push(Field { number: (1..1 << 29).contains(&number).then_some(number)?, held });
    }
    Some(fields)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn taken<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(first)
}

fn written(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    let write = |out: &mut Vec<u8>, mut n: u64| {
        while n >= 0x80 {
            out.push(n as u8 | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
    };
    for Field { number, held } in fields {
        let key = |wire: u64| number << 3 | wire;
        match held {
            Held::Integer(n) => {
                write(&mut out, key(0));
                write(&mut out, *n);
            }
            Held::Eight(bytes) => {
                write(&mut out, key(1));
                out.extend(bytes);
            }
            Held::Four(bytes) => {
                write(&mut out, key(5));
                out.extend(bytes);
            }
            Held::Bytes(bytes) => {
                write(&mut out, key(2));
                write(&mut out, bytes.len() as u64);
                out.extend(bytes);
            }
            Held::Message(inner) => {
                let bytes = written(inner);
                write(&mut out, key(2));
                write(&mut out, bytes.len() as u64);
                out.extend(bytes);
            }
        }
    }
    out
}
