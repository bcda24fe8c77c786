//! Tensors of subclasses in open traces: they are made of their fields where they are used, and taken apart at the end
//! of a program.

use super::{Frame, resolve};
use crate::error::Error;
use crate::tensor::{Tensor, View, Wrapped};
use crate::trace::{ProxyId, ProxyTy, SubclassLayout};

/// The proxy of a tensor of a subclass that is held as its fields, with their present values.
pub(super) fn value(stack: &mut [Frame], depth: usize, tensor: &Tensor, of: &Wrapped) -> Result<ProxyId, Error> {
    let fields = of.fields().iter().map(|field| resolve(stack, depth, field)).collect::<Result<Vec<_>, _>>()?;
    let address = super::captures::address(tensor);
    let frame = &mut stack[depth];
    if let Some((_, known, made)) = frame.captured.wrapped.get(&address)
        && *known == fields
    {
        return Ok(*made);
    }
    let made = frame.builder.unflatten(of.layout(), &fields)?;
    // the handle is held so that its address is not reused
    frame.captured.wrapped.insert(address, (tensor.clone(), fields, made));
    Ok(made)
}

/// Takes apart a tensor of a subclass to its fields; other tensors are returned unchanged.
pub(super) fn apart(stack: &mut [Frame], depth: usize, tensor: &Tensor) -> Result<Tensor, Error> {
    let View::Traced(traced) = tensor.view() else { return Ok(tensor.clone()) };
    let ty = traced.ty().clone();
    let Some(layout) = ty.subclass() else { return Ok(tensor.clone()) };
    let proxy = resolve(stack, depth, tensor)?;
    fields(&mut stack[depth], proxy, layout)
}

fn fields(frame: &mut Frame, proxy: ProxyId, layout: &SubclassLayout) -> Result<Tensor, Error> {
    let mut handles = Vec::new();
    for field in frame.builder.flatten(proxy)? {
        let ty: ProxyTy = frame.builder.arena().ty(field);
        handles.push(match ty.subclass() {
            Some(layout) => fields(frame, field, &layout.clone())?,
            None => Tensor::traced(&frame.token, field, ty),
        });
    }
    let made = Tensor::wrap_like(layout, &handles);
    made.check()?;
    Ok(made)
}
