//! Tests the protocol with a workload that counts its steps.

use super::*;

/// Its result is the number of steps since it was made.
struct Count(f32);

impl Work for Count {
    fn step(&mut self) -> Result<()> {
        self.0 += 1.0;
        Ok(())
    }
    fn results(&mut self) -> Result<Vec<Vec<f32>>> {
        Ok(vec![vec![self.0]])
    }
    fn reset(&mut self) -> Result<()> {
        self.0 = 0.0;
        Ok(())
    }
    fn checked(&self) -> Checked {
        Checked::Losses(3)
    }
}

fn server() -> Server {
    let make: Maker = |name| (name == "W0.count").then(|| Ok(Box::new(Count(0.0)) as Box<dyn Work>));
    Server::new(&["W0.count"], make, 2)
}

fn session(commands: &str) -> Vec<Value> {
    let mut out = Vec::new();
    server().serve(commands.as_bytes(), &mut out).expect("writable");
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
}

#[test]
fn a_session() {
    let answers = session("hello\n\nlist\nload W0.count\ntime 4\ncheck\nmem\nquit\nhello\n");
    assert_eq!(answers.len(), 7);
    assert_eq!(answers[0]["impl"], "fulgurite");
    assert_eq!(answers[1], json!({"workloads": ["W0.count"]}));
    assert_eq!((&answers[2]["ok"], &answers[2]["units"]), (&json!(true), &json!(1)));
    assert_eq!(answers[3]["wall"].as_array().map(Vec::len), Some(4));
    assert_eq!(answers[3]["cpu"].as_array().map(Vec::len), Some(4));
    let pair = numbers::check(&[1.0, 2.0, 3.0]);
    let got: Vec<f64> = (0..2).filter_map(|i| answers[4]["check"][0][i].as_f64()).collect();
    assert!(got.iter().zip(pair).all(|(g, p)| (g - p).abs() < 1e-12), "{got:?} {pair:?}");
    assert!(answers[5]["base_kb"].is_u64() && answers[5]["run_peak_kb"].is_u64());
    assert_eq!(answers[6], json!({"ok": true}));
}

#[test]
fn wrong_commands_are_answered() {
    let answers = session("load W9.none\ntime 1\ncheck\ntime 0\ntime x\nload\nfoo\n");
    assert_eq!(answers.len(), 7);
    assert_eq!(answers[0], json!({"ok": false, "error": "unsupported"}));
    assert!(answers.iter().all(|a| a["ok"] == json!(false) && a["error"].is_string()));
}

#[test]
fn a_record_has_the_drivers_fields() {
    let record = server().record("W0.count", 5).expect("runs");
    assert_eq!((&record["workload"], &record["variant"], &record["n"]), (&json!("W0"), &json!("count"), &json!(5)));
    assert_eq!(server().record("W0.x", 5).expect_err("unknown").claim(), "unsupported");
}
