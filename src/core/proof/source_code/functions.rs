//! The functions of a source file, found by their words and brackets.

use std::ops::Range;

use super::{
    SourceCode,
    lexer::{Language, is_word},
};

/// The body of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proof) enum Body {
    /// Statements from this offset on.
    Statements(usize),
    /// Statements on lines of their own, from this offset on, which is the start of a line, with the
    /// indentation of the line at the second one.
    Lines(usize, usize),
    /// One expression from here to there, the value of an arrow function.
    Expression(usize, usize),
}

/// A function: its lines, counted from 0, and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::proof) struct FunctionText {
    pub(in crate::proof) lines: Range<usize>,
    pub(in crate::proof) body: Body,
    /// The type of its result, but of scripts; empty without one.
    pub(in crate::proof) result: Range<usize>,
    /// Its name; empty without one.
    pub(in crate::proof) name: String,
    /// Its first parameter, of Python and scripts, if that is a name.
    pub(in crate::proof) parameter: Option<String>,
}

impl SourceCode<'_> {
    /// The functions of the file that are not tests.
    pub(in crate::proof) fn functions(&self) -> Vec<FunctionText> {
        if self.pairs.is_none() {
            return Vec::new();
        }
        let mut found = match self.language {
            Language::Python => self.python(),
            Language::Rust => self.rust(),
            Language::Go => self.go(),
            Language::JavaScript | Language::TypeScript => self.script(),
            Language::Java | Language::C => self.typed(),
        };
        let tests = self.tests();
        found.retain(|function| !tests.iter().any(|test| test.contains(&function.lines.start)));
        found
    }

    fn function(&self, first: usize, open: usize) -> Option<FunctionText> {
        let end = self.pair(open)?;
        let lines = self.line_of(first)..self.line_of(end) + 1;
        let rest = self.line(self.line_of(open))?.end;
        let is_alone = self.next(open + 1).is_none_or(|next| next >= rest);
        let lines_start = self.starts.get(self.line_of(open) + 1).copied();
        let body = match lines_start.filter(|start| is_alone && *start <= end) {
            Some(start) => Body::Lines(start, start),
            None => Body::Statements(open + 1),
        };
        let (name, parameter) = (String::new(), None);
        Some(FunctionText { lines, body, result: 0..0, name, parameter })
    }

    /// The name at an offset; empty if there is none.
    fn name_at(&self, at: usize) -> String {
        let end = (at..self.skeleton.len()).find(|it| !is_word(self.skeleton[*it]));
        self.text.get(at..end.unwrap_or(self.text.len())).unwrap_or_default().to_owned()
    }

    /// The first name between brackets, which a function can return as its value.
    fn parameter(&self, open: usize) -> Option<String> {
        let mut names = self.text.get(open + 1..self.pair(open)?)?.split(',');
        let bare = |it: &str| it.split([':', '=']).next().unwrap_or_default().trim().to_owned();
        let first = names.by_ref().map(bare).find(|it| it != "self" && it != "cls")?;
        let is_name = !first.is_empty() && first.bytes().all(is_word);
        is_name.then_some(first)
    }

    fn rust(&self) -> Vec<FunctionText> {
        let functions = self.words("fn").filter_map(|at| {
            let name = self.next(at + 2).filter(|name| is_word(self.skeleton[*name]))?;
            // The body of a `const fn` is also run by the compiler.
            let start = (0..at).rev().find(|it| b";{}]".contains(&self.skeleton[*it]));
            let before = self.text.get(start.map_or(0, |start| start + 1)..at)?;
            if self.skeleton[name] == b'$' || before.split_whitespace().any(|it| it == "const") {
                return None;
            }
            let (mut open, mut result) = (name, None);
            loop {
                match self.skeleton.get(open)? {
                    b';' => return None,
                    b'{' => break,
                    b'(' | b'[' => open = self.pair(open)?,
                    b'-' if result.is_none() => result = Some(open + 2),
                    _ => {}
                }
                open += 1;
            }
            let mut function = self.function(at, open)?;
            function.name = self.name_at(name);
            let end = self.words("where").find(|it| (name..open).contains(it)).unwrap_or(open);
            function.result = result.map_or(0..0, |start| start..end.max(start));
            // Attributes of the body come first.
            let inner = self.next(open + 1).filter(|it| self.skeleton[*it..].starts_with(b"#!["));
            if let Some(close) = inner.and_then(|it| self.pair(it + 2)) {
                function.body = Body::Statements(close + 1);
            }
            Some(function)
        });
        functions.collect()
    }

    fn go(&self) -> Vec<FunctionText> {
        let functions = self.words("func").filter_map(|at| {
            let (mut open, length) = (at + 4, self.skeleton.len());
            // The receiver of a method, or the parameters of a function without a name.
            let first = self.next(open).filter(|it| self.skeleton[*it] == b'(');
            let first = first.and_then(|it| self.pair(it));
            let named = first.and_then(|it| {
                let name = self.next(it + 1).filter(|it| is_word(self.skeleton[*it]))?;
                let end = (name..length).find(|it| !is_word(self.skeleton[*it]))?;
                (self.skeleton[end] == b'(' && &self.text[name..end] != "func").then_some(end)
            });
            let named = if first.is_some() { named } else { Some(open) };
            let named = named
                .and_then(|name| (name..length).find(|it| b"([".contains(&self.skeleton[*it])));
            let parameters = match named {
                Some(name) => (name..length).find(|it| self.skeleton[*it] == b'('),
                None => self.next(open),
            };
            let result = self.pair(parameters?)? + 1;
            loop {
                match self.skeleton.get(open)? {
                    b'(' | b'[' => open = self.pair(open)?,
                    b'{' if matches!(self.word_before(open), "interface" | "struct") => {
                        open = self.pair(open)?;
                    }
                    b'{' => break,
                    // The type of a function without a body.
                    b'\n' | b',' | b'=' | b')' | b';' | b'}' => return None,
                    _ => {}
                }
                open += 1;
            }
            let function = self.function(at, open)?;
            let name = named
                .and_then(|end| self.previous(end))
                .map_or("", |last| self.word_before(last + 1));
            let name = if name == "func" { "" } else { name }.to_owned();
            Some(FunctionText { result: result..open.max(result), name, ..function })
        });
        functions.collect()
    }

    /// The functions of C and the methods of Java, but no constructors: `type name(…) {`, with the type on the
    /// line of the name or on the line before it.
    fn typed(&self) -> Vec<FunctionText> {
        const MODIFIERS: &str =
            "abstract default extern final inline private protected public static synchronized";
        const NO_TYPES: &str = "case catch class do else for if new record return switch synchronized throw try \
            while";
        let code = &self.skeleton;
        // A header may be C++.
        let is_other =
            ["class", "namespace", "template"].iter().any(|it| self.words(it).next().is_some());
        if self.language == Language::C && is_other {
            return Vec::new();
        }
        let functions = (0..code.len()).filter(|at| code[*at] == b'(').filter_map(|at| {
            let name = self.word_before(at);
            let mut open = self.next(self.pair(at)? + 1)?;
            if self.name_at(open) == "throws" {
                open = (open..code.len()).find(|it| b"{;".contains(&code[*it]))?;
            }
            let end = self.previous(at)? + 1 - name.len();
            let number = self.line_of(end);
            let is_alone = self.next(self.line(number)?.start)? == end;
            let start = self.line(if is_alone { number.checked_sub(1)? } else { number })?.start;
            let before = code[start..end].iter().rposition(|it| b"{};".contains(it));
            let start = before.map_or(start, |at| start + at + 1);
            let mut result = std::str::from_utf8(&code[start..end]).ok()?.trim_start();
            while let Some((first, rest)) = result.split_once([' ', '\n']) {
                if !MODIFIERS.split(' ').any(|it| it == first) && !first.starts_with('@') {
                    break;
                }
                result = rest.trim_start();
            }
            // The parameters of a generic method.
            let generic = result.strip_prefix('<').and_then(|it| it.split_once("> "));
            result = generic.map_or(result, |it| it.1);
            let is_type = result.bytes().all(|it| is_word(it) || b" \n<>[]*,.?&".contains(&it))
                && result.bytes().next().is_some_and(is_word)
                && !result.trim_end().ends_with(',')
                && !result
                    .split_whitespace()
                    .chain([name])
                    .any(|word| NO_TYPES.split(' ').any(|it| it == word));
            let function = self.function(at, open).filter(|_| code[open] == b'{' && is_type)?;
            let result = end - result.len()..end;
            Some(FunctionText { result, name: name.to_owned(), ..function })
        });
        functions.collect()
    }

    fn script(&self) -> Vec<FunctionText> {
        let code = &self.skeleton;
        let arrows = code.windows(2).enumerate().filter(|(_, pair)| pair == b"=>");
        let arrows = arrows.filter_map(|(at, _)| {
            let body = self.next(at + 2)?;
            let first = self.previous(at)?;
            let first = if code[first] == b')' { self.pair(first)? } else { first };
            let word = self.word_before(at);
            let name =
                self.assigned_name(if word.is_empty() { first } else { first + 1 - word.len() });
            let parameter = match word {
                "" => self.parameter(first),
                word => Some(word.to_owned()),
            };
            if code[body] == b'{' {
                return Some(FunctionText { name, parameter, ..self.function(first, body)? });
            }
            let end = self.expression_end(body)?;
            // A type of a function.
            let is_type = self.language == Language::TypeScript && self.is_in_type(first);
            let lines = self.line_of(first)..self.line_of(end.saturating_sub(1)) + 1;
            let body = Body::Expression(body, end);
            (!is_type).then_some(FunctionText { lines, body, result: 0..0, name, parameter })
        });
        let bodies = (0..code.len()).filter(|at| code[*at] == b'(').filter_map(|at| {
            let close = self.pair(at)?;
            let mut open = self.next(close + 1)?;
            let name = self.word_before(at);
            let is_generic =
                self.previous(at).is_some_and(|it| code[it] == b'>' || code[it] == b']');
            let is_control =
                matches!(name, "if" | "for" | "while" | "switch" | "catch" | "with" | "await");
            if is_control || (name.is_empty() && !is_generic && !self.is_after_star(at)) {
                return None;
            }
            if code[open] == b':' && self.language == Language::TypeScript {
                let line = self.line(self.line_of(at))?.start;
                let before = self.text.get(line..at)?;
                let is_method = before
                    .split_whitespace()
                    .all(|it| it.bytes().all(|byte| is_word(byte) || b"*#<>,".contains(&byte)));
                if !is_method || before.split_whitespace().any(|it| it == "return" || it == "case")
                {
                    return None;
                }
                open = self.type_end(open + 1)?;
            }
            let function = self.function(at, open).filter(|_| code[open] == b'{')?;
            let is_named = !matches!(name, "" | "function");
            let name = if is_named { name.to_owned() } else { self.assigned_name(at) };
            Some(FunctionText { name, parameter: self.parameter(at), ..function })
        });
        let mut functions: Vec<FunctionText> = arrows.chain(bodies).collect();
        functions.sort_by_key(|it| (it.lines.start, it.lines.end));
        functions
    }

    /// The name that the function is assigned to whose text starts here.
    fn assigned_name(&self, first: usize) -> String {
        let line = self.line(self.line_of(first)).map_or(0, |line| line.start);
        let before = self.text.get(line..first).unwrap_or_default().trim_end();
        let before = ["function", "async"].iter().fold(before, |it, word| {
            it.trim_end_matches('*').strip_suffix(word).unwrap_or(it).trim_end()
        });
        let name = before.strip_suffix(['=', ':']).unwrap_or_default().trim_end();
        let start = name.rfind(|c: char| !(c.is_alphanumeric() || "_$".contains(c)));
        let (around, name) = name.split_at(start.map_or(0, |at| at + 1));
        // A colon may also belong to a choice.
        let is_key = around.trim_end().chars().next_back().is_none_or(|c| "{,".contains(c));
        if before.ends_with(':') && !is_key { String::new() } else { name.to_owned() }
    }

    /// Whether `(` comes after the `*` or the word of a function without a name.
    fn is_after_star(&self, at: usize) -> bool {
        self.previous(at)
            .is_some_and(|it| self.skeleton[it] == b'*' && self.word_before(it) == "function")
    }

    /// The offset of the `{` after the type of what a function returns.
    fn type_end(&self, from: usize) -> Option<usize> {
        let mut at = self.next(from)?;
        loop {
            match self.skeleton.get(at)? {
                b'{' if at != self.next(from)? && {
                    let before = self.previous(at)?;
                    !b"|&:<,=".contains(&self.skeleton[before])
                        && !self.skeleton[..=before].ends_with(b"=>")
                } =>
                {
                    return Some(at);
                }
                b'(' | b'[' | b'{' => at = self.pair(at)?,
                b';' | b'}' | b')' => return None,
                _ => {}
            }
            at += 1;
        }
    }

    /// Whether an arrow belongs to a type and not to a function.
    fn is_in_type(&self, first: usize) -> bool {
        let line = self.line(self.line_of(first)).map_or(0, |line| line.start);
        let words = self.text.get(line..first).unwrap_or_default().trim_start();
        let words = words.strip_prefix("export ").unwrap_or(words);
        let is_declared =
            ["type ", "interface ", "declare "].iter().any(|it| words.starts_with(it));
        let before = self.previous(first).map_or(b' ', |before| self.skeleton[before]);
        is_declared || b":|&<".contains(&before)
    }

    /// The offset after the expression that starts here.
    fn expression_end(&self, start: usize) -> Option<usize> {
        let code = &self.skeleton;
        let (mut at, mut choices) = (start, 0);
        while at < code.len() {
            match code[at] {
                b'(' | b'[' | b'{' => at = self.pair(at)?,
                b'?' if matches!(code.get(at + 1), Some(b'.' | b'?')) => at += 1,
                b'?' => choices += 1,
                b':' if choices == 0 => break,
                b':' => choices -= 1,
                b',' | b';' | b')' | b']' | b'}' => break,
                b'\n' => {
                    let last = code[self.previous(at)?];
                    let goes_on = b".?:+-*/%&|<>=,([{!~^".contains(&last)
                        || self.next(at).is_some_and(|it| b".?:+-*/%&|<>=^".contains(&code[it]));
                    if !goes_on {
                        break;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        let last = self.previous(at)?;
        let end = self.string_at(last).map_or(last + 1, |string| string.end);
        (end > start).then_some(end)
    }

    fn python(&self) -> Vec<FunctionText> {
        let functions = self.words("def").filter_map(|at| {
            let number = self.line_of(at);
            let line = self.line(number)?;
            let words = self.text.get(line.start..at)?;
            if !matches!(words.trim(), "" | "async") {
                return None;
            }
            let indent = words.len() - words.trim_start().len();
            let name = self.name_at(self.next(at + 3)?);
            let (mut colon, mut parameters, mut result) = (at, None, None);
            loop {
                match self.skeleton.get(colon)? {
                    b':' => break,
                    b'(' if parameters.is_none() => {
                        parameters = Some(colon);
                        colon = self.pair(colon)?;
                    }
                    b'(' | b'[' | b'{' => colon = self.pair(colon)?,
                    b'-' => result = Some(colon + 2),
                    _ => {}
                }
                colon += 1;
            }
            let result = result.map_or(0..0, |start| start..colon);
            let parameter = parameters.and_then(|open| self.parameter(open));
            let last = self.python_end(self.line_of(colon), indent);
            let mut first = number;
            while first > 0 && self.text[self.line(first - 1)?].trim_start().starts_with('@') {
                first -= 1;
            }
            let lines = first..last + 1;
            let body = self.next(colon + 1)?;
            if self.line_of(body) == self.line_of(colon) {
                let body = Body::Statements(colon + 1);
                return Some(FunctionText { lines, body, result, name, parameter });
            }
            let body = Body::Lines(self.after_docstring(body), body);
            Some(FunctionText { lines, body, result, name, parameter })
        });
        functions.collect()
    }

    /// The last line of the block below a line with this indentation.
    fn python_end(&self, line: usize, indent: usize) -> usize {
        let (mut last, mut bracket_end) = (line, 0);
        for number in line + 1..self.starts.len() {
            let Some(range) = self.line(number) else { break };
            let Some(first) = self.next(range.start).filter(|first| *first < range.end) else {
                continue;
            };
            if first - range.start <= indent && range.start >= bracket_end {
                break;
            }
            last = number;
            let opened = (first..range.end).filter_map(|at| self.pair(at));
            bracket_end = opened.fold(bracket_end, usize::max);
        }
        last
    }
}
