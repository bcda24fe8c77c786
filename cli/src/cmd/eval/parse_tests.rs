//! Tests of the parser: expressions printed back in canonical form, and refusals.

use super::*;

/// The expression with every call written out.
fn show(e: &Expr) -> String {
    let list = |items: &[Expr]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    match &e.kind {
        Kind::Number(Scalar::Float(v)) => format!("{v}f"),
        Kind::Number(v) => v.to_string(),
        Kind::Bool(b) => b.to_string(),
        Kind::Text(t) => format!("{t:?}"),
        Kind::Name(n) => n.clone(),
        Kind::List(items) => format!("[{}]", list(items)),
        Kind::As(e, d) => format!("({} as {d})", show(e)),
        Kind::Call(row, args) => {
            let args = args.iter().map(|a| match &a.name {
                Some(n) => format!("{n}={}", show(&a.value)),
                None => show(&a.value),
            });
            format!("{row}({})", args.collect::<Vec<_>>().join(", "))
        }
    }
}

#[test]
fn reads() {
    for (text, read) in [
        ("gelu([[-1, 0, 1]])", "gelu([[-1, 0, 1]])"),
        ("1 + 2 * -3", "add(1, mul(2, -3))"),
        ("1 - 2 - 3", "sub(sub(1, 2), 3)"),
        ("-(x())", "neg(x())"),
        ("--2", "2"),
        ("[1, 2,] as i64", "([1, 2] as i64)"),
        ("1 as f32 / 2 - [3].exp() as f64 as i64", "sub(div((1 as f32), 2), ((exp([3]) as f64) as i64))"),
        ("-9223372036854775808 as i64", "(-9223372036854775808 as i64)"),
        ("-[1] as i32 * 2", "mul(neg(([1] as i32)), 2)"),
        ("sum([1], dims = [0], keepdim = true)", "sum([1], dims=[0], keepdim=true)"),
        ("[1].exp().sum(0)", "sum(exp([1]), 0)"),
        ("gelu(1.5, approximate = tanh)", "gelu(1.5f, approximate=tanh)"),
        ("einsum(\"ij,jk->ik\", [])", "einsum(\"ij,jk->ik\", [])"),
        ("1e-3 + 1_000 + inf", "add(add(0.001f, 1000), inff)"),
        ("[9007199254740993] as i64", "([9007199254740993] as i64)"),
        ("-9_223_372_036_854_775_807", "-9223372036854775807"),
        ("9223372036854775808", "9223372036854776000f"),
        ("(1 + 2) * 3 % 4", "remainder(mul(add(1, 2), 3), 4)"),
    ] {
        assert_eq!(parse(text).map(|e| show(&e)).map_err(|e| e.to_string()), Ok(read.to_owned()), "{text}");
    }
}

#[test]
fn refuses_at_the_place() {
    for (text, claim, column) in [
        ("", "the end stands where a number, a list or a call should", 0),
        ("gelu(", "the end stands where a number, a list or a call should", 5),
        ("[1 2]", "`2` stands where `,` or `]` should", 3),
        ("1 +", "the end stands where a number, a list or a call should", 3),
        ("1 $ 2", "`$` means nothing here", 2),
        ("é", "`é` means nothing here", 0),
        ("1.2.3", "`1.2.3` is not a number", 0),
        ("\"abc", "a quote is not closed", 0),
        ("x() y", "`y` stands where an operator or the end should", 4),
        ("[a = 1]", "a list has no named entries", 5),
        ("1 as 2", "`2` stands where a dtype should", 5),
    ] {
        let fault = parse(text).expect_err(text);
        assert_eq!((fault.code, fault.claim.as_str()), ("E917", claim), "{text}");
        let place = fault.excerpt.map(|excerpt| excerpt.place);
        assert_eq!(place, Some((1, column + 1)), "{text}");
    }
}

#[test]
fn depth_is_limited() {
    assert!(parse(&"(".repeat(100_000)).is_err());
    assert!(parse(&format!("{}1{}", "[".repeat(60), "]".repeat(60))).is_ok());
    assert!(parse(&"-".repeat(100_000)).is_err());
    assert!(parse(&"1+".repeat(100_000)).is_err());
    assert!(parse(&format!("1{}", ".f()".repeat(100_000))).is_err());
    assert!(parse(&format!("1{}", " as f32".repeat(100_000))).is_err());
    assert!(parse(&format!("[{}]", "1,".repeat(100_000))).is_ok());
}

/// The least integer is one, although its digits alone are none.
#[test]
fn the_least_integer_is_an_integer() {
    for (text, value) in [
        ("-9223372036854775808", Scalar::Int(i64::MIN)),
        ("-9_223_372_036_854_775_808", Scalar::Int(i64::MIN)),
        ("-9223372036854775807", Scalar::Int(-i64::MAX)),
        ("-9223372036854775809", Scalar::Float(-9_223_372_036_854_775_809.0)),
        ("9223372036854775808", Scalar::Float(9_223_372_036_854_775_808.0)),
        ("-9223372036854775808.0", Scalar::Float(-9_223_372_036_854_775_808.0)),
        ("-(-9223372036854775808)", Scalar::Float(9_223_372_036_854_775_808.0)),
    ] {
        assert!(matches!(parse(text).expect("a number").kind, Kind::Number(x) if x == value), "{text}");
    }
}
