//! Tensors as messages: dtype, shape, bytes. Both sides run one program, so numbers have the form that they have in
//! memory.

use fulgurite::Error;
use fulgurite::buffer::Buffer;
use fulgurite::core::DType;
use fulgurite::prelude::*;

/// Writes tensors as a message.
///
/// # Errors
/// Errors of the tensors.
pub fn write(tensors: &[Tensor]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    for tensor in tensors {
        let buffer = tensor.buffer()?;
        let name = buffer.dtype().name();
        bytes.extend([name.len() as u8, buffer.shape().len() as u8]);
        bytes.extend(name.bytes());
        buffer.shape().iter().for_each(|n| bytes.extend((*n as u64).to_ne_bytes()));
        bytes.extend(buffer.as_bytes());
    }
    Ok(bytes)
}

/// Reads the tensors of a message.
///
/// # Errors
/// E773: the message holds no tensors.
pub fn read(mut bytes: &[u8]) -> Result<Vec<Tensor>, Error> {
    let mut tensors = Vec::new();
    while !bytes.is_empty() {
        let (tensor, rest) =
            parse(bytes).ok_or_else(|| Error::new("E773", "a message between stages holds no tensors"))?;
        tensors.push(tensor);
        bytes = rest;
    }
    Ok(tensors)
}

fn parse(bytes: &[u8]) -> Option<(Tensor, &[u8])> {
    let (&[name, rank], rest) = bytes.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(name.into())?;
    let (shape, rest) = rest.split_at_checked(8 * usize::from(rank))?;
    let dtype = DType::from_name(std::str::from_utf8(name).ok()?)?;
    let shape: Vec<usize> = shape.as_chunks().0.iter().map(|n| u64::from_ne_bytes(*n) as usize).collect();
    let len = shape.iter().try_fold(dtype.size(), |len, n| len.checked_mul(*n))?;
    let (data, rest) = rest.split_at_checked(len)?;
    Some((Tensor::from_buffer(Buffer::from_bytes(dtype, &shape, data).ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_arrive_as_they_were_sent() {
        let sent = [Tensor::from_vec(vec![1.5f32, -0.0, f32::NAN], (3, 1)), Tensor::scalar(7i64)];
        let came = read(&write(&sent).expect("tensors")).expect("tensors");
        assert_eq!(came.len(), 2);
        for (there, here) in came.iter().zip(&sent) {
            let (there, here) = (there.buffer().expect("memory"), here.buffer().expect("memory"));
            assert_eq!((there.dtype(), there.shape(), there.as_bytes()), (here.dtype(), here.shape(), here.as_bytes()));
        }
        assert!(read(&[]).is_ok_and(|none| none.is_empty()));
        for wrong in [&[3][..], &[3, 1, b'f', b'3', b'2'], &[1, 0, b'x'], &[200, 200], &[3, 0, b'f', b'3', b'2', 0]] {
            assert_eq!(read(wrong).expect_err("no tensor").code(), "E773");
        }
    }
}
