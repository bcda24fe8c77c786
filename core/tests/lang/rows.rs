//! The rule texts of `data/rows-tried.yaml`, read line by line: enough for that file, no YAML reader.

/// Which parser a text is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Sig,
    Index,
    Tensor,
}

/// One rule text.
pub struct Rule {
    pub op: String,
    pub key: String,
    pub kind: Kind,
    pub text: String,
}

/// Every rule of the file.
pub fn rules() -> Vec<Rule> {
    let lines: Vec<&str> = include_str!("../data/rows-tried.yaml").lines().collect();
    let mut rules = Vec::new();
    let mut op = "";
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = line.strip_prefix("- op: ") {
            op = name;
        }
        let Some((key, value)) = line.strip_prefix("  ").and_then(|l| l.split_once(':')) else { continue };
        if key.starts_with(' ') {
            continue;
        }
        let value = value.trim();
        let below = || lines[at + 1..].iter().take_while(|l| l.starts_with("    ") || l.is_empty()).map(|l| l.trim());
        let texts: Vec<(Kind, String)> = match key {
            "sig" => vec![(Kind::Sig, whole(value, below()))],
            "expr" | "view" => vec![(Kind::Index, whole(value, below()))],
            "decomp" => vec![(Kind::Tensor, whole(value, below()))],
            "grad" => quoted(value, false).into_iter().map(|t| (Kind::Tensor, t)).collect(),
            "require" | "at" if value.is_empty() => {
                below().flat_map(|l| quoted(l, true)).map(|t| (Kind::Index, t)).collect()
            }
            "require" | "at" => quoted(value, true).into_iter().map(|t| (Kind::Index, t)).collect(),
            _ => continue,
        };
        rules.extend(texts.into_iter().map(|(kind, text)| Rule { op: op.into(), key: key.into(), kind, text }));
    }
    rules
}

/// A plain, quoted or block scalar.
fn whole<'a>(value: &str, below: impl Iterator<Item = &'a str>) -> String {
    match value {
        "|" => below.collect::<Vec<_>>().join("\n"),
        _ => value.trim_matches('\'').to_owned(),
    }
}

/// The quoted keys (`'…':`) of a flow or block map, or its other quoted texts.
fn quoted(text: &str, keys: bool) -> Vec<String> {
    let parts: Vec<&str> = text.split('\'').collect();
    (1..parts.len())
        .step_by(2)
        .filter(|i| parts.get(i + 1).is_some_and(|after| after.starts_with(':')) == keys)
        .map(|i| parts[i].to_owned())
        .collect()
}
