//! Runs one case: the call, and the derivatives that it wants.

use crate::answer::{Answer, Found, Status};
use crate::case::Case;
use crate::file::Tensors;
use crate::value::{self, Unread};
use fulgurite::core::loc::Loc;
use fulgurite::foreign::{self, Given};
use fulgurite::prelude::*;
use fulgurite::{Error, buffer::Buffer};
use serde_json::Value as Json;

pub(super) fn run(case: &Case, file: &Tensors) -> Answer {
    if foreign::forms(&case.op).is_empty() {
        return Answer::of(Status::Unsupported("no row".into()));
    }
    match Call::read(case, file) {
        Ok(call) => call.answer(),
        Err(Unread::Unsupported(what) | Unread::Malformed(what)) => Answer::of(Status::Unsupported(what)),
    }
}

/// Positional arguments, and named ones.
type Arguments = (Vec<Given>, Vec<(String, Given)>);

/// A call with its tensors.
struct Call<'a> {
    case: &'a Case,
    file: &'a Tensors,
    tensors: Vec<Tensor>,
}

impl Call<'_> {
    fn read<'a>(case: &'a Case, file: &'a Tensors) -> Result<Call<'a>, Unread> {
        let buffers = case.tensors.iter().map(|json| value::tensor(json, file));
        let tensors = buffers.map(|b| b.map(Tensor::from_buffer)).collect::<Result<Vec<_>, _>>()?;
        let call = Call { case, file, tensors };
        // Faults in the arguments are found before anything runs.
        call.arguments(&call.tensors)?;
        Ok(call)
    }

    fn arguments(&self, tensors: &[Tensor]) -> Result<Arguments, Unread> {
        let strided = self.case.tensors.iter().map(value::is_strided);
        let tensors: Vec<(Tensor, bool)> = tensors.iter().cloned().zip(strided).collect();
        let args = self.case.args.iter().map(|json| value::given(json, &tensors)).collect::<Result<_, _>>()?;
        let named = self.case.kwargs.iter().map(|(name, json)| Ok((name.clone(), value::given(json, &tensors)?)));
        Ok((args, named.collect::<Result<_, Unread>>()?))
    }

    /// All results, with `inputs` in place of the differentiable inputs.
    fn outputs(&self, inputs: Option<&[Tensor]>) -> Result<foreign::Results, Error> {
        let mut tensors = self.tensors.clone();
        for (at, input) in self.case.grad.iter().zip(inputs.into_iter().flatten()) {
            if let Some(slot) = tensors.get_mut(*at) {
                *slot = input.clone();
            }
        }
        let (args, named) =
            self.arguments(&tensors).map_err(|_| Error::bug("E702", "the case is not in the format"))?;
        foreign::call(&self.case.op, &args, &named, Some(&Key::new(0)), Loc::NOWHERE)
    }

    fn answer(&self) -> Answer {
        let buffer = |out: &Option<Tensor>| out.as_ref().map(Tensor::buffer).transpose();
        let outputs = self
            .outputs(None)
            .and_then(|results| Ok((results.outs.iter().map(buffer).collect::<Result<Vec<_>, _>>()?, results.plain)));
        let (outputs, plain) = match outputs {
            Ok(outputs) => outputs,
            Err(e) if matches!(e.code(), "E710" | "E801" | "E999") => {
                return Answer::of(Status::Unsupported(e.to_string()));
            }
            Err(e) => return Answer::of(Status::Refused(e)),
        };
        let bytes = outputs.iter().flatten().map(Buffer::byte_len).fold(0, usize::saturating_add);
        if let Err(Unread::Unsupported(why) | Unread::Malformed(why)) = value::check_bytes(bytes) {
            return Answer::of(Status::Unsupported(why));
        }
        let written = if plain { value::number } else { value::json };
        let mut answer = Answer {
            out: outputs.iter().map(|out| out.as_ref().map_or(Json::Null, written)).collect(),
            ..Answer::of(Status::Ok)
        };
        self.derivatives(outputs.len(), &mut answer);
        answer
    }

    fn derivatives(&self, outputs: usize, answer: &mut Answer) {
        let wants = |check| self.case.wants(check);
        if !["backward", "second", "jvp"].into_iter().any(wants) {
            return;
        }
        let (inputs, cotangents, directions) = match self.seeds(outputs) {
            Ok(seeds) => seeds,
            Err(Unread::Unsupported(why) | Unread::Malformed(why)) => {
                answer.lacks.push(("backward", why));
                return;
            }
        };
        let mut note = |check: &'static str, e: Error| answer.lacks.push((check, e.to_string()));
        if wants("backward") {
            match self.pull(&inputs, &cotangents).and_then(|grads| self.found(&grads)) {
                Ok(grads) => answer.grad = Some(grads),
                Err(e) => note("backward", e),
            }
        }
        if wants("second") {
            match self.second(&inputs, &cotangents, &directions) {
                Ok(second) => answer.second = Some(second),
                Err(e) => note("second", e),
            }
        }
        if wants("jvp") {
            let tangents = match self.overlaps() {
                true => self.transposed(&inputs, &cotangents, &directions),
                false => self.push(&inputs, &cotangents, &directions),
            };
            match tangents {
                Ok(tangents) => answer.jvp = Some(tangents),
                Err(e) => note("jvp", e),
            }
        }
    }

    /// The differentiable inputs, the cotangents of the outputs that have one, and a direction for each input.
    #[allow(clippy::type_complexity)]
    fn seeds(&self, outputs: usize) -> Result<(Vec<Tensor>, Vec<(usize, Tensor)>, Vec<Tensor>), Unread> {
        let read = |json: &Json| value::tensor(json, self.file).map(Tensor::from_buffer);
        let inputs = self.case.grad.iter().filter_map(|at| self.tensors.get(*at).cloned()).collect();
        let given = self.case.ct.iter().enumerate().take(outputs).filter(|(_, json)| !json.is_null());
        let cotangents = given.map(|(at, json)| Ok((at, read(json)?))).collect::<Result<_, Unread>>()?;
        let directions = self.case.grad.iter().filter_map(|at| self.case.directions.get(&at.to_string()));
        Ok((inputs, cotangents, directions.map(read).collect::<Result<_, _>>()?))
    }

    /// The outputs that have a cotangent.
    fn chosen(&self, inputs: &[Tensor], cotangents: &[(usize, Tensor)]) -> Vec<Tensor> {
        match self.outputs(Some(inputs)) {
            Ok(r) => cotangents.iter().filter_map(|(at, _)| r.outs.get(*at).cloned().flatten()).collect(),
            Err(e) => vec![Tensor::poisoned(e); cotangents.len()],
        }
    }

    /// The gradients of the inputs.
    fn pull(&self, inputs: &Vec<Tensor>, cotangents: &[(usize, Tensor)]) -> Result<Vec<Tensor>, Error> {
        let seeds: Vec<Tensor> = cotangents.iter().map(|(_, t)| t.clone()).collect();
        fulgurite::vjp(inputs, &seeds, |x| self.chosen(x, cotangents)).map(|(_, grads)| grads)
    }

    fn found(&self, grads: &[Tensor]) -> Result<Found, Error> {
        self.case.grad.iter().zip(grads).map(|(at, grad)| Ok((*at, Some(grad.buffer()?)))).collect()
    }

    /// The gradient of the product of gradients and directions, with respect to inputs and cotangents.
    fn second(
        &self,
        inputs: &[Tensor],
        cotangents: &[(usize, Tensor)],
        directions: &Vec<Tensor>,
    ) -> Result<(Found, Found), Error> {
        let count = inputs.len();
        let mut both = inputs.to_vec();
        both.extend(cotangents.iter().map(|(_, t)| t.clone()));
        let gradients = |both: &Vec<Tensor>| {
            let (x, seeds) = (both[..count].to_vec(), &both[count..]);
            let seeds: Vec<_> = cotangents.iter().zip(seeds).map(|((at, _), t)| (*at, t.clone())).collect();
            self.pull(&x, &seeds).unwrap_or_else(|e| vec![Tensor::poisoned(e); count])
        };
        let (_, found) = fulgurite::vjp(&both, directions, gradients)?;
        let by_ct = cotangents.iter().zip(&found[count..]).map(|((at, _), t)| Ok((*at, Some(t.buffer()?))));
        Ok((self.found(&found[..count])?, by_ct.collect::<Result<_, Error>>()?))
    }

    /// Whether elements of a differentiable input share memory: PyTorch has no forward mode for these.
    fn overlaps(&self) -> bool {
        self.case.grad.iter().filter_map(|at| self.case.tensors.get(*at)).any(value::overlaps)
    }

    /// The tangents of all outputs by reverse mode alone, as PyTorch computes them if inputs overlap: the gradient of
    /// the product of gradients and directions, with respect to the cotangents.
    fn transposed(
        &self,
        inputs: &[Tensor],
        cotangents: &[(usize, Tensor)],
        directions: &Vec<Tensor>,
    ) -> Result<Vec<Option<Buffer>>, Error> {
        let (_, by_ct) = self.second(inputs, cotangents, directions)?;
        let mut out = vec![None; self.case.ct.len()];
        by_ct.into_iter().for_each(|(at, tangent)| out[at] = tangent);
        Ok(out)
    }

    /// The tangents of all outputs.
    fn push(
        &self,
        inputs: &Vec<Tensor>,
        cotangents: &[(usize, Tensor)],
        directions: &Vec<Tensor>,
    ) -> Result<Vec<Option<Buffer>>, Error> {
        let (_, tangents) = fulgurite::jvp(inputs, directions, |x| self.chosen(x, cotangents))?;
        let mut out = vec![None; self.case.ct.len()];
        for ((at, _), tangent) in cotangents.iter().zip(&tangents) {
            out[*at] = Some(tangent.buffer()?);
        }
        Ok(out)
    }
}
