//! Path patterns, and whether two of them may match a common path.
//!
//! `*` matches any text without `/`, `?` one character of it, `[a-z]` and `[!a-z]` one character of
//! a set, `**` any number of folders, `{a,b}` one of the alternatives, and `\` escapes the next
//! character. A pattern whose last name is literal matches that file, or that folder with all of
//! its contents. `globset` matches a pattern against a path; whether two patterns meet is a guess
//! that errs towards yes.

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

/// The longest pattern, in characters; no path in a repository needs more.
const LONGEST: usize = 1000;

/// The characters with a meaning of their own.
const SIGNS: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// A path pattern.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Glob {
    text: String,
    /// The names between the slashes, without those that change nothing.
    names: Vec<String>,
    /// It matches a path if one of them does.
    matchers: Vec<GlobMatcher>,
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// A message that continues "the pattern `…`".
    pub fn new(text: &str) -> Result<Glob, String> {
        let fault = if text.is_empty() {
            "is empty"
        } else if text.chars().count() > LONGEST {
            "is longer than 1000 characters"
        } else if text.starts_with('!') {
            "begins with `!`, but exclusions are not supported; write `\\!` for the character"
        } else if text.starts_with('/') {
            "begins with `/`; make it relative to the repository"
        } else if text.split('/').any(|name| name == "..") {
            "has a `..`; make it relative to the repository"
        } else if text.contains("[:") {
            "has a class such as `[:alpha:]`; write its characters"
        } else if has_joined_folders(text) {
            "has a `**` next to other characters; write `**/*`"
        } else {
            return Glob::from_names(text);
        };
        Err(fault.to_owned())
    }

    fn from_names(text: &str) -> Result<Glob, String> {
        let names: Vec<String> = text
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
            .map(ToOwned::to_owned)
            .collect();
        let last = names.last().map_or("", String::as_str);
        let is_folder = text.ends_with(['/', '}']) || !last.contains(['*', '?', '[']);
        let mut patterns = vec![names.join("/")];
        if names.is_empty() {
            patterns.push("**".to_owned());
        } else if is_folder {
            patterns.push(format!("{}/**", patterns[0]));
        }
        let matchers = patterns.iter().map(|pattern| {
            let mut builder = GlobBuilder::new(pattern);
            builder.literal_separator(true).backslash_escape(true).empty_alternates(true);
            builder.build().map(|glob| glob.compile_matcher())
        });
        let matchers: Result<_, globset::Error> = matchers.collect();
        let matchers = matchers.map_err(|error| format!("is not valid: {}", error.kind()))?;
        Ok(Glob { text: text.to_owned(), names, matchers })
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches this path, or the name at its end if the pattern has no slash.
    pub fn matches(&self, path: &str) -> bool {
        let name = || path.rsplit('/').next().unwrap_or(path);
        self.matches_path(if self.text.contains('/') { path } else { name() })
    }

    fn matches_path(&self, path: &str) -> bool {
        self.matchers.iter().any(|matcher| matcher.is_match(path))
    }

    /// Whether some path may match both: neither their literal first names nor the ends of their last
    /// names rule it out.
    pub fn may_overlap(&self, other: &Glob) -> bool {
        match (self.literal(), other.literal()) {
            (_, Some(path)) => self.may_reach(&path),
            (Some(path), None) => other.may_reach(&path),
            (None, None) => starts_agree(&self.names, &other.names) && self.ends_agree(other),
        }
    }

    /// Whether it matches a path, or may match something in it or above it.
    pub fn may_reach(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        let is_deep = self.text.contains("**") || self.text.contains('{');
        let may_match = is_deep || names.len() < self.names.len() || self.matches_path(path);
        may_match && starts_agree(&self.names, &names)
    }

    /// The path, if the pattern is one.
    fn literal(&self) -> Option<String> {
        (!self.names.is_empty() && !self.text.contains(SIGNS)).then(|| self.names.join("/"))
    }

    /// Whether the ends of their last names allow a common one.
    fn ends_agree(&self, other: &Glob) -> bool {
        let end = |glob: &Glob| {
            // Without a sign, the content of a folder matches too.
            let last = glob.names.last().filter(|_| !glob.text.ends_with('/'));
            let last = last.filter(|last| last.contains(['*', '?', '[']));
            last.and_then(|last| last.rsplit(SIGNS).next()).unwrap_or_default().to_owned()
        };
        let (own, their) = (end(self), end(other));
        own.ends_with(&their) || their.ends_with(&own)
    }
}

/// Two patterns are equal if they are written in the same way.
impl PartialEq for Glob {
    fn eq(&self, other: &Glob) -> bool {
        self.text == other.text
    }
}

impl Eq for Glob {}

impl TryFrom<String> for Glob {
    type Error = String;

    fn try_from(text: String) -> Result<Glob, String> {
        Glob::new(&text).map_err(|why| format!("the pattern `{text}` {why}"))
    }
}

impl From<Glob> for String {
    fn from(pattern: Glob) -> String {
        pattern.text
    }
}

/// Whether the names before the first sign of either are the same.
fn starts_agree(own: &[String], their: &[impl AsRef<str>]) -> bool {
    let mut pairs = own.iter().zip(their).map(|(own, their)| (own.as_str(), their.as_ref()));
    let is_open = |name: &str| name.contains(SIGNS);
    let first = pairs.find(|(own, their)| is_open(own) || is_open(their) || own != their);
    first.is_none_or(|(own, their)| is_open(own) || is_open(their))
}

/// Whether it has a `**` that is not a name of its own.
fn has_joined_folders(text: &str) -> bool {
    text.match_indices("**").any(|(at, _)| {
        !text[..at].is_empty() && !text[..at].ends_with(['/', '{', ','])
            || !text[at + 2..].is_empty() && !text[at + 2..].starts_with(['/', '}', ','])
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overlap(a: &str, b: &str) -> bool {
        let (a, b) = (Glob::new(a).unwrap(), Glob::new(b).unwrap());
        assert!(a.may_overlap(&a) && b.may_overlap(&b), "{a:?} {b:?}");
        assert_eq!(a.may_overlap(&b), b.may_overlap(&a), "{a:?} {b:?}");
        a.may_overlap(&b)
    }

    #[test]
    fn patterns_that_no_path_matches_both_do_not_overlap() {
        for (a, b) in [
            ("src/api.rs", "src/api.rs"),
            ("src", "src/api/mod.rs"),
            ("src/", "src/**"),
            ("./src//api", "src/api"),
            (".", "a/b"),
            ("src/*.rs", "src/api.*"),
            ("src/**/*.rs", "src/api/v1/mod.rs"),
            ("src/**/*.rs", "src/mod.rs"),
            ("**/tests/**", "src/*/tests/a.rs"),
            ("**", "Cargo.toml"),
            ("a*b*c", "?*c"),
            ("[a-f]x", "[!a-e]?"),
            ("{src,docs}/api*", "docs/{api,web}.md"),
            ("a{,.bak}", "a.bak"),
            ("{a,{b,c}/d}", "c/d/e"),
            (r"\*.rs", "?.rs"),
            ("[]-]", "-"),
            ("[a-]", "-"),
            ("grüße/*", "gr?ße/x"),
            ("**/a/b", "c/d/**"),
        ] {
            assert!(overlap(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("src/api.rs", "src/api"),
            ("src/*", "src/api/mod.rs"),
            ("*.rs", "src/mod.rs"),
            ("src/**/*.rs", "src/**/*.md"),
            ("?", "ab"),
            (r"\*.rs", "a.rs"),
            ("Src/**", "src/**"),
            ("*a", "*b"),
            ("a*b*c", "*b"),
        ] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for (text, part) in [
            ("", "is empty"),
            ("/src", "begins with `/`"),
            ("!src", "exclusions are not supported"),
            ("a/../b", "has a `..`"),
            ("src/**.rs", "has a `**` next to"),
            ("***", "has a `**` next to"),
            ("[a", "is not valid: unclosed character class"),
            ("[]", "is not valid: unclosed character class"),
            ("[z-a]", "is not valid: invalid range"),
            ("[[:alpha:]]", "has a class"),
            ("{a,b", "is not valid: unclosed alternate"),
            ("a}", "is not valid: unopened alternate"),
            ("a\\", "is not valid: dangling"),
            (&"{".repeat(400), "is not valid"),
            (&"x".repeat(1001), "longer than 1000"),
        ] {
            let fault = Glob::new(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    /// Whether a name matches a name pattern, by brute force.
    fn name_matches(pattern: &[char], name: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['*', rest @ ..] => (0..=name.len()).any(|n| name_matches(rest, &name[n..])),
            ['[', '!', not, ']', rest @ ..] => {
                name.first().is_some_and(|c| c != not) && name_matches(rest, &name[1..])
            }
            ['[', one, other, ']', rest @ ..] => {
                name.first().is_some_and(|c| c == one || c == other)
                    && name_matches(rest, &name[1..])
            }
            [sign, rest @ ..] => {
                name.first().is_some_and(|c| *sign == '?' || c == sign)
                    && name_matches(rest, &name[1..])
            }
        }
    }

    fn path_matches(pattern: &[&str], path: &[&str]) -> bool {
        match pattern {
            [] => path.is_empty(),
            ["**"] => !path.is_empty(),
            ["**", rest @ ..] => (0..=path.len()).any(|n| path_matches(rest, &path[n..])),
            [name, rest @ ..] => path.first().is_some_and(|first| {
                let chars = |text: &str| text.chars().collect::<Vec<char>>();
                name_matches(&chars(name), &chars(first)) && path_matches(rest, &path[1..])
            }),
        }
    }

    /// Whether a path matches a pattern with braces and folders, by brute force.
    fn matches(pattern: &str, path: &[&str]) -> bool {
        if let Some((before, rest)) = pattern.split_once('{') {
            let (inner, after) = rest.split_once('}').unwrap();
            return inner.split(',').any(|one| matches(&format!("{before}{one}{after}"), path));
        }
        let mut names: Vec<&str> = pattern.split('/').collect();
        let is_match = path_matches(&names, path);
        let is_folder = !names.last().unwrap().contains(['*', '?', '[']);
        names.push("**");
        is_match || is_folder && path_matches(&names, path)
    }

    /// Every path of up to four names of one or two letters.
    fn paths() -> Vec<Vec<&'static str>> {
        const NAMES: [&str; 6] = ["a", "b", "aa", "ab", "ba", "bb"];
        let mut all: Vec<Vec<&str>> = vec![Vec::new()];
        let mut from = 0;
        for _ in 0..4 {
            let end = all.len();
            for at in from..end {
                all.extend(NAMES.map(|name| [&all[at][..], &[name]].concat()));
            }
            from = end;
        }
        all.split_off(1)
    }

    proptest! {
        #[test]
        fn a_common_path_is_never_missed(a in pattern(), b in pattern()) {
            let witness = paths().into_iter().find(|path| matches(&a, path) && matches(&b, path));
            prop_assert!(witness.is_none() || overlap(&a, &b), "{} {} {:?}", a, b, witness);
            let glob = Glob::new(&a).unwrap();
            let missed = paths().into_iter().map(|path| (matches(&a, &path), path.join("/"))).find(
                |(is_match, path)| *is_match && !(glob.matches_path(path) && glob.may_reach(path)),
            );
            prop_assert!(missed.is_none(), "{} {:?}", a, missed);
        }

        #[test]
        fn any_text_is_handled(text in r"[\PC{},*?!/\\\[\]ab-]{0,30}") {
            if let Ok(glob) = Glob::new(&text) {
                prop_assert!(glob.may_overlap(&glob) && glob.may_overlap(&Glob::new("**").unwrap()));
                prop_assert_eq!(glob.as_str(), text);
            }
        }
    }

    fn pattern() -> impl Strategy<Value = String> {
        let sign = prop::sample::select(vec!["a", "b", "*", "?", "[ab]", "[!a]", "{a,b}"]);
        let name = proptest::collection::vec(sign, 1..=2)
            .prop_map(|signs| signs.concat())
            .prop_map(|name| if name == "**" { "*".to_owned() } else { name });
        let part = prop_oneof![4 => name, 1 => Just("**".to_owned())];
        // Two of them in a row say nothing more, and `globset` does not read them in braces.
        let path = proptest::collection::vec(part, 1..=2)
            .prop_map(|parts| parts.join("/").replace("**/**", "**"));
        let braced = |path: String| format!("{{{},b}}", path.replace("{a,b}", "a"));
        prop_oneof![6 => path.clone(), 1 => path.prop_map(braced)]
    }
}
