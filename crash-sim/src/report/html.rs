//! The frame of the page: head, sections, tables that fit a narrow screen.
//!
//! Invariant: what comes out is well-formed XML too, loads nothing, and runs no script.

use super::csv::escaped;

/// The style of the page: both themes, narrow screens, paper.
const STYLE: &str = include_str!("style.css");

/// The whole page around `body`.
// spec: REPORT-5
pub(crate) fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A section with a heading that can be linked to.
pub(crate) fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{}</h2>\n{body}</section>\n", escaped(title))
}

/// A paragraph of markup.
pub(crate) fn paragraph(markup: &str) -> String {
    format!("<p>{markup}</p>\n")
}

/// Something long that a reader opens by hand.
pub(crate) fn details(summary: &str, body: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{body}</details>\n", escaped(summary))
}

/// A picture under its title, and its caption.
pub(crate) fn figure(title: &str, picture: &str, caption: &str) -> String {
    let title = if title.is_empty() { String::new() } else { format!("<h3>{title}</h3>\n") };
    let caption = match caption {
        "" => String::new(),
        _ => format!("<figcaption>{caption}</figcaption>\n"),
    };
    format!("<figure>\n{title}{picture}{caption}</figure>\n")
}

/// Text as a program prints it; long lines wrap.
pub(crate) fn code(markup: &str) -> String {
    format!("<pre><code>{markup}</code></pre>\n")
}

/// A table; on a narrow screen it scrolls inside its own box. The first cell of a row is its
/// heading; `heads` and `rows` are markup.
pub(crate) fn table(caption: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption>{caption}</caption>\n<thead><tr>"
    );
    for head in heads {
        text.push_str(&format!("<th scope=\"col\">{head}</th>"));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        text.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            match index {
                0 => text.push_str(&format!("<th scope=\"row\">{cell}</th>")),
                _ => text.push_str(&format!("<td>{cell}</td>")),
            }
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n</div>\n");
    text
}
