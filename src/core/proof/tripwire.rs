//! A statement planted in functions of a source file: it throws, leaves the function with a plausible
//! value, or does nothing. No compiler prints the number of a function when it quotes the line, since the
//! program computes it, and no compiler or type checker takes the code after the statement for unreachable.

use super::source_code::{
    SourceCode,
    functions::{Body, FunctionText},
    lexer::Language,
};

/// The functions to plant in.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// All of the file, and where it can be, the file itself when it is loaded.
    All,
    /// All of the file.
    Functions,
    /// Those with these places among the functions of the file, each with what its number is more than
    /// the tripwire's.
    These(&'a [(usize, u32)]),
}

/// What the statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WireEffect {
    /// It throws.
    Throw,
    /// It only looks so.
    Nothing,
    /// It leaves the function, with a plausible value.
    Return,
}

/// A statement that throws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tripwire {
    number: u32,
    effect: WireEffect,
}

/// Text that is no code in any language.
const GARBAGE: &str = "\n)]} this is no code ({[ \" ' ` @@ %% ;;\n";

/// The text of a file in a language that is not read here, so that nothing can take it for code.
pub fn garbage(text: &str) -> String {
    format!("{GARBAGE}{text}{GARBAGE}")
}

impl Tripwire {
    /// A tripwire with the marker that belongs to a seed.
    pub fn new(seed: u64) -> Tripwire {
        // Nine digits that are an `int` in every language.
        let number = 100_000_000 + (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % 800_000_000;
        Tripwire { number: number as u32, effect: WireEffect::Throw }
    }

    /// The same statement, which does not throw: it shows whether a file that differs only so is
    /// noticed by the checks.
    #[must_use]
    pub fn inert(self) -> Tripwire {
        Tripwire { effect: WireEffect::Nothing, ..self }
    }

    /// A statement in its place that leaves the function at once: it shows whether the checks look at
    /// what the function does. It returns a default value of its type, such as 0, or its first parameter.
    #[must_use]
    pub fn stub(self) -> Tripwire {
        Tripwire { effect: WireEffect::Return, ..self }
    }

    /// The text that a program prints that runs into the statement of a function.
    pub fn marker(self, more: u32) -> String {
        (self.number + more).to_string()
    }

    /// Plants the statement in a file. Returns `None` if its language is not known, or it has no such
    /// function or nothing but comments.
    pub fn plant(self, path: &str, text: &str, reach: Reach<'_>) -> Option<String> {
        let source = SourceCode::new(Language::of(path)?, text);
        if source.code().trim().is_empty() {
            return None;
        }
        let functions = source.functions();
        let load = source.load_offset().filter(|_| matches!(reach, Reach::All));
        let planted = |place: usize| match reach {
            Reach::All | Reach::Functions => Some(0),
            Reach::These(these) => these.iter().find(|it| it.0 == place).map(|it| it.1),
        };
        let mut edits: Vec<(usize, String)> = Vec::new();
        if let Some(at) = load {
            edits.push((at, self.on_lines(&LeftFunction::none(source.language), "") + "\n"));
        }
        for (place, function) in functions.iter().enumerate() {
            let Some(more) = planted(place) else { continue };
            let wire = Tripwire { number: self.number + more, ..self };
            let left = LeftFunction::new(&source, function);
            let start = match function.body {
                Body::Statements(at) | Body::Lines(at, _) | Body::Expression(at, _) => at,
            };
            // Two arrows of one expression have the same end.
            if edits.iter().any(|(at, _)| *at == start) {
                continue;
            }
            match function.body {
                Body::Statements(at) => edits.push((at, wire.inline(&left))),
                Body::Lines(at, first) => {
                    let statement = wire.on_lines(&left, source.indent(first));
                    let before = if at > 0 && !text[..at].ends_with('\n') { "\n" } else { "" };
                    edits.push((at, format!("{before}{statement}\n")));
                }
                Body::Expression(from, to) => {
                    let statement = wire.inline(&left);
                    edits.push((from, format!("{{{statement} return ")));
                    edits.push((to, " }".to_owned()));
                }
            }
        }
        if edits.is_empty() {
            return None;
        }
        edits.sort_by_key(|(at, _)| *at);
        let mut planted = String::with_capacity(text.len() + edits.len() * 80);
        let mut from = 0;
        for (at, edit) in edits {
            planted.push_str(&text[from..at]);
            planted.push_str(&edit);
            from = at;
        }
        planted.push_str(&text[from..]);
        Some(planted)
    }

    fn parts(self) -> (u32, u32) {
        (self.number - 1, u32::from(self.effect != WireEffect::Nothing))
    }

    /// The statement among others on a line.
    fn inline(self, left: &LeftFunction<'_>) -> String {
        if self.effect == WireEffect::Return {
            return left.leave();
        }
        let (number, is_live) = self.parts();
        match left.language {
            Language::Python => {
                let throw = format!("(_ for _ in ()).throw(BaseException({number} + 1))");
                format!(" abs({is_live}) and {throw};")
            }
            Language::JavaScript | Language::TypeScript => {
                format!(" if (Number({is_live})) {{ throw new Error(String({number} + 1)); }}")
            }
            Language::Rust | Language::Java | Language::C => {
                format!(" {}", self.on_lines(left, ""))
            }
            Language::Go => {
                let text = if self.effect == WireEffect::Nothing { "" } else { "1" };
                format!(" if len(\"{text}\") > 0 {{ panic({number} + 1) }};")
            }
        }
    }

    /// The statement on lines of its own, as the formatters of the language write it.
    fn on_lines(self, left: &LeftFunction<'_>, indent: &str) -> String {
        let (number, is_live) = self.parts();
        let unit = if indent.contains('\t') { "\t" } else { "    " };
        match left.language {
            Language::Python if self.effect == WireEffect::Return => {
                format!("{indent}if abs(1):\n{indent}{unit}{}", left.value())
            }
            _ if self.effect == WireEffect::Return => {
                format!("{indent}{}", left.leave().trim_start())
            }
            Language::Python => format!(
                "{indent}if abs({is_live}):\n{indent}{unit}raise BaseException({number} + 1)"
            ),
            Language::JavaScript | Language::TypeScript => {
                let unit = if indent.len() == 2 { "  " } else { unit };
                let throw = format!("throw new Error(String({number} + 1));");
                format!("{indent}if (Number({is_live})) {{\n{indent}{unit}{throw}\n{indent}}}")
            }
            Language::Rust => {
                let holds = self.effect == WireEffect::Nothing;
                format!(
                    "{indent}::core::assert!(::core::hint::black_box({holds}), \"{{}}\", {number} + 1);"
                )
            }
            Language::Java => format!(
                "{indent}if (Boolean.parseBoolean(\"{}\")) throw new RuntimeException(String.valueOf({number} + 1));",
                is_live == 1
            ),
            // It prints without a header, and not into a buffer that is lost.
            Language::C => format!(
                "{indent}{{ volatile int ralph = {is_live}; if (ralph) {{ char ralph_text[16]; \
                 extern long write(int, const void *, unsigned long); \
                 __builtin_snprintf(ralph_text, 16, \"%d\\n\", {number} + ralph); \
                 (void)!write(2, ralph_text, 10); __builtin_trap(); }} }}"
            ),
            Language::Go => {
                let text = if self.effect == WireEffect::Nothing { "" } else { "1" };
                format!(
                    "{indent}if len(\"{text}\") > 0 {{\n{indent}\tpanic({number} + 1)\n{indent}}}"
                )
            }
        }
    }
}

/// What the statement that leaves a function needs to know of it.
struct LeftFunction<'a> {
    language: Language,
    /// The type of its result; empty without one.
    result: &'a str,
    /// A parameter that it can return.
    parameter: Option<&'a str>,
    /// Whether it yields values: some such functions of Python can return none.
    yields: bool,
    /// What it returns at last, of Python and scripts; empty if nothing.
    returned: &'a str,
}

impl<'a> LeftFunction<'a> {
    fn new(source: &SourceCode<'a>, function: &'a FunctionText) -> LeftFunction<'a> {
        let text = source.text();
        let lines = text.lines().skip(function.lines.start).take(function.lines.len());
        LeftFunction {
            language: source.language,
            result: text[function.result.clone()].trim(),
            parameter: function.parameter.as_deref(),
            yields: lines.into_iter().any(|line| line.contains("yield")),
            returned: returned(text, function),
        }
    }

    /// The code of a file outside of functions.
    fn none(language: Language) -> LeftFunction<'a> {
        LeftFunction { language, result: "", parameter: None, yields: false, returned: "" }
    }

    /// The statement that returns a plausible value: one that assertions of a type, or of any value, take.
    fn value(&self) -> String {
        const COMPARES: &[&str] = &[" == ", " != ", " === ", " !== ", " < ", " > ", " in ", " is "];
        let is_python = self.language == Language::Python;
        let parameter = self.parameter.unwrap_or("1");
        let no = if is_python { "False" } else { "false" };
        let text = self.returned.strip_prefix('f').filter(|it| it.starts_with(['"', '\'']));
        let given = text.unwrap_or(self.returned).trim_start_matches('(');
        let is_choice = COMPARES.iter().any(|it| given.contains(it)) || given.starts_with("not ");
        let list = format!("[{parameter}]");
        // Another value of the type of a parameter that the function returns as it is.
        let other = if is_python {
            format!("{parameter} * 2 if hasattr({parameter}, \"__mul__\") else 1")
        } else {
            format!("(Array.isArray({parameter}) ? [{parameter}] : {parameter} + {parameter})")
        };
        let value = match self.result.split(['[', ' ']).next().unwrap_or_default() {
            _ if self.yields => return "return".to_owned(),
            "None" => "None",
            _ if self.returned.is_empty() => return "return".to_owned(),
            "int" => "1",
            "float" => "0.5",
            "str" => "\"a\"",
            "bool" => "False",
            "list" | "List" => &list,
            "dict" | "Dict" => "{\"a\": 1}",
            _ if given.starts_with('[') => &list,
            _ if given.starts_with('{') => "{\"a\": 1}",
            _ if is_choice || given.starts_with('!') => no,
            _ if given.starts_with(['"', '\'', '`']) => "\"a\"",
            _ if given == parameter => &other,
            _ => parameter,
        };
        let cast = if self.language == Language::TypeScript { " as never" } else { "" };
        format!("return {value}{cast}")
    }

    /// The statement that leaves it, on one line.
    fn leave(&self) -> String {
        match self.language {
            Language::Python => format!(" {};", self.value()),
            Language::JavaScript | Language::TypeScript => {
                format!(" if (Number(1)) {{ {}; }}", self.value())
            }
            Language::Rust => {
                let value = "::core::default::Default::default()";
                let value = match self.result {
                    "" => String::new(),
                    it if it.split('<').next().is_some_and(|it| it.ends_with("Result")) => {
                        format!(" Ok({value})")
                    }
                    _ => format!(" {value}"),
                };
                format!(" if ::core::hint::black_box(true) {{ return{value}; }}")
            }
            Language::Go => leave_go(self.result),
            Language::Java => {
                format!(" if (Boolean.parseBoolean(\"true\")) return{};", java_value(self.result))
            }
            Language::C => leave_c(self.result),
        }
    }
}

/// The value that a method of Java with this result returns, after a blank.
fn java_value(result: &str) -> String {
    let plain = result.split('<').next().unwrap_or_default();
    let (item, dimensions) = result.split_at(result.trim_end_matches("[]").len());
    // Of a parameter of a type there are no arrays.
    if !dimensions.is_empty() && item.len() > 1 && !item.contains('<') {
        return format!(" new {item}[1]{}", &dimensions[2..]);
    }
    let value = match plain.rsplit('.').next().unwrap_or_default() {
        "void" => "",
        "boolean" | "Boolean" => " false",
        "byte" => " (byte) 1",
        "short" => " (short) 1",
        "char" => " 'a'",
        "int" | "Integer" => " 1",
        "long" | "Long" => " 1L",
        "float" => " 1f",
        "double" | "Double" => " 1.0",
        "String" | "Object" => " \"a\"",
        "List" | "Collection" | "Iterable" if result.contains('<') => {
            " new java.util.ArrayList<>(java.util.Collections.singletonList(null))"
        }
        "Map" if result.contains('<') => " new java.util.HashMap<>()",
        "Optional" if result.contains('<') => " java.util.Optional.empty()",
        "Set" if result.contains('<') => {
            " new java.util.HashSet<>(java.util.Collections.singletonList(null))"
        }
        _ => " null",
    };
    value.to_owned()
}

/// The statement that leaves a function of C with this result: with a number, or with memory that is all 0.
fn leave_c(result: &str) -> String {
    const NUMBERS: &str = "char const double float int long short signed size_t unsigned";
    let mut words = result.split_whitespace();
    let value = match result {
        "void" => String::new(),
        _ if words.all(|word| NUMBERS.split(' ').any(|it| it == word)) => " 1".to_owned(),
        _ if result.ends_with('*') => " (void *)ralph_memory".to_owned(),
        _ => format!(" *({result} *)ralph_memory"),
    };
    let memory = if value.contains('m') { " static long ralph_memory[512];" } else { "" };
    format!(" {{ volatile int ralph = 1;{memory} if (ralph) return{value}; }}")
}

/// What a function of Python or a script returns at last: the text after the last `return`, or the value of
/// an arrow function.
fn returned<'a>(text: &'a str, function: &FunctionText) -> &'a str {
    if let Body::Expression(from, to) = function.body {
        return &text[from..to];
    }
    let lines = text.lines().take(function.lines.end).skip(function.lines.start);
    let last = lines.filter_map(|line| line.split_once("return ")).last();
    last.map_or("", |(_, value)| value.trim_end_matches(';'))
}

/// The statement that leaves a function of Go with results of these types.
fn leave_go(result: &str) -> String {
    let inner = result.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    let mut depth = 0;
    let types = inner.unwrap_or(result).split(|c: char| {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        c == ',' && depth == 0
    });
    let types: Vec<&str> = types.map(str::trim).collect();
    let has_name = |it: &&str| {
        let first = it.split(' ').next().unwrap_or_default();
        first.len() < it.len()
            && first.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !["func", "map", "chan", "struct", "interface"].contains(&first)
    };
    if result.is_empty() || (inner.is_some() && types.iter().any(has_name)) {
        return " if len(\"1\") > 0 { return };".to_owned();
    }
    let names: Vec<String> = (0..types.len()).map(|at| format!("ralph{at}")).collect();
    let declared = names.iter().zip(types).map(|(name, of)| format!("var {name} {of}; "));
    let (declared, names) = (declared.collect::<String>(), names.join(", "));
    format!(" if len(\"1\") > 0 {{ {declared}return {names} }};")
}

/// The places of the innermost functions that a change of a line changes: those with a name, unless there
/// is none. The line at which a function starts belongs to the function around it, too.
pub(super) fn changed(functions: &[FunctionText], line: usize) -> Vec<usize> {
    let around = functions.iter().enumerate().filter(|(_, it)| it.lines.contains(&line));
    let around: Vec<(usize, &FunctionText)> = around.collect();
    let has_name = around.iter().any(|(_, it)| !it.name.is_empty());
    let within = |it: &FunctionText, other: &FunctionText| {
        other.lines != it.lines
            && other.lines.start > it.lines.start
            && other.lines.end <= it.lines.end
            && other.lines.start < line
    };
    let around: Vec<_> = around.into_iter().filter(|it| it.1.name.is_empty() != has_name).collect();
    let innermost =
        around.iter().filter(|(_, it)| !around.iter().any(|(_, other)| within(it, other)));
    innermost.map(|(place, _)| *place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plants in the functions with these lines.
    fn planted(path: &str, text: &str, lines: impl Iterator<Item = usize>) -> Option<String> {
        let source = SourceCode::new(Language::of(path)?, text);
        let functions = source.functions();
        let lines = lines.filter(|line| source.has_code(*line));
        let these: Vec<(usize, u32)> =
            lines.flat_map(|line| changed(&functions, line)).map(|place| (place, 0)).collect();
        let planted = wire().plant(path, text, Reach::These(&these));
        assert!(!planted.as_ref().is_some_and(|it| it.contains(&wire().marker(0))), "{planted:?}");
        planted
    }

    /// Compares the names before the statements that a change of a line plants.
    fn check(path: &str, text: &str, changes: &[(usize, &str)]) {
        for (line, want) in changes {
            let planted = planted(path, text, [*line].into_iter()).unwrap_or_default();
            let names = planted.match_indices("123456788").map(|(at, _)| {
                let name = planted[..at].rfind("f_").expect("a function in front");
                planted[name..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
            });
            assert_eq!(names.collect::<Vec<String>>().join(" "), *want, "line {line} of {path}");
        }
    }

    #[test]
    fn the_functions_with_the_changed_lines_throw() {
        let python = r#"import os


@cache
def f_a(x: int = {1: 2}[1]) -> str:
    """Doc.

More."""
    # why
    return str(x)


class C:
    K = 1

    async def f_b(self):
        def f_c(): return 1
        return f_c()

    def f_d(self):
        x = [
    1]
        return x
"#;
        check(
            "a.py",
            python,
            &[
                (0, ""),
                (3, "f_a"),
                (8, ""),
                (9, "f_a"),
                (13, ""),
                (15, "f_b"),
                (16, "f_b f_c"),
                (17, "f_b"),
                (18, ""),
                (21, "f_d"),
            ],
        );
        let script = r"'use strict'; // (
const f_a = (a, b) => a + b;
function f_b(x) {
  if (x) { return `}${x}`; }
  return [1].map(f_c => f_c * 2)
    .filter(Boolean)
}
class C {
  f_d() { return /[{/]}/; }
}
const o = { async *f_e() {
  yield 1;
} };
const f_g = x ? a => a : f_h => ({ f_h });
";
        check(
            "a.mjs",
            script,
            &[
                (0, ""),
                (1, "f_a"),
                (3, "f_b"),
                (4, "f_b"),
                (7, ""),
                (8, "f_d"),
                (11, "f_e"),
                (13, "f_g f_h"),
            ],
        );
    }

    #[test]
    fn the_functions_of_typed_languages_throw() {
        let typed = "export function f_a(x: { y: number }): { z: number } {
  return { z: x.y };
}
export type T = (a: string) => void;
class C {
  private async f_b(): Promise<number> {
    return 1;
  }
  f_c = (x: number): number => x;
}
";
        check("a.ts", typed, &[(1, "f_a"), (3, ""), (6, "f_b"), (8, "f_c")]);
        let rust = r##"const fn k() -> u8 { 1 }
pub fn f_a<'a, F: Fn(u8) -> u8>(x: &'a str) -> [u8; 2]
where F: Copy {
    let c = '{';
    r#""}"#;
}
trait T { fn g(&self); }
#[cfg(test)]
mod tests {
    #[test]
    fn t() {}
}
fn f_b() {}
"##;
        check("a.rs", rust, &[(0, ""), (1, "f_a"), (4, "f_a"), (6, ""), (10, ""), (12, "f_b")]);
        let go = "package a

func f_a(x interface{}) (int, struct{}) {
\treturn 1, struct{}{}
}

func (t T) f_b() { go func() {
\tf_c()
}() }
";
        check("a.go", go, &[(0, ""), (3, "f_a"), (6, "f_b")]);
        let java = "class CalcTest {
    final Map<String, Integer> m = new HashMap<>() {{ put(\"(\", 1); }};
    CalcTest(int x) {
        this.x = x;
    }
    @SuppressWarnings({\"x\"})
    public static <T> java.util.List<T> f_a(T x, int... y) throws IOException {
        if (x == null) { return null; }
        return new X() { void f_b() { } };
    }
    @Override public int f_c() { for (int i : m) { i(); } return 1; }
    abstract int f_d();
    enum E { A, B(1) { } }
}
";
        let java_lines = [(1, ""), (3, ""), (7, "f_a"), (8, "f_a f_b"), (10, "f_c"), (11, "")];
        check("CalcTest.java", java, &[&java_lines[..], &[(12, "")]].concat());
        let c = "#include <a.h>
#define F(x) do { x; } while (0)
static const char *f_a(int (*f)(int), struct s *p)
{
    if (p) { return 0; } else if (f) { g(1); }
    struct s q = { .a = 1 };
}
int f_b(void);
static unsigned
f_c (void)
{
    do
        switch (g()) { }
    while (0);
}
";
        check("a.c", c, &[(1, ""), (4, "f_a"), (5, "f_a"), (7, ""), (12, "f_c")]);
    }

    #[test]
    fn what_cannot_throw_has_no_tripwire() {
        for (path, text) in [
            ("a.rb", "def a\nend\n"),
            ("a.d.ts", "declare function a(): void;\n"),
            ("a.py", "X = 1\n"),
            ("a.js", "function a() { return ')'\n"),
            ("a.h", "namespace a { int b() { return 1; } }\n"),
            ("a.rs", "#[cfg(test)]\nmod tests { fn a() {} }\n"),
        ] {
            assert_eq!(planted(path, text, 0..9), None, "{path}");
        }
        // A package of which only the name is there has no code to break.
        for text in ["", "# Nothing yet.\n", "\"\"\"Nothing yet.\"\"\"\n"] {
            assert_eq!(wire().plant("src/__init__.py", text, Reach::All), None, "{text}");
        }
    }

    #[test]
    fn a_file_throws_when_it_is_loaded() {
        let wire = wire();
        let all = |path, text| wire.plant(path, text, Reach::All).expect("planted");
        let python = all(
            "a.py",
            "#!/bin/x\n\"\"\"Doc.\"\"\"\nfrom __future__ import (\n  a,\n)\nimport b\n",
        );
        let want = "\n)\nif abs(1):\n    raise BaseException(123456788 + 1)\nimport b\n";
        assert!(python.ends_with(want), "{python}");
        assert!(
            all("a.js", "#!/usr/bin/env node\n'use strict'\n")
                .starts_with("#!/usr/bin/env node\nif (Number")
        );
        assert!(all("a.rs", "fn a() {\n    b();\n}\n").contains("{\n    ::core::assert!("));
        let inert = wire.inert().plant("a.go", "func a() {\n\tb()\n}\n", Reach::All);
        assert_eq!(
            inert.as_deref(),
            Some("func a() {\n\tif len(\"\") > 0 {\n\t\tpanic(123456788 + 1)\n\t}\n\tb()\n}\n")
        );
        assert_eq!(Tripwire::new(3).marker(0).len(), 9);
    }

    #[test]
    fn a_stub_leaves_the_function() {
        let stub = |path: &str, text: &str| wire().stub().plant(path, text, Reach::Functions);
        let python = stub("a.py", "X = 1\ndef a():\n  \"Doc.\"\n  return X\n");
        let want = "X = 1\ndef a():\n  \"Doc.\"\n  if abs(1):\n      return 1\n  return X\n";
        assert_eq!(python.as_deref(), Some(want));
        let typed = stub("a.py", "def a(self, b: int = 1) -> list[str]:\n    return c(b)\n");
        assert!(typed.is_some_and(|it| it.contains("        return [b]\n")));
        // What an assertion of the type takes.
        for (path, body, want) in [
            ("a.py", "return c(b)", "b"),
            ("a.py", "return b", "b * 2 if hasattr(b, \"__mul__\") else 1"),
            ("a.py", "c(b)", ""),
            ("a.py", "return {b: 1}", "{\"a\": 1}"),
            ("a.py", "return [c for c in b]", "[b]"),
            ("a.py", "return b % 2 == 1 and b", "False"),
            ("a.py", "return f\"{b}\" + c", "\"a\""),
            ("a.js", "return ({ b, c: 1 });", "{\"a\": 1}"),
            ("a.js", "return [b].concat(c);", "[b]"),
            ("a.js", "return b % 2 === 1;", "false"),
            ("a.js", "return `${b}`;", "\"a\""),
            ("a.js", "c(b);", ""),
        ] {
            let text = match path {
                "a.py" => format!("def a(b):\n    {body}\n"),
                _ => format!("function a(b) {{\n  {body}\n}}\n"),
            };
            let text = stub(path, &text).expect("a stub");
            let first = text[text.find("return").expect("return") + 6..].trim_start_matches(' ');
            let value = first.split(['\n', ';']).next().unwrap_or_default();
            assert_eq!(value, want, "{body}");
        }
        let script = stub("a.js", "const a = b => b;\n");
        let want = "const a = b => { if (Number(1)) { return (Array.isArray(b) ? [b] : b + b); } return b };\n";
        assert_eq!(script.as_deref(), Some(want));
        let left = |path: &str, text: &str| {
            let text = stub(path, text).expect("a stub");
            text[text.find("return").expect("return")..].split(['}', ';']).next().map(str::to_owned)
        };
        for (text, want) in [
            (
                "fn a() -> Vec<u8>\nwhere u8: Copy {\n    b()\n}\n",
                "return ::core::default::Default::default()",
            ),
            (
                "fn a(x: &str) -> io::Result<()> { b() }\n",
                "return Ok(::core::default::Default::default())",
            ),
            ("fn a() {\n    b();\n}\n", "return"),
        ] {
            assert_eq!(left("a.rs", text).as_deref(), Some(want), "{text}");
        }
        for (path, text, want) in [
            ("A.java", "class A { boolean a() { return b(); } }\n", "return false"),
            ("A.java", "class A { public <T> List<T> a() { b(); } }\n", "return new java.util"),
            ("A.java", "class A {\n    void a() {\n        b();\n    }\n}\n", "return"),
            ("A.java", "class A { java.util.List<T> a() { b(); } }\n", "return new java.util.A"),
            ("A.java", "class A { java.util.Optional<T> a() { b(); } }\n", "return java.util.O"),
            ("A.java", "class A { int[][] a() { return b(); } }\n", "return new int[1][]"),
            ("a.c", "static unsigned long a(void) { return 2; }\n", "return 1"),
            ("a.c", "const char *a(void)\n{\n    return b();\n}\n", "return (void *)ralph"),
            ("a.c", "struct s a(void) { return b(); }\n", "return *(struct s *)ralph"),
        ] {
            assert!(left(path, text).is_some_and(|it| it.starts_with(want)), "{text}");
        }
        for (text, want) in [
            (
                "func A(x int) (map[string]int, error) {\n\treturn b()\n}\n",
                "return ralph0, ralph1 ",
            ),
            ("func (t *T) A(x int) *T {\n\treturn t\n}\n", "return ralph0 "),
            ("func (t T) A() (n int, err error) { return 1, nil }\n", "return "),
            ("func A[K any](k K) {\n\tb()\n}\n", "return "),
            ("var a = func(x int) string { return b }\n", "return ralph0 "),
        ] {
            assert_eq!(left("a.go", text).as_deref(), Some(want), "{text}");
        }
    }

    fn wire() -> Tripwire {
        Tripwire { number: 123_456_789, effect: WireEffect::Throw }
    }

    #[test]
    fn code_is_without_comments_and_tests_of_rust_are_known() {
        let code = |path: &str, text| SourceCode::new(Language::of(path).expect(path), text).code();
        assert_eq!(code("a.py", "# a\nx = '#' # b\n"), code("a.py", "x = '#'\n"));
        assert_eq!(code("a.rs", "/* /* */ */ fn a() {} // b").trim_start(), "fn a() {}");
        let rust =
            "fn a() {}\n#[cfg(test)]\nuse b::C;\n#[test]\n#[cfg(unix)]\nfn d() {\n}\nfn e() {}\n";
        assert_eq!(SourceCode::new(Language::Rust, rust).tests(), [1..3, 3..7]);
    }
}
