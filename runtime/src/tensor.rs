//! The handle that users hold: a tensor in memory, a value of a trace that is being recorded, or an error.
//!
//! A concrete tensor is a *cell*: a type that never changes, and data that writes may replace. Clones of a handle share
//! the cell, so the cell's address is the tensor's identity. A traced tensor stands for a proxy; after a write the
//! handle stands for the next version. A poisoned tensor carries the first error that occurred, so that formulas need
//! no `?`; reading its value returns that error.
//!
//! **Invariant:** handles know no trace and no operator. [`crate::scope`] opens traces, [`crate::api`] calls operators,
//! [`crate::operand`] gives handles `+ - * /`.

mod cell;
mod key;
mod print;
mod shape;
mod wrapped;

pub use cell::{Cell, CellKind, TraceToken, Traced, ViewCall};
pub(crate) use cell::{note_write, set_maker, shows_twice};
pub use key::Key;
pub(crate) use shape::poisoned_size;
pub use shape::{Dims, ShapeArg};
pub use wrapped::Wrapped;
pub(crate) use wrapped::{dtype_of_number, static_value, with_fields};

use crate::buffer::{Buffer, BufferError, Element};
use crate::error::Error;
use crate::trace::{ProxyId, ProxyTy};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Dim, Scalar, TensorTy, counted};
use std::sync::Arc;

/// A tensor: a handle that is cheap to clone; clones are one tensor.
#[derive(Clone)]
pub struct Tensor(Repr);

#[derive(Clone)]
enum Repr {
    Cell(Arc<Cell>),
    Traced(Arc<Traced>),
    Wrapped(Arc<Wrapped>),
    Poison(Error),
}

/// The kinds of handles, for code that opens traces and runs programs.
pub enum View<'a> {
    /// A tensor in memory.
    Cell(&'a Arc<Cell>),
    /// A value of a trace.
    Traced(&'a Traced),
    /// A tensor of a subclass, with its fields.
    Wrapped(&'a Arc<Wrapped>),
    /// An error.
    Poison(&'a Error),
}

/// Constructors of handles.
impl Tensor {
    /// `data` in row-major order; a wrong number of elements gives a poisoned tensor (E743).
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl Into<ShapeArg>) -> Tensor {
        Tensor::from_slice(&data, shape)
    }

    /// Like [`Tensor::from_vec`], from a slice.
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], shape: impl Into<ShapeArg>) -> Tensor {
        let loc = Loc::caller();
        let made = shape.into().sizes().and_then(|sizes| {
            Buffer::from_slice(data, &sizes).map_err(|e| match e {
                BufferError::Length { found, .. } => {
                    let ty = TensorTy::new(T::DTYPE, &sizes);
                    let (has, given) = (counted(count(&sizes), "element", "elements"), counted(found, "was", "were"));
                    Error::new("E743", format!("{ty} has {has}, {given} given"))
                }
                other => Error::new("E743", other.to_string()),
            })
        });
        match made {
            Ok(buffer) => Tensor::from_buffer(buffer),
            Err(e) => Tensor::poisoned(e.at(loc)),
        }
    }

    /// A tensor of rank 0 with the full weight of its dtype in promotion. [`Tensor::from`] a number makes a run-time
    /// number, which is as weak as a literal.
    #[track_caller]
    pub fn scalar<T: Element>(x: T) -> Tensor {
        Tensor::from_slice(&[x], ())
    }

    /// A tensor in memory with the data of a buffer.
    pub fn from_buffer(buffer: Buffer) -> Tensor {
        Tensor::from_kind(CellKind::Tensor, buffer)
    }

    /// A tensor, number or key; the buffer has the shape of its kind.
    pub(crate) fn from_kind(kind: CellKind, buffer: Buffer) -> Tensor {
        Tensor(Repr::Cell(Arc::new(Cell::new(kind, buffer))))
    }

    /// A value of the trace of `token`.
    pub(crate) fn traced(token: &Arc<TraceToken>, proxy: ProxyId, ty: ProxyTy) -> Tensor {
        Tensor(Repr::Traced(Arc::new(Traced::new(token, proxy, ty))))
    }

    /// A value of the trace of `token` that is a view of another one.
    pub(crate) fn view_of(
        token: &Arc<TraceToken>,
        proxy: ProxyId,
        ty: ProxyTy,
        alias: ViewCall,
        of: ProxyId,
    ) -> Tensor {
        Tensor(Repr::Traced(Arc::new(Traced::new(token, proxy, ty).aliasing(alias, of))))
    }

    /// The record of the view that the handle is, if no other handle shares the tensor.
    pub(super) fn into_alias(self) -> Option<Box<ViewCall>> {
        match self.0 {
            Repr::Cell(cell) => Arc::into_inner(cell)?.into_origin(),
            Repr::Traced(traced) => Arc::into_inner(traced)?.into_alias(),
            Repr::Wrapped(_) | Repr::Poison(_) => None,
        }
    }

    /// A handle that carries an error: operators pass it on, and reading a value returns it.
    pub fn poisoned(error: Error) -> Tensor {
        Tensor(Repr::Poison(error))
    }

    fn number<T: Element>(x: T) -> Tensor {
        match Buffer::scalar(x) {
            Ok(buffer) => Tensor::from_kind(CellKind::Number, buffer),
            Err(e) => Tensor::poisoned(Error::new("E743", e.to_string())),
        }
    }
}

/// Queries of handles.
impl Tensor {
    /// The kind of the handle, with its content.
    pub fn view(&self) -> View<'_> {
        match &self.0 {
            Repr::Cell(cell) => View::Cell(cell),
            Repr::Traced(traced) => View::Traced(traced),
            Repr::Wrapped(wrapped) => View::Wrapped(wrapped),
            Repr::Poison(error) => View::Poison(error),
        }
    }

    fn from_wrapped(wrapped: Wrapped) -> Tensor {
        Tensor(Repr::Wrapped(Arc::new(wrapped)))
    }

    /// The fields of a tensor of a subclass for writing, if no other handle shares it.
    pub(crate) fn wrapped_mut(&mut self) -> Option<&mut Wrapped> {
        match &mut self.0 {
            Repr::Wrapped(wrapped) => Arc::get_mut(wrapped),
            _ => None,
        }
    }

    /// The cell for writing, if no other handle shares it.
    pub(crate) fn cell_mut(&mut self) -> Option<&mut Cell> {
        match &mut self.0 {
            Repr::Cell(cell) => Arc::get_mut(cell),
            _ => None,
        }
    }

    /// Whether both are one tensor, which is more than having equal elements.
    pub fn same(&self, other: &Tensor) -> bool {
        match (&self.0, &other.0) {
            (Repr::Cell(a), Repr::Cell(b)) => Arc::ptr_eq(a, b),
            (Repr::Traced(a), Repr::Traced(b)) => Arc::ptr_eq(a, b),
            (Repr::Wrapped(a), Repr::Wrapped(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The error that the tensor carries, if it is poisoned.
    pub fn error(&self) -> Option<&Error> {
        match &self.0 {
            Repr::Poison(e) => Some(e),
            _ => None,
        }
    }

    /// The error that the tensor carries, as a result, to stop early where a long program would only pass it on.
    ///
    /// # Errors
    /// The first error that occurred on the way to this tensor.
    pub fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Repr::Cell(cell) => cell.check(),
            _ => self.error().map_or(Ok(()), |e| Err(e.clone())),
        }
    }

    /// The type in the form of traces; a poisoned tensor has none.
    pub fn ty(&self) -> Option<ProxyTy> {
        match &self.0 {
            Repr::Cell(cell) => Some(cell.proxy_ty()),
            Repr::Traced(traced) => Some(traced.ty().clone()),
            Repr::Wrapped(wrapped) => Some(ProxyTy::Tensor(wrapped.ty().clone())),
            Repr::Poison(_) => None,
        }
    }

    /// The sizes, slowest axis first; none for a poisoned tensor.
    pub fn shape(&self) -> Vec<Dim> {
        match &self.0 {
            Repr::Cell(cell) => cell.sizes().iter().map(|&n| Dim::from(n)).collect(),
            Repr::Traced(traced) => traced.ty().as_tensor().map(|t| t.shape.to_vec()).unwrap_or_default(),
            Repr::Wrapped(wrapped) => wrapped.outer().shape.to_vec(),
            Repr::Poison(_) => Vec::new(),
        }
    }

    /// The sizes as an array, to be destructured: `let [b, t] = x.dims();`. If the rank is another one, every size is
    /// poisoned, and the use of one is an error that names this call (E745).
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> [Dim; N] {
        let shape = self.shape();
        if let Ok(dims) = <[Dim; N]>::try_from(shape.as_slice())
            && self.error().is_none()
        {
            return dims;
        }
        let why = self.error().cloned().unwrap_or_else(|| {
            let have = self.ty().map_or_else(String::new, |t| t.to_string());
            let (axes, asked) = (counted(shape.len(), "axis", "axes"), counted(N, "was", "were"));
            Error::new("E745", format!("{have} has {axes}, {asked} asked for")).at(Loc::caller())
        });
        shape::remember(why);
        [Dim::poison(); N]
    }

    /// The number of axes; 0 for a poisoned tensor.
    pub fn rank(&self) -> usize {
        match &self.0 {
            Repr::Cell(cell) => cell.sizes().len(),
            Repr::Traced(traced) => traced.ty().as_tensor().map_or(0, TensorTy::rank),
            Repr::Wrapped(wrapped) => wrapped.outer().rank(),
            Repr::Poison(_) => 0,
        }
    }

    /// The number of elements; a poisoned size for a poisoned tensor.
    pub fn numel(&self) -> Dim {
        match self.error() {
            Some(e) => {
                shape::remember(e.clone());
                Dim::poison()
            }
            None => self.shape().into_iter().fold(Dim::from(1i64), |n, d| n * d),
        }
    }

    /// The element type; the default float for a poisoned tensor.
    pub fn dtype(&self) -> DType {
        match &self.0 {
            Repr::Cell(cell) => cell.dtype(),
            Repr::Traced(traced) => match traced.ty() {
                ProxyTy::Tensor(t) => t.ty.dtype,
                ProxyTy::Number(d) => *d,
                ProxyTy::Key => DType::I64,
            },
            Repr::Wrapped(wrapped) => wrapped.outer().dtype,
            Repr::Poison(_) => DType::DEFAULT_FLOAT,
        }
    }
}

/// Access to data.
impl Tensor {
    /// A share of the data; data on a device are fetched, once.
    ///
    /// # Errors
    /// The error of a poisoned tensor; E742 for a tensor of a trace, which has no data; E743 if a device can't return
    /// the data.
    #[track_caller]
    pub fn buffer(&self) -> Result<Buffer, Error> {
        let loc = Loc::caller();
        self.data()?.here().map_err(|e| Error::new("E743", e.to_string()).at(loc))
    }

    /// The device that has the data; `None` for host memory, and for traced and poisoned tensors.
    pub fn device(&self) -> Option<String> {
        if let Repr::Cell(cell) = &self.0 { cell.buffer().device() } else { None }
    }

    /// A share of the data, on the host or a device.
    #[track_caller]
    pub(crate) fn data(&self) -> Result<Buffer, Error> {
        match &self.0 {
            Repr::Cell(cell) => cell.check().map(|()| cell.buffer()),
            Repr::Wrapped(wrapped) => wrapped.buffer(Loc::caller()),
            Repr::Traced(traced) => {
                let claim = format!("the elements of a traced {} can't be read", traced.ty());
                Err(Error::new("E742", claim)
                    .note("while a function is traced its tensors have types, but no data yet")
                    .help("return the tensor from the traced function and read it there; choose between values with `where`")
                    .at(Loc::caller()))
            }
            Repr::Poison(e) => Err(e.clone()),
        }
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// The errors of [`Tensor::buffer`]; E743 if the elements are not `T`.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        // inside of the closure the caller would be this function
        let loc = Loc::caller();
        self.buffer()?.to_vec().map_err(|_| self.wrong_dtype::<T>(loc))
    }

    /// The elements as f64, whatever their type (i64 beyond 2^53 rounds).
    ///
    /// # Errors
    /// Reports the errors of [`Tensor::buffer`].
    #[track_caller]
    pub fn to_f64(&self) -> Result<Vec<f64>, Error> {
        Ok(self.buffer()?.to_f64())
    }

    /// The only element; `T` may be wider than the tensor's dtype.
    ///
    /// # Errors
    /// The errors of [`Tensor::buffer`]; E743 if there are several elements or none, or if `T` can't represent every
    /// value of the dtype.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        let buffer = self.buffer()?;
        let Some(x) = buffer.item() else {
            let claim = format!("{} has {}, not one", self.type_text(), counted(buffer.len(), "element", "elements"));
            return Err(Error::new("E743", claim).at(Loc::caller()));
        };
        let wide = if holds(T::DTYPE, buffer.dtype()) { Buffer::number(x, T::DTYPE).ok() } else { None };
        let found = wide.and_then(|b| b.as_slice::<T>().and_then(|s| s.first().copied()));
        found.ok_or_else(|| self.wrong_dtype::<T>(Loc::caller()))
    }

    fn wrong_dtype<T: Element>(&self, loc: Loc) -> Error {
        let claim = format!("{} can't be read as {}", self.type_text(), T::DTYPE);
        Error::new("E743", claim).help(format!("read it as {}, or `cast` it first", self.dtype())).at(loc)
    }

    pub(crate) fn type_text(&self) -> String {
        self.ty().map_or_else(|| "a poisoned tensor".to_owned(), |t| t.to_string())
    }
}

/// Whether `wide` can represent every value of `narrow`.
fn holds(wide: DType, narrow: DType) -> bool {
    use DType::*;
    wide == narrow
        || matches!(
            (wide, narrow),
            (F64, F32 | F16 | BF16 | I32 | I16 | I8 | U8 | Bool)
                | (F32, F16 | BF16 | I16 | I8 | U8 | Bool)
                | (I64 | I32 | I16, U8 | Bool)
                | (I64, I32 | I16 | I8)
                | (I32, I16 | I8)
                | (I16, I8)
                | (I8 | U8, Bool)
        )
}

/// The number of elements, for messages; as a float if an integer would overflow.
fn count(sizes: &[usize]) -> String {
    match sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s)) {
        Some(n) => n.to_string(),
        None => format!("{:.1e}", sizes.iter().map(|&s| s as f64).product::<f64>()),
    }
}

macro_rules! from_number {
    ($($t:ty),*) => {$(
        /// A run-time number: a program compiled for it runs with any value, and it is weak in type promotion.
        impl From<$t> for Tensor {
            fn from(x: $t) -> Tensor {
                Tensor::number(x)
            }
        }
    )*};
}
from_number!(f64, f32, i64, i32, bool);

impl From<Scalar> for Tensor {
    fn from(x: Scalar) -> Tensor {
        match x {
            Scalar::Bool(b) => b.into(),
            Scalar::Int(i) => i.into(),
            Scalar::Float(f) => f.into(),
        }
    }
}

impl<T: Element, const N: usize> From<[T; N]> for Tensor {
    #[track_caller]
    fn from(data: [T; N]) -> Tensor {
        Tensor::from_slice(&data, [N])
    }
}

impl<T: Element, const N: usize, const M: usize> From<[[T; M]; N]> for Tensor {
    #[track_caller]
    fn from(data: [[T; M]; N]) -> Tensor {
        Tensor::from_slice(data.as_flattened(), [N, M])
    }
}

impl<T: Element, const N: usize, const M: usize, const K: usize> From<[[[T; K]; M]; N]> for Tensor {
    #[track_caller]
    fn from(data: [[[T; K]; M]; N]) -> Tensor {
        Tensor::from_slice(data.as_flattened().as_flattened(), [N, M, K])
    }
}

impl<T: Element> From<Vec<T>> for Tensor {
    #[track_caller]
    fn from(data: Vec<T>) -> Tensor {
        let n = data.len();
        Tensor::from_vec(data, [n])
    }
}

#[cfg(test)]
mod tests;
