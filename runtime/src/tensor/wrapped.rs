//! Tensors of subclasses: a class, its metadata, and the tensors that are its fields.

use super::{Tensor, View};
use crate::buffer::Buffer;
use crate::error::{Error, ErrorKind};
use crate::symbol::{Port, SubclassRef};
use crate::trace::{ProxyId, ProxyTy, SubclassLayout, TensorType};
use fulgurite_core::lang::ast::{Elem, Param};
use fulgurite_core::loc::Loc;
use fulgurite_core::signature::{self, OutTy};
use fulgurite_core::subclass::Read;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use std::sync::{Arc, OnceLock};

/// The dtype of a field that has no axes, so that a number may stand for it.
pub(crate) fn dtype_of_number(field: &Param) -> Option<DType> {
    match (field.ty.elem.as_slice(), &field.ty.list, field.ty.dims.as_deref()) {
        ([Elem::Class(dtype)], None, None | Some([])) => DType::from_name(dtype.as_str()),
        _ => None,
    }
}

/// A tensor of a subclass.
///
/// **Invariant:** its fields are tensors in memory or values of one trace, never poisoned.
#[derive(Clone)]
pub struct Wrapped {
    ty: TensorType,
    layout: Arc<SubclassLayout>,
    fields: Vec<Tensor>,
    /// The fingerprint of the layout, for comparisons of trees.
    mark: OnceLock<[u64; 2]>,
}

impl Wrapped {
    /// Makes a tensor of a class from arguments in the order of its signature: fields, then metadata.
    ///
    /// # Errors
    /// The error of a poisoned field, and refusals of the class's signature.
    pub(crate) fn new(class: SubclassRef, args: &[Value<Tensor>]) -> Result<Wrapped, Error> {
        let sig = &class.rules().sig;
        let mut given = Vec::new();
        for (param, arg) in sig.params.iter().zip(args) {
            let name = param.name.name;
            match arg {
                Value::List(items) => {
                    let item = |(i, v)| (Name::new(&format!("{name}.{i}")), v);
                    given.extend(items.iter().enumerate().map(item));
                }
                Value::Absent => {}
                one => given.push((name, one)),
            }
        }
        let (mut fields, mut types) = (Vec::new(), Vec::new());
        let as_tensor = |name: Name, number: Scalar| {
            let param = sig.params.iter().find(|p| p.name.name == name)?;
            Some(Value::Tensor(Tensor::from_buffer(Buffer::number(number, dtype_of_number(param)?).ok()?)))
        };
        for (name, value) in given {
            let made = if let Value::Num(number) = value { as_tensor(name, *number) } else { None };
            let Value::Tensor(t) = made.as_ref().unwrap_or(value) else {
                let claim = format!("`{}`: the field `{name}` must be a tensor", class.name());
                return Err(Error::new("E702", claim));
            };
            t.check()?;
            let Some(ProxyTy::Tensor(ty)) = t.ty() else {
                return Err(Error::new("E702", format!("`{}`: the field `{name}` must be a tensor", class.name())));
            };
            fields.push(t.clone());
            types.push((name, ty));
        }
        let row = class.port(Port::Unflatten).row();
        let mut args = args.to_vec();
        for (param, arg) in sig.params.iter().zip(&mut args) {
            if let Value::Num(number) = arg
                && let Some(tensor) = as_tensor(param.name.name, *number)
            {
                *arg = tensor;
            }
        }
        args.resize(sig.params.len() + sig.opts.len(), Value::Absent);
        let of = |t: &Tensor| t.ty().map_or_else(|| ProxyTy::Key.arg_ty(), |ty| ty.arg_ty());
        let solved = signature::solve(row, &args, &of)?;
        let Some(OutTy::Tensor(ty)) = solved.outs.first() else {
            return Err(Error::bug("E706", format!("`{}` does not say what programs see", class.name())));
        };
        let meta = class.rules().meta_of(&solved)?;
        let layout = Arc::new(SubclassLayout { class, fields: types, meta });
        let ty = TensorType {
            ty: ty.clone(),
            device: crate::trace::Device::Cpu,
            requires_grad: false,
            subclass: Some(layout.clone()),
        };
        Ok(Wrapped { ty, layout, fields, mark: OnceLock::new() })
    }

    /// The layout: the class, the types of fields, and the metadata.
    pub fn layout(&self) -> &Arc<SubclassLayout> {
        &self.layout
    }

    /// The result of `of` on the layout, which never changes, computed once.
    pub(crate) fn mark(&self, of: impl FnOnce(&SubclassLayout) -> [u64; 2]) -> [u64; 2] {
        *self.mark.get_or_init(|| of(&self.layout))
    }

    /// The type that programs see.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    pub(super) fn outer(&self) -> &TensorTy {
        &self.ty.ty
    }

    /// The fields, in the order of the layout.
    pub fn fields(&self) -> &[Tensor] {
        &self.fields
    }

    pub(crate) fn fields_mut(&mut self) -> &mut [Tensor] {
        &mut self.fields
    }

    /// The fields with their names.
    pub fn named(&self) -> impl Iterator<Item = (Name, &Tensor)> {
        self.layout.fields.iter().map(|(n, _)| *n).zip(&self.fields)
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Tensor> {
        self.named().find(|(n, _)| *n == name).map(|(_, t)| t)
    }

    /// The data that are read outside of programs, which the class chooses.
    ///
    /// # Errors
    /// E733 if fields differ that must agree, or if the class does not allow reading.
    pub(super) fn buffer(&self, loc: Loc) -> Result<Buffer, Error> {
        let class = self.layout.class;
        match class.rules().read {
            Read::Field(name) => match self.field(name.as_str()) {
                Some(t) => t.buffer(),
                None => Err(Error::bug("E706", format!("`{}` has no field `{name}`", class.name()))),
            },
            Read::Equal => {
                let Some((first, rest)) = self.fields.split_first() else {
                    return Err(Error::bug("E706", format!("`{}` has no fields", class.name())));
                };
                let data = first.buffer()?;
                for other in rest {
                    if other.buffer()?.to_f64() != data.to_f64() {
                        let claim =
                            format!("the fields of {} differ, and it was to be read as one tensor", self.text());
                        return Err(self.ambiguous(claim, loc));
                    }
                }
                Ok(data)
            }
            Read::Error => {
                let claim = format!("{} has no elements of its own to read", self.text());
                Err(self.ambiguous(claim, loc))
            }
        }
    }

    fn ambiguous(&self, claim: String, loc: Loc) -> Error {
        let class = self.layout.class.name();
        let fields: Vec<Name> = self.layout.fields.iter().map(|(n, _)| *n).collect();
        let mut names: Vec<String> = fields.iter().take(NAMED).map(|n| format!("`{n}`")).collect();
        if fields.len() > NAMED {
            names.push(format!("and {} more", fields.len() - NAMED));
        }
        Error::new("E733", claim)
            .kind_is(ErrorKind::SubclassAmbiguous { class, fields })
            .help(format!("read the plain tensor, `plain()`, or a field: {}", names.join(", ")))
            .at(loc)
    }

    /// The class and the type that programs see, without the fields, of which there may be thousands.
    fn text(&self) -> String {
        format!("{}[{}]", self.layout.class.name(), self.outer())
    }
}

/// At most this many fields are named in an error, because a list of tensors may be very long.
const NAMED: usize = 5;

/// The arguments of the symbol that makes a tensor of this layout from fields.
pub(crate) fn with_fields<V>(like: &SubclassLayout, mut field: impl FnMut(usize) -> V) -> Vec<Value<V>> {
    let sig = &like.class.rules().sig;
    let mut args = Vec::new();
    // Fields mostly stand in the order in which they are asked for, so a search begins behind the last one.
    let mut next = 0;
    let mut at = |n: Name| {
        let (before, behind) = like.fields.split_at(next);
        let found = behind.iter().chain(before).position(|(f, _)| *f == n);
        let found = found.map(|i| (next + i) % like.fields.len());
        next = found.map_or(next, |i| i + 1);
        found
    };
    for param in &sig.params {
        let name = param.name.name;
        args.push(if param.ty.list.is_some() {
            let items = (0..).map_while(|i| at(Name::new(&format!("{name}.{i}"))));
            Value::List(items.map(|i| Value::Tensor(field(i))).collect())
        } else {
            at(name).map_or(Value::Absent, |i| Value::Tensor(field(i)))
        });
    }
    args.extend(like.meta.iter().map(|(_, v)| static_value(v)));
    args
}

/// A value without tensors, such as metadata and most options.
pub(crate) fn static_value<V>(v: &Value<ProxyId>) -> Value<V> {
    match v {
        Value::Tensor(_) | Value::Absent => Value::Absent,
        Value::List(items) => Value::List(items.iter().map(static_value).collect()),
        Value::Type(t) => Value::Type(t.clone()),
        Value::Num(s) => Value::Num(*s),
        Value::Size(d) => Value::Size(*d),
        Value::DType(d) => Value::DType(*d),
        Value::Word(n) => Value::Word(*n),
        Value::Str(s) => Value::Str(s.clone()),
    }
}

impl Tensor {
    /// A tensor of a subclass, made of fields; a poisoned one after an error.
    pub(crate) fn wrap(class: SubclassRef, args: &[Value<Tensor>]) -> Tensor {
        Wrapped::new(class, args).map_or_else(Tensor::poisoned, Tensor::from_wrapped)
    }

    /// A tensor of the class and metadata of a layout, made of these fields.
    pub(crate) fn wrap_like(layout: &SubclassLayout, fields: &[Tensor]) -> Tensor {
        let of = |i: usize| fields.get(i).cloned();
        let lost = || Tensor::poisoned(Error::bug("E709", "a tensor of a subclass lost a field"));
        Tensor::wrap(layout.class, &with_fields(layout, |i| of(i).unwrap_or_else(lost)))
    }

    /// The fields and layout, if the tensor is of a subclass and in memory (or a function's argument while that is
    /// traced).
    pub fn wrapped(&self) -> Option<&Wrapped> {
        match self.view() {
            View::Wrapped(w) => Some(w),
            _ => None,
        }
    }
}
