//! Patterns of paths, and whether there is a path that two of them match.
//!
//! `*` is any text without `/`, `?` one character of it, `[a-z]` and `[!a-z]` one of a set, `**`
//! any number of folders, `{a,b}` one or the other, and `\` takes its meaning from the next
//! character. A pattern whose last name is written out means that file, or that folder with all
//! that is in it. No crate answers the question for two patterns; each only holds one against a
//! path.

use std::{iter::Peekable, str::Chars};

/// The longest pattern, in characters; no path of a repository needs more.
const LONGEST: usize = 1000;
/// The most that `{a,b}` may make of one pattern.
const MOST_WAYS: usize = 100;
/// How deep `{a,{b,c}}` may be.
const DEEPEST: usize = 8;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    /// What it is without `{a,b}`; a path matches it that matches one of them.
    ways: Vec<Vec<GlobPart>>,
}

/// What stands between two slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobPart {
    /// `**`.
    Folders,
    /// A name that is written out.
    Plain(String),
    /// Any other name.
    Name(Vec<Sign>),
}

/// What a name is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sign {
    /// `*`.
    Run,
    /// This character.
    One(char),
    /// One of these, as sorted ranges.
    Of(Vec<(u32, u32)>),
    /// Ends a name; in none once the pattern is taken apart.
    Slash,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// A fragment that fits behind "the pattern `…`".
    pub fn new(text: &str) -> Result<Glob, &'static str> {
        if text.chars().count() > LONGEST {
            return Err("is longer than 1000 characters");
        }
        if text.starts_with('!') {
            return Err(
                "begins with `!`, but there are no exceptions; write `\\!` for the character",
            );
        }
        let mut rest = text.chars().peekable();
        let ways = alternatives(&mut rest, 0)?;
        let ways = ways.iter().map(|signs| parts(signs)).collect::<Result<_, _>>()?;
        Ok(Glob { text: text.to_owned(), ways })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether some path matches both.
    pub fn overlaps(&self, other: &Glob) -> bool {
        self.ways.iter().any(|own| other.ways.iter().any(|theirs| paths_meet(own, theirs)))
    }
}

/// What `{a,b}` leaves to choose from, up to the end or, within braces, to their end.
fn alternatives(
    rest: &mut Peekable<Chars<'_>>,
    depth: usize,
) -> Result<Vec<Vec<Sign>>, &'static str> {
    if depth > DEEPEST {
        return Err("has `{` within `{` too often");
    }
    let (mut done, mut ways) = (Vec::new(), vec![Vec::new()]);
    while let Some(next) = rest.next() {
        let sign = match next {
            '{' => {
                let inner = alternatives(rest, depth + 1)?;
                let with = |way: &Vec<Sign>| -> Vec<Vec<Sign>> {
                    inner.iter().map(|more| [&way[..], more].concat()).collect()
                };
                if ways.len() * inner.len() > MOST_WAYS {
                    return Err("stands for more than 100 by its `{…}`");
                }
                ways = ways.iter().flat_map(with).collect();
                continue;
            }
            '}' if depth == 0 => return Err("has a `}` without `{`"),
            ',' if depth > 0 => {
                done.append(&mut ways);
                ways = vec![Vec::new()];
                continue;
            }
            '}' => {
                done.append(&mut ways);
                return Ok(done);
            }
            '*' => Sign::Run,
            '?' => Sign::Of(all_but(vec![(u32::from('/'), u32::from('/'))])),
            '[' => Sign::Of(set(rest)?),
            '/' => Sign::Slash,
            '\\' => match rest.next() {
                None => return Err("ends with `\\`"),
                Some('/') => Sign::Slash,
                Some(next) => Sign::One(next),
            },
            other => Sign::One(other),
        };
        for way in &mut ways {
            way.push(sign.clone());
        }
    }
    if depth > 0 { Err("has a `{` that is not closed") } else { Ok(ways) }
}

/// The characters that `[…]` stands for, its bracket read already.
fn set(rest: &mut Peekable<Chars<'_>>) -> Result<Vec<(u32, u32)>, &'static str> {
    const OPEN: &str = "has a `[` that is not closed";
    let is_negated = rest.next_if(|next| matches!(next, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let from = match rest.next().ok_or(OPEN)? {
            ']' if !ranges.is_empty() => break,
            '[' if rest.peek() == Some(&':') => {
                return Err("has a class such as `[:alpha:]`; write its characters");
            }
            '\\' => rest.next().ok_or(OPEN)?,
            other => other,
        };
        let mut to = from;
        // A `-` before the end means itself.
        let mut ahead = rest.clone();
        if ahead.next() == Some('-') && ahead.next().is_some_and(|next| next != ']') {
            rest.next();
            to = match rest.next().ok_or(OPEN)? {
                '\\' => rest.next().ok_or(OPEN)?,
                other => other,
            };
        }
        if from == '/' || to == '/' {
            return Err("has a `/` in `[…]`, which never stands for one");
        }
        if from > to {
            return Err("has a range in `[…]` that ends before it begins");
        }
        ranges.push((u32::from(from), u32::from(to)));
    }
    let slash = (u32::from('/'), u32::from('/'));
    if is_negated {
        ranges.push(slash);
        return Ok(all_but(ranges));
    }
    ranges.sort_unstable();
    // A range such as `+-9` goes over the slash.
    let outside = all_but(vec![slash]);
    let cut = |range: &(u32, u32)| -> Vec<(u32, u32)> {
        let both = outside.iter().map(|other| (range.0.max(other.0), range.1.min(other.1)));
        both.filter(|(from, to)| from <= to).collect()
    };
    Ok(ranges.iter().flat_map(cut).collect())
}

/// All characters outside of these ranges.
fn all_but(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let (mut others, mut next) = (Vec::new(), 0);
    for (from, to) in ranges {
        if next < from {
            others.push((next, from - 1));
        }
        next = next.max(to + 1);
    }
    if next <= u32::from(char::MAX) {
        others.push((next, u32::from(char::MAX)));
    }
    others
}

/// Takes a pattern without `{a,b}` apart at its slashes.
fn parts(signs: &[Sign]) -> Result<Vec<GlobPart>, &'static str> {
    match signs {
        [] => return Err("is empty"),
        [Sign::Slash, ..] => {
            return Err("begins with `/`; write it as it is seen from the repository");
        }
        _ => {}
    }
    let mut parts = Vec::new();
    for name in signs.split(|sign| *sign == Sign::Slash) {
        match name {
            // As in `a//b`, `./a` and `a/`.
            [] | [Sign::One('.')] => {}
            [Sign::One('.'), Sign::One('.')] => {
                return Err("has a `..`; write it as it is seen from the repository");
            }
            [Sign::Run, Sign::Run] => parts.push(GlobPart::Folders),
            name if name.windows(2).any(|two| two == [Sign::Run, Sign::Run]) => {
                return Err("has a `**` beside other characters; write `**/*`");
            }
            name => parts
                .push(plain(name).map_or_else(|| GlobPart::Name(name.to_vec()), GlobPart::Plain)),
        }
    }
    let is_written_out = parts.last().is_none_or(|last| matches!(last, GlobPart::Plain(_)));
    if is_written_out || signs.last() == Some(&Sign::Slash) {
        parts.push(GlobPart::Folders);
    }
    Ok(parts)
}

/// The name, if it is written out.
fn plain(name: &[Sign]) -> Option<String> {
    let letter = |sign: &Sign| if let Sign::One(one) = sign { Some(*one) } else { None };
    name.iter().map(letter).collect()
}

fn paths_meet(mut a: &[GlobPart], mut b: &[GlobPart]) -> bool {
    // What most pairs differ in needs no table.
    while let ([first, a_rest @ ..], [second, b_rest @ ..]) = (a, b)
        && *first != GlobPart::Folders
        && *second != GlobPart::Folders
    {
        if !parts_meet(first, second) {
            return false;
        }
        (a, b) = (a_rest, b_rest);
    }
    meet(a, b, |part| *part == GlobPart::Folders, parts_meet)
}

fn parts_meet(a: &GlobPart, b: &GlobPart) -> bool {
    match (a, b) {
        (GlobPart::Plain(a), GlobPart::Plain(b)) => a == b,
        (GlobPart::Name(a), GlobPart::Name(b)) => names_meet(a, b),
        (GlobPart::Plain(plain), GlobPart::Name(name))
        | (GlobPart::Name(name), GlobPart::Plain(plain)) => {
            names_meet(&plain.chars().map(Sign::One).collect::<Vec<_>>(), name)
        }
        (GlobPart::Folders, _) | (_, GlobPart::Folders) => true,
    }
}

fn names_meet(a: &[Sign], b: &[Sign]) -> bool {
    let fits = |a: &Sign, b: &Sign| match (a, b) {
        (Sign::One(a), Sign::One(b)) => a == b,
        (Sign::One(one), Sign::Of(ranges)) | (Sign::Of(ranges), Sign::One(one)) => {
            let one = u32::from(*one);
            ranges.iter().any(|(from, to)| (*from..=*to).contains(&one))
        }
        (Sign::Of(a), Sign::Of(b)) => a.iter().any(|a| b.iter().any(|b| a.0 <= b.1 && b.0 <= a.1)),
        _ => false,
    };
    meet(a, b, |sign| *sign == Sign::Run, fits)
}

/// Whether two patterns of items have a text in common, where an item `is_run` stands for any
/// number of letters and any other one for one, which two of them may have in common (`fits`).
fn meet<T>(a: &[T], b: &[T], is_run: impl Fn(&T) -> bool, fits: impl Fn(&T, &T) -> bool) -> bool {
    // Whether what is left of `a` and what is left of `b` meet, from the ends backwards: a row for
    // each rest of `a`, of which only the last one is needed.
    let mut below = vec![false; b.len() + 1];
    for i in (0..=a.len()).rev() {
        let mut row = vec![false; b.len() + 1];
        for j in (0..=b.len()).rev() {
            row[j] = match (a.get(i), b.get(j)) {
                (None, None) => true,
                (Some(a), _) if is_run(a) => below[j] || j < b.len() && row[j + 1],
                (_, Some(b)) if is_run(b) => row[j + 1] || i < a.len() && below[j],
                (Some(a), Some(b)) => below[j + 1] && fits(a, b),
                _ => false,
            };
        }
        below = row;
    }
    below[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overlap(a: &str, b: &str) -> bool {
        let (a, b) = (Glob::new(a).unwrap(), Glob::new(b).unwrap());
        assert!(a.overlaps(&a) && b.overlaps(&b), "{a:?} {b:?}");
        assert_eq!(a.overlaps(&b), b.overlaps(&a), "{a:?} {b:?}");
        a.overlaps(&b)
    }

    #[test]
    fn two_patterns_overlap_where_a_path_matches_both() {
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
            ("src/a*", "src/b*"),
            ("src/**/*.rs", "src/**/*.md"),
            ("a/*/c", "a/c?"),
            ("?", "ab"),
            ("[+-9]", "[!+-9]"),
            ("{a,b}/x", "{c,d}/x"),
            (r"\*.rs", "a.rs"),
            ("Src/**", "src/**"),
            ("*a", "*b"),
            ("a*b*c", "*b"),
        ] {
            assert!(!overlap(a, b), "{a} {b}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        for (text, part) in [
            ("", "is empty"),
            ("{a,}", "is empty"),
            ("/src", "begins with `/`"),
            ("!src", "no exceptions"),
            ("a/../b", "has a `..`"),
            ("src/**.rs", "has a `**` beside"),
            ("***", "has a `**` beside"),
            ("[a", "`[` that is not closed"),
            ("[]", "`[` that is not closed"),
            ("[z-a]", "ends before it begins"),
            ("[a/b]", "has a `/` in"),
            ("[[:alpha:]]", "has a class"),
            ("{a,b", "`{` that is not closed"),
            ("a}", "a `}` without"),
            ("a\\", "ends with `\\`"),
            (&"{a,b}".repeat(7), "more than 100"),
            (&"{".repeat(400), "too often"),
            (&"x".repeat(1001), "longer than 1000"),
        ] {
            let fault = Glob::new(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn the_worst_patterns_take_no_time() {
        let long = |sign: &str| format!("{}b", format!("{sign}*").repeat(400));
        assert!(!overlap(&long("a"), &long("a").replace('b', "c")));
        let deep = |end: &str| format!("{}{end}", "**/a/".repeat(150));
        assert!(!overlap(&deep("*b"), &deep("*c")));
    }

    /// Whether a name matches a name of a pattern, by trying everything.
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
            ["**", rest @ ..] => (0..=path.len()).any(|n| path_matches(rest, &path[n..])),
            [name, rest @ ..] => path.first().is_some_and(|first| {
                let chars = |text: &str| text.chars().collect::<Vec<char>>();
                name_matches(&chars(name), &chars(first)) && path_matches(rest, &path[1..])
            }),
        }
    }

    /// Whether a path matches a pattern, braces and folders included, by trying everything.
    fn matches(pattern: &str, path: &[&str]) -> bool {
        if let Some((before, rest)) = pattern.split_once('{') {
            let (inner, after) = rest.split_once('}').unwrap();
            return inner.split(',').any(|one| matches(&format!("{before}{one}{after}"), path));
        }
        let mut names: Vec<&str> = pattern.split('/').collect();
        if !names.last().unwrap().contains(['*', '?', '[']) {
            names.push("**");
        }
        path_matches(&names, path)
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
        fn overlapping_is_as_by_brute_force(a in pattern(), b in pattern()) {
            let witness = paths().into_iter().find(|path| matches(&a, path) && matches(&b, path));
            prop_assert_eq!(overlap(&a, &b), witness.is_some(), "{} {} {:?}", a, b, witness);
        }

        #[test]
        fn no_text_is_too_odd(text in r"[\PC{},*?!/\\\[\]ab-]{0,30}") {
            if let Ok(glob) = Glob::new(&text) {
                prop_assert!(glob.overlaps(&glob) && glob.overlaps(&Glob::new("**").unwrap()));
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
        let path = proptest::collection::vec(part, 1..=2).prop_map(|parts| parts.join("/"));
        let braced = |path: String| format!("{{{},b}}", path.replace("{a,b}", "a"));
        prop_oneof![6 => path.clone(), 1 => path.prop_map(braced)]
    }
}
