//! Tensors as messages: dtype, shape, bytes. Both sides are one program, so numbers stand as in memory.

use fulgurite::Error;
use fulgurite::buffer::Buffer;
use fulgurite::core::DType;
use fulgurite::prelude::*;

/// A tensor as a message.
///
/// # Errors
/// What the tensor reports.
pub fn write(tensor: &Tensor) -> Result<Vec<u8>, Error> {
    let buffer = tensor.buffer()?;
    let name = buffer.dtype().name();
    let mut bytes = vec![name.len() as u8, buffer.shape().len() as u8];
    bytes.extend(name.bytes());
    buffer.shape().iter().for_each(|n| bytes.extend((*n as u64).to_ne_bytes()));
    bytes.extend(buffer.as_bytes());
    Ok(bytes)
}

/// The tensor of a message.
///
/// # Errors
/// E773: it is none.
pub fn read(bytes: &[u8]) -> Result<Tensor, Error> {
    parse(bytes).ok_or_else(|| Error::new("E773", "a message between stages holds no tensor"))
}

fn parse(bytes: &[u8]) -> Option<Tensor> {
    let (&[name, rank], rest) = bytes.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(name.into())?;
    let (shape, data) = rest.split_at_checked(8 * usize::from(rank))?;
    let dtype = DType::from_name(std::str::from_utf8(name).ok()?)?;
    let shape: Vec<usize> = shape.as_chunks().0.iter().map(|n| u64::from_ne_bytes(*n) as usize).collect();
    Buffer::from_bytes(dtype, &shape, data).ok().map(Tensor::from_buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_arrive_as_they_were_sent() {
        for tensor in [Tensor::from_vec(vec![1.5f32, -0.0, f32::NAN], (3, 1)), Tensor::from_vec(vec![7i64], ())] {
            let there = read(&write(&tensor).expect("a tensor")).expect("a tensor").buffer().expect("memory");
            let here = tensor.buffer().expect("memory");
            assert_eq!((there.dtype(), there.shape(), there.as_bytes()), (here.dtype(), here.shape(), here.as_bytes()));
        }
        for wrong in [&[][..], &[3, 1, b'f', b'3', b'2'], &[1, 0, b'x'], &[200, 200]] {
            assert_eq!(read(wrong).expect_err("no tensor").code(), "E773");
        }
    }
}
