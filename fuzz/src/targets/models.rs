//! Models of both formats: they are read, and run on their example inputs.

use super::files;
use crate::target::{InputAnswer, Outcome, no_bug};
use fulgurite_models::{inspect, missing};

/// At most this many elements of all example inputs, because a program with large ones takes long for good reasons.
const SMALL: usize = 1 << 16;

/// Reads a file with this extension, and runs it if all of its calls have rows.
///
/// # Errors
/// The law that is broken.
pub fn read(extension: &str, input: &[u8], runs: bool) -> Outcome {
    files::with_file(extension, input, |path| {
        let model = match inspect(path) {
            Ok(model) => model,
            Err(e) => {
                no_bug(&e.to_string())?;
                return Ok(InputAnswer::refused([format!("{} {}", e.code(), e.claim())]));
            }
        };
        let lacks = missing(&model).len();
        let mut signs: Vec<String> = model.functions().keys().map(|name| (*name).to_owned()).collect();
        signs.push(format!("{lacks} {} {}", model.params().len(), model.inputs().len()));
        if runs && lacks == 0 {
            let answer = model.example_inputs().and_then(|inputs| {
                let size = inputs.iter().try_fold(0usize, |all, t| all.checked_add(t.buffer().ok()?.len()));
                match size.is_some_and(|size| size <= SMALL) {
                    true => model.call(&inputs),
                    false => Ok(Vec::new()),
                }
            });
            match answer.and_then(|outs| outs.iter().map(|out| out.buffer()).collect::<Result<Vec<_>, _>>()) {
                Ok(outs) => signs.push(format!("{} results", outs.len())),
                Err(e) => {
                    no_bug(&e.to_string())?;
                    signs.push(crate::target::form(&format!("{} {}", e.code(), e.claim())));
                }
            }
        }
        Ok(InputAnswer::accepted(signs))
    })?
}
