//! The page of a repository: its files, and the page as one file with its data inside.

use serde_json::Value;

/// The page.
pub const HTML: &str = include_str!("page/page.html");
/// Its script.
pub const SCRIPT: &str = include_str!("page/page.js");
/// Its style.
pub const STYLE: &str = include_str!("page/page.css");

/// The page as one file that needs no server: script, style and data are in it.
///
/// `data` maps each address that the page reads, without `/api/`, to its answer.
pub fn in_one_file(data: &Value) -> String {
    // In a script, only `<` can begin something else.
    let data = data.to_string().replace('<', "\\u003c");
    let style = format!("<style>\n{STYLE}</style>");
    let script = format!(
        "<script type=\"application/json\" id=\"data\">{data}</script>\n<script \
         type=\"module\">\n{SCRIPT}</script>"
    );
    HTML.replace("<link rel=\"stylesheet\" href=\"/page.css\">", &style)
        .replace("<script type=\"module\" src=\"/page.js\"></script>", &script)
}
