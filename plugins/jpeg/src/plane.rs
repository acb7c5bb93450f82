//! The components of a decoded image, before they are resized.

use std::ops::Range;

/// The meaning of an image's planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    /// One plane.
    Grey,
    /// Three planes.
    Rgb,
    /// Three planes: brightness, and two differences.
    YCbCr,
}

/// One component of an image.
#[derive(Debug, Default)]
pub(crate) struct Plane {
    /// Columns and rows.
    pub(crate) size: [usize; 2],
    /// Columns and rows of the image for each one of the plane: 1 or 2.
    pub(crate) factor: [usize; 2],
    /// Whether libjpeg interpolates a plane of half the columns or rows with its neighbours.
    pub(crate) is_smooth: bool,
    /// Columns and rows of a block.
    pub(crate) edge: usize,
    /// Columns and rows that the array needs. Others need not be decoded.
    pub(crate) needed: [Range<usize>; 2],
    /// Size of a row in bytes: a multiple of 8.
    pub(crate) stride: usize,
    pub(crate) samples: Vec<u8>,
}
