//! Errors for users: one error type with a code, a claim, the place of the user's call, and values next to it.
//!
//! The text is `error[CODE]: claim`, the source line with the call underlined, then `=` lines. The [`ErrorKind`]
//! carries the facts as fields, for programs that handle them.

use fulgurite_core::loc::Loc;
use fulgurite_core::signature::Refusal;
use fulgurite_core::{Name, TensorTy};
use std::fmt;
use std::sync::Arc;

/// The part of a program in which something happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Phase {
    Forward,
    Backward,
}

/// An error with its place and remedies. Cloning is cheap, so poisoned values share an error.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    code: &'static str,
    claim: String,
    kind: ErrorKind,
    loc: Loc,
    label: String,
    notes: Vec<String>,
    help: Vec<String>,
}

/// The facts of an error as fields. The place is [`Error::loc`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// E701: sizes that do not fit.
    ShapeMismatch {
        /// The operator.
        op: Name,
        /// The operator's tensor arguments.
        shapes: Vec<(Name, TensorTy)>,
        /// The argument at fault, if there is a single one.
        arg: Option<Name>,
    },
    /// E702 to E706: a signature refused the call for another reason.
    Refused {
        /// The operator.
        op: Name,
        /// The argument at fault, if there is a single one.
        arg: Option<Name>,
    },
    /// E710: a name that no linked database has.
    UnknownSymbol {
        /// The name.
        op: Name,
    },
    /// E708: an operator meets a tensor subclass that has no rule for it.
    NoDispatch {
        /// The operator.
        op: Name,
        /// The class.
        class: Name,
    },
    /// E715: a call has tensors of several classes without an order.
    MixedSubclasses {
        /// The operator.
        op: Name,
        /// The classes.
        classes: Vec<Name>,
    },
    /// E716: a cotangent is not of the class that the tensor's class requires.
    CotangentClass {
        /// The tensor's class; `None` if it is plain.
        class: Option<Name>,
        /// The cotangent's class.
        cotangent: Option<Name>,
    },
    /// E729: a tensor of one class is written to one of another.
    SubclassWrite {
        /// The class of the written tensor; `None` if it is plain.
        to: Option<Name>,
        /// The class of the value.
        from: Option<Name>,
    },
    /// E733: fields of a tensor of a subclass do not agree when it is read.
    SubclassAmbiguous {
        /// The class.
        class: Name,
        /// The fields.
        fields: Vec<Name>,
    },
    /// E711: a cotangent must pass an operator that has no gradient rule.
    NoGradRule {
        /// The operator.
        op: Name,
        /// The input whose cotangent is needed.
        input: Name,
    },
    /// E712: a gradient is requested of or by a value that is not a float tensor.
    NotDifferentiable {
        /// The argument or output.
        value: String,
        /// The type of the value.
        ty: String,
    },
    /// E713: an input in `wrt` is written with gradient mode on.
    LeafMutation {
        /// The position of the input.
        index: usize,
        /// The name of the input.
        name: String,
    },
    /// E714: a write would change the shape of an input.
    MetadataMutation {
        /// The phase of the write.
        phase: Phase,
        /// The position of the input.
        index: usize,
        /// The name of the input.
        name: String,
        /// The type before.
        old: String,
        /// The type after.
        new: String,
    },
    /// E717: a backward writes to a cotangent.
    CotangentMutation {
        /// The output to which the cotangent belongs.
        output: usize,
    },
    /// E718: a backward writes to a value that the forward made.
    BackwardWriteToIntermediate {
        /// The value.
        value: String,
        /// The line that made the value, as printed.
        line: String,
    },
    /// E719: a differentiated backward writes to inputs that need a gradient.
    BackwardWriteNeedsGrad {
        /// The positions and names of the inputs, ascending, each once.
        inputs: Vec<(usize, String)>,
    },
    /// E720: a backward that writes should be kept for a second run.
    RetainWithBackwardWrites {
        /// The written inputs.
        inputs: Vec<(usize, String)>,
    },
    /// E721: a tag that must survive has no value to apply to.
    TagLost {
        /// The tag.
        tag: &'static str,
        /// The value or line that had it.
        of: String,
        /// The transform that lost it.
        transform: &'static str,
    },
    /// E722: tags that exclude each other met.
    TagConflict {
        /// The tags.
        tags: Vec<&'static str>,
        /// The value or line.
        of: String,
        /// The transform (or verifier) that found them.
        transform: &'static str,
    },
    /// E723: a transform must not run after another one.
    TransformOrder {
        /// The transform.
        transform: &'static str,
        /// The earlier one that forbids it.
        after: &'static str,
    },
    /// E730: a trace is invalid, which is a fault of the transform that made it.
    BadTrace {
        /// The transform.
        transform: &'static str,
    },
    /// E731, E732: a text is not a trace, or contradicts itself.
    TraceText {
        /// The line of the text, from 1.
        line: u32,
        /// The column, from 1.
        column: u32,
    },
    /// E752: the state of a micro-batch does not allow an action of a pipeline.
    PipelineOrder {
        /// The stage.
        stage: usize,
        /// The micro-batch.
        micro_batch: usize,
        /// The action: `F`, `B`, `I`, `W`, `W[1]` or `REDUCE`.
        action: String,
        /// The state of the micro-batch.
        state: String,
        /// The actions that are allowed in that state.
        expected: String,
        /// The step of the stage, from 0.
        step: usize,
    },
    /// E753: cotangents do not have the structure of a stage's outputs.
    Cotangent {
        /// The stage.
        stage: usize,
        /// The part at fault, such as `out.aux[1]`.
        path: String,
    },
    /// E754: a cotangent was left out for a stage whose output is not a loss.
    Loss {
        /// The stage.
        stage: usize,
        /// The sizes of the stage's output.
        shape: String,
    },
    /// E755: a parameter that the rest of a backward reads was written.
    StaleHandover {
        /// The stage.
        stage: usize,
        /// The micro-batch.
        micro_batch: usize,
        /// The parameter.
        value: String,
        /// The number of writes before F.
        saved_version: u64,
        /// The present number of writes.
        now: u64,
    },
    /// E8xx: an executor reported an error.
    Executor {
        /// The name of the executor.
        executor: &'static str,
        /// The operator that it ran or compiled.
        op: Option<Name>,
    },
    /// E9xx: an error of a file or the command line.
    File {
        /// The path.
        path: String,
    },
    /// The error has no facts besides its text.
    Other,
}

impl Error {
    /// An error without a place, notes and remedies.
    pub fn new(code: &'static str, claim: impl Into<String>) -> Error {
        Error(Arc::new(Inner {
            code,
            claim: claim.into(),
            kind: ErrorKind::Other,
            loc: Loc::NOWHERE,
            label: "called here".to_owned(),
            notes: Vec::new(),
            help: Vec::new(),
        }))
    }

    fn edit(mut self, f: impl FnOnce(&mut Inner)) -> Error {
        f(Arc::make_mut(&mut self.0));
        self
    }

    /// Adds the facts as fields.
    pub fn kind_is(self, kind: ErrorKind) -> Error {
        self.edit(|e| e.kind = kind)
    }

    /// Sets the place, unless the error has one already: the innermost place is the user's.
    pub fn at(self, loc: Loc) -> Error {
        if self.0.loc != Loc::NOWHERE || loc == Loc::NOWHERE { self } else { self.edit(|e| e.loc = loc) }
    }

    /// Sets the place to the user's call, if a function of the user raised the error inside of it.
    pub(crate) fn of_call(self, call: Loc) -> Error {
        let raised = self.0.loc;
        if raised == Loc::NOWHERE || raised == call {
            return self.at(call);
        }
        self.edit(|e| e.loc = call).note(format!("raised at {raised}"))
    }

    /// Replaces the text under the source line, `called here`.
    pub fn label(self, label: impl Into<String>) -> Error {
        self.edit(|e| e.label = label.into())
    }

    /// Adds an `=` line.
    pub fn note(self, note: impl Into<String>) -> Error {
        self.edit(|e| e.notes.push(note.into()))
    }

    /// Adds a remedy.
    pub fn help(self, help: impl Into<String>) -> Error {
        self.edit(|e| e.help.push(help.into()))
    }

    /// An error that is a bug of fulgurite, not of the user's program.
    pub fn bug(code: &'static str, claim: impl Into<String>) -> Error {
        Error::new(code, claim).note("this is a bug in fulgurite")
    }

    /// The code, such as `E701`.
    pub fn code(&self) -> &'static str {
        self.0.code
    }
    /// The claim, in one sentence.
    pub fn claim(&self) -> &str {
        &self.0.claim
    }
    /// The facts as fields.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }
    /// The place of the user's call.
    pub fn loc(&self) -> Loc {
        self.0.loc
    }
    /// The `=` lines.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }
    /// The remedies.
    pub fn helps(&self) -> &[String] {
        &self.0.help
    }
}

impl From<Refusal> for Error {
    fn from(r: Refusal) -> Error {
        let mut error = Error::new(r.code, r.message);
        if let Some(help) = r.help {
            error = error.help(help);
        }
        match r.arg {
            Some(arg) => error.kind_is(ErrorKind::Refused { op: Name::new(""), arg: Some(arg) }),
            None => error,
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &self.0;
        write!(f, "error[{}]: {}", e.code, e.claim)?;
        let width = e.loc.line.max(1).ilog10() as usize + 1;
        let pad = " ".repeat(width);
        if e.loc != Loc::NOWHERE {
            write!(f, "\n{pad}--> {}", e.loc)?;
            if let Some(text) = source_line(&e.loc) {
                let (indent, length) = underline(&text, e.loc.column);
                write!(f, "\n{pad} |\n{} | {text}\n{pad} | {indent}{} {}", e.loc.line, "^".repeat(length), e.label)?;
                if !(e.notes.is_empty() && e.help.is_empty()) {
                    write!(f, "\n{pad} |")?;
                }
            }
        }
        for note in &e.notes {
            write!(f, "\n{pad} = {note}")?;
        }
        for help in &e.help {
            write!(f, "\n{pad} = help: {help}")?;
        }
        Ok(())
    }
}

/// The line of a place, if its file can be read. rustc names files relative to the workspace while tests run in a
/// package, so up to three folders upwards are tried.
fn source_line(loc: &Loc) -> Option<String> {
    let file = std::path::Path::new(loc.file);
    let mut up = std::path::PathBuf::new();
    for _ in 0..4 {
        if let Ok(text) = std::fs::read_to_string(up.join(file)) {
            let line = text.lines().nth(loc.line.checked_sub(1)? as usize)?;
            return Some(line.replace('\t', " ").trim_end().to_owned());
        }
        if file.is_absolute() {
            return None;
        }
        up.push("..");
    }
    None
}

/// The text before the underline, and the length of the underline: the path or word that starts at the column.
fn underline(line: &str, column: u32) -> (String, usize) {
    let before = (column.max(1) - 1) as usize;
    let indent = " ".repeat(before.min(line.chars().count()));
    let word = line.chars().skip(before).take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').count();
    (indent, word.max(1))
}
