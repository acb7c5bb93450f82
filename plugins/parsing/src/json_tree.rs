//! Reads the JSON of a file's schema into a tree. With serde_json, a plugin would be half as large
//! again.

/// Largest nesting depth of lists and objects.
const MAX_DEPTH: usize = 128;

/// A JSON value.
#[derive(Debug, PartialEq, Eq)]
pub enum Json {
    /// A number without a sign, a fraction or an exponent, of at most 64 bits.
    Number(u64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// The members in their order. If a key occurs twice, the last one counts.
    Object(Vec<(String, Json)>),
    /// Null, a boolean, or another number.
    Other,
}

impl Json {
    /// Parses a text.
    ///
    /// # Errors
    /// The expected thing, and its position: a byte of the text.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(text).map_err(|error| {
            format!("expected JSON in UTF-8, found another byte at +{}", error.valid_up_to())
        })?;
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.skip_blanks();
        if parser.at < text.len() {
            return parser.expected("the end of the JSON text");
        }
        Ok(value)
    }

    /// The member of an object with this key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        let Self::Object(members) = self else { return None };
        members.iter().rev().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    /// The value of a text.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The value of a number.
    pub fn as_number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    /// The elements of a list.
    pub fn as_list(&self) -> Option<&[Json]> {
        if let Self::List(elements) = self { Some(elements) } else { None }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn expected<T>(&self, what: &str) -> Result<T, String> {
        let found = match self.text[self.at..].chars().next() {
            Some(sign) => format!("{sign:?}"),
            None => "the end".to_owned(),
        };
        Err(format!("expected {what}, found {found} at +{} of its JSON", self.at))
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.next() {
            self.at += 1;
        }
    }

    /// Skips blanks, and this byte if it follows. Returns whether the byte followed.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.next() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        self.skip_blanks();
        if depth > MAX_DEPTH {
            return self.expected("values that are nested less");
        }
        match self.next() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.list(depth + 1),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = ["null", "true", "false"];
                match words.iter().find(|word| self.text[self.at..].starts_with(**word)) {
                    Some(word) => {
                        self.at += word.len();
                        Ok(Json::Other)
                    }
                    None => self.expected("a value"),
                }
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut members = Vec::new();
        self.at += 1;
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_blanks();
            if self.next() != Some(b'"') {
                return self.expected("a key");
            }
            let key = self.string()?;
            if !self.take(b':') {
                return self.expected("`:`");
            }
            members.push((key, self.value(depth)?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return self.expected("`,` or `}`");
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut elements = Vec::new();
        self.at += 1;
        if self.take(b']') {
            return Ok(Json::List(elements));
        }
        loop {
            elements.push(self.value(depth)?);
            if self.take(b']') {
                return Ok(Json::List(elements));
            }
            if !self.take(b',') {
                return self.expected("`,` or `]`");
            }
        }
    }

    /// A string. Its opening quote is next.
    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = rest.find(['"', '\\']) else {
                self.at = self.text.len();
                return self.expected("`\"`");
            };
            value.push_str(&rest[..plain]);
            self.at += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Ok(value);
            }
            let escaped = match self.next() {
                Some(sign @ (b'"' | b'\\' | b'/')) => char::from(sign),
                Some(b'b') => '\u{8}',
                Some(b'f') => '\u{c}',
                Some(b'n') => '\n',
                Some(b'r') => '\r',
                Some(b't') => '\t',
                Some(b'u') => {
                    self.at += 1;
                    value.push(self.unicode()?);
                    continue;
                }
                _ => return self.expected("an escape that JSON has"),
            };
            value.push(escaped);
            self.at += 1;
        }
    }

    /// The character of an escape, after its `\u`.
    fn unicode(&mut self) -> Result<char, String> {
        let mut code = self.hex()?;
        if (0xd800..0xdc00).contains(&code) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x1_0000 + ((code - 0xd800) << 10 | (low - 0xdc00));
            }
        }
        match char::from_u32(code) {
            Some(sign) => Ok(sign),
            None => self.expected("a pair of surrogates before this"),
        }
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.expected("four hexadecimal digits"),
        }
    }

    /// A number. Its value counts only if it is a plain one.
    fn number(&mut self) -> Result<Json, String> {
        let rest = &self.text[self.at..];
        let is_other = |sign: char| !matches!(sign, '0'..='9' | '+' | '-' | '.' | 'e' | 'E');
        let word = &rest[..rest.find(is_other).unwrap_or(rest.len())];
        if !word.ends_with(|sign: char| sign.is_ascii_digit()) {
            return self.expected("a number");
        }
        self.at += word.len();
        Ok(word.parse().map_or(Json::Other, Json::Number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Json {
        Json::Text(text.to_owned())
    }

    #[test]
    fn values() {
        let json = br#" { "a" : [ 1 , -2, 1.5e3 , "x" ] , "b":{ },"c":[],"a":null , "d":true } "#;
        let list = vec![Json::Number(1), Json::Other, Json::Other, text("x")];
        let member = |key: &str, value| (key.to_owned(), value);
        let wanted = Json::Object(vec![
            member("a", Json::List(list)),
            member("b", Json::Object(Vec::new())),
            member("c", Json::List(Vec::new())),
            member("a", Json::Other),
            member("d", Json::Other),
        ]);
        let parsed = Json::parse(json).unwrap();
        assert_eq!(parsed, wanted);
        assert_eq!(parsed.get("a"), Some(&Json::Other));
        assert_eq!(parsed.get("e"), None);
    }

    #[test]
    fn strings() {
        let json = br#""\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00 \u0041\xc3""#;
        assert!(Json::parse(json).is_err());
        let json = br#""\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00 \u0041""#;
        let wanted = "\"\\/\u{8}\u{c}\n\r\t\u{e4}\u{1f600} A";
        assert_eq!(Json::parse(json), Ok(text(wanted)));
        for bad in
            ["\"\\ud800\"", "\"\\ud800\\u0041\"", "\"\\u12\"", "\"\\u00g0\"", "\"\\x\"", "\"a"]
        {
            assert!(Json::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in [
            "",
            " ",
            "{",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "1 2",
            "nul",
            "-",
            "1e",
            "]",
        ] {
            assert!(Json::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(
            Json::parse(b"{\"a\" 1}"),
            Err("expected `:`, found '1' at +5 of its JSON".to_owned())
        );
        assert!(Json::parse(b"\"\xff\"").unwrap_err().contains("UTF-8"));
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(Json::parse(&nested(MAX_DEPTH)).is_ok());
        assert!(Json::parse(&nested(MAX_DEPTH + 2)).unwrap_err().contains("nested less"));
        assert!(Json::parse(&vec![b'['; 1 << 20]).is_err());
    }
}
