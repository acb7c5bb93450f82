//! Resizes the shorter side of an image to the size of the array, and cuts out the centre.
//!
//! The filter is a triangle as wide as the scale, as in Pillow's `BILINEAR` and torchvision's
//! `Resize`. Sizes and positions are those of torchvision's `Resize` and `CenterCrop`. Rows and
//! columns that are cut off are never read.
//!
//! A plane with half of the columns or rows is not enlarged first. The filter with which libjpeg
//! enlarges it is part of the weights: see [`Weights`].

use std::ops::Range;

use crate::lanes::{I16s, Sums, transpose};
use crate::plane::Plane;

/// Bits of the fraction of a weight.
const WEIGHT_BITS: u32 = 14;
/// Bits of the fraction of a sample between the two passes.
const BETWEEN_BITS: u32 = 6;
/// Largest number of weights that are kept for other images.
const MAX_KEPT: usize = 32;

/// One direction of an image, and the position of the array in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Axis {
    /// Number of columns or rows of the image.
    source: usize,
    /// The same number after resizing.
    resized: usize,
    /// The start of the array in these.
    start: usize,
}

/// The columns and rows of an image of this width and height.
fn axes(width: usize, height: usize, size: usize) -> [Axis; 2] {
    let shorter = width.min(height);
    [width, height].map(|source| {
        let resized = size * source / shorter;
        // Python rounds halves to even numbers.
        let rest = resized - size;
        let start = if rest % 4 == 3 { rest.div_ceil(2) } else { rest / 2 };
        Axis { source, resized, start }
    })
}

/// The parameters of the weights of a plane, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    axis: Axis,
    /// Number of columns or rows of the plane, and of the image for each of them.
    samples: usize,
    factor: usize,
    /// Whether libjpeg enlarges it by interpolation with its neighbours.
    is_smooth: bool,
}

/// For each position of the array, the samples that count, with their weights.
///
/// libjpeg enlarges a plane of half the columns: each column becomes two, and each of the two is
/// 3/4 of its own and 1/4 of the neighbour on its side. Resizing the larger plane is the same as
/// resizing this one with other weights.
#[derive(Debug)]
struct Weights {
    key: Key,
    /// Number of weights of a position: an even number.
    taps: usize,
    /// For each position, the first sample.
    starts: Vec<usize>,
    /// For each position, the weights from there on. The weights after the last sample are zero.
    weights: Vec<i16>,
    /// The samples that count for any position.
    needed: Range<usize>,
}

impl Weights {
    fn new(key: Key, size: usize) -> Self {
        let exact: Vec<_> = (0..size).map(|place| key.exact(place)).collect();
        let ends = exact.iter().map(|(first, row)| first + row.len());
        let needed = exact[0].0..ends.max().unwrap_or_default();
        let taps = exact.iter().map(|(_, row)| row.len()).max().unwrap_or(1).next_multiple_of(2);
        let mut weights = vec![0; taps * size];
        for ((_, row), weights) in exact.iter().zip(weights.chunks_exact_mut(taps)) {
            round(row, weights);
        }
        let starts = exact.into_iter().map(|(first, _)| first).collect();
        Self { key, taps, starts, weights, needed }
    }

    /// The pairs of weights of a position, and the sample of each pair.
    fn pairs(&self, place: usize) -> impl Iterator<Item = (usize, [i16; 2])> {
        let weights = &self.weights[place * self.taps..][..self.taps];
        let (pairs, _) = weights.as_chunks::<2>();
        pairs
            .iter()
            .enumerate()
            .map(move |(pair, weights)| (self.starts[place] + 2 * pair, *weights))
    }
}

impl Key {
    /// The first sample that counts for a position of the array, and the weights from there on.
    fn exact(&self, place: usize) -> (usize, Vec<f64>) {
        let Self { axis, samples, factor, is_smooth } = *self;
        let scale = axis.source as f64 / axis.resized as f64;
        let radius = scale.max(1.0);
        let center = ((axis.start + place) as f64 + 0.5) * scale;
        let from = (center - radius + 0.5).max(0.0) as usize;
        let to = ((center + radius + 0.5) as usize).min(axis.source);
        let triangle = |at: usize| (1.0 - ((at as f64 + 0.5 - center) / radius).abs()).max(0.0);
        let sum: f64 = (from..to).map(triangle).sum();
        let first = (from / factor).saturating_sub(1);
        let mut row = vec![0.0; to / factor + 2 - first];
        for at in from..to {
            let (own, weight) = (at / factor, triangle(at) / sum);
            if factor == 1 || !is_smooth {
                row[own - first] += weight;
                continue;
            }
            let neighbour = if at % 2 == 0 { own.saturating_sub(1) } else { own + 1 };
            row[own - first] += 0.75 * weight;
            row[neighbour.min(samples - 1) - first] += 0.25 * weight;
        }
        let zeros = row.iter().take_while(|weight| **weight == 0.0).count();
        row.drain(..zeros);
        while row.last() == Some(&0.0) {
            row.pop();
        }
        (first + zeros, row)
    }
}

/// Weights as integers whose sum is one: the rounding error is added to the largest.
fn round(row: &[f64], weights: &mut [i16]) {
    let one = 1 << WEIGHT_BITS;
    for (weight, exact) in weights.iter_mut().zip(row) {
        *weight = (exact * f64::from(one)).round() as i16;
    }
    let sum: i32 = weights.iter().map(|weight| i32::from(*weight)).sum();
    if let Some(largest) = weights.iter_mut().max_by_key(|weight| **weight) {
        *largest += (one - sum) as i16;
    }
}

/// Resizes planes. It keeps memory and weights for the next image.
pub(crate) struct Resizer {
    /// Number of columns and rows of the array.
    size: usize,
    kept: Vec<Weights>,
    /// Eight rows of the array, of the needed columns of the plane: in chunks of eight columns.
    rows: Vec<[i16; 8]>,
    /// The same, transposed: for each column, its eight rows.
    columns: Vec<[i16; 8]>,
    /// The starts of the pairs of rows, and their weights.
    pairs: Vec<([usize; 2], I16s)>,
}

impl Resizer {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, kept: Vec::new(), rows: Vec::new(), columns: Vec::new(), pairs: Vec::new() }
    }

    /// The columns and rows of a plane that are needed. The image has this width and height.
    pub(crate) fn needed(
        &mut self,
        width: usize,
        height: usize,
        plane: &Plane,
    ) -> [Range<usize>; 2] {
        let [columns, rows] = self.weights(width, height, plane);
        [self.kept[columns].needed.clone(), self.kept[rows].needed.clone()]
    }

    /// Indices of the weights for the columns and rows of a plane.
    fn weights(&mut self, width: usize, height: usize, plane: &Plane) -> [usize; 2] {
        if self.kept.len() + 2 > MAX_KEPT {
            self.kept.clear();
        }
        let axes = axes(width, height, self.size);
        [0, 1].map(|axis| {
            let (samples, factor) = (plane.size[axis], plane.factor[axis]);
            let key = Key { axis: axes[axis], samples, factor, is_smooth: plane.is_smooth };
            self.kept.iter().position(|weights| weights.key == key).unwrap_or_else(|| {
                self.kept.push(Weights::new(key, self.size));
                self.kept.len() - 1
            })
        })
    }

    /// Resizes a plane into `out`, whose rows have a multiple of 8 bytes. The image has this width and
    /// height.
    pub(crate) fn resize(&mut self, width: usize, height: usize, plane: &Plane, out: &mut Vec<u8>) {
        let indices = self.weights(width, height, plane);
        let [columns, rows] = indices.map(|index| &self.kept[index]);
        let (size, stride) = (self.size, self.size.next_multiple_of(8));
        let first = columns.needed.start / 8 * 8;
        let chunks = (columns.needed.end - first).div_ceil(8);
        self.rows.resize(8 * chunks, [0; 8]);
        self.columns.resize(8 * chunks + columns.taps, [0; 8]);
        out.resize(stride * stride, 0);
        for (group, out) in out.chunks_exact_mut(8 * stride).enumerate() {
            for (row, between) in self.rows.chunks_exact_mut(chunks).enumerate() {
                // The rows after the last one are dropped.
                let place = (8 * group + row).min(size - 1);
                self.pairs.clear();
                self.pairs.extend(rows.pairs(place).map(|(row, [upper, lower])| {
                    // Rows after the last one have no weight.
                    let at = |row: usize| row.min(plane.size[1] - 1) * plane.stride + first;
                    ([at(row), at(row + 1)], I16s::splat_pair(upper, lower))
                }));
                sum_rows(&plane.samples, &self.pairs, between);
            }
            for chunk in 0..chunks {
                let rows = std::array::from_fn(|row| I16s::load(&self.rows[row * chunks + chunk]));
                for (column, to) in transpose(rows).into_iter().zip(&mut self.columns[8 * chunk..])
                {
                    column.store(to);
                }
            }
            for chunk in 0..stride / 8 {
                let column = |column: usize| {
                    let place = (8 * chunk + column).min(size - 1);
                    sum_columns(&self.columns, columns.pairs(place), first)
                };
                let rows = transpose(std::array::from_fn(column));
                for (row, out) in rows.into_iter().zip(out.chunks_exact_mut(stride)) {
                    if let Some(out) = out[8 * chunk..].first_chunk_mut() {
                        row.store_bytes(out);
                    }
                }
            }
        }
    }
}

/// The sums of pairs of rows, in chunks of eight columns.
fn sum_rows(samples: &[u8], pairs: &[([usize; 2], I16s)], out: &mut [[i16; 8]]) {
    const SHIFT: u32 = WEIGHT_BITS - BETWEEN_BITS;
    for (chunk, out) in out.iter_mut().enumerate() {
        let mut sums = Sums::splat(1 << (SHIFT - 1));
        for ([upper, lower], weights) in pairs {
            let load = |row: &usize| {
                let chunk = samples[row + 8 * chunk..].first_chunk();
                chunk.map_or(I16s::splat(0), I16s::load_bytes)
            };
            sums = sums.add(Sums::of(load(upper).interleave(load(lower)), *weights));
        }
        sums.shift::<SHIFT>().store(out);
    }
}

/// The sum of columns, for eight rows.
#[inline(always)]
fn sum_columns(
    columns: &[[i16; 8]],
    pairs: impl Iterator<Item = (usize, [i16; 2])>,
    first: usize,
) -> I16s {
    const SHIFT: u32 = WEIGHT_BITS + BETWEEN_BITS;
    let mut sums = Sums::splat(1 << (SHIFT - 1));
    for (column, [left, right]) in pairs {
        let columns = &columns[column - first..][..2];
        let pair = I16s::load(&columns[0]).interleave(I16s::load(&columns[1]));
        sums = sums.add(Sums::of(pair, I16s::splat_pair(left, right)));
    }
    sums.shift::<SHIFT>()
}
