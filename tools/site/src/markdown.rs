//! Pages of Markdown as HTML: anchors of headings, code with colours, links between pages.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::highlight::highlight;
use crate::html::{anchor, escape};

/// A heading of a page.
pub struct Heading {
    /// The level, from 1.
    pub level: usize,
    /// The text, without marks.
    pub text: String,
    pub anchor: String,
    /// The words below it, up to the next heading, without marks.
    pub below: String,
}

/// A page as HTML.
pub struct Rendered {
    /// The body.
    pub html: String,
    /// The headings in order.
    pub headings: Vec<Heading>,
    /// The targets of its links, as written.
    pub links: Vec<String>,
}

/// Renders a page. `link` gives the target of each link; HTML in the page is shown as text, because a page of somebody
/// else may hold a script.
pub fn render(text: &str, link: &dyn Fn(&str) -> String) -> Rendered {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let mut out = Vec::new();
    let mut rendered = Rendered { html: String::new(), headings: Vec::new(), links: Vec::new() };
    // whether each open link leads somewhere; one that leads nowhere is its text alone
    let mut open: Vec<bool> = Vec::new();
    let mut code: Option<(String, String)> = None;
    let mut heading: Option<(usize, String, Vec<Event>)> = None;
    for event in Parser::new_ext(text, options) {
        let event = match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match &kind {
                    // `rust,no_run`
                    CodeBlockKind::Fenced(words) => words.split([',', ' ']).next().unwrap_or_default().to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                code = Some((language, String::new()));
                continue;
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some((language, text)) = code.take() else { continue };
                if let Some(above) = rendered.headings.last_mut() {
                    above.below += &text;
                }
                Event::Html(CowStr::from(block(&text, &language)))
            }
            Event::Text(text) if code.is_some() => {
                if let Some((_, all)) = &mut code {
                    *all += &text;
                }
                continue;
            }
            Event::Start(Tag::Heading { level, .. }) => {
                heading = Some((level as usize, String::new(), Vec::new()));
                continue;
            }
            Event::End(TagEnd::Heading(_)) => {
                let Some((level, text, inside)) = heading.take() else { continue };
                let mut id = anchor(&text);
                let same = rendered.headings.iter().filter(|h| h.anchor == id).count();
                if same > 0 {
                    id = format!("{id}-{same}");
                }
                let mut inner = String::new();
                html::push_html(&mut inner, inside.into_iter());
                let made = format!(
                    "<h{level} id=\"{id}\">{inner}<a class=\"self\" href=\"#{id}\" aria-label=\"Link to this section\">#</a></h{level}>\n"
                );
                rendered.headings.push(Heading { level, text, anchor: id, below: String::new() });
                Event::Html(CowStr::from(made))
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                rendered.links.push(dest_url.to_string());
                let target = link(&dest_url);
                open.push(!target.is_empty());
                if target.is_empty() {
                    continue;
                }
                Event::Start(Tag::Link { link_type, dest_url: CowStr::from(target), title, id })
            }
            Event::End(TagEnd::Link) if open.pop() == Some(false) => continue,
            Event::Start(Tag::Table(_)) => {
                out.push(Event::Html(CowStr::from("<div class=\"wide\" tabindex=\"0\">")));
                event
            }
            Event::End(TagEnd::Table) => {
                out.push(event);
                Event::Html(CowStr::from("</div>"))
            }
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            other => other,
        };
        match &mut heading {
            Some((_, text, inside)) => {
                if let Event::Text(part) | Event::Code(part) = &event {
                    *text += part;
                }
                inside.push(event);
            }
            None => {
                if let (Event::Text(part) | Event::Code(part), Some(above)) = (&event, rendered.headings.last_mut()) {
                    above.below += part;
                    above.below += " ";
                }
                out.push(event);
            }
        }
    }
    html::push_html(&mut rendered.html, out.into_iter());
    rendered
}

/// A block of code. Lines that rustdoc hides (`# use …`) are left out of Rust.
pub fn block(text: &str, language: &str) -> String {
    let hides = matches!(language, "rust" | "rs");
    let shown: String = text
        .split_inclusive('\n')
        .filter(|line| !hides || !matches!(line.trim_end(), "#") && !line.trim_start().starts_with("# "))
        .collect();
    let label = if language.is_empty() { String::new() } else { format!(" data-language=\"{}\"", escape(language)) };
    format!("<pre tabindex=\"0\"{label}><code>{}</code></pre>\n", highlight(shown.trim_end(), language))
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn html_of_a_page_is_text() {
        let made = render("a <script>alert(1)</script> b\n\n<img src=x onerror=y>\n", &|link| link.to_owned());
        assert!(!made.html.contains("<script") && !made.html.contains("<img"), "{}", made.html);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_its_text() {
        let made =
            render("[a](b.md) [c](d.md)\n", &|link| if link == "b.md" { String::new() } else { link.to_owned() });
        assert_eq!(made.html.trim(), "<p>a <a href=\"d.md\">c</a></p>");
        assert_eq!(made.links, ["b.md", "d.md"]);
    }

    #[test]
    fn headings_have_anchors_and_links_go_where_they_are_sent() {
        let made = render("# A `b` c\n\n[x](y.md)\n\n# A b c\n", &|link| link.replace(".md", ".html"));
        let anchors: Vec<&str> = made.headings.iter().map(|h| h.anchor.as_str()).collect();
        assert_eq!(anchors, ["a-b-c", "a-b-c-1"]);
        assert_eq!(made.headings[0].below, "x ");
        assert!(made.html.contains("href=\"y.html\""), "{}", made.html);
    }
}
