//! Makes the text of a kernel from a template and its context.

use super::printer::Argument;
use super::{Arg, Function, Kernel, Origin, Why, literals};
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Marks the end of the parameter list, where a general kernel has further parameters.
const MORE: &str = "@@";

/// At most this many arguments, because they may have 4,096 bytes on every device.
const MOST_ARGUMENTS: usize = 500;

/// The properties that all kernels of a kind share.
pub(super) struct Frame {
    pub template: &'static str,
    /// The name of the kind, in names of kernels.
    pub stem: &'static str,
    /// The numbers of blocks.
    pub grid: [usize; 3],
    /// The numbers of threads of a block.
    pub block: [u32; 3],
}

impl Frame {
    /// The kernel with these arguments; `context` has the values that the template names. Numbers may be marked
    /// ([`literals`]).
    ///
    /// # Errors
    /// Reports a grid that no device has, and errors in the template.
    pub fn kernel(self, origin: &Origin, args: &[Argument], faults: bool, mut context: Value) -> Result<Kernel, Why> {
        let grid = launchable(self.grid)?;
        let param = |(i, a): (usize, &Argument)| {
            let constant = if a.written { "" } else { "const " };
            format!("{constant}{}* __restrict__ p{i}", a.element)
        };
        let mut params: Vec<String> = args.iter().enumerate().map(param).collect();
        if faults {
            params.push("fg_fault* __restrict__ fault".to_owned());
        }
        let shown = |written: bool, show: fn(&Argument) -> &str| {
            let own = args.iter().filter(|a| a.written == written).map(show);
            own.collect::<Vec<_>>().join(", ")
        };
        let comment = |show| format!("{} -> {}", shown(false, show), shown(true, show));
        // a general kernel serves other shapes too
        let comment = literals::either(&comment(|a| &a.any), &comment(|a| &a.ty));
        let place = origin.place.map(|(file, line)| format!("#line {line} \"{file}\"\n"));
        let ix = context.get("ix").and_then(Value::as_str).unwrap_or("long long").to_owned();
        let fields = json!({
            "name": "@",
            "params": params.join(", ") + MORE,
            "comment": format!("{}: {comment}", origin.rows.join(", ")),
            "line_directive": place.as_deref().unwrap_or_default(),
        });
        if let (Some(context), Some(fields)) = (context.as_object_mut(), fields.as_object()) {
            context.extend(fields.clone());
        }
        let text = filled(self.template, &context)?;
        let specialised = literals::specialised(&text).replacen(MORE, "", 1);
        let mut more = literals::Parameters::default();
        let general = literals::general(&text, &ix, &mut more);
        let declared: String = more.declared.iter().map(|d| format!(", {d}")).collect();
        let general = general.replacen(MORE, &declared, 1);
        let mut args: Vec<Arg> = args.iter().map(|a| Arg::Value(a.value)).collect();
        args.extend(faults.then_some(Arg::Fault));
        let function = |stem: &str, text| named(origin, stem, place.as_deref(), text);
        let fits = args.len() + more.words.len() <= MOST_ARGUMENTS;
        Ok(Kernel {
            specialised: function(self.stem, specialised),
            general: fits.then(|| (function(&format!("{}_any", self.stem), general), more.words)),
            grid,
            block: self.block,
            args,
        })
    }
}

/// A template with the texts of `context` in the places that name them, such as `{{ body }}`.
fn filled(template: &str, context: &Value) -> Result<String, Why> {
    let mut parts = template.split("{{ ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" }}").ok_or("a template has `{{ ` without ` }}` behind it")?;
        let value = context.get(name).and_then(Value::as_str);
        text += value.ok_or_else(|| format!("a template has the place `{name}`, for which there is no text"))?;
        text += rest;
    }
    Ok(text)
}

/// The numbers of blocks, if a device can launch them: CUDA has 31 bits for the first and 16 for the others.
fn launchable(grid: [usize; 3]) -> Result<[u32; 3], Why> {
    const MOST: [u32; 3] = [i32::MAX as u32, u16::MAX as u32, u16::MAX as u32];
    let mut made = [0; 3];
    for ((slot, blocks), most) in made.iter_mut().zip(grid).zip(MOST) {
        let fits = u32::try_from(blocks).ok().filter(|blocks| *blocks <= most);
        *slot = fits.ok_or_else(|| format!("{blocks} blocks are more than a device launches, which is {most}"))?;
    }
    Ok(made)
}

/// Gives a kernel its name, which holds a hash of its text.
fn named(origin: &Origin, stem: &str, place: Option<&str>, text: String) -> Function {
    // the place of the row in its file does not make another kernel
    let mut hasher = DefaultHasher::new();
    place.map_or_else(|| text.clone(), |place| text.replacen(place, "", 1)).hash(&mut hasher);
    let short = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let row = origin.rows.first().copied().unwrap_or(stem);
    let row: String = row.chars().map(short).take(32).collect();
    let name = format!("{row}_{stem}_{:016x}", hasher.finish());
    let text = text.replacen("@(", &format!("{name}("), 1);
    Function { name, text }
}

#[cfg(test)]
mod tests {
    use super::{filled, launchable};
    use serde_json::json;

    #[test]
    fn a_template_names_only_texts_that_its_context_has() {
        let context = json!({ "ty": "float", "n": 4 });
        assert_eq!(filled("{ {{ ty }} x = {}; }", &context).as_deref(), Ok("{ float x = {}; }"));
        for wrong in ["{{ n }}", "{{ body }}", "{{ ty"] {
            assert!(filled(wrong, &context).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_grid_that_32_bits_do_not_hold_is_refused_and_not_cut() {
        assert_eq!(launchable([(1 << 31) - 1, 65_535, 65_535]), Ok([(1 << 31) - 1, 65_535, 65_535]));
        for grid in [[1 << 31, 1, 1], [(1 << 32) + 1, 1, 1], [1, 1 << 16, 1], [1, 1, (1 << 32) + 1]] {
            assert!(launchable(grid).is_err(), "{grid:?}");
        }
    }
}
