//! The pages of docs/errors that show an expression: what they print is what the command prints.

use super::command::{Folder, fulgurite};
use std::path::Path;

/// What stands between the fence and its end, and what follows.
fn block<'p>(page: &'p str, fence: &str) -> Option<(&'p str, &'p str)> {
    page.split_once(fence)?.1.split_once("```")
}

#[test]
fn pages_show_what_eval_says() {
    let f = Folder::new("pages");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors");
    let mut shown = 0;
    for file in std::fs::read_dir(folder).expect("the pages").flatten().map(|entry| entry.path()) {
        let page = std::fs::read_to_string(&file).expect("a page");
        let Some((command, rest)) = block(&page, "```sh\nfulgurite eval '") else { continue };
        let (says, _) = block(rest, "```text\n").expect("what it says");
        let ran = fulgurite(&f.0, &["eval", command.trim_end().trim_end_matches('\'')]);
        assert!(ran.err.starts_with(says), "{}:\n{}", file.display(), ran.err);
        let code = file.file_stem().and_then(|stem| stem.to_str()).expect("a code");
        assert!(says.starts_with(&format!("error[{code}]")), "{}", file.display());
        shown += 1;
    }
    assert!(shown >= 8, "{shown} pages show an expression");
}
