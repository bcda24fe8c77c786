//! The table itself, one entry per builtin, in the order of [`Builtin`].

use super::Builtin::*;
use super::Domain::{All, Bits, Float, Int, Number};
use super::{Builtin, Domain, Partial, Record, ResultRule};

const X: &[&str] = &["x"];
const XY: &[&str] = &["x", "y"];

/// `entry!(Exp, "exp", X, Float, [d…])`: an entry with the usual spelling `m::exp::<I, _>({0})`, `exp({0})`.
macro_rules! entry {
    ($builtin:ident $name:literal (x) $domain:expr) => {
        Record {
            array: concat!("{m}.", $name, "({0})"),
            ..entry(
                Builtin::$builtin,
                $name,
                X,
                $domain,
                concat!("m::", $name, "::<I, _>({0})"),
                concat!($name, "({0})"),
            )
        }
    };
    ($builtin:ident $name:literal (x, y) $domain:expr) => {
        Record {
            array: concat!("{m}.", $name, "({0}, {1})"),
            ..entry(
                Builtin::$builtin,
                $name,
                XY,
                $domain,
                concat!("m::", $name, "::<I, _>({0}, {1})"),
                concat!($name, "({0}, {1})"),
            )
        }
    };
}

const fn entry(
    builtin: Builtin,
    name: &'static str,
    args: &'static [&'static str],
    domain: Domain,
    cpu: &'static str,
    cuda: &'static str,
) -> Record {
    Record {
        builtin,
        name,
        args,
        domain,
        result: ResultRule::Same,
        partials: if args.len() == 1 { &[Partial::None] } else { &[Partial::None, Partial::None] },
        partials_against_number: &[],
        unbounded: false,
        kink: "",
        sample: if args.len() == 1 { &[(-3.0, 3.0)] } else { &[(-3.0, 3.0), (-3.0, 3.0)] },
        cpu,
        cuda,
        array: "",
        jnp: None,
        math: "",
        flops: 1,
    }
}

/// Setters, in the order of their use in entries.
impl Record {
    const fn d(mut self, partials: &'static [Partial]) -> Record {
        self.partials = partials;
        self
    }
    const fn args(mut self, args: &'static [&'static str]) -> Record {
        self.args = args;
        self
    }
    /// Values jump or have slope zero everywhere.
    const fn flat(mut self) -> Record {
        self.partials = if self.args.len() == 1 { &[Partial::Zero] } else { &[Partial::Zero, Partial::Zero] };
        self
    }
    const fn against_number(mut self, partials: &'static [&'static str]) -> Record {
        self.partials_against_number = partials;
        self
    }
    const fn unbounded(mut self) -> Record {
        self.unbounded = true;
        self
    }
    const fn kink(mut self, condition: &'static str) -> Record {
        self.kink = condition;
        self
    }
    const fn sample(mut self, sample: &'static [(f64, f64)]) -> Record {
        self.sample = sample;
        self
    }
    const fn bool(mut self) -> Record {
        self.result = ResultRule::Bool;
        self
    }
    const fn cuda(mut self, text: &'static str) -> Record {
        self.cuda = text;
        self
    }
    const fn array(mut self, text: &'static str) -> Record {
        self.array = text;
        self
    }
    const fn jnp(mut self, text: &'static str) -> Record {
        self.jnp = Some(text);
        self
    }
    const fn math(mut self, text: &'static str) -> Record {
        self.math = text;
        self
    }
    const fn flops(mut self, flops: u32) -> Record {
        self.flops = flops;
        self
    }
}

const fn t(text: &'static str) -> Partial {
    Partial::Text(text)
}

/// Every builtin.
pub static TABLE: &[Record] = &[
    entry!(Neg "neg" (x) Number).array("(-{0})").d(&[t("-1")]).cuda("fg_neg({0})"),
    entry!(Not "not" (x) Domain::Bool).array("{m}.logical_not({0})").cuda("(!{0})"),
    entry!(Add "add" (x, y) All).array("({0} + {1})").d(&[t("1"), t("1")]).cuda("fg_add({0}, {1})"),
    entry!(Sub "sub" (x, y) Number).array("({0} - {1})").d(&[t("1"), t("-1")]).cuda("fg_sub({0}, {1})"),
    entry!(Mul "mul" (x, y) All).array("({0} * {1})").d(&[t("y"), t("x")]).cuda("fg_mul({0}, {1})"),
    entry!(Div "div" (x, y) Float)
        .array("({0} / {1})")
        .d(&[t("1 / y"), t("-out / y")])
        .unbounded()
        .sample(&[(-3.0, 3.0), (0.5, 3.0)])
        .cuda("({0} / {1})")
        .flops(4),
    entry!(And "and" (x, y) Domain::Bool).array("({0} & {1})").cuda("({0} & {1})"),
    entry!(Or "or" (x, y) Domain::Bool).array("({0} | {1})").cuda("({0} | {1})"),
    entry!(Eq "eq" (x, y) All).array("({0} == {1})").flat().kink("x == y").bool().cuda("({0} == {1})"),
    entry!(Ne "ne" (x, y) All).array("({0} != {1})").flat().kink("x == y").bool().cuda("({0} != {1})"),
    entry!(Lt "lt" (x, y) All).array("({0} < {1})").flat().kink("x == y").bool().cuda("({0} < {1})"),
    entry!(Le "le" (x, y) All).array("({0} <= {1})").flat().kink("x == y").bool().cuda("({0} <= {1})"),
    entry!(Gt "gt" (x, y) All).array("({0} > {1})").flat().kink("x == y").bool().cuda("({0} > {1})"),
    entry!(Ge "ge" (x, y) All).array("({0} >= {1})").flat().kink("x == y").bool().cuda("({0} >= {1})"),
    entry!(Abs "abs" (x) Number)
        .math("<mrow><mo>|</mo>{0}<mo>|</mo></mrow>")
        .d(&[t("sign(x)")])
        .kink("x == 0")
        .cuda("fg_abs({0})"),
    entry!(Sign "sign" (x) All)
        .math("<mrow><mi>sgn</mi><mo>(</mo>{0}<mo>)</mo></mrow>")
        .flat()
        .kink("x == 0")
        .cuda("fg_sign({0})")
        .flops(2),
    entry!(Sqrt "sqrt" (x) Float)
        .math("<msqrt>{0}</msqrt>")
        .d(&[t("0.5 / out")])
        .unbounded()
        .sample(&[(0.1, 4.0)])
        .flops(6),
    entry!(Rsqrt "rsqrt" (x) Float)
        .math("<mfrac><mn>1</mn><msqrt>{0}</msqrt></mfrac>")
        .array("{m}.rsqrt({0})")
        .jnp("jax.lax.rsqrt({0})")
        .d(&[t("-0.5 * out * out * out")])
        .unbounded()
        .sample(&[(0.1, 4.0)])
        .cuda("fg_rsqrt({0})")
        .flops(8),
    entry!(Reciprocal "reciprocal" (x) Float)
        .math("<mfrac><mn>1</mn>{0}</mfrac>")
        .array("(1 / {0})")
        .d(&[t("-out * out")])
        .unbounded()
        .sample(&[(0.3, 3.0)])
        .cuda("fg_reciprocal({0})")
        .flops(4),
    entry!(Exp "exp" (x) Float).math("<msup><mi>e</mi>{0}</msup>").d(&[t("out")]).flops(12),
    entry!(Exp2 "exp2" (x) Float).math("<msup><mn>2</mn>{0}</msup>").d(&[t("out * 0.6931471805599453")]).flops(12),
    // The partial is not `out + 1`, which has no digits left for large negative x.
    entry!(Expm1 "expm1" (x) Float)
        .math("<mrow><mo>(</mo><msup><mi>e</mi>{0}</msup><mo>−</mo><mn>1</mn><mo>)</mo></mrow>")
        .d(&[t("exp(x)")])
        .flops(16),
    entry!(Ln "ln" (x) Float)
        .array("{m}.log({0})")
        .d(&[t("1 / x")])
        .unbounded()
        .sample(&[(0.1, 4.0)])
        .cuda("log({0})")
        .flops(14),
    entry!(Log2 "log2" (x) Float)
        .math("<mrow><msub><mi>log</mi><mn>2</mn></msub><mo>(</mo>{0}<mo>)</mo></mrow>")
        .d(&[t("1 / (x * 0.6931471805599453)")])
        .unbounded()
        .sample(&[(0.1, 4.0)])
        .flops(14),
    entry!(Log10 "log10" (x) Float)
        .math("<mrow><msub><mi>log</mi><mn>10</mn></msub><mo>(</mo>{0}<mo>)</mo></mrow>")
        .d(&[t("1 / (x * 2.302585092994046)")])
        .unbounded()
        .sample(&[(0.1, 4.0)])
        .flops(14),
    entry!(Log1p "log1p" (x) Float)
        .math("<mrow><mi>ln</mi><mo>(</mo><mn>1</mn><mo>+</mo>{0}<mo>)</mo></mrow>")
        .d(&[t("1 / (1 + x)")])
        .unbounded()
        .sample(&[(-0.8, 4.0)])
        .flops(18),
    entry!(Sin "sin" (x) Float).d(&[t("cos(x)")]).flops(16),
    entry!(Cos "cos" (x) Float).d(&[t("-sin(x)")]).flops(16),
    entry!(Tan "tan" (x) Float).d(&[t("1 + out * out")]).sample(&[(-1.3, 1.3)]).flops(24),
    // The partial uses (1 - x)(1 + x), because 1 - x² has few digits near ±1.
    entry!(Asin "asin" (x) Float)
        .array("{m}.arcsin({0})")
        .d(&[t("rsqrt((1 - x) * (1 + x))")])
        .unbounded()
        .sample(&[(-0.9, 0.9)])
        .flops(24),
    entry!(Acos "acos" (x) Float)
        .array("{m}.arccos({0})")
        .d(&[t("-rsqrt((1 - x) * (1 + x))")])
        .unbounded()
        .sample(&[(-0.9, 0.9)])
        .flops(24),
    entry!(Atan "atan" (x) Float).array("{m}.arctan({0})").d(&[t("1 / (1 + x * x)")]).flops(24),
    entry!(Sinh "sinh" (x) Float).d(&[t("cosh(x)")]).flops(24),
    entry!(Cosh "cosh" (x) Float).d(&[t("sinh(x)")]).flops(24),
    entry!(Tanh "tanh" (x) Float).d(&[t("1 - out * out")]).flops(20),
    entry!(Asinh "asinh" (x) Float).array("{m}.arcsinh({0})").d(&[t("rsqrt(x * x + 1)")]).flops(30),
    entry!(Acosh "acosh" (x) Float)
        .array("{m}.arccosh({0})")
        .d(&[t("rsqrt(x * x - 1)")])
        .unbounded()
        .sample(&[(1.1, 4.0)])
        .flops(30),
    entry!(Atanh "atanh" (x) Float)
        .array("{m}.arctanh({0})")
        .d(&[t("1 / ((1 - x) * (1 + x))")])
        .unbounded()
        .sample(&[(-0.9, 0.9)])
        .flops(24),
    entry!(Erf "erf" (x) Float).array("{s}.erf({0})").d(&[t("1.1283791670955126 * exp(-x * x)")]).flops(24),
    entry!(Erfc "erfc" (x) Float).array("{s}.erfc({0})").d(&[t("-1.1283791670955126 * exp(-x * x)")]).flops(40),
    entry!(Erfinv "erfinv" (x) Float)
        .math("<mrow><msup><mi>erf</mi><mrow><mo>−</mo><mn>1</mn></mrow></msup><mo>(</mo>{0}<mo>)</mo></mrow>")
        .array("{s}.erfinv({0})")
        .d(&[t("0.886226925452758 * exp(out * out)")])
        .unbounded()
        .sample(&[(-0.9, 0.9)])
        .flops(40),
    entry!(Erfcx "erfcx" (x) Float)
        .array("{s}.erfcx({0})")
        .jnp("")
        .d(&[t("2 * x * out - 1.1283791670955126")])
        .cuda("fg_erfcx({0})")
        .flops(50),
    entry!(Lgamma "lgamma" (x) Float)
        .math("<mrow><mi>ln</mi><mo>|</mo><mi mathvariant=\"normal\">Γ</mi><mo>(</mo>{0}<mo>)</mo><mo>|</mo></mrow>")
        .array("{s}.gammaln({0})")
        .d(&[t("digamma(x)")])
        .unbounded()
        .sample(&[(0.2, 4.0)])
        .flops(60),
    entry!(Digamma "digamma" (x) Float)
        .math("<mrow><mi>ψ</mi><mo>(</mo>{0}<mo>)</mo></mrow>")
        .array("{s}.digamma({0})")
        .d(&[t("polygamma(1, x)")])
        .unbounded()
        .sample(&[(0.2, 4.0)])
        .cuda("fg_digamma({0})")
        .flops(60),
    // The order is a whole number.
    entry!(Polygamma "polygamma" (x, y) Float)
        .array("{s}.polygamma({#0}, {1})")
        .args(&["n", "x"])
        .d(&[Partial::None, t("polygamma(n + 1, x)")])
        .unbounded()
        .sample(&[(2.0, 2.0), (0.4, 4.0)])
        .cuda("fg_polygamma({0}, {1})")
        .flops(200),
    entry!(I0 "i0" (x) Float)
        .math("<mrow><msub><mi>I</mi><mn>0</mn></msub><mo>(</mo>{0}<mo>)</mo></mrow>")
        .array("{s}.i0({0})")
        .d(&[t("i1(x)")])
        .cuda("fg_i0({0})")
        .flops(60),
    entry!(I0e "i0e" (x) Float)
        .array("{s}.i0e({0})")
        .d(&[t("i1e(x) - sign(x) * out")])
        .kink("x == 0")
        .cuda("fg_i0e({0})")
        .flops(60),
    entry!(I1 "i1" (x) Float)
        .math("<mrow><msub><mi>I</mi><mn>1</mn></msub><mo>(</mo>{0}<mo>)</mo></mrow>")
        .array("{s}.i1({0})")
        .d(&[t("if x == 0 { 0.5 } else { i0(x) - out / x }")])
        .cuda("fg_i1({0})")
        .flops(60),
    entry!(I1e "i1e" (x) Float)
        .array("{s}.i1e({0})")
        .d(&[t("if x == 0 { 0.5 } else { i0e(x) - out * (sign(x) + 1 / x) }")])
        .cuda("fg_i1e({0})")
        .flops(60),
    entry!(Sigmoid "sigmoid" (x) Float)
        .math("<mrow><mi>σ</mi><mo>(</mo>{0}<mo>)</mo></mrow>")
        .array("{s}.expit({0})")
        .d(&[t("out * (1 - out)")])
        .cuda("fg_sigmoid({0})")
        .flops(18),
    entry!(Floor "floor" (x) Number)
        .math("<mrow><mo>⌊</mo>{0}<mo>⌋</mo></mrow>")
        .flat()
        .kink("x == out")
        .cuda("fg_floor({0})"),
    entry!(Ceil "ceil" (x) Number)
        .math("<mrow><mo>⌈</mo>{0}<mo>⌉</mo></mrow>")
        .flat()
        .kink("x == out")
        .cuda("fg_ceil({0})"),
    entry!(Round "round" (x) Number).flat().kink("abs(x - out) == 0.5").cuda("fg_round({0})"),
    entry!(Trunc "trunc" (x) Number).flat().kink("x == out").cuda("fg_trunc({0})"),
    entry!(Pow "pow" (x, y) Number)
        .math("<msup>{(0)}{1}</msup>")
        .array("({0} ** {1})")
        // 0 · inf arises only at x = 0 (and pow(nan, 0) is the constant 1). A branch on y alone would lose the mixed
        // derivative.
        .d(&[
            t("if y == 0 && (x == 0 || isnan(x)) { 0 } else { y * pow(x, y - 1) }"),
            t("if x == 0 && y >= 0 { 0 } else { out * ln(x) }"),
        ])
        .unbounded()
        .kink("x == 0")
        .sample(&[(0.2, 3.0), (-2.0, 2.0)])
        .cuda("fg_pow({0}, {1})")
        .flops(40),
    entry!(Atan2 "atan2" (x, y) Float)
        .array("{m}.arctan2({0}, {1})")
        .d(&[
            t("if x == 0 && y == 0 { 0 } else { y / (x * x + y * y) }"),
            t("if x == 0 && y == 0 { -0.0 } else { -x / (x * x + y * y) }"),
        ])
        .unbounded()
        .kink("x == 0 && y <= 0")
        .flops(30),
    entry!(Hypot "hypot" (x, y) Float)
        .math("<msqrt><msup>{(0)}<mn>2</mn></msup><mo>+</mo><msup>{(1)}<mn>2</mn></msup></msqrt>")
        .d(&[t("x / out"), t("y / out")])
        .kink("out == 0")
        .sample(&[(0.2, 3.0), (-3.0, 3.0)])
        .flops(12),
    entry!(Copysign "copysign" (x, y) Float)
        .d(&[t("sign(x) * copysign(1, y)"), Partial::Zero])
        .kink("x == 0 || y == 0"),
    entry!(Nextafter "nextafter" (x, y) Float)
        .d(&[t("if x == y { 0 } else { 1 }"), Partial::Zero])
        .kink("x == y")
        .flops(4),
    entry!(Max "max" (x, y) All)
        .array("{m}.maximum({0}, {1})")
        .d(&[
            t("if x == y { 0.5 } else if x < y { 0 } else { 1 }"),
            t("if x == y { 0.5 } else if x > y { 0 } else { 1 }"),
        ])
        .against_number(&["if x <= y { 0 } else { 1 }", "if x >= y { 0 } else { 1 }"])
        .kink("x == y")
        .cuda("fg_max({0}, {1})")
        .flops(2),
    entry!(Min "min" (x, y) All)
        .array("{m}.minimum({0}, {1})")
        .d(&[
            t("if x == y { 0.5 } else if x > y { 0 } else { 1 }"),
            t("if x == y { 0.5 } else if x < y { 0 } else { 1 }"),
        ])
        .against_number(&["if x >= y { 0 } else { 1 }", "if x <= y { 0 } else { 1 }"])
        .kink("x == y")
        .cuda("fg_min({0}, {1})")
        .flops(2),
    entry!(RemTrunc "rem_trunc" (x, y) Number)
        .array("{m}.fmod({0}, {1})")
        .d(&[t("1"), t("-div_trunc(x, y)")])
        .unbounded()
        .kink("out == 0")
        .sample(&[(-3.0, 3.0), (0.5, 3.0)])
        .cuda("fg_rem_trunc({0}, {1})")
        .flops(20),
    entry!(RemFloor "rem_floor" (x, y) Number)
        .math("<mrow><mo>(</mo>{(0)}<mo>mod</mo>{(1)}<mo>)</mo></mrow>")
        .array("{m}.remainder({0}, {1})")
        .d(&[t("1"), t("-div_floor(x, y)")])
        .unbounded()
        .kink("out == 0")
        .sample(&[(-3.0, 3.0), (0.5, 3.0)])
        .cuda("fg_rem_floor({0}, {1})")
        .flops(22),
    entry!(DivFloor "div_floor" (x, y) Number)
        .math("<mrow><mo>⌊</mo><mfrac>{0}{1}</mfrac><mo>⌋</mo></mrow>")
        .array("{m}.floor_divide({0}, {1})")
        .flat()
        .kink("rem_floor(x, y) == 0")
        .sample(&[(-3.0, 3.0), (0.5, 3.0)])
        .cuda("fg_div_floor({0}, {1})")
        .flops(24),
    entry!(DivTrunc "div_trunc" (x, y) Number)
        .array("{m}.div({0}, {1}, rounding_mode='trunc')")
        .jnp("")
        .flat()
        .kink("rem_trunc(x, y) == 0")
        .sample(&[(-3.0, 3.0), (0.5, 3.0)])
        .cuda("fg_div_trunc({0}, {1})")
        .flops(5),
    entry!(Isnan "isnan" (x) All).flat().bool().cuda("fg_isnan({0})"),
    entry!(Isinf "isinf" (x) All).flat().bool().cuda("fg_isinf({0})"),
    entry!(Isfinite "isfinite" (x) All).flat().bool().cuda("fg_isfinite({0})"),
    Record {
        partials: &[Partial::None, Partial::Branch, Partial::Branch],
        sample: &[(0.0, 0.0), (-3.0, 3.0), (-3.0, 3.0)],
        array: "{m}.where({0}, {1}, {2})",
        ..entry(Select, "select", &["c", "x", "y"], All, "m::select::<I, _>({0}, {1}, {2})", "({0} ? {1} : {2})")
    },
    Record {
        partials: &[Partial::Cast],
        result: ResultRule::Target,
        ..entry(Cast, "cast", X, All, "m::cast::<I, _, {t}>({0})", "fg_cast<{t}>({0})")
    },
    entry!(Bitand "bitand" (x, y) Bits)
        .math("<mrow><mo>(</mo>{(0)}<mo>&amp;</mo>{(1)}<mo>)</mo></mrow>")
        .array("({0} & {1})")
        .cuda("({0} & {1})"),
    entry!(Bitor "bitor" (x, y) Bits)
        .math("<mrow><mo>(</mo>{(0)}<mo>|</mo>{(1)}<mo>)</mo></mrow>")
        .array("({0} | {1})")
        .cuda("({0} | {1})"),
    entry!(Bitxor "bitxor" (x, y) Bits).array("({0} ^ {1})").cuda("({0} ^ {1})"),
    entry!(Bitnot "bitnot" (x) Bits).array("(~{0})").cuda("fg_bitnot({0})"),
    entry!(Shl "shl" (x, y) Int)
        .math("<mrow><mo>(</mo>{(0)}<mo>⋅</mo><msup><mn>2</mn>{1}</msup><mo>)</mo></mrow>")
        .array("{m}.bitwise_left_shift({0}, {1})")
        .cuda("fg_shl({0}, {1})")
        .flops(3),
    entry!(Shr "shr" (x, y) Int).array("{m}.bitwise_right_shift({0}, {1})").cuda("fg_shr({0}, {1})").flops(3),
    entry!(Gcd "gcd" (x, y) Int).cuda("fg_gcd({0}, {1})").flops(100),
    entry!(Lcm "lcm" (x, y) Int).cuda("fg_lcm({0}, {1})").flops(110),
    Record {
        partials: &[Partial::None, Partial::None, Partial::None],
        sample: &[],
        result: ResultRule::Fraction,
        flops: 40,
        ..entry(
            Uniform,
            "uniform",
            &["key", "position", "draw"],
            // The domain is that of the value: a key and two integers have no dtype in common.
            Float,
            "m::uniform({0}, {1}, {2})",
            "fg_uniform({0}, {1}, {2})",
        )
    },
];
