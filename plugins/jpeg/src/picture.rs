//! Converts the bytes of a JPEG to an array: decoded, resized, cut out, in red, green and blue.

use crate::baseline::Baseline;
use crate::colors;
use crate::library;
use crate::plane::Plane;
use crate::resize::Resizer;

/// Makes arrays from images. It keeps memory for the next one.
pub(crate) struct Pictures {
    size: usize,
    max_pixels: u64,
    /// Whether large images may be decoded at a half, a quarter or an eighth of their size.
    draft: bool,
    baseline: Baseline,
    planes: Vec<Plane>,
    resizer: Resizer,
    resized: [Vec<u8>; 3],
}

impl Pictures {
    /// Arrays of `size` rows and columns, of images of at most `max_pixels`.
    pub(crate) fn new(size: usize, max_pixels: u64, draft: bool) -> Self {
        Self {
            size,
            max_pixels,
            draft,
            baseline: Baseline::default(),
            planes: Vec::new(),
            resizer: Resizer::new(size),
            resized: Default::default(),
        }
    }

    /// Appends the array of an image to `out`.
    ///
    /// # Errors
    /// The error says what was expected and what was found.
    pub(crate) fn decode(&mut self, jpeg: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let header = self.baseline.read_header(jpeg, self.max_pixels)?;
        let (mut width, mut height) = (header.width, header.height);
        let color = match &header.scan {
            Some(scan) => {
                let divisor = self.divisor(width.min(height));
                (width, height) = (width.div_ceil(divisor), height.div_ceil(divisor));
                self.baseline.set_planes(&header, scan, divisor, &mut self.planes);
                for plane in &mut self.planes {
                    plane.needed = self.resizer.needed(width, height, plane);
                }
                self.baseline.decode(jpeg, &header, scan, &mut self.planes)?;
                scan.color
            }
            None => library::decode(jpeg, &mut self.planes)?,
        };
        for (plane, resized) in self.planes.iter().zip(&mut self.resized) {
            self.resizer.resize(width, height, plane, resized);
        }
        colors::append(color, &self.resized, self.size, out);
        Ok(())
    }

    /// The divisor of an image while it is decoded, as `draft` of Pillow chooses it: the shorter
    /// side is still not shorter than the array.
    fn divisor(&self, shorter: usize) -> usize {
        let fits = |divisor: &usize| shorter / self.size >= *divisor;
        [8, 4, 2].into_iter().find(fits).filter(|_| self.draft).unwrap_or(1)
    }
}
