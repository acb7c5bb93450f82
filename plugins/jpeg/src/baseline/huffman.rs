//! The entropy-coded bytes of a scan: Huffman codes, each with the bits of a number after it.

/// Number of bits of a code that one table lookup decodes. Longer codes are rare.
const LOOKUP_BITS: u32 = 10;
/// Largest number of bits of a number. An image of 8 bits a sample has no larger ones.
const MAX_DC_BITS: u32 = 11;
const MAX_AC_BITS: u32 = 10;

/// The order in which the coefficients of a block are coded: rows times 8 plus columns.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Factors of the coefficients, in the order of their coding.
pub(crate) fn placed(factors: [i16; 64]) -> Factors {
    std::array::from_fn(|at| (ZIGZAG[at], factors[at]))
}

/// For each coefficient, in the order of their coding: its position in rows of columns, and its
/// factor.
pub(crate) type Factors = [(u8, i16); 64];

/// A symbol of a code: the number of zeros before a number, and the number of its bits. The number
/// of bits of code and number together is in the same word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Symbol(u32);

impl Symbol {
    fn new(code: u32, symbol: u8) -> Self {
        let bits = u32::from(symbol & 15);
        Self((u32::from(symbol >> 4) + 1) << 16 | bits << 8 | (code + bits))
    }
    /// Number of bits of code and number.
    fn total(self) -> u32 {
        self.0 & 0xff
    }
    /// Number of bits of the number.
    fn bits(self) -> u32 {
        self.0 >> 8 & 0xff
    }
    /// The distance of the number's position from the previous one: the zeros between them, and
    /// one.
    fn step(self) -> usize {
        (self.0 >> 16) as usize
    }
}

/// A code.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    /// The table in the form of the JPEG: the number of codes of each length, then the symbols.
    table: Vec<u8>,
    lookup: [Symbol; 1 << LOOKUP_BITS],
    /// For each length, the first 16 bits that are greater than all codes of it.
    ends: [u32; 17],
    /// For each length, the offset from a code to the index of its symbol.
    shifts: [i32; 17],
}

impl Default for Code {
    fn default() -> Self {
        let lookup = [Symbol::default(); 1 << LOOKUP_BITS];
        Self { table: Vec::new(), lookup, ends: [0; 17], shifts: [0; 17] }
    }
}

/// The error of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockError {
    /// Bits that are not code.
    NoCode,
    /// More than 64 coefficients.
    TooMany,
    /// The bytes end inside it.
    Ended,
}

impl Code {
    /// A code from its table: 16 counts and the symbols. `is_dc` says whether its symbols are those of
    /// first coefficients.
    ///
    /// # Errors
    /// The error says what was expected and what was found.
    pub(crate) fn set(&mut self, table: &[u8], is_dc: bool) -> Result<(), String> {
        // Most images have the tables of the previous one.
        if self.table == table {
            return Ok(());
        }
        let (counts, symbols) = table.split_at(16);
        let max = if is_dc { MAX_DC_BITS } else { MAX_AC_BITS };
        if let Some(bad) =
            symbols.iter().find(|symbol| u32::from(*symbol & 15) > max || is_dc && **symbol > 15)
        {
            return Err(format!(
                "expected a Huffman code of numbers of at most {max} bits, found the symbol {bad:02x}"
            ));
        }
        self.table.clear();
        self.lookup.fill(Symbol::default());
        let (mut code, mut index) = (0_u32, 0_usize);
        for (length, count) in (1_u32..).zip(counts) {
            let (first, end) = (code, code + u32::from(*count));
            if end > 1 << length {
                return Err(format!(
                    "expected a Huffman code, found one that has no room for {count} codes of \
                     {length} bits"
                ));
            }
            self.shifts[length as usize] = index as i32 - first as i32;
            self.ends[length as usize] = end << (16 - length);
            for code in first..end {
                if length <= LOOKUP_BITS {
                    let same = 1 << (LOOKUP_BITS - length);
                    let from = code as usize * same;
                    self.lookup[from..from + same].fill(Symbol::new(length, symbols[index]));
                }
                index += 1;
            }
            code = end << 1;
        }
        self.table.extend_from_slice(table);
        Ok(())
    }

    /// The symbol of a code that the lookup does not have. `next` are the next bits, from the highest
    /// on.
    #[cold]
    #[inline(never)]
    fn long(&self, next: u64) -> Result<Symbol, BlockError> {
        let next = (next >> 48) as u32;
        for length in LOOKUP_BITS + 1..=16 {
            if next < self.ends[length as usize] {
                let index = (next >> (16 - length)) as i32 + self.shifts[length as usize];
                let symbol = self.table.get(16 + index as usize).ok_or(BlockError::NoCode)?;
                return Ok(Symbol::new(length, *symbol));
            }
        }
        Err(BlockError::NoCode)
    }
}

/// Zeros after the end. A block that continues after the end reads them, and has at most 64 × 27
/// bits.
const PADDING: usize = 256;

/// The bytes of a scan up to a marker, without the zeros that follow each `ff`. They are in reverse
/// order: so the next eight bytes are a little-endian number whose highest bits come first.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    bytes: Vec<u8>,
    /// The positions at which the bytes of the scan begin and end.
    first: usize,
    /// The bytes before this position are not in `buffer` yet.
    at: usize,
    /// The next bits, from the highest one on.
    buffer: u64,
    /// Their number.
    left: u32,
}

impl Bits {
    /// Takes the bytes up to the next marker. Returns its position.
    pub(crate) fn fill(&mut self, scan: &[u8]) -> usize {
        if self.bytes.len() < PADDING + scan.len() {
            self.bytes.resize(PADDING + scan.len(), 0);
        }
        let mut rest = &mut self.bytes[..];
        (self.at, self.buffer, self.left) = (rest.len(), 0, 0);
        let mut from = 0;
        loop {
            let marker = memchr::memchr(0xff, &scan[from..]).map(|at| from + at);
            let is_data = marker.is_some_and(|at| scan.get(at + 1) == Some(&0));
            let end = marker.map_or(scan.len(), |at| at + usize::from(is_data));
            let place;
            (rest, place) = rest.split_at_mut(rest.len() - (end - from));
            for (place, byte) in place.iter_mut().rev().zip(&scan[from..end]) {
                *place = *byte;
            }
            if !is_data {
                self.first = rest.len();
                rest[self.first - PADDING..].fill(0);
                return end;
            }
            from = end + 1;
        }
    }

    /// Refills it to at least 56 bits.
    #[inline(always)]
    fn refill(&mut self) {
        if let Some(next) = self.bytes[..self.at].last_chunk::<8>() {
            self.buffer |= u64::from_le_bytes(*next) >> self.left;
            self.at -= (63 - self.left as usize) >> 3;
            self.left |= 56;
        }
    }

    /// Whether more bits were read than exist.
    fn is_after_end(&self) -> bool {
        self.at * 8 + (self.left as usize) < self.first * 8
    }

    #[inline(always)]
    fn symbol(&self, code: &Code) -> Result<Symbol, BlockError> {
        let symbol = code.lookup[(self.buffer >> (64 - LOOKUP_BITS)) as usize];
        if symbol.total() == 0 { code.long(self.buffer) } else { Ok(symbol) }
    }

    /// The number after the code of a symbol. Both are consumed.
    #[inline(always)]
    fn number(&mut self, symbol: Symbol) -> i32 {
        let (total, bits) = (symbol.total(), symbol.bits());
        let number = ((self.buffer << (total - bits)) >> 1 >> (63 - bits)) as i32;
        self.buffer <<= total;
        self.left -= total;
        // The lower half of the numbers represents negative ones.
        if number < 1 << bits >> 1 { number + 1 - (1 << bits) } else { number }
    }

    /// Decodes a block into `coefficients`, which are zero, each multiplied by its factor of
    /// `factors`. Returns the position of the last one in the order of their coding. With `KEEP`
    /// off, nothing is written.
    #[inline(always)]
    pub(crate) fn block<const KEEP: bool>(
        &mut self,
        codes: [&Code; 2],
        previous: &mut i32,
        factors: &Factors,
        coefficients: &mut [i16; 64],
    ) -> Result<usize, BlockError> {
        self.refill();
        let symbol = self.symbol(codes[0])?;
        *previous = previous.wrapping_add(self.number(symbol));
        if KEEP {
            coefficients[0] = (*previous as i16).wrapping_mul(factors[0].1);
        }
        let (mut place, mut last) = (0, 0);
        loop {
            // Two codes have at most 52 bits.
            self.refill();
            for _ in 0..2 {
                let symbol = self.symbol(codes[1])?;
                place += symbol.step();
                let number = self.number(symbol);
                if symbol.bits() > 0 {
                    last = place;
                    if KEEP {
                        // Positions after the end are checked below.
                        let (at, factor) = factors[place & 63];
                        coefficients[usize::from(at) & 63] = (number as i16).wrapping_mul(factor);
                    }
                } else if symbol.step() < 16 {
                    // The rest is zero. Otherwise these 16 are.
                    return if self.is_after_end() { Err(BlockError::Ended) } else { Ok(last) };
                }
                if place >= 63 {
                    break;
                }
            }
            if place >= 63 {
                return match place {
                    63 if self.is_after_end() => Err(BlockError::Ended),
                    63 => Ok(last),
                    _ => Err(BlockError::TooMany),
                };
            }
        }
    }
}
