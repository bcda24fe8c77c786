//! Turns faults of the evaluators into diagnostics at a place in a rule's text.

use super::machine::Fault;
use crate::diag::Diag;
use crate::schema::{Body, RowSource};
use crate::yaml::Text;

/// The text of a row's meaning, and its key. `None` for a primitive of the runtime.
pub fn body(source: &RowSource) -> Option<(&'static str, &Text)> {
    match &source.body {
        Body::Expr(rule) => Some(("expr", &rule.text)),
        Body::View(rule) => Some(("view", &rule.text)),
        Body::Decomp(rule) => Some(("decomp", &rule.text)),
        Body::Host(_) => None,
    }
}

/// A rule text and its name in messages.
pub struct Rule<'a> {
    /// The row.
    pub source: &'a RowSource,
    /// The name without the row: "`decomp`", "`grad` in `x`".
    pub what: String,
    /// The text.
    pub text: &'a Text,
}

impl<'a> Rule<'a> {
    /// The text of a row's meaning; `None` for a primitive of the runtime.
    pub fn body(source: &'a RowSource) -> Option<Rule<'a>> {
        let (key, text) = body(source)?;
        Some(Rule { source, what: format!("`{key}`"), text })
    }

    /// The name with the row: "`decomp` of `linear`".
    pub fn name(&self) -> String {
        format!("{} of `{}`", self.what, self.source.op.as_str())
    }

    /// Help where a called row refuses a call that this row accepts. A gradient rule can't change which calls are
    /// accepted.
    fn accepted(&self, dtypes: bool) -> &'static str {
        match (self.what.starts_with("`grad`") || self.what.starts_with("`jvp`"), dtypes) {
            (true, true) => "a rule serves every call that the row accepts: cast in it, or narrow `dtypes`",
            (true, false) => "a rule serves every call that the row accepts: mend this call of it",
            (false, true) => "narrow `dtypes`, or cast in the body",
            (false, false) => "mend the call in the body, or refuse such calls in `require`",
        }
    }

    /// The diagnostic of `fault` in this rule, for the call `case`.
    pub fn diag(&self, fault: &Fault, case: &str) -> Diag {
        let refusal = &fault.refusal;
        let place = fault.at.or(refusal.at).map_or(self.text.place, |span| self.text.at(span));
        let said = plain(&refusal.message);
        let (code, claim) = match refusal.code {
            "E701" => ("E101", "has sizes that do not fit"),
            "E702" => ("E013", "has a call that does not fit"),
            "E703" => ("E303", "refuses dtypes that the row accepts"),
            "E704" => ("E303", "refuses a call that the row accepts"),
            "E705" => ("E105", "needs a condition that the row does not state"),
            "E706" => ("E106", "has no meaning for a call that the row accepts"),
            "E202" => ("E202", "computes what is not defined"),
            "E205" => ("E205", "computes with a number that wraps"),
            "E206" => ("E206", "writes another dtype than its argument has"),
            "E207" => ("E207", "rounds on its way"),
            "E007" => ("E007", "needs a row that is not there"),
            code => (code, "does not hold"),
        };
        let diag = Diag::error(code, place, format!("{} {claim}", self.name())).here(said);
        let diag = diag.note(format!("for {case}"));
        match (code, &refusal.help) {
            ("E105", Some(help)) => {
                let condition = help.strip_prefix("required: ").unwrap_or(help);
                let says = if fault.called.is_some() { "the called row says" } else { "for example" };
                diag.help(format!("state it in `require` of `{}`; {says} `{condition}`", self.source.op.as_str()))
            }
            ("E013", None) if refusal.message.ends_with("is missing") => diag.help(
                "it is a parameter of the row that is called; what may be absent, an argument or the cotangent of a result, \
                 is asked for first: `if some(…) { … } else { … }`",
            ),
            ("E013", None) => match fault.called {
                Some(called) => diag.help(format!("its signature: cargo ops explain {called}")),
                None => diag,
            },
            ("E205", _) => diag.help("leave the dtype out in `dtypes`, or cast first: `x as i64`"),
            ("E207", _) => diag.help("delete the cast, or cast to `T`; what needs more digits than that, to `acc(T)`"),
            ("E303", help) => {
                help.iter().fold(diag, |diag, help| diag.note(help.clone())).help(self.accepted(refusal.code == "E703"))
            }
            ("E106" | "E206" | "E007", Some(help)) => diag.help(help.clone()),
            (_, Some(help)) => diag.note(help.clone()),
            (_, None) => diag,
        }
    }
}

/// A refusal's message without the row at its start, which the diagnostic names itself.
fn plain(message: &str) -> String {
    let rest = message.strip_prefix("the body of ").or_else(|| message.strip_prefix("a rule of ")).map(|rest| {
        let cut = rest.find(": ").map_or(0, |at| at + 2);
        &rest[cut..]
    });
    rest.unwrap_or(message).to_owned()
}
