//! Decodes images with the crate `zune-jpeg`: every kind of JPEG that it supports.

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::plane::{Color, Plane};

/// Decodes an image into its planes.
///
/// # Errors
/// The error says what was expected and what was found.
pub(crate) fn decode(jpeg: &[u8], planes: &mut Vec<Plane>) -> Result<Color, String> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(jpeg), options);
    decoder.decode_headers().map_err(describe)?;
    let (width, height) = decoder.dimensions().ok_or("expected a frame, found none")?;
    let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (color, count, wanted) = match is_grey {
        true => (Color::Grey, 1, ColorSpace::Luma),
        false => (Color::Rgb, 3, ColorSpace::RGB),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(wanted));
    let pixels = decoder.decode().map_err(describe)?;
    planes.resize_with(count, Plane::default);
    for (number, plane) in planes.iter_mut().enumerate() {
        plane.size = [width, height];
        (plane.factor, plane.is_smooth) = ([1, 1], false);
        plane.needed = [0..width, 0..height];
        plane.stride = width.next_multiple_of(8);
        plane.samples.clear();
        for row in pixels.chunks_exact(width * count) {
            plane.samples.extend(row.iter().skip(number).step_by(count));
            plane.samples.resize(plane.samples.len().next_multiple_of(plane.stride), 0);
        }
    }
    Ok(color)
}

fn describe(error: DecodeErrors) -> String {
    format!("expected a whole JPEG: {error}")
}
