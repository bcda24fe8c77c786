//! The memory that the messages of a file take once they are read. It is computed before they are
//! read, because an empty message takes two bytes of a file and hundreds in memory.

use super::messages::*;

/// Messages may take this many times the bytes of their file, and [`FREE`] bytes more.
const TIMES: usize = 16;
const FREE: usize = 16 << 20;
/// The reader of messages refuses messages that lie deeper in each other.
const DEEPEST: usize = 100;

/// The number of a field, and the messages that it holds.
type Inner = (u64, fn() -> Kind);

/// A message, by the parts of it that are not plain texts and numbers.
#[derive(Clone, Copy)]
struct Kind {
    size: usize,
    /// The fields that are messages.
    inner: &'static [Inner],
    /// The numbers of fields that are lists of integers. An integer may take one byte of the file and eight in memory.
    integers: &'static [u64],
}

const fn plain(size: usize) -> Kind {
    Kind { size, inner: &[], integers: &[] }
}

fn model() -> Kind {
    Kind { inner: &[(7, graph), (8, entry), (25, function)], ..plain(size_of::<ModelProto>()) }
}

fn graph() -> Kind {
    const INNER: &[Inner] = &[(1, node), (5, tensor), (11, value), (12, value), (15, sparse)];
    Kind { inner: INNER, ..plain(size_of::<GraphProto>()) }
}

fn function() -> Kind {
    Kind { inner: &[(7, node), (9, entry), (11, attribute)], ..plain(size_of::<FunctionProto>()) }
}

fn node() -> Kind {
    Kind { inner: &[(5, attribute), (9, entry)], ..plain(size_of::<NodeProto>()) }
}

fn attribute() -> Kind {
    Kind { inner: &[(5, tensor), (6, graph)], integers: &[8], size: size_of::<AttributeProto>() }
}

fn tensor() -> Kind {
    Kind { inner: &[(13, entry)], integers: &[1, 5, 7, 11], size: size_of::<TensorProto>() }
}

fn sparse() -> Kind {
    Kind { inner: &[(1, tensor)], ..plain(size_of::<SparseTensor>()) }
}

fn entry() -> Kind {
    plain(size_of::<StringEntry>())
}

fn value() -> Kind {
    Kind { inner: &[(2, ty)], ..plain(size_of::<ValueInfo>()) }
}

fn ty() -> Kind {
    Kind { inner: &[(1, tensor_type)], ..plain(size_of::<TypeProto>()) }
}

fn tensor_type() -> Kind {
    Kind { inner: &[(2, shape)], ..plain(size_of::<TensorTypeProto>()) }
}

fn shape() -> Kind {
    Kind { inner: &[(1, || plain(size_of::<Dimension>()))], ..plain(size_of::<Shape>()) }
}

/// The memory that the messages of a file of this many bytes may take.
pub fn allowed(bytes: usize) -> usize {
    bytes.saturating_mul(TIMES).saturating_add(FREE)
}

/// Refuses a file whose messages would take too much memory. A file that is not well formed passes: the reader of
/// messages says what is wrong with it.
///
/// # Errors
/// The memory that they would take.
pub fn check(file: &[u8]) -> Result<(), String> {
    let most = allowed(file.len());
    let weight = weigh(file, model(), 0);
    if weight > most {
        let (weight, most) = (weight >> 20, most >> 20);
        return Err(format!(
            "its messages would take {weight} MB of memory; for a file of its size {most} MB are allowed"
        ));
    }
    Ok(())
}

/// The bytes that a message of this kind takes in memory. The sizes of lists double as they grow.
fn weigh(mut message: &[u8], kind: Kind, depth: usize) -> usize {
    let mut weight = kind.size;
    while let Some(key) = varint(&mut message) {
        let (field, wire) = (key >> 3, key & 7);
        let length = match wire {
            0 => {
                varint(&mut message);
                0
            }
            1 => 8,
            2 => varint(&mut message).unwrap_or(u64::MAX),
            5 => 4,
            _ => break,
        };
        let Some((content, rest)) = usize::try_from(length).ok().and_then(|n| message.split_at_checked(n)) else {
            break;
        };
        message = rest;
        let inner = kind.inner.iter().find(|(number, _)| *number == field);
        weight = weight.saturating_add(match inner {
            _ if kind.integers.contains(&field) => 8 * content.len().max(1),
            Some((_, inner)) if wire == 2 && depth < DEEPEST => 2 * weigh(content, inner(), depth + 1),
            // a text, or data, of which a message keeps the place
            _ => content.len().min(2 * size_of::<String>()),
        });
    }
    weight
}

/// The next number of a message, of at most ten bytes of seven bits.
fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for at in 0..10 {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn empty_messages_are_refused_before_they_are_read() {
        // 200,000 empty attributes in each of ten nodes: 4 MB of a file
        let node = NodeProto { attribute: vec![AttributeProto::default(); 200_000], ..NodeProto::default() };
        let graph = GraphProto { node: vec![node; 10], ..GraphProto::default() };
        let file = ModelProto { graph: Some(graph), ..ModelProto::default() }.encode_to_vec();
        assert!(file.len() < 5 << 20, "{}", file.len());
        assert!(check(&file).unwrap_err().contains("would take"), "{:?}", check(&file));
    }

    #[test]
    fn data_count_once_and_texts_as_much_as_they_take() {
        let tensor = TensorProto { raw_data: Some(vec![1; 64 << 20].into()), ..TensorProto::default() };
        let graph = GraphProto { initializer: vec![tensor], ..GraphProto::default() };
        let file = ModelProto { graph: Some(graph), ..ModelProto::default() }.encode_to_vec();
        assert!(weigh(&file, model(), 0) < 1 << 20);
        assert_eq!(check(&file), Ok(()));
    }
}
