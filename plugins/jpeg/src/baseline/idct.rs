//! The inverse discrete cosine transform of a block, in integers: equal to libjpeg's (`jidctint.c`,
//! after Loeffler, Ligtenberg and Moschytz), bit for bit.

use crate::lanes::{I16s, Sums, transpose};

/// Number of bits of the fraction of a constant, and number of bits that the first pass leaves.
const CONST_BITS: u32 = 13;
const PASS_BITS: u32 = 2;

const F_0_211: i16 = 1730;
const F_0_298: i16 = 2446;
const F_0_390: i16 = 3196;
const F_0_509: i16 = 4176;
const F_0_541: i16 = 4433;
const F_0_601: i16 = 4926;
const F_0_720: i16 = 5906;
const F_0_765: i16 = 6270;
const F_0_850: i16 = 6967;
const F_0_899: i16 = 7373;
const F_1_061: i16 = 8697;
const F_1_175: i16 = 9633;
const F_1_272: i16 = 10426;
const F_1_451: i16 = 11893;
const F_1_501: i16 = 12299;
const F_1_847: i16 = 15137;
const F_1_961: i16 = 16069;
const F_2_053: i16 = 16819;
const F_2_172: i16 = 17799;
const F_2_562: i16 = 20995;
const F_3_072: i16 = 25172;
const F_3_624: i16 = 29692;

/// Transforms a block of coefficients in rows to 8 x 8 samples.
pub(crate) fn block(coefficients: &[[i16; 8]; 8]) -> [[u8; 8]; 8] {
    let rows = coefficients.each_ref().map(I16s::load);
    let columns = transpose(pass::<{ CONST_BITS - PASS_BITS }>(rows));
    samples(pass::<{ CONST_BITS + PASS_BITS + 3 }>(columns))
}

/// Transforms a block to 4 x 4 samples: the first ones of the rows and columns (`jidctred.c`).
pub(crate) fn half(coefficients: &[[i16; 8]; 8]) -> [[u8; 8]; 8] {
    let rows = coefficients.each_ref().map(I16s::load);
    let columns = transpose(half_pass::<{ CONST_BITS - PASS_BITS + 1 }>(rows));
    samples(half_pass::<{ CONST_BITS + PASS_BITS + 3 + 1 }>(columns))
}

/// Transforms a block to 2 x 2 samples.
pub(crate) fn quarter(coefficients: &[[i16; 8]; 8]) -> [[u8; 8]; 8] {
    let rows = coefficients.each_ref().map(I16s::load);
    let columns = transpose(quarter_pass::<{ CONST_BITS - PASS_BITS + 2 }>(rows));
    samples(quarter_pass::<{ CONST_BITS + PASS_BITS + 3 + 2 }>(columns))
}

/// The sample of a block that has only its first coefficient: all samples are the same.
pub(crate) fn flat(coefficient: i16) -> u8 {
    (((i32::from(coefficient) + 4) >> 3) + 128).clamp(0, 255) as u8
}

#[inline(always)]
fn samples(columns: [I16s; 8]) -> [[u8; 8]; 8] {
    let mut samples = [[0; 8]; 8];
    for (row, samples) in transpose(columns).into_iter().zip(&mut samples) {
        row.add(I16s::splat(128)).store_bytes(samples);
    }
    samples
}

#[inline(always)]
fn sums(pairs: (I16s, I16s), x: i16, y: i16) -> Sums {
    Sums::of(pairs, I16s::splat_pair(x, y))
}

/// One dimension, of eight lines at once.
#[inline(always)]
fn pass<const BITS: u32>(c: [I16s; 8]) -> [I16s; 8] {
    let pairs = c[2].interleave(c[6]);
    let even2 = sums(pairs, F_0_541, F_0_541 - F_1_847);
    let even3 = sums(pairs, F_0_541 + F_0_765, F_0_541);
    // The half is for rounding.
    let half = Sums::splat(1 << (BITS - 1));
    let pairs = c[0].interleave(c[4]);
    let even0 = sums(pairs, 1 << CONST_BITS, 1 << CONST_BITS).add(half);
    let even1 = sums(pairs, 1 << CONST_BITS, -(1 << CONST_BITS)).add(half);
    let even = [even0.add(even3), even1.add(even2), even1.sub(even2), even0.sub(even3)];

    let pairs = c[7].add(c[3]).interleave(c[5].add(c[1]));
    let z3 = sums(pairs, F_1_175 - F_1_961, F_1_175);
    let z4 = sums(pairs, F_1_175, F_1_175 - F_0_390);
    let pairs = c[7].interleave(c[1]);
    let odd3 = sums(pairs, F_0_298 - F_0_899, -F_0_899).add(z3);
    let odd0 = sums(pairs, -F_0_899, F_1_501 - F_0_899).add(z4);
    let pairs = c[5].interleave(c[3]);
    let odd2 = sums(pairs, F_2_053 - F_2_562, -F_2_562).add(z4);
    let odd1 = sums(pairs, -F_2_562, F_3_072 - F_2_562).add(z3);
    let odd = [odd0, odd1, odd2, odd3];

    std::array::from_fn(|line| match line {
        0..4 => even[line].add(odd[line]).shift::<BITS>(),
        _ => even[7 - line].sub(odd[7 - line]).shift::<BITS>(),
    })
}

/// One dimension, from eight to four.
#[inline(always)]
fn half_pass<const BITS: u32>(c: [I16s; 8]) -> [I16s; 8] {
    let first = sums(c[0].interleave(I16s::splat(1)), 1 << (CONST_BITS + 1), 0);
    let first = first.add(Sums::splat(1 << (BITS - 1)));
    let even = sums(c[2].interleave(c[6]), F_1_847, -F_0_765);
    let even = [first.add(even), first.sub(even)];
    let (high, low) = (c[7].interleave(c[5]), c[3].interleave(c[1]));
    let odd0 = sums(high, -F_0_211, F_1_451).add(sums(low, -F_2_172, F_1_061));
    let odd2 = sums(high, -F_0_509, -F_0_601).add(sums(low, F_0_899, F_2_562));
    let zero = I16s::splat(0);
    let lines = [even[0].add(odd2), even[1].add(odd0), even[1].sub(odd0), even[0].sub(odd2)];
    let [a, b, c, d] = lines.map(Sums::shift::<BITS>);
    [a, b, c, d, zero, zero, zero, zero]
}

/// One dimension, from eight to two.
#[inline(always)]
fn quarter_pass<const BITS: u32>(c: [I16s; 8]) -> [I16s; 8] {
    // The addition is done twice, because the factor does not fit.
    let first = sums(c[0].interleave(c[0]), 1 << (CONST_BITS + 1), 1 << (CONST_BITS + 1));
    let first = first.add(Sums::splat(1 << (BITS - 1)));
    let odd = sums(c[7].interleave(c[5]), -F_0_720, F_0_850);
    let odd = odd.add(sums(c[3].interleave(c[1]), -F_1_272, F_3_624));
    let mut lines = [I16s::splat(0); 8];
    lines[0] = first.add(odd).shift::<BITS>();
    lines[1] = first.sub(odd).shift::<BITS>();
    lines
}
