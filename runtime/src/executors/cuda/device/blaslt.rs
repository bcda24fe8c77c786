//! Matrix products by NVIDIA's library cuBLASLt, if it is found at run time.

use super::Address;
use super::gemm::{Gemm, Matrix};
use super::nvrtc::open;
use crate::executors::ExecError;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use cudarc::driver::sys::CUstream;
use fulgurite_core::DType;
use rustc_hash::FxHashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};

/// The environment variable that names a library file to load.
pub const VARIABLE: &str = "FULGURITE_CUBLASLT";

/// A product may use at most this many bytes beside its matrices.
const WORKSPACE: usize = 32 << 20;

/// Memory of the device is aligned to this many bytes.
const ALIGNED: u32 = 256;

/// Whether the library is found.
pub fn present() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    // SAFETY: this only searches for the library.
    *FOUND.get_or_init(|| open(VARIABLE).is_ok() && unsafe { sys::is_culib_present() })
}

/// The library on one device.
pub struct CublasLt {
    handle: sys::cublasLtHandle_t,
    workspace: Address,
    /// The plans of products, by their shape and the alignment of their matrices.
    plans: Mutex<Plans>,
}

// SAFETY: the library's handle may be used from any thread; each use makes the device's context current first.
unsafe impl Send for CublasLt {}
// SAFETY: the library's handle may be used from any thread; each use makes the device's context current first.
unsafe impl Sync for CublasLt {}

type Plans = FxHashMap<(Gemm, [u32; 3]), Arc<Plan>>;

/// The way in which one product is computed.
struct Plan {
    product: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
}

// SAFETY: the objects behind the handles are not changed any more.
unsafe impl Send for Plan {}
// SAFETY: the objects behind the handles are not changed any more.
unsafe impl Sync for Plan {}

fn failed(e: CublasError) -> ExecError {
    ExecError::new("E807", format!("a product by cuBLASLt: {e}"))
}

impl CublasLt {
    /// Opens the library for a device whose context is current, if it is found and starts. `alloc` gives it memory of
    /// the device, which the caller takes back once the library is dropped.
    pub fn open(alloc: impl FnOnce(usize) -> Option<Address>) -> Option<CublasLt> {
        if !present() {
            return None;
        }
        Some(CublasLt { handle: result::create_handle().ok()?, workspace: alloc(WORKSPACE)?, plans: Mutex::default() })
    }

    /// The memory that the library received.
    pub fn workspace(&self) -> Address {
        self.workspace
    }

    /// Enqueues a product on a stream of the device, whose context is current.
    ///
    /// # Safety
    /// The matrices lie at these addresses.
    ///
    /// # Errors
    /// E807 if the library can't compute the product, or fails.
    pub unsafe fn multiply(&self, gemm: &Gemm, at: [Address; 3], stream: CUstream) -> Result<(), ExecError> {
        let aligned = at.map(|a| ALIGNED.min(1 << a.0.trailing_zeros().min(31)));
        let plan = self.plan(gemm, aligned).map_err(failed)?;
        let beta = if gemm.adds { 1.0 } else { 0.0 };
        let (narrow, wide) = ([1.0f32, beta as f32], [1.0f64, beta]);
        let factor = |i: usize| match gemm.dtype {
            DType::F64 => std::ptr::from_ref(&wide[i]).cast::<c_void>(),
            _ => std::ptr::from_ref(&narrow[i]).cast::<c_void>(),
        };
        let [a, b, c] = at.map(|a| a.0 as *mut c_void);
        let [la, lb, lc] = plan.layouts;
        // SAFETY: plan and workspace live; the matrices are the caller's.
        let done = unsafe {
            result::matmul(
                self.handle,
                plan.product,
                factor(0),
                factor(1),
                a,
                la,
                b,
                lb,
                c,
                lc,
                c,
                lc,
                &plan.algorithm,
                self.workspace.0 as *mut c_void,
                WORKSPACE,
                stream.cast(),
            )
        };
        done.map_err(failed)
    }

    fn plan(&self, gemm: &Gemm, aligned: [u32; 3]) -> Result<Arc<Plan>, CublasError> {
        let mut plans = self.plans.lock().unwrap_or_else(|e| e.into_inner());
        let key = (gemm.clone(), aligned);
        if let Some(plan) = plans.get(&key) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(Plan::new(self.handle, gemm, aligned)?);
        plans.insert(key, plan.clone());
        Ok(plan)
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: the handle was made once; the device waits for its work before it is dropped.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl Plan {
    fn new(handle: sys::cublasLtHandle_t, gemm: &Gemm, aligned: [u32; 3]) -> Result<Plan, CublasError> {
        use sys::cublasComputeType_t::{CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F};
        // sums have the dtype of the result: f32 factors are not rounded for tensor cores, half-precision factors use
        // them
        let compute = if gemm.dtype == DType::F64 { CUBLAS_COMPUTE_64F } else { CUBLAS_COMPUTE_32F };
        let product = result::create_matmul_desc(compute, data_type(gemm.dtype))?;
        let types = [gemm.operands, gemm.operands, gemm.dtype].map(data_type);
        let sides = [(gemm.m, gemm.k), (gemm.k, gemm.n), (gemm.m, gemm.n)];
        let mut layouts = [std::ptr::null_mut(); 3];
        for (at, (matrix, sides)) in gemm.matrices.iter().zip(sides).enumerate() {
            layouts[at] = layout(types[at], matrix, sides, gemm.count)?;
        }
        use sys::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB};
        let transposed = [CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB];
        for (attribute, matrix) in transposed.into_iter().zip(&gemm.matrices) {
            // the values are CUBLAS_OP_N and CUBLAS_OP_T
            let op = i32::from(matrix.transposed);
            // SAFETY: the attribute has this type.
            unsafe { result::set_matmul_desc_attribute(product, attribute, bytes_of(&op), size_of_val(&op))? };
        }
        use sys::cublasLtMatmulPreferenceAttributes_t::{
            CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        };
        let wishes = result::create_matmul_pref()?;
        let [a, b, c] = aligned;
        let alignments = [
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c),
            (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c),
        ];
        let [la, lb, lc] = layouts;
        // SAFETY: attributes have these types, and the objects made above exist.
        let found = unsafe {
            let most = CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let set = |attribute, value: *const c_void, size| {
                result::set_matmul_pref_attribute(wishes, attribute, value, size)
            };
            set(most, bytes_of(&WORKSPACE), size_of_val(&WORKSPACE))?;
            for (attribute, bytes) in &alignments {
                set(*attribute, bytes_of(bytes), size_of_val(bytes))?;
            }
            let found = result::get_matmul_algo_heuristic(handle, product, la, lb, lc, lc, wishes);
            result::destroy_matmul_pref(wishes)?;
            found?
        };
        Ok(Plan { product, layouts, algorithm: found.algo })
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the objects were made once; enqueued products have read them already.
        unsafe {
            let _ = result::destroy_matmul_desc(self.product);
            self.layouts.iter().for_each(|l| _ = result::destroy_matrix_layout(*l));
        }
    }
}

fn data_type(dtype: DType) -> sys::cudaDataType_t {
    use sys::cudaDataType_t::{CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_64F};
    match dtype {
        DType::F16 => CUDA_R_16F,
        DType::BF16 => CUDA_R_16BF,
        DType::F64 => CUDA_R_64F,
        _ => CUDA_R_32F,
    }
}

fn bytes_of<T>(x: &T) -> *const c_void {
    std::ptr::from_ref(x).cast()
}

fn layout(
    ty: sys::cudaDataType_t,
    matrix: &Matrix,
    (rows, columns): (usize, usize),
    count: usize,
) -> Result<sys::cublasLtMatrixLayout_t, CublasError> {
    use sys::cublasLtMatrixLayoutAttribute_t::{
        CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
    };
    let (rows, columns) = if matrix.transposed { (columns, rows) } else { (rows, columns) };
    let made = result::create_matrix_layout(ty, rows as u64, columns as u64, matrix.columns as i64)?;
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: attributes have these types.
    unsafe {
        let set = |attribute, value, size| result::set_matrix_layout_attribute(made, attribute, value, size);
        set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, bytes_of(&count), size_of_val(&count))?;
        let step = matrix.matrices;
        set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, bytes_of(&step), size_of_val(&step))?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::super::gemm::Side;
    use super::*;

    /// The library accepts the description of matrices; a product itself needs a device.
    #[test]
    fn matrices_are_described() {
        if !present() {
            println!("skipped: libcublasLt.so is not found; name it in {VARIABLE}");
            return;
        }
        let side = |size, steps| Side { size, steps };
        let dims = [side(5, [7, 0, 3]), side(3, [0, 1, 1]), side(7, [1, 3, 0]), side(4, [35, 21, 15])];
        let (gemm, swapped) = Gemm::of([DType::F32; 2], dims, false).expect("lies by rows");
        assert!(swapped);
        let ty = sys::cudaDataType_t::CUDA_R_32F;
        for (matrix, sides) in gemm.matrices.iter().zip([(gemm.m, gemm.k), (gemm.k, gemm.n), (gemm.m, gemm.n)]) {
            let made = layout(ty, matrix, sides, gemm.count).expect("a layout");
            // SAFETY: the layout was just made.
            unsafe { result::destroy_matrix_layout(made) }.expect("made once");
        }
    }
}
