//! Nasty files for a dialect, the same in each run: random sequences of bytes with a meaning, and
//! tables with some errors.

/// The bytes with a meaning; `None` if the dialect has no such byte.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    pub delimiter: u8,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    pub comment: Option<u8>,
}

/// A small random number generator, so that each run has the same files.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
    fn one_of<'a>(&mut self, all: &[&'a [u8]]) -> &'a [u8] {
        all[self.below(all.len())]
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";
const LINE_ENDS: [&[u8]; 6] = [b"\n", b"\n", b"\n", b"\r\n", b"\r\n", b"\r"];

/// Texts of fields: ASCII, UTF-8, Latin-1, UTF-16, empty, with NULs and blanks, longer than a block
/// of the scanner, and numbers.
const WORDS: [&[u8]; 16] = [
    b"a",
    b"",
    b" ",
    b"\t",
    b"-1.5e3",
    b"two words",
    " \u{fc}\u{20ac}\u{1f600}".as_bytes(),
    "\u{a0}\u{85}\u{2028}".as_bytes(),
    b"na\xefve \xff",
    b"\xff\xfeh\0i\0",
    b"\0h\0i\0\n",
    b"\0",
    b"\x0b\x0c\x1c\x1e",
    BOM,
    b"NULL",
    b"0123456789012345678901234567890123456789012345678901234567890123456789",
];

/// A file of at most some hundred bytes, whose rows have at most `wide` fields.
pub fn file(random: &mut Random, marks: Marks, wide: usize) -> Vec<u8> {
    let mut file = if random.one_in(12) { BOM.to_vec() } else { Vec::new() };
    if random.one_in(2) {
        soup(random, marks, wide, &mut file);
    } else {
        table(random, marks, &mut file);
    }
    file
}

/// Appends pieces in random order.
fn soup(random: &mut Random, marks: Marks, wide: usize, file: &mut Vec<u8>) {
    for _ in 0..random.below(wide.min(60)) {
        let quote = marks.quote.unwrap_or(b'"');
        match random.below(16) {
            0..4 => file.push(quote),
            4..7 => file.push(marks.delimiter),
            7..9 => file.extend(random.one_of(&LINE_ENDS)),
            9 => file.extend([quote, quote]),
            10 => file.extend([quote, marks.delimiter, quote]),
            11 => file.extend([marks.escape.unwrap_or(b'\\'), quote]),
            12 => file.push(marks.escape.unwrap_or(b'\\')),
            13 => file.push(marks.comment.unwrap_or(b'#')),
            _ => file.extend(random.one_of(&WORDS)),
        }
    }
}

/// Appends rows of fields as a writer makes them, some with errors.
fn table(random: &mut Random, marks: Marks, file: &mut Vec<u8>) {
    let width = 1 + random.below(5);
    let trouble = random.one_in(2);
    for _ in 0..random.below(8) {
        if random.one_in(12) {
            file.push(marks.comment.unwrap_or(b'#'));
            file.extend(random.one_of(&WORDS));
        } else if !random.one_in(12) {
            let ragged = if trouble && random.one_in(6) { random.below(4) } else { 0 };
            for column in 0..width + ragged {
                if column > 0 {
                    file.push(marks.delimiter);
                }
                let bad = trouble && random.one_in(6);
                field(random, marks, bad, file);
            }
        }
        file.extend(random.one_of(&LINE_ENDS));
    }
    // The last row needs no line end.
    if random.one_in(3) {
        file.truncate(file.len().saturating_sub(1 + random.below(2)));
    }
}

/// Appends a field. A bad one has an extra or a missing quote, or text outside its quotes.
fn field(random: &mut Random, marks: Marks, bad: bool, file: &mut Vec<u8>) {
    let word = random.one_of(&WORDS);
    let Some(quote) = marks.quote.filter(|_| bad || random.one_in(2)) else {
        return file.extend(word);
    };
    let fault = if bad { random.below(6) } else { usize::MAX };
    match fault {
        0 => file.extend(random.one_of(&[b" ", b"x"])),
        1 => return file.extend([word, &[quote], word].concat()),
        _ => {}
    }
    file.push(quote);
    file.extend(word);
    for _ in 0..random.below(3) {
        match (random.below(4), marks.escape) {
            (0, _) => file.push(marks.delimiter),
            (1, _) => file.extend(random.one_of(&LINE_ENDS)),
            (2, Some(escape)) => file.extend([escape, quote]),
            _ => file.extend([quote, quote]),
        }
        file.extend(random.one_of(&WORDS));
    }
    match fault {
        2 => return,
        3 => file.push(quote),
        4 => file.extend([&[quote], word].concat()),
        _ => {}
    }
    file.push(quote);
    if fault == 5 {
        file.extend(random.one_of(&[b" ", b"x", b"\r"]));
    }
}
