//! Names of types and variants in Rust.

/// `cross_entropy` as a type: `CrossEntropy`.
pub fn camel(name: &str) -> String {
    name.split(['_', '.'])
        .map(|part| {
            let mut chars = part.chars();
            chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
        })
        .collect()
}
