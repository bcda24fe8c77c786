//! Tensor subclasses for programs: makes them of fields and metadata, takes them apart, converts them.
//!
//! In a database a class is an entry of `subclasses:`, in a program a struct with `#[derive(TensorSubclass)]`. In both
//! cases an operator with a tensor of the class follows the class's rules, at once or in a trace.

use crate::api;
use crate::bind::Ruled;
use crate::error::Error;
use crate::scope;
use crate::symbol::{self, Native, Port, SubclassRef, SymbolRef};
use crate::tensor::Tensor;
use crate::trace::{ProxyId, ProxyTy};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, Named, Scalar, Value};
use std::any::Any;

pub use crate::symbol::Subclass;
pub use fulgurite_core::subclass::ClassText;

/// A call of an operator on tensors of a class, for a rule that is a Rust function.
pub struct Call<'a> {
    symbol: SymbolRef,
    args: &'a [Value<Tensor>],
    loc: Loc,
}

impl Call<'_> {
    /// The name of the operator.
    pub fn op(&self) -> &'static str {
        self.symbol.name()
    }

    /// The value for a parameter or option; [`Value::Absent`] if it was not given.
    pub fn arg(&self, name: &str) -> Value<Tensor> {
        let sig = &self.symbol.row().sig;
        let mut names = sig.params.iter().map(|p| p.name.name).chain(sig.opts.iter().map(|o| o.name.name));
        let at = names.position(|n| n == name);
        at.and_then(|at| self.args.get(at).cloned()).unwrap_or(Value::Absent)
    }

    /// The tensors among the arguments, in order.
    pub fn tensors(&self) -> Vec<Tensor> {
        let mut found = Vec::new();
        self.args.iter().for_each(|arg| arg.for_each(&mut |t| found.push(t.clone())));
        found
    }

    /// Calls the operator on `f` of each of these tensors, and on all other arguments unchanged; returns its results,
    /// with lists flattened.
    ///
    /// # Errors
    /// Reports errors of the call.
    pub fn with(&self, mut f: impl FnMut(&Tensor) -> Tensor) -> Result<Vec<Tensor>, Error> {
        api::call(self.symbol, self.args.iter().map(|arg| arg.map(&mut f)).collect(), self.loc)
    }
}

/// A rule of a class that is a Rust function over tensors. It runs while a program is traced, or for one call, and the
/// operators that it calls are recorded as the operator's body. It may use the arguments, tensors made from them, and
/// numbers, but no other tensor.
pub struct Rule(fn(&Call<'_>) -> Ruling);

/// The result of a rule: the operator's results, with lists flattened; `None` if the rule does not handle the operator.
pub type Ruling = Option<Result<Vec<Tensor>, Error>>;

impl Rule {
    /// A rule that calls this function.
    pub const fn new(rule: fn(&Call<'_>) -> Ruling) -> Rule {
        Rule(rule)
    }
}

impl Native for Rule {
    fn run(&self, call: &mut dyn Any) {
        let Some(call) = call.downcast_mut::<Ruled>() else { return };
        let (symbol, loc) = (call.symbol, call.loc);
        call.made = scope::ruled(call, |args| (self.0)(&Call { symbol, args, loc }));
    }
}

/// A tensor of a class, made of fields, then metadata, in the order of its signature; a poisoned one after an error.
#[track_caller]
pub fn make(class: SubclassRef, args: Vec<Value<Tensor>>) -> Tensor {
    api::call_one(class.port(Port::Unflatten), args)
}

/// The class with this name in any linked database.
///
/// # Errors
/// E710 if there is no such class.
#[track_caller]
pub fn named(name: &str) -> Result<SubclassRef, Error> {
    let found = symbol::class(Name::new(name));
    found.ok_or_else(|| Error::new("E710", format!("no linked database has a subclass `{name}`")).at(Loc::caller()))
}

/// Methods of tensors of subclasses besides those of every tensor.
pub trait Subclassed {
    /// The plain tensor for which this one stands; for a plain one, a handle to itself.
    fn plain(&self) -> Tensor;
    /// A field; it is poisoned if the class has no field of this name.
    fn field(&self, name: &str) -> Tensor;
    /// The class of the tensor; `None` if it is plain.
    fn class(&self) -> Option<SubclassRef>;
}

impl Subclassed for Tensor {
    #[track_caller]
    fn plain(&self) -> Tensor {
        let mut plain = self.clone();
        // the plain tensor of a class may be of a class itself
        while let Some(class) = plain.class() {
            plain = api::call_one(class.port(Port::Plain), vec![Value::Tensor(plain)]);
        }
        plain
    }

    #[track_caller]
    fn field(&self, name: &str) -> Tensor {
        match parts(self) {
            Ok(parts) => parts.field(name).unwrap_or_else(Tensor::poisoned),
            Err(e) => Tensor::poisoned(e),
        }
    }

    fn class(&self) -> Option<SubclassRef> {
        self.ty()?.subclass().map(|layout| layout.class)
    }
}

/// A tensor of a subclass that was taken apart.
pub struct Parts {
    class: SubclassRef,
    fields: Vec<(Name, Tensor)>,
    meta: Vec<Named<ProxyId>>,
    loc: Loc,
}

/// The fields and metadata of a tensor.
///
/// # Errors
/// The error of a poisoned tensor; E706 for a plain one.
#[track_caller]
pub fn parts(t: &Tensor) -> Result<Parts, Error> {
    let loc = Loc::caller();
    t.check()?;
    let ty = t.ty();
    let Some(layout) = ty.as_ref().and_then(ProxyTy::subclass) else {
        let have = ty.map_or_else(String::new, |ty| ty.to_string());
        return Err(Error::new("E706", format!("{have} is a plain tensor: it has no fields")).at(loc));
    };
    let fields = match t.wrapped() {
        Some(wrapped) => wrapped.fields().to_vec(),
        None => api::call(layout.class.port(Port::Flatten), vec![Value::Tensor(t.clone())], loc)?,
    };
    let fields = layout.fields.iter().map(|(n, _)| *n).zip(fields).collect();
    Ok(Parts { class: layout.class, fields, meta: layout.meta.clone(), loc })
}

impl Parts {
    /// The class.
    pub fn class(&self) -> SubclassRef {
        self.class
    }

    /// A field.
    ///
    /// # Errors
    /// E706 if the class has no field of this name.
    pub fn field(&self, name: &str) -> Result<Tensor, Error> {
        self.optional(name).ok_or_else(|| {
            let names: Vec<String> = self.fields.iter().map(|(n, _)| format!("`{n}`")).collect();
            Error::new("E706", format!("a `{}` has no field `{name}`", self.class.name()))
                .help(format!("its fields are {}", names.join(", ")))
                .at(self.loc)
        })
    }

    /// An optional field.
    pub fn optional(&self, name: &str) -> Option<Tensor> {
        self.fields.iter().find(|(n, _)| *n == name).map(|(_, t)| t.clone())
    }

    /// The fields of a list.
    pub fn list(&self, name: &str) -> Vec<Tensor> {
        (0..).map_while(|i| self.optional(&format!("{name}.{i}"))).collect()
    }

    /// A piece of metadata.
    ///
    /// # Errors
    /// E706 if the class has no metadata of this name and type.
    pub fn meta<M: Meta>(&self, name: &str) -> Result<M, Error> {
        let value = self.meta.iter().find(|(n, _)| *n == name).map(|(_, v)| v);
        value.and_then(M::from_value).ok_or_else(|| {
            let claim = format!("a `{}` has no such metadata `{name}`", self.class.name());
            Error::new("E706", claim).at(self.loc)
        })
    }
}

/// Types that metadata may have.
pub trait Meta: Sized {
    /// The metadata as an argument.
    fn value(self) -> Value<Tensor>;
    /// Reads the metadata from a layout.
    fn from_value(value: &Value<ProxyId>) -> Option<Self>;
}

macro_rules! meta {
    ($($t:ty: $to:expr, $from:pat => $as:expr;)*) => {$(
        impl Meta for $t {
            fn value(self) -> Value<Tensor> {
                let to: fn($t) -> Value<Tensor> = $to;
                to(self)
            }
            fn from_value(value: &Value<ProxyId>) -> Option<$t> {
                match value {
                    $from => Some($as),
                    _ => None,
                }
            }
        }
    )*};
}
meta! {
    i64: |x| Value::Num(Scalar::Int(x)), Value::Num(Scalar::Int(x)) => *x;
    f64: |x| Value::Num(Scalar::Float(x)), Value::Num(x) => x.as_f64();
    bool: |x| Value::Num(Scalar::Bool(x)), Value::Num(Scalar::Bool(x)) => *x;
    DType: Value::DType, Value::DType(x) => *x;
}

/// A text, or a word of an `enum`.
impl Meta for String {
    fn value(self) -> Value<Tensor> {
        Value::Str(self)
    }
    fn from_value(value: &Value<ProxyId>) -> Option<String> {
        match value {
            Value::Str(x) => Some(x.clone()),
            Value::Word(x) => Some(x.as_str().to_owned()),
            _ => None,
        }
    }
}

impl Meta for Vec<i64> {
    fn value(self) -> Value<Tensor> {
        Value::List(self.into_iter().map(Meta::value).collect())
    }
    fn from_value(value: &Value<ProxyId>) -> Option<Vec<i64>> {
        match value {
            Value::List(items) => items.iter().map(i64::from_value).collect(),
            _ => None,
        }
    }
}
