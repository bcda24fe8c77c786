//! Formulas of rows as MathML, which browsers typeset without a script.
//!
//! The spelling of a builtin stands in the table of builtins; this module writes operators, cases, sums over indices and
//! elements of tensors.

use fulgurite_core::builtins::{Builtin, Record};
use fulgurite_core::lang::ast::{Axes, AxesKind, Bind, ListItem, Outside, Pattern, Place, Reduce, Stmt, TensorAccess};
use fulgurite_core::lang::{BinOp, Block, Elem, Expr, Node, UnOp};

use crate::html::escape;

/// The level of a sum: operands of a product at this level or below need parentheses.
const SUM: u8 = 4;
const PRODUCT: u8 = 5;
const SIGN: u8 = 6;
const POWER: u8 = 7;
/// The level of one symbol, or of what encloses its parts.
const SYMBOL: u8 = 9;

/// A piece of a formula, and how strongly it binds.
struct Piece {
    text: String,
    level: u8,
}

impl Piece {
    fn symbol(text: impl Into<String>) -> Piece {
        Piece { text: text.into(), level: SYMBOL }
    }
    /// The piece, in parentheses if it binds no stronger than `level`.
    fn above(self, level: u8) -> String {
        if self.level > level { self.text } else { parenthesised(&self.text) }
    }
}

fn parenthesised(text: &str) -> String {
    format!("<mrow><mo>(</mo>{text}<mo>)</mo></mrow>")
}

fn row(text: &str) -> String {
    format!("<mrow>{text}</mrow>")
}

/// `left = body` as one formula, with a line for each `let`.
pub fn block(left: &str, block: &Block) -> String {
    let mut lines = vec![format!("<mtd>{left}</mtd><mtd><mo>=</mo></mtd><mtd>{}</mtd>", piece(&block.value).text)];
    for stmt in &block.stmts {
        let (name, value) = match stmt {
            Stmt::Let(pattern, value) => (self::pattern(pattern), value),
            Stmt::Write(name, value) => (self::name(name.name.as_str()), value),
        };
        lines.push(format!("<mtd>{name}</mtd><mtd><mo>=</mo></mtd><mtd>{}</mtd>", piece(value).text));
    }
    let lines: String = lines.iter().map(|line| format!("<mtr>{line}</mtr>")).collect();
    format!("<math display=\"block\"><mtable columnalign=\"right center left\">{lines}</mtable></math>")
}

/// A name with its arguments in parentheses: `f(x, y)`.
pub fn call<'a>(function: &str, args: impl Iterator<Item = &'a str>) -> String {
    row(&format!("{}<mo>(</mo>{}<mo>)</mo>", name(function), args.map(name).collect::<Vec<_>>().join("<mo>,</mo>")))
}

fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Name(name) => self::name(name.name.as_str()),
        Pattern::Axes(list, axes) => sub(&name(list.name.as_str()), &self::axes(axes)),
        Pattern::Tuple(names) => {
            let names: Vec<String> = names.iter().map(|name| self::name(name.name.as_str())).collect();
            parenthesised(&names.join("<mo>,</mo>"))
        }
    }
}

/// Names with a letter or a form of their own.
const FORMS: [(&str, &str); 19] = [
    ("alpha", "<mi>α</mi>"),
    ("beta", "<mi>β</mi>"),
    ("gamma", "<mi>γ</mi>"),
    ("delta", "<mi>δ</mi>"),
    ("eps", "<mi>ε</mi>"),
    ("epsilon", "<mi>ε</mi>"),
    ("theta", "<mi>θ</mi>"),
    ("lambd", "<mi>λ</mi>"),
    ("lambda", "<mi>λ</mi>"),
    ("mu", "<mi>μ</mi>"),
    ("sigma", "<mi>σ</mi>"),
    ("tau", "<mi>τ</mi>"),
    ("rho", "<mi>ρ</mi>"),
    ("PI", "<mi>π</mi>"),
    ("E", "<mi>e</mi>"),
    ("FRAC_1_SQRT_2", "<mfrac><mn>1</mn><msqrt><mn>2</mn></msqrt></mfrac>"),
    ("LN_2", "<mrow><mi>ln</mi><mn>2</mn></mrow>"),
    ("inf", "<mi>∞</mi>"),
    ("nan", "<mtext>NaN</mtext>"),
];

/// A name: a letter or a form of its own, or letters with an index (`beta1` has the index 1).
fn name(name: &str) -> String {
    if let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == name) {
        return (*form).to_owned();
    }
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (head, index) = name.split_at(digits);
    if !head.is_empty() && !index.is_empty() {
        return sub(&self::name(head.trim_end_matches('_')), &format!("<mn>{index}</mn>"));
    }
    format!("<mi>{}</mi>", escape(name))
}

fn sub(base: &str, index: &str) -> String {
    format!("<msub>{base}<mrow>{index}</mrow></msub>")
}

/// Words in a formula; blanks at their ends stay.
fn words(text: &str) -> String {
    format!("<mtext>{}</mtext>", escape(text).replace(' ', "\u{a0}"))
}

fn piece(e: &Expr) -> Piece {
    match &*e.node {
        Node::Int(n) => number(&n.to_string()),
        Node::Float(x) if *x != 0.0 && !(1e-4..1e16).contains(&x.abs()) => number(&format!("{x:e}")),
        Node::Float(x) => number(&x.to_string()),
        Node::Str(s) => Piece::symbol(words(&format!("{s:?}"))),
        Node::Name(n) => Piece::symbol(name(n.as_str())),
        Node::Tuple(items) => Piece::symbol(parenthesised(&list(items))),
        Node::Unary(UnOp::Neg, e) => {
            Piece { text: row(&format!("<mo>−</mo>{}", piece(e).above(SUM))), level: SIGN - 1 }
        }
        Node::Unary(UnOp::Not, e) => Piece { text: row(&format!("<mo>¬</mo>{}", piece(e).above(SIGN))), level: SIGN },
        Node::Binary(op, a, b) => binary(*op, a, b),
        Node::Cast(e, class) => cast(e, class),
        Node::If(..) => Piece { text: cases(e), level: 0 },
        Node::Match(of, arms) => {
            let arms = arms.iter().map(|(word, value)| {
                let when = format!("{}<mo>=</mo>{}", name(of.name.as_str()), words(word.name.as_str()));
                (piece(value).text, when)
            });
            Piece { text: table(arms), level: 0 }
        }
        Node::Call(f, args) => {
            let args: Vec<Piece> = args.iter().map(|arg| piece(&arg.value)).collect();
            Piece::symbol(function(f.name.as_str(), args))
        }
        Node::Access(access) => Piece::symbol(self::access(access)),
        Node::Reduce(reduce) => Piece { text: reduction(reduce), level: SUM },
        Node::Zip(e) | Node::Spread(e) => piece(e),
        Node::List(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| match item {
                    ListItem::One(e) => piece(e).text,
                    ListItem::Spread(e) => format!("<mo>…</mo>{}", piece(e).text),
                })
                .collect();
            Piece::symbol(row(&format!("<mo>[</mo>{}<mo>]</mo>", items.join("<mo>,</mo>"))))
        }
    }
}

fn number(text: &str) -> Piece {
    match text.split_once('e') {
        Some((digits, power)) => {
            let power = match power.strip_prefix('-') {
                Some(digits) => format!("<mo>−</mo><mn>{digits}</mn>"),
                None => format!("<mn>{power}</mn>"),
            };
            let ten = format!("<msup><mn>10</mn><mrow>{power}</mrow></msup>");
            match digits {
                "1" => Piece { text: ten, level: POWER },
                _ => Piece { text: row(&format!("<mn>{digits}</mn><mo>⋅</mo>{ten}")), level: PRODUCT },
            }
        }
        None => Piece::symbol(format!("<mn>{text}</mn>")),
    }
}

fn list(items: &[Expr]) -> String {
    items.iter().map(|e| piece(e).text).collect::<Vec<_>>().join("<mo>,</mo>")
}

fn binary(op: BinOp, a: &Expr, b: &Expr) -> Piece {
    let level = op.level();
    if op == BinOp::Div {
        let text = format!("<mfrac><mrow>{}</mrow><mrow>{}</mrow></mfrac>", piece(a).text, piece(b).text);
        return Piece { text, level: PRODUCT };
    }
    let mark = match op {
        BinOp::Or => "∨",
        BinOp::And => "∧",
        BinOp::Eq => "=",
        BinOp::Ne => "≠",
        BinOp::Lt => "&lt;",
        BinOp::Le => "≤",
        BinOp::Gt => "&gt;",
        BinOp::Ge => "≥",
        BinOp::Sub => "−",
        BinOp::Mul => "⋅",
        BinOp::Rem => "mod",
        BinOp::Add | BinOp::Div => "+",
    };
    // operators group to the left, but comparisons do not chain
    let chains = op.is_arithmetic() || matches!(op, BinOp::And | BinOp::Or);
    let (left, right) = (piece(a).above(if chains { level - 1 } else { level }), piece(b).above(level));
    Piece { text: row(&format!("{left}<mo>{mark}</mo>{right}")), level }
}

/// A cast to the dtype of an argument changes no number; a cast to a dtype of its own is shown.
fn cast(e: &Expr, class: &Elem) -> Piece {
    match class {
        Elem::Class(class) => Piece::symbol(sub(&parenthesised(&piece(e).text), &words(class.as_str()))),
        _ => piece(e),
    }
}

/// The cases of nested choices, one line each.
fn cases(e: &Expr) -> String {
    let mut lines = Vec::new();
    let mut rest = e;
    while let Node::If(cond, yes, no) = &*rest.node {
        lines.push((value(yes), piece(cond).text));
        if !no.stmts.is_empty() {
            lines.push((value(no), words("otherwise")));
            return table(lines.into_iter());
        }
        rest = &no.value;
    }
    lines.push((piece(rest).text, words("otherwise")));
    table(lines.into_iter())
}

/// The value of a branch, with its names after it.
fn value(block: &Block) -> String {
    let mut text = piece(&block.value).text;
    for stmt in &block.stmts {
        if let Stmt::Let(pattern, e) = stmt {
            let (left, right) = (self::pattern(pattern), piece(e).text);
            text += &format!("{}{left}<mo>=</mo>{right}", words(" where "));
        }
    }
    row(&text)
}

fn table(lines: impl Iterator<Item = (String, String)>) -> String {
    let line = |(value, when): (String, String)| {
        let mark = if when.contains("otherwise</mtext>") { String::new() } else { words("if ") };
        format!("<mtr><mtd>{value}</mtd><mtd>{mark}{when}</mtd></mtr>")
    };
    let lines: String = lines.map(line).collect();
    // the style sheet draws the brace, because browsers stretch one only if a mathematical font is installed
    format!("<mtable class=\"cases\" columnalign=\"left left\">{lines}</mtable>")
}

fn function(called: &str, args: Vec<Piece>) -> String {
    let math = Builtin::from_name(called).map_or("", |builtin| -> &str {
        let record: &Record = builtin.record();
        record.math
    });
    if math.is_empty() {
        let args: Vec<String> = args.into_iter().map(|arg| arg.text).collect();
        return row(&format!("<mi>{}</mi><mo>(</mo>{}<mo>)</mo>", escape(called), args.join("<mo>,</mo>")));
    }
    let mut text = math.to_owned();
    for (n, arg) in args.into_iter().enumerate() {
        let bare = row(&arg.text);
        text = text.replace(&format!("{{({n})}}"), &arg.above(SYMBOL - 1)).replace(&format!("{{{n}}}"), &bare);
    }
    text
}

/// `x[..p, n]` as x with an index.
fn access(access: &TensorAccess) -> String {
    let places: Vec<String> = access.places.iter().map(place).collect();
    let item = access.item.iter().map(|e| piece(e).text);
    let index = item.chain(places).collect::<Vec<_>>().join("<mo>,</mo>");
    let base = name(access.base.name.as_str());
    let element = if index.is_empty() { base } else { sub(&base, &index) };
    match &access.outside {
        Outside::Value(e) => {
            let outside = format!("{}{}{}", words(" ("), piece(e).text, words(" outside)"));
            row(&format!("{element}<mpadded>{outside}</mpadded>"))
        }
        Outside::Refuse | Outside::Skip => element,
    }
}

fn place(place: &Place) -> String {
    match place {
        Place::One(e) | Place::Zip(e) | Place::Unravel(e) | Place::BroadcastZip(e) => piece(e).text,
        Place::List(list, None) | Place::Broadcast(list) => name(list.name.as_str()),
        Place::List(list, Some(axes)) => sub(&name(list.name.as_str()), &self::axes(axes)),
        Place::BroadcastGroup(places) => places.iter().map(self::place).collect::<Vec<_>>().join("<mo>,</mo>"),
    }
}

fn axes(axes: &Axes) -> String {
    let kind = match &axes.kind {
        AxesKind::Name(n) => name(n.name.as_str()),
        AxesKind::Names(names) => names.iter().map(|n| name(n.name.as_str())).collect::<Vec<_>>().join("<mo>,</mo>"),
        AxesKind::Before(n) => format!("<mo>&lt;</mo>{}", name(n.name.as_str())),
        AxesKind::From(n) => format!("<mo>≥</mo>{}", name(n.name.as_str())),
        AxesKind::Fn(f, names) => call(f.name.as_str(), names.iter().map(|n| n.name.as_str())),
        AxesKind::Not(inner) => self::axes(inner),
    };
    if axes.not { format!("<mo>∉</mo>{kind}") } else { kind }
}

/// A reduction: its sign or word over its indices, then its body.
fn reduction(reduce: &Reduce) -> String {
    use fulgurite_core::lang::Red::{All, Any, Prod, Sum};
    let sign = match reduce.red {
        Sum => "<mo movablelimits=\"false\">∑</mo>".to_owned(),
        Prod => "<mo movablelimits=\"false\">∏</mo>".to_owned(),
        Any => "<mo movablelimits=\"false\">⋁</mo>".to_owned(),
        All => "<mo movablelimits=\"false\">⋀</mo>".to_owned(),
        other => format!("<mi>{}</mi>", other.word()),
    };
    let binds: Vec<String> = reduce.binds.iter().flatten().map(bind).collect();
    let filter = reduce.filter.iter().map(|e| piece(e).text);
    let under = binds.into_iter().chain(filter).collect::<Vec<_>>().join("<mo>,</mo>");
    let body = piece(&reduce.body).above(SUM);
    let otherwise = reduce.otherwise.iter().map(|e| format!("{}{}{}", words(" ("), piece(e).text, words(" if none)")));
    row(&format!("<munder>{sign}<mrow>{under}</mrow></munder>{body}{}", otherwise.collect::<String>()))
}

fn bind(bind: &Bind) -> String {
    let name = name(bind.name.name.as_str());
    match (&bind.range, &bind.axes) {
        (Some((lo, hi)), _) => {
            format!("{}<mo>≤</mo>{name}<mo>&lt;</mo>{}", piece(lo).above(SUM - 1), piece(hi).above(SUM - 1))
        }
        (None, Some(axes)) => sub(&name, &self::axes(axes)),
        (None, None) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::block;
    use fulgurite_core::lang::{Dialect, parse_block};

    /// The formula as plain text: fractions and powers keep their parts in order.
    fn plain(text: &str) -> String {
        let block = block("out", &parse_block(text, Dialect::Index).expect("a body"));
        let mut out = String::new();
        let mut inside = false;
        for c in block.chars() {
            match c {
                '<' => inside = true,
                '>' => inside = false,
                c if !inside => out.push(c),
                _ => {}
            }
        }
        out.replace('\u{a0}', " ")
    }

    #[test]
    fn parentheses_stand_where_the_meaning_needs_them() {
        assert_eq!(plain("a - (b - c)"), "out=a−(b−c)");
        assert_eq!(plain("(a - b) - c"), "out=a−b−c");
        assert_eq!(plain("(a + b) * c"), "out=(a+b)⋅c");
        assert_eq!(plain("-(a + b)"), "out=−(a+b)");
        assert_eq!(plain("pow(a + b, 2)"), "out=(a+b)2");
        assert_eq!(plain("abs(a + b)"), "out=|a+b|");
        assert_eq!(plain("(a < b) != c"), "out=(a&lt;b)≠c");
    }

    #[test]
    fn choices_sums_and_names_are_typeset() {
        assert_eq!(plain("if x < 0 { 0 } else if x > 1 { 1 } else { x }"), "out=0if x&lt;01if x&gt;1xotherwise");
        assert_eq!(plain("sum[k](a[m, k] * b[k, n])"), "out=∑kam,k⋅bk,n");
        assert_eq!(plain("let t = tanh(x); t * t"), "out=t⋅tt=tanh(x)");
        assert_eq!(plain("beta1 * 1e-7 + 0.001"), "out=β1⋅10−7+0.001");
    }
}
