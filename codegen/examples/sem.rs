use fulgurite_core::eval::{nest::{self, Array}, tensor::{self, Machine}};
use fulgurite_core::lang::{Dialect, parse_block};
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::sig::{self, ArgTy, Item, Refusal};
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
struct M { table: fulgurite_codegen::pipeline::Table }
fn ty(a: &Array<f64>) -> TensorTy { TensorTy::new(a.dtype, &a.shape) }
impl Machine for M {
    type V = Array<f64>;
    type Error = Refusal;
    fn call(&mut self, op: Name, pos: Vec<Value<Array<f64>>>, named: Vec<(Name, Value<Array<f64>>)>) -> Result<Vec<Value<Array<f64>>>, Refusal> {
        let row = self.table.row(op).ok_or_else(|| Refusal::new("E007", format!("no {op}")))?;
        let args = sig::arrange(&row, pos, named)?;
        let solved = sig::solve(&row, &args, &|v: &Array<f64>| ArgTy::Tensor(ty(v)))?;
        match &row.meaning {
            Meaning::Decomp(b) => tensor::run(self, &row, b, &solved, &args, &[]),
            Meaning::Expr(b) | Meaning::View(b) => {
                let n = lower_with(&row, b, &solved, &self.table)?;
                let mut ts = vec![];
                for a in &args { a.for_each(&mut |t| ts.push(t.clone())); }
                let outs = nest::run(&n, &ts, &[]).map_err(|e| Refusal::new("E7", format!("{op}: {e:?}")))?;
                let mut it = outs.into_iter().map(Value::Tensor);
                let mut res = vec![];
                for o in solved.outs.iter().chain(&solved.aux) {
                    match o { sig::OutTy::List(l) => res.push(Value::List(it.by_ref().take(l.len()).collect())), _ => res.push(it.next().unwrap()) }
                }
                Ok(res)
            }
            Meaning::Host(_) => Err(Refusal::new("E7", "host")),
        }
    }
    fn ty(&self, v: &Array<f64>) -> ArgTy { ArgTy::Tensor(ty(v)) }
    fn write(&mut self, _: Name, _: Value<Array<f64>>) -> Result<(), Refusal> { Ok(()) }
}
fn main() {
    let text = std::fs::read_to_string("ops.yaml").unwrap();
    let c = match fulgurite_codegen::pipeline::compile(&text, "ops.yaml", &Default::default()) { Ok(c) => c, Err(e) => { for d in e.diagnostics.sorted() { eprintln!("{} {}", d.code, d.message) } std::process::exit(1) } };
    let mut m = M { table: c.table(&Default::default()) };
    let dummy = Row { op: Name::new("test"), sig: fulgurite_core::lang::parse_sig("(x: T) -> T").unwrap(), promote: None, dtypes: None, meaning: Meaning::Host(Name::new("x")), require: vec![], vjp: vec![], jvp: vec![], ties: fulgurite_core::row::Ties::Even, at: vec![], no_grad: None, deviates: None };
    let solved = sig::solve(&dummy, &[Value::<usize>::Tensor(0)], &|_| ArgTy::Tensor(TensorTy::new(DType::F64, &[1i64]))).unwrap();
    let input = std::io::read_to_string(std::io::stdin()).unwrap();
    let mut vars: Vec<(Name, Value<Array<f64>>)> = vec![];
    for line in input.lines() {
        if let Some(rest) = line.strip_prefix("let ") {
            let mut w = rest.split_whitespace();
            let name = w.next().unwrap(); let dt = DType::from_name(w.next().unwrap()).unwrap();
            let shape: Vec<usize> = w.next().unwrap().split(',').filter(|s| !s.is_empty() && *s != "-").map(|s| s.parse().unwrap()).collect();
            let data: Vec<Scalar> = w.map(|s| if dt.is_float() { Scalar::Float(s.parse().unwrap()) } else if dt == DType::Bool { Scalar::Bool(s == "1") } else { Scalar::Int(s.parse().unwrap()) }).collect();
            vars.insert(0, (Name::new(name), Value::Tensor(Array::from_scalars(dt, &shape, data))));
            continue;
        }
        let r = parse_block(line, Dialect::Tensor).map_err(|e| e.to_string()).and_then(|b| tensor::run(&mut m, &dummy, &b, &solved, &[Value::Tensor(Array::from_scalars(DType::F64, &[1], [Scalar::Float(0.)]))], &vars).map_err(|e| e.to_string()));
        match r {
            Err(e) => println!("ERR {line}: {e}"),
            Ok(vs) => {
                fn show(v: &Value<Array<f64>>) { match v { Value::Tensor(a) => println!("OUT {} {:?} {}", a.dtype, a.shape, a.scalars().iter().map(|s| s.to_string()).collect::<Vec<_>>().join(" ")), Value::List(l) => l.iter().for_each(show), o => println!("OUT? {o:?}") } }
                println!("OK {line}"); vs.iter().for_each(show);
            }
        }
    }
    let _ = Item::Absent;
}
