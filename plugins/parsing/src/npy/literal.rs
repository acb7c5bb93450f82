//! Parses the Python literals that NumPy writes into headers: dicts, lists, tuples, strings, whole
//! numbers from 0, `True`, `False` and `None`, as `repr` writes them.

/// Largest nesting depth of lists and tuples.
const MAX_DEPTH: u32 = 32;

/// A literal, and its start in the text.
#[derive(Debug, PartialEq)]
pub(super) struct Literal {
    pub(super) at: usize,
    pub(super) value: Value,
}

#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Int(u64),
    Bool(bool),
    None,
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
    /// Keys and values, in the order of the text.
    Dict(Vec<(Literal, Literal)>),
}

/// The error of a text that is not a literal.
#[derive(Debug, PartialEq)]
pub(super) struct LiteralError {
    /// The offset in the text at which the unexpected bytes start.
    pub(super) at: usize,
    /// Says what was expected there.
    pub(super) expected: &'static str,
}

/// The encoding of the text. It matters only inside of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Latin1,
    Utf8,
}

/// Parses a text that is one literal, with blanks around it.
pub(super) fn parse(text: &[u8], encoding: Encoding) -> Result<Literal, LiteralError> {
    if encoding == Encoding::Utf8
        && let Err(error) = str::from_utf8(text)
    {
        return Err(LiteralError { at: error.valid_up_to(), expected: "UTF-8" });
    }
    let mut parser = Parser { text, at: 0, encoding };
    let literal = parser.literal(0)?;
    match parser.next() {
        None => Ok(literal),
        Some(_) => parser.error("nothing more"),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    /// The next byte to parse.
    at: usize,
    encoding: Encoding,
}

impl Parser<'_> {
    fn error<T>(&self, expected: &'static str) -> Result<T, LiteralError> {
        Err(LiteralError { at: self.at, expected })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips blanks, and returns the byte after them.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    fn literal(&mut self, depth: u32) -> Result<Literal, LiteralError> {
        let next = self.next();
        let at = self.at;
        let value = match next {
            Some(b'{' | b'[' | b'(') if depth == MAX_DEPTH => {
                return self.error("no more than 32 lists and tuples inside of each other");
            }
            Some(b'{') => self.dict(depth + 1)?,
            Some(b'[') => Value::List(self.elements(b']', depth + 1)?.0),
            Some(b'(') => match self.elements(b')', depth + 1)? {
                // Parentheses around a value, without a comma, are not a tuple.
                (_, false) => return Err(LiteralError { at, expected: "a tuple, as in `(3,)`" }),
                (elements, true) => Value::Tuple(elements),
            },
            Some(b'\'' | b'"') => Value::Text(self.string()?),
            Some(b'0'..=b'9') => Value::Int(self.int()?),
            _ => self.word()?,
        };
        Ok(Literal { at, value })
    }

    /// Parses the content of brackets. Returns the elements, and whether it can be a tuple: it is
    /// empty or has a comma.
    fn elements(&mut self, close: u8, depth: u32) -> Result<(Vec<Literal>, bool), LiteralError> {
        self.at += 1;
        let (mut elements, mut has_comma) = (Vec::new(), true);
        loop {
            if self.next() == Some(close) {
                break;
            }
            elements.push(self.literal(depth)?);
            has_comma = self.next() == Some(b',');
            if has_comma {
                self.at += 1;
            } else if self.next() != Some(close) {
                return self.error("a comma or the closing bracket");
            }
        }
        self.at += 1;
        has_comma |= elements.len() > 1;
        Ok((elements, has_comma))
    }

    fn dict(&mut self, depth: u32) -> Result<Value, LiteralError> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            if self.next() == Some(b'}') {
                break;
            }
            let key = self.literal(depth)?;
            if self.next() != Some(b':') {
                return self.error("`:` after the key");
            }
            self.at += 1;
            items.push((key, self.literal(depth)?));
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b'}') => {}
                _ => return self.error("a comma or `}`"),
            }
        }
        self.at += 1;
        Ok(Value::Dict(items))
    }

    fn int(&mut self) -> Result<u64, LiteralError> {
        let start = self.at;
        let mut value = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let next = value.checked_mul(10).and_then(|ten| ten.checked_add((digit - b'0').into()));
            let Some(next) = next else {
                return Err(LiteralError { at: start, expected: "a number below 2^64" });
            };
            value = next;
            self.at += 1;
        }
        if self.text[start] == b'0' && self.at > start + 1 {
            return Err(LiteralError { at: start, expected: "a number without leading zeros" });
        }
        // Python 2 wrote long numbers like this.
        if self.peek() == Some(b'L') {
            self.at += 1;
        }
        Ok(value)
    }

    fn word(&mut self) -> Result<Value, LiteralError> {
        let words =
            [("True", Value::Bool(true)), ("False", Value::Bool(false)), ("None", Value::None)];
        for (word, value) in words {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.error("a Python literal")
    }

    /// Parses a string, without its quotes and escapes.
    fn string(&mut self) -> Result<String, LiteralError> {
        let quote = self.text[self.at];
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None | Some(b'\n' | b'\r') => return self.error("the closing quote"),
                Some(byte) if byte == quote => break,
                Some(b'\\') => {
                    let character = self.escape()?;
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(byte) => {
                    match self.encoding {
                        Encoding::Latin1 => {
                            let character = char::from(byte);
                            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                        }
                        Encoding::Utf8 => bytes.push(byte),
                    }
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        // The text was checked to be UTF-8, and escapes are whole characters.
        String::from_utf8(bytes).or_else(|_| self.error("UTF-8"))
    }

    /// The character that this escape represents.
    fn escape(&mut self) -> Result<char, LiteralError> {
        const EXPECTED: &str = "an escape that Python's repr writes";
        let at = self.at;
        let digits = match self.text.get(at + 1) {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            Some(other) => {
                let character = match other {
                    b'\\' | b'\'' | b'"' => char::from(*other),
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    _ => return self.error(EXPECTED),
                };
                self.at += 2;
                return Ok(character);
            }
            None => return self.error(EXPECTED),
        };
        let hex = self.text.get(at + 2..at + 2 + digits);
        let hex = hex.filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let code = hex.and_then(|hex| u32::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        let Some(character) = code.and_then(char::from_u32) else { return self.error(EXPECTED) };
        self.at += 2 + digits;
        Ok(character)
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoding, Literal, LiteralError, Value, parse};

    /// A literal as text, in a normal form.
    fn shown(literal: &Literal) -> String {
        let join = |all: &[Literal]| all.iter().map(shown).collect::<Vec<_>>().join(" ");
        match &literal.value {
            Value::Text(text) => format!("{text:?}"),
            Value::Int(value) => value.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::None => "none".to_owned(),
            Value::Tuple(all) => format!("({})", join(all)),
            Value::List(all) => format!("[{}]", join(all)),
            Value::Dict(items) => {
                let items =
                    items.iter().map(|(key, value)| format!("{}={}", shown(key), shown(value)));
                format!("{{{}}}", items.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn literals() {
        for (text, wanted) in [
            ("()", "()"),
            (" ( 3 , ) ", "(3)"),
            ("(3,4)", "(3 4)"),
            ("(3, 4,)", "(3 4)"),
            ("[]", "[]"),
            ("[3]", "[3]"),
            ("[[ (3,), 'a' ], ]", "[[(3) \"a\"]]"),
            ("{}", "{}"),
            ("{'a':1,\"b\" : (True, False,None) , }\n  \n", "{\"a\"=1 \"b\"=(true false none)}"),
            ("18446744073709551615", "18446744073709551615"),
            ("10L", "10"),
            (r#"'it\'s "\\\n\t\r"'"#, r#""it's \"\\\n\t\r\"""#),
            (r"'\xe4\u20ac\U0001F600'", "\"ä€😀\""),
        ] {
            assert_eq!(
                parse(text.as_bytes(), Encoding::Latin1).map(|l| shown(&l)),
                Ok(wanted.to_owned()),
                "{text}"
            );
        }
        assert_eq!(shown(&parse(b"'\xe4'", Encoding::Latin1).expect("a text")), "\"ä\"");
        assert_eq!(shown(&parse("'ä'".as_bytes(), Encoding::Utf8).expect("a text")), "\"ä\"");
    }

    #[test]
    fn what_is_no_literal() {
        for (text, at, expected) in [
            ("", 0, "a Python literal"),
            ("(3)", 0, "a tuple, as in `(3,)`"),
            ("(3 4)", 3, "a comma or the closing bracket"),
            ("(,)", 1, "a Python literal"),
            ("(3,,)", 3, "a Python literal"),
            ("[3", 2, "a comma or the closing bracket"),
            ("[3)", 2, "a comma or the closing bracket"),
            ("{'a' 1}", 5, "`:` after the key"),
            ("{'a':1 'b':2}", 7, "a comma or `}`"),
            ("{'a'}", 4, "`:` after the key"),
            ("-1", 0, "a Python literal"),
            ("01", 0, "a number without leading zeros"),
            ("18446744073709551616", 0, "a number below 2^64"),
            ("1.5", 1, "nothing more"),
            ("true", 0, "a Python literal"),
            ("__import__('os')", 0, "a Python literal"),
            ("'a", 2, "the closing quote"),
            ("'a\n'", 2, "the closing quote"),
            ("'\\q'", 1, "an escape that Python's repr writes"),
            ("'\\x1'", 1, "an escape that Python's repr writes"),
            ("'\\ud800'", 1, "an escape that Python's repr writes"),
            ("'\\", 1, "an escape that Python's repr writes"),
            ("'a' 'b'", 4, "nothing more"),
            ("1 # one", 2, "nothing more"),
        ] {
            let error = parse(text.as_bytes(), Encoding::Latin1).expect_err(text);
            assert_eq!(error, LiteralError { at, expected }, "{text}");
        }
        let error = parse(b"'a\xe4'", Encoding::Utf8).expect_err("not UTF-8");
        assert_eq!(error, LiteralError { at: 2, expected: "UTF-8" });
        let deep = "[".repeat(100);
        assert_eq!(parse(deep.as_bytes(), Encoding::Utf8).expect_err("too deep").at, 32);
    }
}
