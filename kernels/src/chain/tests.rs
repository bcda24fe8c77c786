//! Random chains against the builtins one by one, in memory that ends where the last element does.

use super::*;
use crate::math::{self as m, Baseline};
use crate::tests::GuardedMemory;

/// A linear congruential generator: equal chains in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn number(&mut self) -> f32 {
        const SPECIAL: [f32; 10] =
            [0.0, -0.0, 1.0, -2.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-40, f32::MAX, 8_388_609.0];
        match self.below(4) {
            0 => SPECIAL[self.below(SPECIAL.len())],
            _ => (self.below(2001) as f32 - 1000.0) / 64.0,
        }
    }

    fn chain(&mut self) -> TileChain {
        use Builtin::*;
        const NUMBERS: [Builtin; 16] =
            [Add, Sub, Mul, Div, Max, Min, Neg, Abs, Sqrt, Rsqrt, Reciprocal, Floor, Ceil, Round, Trunc, Select];
        const CONDITIONS: [Builtin; 10] = [Eq, Ne, Lt, Le, Gt, Ge, Isnan, And, Or, Not];
        let inputs: Vec<InputForm> = (0..1 + self.below(8))
            .map(|k| {
                if k == 0 {
                    InputForm::Tile
                } else {
                    [InputForm::Tile, InputForm::Tile, InputForm::One, InputForm::Mask][self.below(4)]
                }
            })
            .collect();
        let operands = |condition: bool, forms: &[InputForm]| -> Vec<ChainOperand> {
            let of = |k: &usize| (forms[*k] == InputForm::Mask) == condition;
            (0..forms.len()).filter(of).map(ChainOperand::Input).collect()
        };
        let (mut numbers, mut conditions) = (operands(false, &inputs), operands(true, &inputs));
        let mut operations = Vec::new();
        let length = 1 + self.below(24);
        while operations.len() < length {
            let last = operations.len() + 1 == length;
            let builtin = match self.below(4) {
                0 if !last => CONDITIONS[self.below(CONDITIONS.len())],
                _ => NUMBERS[self.below(NUMBERS.len())],
            };
            let of_conditions = matches!(builtin, And | Or | Not);
            if conditions.is_empty() && (of_conditions || builtin == Select) {
                continue;
            }
            let arity = match builtin {
                Select => 3,
                Neg | Abs | Sqrt | Rsqrt | Reciprocal | Floor | Ceil | Round | Trunc | Isnan | Not => 1,
                _ => 2,
            };
            let args = (0..arity)
                .map(|k| {
                    let from = if of_conditions || builtin == Select && k == 0 { &conditions } else { &numbers };
                    // the latest results more often, or registers would never run short
                    let recent = from.len().saturating_sub(3);
                    from[if self.below(3) == 0 {
                        self.below(from.len())
                    } else {
                        recent + self.below(from.len() - recent)
                    }]
                })
                .collect();
            let result = ChainOperand::Result(operations.len());
            if is_condition(builtin) {
                conditions.push(result)
            } else {
                numbers.push(result)
            }
            operations.push(Operation { builtin, args });
        }
        TileChain { inputs, operations }
    }
}

/// One operation on one element; conditions are 1 and 0.
fn call(builtin: Builtin, args: &[f32]) -> f32 {
    use Builtin::*;
    type I = Baseline;
    let truth = |b: bool| if b { 1.0 } else { 0.0 };
    match (builtin, args) {
        (Add, &[x, y]) => x + y,
        (Sub, &[x, y]) => x - y,
        (Mul, &[x, y]) => x * y,
        (Div, &[x, y]) => x / y,
        (Max, &[x, y]) => m::max::<I, f32>(x, y),
        (Min, &[x, y]) => m::min::<I, f32>(x, y),
        (Neg, &[x]) => -x,
        (Abs, &[x]) => x.abs(),
        (Sqrt, &[x]) => x.sqrt(),
        (Rsqrt, &[x]) => 1.0 / x.sqrt(),
        (Reciprocal, &[x]) => 1.0 / x,
        (Floor, &[x]) => x.floor(),
        (Ceil, &[x]) => x.ceil(),
        (Round, &[x]) => x.round_ties_even(),
        (Trunc, &[x]) => x.trunc(),
        (Select, &[c, x, y]) => {
            if c != 0.0 {
                x
            } else {
                y
            }
        }
        (Eq, &[x, y]) => truth(x == y),
        (Ne, &[x, y]) => truth(x != y),
        (Lt, &[x, y]) => truth(x < y),
        (Le, &[x, y]) => truth(x <= y),
        (Gt, &[x, y]) => truth(x > y),
        (Ge, &[x, y]) => truth(x >= y),
        (Isnan, &[x]) => truth(x.is_nan()),
        (And, &[x, y]) => truth(x != 0.0 && y != 0.0),
        (Or, &[x, y]) => truth(x != 0.0 || y != 0.0),
        (Not, &[x]) => truth(x == 0.0),
        other => panic!("{other:?} is no operation of the test"),
    }
}

/// The memory of one input.
struct Data {
    numbers: Vec<f32>,
    memory: GuardedMemory,
}

impl Data {
    fn of(random: &mut Random, form: InputForm, n: usize) -> Data {
        if form == InputForm::Mask {
            // any byte but 0 is true
            let bytes: Vec<u8> = (0..n).map(|_| [0, 0, 1, 2, 255][random.below(5)]).collect();
            return Data {
                numbers: bytes.iter().map(|byte| f32::from(*byte)).collect(),
                memory: GuardedMemory::of(&bytes),
            };
        }
        let numbers: Vec<f32> = (0..if form == InputForm::One { 1 } else { n }).map(|_| random.number()).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
        Data { numbers, memory: GuardedMemory::of(&bytes) }
    }

    fn at(&self, form: InputForm, i: usize) -> f32 {
        self.numbers[if form == InputForm::One { 0 } else { i }]
    }
}

fn expected(chain: &TileChain, data: &[Data], i: usize) -> f32 {
    let mut results: Vec<f32> = Vec::new();
    for operation in &chain.operations {
        let args: Vec<f32> = (operation.args.iter())
            .map(|arg| match *arg {
                ChainOperand::Input(k) => data[k].at(chain.inputs[k], i),
                ChainOperand::Result(k) => results[k],
            })
            .collect();
        results.push(call(operation.builtin, &args));
    }
    results.last().copied().unwrap_or_default()
}

#[test]
fn random_chains_have_the_bits_of_their_builtins() {
    let mut random = Random(7);
    for isa in Level::ALL.into_iter().filter(|isa| *isa != Level::Baseline && *isa <= Level::current()) {
        let mut compiled = 0;
        for _ in 0..2000 {
            let chain = random.chain();
            // with masks, any number of elements, and otherwise whole chunks
            let n = if isa == Level::Avx512 { 1 + random.below(100) } else { CHUNK * (1 + random.below(3)) };
            let data: Vec<Data> = chain.inputs.iter().map(|form| Data::of(&mut random, *form, n)).collect();
            let wanted: Vec<f32> = (0..n).map(|i| expected(&chain, &data, i)).collect();
            let Ok(code) = chain.compile(isa, random.below(2) == 0) else { continue };
            compiled += 1;
            let ins: Vec<*const u8> = data.iter().map(|data| data.memory.start().cast_const()).collect();
            // in a new place, at any alignment, and in the place of the first input
            let (fresh, first) = (GuardedMemory::of(&vec![0; 4 * n + random.below(17) * 4]), &data[0].memory);
            // SAFETY: the inputs have `n` elements or one, and so has the output, which is the first input or overlaps
            // none; the processor has this instruction set.
            unsafe {
                code.run(n, ins.as_ptr(), &fresh.start());
                code.run(n, ins.as_ptr(), &first.start());
            }
            let floats = |memory: &GuardedMemory| -> Vec<f32> {
                memory.read().as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
            };
            let (fresh, first) = (floats(&fresh), floats(first));
            assert!(fresh[n..].iter().all(|x| x.to_bits() == 0), "{isa:?}: something was written behind the result");
            for i in 0..n {
                for got in [fresh[i], first[i]] {
                    let same = got.to_bits() == wanted[i].to_bits() || got.is_nan() && wanted[i].is_nan();
                    assert!(same, "{isa:?}, element {i}: {got} instead of {}\n{chain:#?}", wanted[i]);
                }
            }
        }
        assert!(compiled > 1000, "{compiled} of 2000 chains were compiled for {isa:?}");
    }
}

#[test]
fn a_chain_without_registers_is_refused() {
    let isa = Level::current();
    let inputs = [InputForm::Tile; 12];
    let sum = |k: usize| Operation {
        builtin: Builtin::Add,
        args: vec![if k == 1 { ChainOperand::Input(0) } else { ChainOperand::Result(k - 2) }, ChainOperand::Input(k)],
    };
    let chain = |n: usize| TileChain { inputs: inputs[..n].to_vec(), operations: (1..n).map(sum).collect() };
    assert_eq!(chain(11).compile(isa, false).is_ok(), isa != Level::Baseline);
    assert!(chain(12).compile(isa, false).is_err());
}

#[test]
fn equal_chains_share_their_code() {
    let chain = TileChain {
        inputs: vec![InputForm::Tile, InputForm::One],
        operations: vec![Operation {
            builtin: Builtin::Sub,
            args: vec![ChainOperand::Input(0), ChainOperand::Input(1)],
        }],
    };
    if let (Ok(a), Ok(b)) = (chain.compile(Level::current(), true), chain.compile(Level::current(), false)) {
        assert!(Arc::ptr_eq(&a.cached, &b.cached) && a.streams() && !b.streams());
    }
}

/// Code that could be written would be a way for an attacker to run code of his own.
#[cfg(target_os = "linux")]
#[test]
fn code_is_not_writable() {
    let chain = TileChain {
        inputs: vec![InputForm::Tile],
        operations: vec![Operation { builtin: Builtin::Neg, args: vec![ChainOperand::Input(0)] }],
    };
    let Ok(code) = chain.compile(Level::current(), true) else { return };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    for function in [Some(&code.cached), code.streaming.as_ref()].into_iter().flatten() {
        let at = function.start().addr();
        let holds = |line: &&str| {
            let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            (number(from)..number(to)).contains(&at)
        };
        let line = maps.lines().find(holds).expect("the code is mapped");
        assert_eq!(line.split(' ').nth(1), Some("r-xp"), "{line}");
    }
}

/// Results that were written past the caches are not shared before [`fence`].
#[test]
fn code_that_streams_asks_for_a_fence() {
    let chain = TileChain {
        inputs: vec![InputForm::Tile],
        operations: vec![Operation { builtin: Builtin::Neg, args: vec![ChainOperand::Input(0)] }],
    };
    let Ok(code) = chain.compile(Level::current(), true) else { return };
    #[repr(align(64))]
    struct Aligned([f32; CHUNK]);
    let (from, mut to) = (Aligned([1.0; CHUNK]), Aligned([0.0; CHUNK]));
    // SAFETY: both have a chunk of elements.
    unsafe { code.run(CHUNK, &from.0.as_ptr().cast(), &to.0.as_mut_ptr().cast()) };
    assert_eq!(is_fenced(), !cfg!(debug_assertions));
    fence();
    assert!(is_fenced());
    assert_eq!(to.0, [-1.0; CHUNK]);
}
