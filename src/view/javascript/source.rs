//! Source text as CouchDB takes it, turned into standard JavaScript.
//!
//! A view's function is written as a function without a name that stands alone, which standard
//! JavaScript has no statement for: a name must follow `function` where a statement begins.
//! CouchDB's engine takes such a statement for an expression. Here it is put in parentheses:
//!
//! ```text
//!   // comment
//!   function(doc) { ... } function(doc) { ... }      as written
//!   // comment
//!   ;(function(doc) { ... });  ;(function(doc) { ... });      as evaluated: the last one counts
//! ```
//!
//! Invariant: nothing but such statements at the outermost level is touched, and no line moves.

use std::borrow::Cow;

use crate::mark;

/// Words behind which an expression must follow, so that `/` begins a regular expression and
/// `function` no statement.
const OPERATOR_WORDS: [&[u8]; 14] = [
    b"return",
    b"typeof",
    b"case",
    b"in",
    b"of",
    b"delete",
    b"void",
    b"throw",
    b"new",
    b"instanceof",
    b"do",
    b"else",
    b"yield",
    b"await",
];

/// Words whose parentheses are followed by a statement.
const HEAD_WORDS: [&[u8]; 4] = [b"if", b"while", b"for", b"with"];

/// `source` with its nameless function statements in parentheses.
///
/// What cannot be told apart without parsing is left to the compiler, which refuses it. Time is
/// linear.
// spec: JS-2
pub(super) fn with_expressions(source: &str) -> Cow<'_, str> {
    let mut scanner = Scanner::new(source.as_bytes());
    // Where the statement at hand begins, while its end is being looked for.
    let mut begun = None;
    // Offsets, ascending, with what is put in there.
    let mut insertions: Vec<(usize, &str)> = Vec::new();
    let mut before = Before::default();
    while let Some(token) = scanner.token(&before) {
        let word = source.as_bytes().get(token.from..scanner.at).unwrap_or_default();
        let is_outermost = scanner.open.is_empty();
        if begun.is_none()
            && is_outermost
            && word == b"function"
            && before.ends_statement(token.on_new_line)
            && scanner.next_is_parenthesis()
        {
            begun = Some(token.from);
            insertions.push((token.from, ";("));
        }
        if begun.is_some() && is_outermost && word == b"}" {
            begun = None;
            insertions.push((scanner.at, ");"));
            if mark::planted("js-first-function-counts") {
                return Cow::Owned(put_in(source.get(..scanner.at).unwrap_or(source), &insertions));
            }
        }
        before = token.kind;
    }
    if insertions.is_empty() {
        return Cow::Borrowed(source);
    }
    Cow::Owned(put_in(source, &insertions))
}

fn put_in(source: &str, insertions: &[(usize, &str)]) -> String {
    let mut text = String::with_capacity(source.len() + 2 * insertions.len());
    let mut from = 0;
    for &(at, piece) in insertions {
        // Both ends are those of ASCII tokens.
        text.push_str(source.get(from..at).unwrap_or_default());
        text.push_str(piece);
        from = at;
    }
    text.push_str(source.get(from..).unwrap_or_default());
    text
}

/// What a token was, as far as the one behind it depends on that.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    #[default]
    Nothing,
    /// A name, a literal, or what else a value can end with.
    Operand,
    /// A word that heads a statement: `if`, `while`, `for`, `with`.
    Head,
    /// The parenthesis behind such a word.
    HeadEnd,
    Semicolon,
    BlockEnd,
    Operator,
}

impl Before {
    /// Whether `/` begins a regular expression here and does not divide.
    fn wants_operand(self) -> bool {
        !matches!(self, Before::Operand)
    }

    /// Whether `function` begins a statement here.
    fn ends_statement(self, on_new_line: bool) -> bool {
        match self {
            Before::Nothing | Before::Semicolon | Before::BlockEnd => true,
            // Where nothing else fits, the end of a line ends a statement.
            Before::Operand => on_new_line,
            Before::Head | Before::HeadEnd | Before::Operator => false,
        }
    }
}

struct Token {
    from: usize,
    kind: Before,
    on_new_line: bool,
}

/// What is open around the place that is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Bracket,
    /// The parentheses behind `if` and its like.
    Head,
    Brace,
    /// `${` in a template.
    Template,
}

/// Cuts a text into tokens, as finely as finding the ends of functions needs.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    open: Vec<Open>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a [u8]) -> Scanner<'a> {
        Scanner { text, at: 0, open: Vec::new() }
    }

    /// The next token; `before` is what the one before it was.
    fn token(&mut self, before: &Before) -> Option<Token> {
        let on_new_line = self.skip_space();
        let from = self.at;
        let first = self.peek(0)?;
        let kind = match first {
            b'"' | b'\'' => self.string(first),
            b'`' => {
                self.at += 1;
                self.template()
            }
            b'/' if before.wants_operand() => self.regular_expression(),
            b'(' => self.push(if *before == Before::Head { Open::Head } else { Open::Bracket }),
            b'[' => self.push(Open::Bracket),
            b'{' => self.push(Open::Brace),
            b')' | b']' | b'}' => self.close(),
            b';' => self.one(Before::Semicolon),
            // Behind a value both stand for `value += 1`; before one it makes no difference.
            b'+' | b'-' if self.peek(1) == Some(first) => {
                self.at += 2;
                if before.wants_operand() { Before::Operator } else { Before::Operand }
            }
            _ if is_word(first) => self.word(),
            _ => self.one(Before::Operator),
        };
        Some(Token { from, kind, on_new_line })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn one(&mut self, kind: Before) -> Before {
        self.at += 1;
        kind
    }

    fn push(&mut self, open: Open) -> Before {
        self.open.push(open);
        self.one(Before::Operator)
    }

    fn close(&mut self) -> Before {
        let closed_by = self.peek(0);
        self.at += 1;
        match (self.open.pop(), closed_by) {
            (Some(Open::Template), _) => self.template(),
            (Some(Open::Head), _) => Before::HeadEnd,
            (_, Some(b'}')) => Before::BlockEnd,
            _ => Before::Operand,
        }
    }

    fn word(&mut self) -> Before {
        let rest = self.rest();
        let length = rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        self.at += length;
        if OPERATOR_WORDS.contains(&word) {
            Before::Operator
        } else if HEAD_WORDS.contains(&word) {
            Before::Head
        } else {
            Before::Operand
        }
    }

    fn string(&mut self, quote: u8) -> Before {
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == quote || byte == b'\n' {
                break;
            }
        }
        self.at = self.at.min(self.text.len());
        Before::Operand
    }

    /// The text of a template up to its end or to the next `${`.
    fn template(&mut self) -> Before {
        while let Some(byte) = self.peek(0) {
            self.at += match byte {
                b'`' => return self.one(Before::Operand),
                b'\\' => 2,
                b'$' if self.peek(1) == Some(b'{') => {
                    self.at += 1;
                    return self.push(Open::Template);
                }
                _ => 1,
            };
        }
        self.at = self.at.min(self.text.len());
        Before::Operand
    }

    fn regular_expression(&mut self) -> Before {
        let (mut at, mut in_class) = (self.at + 1, false);
        while let Some(&byte) = self.text.get(at) {
            match byte {
                b'\n' => break,
                b'\\' => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => {
                    self.at = at + 1;
                    let _flags = self.word();
                    return Before::Operand;
                }
                _ => {}
            }
            at += 1;
        }
        self.one(Before::Operator)
    }

    /// Skips white space and comments, and says whether a line ended among them.
    fn skip_space(&mut self) -> bool {
        let mut on_new_line = false;
        loop {
            let rest = self.rest();
            let length = if rest.starts_with(b"//") || rest.starts_with(b"<!--") {
                rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
            } else if rest.starts_with(b"/*") {
                let end = rest.windows(2).skip(2).position(|pair| pair == b"*/");
                let length = end.map_or(rest.len(), |end| end + 4);
                on_new_line |= rest.get(..length).is_some_and(|comment| comment.contains(&b'\n'));
                length
            } else {
                space(rest)
            };
            if length == 0 {
                return on_new_line;
            }
            on_new_line |= rest.first() == Some(&b'\n') || rest.first() == Some(&b'\r');
            self.at += length;
        }
    }

    /// Whether an opening parenthesis is the next token.
    fn next_is_parenthesis(&self) -> bool {
        let mut ahead = Scanner { text: self.text, at: self.at, open: Vec::new() };
        ahead.skip_space();
        ahead.peek(0) == Some(b'(')
    }
}

/// Bytes of the white space character that `text` begins with; 0 if there is none.
fn space(text: &[u8]) -> usize {
    if text.first().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0xb | 0xc)) {
        return 1;
    }
    // No-break space and byte order mark.
    let wide: [&[u8]; 2] = [b"\xc2\xa0", b"\xef\xbb\xbf"];
    wide.iter().find(|space| text.starts_with(space)).map_or(0, |space| space.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        assert_eq!(with_expressions(source), expected);
    }

    // spec: JS-2
    #[test]
    fn a_nameless_function_statement_is_put_in_parentheses() {
        check("function(d) { a }", ";(function(d) { a });");
        check("// c\nfunction (d)\n{ a } // d", "// c\n;(function (d)\n{ a }); // d");
        check("/* c */ function/* c */(d) {};", "/* c */ ;(function/* c */(d) {});;");
        check("function(d) {} function(e) {}", ";(function(d) {}); ;(function(e) {});");
        check("var a = 1\nfunction(d) {}", "var a = 1\n;(function(d) {});");
        check("\u{feff}function(d) {}", "\u{feff};(function(d) {});");
    }

    // spec: JS-2
    #[test]
    fn everything_else_is_left_alone() {
        for source in [
            "function f(d) {}",
            "async function(d) {}",
            "function*(d) {}",
            "(function(d) {})",
            "var f = function(d) {};",
            "d => { function(a) {} }",
            "x = [\nfunction(d) {}]",
            "return function(d) {}",
            "'function(d) {}'",
            "/function(d) {}/",
            "`${1}function(d) {}`",
            "hello function(d) {}",
            "",
        ] {
            check(source, source);
        }
    }

    // spec: JS-2
    #[test]
    fn the_end_of_a_function_is_found_behind_anything_it_may_hold() {
        for body in [
            "'}'",
            "\"\\\"}\"",
            "/}/",
            "/[/}]/.test(x)",
            "x / 2 + '}' / 3",
            "a++ / 1; '}'",
            "if (x) /}/.test(y)",
            "(x) / 1; '}'",
            "`}${ {a: `}${1}}`} }}`",
            "// }\n",
            "/* } */",
            "<!-- }'\n",
            "{ { } }",
            "return /}/",
            "let o = {a: 1}; o / 2",
        ] {
            let source = format!("function(d) {{ {body} }}");
            check(&format!("{source} 1"), &format!(";({source}); 1"));
        }
    }

    // spec: JS-2
    #[test]
    fn a_function_that_does_not_end_is_left_to_the_compiler() {
        check("function(d) { emit(1, 1);", ";(function(d) { emit(1, 1);");
        check("function(d) { '", ";(function(d) { '");
        check("function(d) { `${`\\", ";(function(d) { `${`\\");
        check("function(d) { /* ", ";(function(d) { /* ");
    }
}
