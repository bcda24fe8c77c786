//! Pages for a browser: one file with its style, its script and its data.

use crate::error::{Error, ErrorKind};
use fulgurite_core::files;
use serde_json::Value;
use std::path::Path;

/// The frame of every page.
const FRAME: &str = include_str!("page/frame.html");
/// Colours, letters and controls that all pages share.
const SHARED_STYLE: &str = include_str!("page/frame.css");
/// The choice between dark and light.
const SHARED_SCRIPT: &str = include_str!("page/frame.js");

const VIEWER_BODY: &str = include_str!("page/viewer.html");
const VIEWER_STYLE: &str = include_str!("page/viewer.css");
/// The parts of the viewer's script, each after those that it calls when it begins.
const VIEWER_SCRIPT: &[&str] = &[
    include_str!("page/model.js"),
    include_str!("page/compare.js"),
    include_str!("page/rows.js"),
    include_str!("page/details.js"),
    include_str!("page/chart.js"),
    include_str!("page/viewer.js"),
];

/// The parts of a page that differ from page to page.
pub struct HtmlPage<'a> {
    /// The title, as text.
    pub title: &'a str,
    /// The content, as HTML.
    pub body: &'a str,
    /// The style beside the shared one.
    pub style: &'a str,
    /// The data that the script reads.
    pub data: Option<&'a Value>,
    /// The script, after the shared one.
    pub script: &'a str,
}

impl HtmlPage<'_> {
    /// The page as one text.
    pub fn html(&self) -> String {
        let data = self.data.map_or_else(String::new, |data| {
            format!("<script type=\"application/json\" id=\"document\">{}</script>", script_safe(&data.to_string()))
        });
        let mut out =
            String::with_capacity(FRAME.len() + self.body.len() + data.len() + self.script.len() + (64 << 10));
        for piece in FRAME.split_inclusive("}}") {
            let Some((text, name)) = piece.strip_suffix("}}").and_then(|piece| piece.split_once("{{")) else {
                out.push_str(piece);
                continue;
            };
            out.push_str(text);
            match name {
                "title" => out.push_str(&escaped(self.title)),
                "style" => [SHARED_STYLE, self.style].iter().for_each(|part| out.push_str(part)),
                "body" => out.push_str(self.body),
                "data" => out.push_str(&data),
                "script" => [SHARED_SCRIPT, self.script].iter().for_each(|part| out.push_str(part)),
                _ => {}
            }
        }
        out
    }
}

/// The viewer's page.
pub(super) fn viewer(title: &str, document: &Value) -> String {
    let script = VIEWER_SCRIPT.concat();
    HtmlPage { title, body: VIEWER_BODY, style: VIEWER_STYLE, data: Some(document), script: &script }.html()
}

/// Writes a page, and replaces an old file as a whole.
///
/// # Errors
/// E913 if the file can't be written.
pub fn write(path: &Path, html: &str) -> Result<(), Error> {
    files::replace(path, |out| out.write_all(html.as_bytes())).map_err(|e| {
        let shown = path.display().to_string();
        Error::new("E913", format!("`{shown}` can't be written: {e}")).kind_is(ErrorKind::File { path: shown })
    })
}

/// JSON that can stand in an element `script`: nothing in it ends the element or begins a comment.
fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Text as HTML shows it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
