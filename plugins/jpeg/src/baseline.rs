//! Decodes the usual kind of image: baseline, one scan, grey or with three components of which two
//! may have half of the columns and rows. Everything else is left to [`crate::library`].
//!
//! It exists for speed: the library does not use the vectors of WebAssembly. It also decodes only
//! the blocks that the array needs; for the others it only reads the codes.

mod header;
mod huffman;
mod idct;

pub(crate) use header::Header;
use header::{Component, Scan, Tables};
use huffman::{Bits, BlockError};

use crate::plane::Plane;

/// Decodes images. It keeps memory and tables for the next image.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    tables: Tables,
    bits: Bits,
}

/// A component while it is decoded.
struct Decoding<'a> {
    component: &'a Component,
    plane: &'a mut Plane,
    /// Columns and rows of the needed blocks.
    needed: [std::ops::Range<usize>; 2],
    /// The previous first coefficient.
    previous: i32,
}

impl Baseline {
    /// Reads the header of an image.
    ///
    /// # Errors
    /// The error says what was expected and what was found.
    pub(crate) fn read_header(&mut self, jpeg: &[u8], max_pixels: u64) -> Result<Header, String> {
        header::read(jpeg, max_pixels, &mut self.tables)
    }

    /// Makes the planes as large as the image, divided by 1, 2, 4 or 8. [`Plane::needed`] must be
    /// set afterwards.
    pub(crate) fn set_planes(
        &self,
        header: &Header,
        scan: &Scan,
        divisor: usize,
        planes: &mut Vec<Plane>,
    ) {
        let max = max_blocks(scan);
        let edge = 8 / divisor;
        planes.resize_with(scan.components.len(), Plane::default);
        for (component, plane) in scan.components.iter().zip(planes) {
            let size = [header.width, header.height];
            let factor = [0, 1].map(|axis| max[axis] / component.blocks[axis]);
            // A plane of half the columns and rows need not be reduced as much, only to be enlarged
            // again.
            plane.edge = if factor == [2, 2] && edge < 8 { 2 * edge } else { edge };
            plane.factor = factor.map(|factor| factor * edge / plane.edge);
            plane.size = [0, 1].map(|axis| (size[axis] * plane.edge).div_ceil(8 * factor[axis]));
            plane.is_smooth = edge > 1 && (factor[0] == 1 || plane.size[0] > 2);
            let [columns, rows] = units(header, scan);
            plane.stride = (columns * component.blocks[0] * plane.edge).next_multiple_of(8);
            plane.samples.resize(plane.stride * rows * component.blocks[1] * plane.edge, 0);
        }
    }

    /// Decodes the needed part of an image into its planes.
    ///
    /// # Errors
    /// The error says what was expected and what was found.
    pub(crate) fn decode(
        &mut self,
        jpeg: &[u8],
        header: &Header,
        scan: &Scan,
        planes: &mut [Plane],
    ) -> Result<(), String> {
        let mut components: Vec<_> = scan
            .components
            .iter()
            .zip(planes)
            .map(|(component, plane)| {
                let needed = plane.needed.clone();
                let edge = plane.edge;
                let needed = needed.map(|range| range.start / edge..range.end.div_ceil(edge));
                Decoding { component, plane, needed, previous: 0 }
            })
            .collect();
        let [columns, rows] = units(header, scan);
        let total = columns * rows;
        let interval = if scan.restart == 0 { total } else { scan.restart };
        let (mut at, mut unit) = (scan.start, 0);
        for number in 0..total.div_ceil(interval) {
            if number > 0 {
                let expected = 0xd0 + (number - 1) as u8 % 8;
                at = marker(jpeg, at, expected)?;
                components.iter_mut().for_each(|component| component.previous = 0);
            }
            let end = at + self.bits.fill(&jpeg[at..]);
            for unit_of_part in unit..total.min(unit + interval) {
                let place = [unit_of_part % columns, unit_of_part / columns];
                decode_unit(&self.tables, &mut self.bits, &mut components, place)
                    .map_err(|error| describe(error, jpeg, end, unit_of_part, total))?;
            }
            unit += interval;
            at = end;
        }
        Ok(())
    }
}

/// Largest number of blocks of a component in a unit: columns and rows.
fn max_blocks(scan: &Scan) -> [usize; 2] {
    let most = |axis: usize| scan.components.iter().map(|one| one.blocks[axis]).max();
    [0, 1].map(|axis| most(axis).unwrap_or(1))
}

/// Columns and rows of units: a unit has blocks of each component, which cover the same pixels.
fn units(header: &Header, scan: &Scan) -> [usize; 2] {
    let [columns, rows] = max_blocks(scan);
    [header.width.div_ceil(8 * columns), header.height.div_ceil(8 * rows)]
}

#[inline(always)]
fn decode_unit(
    tables: &Tables,
    bits: &mut Bits,
    components: &mut [Decoding<'_>],
    [column, row]: [usize; 2],
) -> Result<(), BlockError> {
    for decoding in components {
        let component = decoding.component;
        let (codes, factors) = (tables.codes(component), tables.factors(component));
        let [columns, rows] = component.blocks;
        for y in row * rows..(row + 1) * rows {
            for x in column * columns..(column + 1) * columns {
                let previous = &mut decoding.previous;
                if decoding.needed[0].contains(&x) && decoding.needed[1].contains(&y) {
                    let mut block = [0; 64];
                    let last = bits.block::<true>(codes, previous, factors, &mut block)?;
                    decoding.plane.put(x, y, &block, last);
                } else {
                    bits.block::<false>(codes, previous, factors, &mut [0; 64])?;
                }
            }
        }
    }
    Ok(())
}

impl Plane {
    /// Transforms a block and puts it into its place. `last` is the last coefficient that is not zero.
    #[inline(always)]
    fn put(&mut self, x: usize, y: usize, block: &[i16; 64], last: usize) {
        let (rows, _) = block.as_chunks::<8>();
        let samples = match (rows.try_into(), self.edge) {
            (Ok(rows), 8) if last > 0 => idct::block(rows),
            (Ok(rows), 4) if last > 0 => idct::half(rows),
            (Ok(rows), 2) if last > 0 => idct::quarter(rows),
            _ => [[idct::flat(block[0]); 8]; 8],
        };
        let edge = self.edge;
        let mut at = y * edge * self.stride + x * edge;
        for row in &samples[..edge] {
            self.samples[at..at + edge].copy_from_slice(&row[..edge]);
            at += self.stride;
        }
    }
}

/// The start of the bytes after a restart marker.
fn marker(jpeg: &[u8], at: usize, expected: u8) -> Result<usize, String> {
    // A marker may have any number of bytes ff before it.
    let fill = jpeg[at..].iter().take_while(|byte| **byte == 0xff).count();
    match jpeg.get(at + fill) {
        Some(found) if *found == expected && fill > 0 => Ok(at + fill + 1),
        found => {
            let found = found.map_or("the end".to_owned(), |found| format!("ff {found:02x}"));
            Err(format!(
                "expected the restart marker ff {expected:02x} at byte {at}, found {found}"
            ))
        }
    }
}

/// The text of an error in the unit with this number. The scan, or its part, ends at `end`.
#[cold]
fn describe(error: BlockError, jpeg: &[u8], end: usize, unit: usize, total: usize) -> String {
    let percent = 100 * unit / total;
    match error {
        BlockError::Ended if end == jpeg.len() => format!(
            "expected a whole JPEG, but it ends after {percent}% of its blocks, at byte {end}"
        ),
        BlockError::Ended => {
            let marker = jpeg.get(end + 1).copied().unwrap_or_default();
            format!(
                "expected the rest of the blocks at byte {end}, found the marker ff {marker:02x} after {percent}% of \
                 them"
            )
        }
        BlockError::NoCode => format!(
            "expected a Huffman code after {percent}% of the blocks, found bits that are none; the JPEG is damaged"
        ),
        BlockError::TooMany => format!(
            "expected at most 64 coefficients in a block after {percent}% of the blocks, found more; the JPEG is \
             damaged"
        ),
    }
}
