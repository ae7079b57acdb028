//! Known defects that are planted in landed work, to see how many of them a reviewer finds.
//!
//! A defect is a change of the text at lines that the work added: no parser and no file is needed.

use std::{collections::BTreeSet, fmt, ops::Range};

use serde::{Deserialize, Serialize};

use crate::{
    dice::Dice,
    proof::{
        halves::{Half, HalvesRule},
        source_code::{SourceCode, lexer::Language},
    },
    reviewer::{FindingSeverity, WorkReview},
};

/// The most lines between a planted defect and the finding that names it.
pub const NEAR: u32 = 5;

/// A kind of defects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefectKind {
    /// A guard is gone: `if … { return … }`, `ensure!`, `assert` outside of tests.
    RemovedCheck,
    /// A bound is off by one: `<` for `<=`, `..` for `..=`, no `+ 1`.
    OffByOne,
    /// An error is dropped: `?`, `raise`, `throw` and `return err` have no effect any more.
    SwallowedError,
    /// An assertion of a test holds whatever the code does.
    WeakenedTest,
    /// A token is in a comment.
    Secret,
}

impl DefectKind {
    /// All kinds, in the order in which they are planted.
    pub const ALL: [DefectKind; 5] = [
        DefectKind::WeakenedTest,
        DefectKind::Secret,
        DefectKind::SwallowedError,
        DefectKind::OffByOne,
        DefectKind::RemovedCheck,
    ];
}

impl fmt::Display for DefectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DefectKind::RemovedCheck => "removed check",
            DefectKind::OffByOne => "off-by-one",
            DefectKind::SwallowedError => "swallowed error",
            DefectKind::WeakenedTest => "weakened test",
            DefectKind::Secret => "secret",
        })
    }
}

/// A place in a file where a defect can be planted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefectPlace {
    /// The kind.
    pub kind: DefectKind,
    /// The lines that it replaces, counted from 0.
    pub lines: Range<usize>,
    /// What stands there then, if not a token.
    instead: Option<String>,
}

/// A defect that is planted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantedDefect {
    /// The kind.
    pub kind: DefectKind,
    /// The file, relative to the repository.
    pub file: String,
    /// Its line in the damaged file, from 1; for removed lines, the one that follows them.
    pub line: u32,
    /// The first line before.
    pub before: String,
    /// The line in its place; empty if it is gone.
    pub after: String,
}

impl PlantedDefect {
    /// Whether a review names it: a finding of at least this gravity, in its file, at most [`NEAR`] lines
    /// away.
    pub fn is_found(&self, review: &WorkReview, from: FindingSeverity) -> bool {
        review.findings.iter().any(|finding| {
            finding.severity >= from
                && finding.file.as_deref() == Some(&self.file)
                && finding.line.is_some_and(|line| line.abs_diff(self.line) <= NEAR)
        })
    }
}

/// Returns the places of a file where a defect can be planted: only the lines that are `added`, counted
/// from 0, are changed.
pub fn places(path: &str, text: &str, added: &BTreeSet<usize>) -> Vec<DefectPlace> {
    let Some(file) = DefectSource::of(path, text) else { return Vec::new() };
    let of_kind = |kind: DefectKind, at: usize| {
        let (length, instead) = file.change(kind, at)?;
        let lines = at..at + length;
        lines.clone().all(|at| added.contains(&at)).then_some(DefectPlace { kind, lines, instead })
    };
    let all = added.iter().flat_map(|at| DefectKind::ALL.map(|kind| of_kind(kind, *at)));
    all.flatten().collect()
}

/// Plants a defect in a file. Returns it and the text with it; the same for the same seed.
pub fn plant(path: &str, text: &str, place: &DefectPlace, seed: u64) -> (PlantedDefect, String) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (before, rest) = lines.split_at(place.lines.start.min(lines.len()));
    let (old, after) = rest.split_at(place.lines.len().min(rest.len()));
    let bare = old.first().map_or("", |line| line.trim_end_matches(['\r', '\n']));
    let end = old.last().map_or("", |line| &line[line.trim_end_matches(['\r', '\n']).len()..]);
    let new = match (&place.instead, place.kind) {
        (Some(new), _) => new.clone(),
        (None, DefectKind::Secret) => {
            let sign = if Language::of(path) == Some(Language::Python) { "#" } else { "//" };
            format!("{bare}  {sign} token: {}", token(seed))
        }
        (None, _) => String::new(),
    };
    let put = if new.is_empty() { String::new() } else { format!("{new}{end}") };
    let line = u32::try_from(place.lines.start + 1).unwrap_or(u32::MAX);
    let shown = |text: &str| text.trim().to_owned();
    let defect = PlantedDefect {
        kind: place.kind,
        file: path.to_owned(),
        line,
        before: shown(bare),
        after: shown(&new),
    };
    (defect, [before.concat(), put, after.concat()].concat())
}

/// A token that looks like one of a person, and opens nothing.
fn token(seed: u64) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut dice = Dice(seed);
    let letter = |_| char::from(LETTERS[dice.below(LETTERS.len())]);
    ["gh", "p_"].into_iter().map(str::to_owned).chain([(0..36).map(letter).collect()]).collect()
}

/// Chooses this many of the places, each given by its kind and the number of its change: of every kind in
/// turn, and of the change that has been used least. Returns their indices; the same for the same seed.
pub fn draw(all: &[(DefectKind, usize)], count: usize, seed: u64) -> Vec<usize> {
    let (mut dice, mut drawn) = (Dice(seed), Vec::new());
    loop {
        let before = drawn.len();
        for kind in DefectKind::ALL {
            let free = (0..all.len()).filter(|at| all[*at].0 == kind && !drawn.contains(at));
            let used = |change: usize| drawn.iter().filter(|at| all[**at].1 == change).count();
            let least = free.min_by_key(|at| (used(all[*at].1), dice.roll()));
            match least {
                Some(_) if drawn.len() == count => return drawn,
                least => drawn.extend(least),
            }
        }
        if drawn.len() == before {
            return drawn;
        }
    }
}

/// A file in which defects are planted.
struct DefectSource<'a> {
    language: Language,
    source: SourceCode<'a>,
    lines: Vec<&'a str>,
    /// The lines without comments and the contents of strings, each as long as the line.
    codes: Vec<String>,
    is_test: bool,
    tests: Vec<Range<usize>>,
}

impl<'a> DefectSource<'a> {
    fn of(path: &str, text: &'a str) -> Option<DefectSource<'a>> {
        let language = Language::of(path)?;
        let source = SourceCode::new(language, text);
        let lines: Vec<&str> = text.lines().collect();
        let codes = (0..lines.len()).map(|at| source.code_of(at)).collect();
        let is_test = HalvesRule::default().half(path) == Half::Test;
        let tests = source.tests();
        Some(DefectSource { language, source, lines, codes, is_test, tests })
    }

    fn is_test(&self, at: usize) -> bool {
        self.is_test || self.tests.iter().any(|range| range.contains(&at))
    }

    /// The code of a line without the space around it; empty after the last line.
    fn code(&self, at: usize) -> &str {
        self.codes.get(at).map_or("", |code| code.trim())
    }

    fn indent(&self, at: usize) -> usize {
        self.lines.get(at).map_or(0, |line| line.len() - line.trim_start().len())
    }

    /// How many lines from this one on a defect of a kind replaces, and by what; `None` if it cannot be
    /// planted here.
    fn change(&self, kind: DefectKind, at: usize) -> Option<(usize, Option<String>)> {
        let line = *self.lines.get(at)?;
        if self.code(at).is_empty()
            || !self.source.has_code(at)
            || self.codes[at].len() != line.len()
            || !line[self.indent(at)..].starts_with(self.code(at).chars().next()?)
        {
            return None;
        }
        let one = |new: Option<String>| new.filter(|new| new != line).map(|new| (1, Some(new)));
        match kind {
            DefectKind::WeakenedTest if self.is_test(at) => one(self.weakened(at)),
            DefectKind::Secret => {
                let is_whole = !line.ends_with('\\') && !self.source.is_in_string_after(at);
                is_whole.then_some((1, None))
            }
            DefectKind::WeakenedTest => None,
            _ if self.is_test(at) => None,
            DefectKind::SwallowedError => one(self.swallowed(at)),
            DefectKind::OffByOne => one(self.shifted(at)),
            DefectKind::RemovedCheck => self.guard(at).map(|length| (length, None)),
        }
    }

    /// The number of lines of the check that begins here.
    fn guard(&self, at: usize) -> Option<usize> {
        let code = self.code(at);
        let is_macro =
            ["ensure!(", "assert!(", "assert_eq!("].iter().any(|it| code.starts_with(it));
        let is_assert = self.language == Language::Python && code.starts_with("assert ");
        let one = (is_macro && code.ends_with(';')) || is_assert;
        let is_if = code.starts_with("if ") || code.starts_with("if(");
        let body = self.code(at + 1);
        let is_python = self.language == Language::Python;
        let length = if one && is_balanced(code) {
            1
        } else if is_python && is_if && code.ends_with(':') && leaves(body) {
            2
        } else if is_if && code.ends_with('{') && leaves(body) && self.code(at + 2) == "}" {
            3
        } else if is_if && has_exit(code) && is_balanced(code) && code.ends_with([';', '}']) {
            1
        } else {
            return None;
        };
        let next = (at + length..self.lines.len()).find(|at| !self.code(*at).is_empty());
        let has_else = next.is_some_and(|at| self.code(at).starts_with("el"));
        // Something must stay in the body of a function of Python.
        let stays = !is_python || next.is_some_and(|next| self.indent(next) == self.indent(at));
        (stays && !has_else).then_some(length)
    }

    /// The line with a bound that is off by one.
    fn shifted(&self, at: usize) -> Option<String> {
        const BOUNDS: [(&str, &str); 7] = [
            (" <= ", " < "),
            (" >= ", " > "),
            ("..=", ".."),
            (" < ", " <= "),
            (" > ", " >= "),
            (" + 1", ""),
            (" - 1", ""),
        ];
        let (line, code) = (self.lines[at], &self.codes[at]);
        BOUNDS.iter().find_map(|(old, new)| {
            let start = code.find(old)?;
            let after = &line[start + old.len()..];
            let is_whole = !old.ends_with('1')
                || !after.starts_with(|it: char| it.is_alphanumeric() || ['.', '_'].contains(&it));
            is_whole.then(|| format!("{}{new}{after}", &line[..start]))
        })
    }

    /// The line without the error that it passes on.
    fn swallowed(&self, at: usize) -> Option<String> {
        let (line, code) = (self.lines[at], self.code(at));
        let (indent, text) = line.split_at(self.indent(at));
        match self.language {
            Language::Rust => {
                let text = text.strip_suffix("?;").filter(|_| code.ends_with("?;"))?;
                let first = code.split(|it: char| !it.is_alphanumeric() && it != '_').next()?;
                let before = (0..at).rev().map(|at| self.code(at)).find(|code| !code.is_empty());
                let begins = before.is_none_or(|code| code.ends_with([';', '{', '}']));
                let is_statement = begins && !["", "let", "return"].contains(&first);
                Some(if is_statement && is_balanced(code) {
                    format!("{indent}let _ = {text};")
                } else {
                    format!("{indent}{text}.unwrap_or_default();")
                })
            }
            Language::Python => {
                let raises = code == "raise" || code.starts_with("raise ");
                (raises && is_balanced(code)).then(|| format!("{indent}pass"))
            }
            Language::JavaScript | Language::TypeScript => {
                let throws = code.starts_with("throw ") && code.ends_with(';');
                (throws && is_balanced(code)).then(|| format!("{indent}return null;"))
            }
            Language::Go => {
                let rest = code.strip_prefix("return ").filter(|rest| is_balanced(rest))?;
                let last = arguments(rest).last()?.clone();
                let error = rest[last.clone()].trim_start();
                let is_error = error == "err"
                    || ["fmt.Errorf(", "errors."].iter().any(|it| error.starts_with(it));
                let keep = text.len() - rest.len() + last.end - error.len();
                (is_error && text.trim_end().len() == code.len() && text.starts_with("return "))
                    .then(|| format!("{indent}{}nil", &text[..keep]))
            }
        }
    }

    /// The line with an assertion that always holds.
    fn weakened(&self, at: usize) -> Option<String> {
        const PAIRS: [&str; 8] = [
            "assert_eq!(",
            ".assertEqual(",
            "assert.equal(",
            "assert.strictEqual(",
            "assert.deepEqual(",
            "assert.deepStrictEqual(",
            "assert.Equal(",
            "require.Equal(",
        ];
        let (line, code) = (self.lines[at], self.codes[at].as_str());
        if let Some(open) = PAIRS.iter().find_map(|it| Some(code.find(it)? + it.len())) {
            let all = arguments(&code[open..]);
            // In Go, the first argument is the test.
            let first = usize::from(self.language == Language::Go);
            let [one, other] = all.get(first..first + 2)? else { return None };
            let text = |range: &Range<usize>| line[open + range.start..open + range.end].trim();
            let kept = &line[open + other.start..];
            let space = &kept[..kept.len() - kept.trim_start().len()];
            return Some(format!(
                "{}{space}{}{}",
                &line[..open + other.start],
                text(one),
                &line[open + other.end..]
            ));
        }
        let whole = code.trim();
        match self.language {
            Language::Rust if whole.starts_with("assert!(") && whole.ends_with(");") => {
                let open = code.find('(')? + 1;
                let end = open + arguments(&code[open..]).first()?.end;
                Some(format!("{} || true{}", &line[..end], &line[end..]))
            }
            Language::Python if whole.starts_with("assert ") && is_balanced(whole) => {
                let text = line.trim_end();
                let is_plain = !text.contains('#') && arguments(whole).len() == 1;
                is_plain.then(|| format!("{text} or True"))
            }
            Language::JavaScript | Language::TypeScript if whole.starts_with("expect(") => {
                [").toBe(", ").toEqual(", ").toStrictEqual("].iter().find_map(|it| {
                    let open = code.find(it)?;
                    let end = arguments(&code[open + it.len()..]).last()?.end + open + it.len();
                    let is_end = ["", ")", ");"].contains(&code[end..].trim());
                    is_end.then(|| format!("{}.toBeDefined(){}", &line[..=open], &line[end + 1..]))
                })
            }
            Language::Go if whole.starts_with("if ") && whole.ends_with('{') => {
                let (sign, end) = (code.find(" != ")?, code.rfind('{')?);
                let one = line[code.find("if ")? + 3..sign].rsplit(';').next()?.trim();
                let is_plain = !["&&", "||"].iter().any(|it| code.contains(it));
                is_plain.then(|| format!("{} != {one} {}", &line[..sign], &line[end..]))
            }
            Language::Rust
            | Language::Python
            | Language::JavaScript
            | Language::TypeScript
            | Language::Go => None,
        }
    }
}

/// Whether a line of code leaves its block.
fn leaves(code: &str) -> bool {
    const EXITS: [&str; 9] = [
        "return",
        "raise",
        "throw",
        "continue",
        "break",
        "panic!(",
        "bail!(",
        "panic(",
        "process.exit(",
    ];
    is_balanced(code)
        && EXITS.iter().any(|it| {
            let rest = code.strip_prefix(it);
            rest.is_some_and(|rest| {
                it.ends_with('(') || !rest.starts_with(|it: char| it.is_alphanumeric())
            })
        })
}

/// Whether a line of code that begins with a condition leaves its block.
fn has_exit(code: &str) -> bool {
    let mut exits = ["return", "throw", "continue", "break", "bail!("].iter();
    !code.contains("else") && exits.any(|word| code.contains(&format!(" {word}")))
}

/// Whether each bracket of a line of code has its other one there.
fn is_balanced(code: &str) -> bool {
    let mut depth = 0_i32;
    code.chars().all(|it| {
        depth += match it {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        depth >= 0
    }) && depth == 0
}

/// The arguments at the beginning of a line of code, up to the bracket that closes them, without the
/// space behind them; none if they do not end there and brackets are open.
fn arguments(code: &str) -> Vec<Range<usize>> {
    let (mut all, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, it) in code.char_indices() {
        match it {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                all.push(start..at);
                return all;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(start..code.trim_end().len().max(start));
    if depth == 0 { all } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text with each defect of a kind that can be planted in a file all of whose lines are new.
    fn damaged(path: &str, text: &str, kind: DefectKind) -> Vec<String> {
        let added = (0..text.lines().count()).collect();
        let all = places(path, text, &added);
        let of_kind = all.iter().filter(|place| place.kind == kind);
        of_kind.map(|place| plant(path, text, place, 7).1).collect()
    }

    fn one(path: &str, text: &str, kind: DefectKind, new: &str) {
        assert_eq!(damaged(path, text, kind), [new], "{path}: {text}");
    }

    #[test]
    fn a_removed_check_is_gone_and_the_code_around_it_stays() {
        let kind = DefectKind::RemovedCheck;
        one(
            "a.rs",
            "fn f() {\n    if x == 0 {\n        return None;\n    }\n    g()\n}\n",
            kind,
            "fn f() {\n    g()\n}\n",
        );
        one("a.rs", "    ensure!(x > 0, \"no }\");\n    g()\n", kind, "    g()\n");
        one(
            "a.py",
            "def f():\n    if not x:\n        raise E(\"a: b\")\n\n    g()\n",
            kind,
            "def f():\n\n    g()\n",
        );
        one("a.ts", "  if (!x) throw new E();\r\n  g();\r\n", kind, "  g();\r\n");
        one("a.go", "\tif n < 0 {\n\t\treturn nil\n\t}\n\tg()", kind, "\tg()");
        for (path, text) in [
            ("a.py", "def f():\n    if x:\n        return 1\n"),
            ("a.py", "    if x:\n        return 1\n    else:\n        g()\n"),
            ("a.rs", "    if x {\n        return 1;\n    } else {\n    }\n"),
            ("a.rs", "    // if x { return; }\n"),
            ("tests/a.rs", "    assert!(x);\n"),
            ("a.txt", "if (x) return;\n"),
        ] {
            assert!(damaged(path, text, kind).is_empty(), "{path}: {text}");
        }
    }

    #[test]
    fn a_bound_is_off_by_one_in_code_alone() {
        let kind = DefectKind::OffByOne;
        one("a.rs", "for i in 0..=n {\n", kind, "for i in 0..n {\n");
        one("a.py", "while i <= n:  # < x\n", kind, "while i < n:  # < x\n");
        one("a.js", "for (let i = 0; i < n; i++) {\n", kind, "for (let i = 0; i <= n; i++) {\n");
        one("a.go", "s[:len(s) - 1]\n", kind, "s[:len(s)]\n");
        for text in ["let x = \"a < b\";\n", "x + 10\n", "fn f() -> Vec<u8> {\n", "a => b,\n"] {
            assert!(damaged("a.rs", text, kind).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_swallowed_error_goes_no_further() {
        let kind = DefectKind::SwallowedError;
        one("a.rs", "fn f() {\n    write(x)?;\n}\n", kind, "fn f() {\n    let _ = write(x);\n}\n");
        one("a.rs", "    let n = read(x)?;\n", kind, "    let n = read(x).unwrap_or_default();\n");
        one("a.rs", "    a\n        .b()?;\n", kind, "    a\n        .b().unwrap_or_default();\n");
        one("a.py", "    raise ValueError(x)\n", kind, "    pass\n");
        one("a.tsx", "    throw new Error(x);\n", kind, "    return null;\n");
        one("a.go", "\treturn nil, fmt.Errorf(\"a, %w\", err)\n", kind, "\treturn nil, nil\n");
        one("a.go", "\treturn err\n", kind, "\treturn nil\n");
        assert!(damaged("a.go", "\treturn errand\n", kind).is_empty());
        assert!(damaged("a.py", "    raise ValueError(\n        x)\n", kind).is_empty());
    }

    #[test]
    fn a_weakened_test_holds_whatever_the_code_does() {
        let kind = DefectKind::WeakenedTest;
        one(
            "tests/a.rs",
            "    assert_eq!(f(1, 2), \"a, b\", \"x\");\n",
            kind,
            "    assert_eq!(f(1, 2), f(1, 2), \"x\");\n",
        );
        one(
            "a.rs",
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    assert!(x, \"no\");\n}\n",
            kind,
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    assert!(x || true, \"no\");\n}\n",
        );
        one(
            "test_a.py",
            "    assert f(1, 2) == \"x\"\n",
            kind,
            "    assert f(1, 2) == \"x\" or True\n",
        );
        one(
            "test_a.py",
            "    self.assertEqual(f(1), 2)\n",
            kind,
            "    self.assertEqual(f(1), f(1))\n",
        );
        one("a.test.ts", "  expect(f(1)).toBe(2);\n", kind, "  expect(f(1)).toBeDefined();\n");
        one(
            "a_test.go",
            "\tif got := f(); got != want {\n",
            kind,
            "\tif got := f(); got != got {\n",
        );
        one("a_test.go", "\tassert.Equal(t, 1, f())\n", kind, "\tassert.Equal(t, 1, 1)\n");
        assert!(damaged("tests/a.rs", "    assert_eq!(a, a);\n", kind).is_empty());
        assert!(damaged("a.rs", "    assert_eq!(a, b);\n", kind).is_empty());
    }

    #[test]
    fn a_secret_is_a_comment_at_the_end_of_a_line_of_code() {
        let kind = DefectKind::Secret;
        let text = damaged("a.py", "x = 1\n", kind).pop().unwrap();
        assert!(
            text.starts_with("x = 1  # token: ghp") && text.len() == 57 && text.ends_with('\n')
        );
        assert!(damaged("a.rs", "// note\n\n/// doc\n", kind).is_empty());
        assert!(damaged("a.py", "x = \"\"\"a\nb\n\"\"\"\n", kind).is_empty());
    }

    #[test]
    fn a_finding_names_a_defect_by_its_file_a_line_near_it_and_its_gravity() {
        let place = places("a.rs", "\n\n    f()?;\n", &[2].into()).remove(0);
        let (defect, _) = plant("a.rs", "\n\n    f()?;\n", &place, 1);
        assert_eq!((defect.line, defect.before.as_str()), (3, "f()?;"));
        let is_found = |finding: &str| {
            let answer = format!("{{\"findings\": [{finding}]}}");
            let review = WorkReview::read(("x", "/"), &answer, |_| true).unwrap();
            defect.is_found(&review, FindingSeverity::Medium)
        };
        assert!(is_found(r#"{"file": "a.rs", "line": 8, "text": "x"}"#));
        for no in [
            r#"{"file": "a.rs", "line": 9, "text": "x"}"#,
            r#"{"file": "b.rs", "line": 3, "text": "x"}"#,
            r#"{"file": "a.rs", "line": 3, "severity": "low", "text": "x"}"#,
            r#"{"file": "a.rs", "text": "x"}"#,
        ] {
            assert!(!is_found(no), "{no}");
        }
    }

    #[test]
    fn defects_are_drawn_of_every_kind_in_turn_and_of_many_changes() {
        use DefectKind::{OffByOne, Secret};
        let all: Vec<_> = (0..4).flat_map(|n| [(OffByOne, n), (Secret, n)]).collect();
        let drawn = draw(&all, 4, 3);
        let kinds: Vec<_> = drawn.iter().map(|at| all[*at].0).collect();
        let changes: BTreeSet<_> = drawn.iter().map(|at| all[*at].1).collect();
        assert_eq!((kinds, changes.len()), (vec![Secret, OffByOne, Secret, OffByOne], 4));
        assert_eq!(draw(&all, 4, 3), drawn);
        assert_eq!((draw(&all, 99, 0).len(), draw(&[], 3, 0).len()), (8, 0));
    }

    fn line() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "if x <= 1 {",
            "    return Err(e);",
            "}",
            "if not x:",
            "    raise E(\"ä, )\")",
            "g()?;",
            "let a = b - 1;",
            "assert_eq!(a, \"é\");",
            "assert a == b",
            "expect(a).toBe(b);",
            "return nil, err",
            "// < x",
            "#[cfg(test)]",
            "mod tests {",
            "\"",
            "'",
            "\"\"\"",
            "/*",
            "*/",
            "",
            "  é = f(\"(\", 1)  ",
            "`${a}`",
            "if got != want {",
            "throw x;",
        ])
    }

    proptest! {
        /// It changes the text at one place, whose lines are new, and does so again.
        #[test]
        fn a_planted_defect_changes_added_lines_at_one_place(
            lines in prop::collection::vec(line(), 0..14),
            added in prop::collection::btree_set(0..14_usize, 0..14),
            path in prop::sample::select(vec!["a.rs", "tests/b.rs", "c.py", "test_c.py", "d.ts", "d.test.js", "e.go", "e_test.go"]),
            end in prop::sample::select(vec!["\n", "\r\n", ""]),
            seed in any::<u64>(),
        ) {
            let text = lines.join(if end.is_empty() { "\n" } else { end }) + end;
            for place in places(path, &text, &added) {
                let (defect, new) = plant(path, &text, &place, seed);
                prop_assert_ne!(&new, &text);
                prop_assert_eq!(&plant(path, &text, &place, seed), &(defect, new.clone()));
                prop_assert!(place.lines.clone().all(|at| added.contains(&at)));
                let (old, new): (Vec<&str>, Vec<&str>) =
                    (text.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
                let (start, gone) = (place.lines.start, place.lines.len());
                prop_assert_eq!(&old[..start], &new[..start]);
                let rest = &old[start + gone..];
                prop_assert_eq!(rest, &new[new.len() - rest.len()..]);
                let put = new.len() - rest.len() - start;
                prop_assert_eq!(put, usize::from(place.kind != DefectKind::RemovedCheck));
            }
        }
    }
}
