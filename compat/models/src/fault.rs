//! Faults of files, with the file and the part of it that is at fault.

use fulgurite::Error;
use std::fmt::Display;
use std::path::Path;

/// The file is not of a format that is read here.
pub fn foreign(path: &Path, why: impl Display) -> Error {
    Error::new("E930", format!("`{}` is not a model that can be imported: {why}", path.display()))
        .help("export the model with `torch.export.save(torch.export.export(model, args), \"model.pt2\")`")
}

/// The file is cut short, or contradicts itself in `part`.
pub fn broken(path: &Path, part: &str, why: impl Display) -> Error {
    Error::new("E931", format!("`{}` is not whole: `{part}`: {why}", path.display())).help("export or copy it again")
}

/// The file is of a version that is not read here.
pub fn version(path: &Path, found: impl Display, read: impl Display, writer: &str) -> Error {
    Error::new("E932", format!("`{}` has {found}; {read} can be read", path.display()))
        .help(format!("export the model with a release of {writer} that writes this version"))
}

/// The model needs a part that would have to be unpickled.
pub fn pickled(path: &Path, part: &str) -> Error {
    Error::new("E933", format!("`{}`: `{part}` is a pickle, which can run any program when it is read", path.display()))
        .help("pickles are never read: export the model without custom objects")
}
