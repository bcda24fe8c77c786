//! The programs of pages, so that they compile and run. A package has neither the pages nor this file.

/// The programs of README.md, so that they compile and run.
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The programs of docs/tour.md, which compare what they print with the page.
#[doc = include_str!("../../docs/tour.md")]
pub struct Tour;

/// The program of docs/transforms.md.
#[doc = include_str!("../../docs/transforms.md")]
pub struct Transforms;

/// The program of docs/pipelines.md.
#[doc = include_str!("../../docs/pipelines.md")]
pub struct Pipelines;
/// The programs of docs/subclasses.md.
#[doc = include_str!("../../docs/subclasses.md")]
pub struct Subclasses;
/// The programs of docs/processes.md.
#[doc = include_str!("../../docs/processes.md")]
pub struct Processes;
/// The program of docs/control-flow.md.
#[doc = include_str!("../../docs/control-flow.md")]
pub struct ChoicesAndLoops;

/// The programs of docs/sizes.md.
#[doc = include_str!("../../docs/sizes.md")]
pub struct Sizes;
/// The program of docs/viewer.md.
#[doc = include_str!("../../docs/viewer.md")]
pub struct ViewerPage;
/// The program of docs/cuda.md, which is only compiled, because the machines of the tests have no GPU.
#[doc = include_str!("../../docs/cuda.md")]
pub struct CudaPage;
/// The program of docs/models.md.
#[doc = include_str!("../../docs/models.md")]
pub struct ModelsPage;
/// The program of docs/pytorch.md.
#[doc = include_str!("../../docs/pytorch.md")]
pub struct PytorchPage;

/// The programs of docs/errors: the wrong one gives the code of its page, the mended one runs.
#[doc = include_str!("../../docs/errors/E712.md")]
#[doc = include_str!("../../docs/errors/E713.md")]
#[doc = include_str!("../../docs/errors/E714.md")]
#[doc = include_str!("../../docs/errors/E708.md")]
#[doc = include_str!("../../docs/errors/E715.md")]
#[doc = include_str!("../../docs/errors/E716.md")]
#[doc = include_str!("../../docs/errors/E717.md")]
#[doc = include_str!("../../docs/errors/E718.md")]
#[doc = include_str!("../../docs/errors/E719.md")]
#[doc = include_str!("../../docs/errors/E720.md")]
#[doc = include_str!("../../docs/errors/E725.md")]
#[doc = include_str!("../../docs/errors/E727.md")]
#[doc = include_str!("../../docs/errors/E728.md")]
#[doc = include_str!("../../docs/errors/E729.md")]
#[doc = include_str!("../../docs/errors/E733.md")]
#[doc = include_str!("../../docs/errors/E740.md")]
#[doc = include_str!("../../docs/errors/E742.md")]
#[doc = include_str!("../../docs/errors/E743.md")]
#[doc = include_str!("../../docs/errors/E745.md")]
#[doc = include_str!("../../docs/errors/E746.md")]
#[doc = include_str!("../../docs/errors/E748.md")]
#[doc = include_str!("../../docs/errors/E749.md")]
#[doc = include_str!("../../docs/errors/E750.md")]
#[doc = include_str!("../../docs/errors/E751.md")]
#[doc = include_str!("../../docs/errors/E770.md")]
#[doc = include_str!("../../docs/errors/E771.md")]
#[doc = include_str!("../../docs/errors/E772.md")]
#[doc = include_str!("../../docs/errors/E773.md")]
#[doc = include_str!("../../docs/errors/E752.md")]
#[doc = include_str!("../../docs/errors/E753.md")]
#[doc = include_str!("../../docs/errors/E754.md")]
#[doc = include_str!("../../docs/errors/E755.md")]
#[doc = include_str!("../../docs/errors/E756.md")]
#[doc = include_str!("../../docs/errors/E757.md")]
#[doc = include_str!("../../docs/errors/E758.md")]
#[doc = include_str!("../../docs/errors/E759.md")]
pub struct Errors;

/// The programs of the user's guide.
#[doc = include_str!("../../docs/guide/01-install.md")]
#[doc = include_str!("../../docs/guide/02-tensors.md")]
#[doc = include_str!("../../docs/guide/03-dtypes.md")]
#[doc = include_str!("../../docs/guide/04-shapes.md")]
#[doc = include_str!("../../docs/guide/05-randomness.md")]
#[doc = include_str!("../../docs/guide/06-jit.md")]
#[doc = include_str!("../../docs/guide/07-gradients.md")]
#[doc = include_str!("../../docs/guide/08-writes.md")]
#[doc = include_str!("../../docs/guide/09-modules.md")]
#[doc = include_str!("../../docs/guide/10-training.md")]
#[doc = include_str!("../../docs/guide/11-devices.md")]
#[doc = include_str!("../../docs/guide/12-models.md")]
#[doc = include_str!("../../docs/guide/13-export.md")]
#[doc = include_str!("../../docs/guide/14-subclasses.md")]
#[doc = include_str!("../../docs/guide/15-transforms.md")]
#[doc = include_str!("../../docs/guide/16-executors.md")]
#[doc = include_str!("../../docs/guide/17-errors.md")]
#[doc = include_str!("../../docs/guide/18-profiles.md")]
pub struct Guide;
