//! What is added to files of the user: recipes in a `justfile`, and the paragraph for agents between
//! markers.

use std::collections::BTreeSet;

use super::{FileFate, append, with_ends};
use crate::prompt::template::Template;

/// Whether `just` reads a file with this name.
pub fn is_justfile(name: &str) -> bool {
    ["justfile", ".justfile"].contains(&&*name.to_lowercase())
}

/// A new justfile with only these recipes.
pub(super) fn new_justfile() -> String {
    let head = "# Recipes for common commands. `just` without arguments lists them.\n\n\
                _default:\n    @just --list\n\n";
    format!("{head}{}", Template::Just.text())
}

/// Adds the recipes whose names are free.
pub(super) fn add_recipes(text: &str) -> FileFate {
    let taken = taken(text);
    let recipes = Template::Just.text();
    let (mut missing, mut names, mut clashes) = (Vec::new(), Vec::new(), Vec::new());
    for recipe in recipes.trim_end().split("\n\n") {
        let lines = || recipe.lines().filter(|line| !line.starts_with('#'));
        let name = lines().find_map(defined).unwrap_or_default();
        if !taken.contains(&name) {
            missing.push(recipe);
            names.push(name);
        } else if !lines().all(|line| text.lines().any(|it| it == line)) {
            clashes.push(format!("`{name}`"));
        }
    }
    let others = match clashes.len() {
        0 => String::new(),
        _ => format!("already has {}", clashes.join(", ")),
    };
    if missing.is_empty() {
        return if others.is_empty() { FileFate::Same } else { FileFate::Keep(others) };
    }
    let others = if others.is_empty() { others } else { format!("; it {others}") };
    let what = format!("recipes {}{others}", names.join(", "));
    FileFate::Add(append(text, &(missing.join("\n\n") + "\n")), what)
}

/// The names of recipes, aliases and modules.
pub(super) fn taken(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(defined).collect()
}

/// The name that a line defines, unless it is a variable.
fn defined(line: &str) -> Option<String> {
    let name = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect()
    };
    for word in ["alias ", "mod ", "mod? "] {
        if let Some(rest) = line.strip_prefix(word) {
            let name = name(rest.trim_start());
            return (!name.is_empty()).then_some(name);
        }
    }
    let line = line.strip_prefix('@').unwrap_or(line);
    let found = name(line);
    let rest = line[found.len()..].trim_start();
    let is_recipe = !found.is_empty() && !rest.starts_with(":=") && rest.contains(':');
    let is_setting = ["set", "export", "import"].contains(&found.as_str()) && rest.contains(":=");
    (is_recipe && !is_setting).then_some(found)
}

const BEGIN: &str = "<!-- ralph: begin -->";
const END: &str = "<!-- ralph: end -->";

/// Appends the paragraph, or replaces an existing one if allowed.
pub(super) fn put_paragraph(text: &str, may_replace: bool) -> FileFate {
    let paragraph = Template::Agents.text();
    let what = "a paragraph on `ralph`".to_owned();
    let (begin, end) = (text.find(BEGIN), text.find(END));
    let (begin, end) = match (begin, end) {
        (None, None) => return FileFate::Add(append(text, &paragraph), what),
        (Some(begin), Some(end)) if begin < end => (begin, end + END.len()),
        _ => return FileFate::Keep(format!("has `{BEGIN}` and `{END}` that do not match")),
    };
    let crlf = text.contains("\r\n");
    let wanted = with_ends(paragraph.trim_end(), crlf);
    if text[begin..end] == wanted {
        FileFate::Same
    } else if may_replace {
        FileFate::Add(format!("{}{wanted}{}", &text[..begin], &text[end..]), what)
    } else {
        FileFate::Keep("already has a paragraph on `ralph`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = "set shell := ['sh', '-c']\nversion := '1'\nalias c := check\nmod docs\n\n\
                        @check target='all': build\n  cargo check\n\nbuild:\n  cargo build\n";

    #[test]
    fn names_are_found_in_all_forms() {
        let found: Vec<String> = taken(MINE).into_iter().collect();
        assert_eq!(found, ["build", "c", "check", "docs"]);
    }

    #[test]
    fn missing_recipes_are_added_once() {
        let FileFate::Add(text, what) = add_recipes(MINE) else { panic!() };
        assert!(text.starts_with(MINE));
        assert_eq!(what, "recipes ralph, prompt, dag-status, task-reset; it already has `check`");
        assert_eq!(text.matches("check").count(), MINE.matches("check").count());
        assert_eq!(add_recipes(&text), FileFate::Keep("already has `check`".to_owned()));
        assert_eq!(add_recipes(&new_justfile()), FileFate::Same);
        assert_eq!(add_recipes(&new_justfile().replace('\n', "\r\n")), FileFate::Same);
        let FileFate::Add(text, _) = add_recipes("a:\r\n  b\r\n") else { panic!() };
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
        assert_eq!(add_recipes(&text), FileFate::Same);
    }

    #[test]
    fn the_paragraph_is_added_once() {
        for text in ["", "# Mine\n", "# Mine\r\n\r\nNo end"] {
            let FileFate::Add(once, _) = put_paragraph(text, false) else { panic!("{text:?}") };
            assert!(once.starts_with(text));
            assert_eq!(
                once.contains("\r\n"),
                once.matches('\n').count() == once.matches("\r\n").count()
            );
            assert_eq!(put_paragraph(&once, true), FileFate::Same);
            let behind = format!("{once}behind\n");
            assert_eq!(put_paragraph(&behind, false), FileFate::Same);
            let edited = behind.replacen("## Tasks", "## Jobs", 1);
            assert!(matches!(put_paragraph(&edited, false), FileFate::Keep(_)));
            let FileFate::Add(mended, _) = put_paragraph(&edited, true) else { panic!("{text:?}") };
            assert_eq!(mended, behind);
        }
        assert!(matches!(put_paragraph(&format!("{END}\n{BEGIN}\n"), true), FileFate::Keep(_)));
        assert!(matches!(put_paragraph(BEGIN, true), FileFate::Keep(_)));
    }

    #[test]
    fn the_template_has_its_markers() {
        let text = Template::Agents.text();
        assert!(text.starts_with(BEGIN) && text.ends_with(&format!("{END}\n")));
    }
}
