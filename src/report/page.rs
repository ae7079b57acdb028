//! The page of a repository: its files, and the page as one file with its data inside. It
//! compresses that file.

use std::io::{self, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};

/// The page.
pub const HTML: &str = include_str!("page/page.html");
/// Its style.
pub const STYLE: &str = include_str!("page/page.css");
/// Its scripts: the path of each below `/`, and its text. Each imports only from those before it.
pub const SCRIPTS: [(&str, &str); 15] = [
    ("dom.js", include_str!("page/dom.js")),
    ("words.js", include_str!("page/words.js")),
    ("data.js", include_str!("page/data.js")),
    ("actions.js", include_str!("page/actions.js")),
    ("diff.js", include_str!("page/diff.js")),
    ("markdown.js", include_str!("page/markdown.js")),
    ("transcript.js", include_str!("page/transcript.js")),
    ("now.js", include_str!("page/now.js")),
    ("graph.js", include_str!("page/graph.js")),
    ("timeline.js", include_str!("page/timeline.js")),
    ("task.js", include_str!("page/task.js")),
    ("review.js", include_str!("page/review.js")),
    ("costs.js", include_str!("page/costs.js")),
    ("journal.js", include_str!("page/journal.js")),
    ("page.js", include_str!("page/page.js")),
];

/// The keywords between `export` and the name.
const KEYWORDS: [&str; 4] = ["async", "function", "const", "class"];

/// The policy of a page without a server: it loads nothing.
const POLICY: &str = "<meta charset=\"utf-8\">\n<meta http-equiv=\"content-security-policy\" \
                      content=\"default-src 'none'; script-src 'unsafe-inline'; style-src \
                      'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">";

/// The page as one file that needs no server: scripts, style and data are in it. The data is packed,
/// which makes it eight times smaller.
///
/// `data` maps each address that the page reads, without `/api/`, to its answer; the answer of
/// `page` may have `made_at`, the time of the report.
///
/// # Errors
/// The data cannot be packed.
pub fn in_one_file(data: &str) -> io::Result<String> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(data.as_bytes())?;
    let data = STANDARD.encode(packed.finish()?);
    let style = format!("<style>\n{STYLE}</style>");
    let script = format!(
        "<script type=\"text/plain\" id=\"data\">{data}</script>\n<script \
         type=\"module\">\n{}</script>",
        one_script()
    );
    Ok(HTML
        .replace("<meta charset=\"utf-8\">", POLICY)
        .replace("<link rel=\"stylesheet\" href=\"/page.css\">", &style)
        .replace("<script type=\"module\" src=\"/page.js\"></script>", &script))
}

/// The scripts as one: each is a function that returns its exports.
fn one_script() -> String {
    SCRIPTS.iter().map(|(path, text)| one_part(path, text)).collect()
}

fn one_part(path: &str, text: &str) -> String {
    let (mut body, mut exports) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("export ") {
            let words = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
            exports.extend(words.skip_while(|word| KEYWORDS.contains(word)).take(1));
            body += rest;
        } else if let Some(rest) = line.strip_prefix("import ") {
            body += "const ";
            body += &imported(rest);
        } else if !line.trim_start().starts_with("//") {
            // No text of the scripts spans lines.
            body += imported(line).trim_start();
        }
        body.push('\n');
    }
    let name = module(path);
    format!(
        "const {name} = await (async () => {{\n{body}return {{ {} }};\n}})();\n",
        exports.join(", ")
    )
}

/// A line of an import as a line of a declaration.
fn imported(line: &str) -> String {
    let source = line.split_once("} from \"./").map(|(_, source)| source);
    match source.and_then(|source| source.strip_suffix("\";")) {
        Some(source) => {
            let names = line.split("from").next().unwrap_or_default();
            format!("{names}= {};", module(source))
        }
        None => line.to_owned(),
    }
}

fn module(path: &str) -> String {
    path.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_never_takes_text_for_html() {
        let scripts = SCRIPTS.iter().map(|(_, text)| text.len());
        let size = HTML.len() + STYLE.len() + scripts.sum::<usize>();
        assert!(size <= 180_000, "{size} bytes");
        for (path, text) in SCRIPTS {
            for harm in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "Function(",
                "document.write",
            ] {
                assert!(!text.contains(harm), "{path} uses {harm}");
            }
            assert!(!text.contains("style:") && !text.contains("https://"), "{path}");
        }
    }

    #[test]
    fn one_file_has_everything_and_data_cannot_end_its_script() {
        let text = in_one_file("{\"now\": \"</script><!--\"}").unwrap();
        assert!(!text.contains("src=\"") && !text.contains("rel=\"stylesheet\""));
        assert!(!text.contains("import ") && !text.contains("\nexport "), "{text}");
        assert_eq!(text.matches("</script>").count(), 2);
    }
}
