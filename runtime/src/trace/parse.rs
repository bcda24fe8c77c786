//! The syntax of printed traces. The meaning of names is decided where the lines are bound again (`bind::read`).
//!
//! **Invariant:** any text is parsed or refused with the first position where it leaves the grammar; nesting is
//! bounded.

pub use super::lexer::Pos;
use super::lexer::{Tok, lex};
use super::sizes::{self, Atoms};
use super::tag::{Carrier, Tag};
use super::types::{Device, RegionKind, Role};
use crate::error::{Error, Phase};
use fulgurite_core::signature::MOST_AXES;
use fulgurite_core::{DType, Dim, Name, Scalar, TensorTy};
use std::rc::Rc;

/// Regions and lists nest at most this deep, because a text may come from outside and the parser recurses.
const MAX_DEPTH: usize = 64;

/// A trace as it is written.
#[derive(Debug)]
pub struct TraceText {
    /// The name, after `fn`.
    pub name: String,
    /// The symbolic sizes with their values: `[x.0 = 4]`.
    pub atoms: Vec<(String, i64)>,
    /// The inputs.
    pub inputs: Vec<TypedName>,
    /// The lines, regions and writes.
    pub items: Vec<TraceItem>,
    /// The names after `return`.
    pub outputs: Vec<(String, Pos)>,
    /// The names after `; save`.
    pub saved: Vec<(String, Pos)>,
}

/// One item of a trace.
#[derive(Debug)]
pub enum TraceItem {
    /// A line, which is a bound symbol.
    Line(Line),
    /// A region with its items.
    Region {
        /// The head of the region.
        kind: RegionKind,
        /// The number of the region, if it is opened more than once.
        number: Option<i64>,
        /// The tags beyond those of the region's kind.
        tags: Vec<(String, Pos)>,
        /// The items in the region.
        items: Vec<TraceItem>,
    },
    /// A write `input <- value`.
    Write {
        /// The input.
        input: (String, Pos),
        /// The value.
        value: (String, Pos),
        /// The phase of the write.
        phase: Phase,
    },
}

/// One application of a symbol.
#[derive(Debug)]
pub struct Line {
    /// The results; `_` has no type.
    pub outs: Vec<TypedName>,
    /// The auxiliary results.
    pub aux: Vec<TypedName>,
    /// The name of the row.
    pub op: Name,
    /// The arguments, with names if they are given by name.
    pub args: Vec<(Option<Name>, ArgText)>,
    /// The tags.
    pub tags: Vec<(String, Pos)>,
    /// The user's call from the comment: role, file (`…` for the file of the line before), line and column.
    pub place: Option<(Role, String, u32, u32)>,
    /// The programs, for a line of control flow.
    pub programs: Vec<ProgramText>,
    /// The start of the line.
    pub pos: Pos,
}

/// A program of a line of control flow.
#[derive(Debug)]
pub struct ProgramText {
    /// The name.
    pub name: String,
    /// The inputs.
    pub inputs: Vec<TypedName>,
    /// The lines and regions.
    pub items: Vec<TraceItem>,
    /// The names after `return`.
    pub outputs: Vec<(String, Pos)>,
    /// The start of the program.
    pub pos: Pos,
}

/// A name with its type.
#[derive(Debug)]
pub struct TypedName {
    /// The name.
    pub name: String,
    /// The type; absent for `_`.
    pub ty: Option<WrittenTy>,
    /// The tags.
    pub tags: Vec<(String, Pos)>,
    /// The position of the name.
    pub pos: Pos,
}

/// A type as it is written.
#[derive(Debug)]
pub enum WrittenTy {
    /// A tensor, such as `f32[2, 3]`.
    Tensor(TensorTy, Device),
    /// A number, such as `f32`.
    Number(DType),
    /// A key, `key`.
    Key,
    /// A tensor of a subclass, such as `TwoTensor[f32[2]]{a: f32[2], b: f32[2], k: 1}`.
    Subclass(Box<WrittenClass>),
}

/// The type of a tensor of a subclass.
#[derive(Debug)]
pub struct WrittenClass {
    /// The class.
    pub class: Name,
    /// The type of the tensor that programs see.
    pub outer: TensorTy,
    /// The fields.
    pub fields: Vec<(Name, WrittenTy)>,
    /// The metadata.
    pub meta: Vec<(Name, ArgText)>,
    /// The position of the type.
    pub pos: Pos,
}

/// An argument as it is written.
#[derive(Debug)]
pub enum ArgText {
    /// The name of a value, a dtype or a word; the parameter decides which.
    Word(String, Pos),
    /// A number.
    Num(Scalar),
    /// A symbolic size.
    Size(Dim),
    /// A text.
    Str(String),
    /// A type.
    Type(TensorTy),
    /// A list.
    List(Vec<ArgText>),
}

/// Reads a printed trace.
///
/// # Errors
/// E731 at the first position where the text leaves the grammar.
pub fn parse(text: &str) -> Result<TraceText, Error> {
    let mut parser = Parser { tokens: lex(text)?, at: 0, atoms: Atoms::default() };
    let text = parser.trace()?;
    parser.newlines();
    match parser.peek() {
        Tok::End => Ok(text),
        _ => Err(parser.wanted("the end")),
    }
}

struct Parser {
    tokens: Vec<(Tok, Pos)>,
    at: usize,
    atoms: Atoms,
}

type Res<T> = Result<T, Error>;

impl Parser {
    fn peek(&self) -> &Tok {
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }
    fn pos(&self) -> Pos {
        self.tokens[self.at.min(self.tokens.len() - 1)].1
    }
    fn next(&mut self) -> Tok {
        let tok = self.peek().clone();
        self.at += 1;
        tok
    }
    fn wanted(&self, what: &str) -> Error {
        self.pos().error("E731", format!("{what} was expected, not {}", self.peek()))
    }
    fn eat(&mut self, mark: char) -> bool {
        let found = *self.peek() == Tok::Mark(mark);
        self.at += found as usize;
        found
    }
    fn expect(&mut self, mark: char) -> Res<()> {
        if self.eat(mark) { Ok(()) } else { Err(self.wanted(&Tok::Mark(mark).to_string())) }
    }
    fn eat_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Tok::Word(w) if w == word);
        self.at += found as usize;
        found
    }
    fn word(&mut self, what: &str) -> Res<(String, Pos)> {
        let pos = self.pos();
        let Tok::Word(word) = self.peek().clone() else { return Err(self.wanted(what)) };
        self.at += 1;
        Ok((word, pos))
    }
    fn newlines(&mut self) {
        while matches!(self.peek(), Tok::Newline | Tok::Comment(_)) {
            self.at += 1;
        }
    }

    fn trace(&mut self) -> Res<TraceText> {
        self.newlines();
        if !self.eat_word("fn") {
            return Err(self.wanted("`fn`"));
        }
        let (name, _) = self.word("the trace's name")?;
        let atoms = if self.eat('[') { self.list(']', Parser::atom)? } else { Vec::new() };
        self.expect('(')?;
        let inputs = self.list(')', Parser::typed_name)?;
        self.expect('{')?;
        let items = self.items(0, |p| p.eat_word("return"))?;
        let outputs = self.values()?;
        let saves = self.eat(';');
        if saves && !self.eat_word("save") {
            return Err(self.wanted("`save`"));
        }
        let saved = if saves { self.values()? } else { Vec::new() };
        self.newlines();
        self.expect('}')?;
        Ok(TraceText { name, atoms, inputs, items, outputs, saved })
    }

    /// Reads items up to and including their end.
    fn items(&mut self, depth: usize, ends: impl Fn(&mut Parser) -> bool) -> Res<Vec<TraceItem>> {
        let mut items = Vec::new();
        loop {
            self.newlines();
            if ends(self) {
                return Ok(items);
            }
            items.push(self.item(depth)?);
        }
    }

    /// Reads the names of values up to the end of the line or a mark.
    fn values(&mut self) -> Res<Vec<(String, Pos)>> {
        let mut values = Vec::new();
        while !matches!(self.peek(), Tok::Newline | Tok::Comment(_) | Tok::Mark('}' | ';')) {
            if !values.is_empty() {
                self.expect(',')?;
            }
            values.push(self.word("a value")?);
        }
        Ok(values)
    }

    /// Reads a symbolic size of the head.
    fn atom(&mut self) -> Res<(String, i64)> {
        let (name, pos) = self.word("a size's name")?;
        self.expect('=')?;
        match *self.peek() {
            Tok::Int(value) if value >= 0 => {
                self.at += 1;
                match self.atoms.insert(name.clone(), Dim::atom(&name, value)) {
                    None => Ok((name, value)),
                    Some(_) => Err(pos.error("E731", format!("the size `{name}` is given twice"))),
                }
            }
            _ => Err(self.wanted("a size")),
        }
    }

    /// Reads a size, which may be symbolic.
    fn size(&mut self) -> Res<Dim> {
        sizes::read(&self.tokens, &mut self.at, &self.atoms)
    }

    /// Reads items separated by commas, up to and including the closing mark.
    fn list<T>(&mut self, close: char, mut item: impl FnMut(&mut Self) -> Res<T>) -> Res<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(',')?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn item(&mut self, depth: usize) -> Res<TraceItem> {
        if let Tok::Word(word) = self.peek() {
            let region =
                matches!(word.as_str(), "no_grad" | "enable_grad" | "checkpoint" | "autocast" | "tagged" | "scope");
            let after = self.tokens.get(self.at + 1).map(|t| &t.0);
            if region && !matches!(after, Some(Tok::Mark(':' | '='))) {
                return self.region(depth);
            }
            if after == Some(&Tok::Mark('<')) {
                return self.write();
            }
        }
        self.line(depth).map(TraceItem::Line)
    }

    fn region(&mut self, depth: usize) -> Res<TraceItem> {
        if depth >= MAX_DEPTH {
            return Err(self.pos().error("E731", format!("regions are nested deeper than {MAX_DEPTH}")));
        }
        let kind = match self.word("a region")?.0.as_str() {
            "no_grad" => RegionKind::NoGrad,
            "enable_grad" => RegionKind::EnableGrad,
            "checkpoint" => RegionKind::Checkpoint,
            "scope" => match self.next() {
                Tok::Str(name) => RegionKind::Named(Rc::from(name)),
                _ => return Err(self.wanted("the scope's name in quotes")),
            },
            "tagged" => {
                self.expect('(')?;
                let (word, pos) = self.word("a tag of regions")?;
                self.expect(')')?;
                let tag = Tag::find(&word).filter(|t| t.decl().carrier == Carrier::Region && !t.is_built_in());
                let none = || pos.error("E731", format!("`{word}` is no tag of regions that was declared"));
                RegionKind::Tagged(tag.ok_or_else(none)?)
            }
            _ => {
                self.expect('(')?;
                let (word, pos) = self.word("a dtype or `off`")?;
                self.expect(')')?;
                let dtype = DType::from_name(&word);
                if dtype.is_none() && word != "off" {
                    return Err(pos.error("E731", format!("`{word}` is no dtype")));
                }
                RegionKind::Autocast(dtype)
            }
        };
        let number = match *self.peek() {
            Tok::Int(i) => {
                self.at += 1;
                Some(i)
            }
            _ => None,
        };
        let tags = self.tags()?;
        self.expect('{')?;
        let items = self.items(depth + 1, |p| p.eat('}'))?;
        Ok(TraceItem::Region { kind, number, tags, items })
    }

    fn write(&mut self) -> Res<TraceItem> {
        let input = self.word("an input")?;
        self.expect('<')?;
        let value = self.word("a value")?;
        let phase = if self.eat_word("backward") { Phase::Backward } else { Phase::Forward };
        Ok(TraceItem::Write { input, value, phase })
    }

    /// Reads the programs of a line of control flow, up to the end of the line's block.
    fn programs(&mut self, depth: usize) -> Res<Vec<ProgramText>> {
        if depth >= MAX_DEPTH {
            return Err(self.pos().error("E731", format!("programs are nested deeper than {MAX_DEPTH}")));
        }
        let mut programs = Vec::new();
        loop {
            self.newlines();
            if self.eat('}') {
                return Ok(programs);
            }
            let (name, pos) = self.word("a program's name")?;
            self.expect('(')?;
            let inputs = self.list(')', Parser::typed_name)?;
            self.expect('{')?;
            let items = self.items(depth + 1, |p| p.eat_word("return"))?;
            let outputs = self.values()?;
            self.newlines();
            self.expect('}')?;
            programs.push(ProgramText { name, inputs, items, outputs, pos });
        }
    }

    fn line(&mut self, depth: usize) -> Res<Line> {
        let pos = self.pos();
        let (mut outs, mut aux) = (Vec::new(), Vec::new());
        if self.eat('(') {
            while !matches!(self.peek(), Tok::Mark(';' | ')')) {
                if !outs.is_empty() {
                    self.expect(',')?;
                }
                outs.push(self.typed_name()?);
            }
            match self.eat(';') {
                true => aux = self.list(')', Parser::typed_name)?,
                false => self.expect(')')?,
            }
        } else {
            outs.push(self.typed_name()?);
        }
        self.expect('=')?;
        let (op, _) = self.word("a row")?;
        self.expect('(')?;
        let args = self.list(')', |p| {
            let named = matches!(p.tokens.get(p.at + 1).map(|t| &t.0), Some(Tok::Mark('=')));
            let name = if named { Some(Name::new(&p.word("a name")?.0)) } else { None };
            p.at += named as usize;
            Ok((name, p.arg(0)?))
        })?;
        let tags = self.tags()?;
        let runs = self.eat('{');
        let place = match self.peek() {
            Tok::Comment(text) => place(text),
            _ => None,
        };
        let programs = if runs { self.programs(depth + 1)? } else { Vec::new() };
        Ok(Line { outs, aux, op: Name::new(&op), args, tags, place, programs, pos })
    }

    fn arg(&mut self, depth: usize) -> Res<ArgText> {
        if depth >= MAX_DEPTH {
            return Err(self.pos().error("E731", format!("lists are nested deeper than {MAX_DEPTH}")));
        }
        let pos = self.pos();
        if sizes::starts(&self.tokens, self.at, &self.atoms) {
            let size = self.size()?;
            return Ok(if size.is_const() { ArgText::Num(Scalar::Int(size.value())) } else { ArgText::Size(size) });
        }
        match self.peek() {
            Tok::Mark('[') => {
                self.at += 1;
                Ok(ArgText::List(self.list(']', |p| p.arg(depth + 1))?))
            }
            Tok::Int(_) | Tok::Float(_) | Tok::Str(_) | Tok::Word(_) => match self.next() {
                Tok::Int(i) => Ok(ArgText::Num(Scalar::Int(i))),
                Tok::Float(x) => Ok(ArgText::Num(Scalar::Float(x))),
                Tok::Str(text) => Ok(ArgText::Str(text)),
                Tok::Word(word) => match (word.as_str(), self.peek()) {
                    ("true", _) => Ok(ArgText::Num(Scalar::Bool(true))),
                    ("false", _) => Ok(ArgText::Num(Scalar::Bool(false))),
                    ("nan", _) => Ok(ArgText::Num(Scalar::Float(f64::NAN))),
                    ("inf", _) => Ok(ArgText::Num(Scalar::Float(f64::INFINITY))),
                    (_, Tok::Mark('[')) => Ok(ArgText::Type(self.tensor_ty(&word, pos)?)),
                    _ => Ok(ArgText::Word(word, pos)),
                },
                _ => Err(self.wanted("an argument")),
            },
            _ => Err(self.wanted("an argument")),
        }
    }

    fn tags(&mut self) -> Res<Vec<(String, Pos)>> {
        let mut tags = Vec::new();
        while self.eat('#') {
            tags.push(self.word("a tag")?);
        }
        Ok(tags)
    }

    fn typed_name(&mut self) -> Res<TypedName> {
        let (name, pos) = self.word("a value")?;
        if name == "_" {
            return Ok(TypedName { name, ty: None, tags: Vec::new(), pos });
        }
        self.expect(':')?;
        let ty = self.ty(0)?;
        let tags = self.tags()?;
        Ok(TypedName { name, ty: Some(ty), tags, pos })
    }

    fn ty(&mut self, depth: usize) -> Res<WrittenTy> {
        if depth >= MAX_DEPTH {
            return Err(self.pos().error("E731", format!("types are nested deeper than {MAX_DEPTH}")));
        }
        let (word, pos) = self.word("a type")?;
        if word == "key" {
            return Ok(WrittenTy::Key);
        }
        if *self.peek() != Tok::Mark('[') {
            let dtype = DType::from_name(&word).ok_or_else(|| pos.error("E731", format!("`{word}` is no type")))?;
            return Ok(WrittenTy::Number(dtype));
        }
        if word.starts_with(char::is_uppercase) {
            return self.subclass(&word, pos, depth);
        }
        let ty = self.tensor_ty(&word, pos)?;
        let mut device = Device::Cpu;
        if self.eat('@') {
            let (word, pos) = self.word("a device")?;
            let ordinal = if self.eat(':') { self.next() } else { Tok::End };
            device = match (word.as_str(), ordinal) {
                ("cpu", Tok::End) => Device::Cpu,
                ("cuda", Tok::Int(i)) if u32::try_from(i).is_ok() => Device::Cuda(i as u32),
                _ => return Err(pos.error("E731", format!("`{word}` is no device"))),
            };
        }
        Ok(WrittenTy::Tensor(ty, device))
    }

    /// Reads the text after the name of a class.
    fn subclass(&mut self, class: &str, pos: Pos, depth: usize) -> Res<WrittenTy> {
        self.expect('[')?;
        let (dtype, at) = self.word("a dtype")?;
        let outer = self.tensor_ty(&dtype, at)?;
        self.expect(']')?;
        self.expect('{')?;
        let (mut fields, mut meta) = (Vec::new(), Vec::new());
        self.list('}', |p| {
            let name = Name::new(&p.word("a field")?.0);
            p.expect(':')?;
            let is_type = matches!(p.peek(), Tok::Word(_))
                && matches!(p.tokens.get(p.at + 1).map(|t| &t.0), Some(Tok::Mark('[')));
            match is_type {
                true => fields.push((name, p.ty(depth + 1)?)),
                false => meta.push((name, p.arg(depth + 1)?)),
            }
            Ok(())
        })?;
        Ok(WrittenTy::Subclass(Box::new(WrittenClass { class: Name::new(class), outer, fields, meta, pos })))
    }

    fn tensor_ty(&mut self, dtype: &str, pos: Pos) -> Res<TensorTy> {
        let dtype = DType::from_name(dtype).ok_or_else(|| pos.error("E731", format!("`{dtype}` is no dtype")))?;
        self.expect('[')?;
        let shape = self.list(']', |p| {
            let pos = p.pos();
            let size = p.size()?;
            if size.hint() < 0 { Err(pos.error("E731", format!("a size was expected, not {size}"))) } else { Ok(size) }
        })?;
        if shape.len() > MOST_AXES {
            return Err(pos.error("E731", format!("a type has at most {MOST_AXES} axes, not {}", shape.len())));
        }
        Ok(TensorTy::new(dtype, &shape))
    }
}

/// Reads `backward of examples/05_gpt.rs:88   cpu` as role, file, line and column.
fn place(comment: &str) -> Option<(Role, String, u32, u32)> {
    let roles =
        [("backward of ", Role::Backward), ("recompute of ", Role::Recompute), ("accumulate at ", Role::Accumulate)];
    let (role, rest) = roles
        .iter()
        .find_map(|(text, role)| Some((*role, comment.strip_prefix(text)?)))
        .unwrap_or((Role::Forward, comment));
    let (file, place) = rest.split_whitespace().next()?.split_once(':')?;
    let mut numbers = place.split(':').map(|n| n.chars().take_while(char::is_ascii_digit).collect::<String>());
    let line = numbers.next()?.parse().ok()?;
    // column 0 stands for a comment without a column
    Some((role, file.to_owned(), line, numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0)))
}
