//! Converts three planes to pixels.

use crate::lanes::{I16s, Sums, store_rgb};
use crate::plane::Color;

/// Bits of the fraction of a factor.
const BITS: u32 = 14;

/// Appends `size` rows and columns of red, green and blue. The rows of the planes are longer: a multiple
/// of 8.
pub(crate) fn append(color: Color, planes: &[Vec<u8>; 3], size: usize, out: &mut Vec<u8>) {
    let stride = size.next_multiple_of(8);
    let start = out.len();
    out.resize(start + 3 * size * size, 0);
    for (row, out) in out[start..].chunks_exact_mut(3 * size).enumerate() {
        let planes = planes.each_ref().map(|plane| plane.get(row * stride..(row + 1) * stride));
        let planes = planes.map(|plane| plane.unwrap_or_default().as_chunks::<8>().0);
        for (chunk, out) in out.chunks_mut(24).enumerate() {
            let load = |plane: usize| I16s::load_bytes(&planes[plane][chunk]);
            let [red, green, blue] = match color {
                Color::Grey => [load(0); 3],
                Color::Rgb => [load(0), load(1), load(2)],
                Color::YCbCr => rgb(load(0), load(1), load(2)),
            };
            match out.first_chunk_mut() {
                Some(out) => store_rgb(red, green, blue, out),
                None => {
                    let mut pixels = [0; 24];
                    store_rgb(red, green, blue, &mut pixels);
                    out.copy_from_slice(&pixels[..out.len()]);
                }
            }
        }
    }
}

/// The formula of JFIF:
/// red = y + 1.402 cr, green = y - 0.344136 cb - 0.714136 cr, blue = y + 1.772 cb.
#[inline(always)]
fn rgb(y: I16s, cb: I16s, cr: I16s) -> [I16s; 3] {
    let (one, middle) = (I16s::splat(1), I16s::splat(128));
    let (cb, cr) = (cb.sub(middle), cr.sub(middle));
    let half = 1 << (BITS - 1);
    let red = Sums::of(cr.interleave(one), I16s::splat_pair(22970, half));
    let green = Sums::of(cb.interleave(cr), I16s::splat_pair(-5638, -11700));
    let green = green.add(Sums::splat(half.into()));
    let blue = Sums::of(cb.interleave(one), I16s::splat_pair(29032, half));
    [red, green, blue].map(|sums| y.add(sums.shift::<BITS>()))
}
